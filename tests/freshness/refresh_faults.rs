//! While a refresh runs, its lease is lost, its holder is killed, or the store is gone (I3, F1, F17). The stale value
//! stays, no node runs without a lease, and the next refresh brings the newer value.

use std::time::{Duration, Instant};

use serde_json::json;

use super::scripted_cluster::{ScriptedCluster, WAIT_MAX, is_stale, lines, total, versioned};
use crate::support::load::Load;
use crate::support::pace::Slowness;
use crate::support::{say, until};

const FENCED: &str = "outcome=\"fenced\"";

/// At Neo4j, not only at the proxy before it.
async fn held_refresh_arrives(cluster: &ScriptedCluster, statement: &str) {
    until("a refresh runs", WAIT_MAX, async || cluster.neo4j.orders().count(statement) >= 2).await;
}

/// I3: a refresh loses its lease after its read. Its result is fenced and never served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_that_lost_its_lease_is_fenced() {
    let cluster = ScriptedCluster::start(1, lines("1s", 10.0, "10m", ""), "").await;
    let (statement, request) = versioned("fenced");
    let orders = cluster.neo4j.orders();
    orders.set_version(1);
    cluster.warm(&request).await;
    cluster.until_expired(&statement).await;
    orders.set_version(2);
    orders.hold(&statement);
    assert!(is_stale(&cluster.ask(&request).await));
    held_refresh_arrives(&cluster, &statement).await;
    let leases = cluster.redis.keys("hopcache:*:l");
    assert_eq!(leases.len(), 1, "{leases:?}");
    assert_eq!(cluster.redis.tell(&format!("DEL {}", leases[0])), ":1");
    orders.set_version(3);
    orders.release();
    until("its result is counted as fenced", WAIT_MAX, async || {
        total(&cluster.nodes, "hopcache_commits_total", FENCED).await == 1.0
    })
    .await;
    until("the next refresh stores", WAIT_MAX, async || {
        let reply = cluster.ask(&request).await;
        let (value, is_stale) = (reply.value(), is_stale(&reply));
        assert!(value == if is_stale { "1" } else { "3" }, "the fenced value is served: {reply}");
        !is_stale
    })
    .await;
    assert_eq!(orders.count(&statement), 3, "the first, the fenced one, and one more");
}

/// F1, I7: with a stale copy, the death of the refresh's holder delays no request, and another node takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_killed_in_its_refresh_is_succeeded_and_nobody_notices() {
    let mut cluster = ScriptedCluster::start(3, lines("1s", 10.0, "10m", ""), "").await;
    let (statement, request) = versioned("killed");
    cluster.neo4j.orders().set_version(1);
    cluster.warm(&request).await;
    let owner = cluster.owner(&statement, &json!({})).await;
    cluster.until_expired(&statement).await;
    cluster.neo4j.orders().set_version(2);
    cluster.neo4j.orders().hold(&statement);
    assert!(is_stale(&cluster.nodes[owner].ask(&request).await));
    held_refresh_arrives(&cluster, &statement).await;
    let others: Vec<_> = (0..3).filter(|node| *node != owner).map(|node| cluster.clients()[node]).collect();
    let most = Slowness::of(&others).await.bound(Duration::from_secs(1));
    let load = Load::start(&others, std::slice::from_ref(&request), 40);
    cluster.nodes[owner].kill();
    let killed = Instant::now();
    cluster.neo4j.orders().set_version(3);
    cluster.neo4j.orders().release();
    let survivor = &cluster.nodes[(owner + 1) % 3];
    let fresh = super::scripted_cluster::until_fresh(survivor, &request).await;
    let took = killed.elapsed();
    let samples = load.stop().await;
    let slowest = samples.iter().map(|sample| sample.took).max().unwrap();
    say(&format!(
        "owner killed in its refresh: {} requests, slowest {} ms, a newer value after {} ms",
        samples.len(),
        slowest.as_millis(),
        took.as_millis()
    ));
    assert!(slowest < most, "a client waited: {slowest:?}, {most:?} at most");
    assert_eq!(fresh.value(), "3", "{fresh}");
    for sample in &samples {
        let reply = sample.reply();
        assert_eq!(reply.status, 202, "{reply}");
        assert!(reply.is_hit(), "a client waited for a run: {reply}");
        assert!(reply.value() == "1" || reply.value() == "3", "a dead node's result: {reply}");
    }
    assert_eq!(cluster.neo4j.orders().count(&statement), 3, "one more run than without the kill");
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Hangs,
    Dies,
}

async fn store_is_lost(loss: Loss) {
    let mut cluster = ScriptedCluster::start(1, lines("1s", 10.0, "10m", ""), "").await;
    let (running, running_request) = versioned("store running");
    let (waiting, waiting_request) = versioned("store waiting");
    cluster.warm(&running_request).await;
    cluster.warm(&waiting_request).await;
    let slowness = Slowness::of(&cluster.clients()).await;
    cluster.until_expired(&waiting).await;
    cluster.neo4j.orders().hold("store running");
    assert!(is_stale(&cluster.ask(&running_request).await));
    held_refresh_arrives(&cluster, &running).await;
    let stored = cluster.redis.keys("hopcache:*:e").len();
    match loss {
        Loss::Hangs => cluster.redis.signal("STOP"),
        Loss::Dies => cluster.redis.kill(),
    }
    cluster.neo4j.orders().release();
    let mut slowest = Duration::ZERO;
    // Both refreshes end, with or without success: without a store there is no lease.
    until("refreshes have failed for want of a store", WAIT_MAX, async || {
        for request in [&running_request, &waiting_request] {
            let reply = cluster.ask(request).await;
            assert_eq!(reply.status, 202, "{loss:?}: {reply}");
            assert!(reply.is_hit(), "{loss:?}: a client waited for a run: {reply}");
            slowest = slowest.max(reply.took);
        }
        total(&cluster.nodes, "xfetch_refresh_failed_total", "").await >= 2.0
    })
    .await;
    // A silent store may cost a command's own deadline.
    let most = slowness.bound(Duration::from_secs(if loss == Loss::Hangs { 2 } else { 1 }));
    assert!(slowest < most, "{loss:?}: {slowest:?}, {most:?} at most");
    assert!(is_stale(&cluster.ask(&waiting_request).await));
    assert_eq!(cluster.neo4j.orders().count(&waiting), 1, "{loss:?}: a refresh ran without a lease");
    match loss {
        Loss::Hangs => cluster.redis.signal("CONT"),
        Loss::Dies => cluster.redis.restart().await,
    }
    cluster.until_fresh(&running_request).await;
    cluster.until_fresh(&waiting_request).await;
    // A store that hung still has its data. One that died came back empty.
    let expected = if loss == Loss::Hangs { stored } else { 2 };
    until("what came is in the store", WAIT_MAX, async || {
        cluster.redis.keys("hopcache:*:e").len() == expected
    })
    .await;
    say(&format!("store {loss:?} during a refresh: stale from memory, slowest {} ms", slowest.as_millis()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_hangs_stale_values_are_served_and_nobody_runs_without_a_lease() {
    store_is_lost(Loss::Hangs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_gone_stale_values_are_served_and_nobody_runs_without_a_lease() {
    store_is_lost(Loss::Dies).await;
}
