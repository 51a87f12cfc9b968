//! I5: a refresh runs as its entry's principal. A principal that lost its rights refreshes no other principal's entry.

use std::sync::Arc;

use serde_json::json;

use super::scripted_cluster::{ANN, BOB, ScriptedCluster, WAIT_MAX, code, is_stale, lines};
use crate::support::http::{self, Reply, basic};
use crate::support::until;

const STATEMENT: &str = "RETURN 'principals' AS what";

fn request_of(user: (&str, &str)) -> Arc<[u8]> {
    let body = json!({ "statement": STATEMENT, "parameters": {} }).to_string();
    http::post("/db/neo4j/query/v2", &basic(user.0, user.1), &body)
}

fn runs_of(cluster: &ScriptedCluster, user: &str) -> usize {
    cluster.neo4j.orders().came(STATEMENT).iter().filter(|run| run.user == user).count()
}

async fn until_expired(cluster: &ScriptedCluster, user: &str) {
    let question = json!({ "principal": user, "statement": STATEMENT, "parameters": {} });
    until(&format!("{user}'s entry expires"), WAIT_MAX, async || {
        let explained = cluster.nodes[0].order("/admin/v1/explain", &question).await;
        explained["entry"]["ttl_ms"].as_i64().is_some_and(|left| left <= -50)
    })
    .await;
}

fn assert_own(reply: &Reply, user: &str) {
    assert_eq!(reply.value(), user, "another's answer: {reply}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_principals_refresh_runs_as_itself() {
    let cluster = ScriptedCluster::start(1, lines("1s", 10.0, "10m", ""), "").await;
    let (ann, bob) = (request_of(ANN), request_of(BOB));
    for (request, (user, _)) in [(&ann, ANN), (&bob, BOB)] {
        assert_own(&cluster.ask(request).await, user);
    }
    for (request, (user, _)) in [(&ann, ANN), (&bob, BOB)] {
        until_expired(&cluster, user).await;
        let reply = cluster.ask(request).await;
        assert!(is_stale(&reply), "{reply}");
        assert_own(&reply, user);
        assert_own(&cluster.until_fresh(request).await, user);
    }
    assert_eq!((runs_of(&cluster, "ann"), runs_of(&cluster, "bob")), (2, 2));

    until_expired(&cluster, "ann").await;
    until_expired(&cluster, "bob").await;
    cluster.neo4j.orders().take_rights("bob");
    until("Neo4j refuses bob's request", WAIT_MAX, async || cluster.ask(&bob).await.status != 202).await;
    for _ in 0..3 {
        let reply = cluster.ask(&bob).await;
        assert_eq!(code(&reply), "Neo.ClientError.Security.Forbidden", "{reply}");
    }
    assert!(runs_of(&cluster, "bob") >= 3, "the server was asked as bob");
    assert_eq!(runs_of(&cluster, "ann"), 2, "bob's requests ran nothing as ann");
    let stale = cluster.ask(&ann).await;
    assert!(is_stale(&stale), "bob refreshed ann's entry: {stale}");
    assert_own(&cluster.until_fresh(&ann).await, "ann");
    assert_eq!(runs_of(&cluster, "ann"), 3);
}
