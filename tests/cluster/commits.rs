//! What nodes know when a COMMIT over Bolt has no answer, and when one has an answer while nodes do not reach Neo4j.

use std::time::Duration;

use serde_json::json;

use super::written::{Items, bolt, read};
use crate::support::cluster::{Cluster, Plan};
use crate::support::{http, until};

const WAIT_MAX: Duration = Duration::from_secs(20);

/// The nodes are told before the client's connection ends: no node has the value from before the write then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_over_bolt_is_told_before_its_client_is_cut() {
    let cluster = Cluster::of(Plan { prefetch: None, ..Plan::default() }).await;
    let items = Items::new("CutCommit").await;
    let (reading, writing) = (items.read(), items.write());
    for at in 1..=5 {
        for node in 0..3 {
            read(&cluster, node, true, (&reading, 0)).await;
        }
        let mut client = bolt(cluster.nodes[0].addrs.bolt).await;
        client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
        client.run_with(&writing, &json!({"id": 0, "at": at}), json!({})).await.unwrap().unwrap();
        cluster.proxy.lose_commit();
        let ended = client.commit().await;
        assert!(!matches!(ended, Ok(Ok(_))), "its answer was lost: {ended:?}");
        for node in 0..3 {
            assert_eq!(read(&cluster, node, true, (&reading, 0)).await.0, at, "node {node}");
        }
    }
}

/// Neo4j refuses new connections, and the nodes count it as away, as at the beginning of every stop of Neo4j. A transaction commits on
/// a connection that stands. What it has written is stood in for, and says so, until Neo4j can be reached again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_on_an_old_connection_is_stood_in_for_and_marked() {
    let cluster = Cluster::of(Plan { prefetch: None, entry: "ttl = \"10m\"", ..Plan::default() }).await;
    let items = Items::new("OldConnection").await;
    let reading = items.read();
    for node in 0..3 {
        assert_eq!(read(&cluster, node, true, (&reading, 0)).await.0, 0);
    }
    let mut client = bolt(cluster.nodes[0].addrs.bolt).await;
    client.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
    client.run_with(&items.write(), &json!({"id": 0, "at": 7}), json!({})).await.unwrap().unwrap();
    cluster.proxy.refuse_new();
    // More runs at a time than a node has idle connections.
    cluster.proxy.delay_runs("AS missed", Duration::from_millis(300));
    for node in &cluster.nodes {
        until("the node misses Neo4j", WAIT_MAX, async || {
            let run = |k: usize| (node.addrs.client, http::query("RETURN $k AS missed", &json!({ "k": k })));
            http::crowd((0..24).map(run).collect()).await;
            node.is_degraded("origin").await
        })
        .await;
    }
    client.commit().await.unwrap().unwrap();
    for node in 0..3 {
        let reply = cluster.nodes[node].ask(&http::query(&reading, &json!({ "id": 0 }))).await;
        let is_marked = reply.header("cache-status").contains("stale-if-error");
        assert!(reply.value() == 0 && is_marked, "{reply}");
    }
    cluster.proxy.bring_back().await.unwrap();
    for node in 0..3 {
        assert_eq!(read(&cluster, node, true, (&reading, 0)).await.0, 7);
    }
}
