//! Must-show 3: a crowd on an entry past its soft TTL. Everybody is served the stale value while one refresh runs.

use std::time::Duration;

use serde_json::json;

use super::scripted_cluster::{ScriptedCluster, WAIT_MAX, age_s, is_stale, lines, total, ttl_s, versioned};
use crate::support::{http, say, until};

/// The run is held until all requests are answered: so none waited for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_on_a_stale_entry_are_served_at_once_and_one_refresh_runs() {
    let cluster = ScriptedCluster::start(3, lines("1s", 10.0, "10m", ""), "").await;
    let (statement, request) = versioned("crowd");
    cluster.neo4j.orders().set_version(1);
    cluster.warm(&request).await;
    cluster.neo4j.orders().set_version(2);
    cluster.until_expired(&statement).await;
    cluster.neo4j.orders().hold(&statement);

    let clients = cluster.clients();
    let crowd = (0..100).map(|client| (clients[client % 3], request.clone())).collect();
    let replies = http::crowd(crowd).await;
    // At Neo4j, not only at the proxy before it.
    until("a refresh is under way", WAIT_MAX, async || cluster.neo4j.orders().count(&statement) >= 2).await;
    let mut slowest = Duration::ZERO;
    for reply in replies {
        let reply = reply.unwrap();
        assert!(is_stale(&reply), "{reply}");
        assert!(ttl_s(&reply).unwrap() < 0 && age_s(&reply) >= 1, "{reply}");
        assert_eq!(reply.value(), "1", "{reply}");
        slowest = slowest.max(reply.took);
    }
    assert_eq!(cluster.neo4j.orders().count(&statement), 2, "one refresh for the whole cluster");
    assert!(cluster.neo4j.orders().came(&statement)[1].ended.is_none(), "the refresh ran all the while");
    assert!(total(&cluster.nodes, "xfetch_active_refreshes", "").await >= 1.0);
    cluster.neo4j.orders().release();
    let fresh = cluster.until_fresh(&request).await;
    assert_eq!((fresh.value(), age_s(&fresh) < 10), (json!("2"), true), "{fresh}");
    assert_eq!(cluster.neo4j.orders().count(&statement), 2, "nobody else ran");
    assert_eq!(total(&cluster.nodes, "xfetch_refresh_triggered_total", "").await, 1.0);
    // The count is at the node with the copy. Requests that share a hop are one answer there.
    assert!(total(&cluster.nodes, "xfetch_stale_served_total", "").await >= 35.0);
    say(&format!(
        "100 on a stale entry over 3 nodes: all stale, 1 refresh, slowest {} ms",
        slowest.as_millis()
    ));
}
