//! Issue 7, faults: two nodes without contact learn from sessions on both sides. After the heal each knows the other's
//! lessons with the same counts (merged by maximum), and prefetches by them. No Neo4j: the embedded graph answers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::accounting::balanced;
use super::social_graph::{in_session, learned, successors, think};
use crate::support::process::{Addrs, NodeProcess};
use crate::support::tcp_proxy::Mode;
use crate::support::turn::Turn;
use crate::support::udp_proxy::PeerProxy;
use crate::support::{say, until};

const WAIT_MAX: Duration = Duration::from_secs(30);
const WALKS: usize = 8;

async fn walk(node: &NodeProcess, side: &str, number: usize) {
    for step in ["first", "second"] {
        let statement = format!("RETURN $k AS {side}_{step}");
        let request = in_session(&format!("{side} {number}"), &statement, &json!({ "k": 1_000 + number }));
        assert_eq!(node.ask(&request).await.status, 202);
        think().await;
    }
}

fn cut(proxies: &[PeerProxy], is_cut: bool) {
    for proxy in proxies {
        proxy.tcp.set(if is_cut { Mode::Refuse } else { Mode::Pass });
        proxy.tcp.cut();
        proxy.cut_udp(is_cut);
    }
}

/// The parts of a pattern that have to be the same everywhere: its own count, and the counts of its successors.
async fn counts(node: &NodeProcess, sought: &str) -> Vec<(Value, Value)> {
    let answer = successors(node, sought).await;
    let patterns = answer["patterns"].as_array().unwrap().clone();
    let of_patterns = patterns.into_iter().filter(|each| each["kind"] == "pattern");
    let counted = of_patterns.flat_map(|each| {
        let mut all = vec![(each["id"].clone(), each["seen"].clone())];
        all.extend(
            each["successors"]
                .as_array()
                .unwrap()
                .iter()
                .map(|next| (next["form"].clone(), next["seen"].clone())),
        );
        all
    });
    counted.collect()
}

/// Two nodes that reach each other through proxies only.
async fn two_behind_proxies(dir: &tempfile::TempDir) -> (Vec<NodeProcess>, [PeerProxy; 2]) {
    let addrs = Addrs::free(2);
    let proxies = [PeerProxy::start(addrs[0].peer).await, PeerProxy::start(addrs[1].peer).await];
    let mut nodes = Vec::new();
    for (place, name) in ["node-a", "node-b"].into_iter().enumerate() {
        let config = format!(
            "drain = \"1s\"\npeer_advertise = \"{}\"\n[cluster]\nseeds = [\"{}\", \"{}\"]\nkey = \"the key of a test's cluster\"\n[entry]\nttl = \"10m\"\n",
            proxies[place].addr(),
            proxies[0].addr(),
            proxies[1].addr()
        );
        let mut node = NodeProcess::new(dir.path(), name, addrs[place], &config);
        node.start();
        nodes.push(node);
    }
    for node in &nodes {
        node.wait_for_members(2).await;
    }
    (nodes, proxies)
}

async fn flights(nodes: &[NodeProcess]) -> f64 {
    let mut sum = 0.0;
    for node in nodes {
        sum += node.metric("hopcache_flights", "").await.unwrap_or(1.0);
    }
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_both_sides_of_a_partition_learn_is_known_on_both_when_it_heals() {
    let _turn = Turn::take().await;
    let dir = tempfile::tempdir().unwrap();
    let (nodes, proxies) = two_behind_proxies(&dir).await;
    cut(&proxies, true);
    for node in &nodes {
        node.wait_for_members(1).await;
    }
    for number in 0..WALKS {
        tokio::join!(walk(&nodes[0], "left", number), walk(&nodes[1], "right", number));
    }
    for node in &nodes {
        until("each side has learned from all its walks", WAIT_MAX, async || {
            let learned = node.metric("hopcache_observations_total", "outcome=\"learned\"").await;
            let waiting = node.metric("hopcache_observations_waiting", "").await;
            learned.is_some_and(|learned| learned >= WALKS as f64) && waiting == Some(0.0)
        })
        .await;
    }
    // The proof of the cut: datagrams were lost, and neither node knows the other's lessons.
    assert!(learned(&nodes[0], "right").await.is_empty() && learned(&nodes[1], "left").await.is_empty());
    assert!(proxies.iter().all(|proxy| proxy.counts().1 > 0), "datagrams were lost");
    cut(&proxies, false);
    let healed = Instant::now();
    for node in &nodes {
        node.wait_for_members(2).await;
    }
    let joined = healed.elapsed();
    until("both know what either was taught", WAIT_MAX, async || {
        let mut same = true;
        for side in ["left", "right"] {
            let (one, other) = (counts(&nodes[0], side).await, counts(&nodes[1], side).await);
            same &= one == other && one.len() >= 3;
        }
        same
    })
    .await;
    let known = healed.elapsed();
    let taught = successors(&nodes[0], "right_first").await;
    let next = &taught["patterns"][0]["successors"][0];
    assert_eq!(next["taught_by"], json!([{"node": "node-b", "share": 1.0}]), "{taught}");
    assert_eq!(next["bindings"], json!(["$k = parameter k (integer)"]), "{taught}");
    assert_eq!(
        taught["patterns"][0]["seen"], WALKS as f64,
        "each was counted once, although messages were lost and repeated: {taught}"
    );
    let pupil = async |statement: &str, place: usize| {
        nodes[place].ask(&in_session("pupil", statement, &json!({ "k": 7_777 }))).await
    };
    let before = balanced(&nodes).await;
    pupil("RETURN $k AS right_first", 0).await;
    until("what node-b was taught is warmed for a session at node-a", WAIT_MAX, async || {
        let now = balanced(&nodes).await;
        now.launched > before.launched && flights(&nodes).await < 0.5
    })
    .await;
    assert!(pupil("RETURN $k AS right_second", 0).await.is_hit());
    let account = balanced(&nodes).await;
    assert!(account.used + account.late >= 1.0, "{account:?}");
    say(&format!(
        "issue 7, partition: one ring {joined:?} after healing, the same counts {known:?} after it; {account:?}"
    ));
}
