//! F43, I3, I4: a Redis that comes back with an older snapshot counts as empty: no purged entry is served again, and no
//! run stores under a lease from before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::WAIT_MAX;
use crate::support::cluster::{Cluster, Plan};
use crate::support::http;
use crate::support::process::NodeProcess;
use crate::support::scripted_neo4j::ScriptedNeo4j;
use crate::support::{environment, say, until};

/// Three nodes on their own Redis and a scripted Neo4j.
async fn scripted() -> (Cluster, ScriptedNeo4j) {
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let neo4j = ScriptedNeo4j::start(&[("neo4j", password.as_str())], Duration::ZERO).await;
    let plan = Plan { upstream: Some(neo4j.addr()), ..Plan::default() };
    (Cluster::of(plan).await, neo4j)
}

/// A statement whose answers have the test's version, and its request.
fn versioned(name: &str) -> (String, Arc<[u8]>) {
    let statement = format!("RETURN 'VERSION {name}.' AS what");
    let request = http::query(&statement, &json!({}));
    (statement, request)
}

async fn is_well(node: &NodeProcess) -> bool {
    let reply = node.admin("/readyz").await.unwrap();
    reply.status == 200 && reply.json()["degraded"] == json!([])
}

/// Kills Redis and starts it again from its last snapshot. Returns when every node is well and has polled the log.
async fn restore(cluster: &mut Cluster) {
    cluster.redis.kill();
    cluster.redis.restart().await;
    for node in &cluster.nodes {
        until("the node is well", WAIT_MAX, async || is_well(node).await).await;
    }
}

/// Cached · SAVE · purge (200, all nodes reached) · SIGKILL · restart: the first answers are from after the purge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f43_a_restored_snapshot_brings_no_purged_entry_back() {
    let (mut cluster, neo4j) = scripted().await;
    let (statement, request) = versioned("f43 purged");
    neo4j.orders().set_version(1);
    for node in &cluster.nodes {
        assert_eq!(node.ask(&request).await.value(), "1");
    }
    cluster.redis.committed().await;
    assert_eq!(cluster.redis.tell("SAVE"), "+OK");
    neo4j.orders().set_version(2);
    let key = cluster.nodes[0].explain(&statement, &json!({})).await["query_key"].clone();
    let purged = cluster.nodes[1].order("/admin/v1/purge", &json!({ "query_key": key })).await;
    assert_eq!((&purged["entries"], &purged["unreached"]), (&json!(1), &json!(0)), "{purged}");
    assert!(cluster.redis.keys("hopcache:*:e").is_empty(), "the purge removed it");
    restore(&mut cluster).await;
    let held = cluster.redis.keys("hopcache:*:e");
    assert_eq!(held.len(), 1, "the snapshot did not bring the entry back");
    for (place, node) in cluster.nodes.iter().enumerate() {
        let reply = node.ask(&request).await;
        assert_eq!(reply.value(), "2", "node {place} serves a value from before the purge: {reply}");
    }
    assert_eq!(neo4j.orders().count(&statement), 2, "one run before, one after");
    say(
        "F43: cached, SAVE, purge, SIGKILL, restart with the entry back in Redis: a miss, one run, the new value on 3 nodes",
    );
}

/// A run that had its lease before the SAVE reads the old value; the purge replaces its lease; the restart brings it
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f43_a_run_with_a_lease_of_before_the_restore_is_not_stored() {
    let (mut cluster, neo4j) = scripted().await;
    let (statement, request) = versioned("f43 leased");
    neo4j.orders().set_version(1);
    neo4j.orders().hold(&statement);
    let owner = cluster.owner(&statement, &json!({})).await;
    let client = tokio::spawn(http::crowd(vec![(cluster.nodes[owner].addrs.client, request.clone())]));
    until("the run has read", WAIT_MAX, async || neo4j.orders().count(&statement) == 1).await;
    assert_eq!(cluster.redis.tell("SAVE"), "+OK");
    let leased = Instant::now();
    neo4j.orders().set_version(2);
    let purged = cluster.nodes[(owner + 1) % 3].order("/admin/v1/purge", &json!({ "all": true })).await;
    assert_eq!(purged["unreached"], 0, "{purged}");
    assert!(cluster.redis.keys("hopcache:*:l").is_empty(), "the purge ended the lease");
    restore(&mut cluster).await;
    let name = cluster.redis.keys("hopcache:*:l").pop().expect("the snapshot did not bring the lease back");
    let left = cluster.redis.tell(&format!("PTTL {name}"));
    neo4j.orders().release();
    let reply = client.await.unwrap().remove(0).unwrap();
    assert_eq!(reply.value(), "1", "a request from before the purge may have it: {reply}");
    let status = reply.header("cache-status");
    assert!(!status.contains("; stored"), "stored under a lease that the purge had replaced: {status}");
    for node in &cluster.nodes {
        assert_eq!(node.ask(&request).await.value(), "2", "read before the purge");
    }
    say(&format!(
        "F43: lease back in Redis ({left} ms, {} ms after SAVE), its run ends: {status}; then the new value on 3 nodes",
        leased.elapsed().as_millis()
    ));
}
