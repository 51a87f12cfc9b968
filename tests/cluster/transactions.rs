//! Explicit transactions over HTTP on three nodes: one node holds a transaction, and any node takes its requests.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::cluster::{Cluster, OwnLabel, at_neo4j};
use crate::support::http::{self, Reply};
use crate::support::pace::Slowness;
use crate::support::process::NodeProcess;
use crate::support::{say, until};

const TX: &str = "/db/neo4j/query/v2/tx";

/// The trace of this program's requests. It is in the metadata of their transactions at Neo4j, where other programs have
/// transactions too.
static TRACE: LazyLock<String> = LazyLock::new(|| {
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    format!("00-{nanos:032x}-00f067aa0ba902b7-01")
});

fn headers() -> String {
    format!("{}traceparent: {}\r\n", http::login(), *TRACE)
}

fn posted(path: &str, body: &Value) -> Arc<[u8]> {
    http::post(&format!("{TX}{path}"), &headers(), &body.to_string())
}

async fn post(node: &NodeProcess, path: &str, body: &Value) -> Reply {
    node.ask(&posted(path, body)).await
}

async fn delete(node: &NodeProcess, id: &str) -> Reply {
    let head = format!("DELETE {TX}/{id} HTTP/1.1\r\nhost: t\r\n{}\r\n", http::login());
    node.ask(&Arc::from(head.into_bytes())).await
}

fn statement(text: &str) -> Value {
    json!({ "statement": text })
}

/// The name of the transaction in an answer.
fn id_of(reply: &Reply) -> String {
    assert_eq!(reply.status, 202, "{reply}");
    reply.json()["transaction"]["id"].as_str().expect("a transaction").to_owned()
}

fn create(label: &OwnLabel) -> Value {
    statement(&format!("CREATE (n:{}) RETURN 1 AS made", label.0))
}

async fn made(label: &OwnLabel) -> Value {
    at_neo4j(&format!("MATCH (n:{}) RETURN count(n) AS made", label.0)).await.value()
}

/// This program's transactions at Neo4j that run a statement with this text.
async fn at_neo4j_with(text: &str) -> Value {
    let show = "SHOW TRANSACTIONS YIELD metaData, currentQuery WHERE metaData.traceparent";
    let trace = &*TRACE;
    at_neo4j(&format!("{show} = '{trace}' AND currentQuery CONTAINS '{text}' RETURN count(*) AS open"))
        .await
        .value()
}

/// Waits until Neo4j holds none of this program's transactions.
async fn until_none_at_neo4j(within: Duration) {
    until("Neo4j has no open transaction", within, async || at_neo4j_with("").await == 0).await;
}

async fn held(node: &NodeProcess) -> f64 {
    node.metric("hopcache_http_transactions", "").await.expect("a gauge")
}

/// INTERFACE section 1: any node takes any request of a transaction, one hop from the node that holds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_takes_any_request_of_a_transaction() {
    let label = OwnLabel::new("AnyNode");
    let cluster = Cluster::start().await;
    let nodes = &cluster.nodes;
    for holder in 0..3 {
        let before = made(&label).await;
        let id = id_of(&post(&nodes[holder], "", &create(&label)).await);
        for node in nodes {
            let reply = post(node, &format!("/{id}"), &create(&label)).await;
            assert_eq!((reply.value(), id_of(&reply)), (json!(1), id.clone()), "{reply}");
            let status = reply.header("cache-status");
            let expected = if node.name == nodes[holder].name {
                format!("{}; fwd=bypass; detail=transaction", node.name)
            } else {
                format!(
                    "{}; fwd=bypass; detail=transaction, {}; fwd=miss; detail=holder",
                    nodes[holder].name, node.name
                )
            };
            assert_eq!(status, expected);
        }
        assert_eq!(made(&label).await, before, "nothing is committed");
        let elsewhere = &nodes[(holder + 1) % 3];
        let committed = post(elsewhere, &format!("/{id}/commit"), &create(&label)).await;
        assert_eq!(committed.json()["bookmarks"].as_array().map(Vec::len), Some(1), "{committed}");
        assert_eq!(made(&label).await, json!(before.as_i64().unwrap() + 5));
        for node in nodes {
            assert_eq!(post(node, &format!("/{id}"), &json!({})).await.status, 404);
            assert_eq!(held(node).await, 0.0);
        }
        let id = id_of(&post(&nodes[holder], "", &create(&label)).await);
        let gone = delete(elsewhere, &id).await;
        assert_eq!((gone.status, gone.body.len()), (200, 0), "{gone}");
    }
    until_none_at_neo4j(Duration::from_secs(10)).await;
    assert_eq!(made(&label).await, 15);
    for node in nodes {
        let counted = node.metric("hopcache_requests_total", "").await.unwrap();
        let parts = ["cache_hit_total", "cache_miss_total", "cache_bypass_total"];
        let mut sum = 0.0;
        for part in parts {
            sum += node.metric(part, "").await.unwrap();
        }
        assert_eq!(sum, counted, "each request is counted once, where its client asked");
    }
}

/// The node that holds a transaction is killed: Neo4j rolls back, and every other node says soon that it is unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_holder_takes_its_transactions_along() {
    let label = OwnLabel::new("KilledHolder");
    let mut cluster = Cluster::start().await;
    let slowness = Slowness::of(&cluster.clients()).await;
    let id = id_of(&post(&cluster.nodes[0], "", &create(&label)).await);
    assert_eq!(post(&cluster.nodes[1], &format!("/{id}"), &create(&label)).await.value(), 1);
    assert_eq!(at_neo4j_with("").await, 1, "Neo4j shows it by its trace");
    cluster.nodes[0].kill();
    let killed_at = Instant::now();
    let commit = post(&cluster.nodes[2], &format!("/{id}/commit"), &json!({})).await;
    let run = post(&cluster.nodes[1], &format!("/{id}"), &create(&label)).await;
    let ended = delete(&cluster.nodes[1], &id).await;
    let took = killed_at.elapsed();
    for reply in [&commit, &run, &ended] {
        assert_eq!(reply.status, 404, "{reply}");
        assert!(reply.json()["errors"][0]["message"].as_str().unwrap().contains("was not found"), "{reply}");
    }
    say(&format!("a killed holder: three answers after {} ms", took.as_millis()));
    assert!(took < slowness.bound(Duration::from_secs(1)), "{took:?}");
    until_none_at_neo4j(slowness.bound(Duration::from_secs(5))).await;
    assert_eq!(made(&label).await, 0);
}

/// F56: the node that holds a transaction is stopped. Other nodes say soon that they cannot ask it, also when gossip has
/// given it up. When it goes on, so does its transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_holder_is_not_waited_for() {
    let label = OwnLabel::new("StoppedHolder");
    let cluster = Cluster::start().await;
    let slowness = Slowness::of(&cluster.clients()).await;
    let id = id_of(&post(&cluster.nodes[0], "", &create(&label)).await);
    cluster.nodes[0].signal("STOP");
    let mut replies = Vec::new();
    for round in 0..2 {
        let stopped_at = Instant::now();
        replies.push(post(&cluster.nodes[1], &format!("/{id}"), &create(&label)).await);
        replies.push(post(&cluster.nodes[2], &format!("/{id}/commit"), &json!({})).await);
        replies.push(delete(&cluster.nodes[2], &id).await);
        let took = stopped_at.elapsed();
        say(&format!("a stopped holder, round {round}: three answers after {} ms", took.as_millis()));
        assert!(took < slowness.bound(Duration::from_secs(3)), "{took:?}");
        until("it is off the ring", slowness.bound(Duration::from_secs(10)), async || {
            cluster.nodes[1].metric("hopcache_ring_members", "").await == Some(2.0)
        })
        .await;
    }
    cluster.nodes[0].signal("CONT");
    for reply in &replies {
        let code = &reply.json()["errors"][0]["code"];
        assert_eq!(
            (reply.status, code),
            (503, &json!("Hopcache.TransientError.HolderUnreachable")),
            "{reply}"
        );
    }
    until("the transaction goes on", slowness.bound(Duration::from_secs(10)), async || {
        post(&cluster.nodes[1], &format!("/{id}"), &create(&label)).await.status == 202
    })
    .await;
    assert_eq!(post(&cluster.nodes[2], &format!("/{id}/commit"), &json!({})).await.status, 202);
    assert_eq!(made(&label).await, 2);
}

/// F12: a leaving node begins no transaction, and ends those it holds in order. Another node takes their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaving_node_ends_its_transactions_in_order() {
    let label = OwnLabel::new("LeavingHolder");
    let mut cluster = Cluster::start().await;
    let slowness = Slowness::of(&cluster.clients()).await;
    let id = id_of(&post(&cluster.nodes[0], "", &create(&label)).await);
    cluster.nodes[0].signal("TERM");
    until("the node leaves", slowness.bound(Duration::from_secs(5)), async || {
        cluster.nodes[1].metric("hopcache_ring_members", "").await == Some(2.0)
    })
    .await;
    assert_eq!(post(&cluster.nodes[1], &format!("/{id}"), &create(&label)).await.value(), 1);
    let committed = post(&cluster.nodes[2], &format!("/{id}/commit"), &json!({})).await;
    assert_eq!(committed.status, 202, "{committed}");
    let committed_at = Instant::now();
    let status = cluster.nodes[0].exit(slowness.bound(Duration::from_secs(10))).await;
    say(&format!("leaving: gone {} ms after its last transaction", committed_at.elapsed().as_millis()));
    assert_eq!((status.code(), made(&label).await), (Some(0), json!(2)));
}

/// A client that leaves in mid-statement takes its transaction along: no relay and no lock stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_in_mid_statement_leaks_nothing() {
    let label = OwnLabel::new("LeftInMid");
    let cluster = Cluster::start().await;
    let id = id_of(&post(&cluster.nodes[0], "", &create(&label)).await);
    let long =
        statement("UNWIND range(1, 1000000000) AS x WITH x WHERE x % 7 = 8 RETURN count(x) AS left_in_mid");
    let request = posted(&format!("/{id}"), &long);
    let leave = async |at: SocketAddr| {
        let mut stream = http::connect(at).await.unwrap();
        stream.write_all(&request).await.unwrap();
        until("the statement runs", Duration::from_secs(20), async || {
            at_neo4j_with("left_in_mid").await == 1
        })
        .await;
    };
    // Through another node than the holder.
    leave(cluster.nodes[1].addrs.client).await;
    until_none_at_neo4j(Duration::from_secs(20)).await;
    until("the holder forgets it", Duration::from_secs(10), async || held(&cluster.nodes[0]).await == 0.0)
        .await;
    assert_eq!(made(&label).await, 0);
}
