//! Issue 7, "no client ever sees an error caused by prefetch": the password of a user of the real Neo4j changes while
//! nodes still accept the old one for hits. Predictions from these hits try no log-on with it, so Neo4j does not lock
//! the user out.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::isolation::{User, at_system};
use super::social_graph::{learning_node, sum, think};
use crate::support::cluster::{OwnLabel, neo4j_http};
use crate::support::http::{self, Reply, basic};
use crate::support::{say, until};

const WAIT_MAX: Duration = Duration::from_secs(20);
const TAUGHT: usize = 24;
/// Three wrong passwords in a row are enough for Neo4j.
const HITS: usize = 12;
const NEW: &str = "another-password-of-the-user";

async fn as_admin(statement: &str) -> Reply {
    let reply = http::ask(neo4j_http(), &at_system(statement)).await.unwrap();
    assert_eq!(reply.status, 202, "{reply}");
    reply
}

/// Changed, and the connections that were logged on with the old one are closed.
async fn change_password(user: &str) {
    as_admin(&format!("ALTER USER {user} SET PASSWORD '{NEW}' CHANGE NOT REQUIRED")).await;
    let listed = "CALL dbms.listConnections() YIELD connectionId, username RETURN connectionId, username";
    let listed = as_admin(listed).await.json();
    let rows = listed["data"]["values"].as_array().unwrap().iter();
    let ids: Vec<String> = rows
        .filter(|row| row[1].as_str().is_some_and(|whose| whose == user))
        .map(|row| format!("'{}'", row[0].as_str().unwrap()))
        .collect();
    assert!(!ids.is_empty(), "the node is logged on");
    as_admin(&format!("CALL dbms.killConnections([{}])", ids.join(", "))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hits_by_a_password_of_before_lock_nobody_out() {
    let label = OwnLabel::new("Password");
    let (user, cluster) = (User::new(&label.0, "ann").await, learning_node().await);
    let name = &label.0;
    let friends =
        format!("MATCH (p:{name} {{id: $id}})-[:KNOWS]->(f:{name}) RETURN f.id AS friend ORDER BY f.n");
    let profile = format!("MATCH (p:{name} {{id: $person}}) RETURN p.n AS n");
    let look = |session: String, number: usize| {
        user.request(&session, &friends, &json!({ "id": format!("ann-{number}") }))
    };
    let node = &cluster.nodes[0];
    // Before anything is learned, so that nothing is warmed for them.
    for number in 0..HITS {
        assert_eq!(node.ask(&look(format!("visitor {number}"), 100 + number)).await.status, 202);
    }
    for number in 0..TAUGHT {
        let session = format!("teacher {number}");
        let friend = node.ask(&look(session.clone(), number)).await.value();
        think().await;
        let reply = node.ask(&user.request(&session, &profile, &json!({ "person": friend }))).await;
        assert_eq!(reply.status, 202, "{reply}");
    }
    until("the walks are learned", WAIT_MAX, async || {
        sum(&cluster, "hopcache_observations_total", "\"learned\"").await >= TAUGHT as f64 * 0.6
    })
    .await;
    change_password(&user.name).await;
    let came = async || {
        sum(&cluster, "prefetch_attempts_total", "").await + sum(&cluster, "prefetch_skipped_total", "").await
    };
    let before = came().await;
    for number in 0..HITS {
        let reply = node.ask(&look(format!("believed {number}"), 100 + number)).await;
        assert!(reply.is_hit(), "the old password is accepted for a while: {reply}");
    }
    until("what may follow them was ordered", WAIT_MAX, async || came().await >= before + HITS as f64 / 2.0)
        .await;
    let body = json!({ "statement": "RETURN 1 AS one" }).to_string();
    let request: Arc<[u8]> = http::post("/db/neo4j/query/v2", &basic(&user.name, NEW), &body);
    let reply = node.ask(&request).await;
    assert_eq!(reply.status, 202, "the right password is not refused: {reply}");
    assert_eq!(sum(&cluster, "hopcache_origin_errors_total", "\"unauthorized\"").await, 0.0);
    say(&format!(
        "issue 7, changed password: {HITS} hits with the old password, {} ordered, no log-on",
        came().await - before
    ));
}
