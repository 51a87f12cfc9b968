//! Datagrams that no node sent, or sent long ago: dropped, counted, logged once, and without any effect (I9, I13).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;

use super::{Party, Spec, WAIT_MAX, behind_proxy, in_ring, log_count, member, question, refused};
use crate::support::process::Addrs;
use crate::support::{say, size, until};

/// Two nodes, the second behind a proxy that keeps the first one's datagrams.
async fn overheard() -> (Party, crate::support::udp_proxy::PeerProxy, Vec<Vec<u8>>) {
    let mut party = Party::new().await;
    let addrs = Addrs::free(2);
    let (proxy, spec) = behind_proxy(addrs[1]).await;
    party.start("node-a", addrs[0], &Spec::seeded(&[proxy.addr()]));
    party.start("node-b", addrs[1], &Spec { seeds: vec![addrs[0].peer.to_string()], ..spec });
    party.wait_for(2).await;
    until("twenty datagrams were overheard", WAIT_MAX, async || proxy.kept().len() >= 20).await;
    let kept = proxy.kept();
    (party, proxy, kept)
}

async fn send(to: SocketAddr, datagrams: &[Vec<u8>]) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for datagram in datagrams {
        socket.send_to(datagram, to).await.unwrap();
    }
}

/// Replayed, changed, cut, oversized, of another version: each is refused for its own reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_cut_and_replayed_datagrams_are_refused_by_reason() {
    let (party, _proxy, kept) = overheard().await;
    let (node, to) = (&party.nodes[1], party.nodes[1].addrs.peer);
    // The last ones: the first may have been sent before the node had its port.
    let known = &kept[kept.len() - 10..];
    let changed = |change: fn(&mut Vec<u8>)| -> Vec<Vec<u8>> {
        let mut all = known.to_vec();
        all.iter_mut().for_each(change);
        all
    };
    let attacks: [(&str, Vec<Vec<u8>>); 6] = [
        ("replayed", known.to_vec()),
        ("forged", changed(|datagram| *datagram.last_mut().unwrap() ^= 1)),
        ("forged", changed(|datagram| datagram.truncate(datagram.len() - 1))),
        ("truncated", changed(|datagram| datagram.truncate(30))),
        ("oversized", changed(|datagram| datagram.resize(4_000, 0))),
        ("version", changed(|datagram| datagram[0] = 9)),
    ];
    for (reason, datagrams) in attacks {
        let before = refused(node, reason).await;
        send(to, &datagrams).await;
        let counted = async || refused(node, reason).await == before + 10;
        until(&format!("ten more are counted as {reason}"), WAIT_MAX, counted).await;
    }
    for what in
        ["seen before", "the proof of the cluster key does not fit", "too short", "larger", "another version"]
    {
        assert_eq!(log_count(node, what), 1, "{what}");
    }
    assert_eq!((in_ring(node).await, in_ring(&party.nodes[0]).await), (2, 2));
}

/// A node dies, and its old datagrams are replayed to a node that was not there before: no node routes to the dead one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_words_of_the_dead_put_nobody_on_the_ring() {
    let (mut party, _proxy, kept) = overheard().await;
    party.nodes[0].kill();
    party.nodes[1].kill();
    party.nodes[1].start(); // Its windows are empty: it has never heard of these.
    let node = &party.nodes[1];
    node.wait_for_members(1).await;
    let (received, refused_before) = (
        node.metric("hopcache_gossip_bytes_total", "received").await.unwrap(),
        refused(node, "replayed").await,
    );
    for _ in 0..5 {
        send(node.addrs.peer, &kept).await;
    }
    let repeated = async || refused(node, "replayed").await >= refused_before + kept.len() as u64;
    until("the second time they are replays", WAIT_MAX, repeated).await;
    assert!(node.metric("hopcache_gossip_bytes_total", "received").await.unwrap() > received);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        assert_eq!(in_ring(node).await, 1);
        assert_ne!(member(node, "node-a").await["state"], "up");
    }
}

/// 10⁵ datagrams as fast as they can be sent, of all kinds: the node answers meanwhile, keeps its ring and its memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_leaves_the_node_well() {
    let (party, _proxy, kept) = overheard().await;
    let (node, to) = (&party.nodes[1], party.nodes[1].addrs.peer);
    node.ask(&question(1)).await;
    let (resident, count) = (node.resident_bytes(), size("HOPCACHE_TEST_DATAGRAMS", 100_000));
    let flood = tokio::spawn(async move {
        let (socket, began) = (UdpSocket::bind("127.0.0.1:0").await.unwrap(), Instant::now());
        for n in 0..count {
            let mut datagram = kept[n % kept.len()].clone();
            match n % 5 {
                0 => datagram[0] = 7,
                1 => datagram[12] ^= (n >> 3) as u8 | 1, // Ever new sessions.
                2 => datagram.truncate(n % 40),
                3 => datagram[3] ^= 1,
                _ => {}
            }
            let _ = socket.send_to(&datagram, to).await;
        }
        began.elapsed()
    });
    let mut slowest = Duration::ZERO;
    while !flood.is_finished() {
        let reply = node.ask(&question(1)).await;
        assert!(reply.is_hit(), "{reply}");
        slowest = slowest.max(reply.took);
    }
    let took = flood.await.unwrap();
    let counted = async || {
        let reasons = ["version", "forged", "truncated", "cluster", "replayed"];
        let mut least = u64::MAX;
        for reason in reasons {
            least = least.min(refused(node, reason).await);
        }
        least > 100
    };
    until("each kind is counted", WAIT_MAX, counted).await;
    let total = node.metric("hopcache_gossip_refused_total", "").await.unwrap();
    let grown = node.resident_bytes().saturating_sub(resident) >> 10;
    say(&format!(
        "{count} datagrams in {} ms, {total} of them refused (the kernel dropped the others), hits meanwhile within {} ms, {grown} KiB more resident",
        took.as_millis(),
        slowest.as_millis()
    ));
    assert!(grown < 32 << 10, "{grown} KiB more are resident");
    assert!(log_count(node, "gossip refused") <= 6, "once a minute for each reason");
    party.wait_for(2).await;
}
