//! More refreshes than places: the refreshes over the bound are dropped and counted, their keys are served stale, and
//! each is refreshed in the end.

use std::time::{Duration, Instant};

use super::scripted_cluster::{ScriptedCluster, WAIT_MAX, is_stale, lines, total, versioned};
use crate::support::{http, say, until};

const KEYS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_drops_refreshes_and_no_answers() {
    let refresh = "[refresh]\nworkers = 1\nqueue_size = 1\nretry_enabled = false";
    let cluster = ScriptedCluster::start(1, lines("1s", 10.0, "10m", refresh), "").await;
    let (keys, requests): (Vec<_>, Vec<_>) = (0..KEYS).map(|key| versioned(&format!("queue {key}"))).unzip();
    for request in &requests {
        cluster.warm(request).await;
    }
    cluster.until_expired(&keys[KEYS - 1]).await;
    cluster.proxy.delay_runs("queue", Duration::from_millis(150));
    cluster.neo4j.orders().hold("queue");
    let expired = Instant::now();
    let addr = cluster.clients()[0];
    let crowd = || http::crowd(requests.iter().map(|request| (addr, request.clone())).collect());
    for reply in crowd().await {
        let reply = reply.unwrap();
        assert!(is_stale(&reply), "{reply}");
    }
    // One runs, one waits.
    let dropped = async || total(&cluster.nodes, "hopcache_refresh_dropped_total", "").await;
    until("the others are dropped", WAIT_MAX, async || dropped().await >= KEYS as f64 - 2.0).await;
    assert_eq!(total(&cluster.nodes, "xfetch_active_refreshes", "").await, 2.0);
    assert_eq!(total(&cluster.nodes, "xfetch_refresh_queue_size", "").await, 1.0);
    cluster.neo4j.orders().release();
    until("each key has its turn", WAIT_MAX, async || {
        for reply in crowd().await {
            assert_eq!(reply.unwrap().status, 202);
        }
        keys.iter().all(|key| cluster.neo4j.orders().count(key) >= 2)
    })
    .await;
    let at_a_time = cluster.neo4j.orders().most_at_a_time(expired);
    assert_eq!(at_a_time, 1, "runs at a time with one worker");
    until("the queue is empty", WAIT_MAX, async || {
        total(&cluster.nodes, "xfetch_refresh_queue_size", "").await == 0.0
            && total(&cluster.nodes, "xfetch_active_refreshes", "").await == 0.0
    })
    .await;
    say(&format!(
        "full queue: {} dropped, every one of {KEYS} keys refreshed within {} ms, {at_a_time} run at a time",
        dropped().await,
        expired.elapsed().as_millis()
    ));
}
