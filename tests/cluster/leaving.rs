//! F12: a node that leaves on SIGTERM.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::cluster::{Cluster, Plan};
use crate::support::pace::Slowness;
use crate::support::{http, say};

/// F12: a flight that does not end in time is given up, and its lease is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flight_too_long_for_the_deadline_leaves_no_lease() {
    let mut cluster = Cluster::of(Plan { started: 1, seeded: 1, drain: "2s", ..Plan::default() }).await;
    let slowness = Slowness::of(&cluster.clients()).await;
    cluster.proxy.delay_runs("too long", Duration::from_secs(25));
    let request = http::query("RETURN 'too long' AS what", &json!({}));
    let asking = tokio::spawn(http::crowd(vec![(cluster.nodes[0].addrs.client, request)]));
    let arrived = cluster.proxy.wait_until("too long", Duration::from_secs(10), |runs| !runs.is_empty());
    assert!(arrived.await);
    cluster.nodes[0].signal("TERM");
    let sigterm_at = Instant::now();
    let status = cluster.nodes[0].exit(slowness.bound(Duration::from_secs(6))).await;
    say(&format!(
        "leaving with a 25 s flight, drain 2 s: gone after {} ms",
        sigterm_at.elapsed().as_millis()
    ));
    assert_eq!(status.code(), Some(0));
    assert!(cluster.redis.keys("hopcache:*:l").is_empty(), "a lease was left behind");
    drop(asking);
}
