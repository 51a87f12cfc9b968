//! F25 to F29: a Neo4j that is gone, slow, failing, cut or too large. A proxy counts runs and connections outside
//! hopcache. One node, its own Redis, and the real Neo4j behind the proxy.

mod connection_cut;
mod large_results;
mod neo4j_errors;
mod slow_runs;
mod slower_than_usual;
mod unreachable;

use std::time::Duration;

use serde_json::json;

use crate::support::cluster::{Cluster, Plan};
use crate::support::http::{self, Reply};
use crate::support::until;

/// One node; `entry` and `origin` are lines of its configuration.
async fn one_node(entry: &'static str, origin: &'static str) -> Cluster {
    Cluster::of(Plan { started: 1, seeded: 1, entry, origin, ..Plan::default() }).await
}

/// This many clients ask the same at the same moment.
async fn crowd(cluster: &Cluster, statement: &str, size: usize) -> Vec<Reply> {
    let request = http::query(statement, &json!({}));
    crowd_of(cluster, (0..size).map(|_| request.clone()).collect()).await
}

async fn crowd_of(cluster: &Cluster, requests: Vec<std::sync::Arc<[u8]>>) -> Vec<Reply> {
    let addr = cluster.nodes[0].addrs.client;
    let replies = http::crowd(requests.into_iter().map(|request| (addr, request)).collect()).await;
    replies.into_iter().map(|reply| reply.expect("an answer")).collect()
}

async fn ask(cluster: &Cluster, statement: &str) -> Reply {
    cluster.nodes[0].ask(&http::query(statement, &json!({}))).await
}

/// Hopcache's own error, which says when to come back.
fn assert_failed(reply: &Reply, status: u16, code: &str) {
    assert_eq!(reply.status, status, "{reply}");
    assert_eq!(reply.json()["errors"][0]["code"], code, "{reply}");
    // To repeat a client error cannot help.
    let is_transient = code.contains(".TransientError.");
    let seconds = reply.header("retry-after").parse::<u32>();
    assert_eq!(seconds.is_ok_and(|seconds| seconds > 0), is_transient, "{reply}");
}

/// The slowest of some answers.
fn slowest(replies: &[Reply]) -> Duration {
    replies.iter().map(|reply| reply.took).max().unwrap_or_default()
}

async fn degraded(cluster: &Cluster) -> serde_json::Value {
    let ready = cluster.nodes[0].admin("/readyz").await.unwrap();
    assert_eq!(ready.status, 200, "it can serve: {ready}");
    ready.json()["degraded"].clone()
}

async fn until_degraded(cluster: &Cluster, parts: serde_json::Value, within: Duration) {
    until(&format!("degraded is {parts}"), within, async || degraded(cluster).await == parts).await;
}

/// A counter; 0 if there is none.
async fn counted(cluster: &Cluster, name: &str, labels: &str) -> f64 {
    cluster.nodes[0].metric(name, labels).await.unwrap_or(0.0)
}

/// I10, I11: no entry and no lease is left in Redis.
async fn assert_nothing_stored(cluster: &Cluster) {
    assert_stored(cluster, 0).await;
}

/// I10, I11: so many entries are in Redis, and no lease.
async fn assert_stored(cluster: &Cluster, entries: usize) {
    cluster.redis.committed().await;
    let stored = cluster.redis.keys("hopcache:*:e");
    assert_eq!(stored.len(), entries, "{stored:?}");
}
