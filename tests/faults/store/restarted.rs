//! F46: Redis restarts between purges, and closes idle connections. A purge is repeatable, so the node repeats it on a
//! new connection, and none fails.

use std::time::Duration;

use serde_json::json;

use super::WAIT_MAX;
use crate::support::lone::{Lone, Spec};
use crate::support::redis::{Options, RedisServer};
use crate::support::scripted_neo4j::ScriptedNeo4j;
use crate::support::{environment, http, say, until};

const PURGES: usize = 9;

/// Nine purges: before each, Redis restarts (odd ones) or has closed the connections on which nothing was sent for a
/// second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f46_purges_survive_restarts_and_closed_idle_connections() {
    let mut redis = RedisServer::with(Options::args(&["--timeout", "1"])).await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let neo4j = ScriptedNeo4j::start(&[("neo4j", password.as_str())], Duration::ZERO).await;
    let spec = Spec { origin: format!("uri = \"{}\"", neo4j.uri()), ..Spec::on(&redis.uri()) };
    let node = Lone::start(&spec).await;
    let statement = "RETURN 'VERSION f46.' AS what";
    let request = http::query(statement, &json!({}));
    neo4j.orders().set_version(0);
    assert_eq!(node.ask(&request).await.value(), "0");
    let key = node.explain(statement, &json!({})).await["query_key"].clone();
    let (mut statuses, mut values) = (Vec::new(), Vec::new());
    for purge in 1..=PURGES {
        neo4j.orders().set_version(purge as u64);
        if purge % 2 == 1 {
            redis.kill();
            redis.restart().await;
        } else {
            // The node's polling keeps one connection busy; this question's own is the other.
            until("Redis closes idle connections", WAIT_MAX, async || redis.info("connected_clients") == "2")
                .await;
        }
        let order = http::post("/admin/v1/purge", "", &json!({ "query_key": key }).to_string());
        statuses.push(http::ask(node.addrs.admin, &order).await.unwrap().status);
        values.push(node.ask(&request).await.value());
    }
    say(&format!(
        "F46: purges after a restart, after idling, …: {statuses:?}; values after each: {values:?}"
    ));
    assert_eq!(statuses, [200; PURGES], "a purge may be repeated, so no closed connection fails it");
    let due: Vec<_> = (1..=PURGES).map(|purge| json!(purge.to_string())).collect();
    assert_eq!(values, due, "a purged value was served again");
}
