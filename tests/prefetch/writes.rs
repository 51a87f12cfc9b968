//! I6: a write, a volatile statement and a procedure are never launched, however often they follow.

use std::time::Duration;

use serde_json::json;

use super::accounting::balanced;
use super::social_graph::{in_session, learned, learning_node, sum, think};
use crate::support::cluster::{OwnLabel, at_neo4j};
use crate::support::until;

const WAIT_MAX: Duration = Duration::from_secs(20);
const ROUNDS: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_a_read_never_follows_by_itself() {
    let label = OwnLabel::new("Writes");
    let name = &label.0;
    at_neo4j(&format!("UNWIND range(100, 140) AS id CREATE (:{name} {{id: id, seen: 0}})")).await;
    let cluster = learning_node().await;
    let node = &cluster.nodes[0];
    let look = format!("MATCH (p:{name} {{id: $id}}) RETURN p.id AS looked_at");
    let others = [
        format!("MATCH (p:{name} {{id: $id}}) SET p.seen = p.seen + 1 RETURN p.seen AS written"),
        "RETURN $id + rand() AS drawn".to_owned(),
        "CALL dbms.components() YIELD name RETURN name + toString($id) AS called".to_owned(),
    ];
    // A read stands between them, so that nodes learn a step: a statement that is no read is not observed.
    let last = format!("MATCH (p:{name} {{id: $id}}) RETURN p.seen AS last");
    for round in 0..ROUNDS {
        let (session, params) = (format!("writer {round}"), json!({ "id": 100 + round }));
        for statement in [&look, &others[0], &others[1], &others[2], &last] {
            let reply = node.ask(&in_session(&session, statement, &params)).await;
            assert_eq!(reply.status, 202, "{reply}");
            think().await;
        }
    }
    until("the walks are learned", WAIT_MAX, async || {
        sum(&cluster, "hopcache_observations_total", "\"learned\"").await >= ROUNDS as f64
    })
    .await;
    let known = learned(node, "looked_at").await;
    assert!(known.iter().any(|(statement, _)| statement.contains("last")), "{known:?}");
    for pupil in 0..8 {
        let params = json!({ "id": 120 + pupil });
        assert_eq!(node.ask(&in_session(&format!("pupil {pupil}"), &look, &params)).await.status, 202);
    }
    let is_launched = cluster
        .proxy
        .wait_until(" AS last", WAIT_MAX, |runs| runs.iter().any(|run| run.query.contains(":12")))
        .await;
    assert!(is_launched, "the read that follows is launched, so candidates were considered");
    // The proxy knows them by their columns, because a launch runs a text's normal form.
    for column in ["written", "drawn", "called"] {
        assert_eq!(cluster.proxy.runs(column), ROUNDS, "as often as clients asked: {column}");
        assert!(known.iter().all(|(statement, _)| !statement.contains(column)), "{known:?}");
    }
    let written = at_neo4j(&format!("MATCH (p:{name}) RETURN sum(p.seen) AS sum")).await.value();
    assert_eq!(written, ROUNDS, "each write once");
    balanced(&cluster.nodes).await;
}
