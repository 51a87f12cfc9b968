//! TTL 0 is no caching, and no sharing beyond the flight that is under way; a TTL below `refresh.min_ttl` is not
//! refreshed early.

use std::time::Duration;

use super::scripted_cluster::{ScriptedCluster, WAIT_MAX, is_stale, lines, total, versioned};
use crate::support::load::Load;
use crate::support::{http, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_ttl_of_zero_only_a_running_flight_is_shared() {
    let cluster = ScriptedCluster::start(3, lines("0s", 0.5, "10m", ""), "").await;
    let (statement, request) = versioned("zero");
    // The server's word on the statement is had.
    assert_eq!(cluster.ask(&request).await.status, 202);
    cluster.neo4j.orders().hold(&statement);
    let clients = cluster.clients();
    let crowd = (0..30).map(|client| (clients[client % 3], request.clone())).collect();
    let crowd = tokio::spawn(http::crowd(crowd));
    until("they all follow one flight", WAIT_MAX, async || {
        let explained = cluster.nodes[0].explain(&statement, &serde_json::json!({})).await;
        // The owner's own ten less the leader, and a forward at least of each other node.
        explained["flight"]["followers"].as_u64().unwrap_or(0) >= 10
            && cluster.neo4j.orders().count(&statement) >= 2
    })
    .await;
    assert_eq!(cluster.neo4j.orders().count(&statement), 2, "one flight, one run");
    cluster.neo4j.orders().release();
    for reply in crowd.await.unwrap() {
        let reply = reply.unwrap();
        assert!(reply.status == 202 && !reply.is_hit(), "{reply}");
    }
    let ran = cluster.neo4j.orders().count(&statement);
    for asked in 1..=5 {
        let reply = cluster.nodes[asked % 3].ask(&request).await;
        assert!(reply.status == 202 && !reply.is_hit(), "{reply}");
        assert!(!reply.header("cache-status").contains("; stored"), "{reply}");
        assert_eq!(cluster.neo4j.orders().count(&statement), ran + asked, "a request without a run");
    }
    assert!(cluster.redis.keys("hopcache:*:e").is_empty(), "something was kept");
    assert_eq!(total(&cluster.nodes, "cache_hit_total", "").await, 0.0);
    assert_eq!(total(&cluster.nodes, "xfetch_refresh_triggered_total", "").await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_min_ttl_nothing_is_refreshed_before_it_is_stale() {
    // A run of 300 ms would be refreshed long before the end of 3 s, if it were.
    let cluster =
        ScriptedCluster::start(1, lines("3s", 2.0, "10m", "[refresh]\nmin_ttl = \"4s\"\nbeta = 2.0"), "")
            .await;
    let (statement, request) = versioned("below");
    cluster.proxy.delay_runs(&statement, Duration::from_millis(300));
    cluster.warm(&request).await;
    let load = Load::start(&cluster.clients(), &[request], 50);
    let came = cluster.proxy.wait_until(&statement, WAIT_MAX, |runs| runs.len() >= 2).await;
    let samples = load.stop().await;
    assert!(came);
    let runs = cluster.proxy.seen(&statement);
    // Counted from where the run came to the proxy, which is less than 50 ms from its read's start.
    let gap = runs[1].arrived - runs[0].arrived;
    assert!(gap >= Duration::from_millis(2_950), "refreshed after {gap:?}");
    let first_stale = samples.iter().find(|sample| is_stale(sample.reply())).expect("a stale answer");
    assert!(first_stale.due <= runs[1].arrived, "refreshed before anybody met it stale");
    assert!(total(&cluster.nodes, "hopcache_refresh_late_total", "").await >= 1.0, "its refresh is late");
}
