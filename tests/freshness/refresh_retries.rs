//! A failed refresh is tried again by itself, after growing pauses.

use std::time::Duration;

use serde_json::json;

use super::scripted_cluster::{ScriptedCluster, TRANSIENT, WAIT_MAX, is_stale, lines, total, versioned};
use crate::support::scripted_orders::Fate;
use crate::support::{say, until};

/// There is only one request, so no client asked for later runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_refresh_is_tried_again_without_a_request() {
    let refresh = "[refresh]\nretry_max = 3\nretry_backoff = 4.0";
    let cluster = ScriptedCluster::start(1, lines("1s", 10.0, "10m", refresh), "").await;
    let (statement, request) = versioned("retries");
    cluster.neo4j.orders().set_version(1);
    cluster.warm(&request).await;
    cluster.until_expired(&statement).await;
    cluster.neo4j.orders().set_version(2);
    cluster.neo4j.orders().doom(&statement, Fate::Fail(TRANSIENT), 2);
    assert!(is_stale(&cluster.ask(&request).await));
    let requests = total(&cluster.nodes, "hopcache_requests_total", "").await;
    until("the third try brings a value", WAIT_MAX, async || {
        total(&cluster.nodes, "xfetch_refresh_completed_total", "").await == 1.0
    })
    .await;
    assert_eq!(total(&cluster.nodes, "hopcache_requests_total", "").await, requests, "nobody asked");
    let runs = cluster.neo4j.orders().came(&statement);
    assert_eq!(runs.len(), 4, "one for the first request, the refresh, and two retries");
    assert_eq!(total(&cluster.nodes, "hopcache_refresh_retried_total", "").await, 2.0);
    assert_eq!(total(&cluster.nodes, "xfetch_refresh_triggered_total", "").await, 1.0);
    assert_eq!(total(&cluster.nodes, "xfetch_refresh_failed_total", "").await, 0.0, "it came to a good end");
    let pauses: Vec<Duration> =
        runs[1..].windows(2).map(|two| two[1].at - two[0].ended.unwrap_or(two[0].at)).collect();
    say(&format!("retries: pauses of {pauses:?}"));
    // A factor of 4 is more than a jitter by half can undo.
    assert!(pauses[1] > pauses[0], "they do not grow: {pauses:?}");
    let fresh = cluster.ask(&request).await;
    assert_eq!((fresh.is_hit(), fresh.value()), (true, json!("2")), "{fresh}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_retries_are_off_the_next_request_tries() {
    let cluster =
        ScriptedCluster::start(1, lines("1s", 10.0, "10m", "[refresh]\nretry_enabled = false"), "").await;
    let (statement, request) = versioned("no retries");
    cluster.warm(&request).await;
    cluster.until_expired(&statement).await;
    cluster.neo4j.orders().doom(&statement, Fate::Fail(TRANSIENT), 1);
    assert!(is_stale(&cluster.ask(&request).await));
    until("it has failed", WAIT_MAX, async || {
        total(&cluster.nodes, "xfetch_refresh_failed_total", "").await == 1.0
    })
    .await;
    cluster.until_fresh(&request).await;
    assert_eq!(cluster.neo4j.orders().count(&statement), 3);
    assert_eq!(total(&cluster.nodes, "hopcache_refresh_retried_total", "").await, 0.0);
}
