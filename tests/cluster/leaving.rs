//! F12: a node that leaves on SIGTERM.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::cluster::{Cluster, Plan};
use crate::support::pace::Slowness;
use crate::support::{http, say, until};

/// F12: the node is not ready at once, answers requests in flight, leaves no lease, and exits with 0 in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_told_to_leave_finishes_its_flights() {
    let mut cluster = Cluster::start().await;
    let statement = "RETURN $k AS k, 'in flight' AS what";
    let slowness = Slowness::of(&cluster.clients()).await;
    cluster.proxy.delay_runs("in flight", Duration::from_secs(4));
    let parameters = cluster.owned_by(0, statement).await;
    let request = http::query(statement, &parameters);
    // One client of the leaving node and one of another node wait for the leaving node's flight.
    let clients = vec![
        (cluster.nodes[0].addrs.client, request.clone()),
        (cluster.nodes[1].addrs.client, request.clone()),
    ];
    let crowd = tokio::spawn(http::crowd(clients));
    let arrived = cluster.proxy.wait_until("in flight", Duration::from_secs(10), |runs| !runs.is_empty());
    assert!(arrived.await);
    assert_eq!(cluster.redis.keys("hopcache:*:l").len(), 1, "the flight holds its lease");

    cluster.nodes[0].signal("TERM");
    let sigterm_at = Instant::now();
    until("readyz says 503", slowness.bound(Duration::from_millis(500)), async || {
        cluster.nodes[0].admin("/readyz").await.unwrap().status == 503
    })
    .await;
    let not_ready = sigterm_at.elapsed();
    for reply in crowd.await.unwrap() {
        assert_eq!(reply.expect("an answer").value(), parameters["k"]);
    }
    let status = cluster.nodes[0].exit(slowness.bound(Duration::from_secs(10))).await;
    say(&format!(
        "leaving: not ready after {} ms, gone after {} ms",
        not_ready.as_millis(),
        sigterm_at.elapsed().as_millis()
    ));
    assert_eq!(status.code(), Some(0));
    assert_eq!(cluster.proxy.runs("in flight"), 1);
    assert!(cluster.redis.keys("hopcache:*:l").is_empty(), "a lease was left behind");
    let reply = cluster.nodes[1].ask(&request).await;
    assert!(reply.is_hit(), "what the leaving node stored serves the others: {reply}");
}

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
