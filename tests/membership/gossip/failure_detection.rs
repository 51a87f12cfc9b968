//! Nodes that died, only paused, were cut off, or came back (F1, F2, F27, F28; promise I12).

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Party, Spec, WAIT_MAX, behind_proxy, in_ring, member};
use crate::support::process::{Addrs, NodeProcess};
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

/// F2: a pause that is long enough for the others to give it up. It is back, in the same life.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_loses_nobody_for_good() {
    let party = Party::of(3).await;
    let life = member(&party.nodes[0], "node-c").await["life"].clone();
    party.nodes[2].signal("STOP");
    let began = Instant::now();
    for node in &party.nodes[..2] {
        until("it is out", Duration::from_secs(10), async || in_ring(node).await == 2).await;
        assert_eq!(member(node, "node-c").await["state"], "down");
        assert_missed_at(node).await;
    }
    let paused = began.elapsed();
    party.nodes[2].signal("CONT");
    let began = Instant::now();
    party.wait_for(3).await;
    say(&format!(
        "paused for {} ms, out of both rings meanwhile: one ring {} ms after",
        paused.as_millis(),
        began.elapsed().as_millis()
    ));
    for node in &party.nodes {
        let now = member(node, "node-c").await;
        assert_eq!((&now["state"], &now["life"]), (&"up".into(), &life));
        until_nothing_is_degraded(node).await;
    }
}

/// F27 of UDP only: no datagram reaches `node-c`. Gossip gives it up, its answered probe brings it back, and the
/// ring is whole nearly all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_of_udp_alone_does_not_split_the_ring() {
    let mut party = Party::new().await;
    let addrs = Addrs::free(3);
    let (proxy, spec) = behind_proxy(addrs[2]).await;
    let seeds = [addrs[0].peer, addrs[1].peer];
    party.start("node-a", addrs[0], &Spec::seeded(&seeds));
    party.start("node-b", addrs[1], &Spec::seeded(&seeds));
    party.start("node-c", addrs[2], &Spec { seeds: Spec::seeded(&seeds).seeds, ..spec });
    party.wait_for(3).await;
    proxy.cut_udp(true);
    let declared = async || party.nodes[0].metric("hopcache_gossip_downs_total", "").await >= Some(1.0);
    until("gossip gives it up", WAIT_MAX, declared).await;
    let (began, mut looks, mut whole) = (Instant::now(), 0_u32, 0_u32);
    while began.elapsed() < Duration::from_secs(3) {
        looks += 1;
        whole += u32::from(in_ring(&party.nodes[0]).await == 3);
    }
    let (_, dropped) = proxy.counts();
    say(&format!("UDP cut: {dropped} datagrams lost, ring whole at {whole} of {looks} looks"));
    assert!(dropped > 5, "nothing was cut");
    assert!(whole * 10 >= looks * 9, "the ring is whole at {whole} of {looks} looks");
    let objections =
        async || party.nodes[2].metric("hopcache_gossip_rejoins_total", "").await.unwrap_or_default() as u64;
    let objected = objections().await;
    proxy.cut_udp(false);
    party.wait_for(3).await;
    // Gossip revokes it too: the node hears that it was declared dead, and objects.
    let (before, _) = proxy.counts();
    let again = async || {
        let (passed, _) = proxy.counts();
        passed > before + 20 && objections().await > objected
    };
    until("datagrams pass again, and it is alive again for gossip", WAIT_MAX, again).await;
}
