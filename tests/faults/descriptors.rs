//! F32: a crowd of clients against a small limit of open files. The health probe, Neo4j and the operators keep their
//! descriptors, and the crowd gets 503.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::support::http::{self, connect, exchange};
use crate::support::process::{Addrs, NodeProcess, raise_open_files};
use crate::support::{environment, say, until};

const OPEN_FILES: u32 = 256;
const CROWD: usize = 400;
const SILENT: usize = 200;

fn node() -> (tempfile::TempDir, NodeProcess) {
    let dir = tempfile::tempdir().unwrap();
    let uri = environment("HOPCACHE_TEST_NEO4J_BOLT");
    let config = format!("drain = \"2s\"\n[origin]\nuri = \"{uri}\"\n[entry]\nttl = \"10m\"\n");
    let node = NodeProcess::new(dir.path(), "node-a", Addrs::free(1)[0], &config);
    (dir, node)
}

fn ask(what: &str) -> Arc<[u8]> {
    http::query(&format!("RETURN 'descriptors {what}' AS x"), &json!({}))
}

async fn assert_breaker_closed(node: &NodeProcess) {
    let opened = node.metric("hopcache_breaker_transitions_total", "to=\"open\"").await;
    assert_eq!(opened.unwrap_or(0.0), 0.0, "{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f32_a_crowd_leaves_the_node_its_descriptors() {
    raise_open_files();
    let (_dir, mut node) = node();
    node.open_files = Some(OPEN_FILES);
    node.start();
    node.wait_for_members(1).await;
    let lowered = "fewer connections of clients than configured";
    assert_eq!(node.log().matches(lowered).count(), 1, "{}", node.log());

    let warm = ask("warm");
    let mut inside = Vec::new();
    for _ in 0..8 {
        let mut stream = connect(node.addrs.client).await.unwrap();
        assert_eq!(exchange(&mut stream, &warm).await.unwrap().status, 202);
        inside.push(stream);
    }
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..CROWD {
        let mut stream = connect(node.addrs.client).await.unwrap();
        let reply = exchange(&mut stream, &http::get("/")).await.unwrap();
        if reply.status == 503 {
            refused += 1;
        } else {
            held.push(stream);
        }
    }
    assert_eq!(inside.len() + held.len(), OPEN_FILES as usize / 2, "{refused} got 503");
    assert_eq!(refused, CROWD - held.len());
    for _ in 0..SILENT {
        held.push(connect(node.addrs.client).await.unwrap());
    }

    let ready = tokio::time::timeout(Duration::from_secs(5), node.admin("/readyz")).await;
    assert_eq!(ready.expect("the probe is answered").unwrap().status, 200);
    let mut cold = tokio::task::JoinSet::new();
    for (k, mut stream) in inside.into_iter().enumerate() {
        let request = ask(&format!("cold {k}"));
        cold.spawn(async move { (exchange(&mut stream, &request).await.unwrap().status, stream) });
    }
    let (statuses, inside): (Vec<_>, Vec<_>) = cold.join_all().await.into_iter().unzip();
    assert_eq!(statuses, [202; 8]);
    assert_breaker_closed(&node).await;
    assert!(!node.log().contains("os error 24"), "{}", node.log());
    say(&format!("F32: {OPEN_FILES} open files: {refused} of {CROWD} got 503, 8 cold queries run"));

    drop((held, inside));
    let is_served = async || http::ask(node.addrs.client, &warm).await.is_ok_and(|reply| reply.is_hit());
    until("served again when the crowd has gone", Duration::from_secs(10), is_served).await;
}

/// If no descriptor is left, the node reports a lack of descriptors, never an absence of Neo4j.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f32_want_of_descriptors_is_not_neo4js_absence() {
    let (_dir, mut node) = node();
    node.start();
    node.wait_for_members(1).await;
    let mut inside = connect(node.addrs.client).await.unwrap();
    assert_eq!(exchange(&mut inside, &http::get("/")).await.unwrap().status, 200);
    node.limit_open_files(3);
    let reply = exchange(&mut inside, &ask("none left")).await.unwrap();
    assert_eq!(reply.status, 503, "{reply}");
    assert_eq!(reply.json()["errors"][0]["code"], "Hopcache.TransientError.Overloaded", "{reply}");
    let waiting = connect(node.addrs.client).await.unwrap();
    let accepts = async || node.log().contains("no connection can be accepted");
    until("the failed accept is logged", Duration::from_secs(5), accepts).await;
    node.limit_open_files(1_024);
    let is_run = async || exchange(&mut inside, &ask("again")).await.unwrap().status == 202;
    until("the query is run", Duration::from_secs(10), is_run).await;
    drop(waiting);
    assert_eq!(node.log().matches("no connection can be accepted").count(), 1, "once: {}", node.log());
    assert_breaker_closed(&node).await;
}
