//! Nodes that died, only paused, were cut off, or came back (F1, F2, F27, F28; promise I12).

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Party, WAIT_MAX, in_ring, member};
use crate::support::process::NodeProcess;
use crate::support::{say, until};

/// Readiness, gauge and `status` say of `node-c` that it is missing; the node stays ready.
async fn assert_missed_at(node: &NodeProcess) {
    let ready = node.admin("/readyz").await.unwrap();
    assert_eq!((ready.status, &ready.json()["degraded"]), (200, &json!(["members"])), "{ready}");
    let why = ready.json()["why"]["members"].to_string();
    assert!(why.contains("node-c did not say goodbye"), "{why}");
    assert_eq!(node.metric("hopcache_degraded", "part=\"members\"").await, Some(1.0));
    let status = tokio::process::Command::new(env!("CARGO_BIN_EXE_hopcache"))
        .args(["status", "--admin-url", &format!("http://{}", node.addrs.admin)])
        .output();
    let shown = String::from_utf8_lossy(&status.await.unwrap().stdout).into_owned();
    assert!(shown.contains("node-c did not say goodbye"), "{shown}");
}

async fn until_nothing_is_degraded(node: &NodeProcess) {
    until("nothing is degraded", WAIT_MAX, async || {
        node.admin("/readyz").await.is_ok_and(|ready| ready.json()["degraded"] == json!([]))
    })
    .await;
}

/// F1: SIGKILL without any traffic. The others find out by probes and gossip. The node comes back in a new life.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_is_out_in_seconds_and_its_next_life_is_in() {
    let mut party = Party::of(3).await;
    let life = member(&party.nodes[0], "node-c").await["life"].clone();
    let began = Instant::now();
    party.nodes[2].kill();
    for node in &party.nodes[..2] {
        until("it is out", Duration::from_secs(10), async || in_ring(node).await == 2).await;
        assert_eq!(member(node, "node-c").await["state"], "down");
        assert_missed_at(node).await;
    }
    say(&format!("killed: out of both rings after {} ms", began.elapsed().as_millis()));
    // Probes found out sooner. Gossip comes to its own result, which serves nodes that probe less often.
    let declared = async || {
        let mut all = true;
        for node in &party.nodes[..2] {
            all &= node.metric("hopcache_gossip_downs_total", "").await >= Some(1.0);
        }
        all
    };
    until("gossip has declared it dead on both", WAIT_MAX, declared).await;
    say(&format!("killed: declared dead by gossip on both after {} ms", began.elapsed().as_millis()));
    let began = Instant::now();
    party.nodes[2].start();
    party.wait_for(3).await;
    say(&format!("started again: in all rings after {} ms", began.elapsed().as_millis()));
    for node in &party.nodes {
        let now = member(node, "node-c").await;
        assert_eq!(now["state"], "up");
        assert_ne!(now["life"], life, "a new life");
        until_nothing_is_degraded(node).await;
    }
}
