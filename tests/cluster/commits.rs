//! What nodes know when a COMMIT over Bolt has no answer, and when one has an answer while nodes do not reach Neo4j.

use std::time::Duration;

use serde_json::{Value, json};

use super::written::{Items, bolt};
use crate::support::cluster::{Cluster, Plan, at_neo4j};
use crate::support::http::{self, Reply};
use crate::support::{until, value_within};

const WAIT_MAX: Duration = Duration::from_secs(20);

async fn read(cluster: &Cluster, node: usize, reading: &str, id: usize) -> Reply {
    cluster.nodes[node].ask(&http::query(reading, &json!({ "id": id }))).await
}

/// The value of an answer that stands in for nothing. On a busy machine Neo4j may fall silent for seconds.
async fn value(cluster: &Cluster, node: usize, reading: &str) -> Value {
    value_within("an answer of Neo4j", WAIT_MAX, async || {
        let reply = read(cluster, node, reading, 0).await;
        let stands_in = reply.status != 202 || reply.header("cache-status").contains("stale-if-error");
        (!stands_in).then(|| reply.value())
    })
    .await
}

fn is_marked(reply: &Reply) -> bool {
    reply.status == 202 && reply.header("cache-status").contains("stale-if-error")
}

/// The nodes are told before the client's connection ends: no node has the value from before the write then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_over_bolt_is_told_before_its_client_is_cut() {
    let cluster = Cluster::of(Plan { prefetch: None, ..Plan::default() }).await;
    let items = Items::new("CutCommit").await;
    let (reading, writing) = (items.read(), items.write());
    for at in 1..=5 {
        for node in 0..3 {
            value(&cluster, node, &reading).await;
        }
        let mut client = bolt(cluster.nodes[0].addrs.bolt).await;
        client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
        client.run_with(&writing, &json!({"id": 0, "at": at}), json!({})).await.unwrap().unwrap();
        cluster.proxy.lose_commit();
        let ended = client.commit().await;
        assert!(!matches!(ended, Ok(Ok(_))), "its answer was lost: {ended:?}");
        for node in 0..3 {
            assert_eq!(value(&cluster, node, &reading).await, at, "node {node}");
        }
    }
}

/// Neo4j refuses new connections, and the nodes count it as away. A transaction commits on a connection that stands: what it has
/// written stands in on no node. What was ended before does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_on_an_old_connection_brings_nothing_back() {
    let cluster = Cluster::of(Plan { prefetch: None, entry: "ttl = \"10m\"", ..Plan::default() }).await;
    let (items, others) = (Items::new("OldConnection").await, Items::new("LeftAlone").await);
    let label = &others.label.0;
    // Another property than that of the items: a write of a property ends the reads of it.
    let (reading, left_alone) =
        (items.read(), format!("MATCH (n:{label} {{id: $id}}) RETURN n.else AS else"));
    at_neo4j(&format!("MATCH (n:{label}) SET n.else = 0")).await;
    let write_else = format!("MATCH (n:{label} {{id: 0}}) SET n.else = 7");
    for node in 0..3 {
        assert_eq!(value(&cluster, node, &reading).await, 0);
        assert_eq!(value(&cluster, node, &left_alone).await, 0);
    }
    let mut client = bolt(cluster.nodes[0].addrs.bolt).await;
    client.write("neo4j", &write_else, &json!({})).await.unwrap().unwrap();
    client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
    client.run_with(&items.write(), &json!({"id": 0, "at": 7}), json!({})).await.unwrap().unwrap();
    cluster.proxy.refuse_new();
    // More runs at a time than a node has idle connections.
    cluster.proxy.delay_runs("AS missed", Duration::from_millis(300));
    for node in &cluster.nodes {
        until("the node misses Neo4j", WAIT_MAX, async || {
            let run = |k: usize| (node.addrs.client, http::query("RETURN $k AS missed", &json!({ "k": k })));
            http::crowd((0..24).map(run).collect()).await;
            let ready = node.admin("/readyz").await.unwrap();
            ready.json()["degraded"].as_array().is_some_and(|parts| parts.contains(&json!("origin")))
        })
        .await;
    }
    for node in 0..3 {
        for statement in [&reading, &left_alone] {
            let reply = read(&cluster, node, statement, 0).await;
            assert!(reply.value() == 0 && reply.is_hit(), "{reply}");
        }
    }
    client.commit().await.unwrap().unwrap();
    for node in 0..3 {
        let reply = read(&cluster, node, &reading, 0).await;
        assert_eq!(reply.status, 503, "{reply}");
        let reply = read(&cluster, node, &left_alone, 0).await;
        assert!(reply.value() == 0 && is_marked(&reply), "{reply}");
    }
    cluster.proxy.bring_back().await.unwrap();
    for node in 0..3 {
        assert_eq!(value(&cluster, node, &reading).await, 7);
        assert_eq!(value(&cluster, node, &left_alone).await, 7);
    }
}
