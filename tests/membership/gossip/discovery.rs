//! How nodes find each other, and which nodes are refused.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{KEY, Party, Spec, WAIT_MAX, in_ring, log_count, question, refused};
use crate::support::moved_clock::MovedClock;
use crate::support::process::{Addrs, NodeProcess};
use crate::support::until;

/// Another key, or another cluster's name: the nodes never join, log it once a minute, and count it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_clusters_stay_out_and_are_said_once() {
    let mut party = Party::of(2).await;
    let addrs = Addrs::free(2);
    let seed = [party.nodes[0].addrs.peer];
    party.start("node-x", addrs[0], &Spec { key: "the key of another cluster", ..Spec::seeded(&seed) });
    party.start(
        "node-y",
        addrs[1],
        &Spec { cluster: "name = \"staging\"".to_owned(), ..Spec::seeded(&seed) },
    );
    let are_refused = async || {
        let mut strangers = party.nodes[2..].iter();
        strangers.all(|stranger| log_count(stranger, "does it have the same cluster key?") > 0)
            && refused(&party.nodes[0], "cluster").await >= 4
    };
    until("both know that they are refused, and have announced themselves again", WAIT_MAX, are_refused)
        .await;
    // A refused node owns nothing, and no balancer sends it requests. The members stay ready.
    for (node, members) in party.nodes.iter().zip([2, 2, 0, 0]) {
        assert_eq!(in_ring(node).await, members, "{}", node.name);
    }
    for stranger in &party.nodes[2..] {
        let says_why = async || {
            let reason = not_ready(stranger).await;
            reason.contains("no seed lets this node in") && reason.contains("check cluster.key")
        };
        until("it says why it is not ready", WAIT_MAX, says_why).await;
        assert_eq!(stranger.ask(&question(1)).await.value(), 1, "a refused node answers requests");
    }
    for node in &party.nodes[..2] {
        assert_eq!(node.admin("/readyz").await.unwrap().status, 200, "{}", node.name);
    }
    assert_eq!(log_count(&party.nodes[0], "another cluster's key or name"), 1);
    for stranger in &party.nodes[2..] {
        assert_eq!(log_count(stranger, "peer: the peer refused"), 1, "{}", stranger.name);
        assert_eq!(log_count(stranger, "not ready: not let in"), 1, "{}", stranger.name);
    }
}

/// The seeds: a DNS name, a name that does not exist, an address without a node, and this node's own. One working seed
/// is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_names_and_addresses_among_the_seeds_cost_nothing() {
    let mut party = Party::of(1).await;
    let (addrs, dead) = (Addrs::free(1)[0], Addrs::free(1)[0].peer);
    let port = party.nodes[0].addrs.peer.port();
    let seeds = [
        "no-such-host.invalid:7476".to_owned(),
        dead.to_string(),
        addrs.peer.to_string(),
        format!("localhost:{port}"),
    ];
    party.start("node-b", addrs, &Spec { seeds: seeds.into(), ..Spec::default() });
    party.wait_for(2).await;
    assert_eq!(log_count(&party.nodes[1], "seed cannot be resolved"), 1);
}

/// A name that resolves only to this node makes a cluster of one, which is ready, until another node joins through it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seed_that_is_only_oneself_is_a_cluster_of_one() {
    let mut party = Party::new().await;
    let addrs = Addrs::free(2);
    let own = format!("localhost:{}", addrs[0].peer.port());
    party.start("node-a", addrs[0], &Spec { seeds: vec![own], ..Spec::default() });
    party.wait_for(1).await;
    party.start("node-b", addrs[1], &Spec::seeded(&[addrs[0].peer]));
    party.wait_for(2).await;
    assert_eq!(log_count(&party.nodes[0], "gossip refused"), 0, "it complains of itself");
}

/// Why a node says that it is not ready; empty where it is, or does not answer yet.
async fn not_ready(node: &NodeProcess) -> String {
    match node.admin("/readyz").await {
        Ok(reply) if reply.status == 503 => reply.json()["reasons"].to_string(),
        _ => String::new(),
    }
}

/// Seeds where something answers TCP that is no node: garbage, a byte at a time, for ever, nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_answers_a_probe_stops_nobody() {
    let mut party = Party::of(1).await;
    let mut seeds = vec![party.nodes[0].addrs.peer];
    let mut liars = Vec::new();
    for lie in [Lie::Garbage, Lie::Slow, Lie::ForEver, Lie::Nothing] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        seeds.push(listener.local_addr().unwrap());
        let (asked, count) = tokio::sync::watch::channel(0_usize);
        liars.push(count);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                asked.send_modify(|count| *count += 1);
                tokio::spawn(async move { lie.tell(&mut stream).await });
            }
        });
    }
    let addrs = Addrs::free(1)[0];
    party.start("node-b", addrs, &Spec::seeded(&seeds));
    party.wait_for(2).await;
    let asked = async || liars.iter().all(|asked| *asked.borrow() >= 3);
    until("each was asked three times", WAIT_MAX, asked).await;
    assert_eq!(in_ring(&party.nodes[1]).await, 2);
    let resident = party.nodes[1].resident_bytes() >> 20;
    assert!(resident < 256, "{resident} MiB are resident");
}

#[derive(Clone, Copy)]
enum Lie {
    Garbage,
    Slow,
    ForEver,
    Nothing,
}

impl Lie {
    async fn tell(self, stream: &mut tokio::net::TcpStream) {
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await;
        match self {
            Self::Garbage => drop(stream.write_all(&[0x9c; 4096]).await),
            Self::Slow => {
                for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n".iter().cycle() {
                    if stream.write_all(&[*byte]).await.is_err() {
                        return;
                    }
                    // tidy: poll interval
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            Self::ForEver => {
                let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                let mut sent = stream.write_all(head).await;
                while sent.is_ok() {
                    sent = stream.write_all(&[b"10000\r\n", &[7; 65_536][..], b"\r\n"].concat()).await;
                }
            }
            Self::Nothing => std::future::pending().await,
        }
    }
}

/// No part of any key's text is ever shown: not of the key in force, of the previous key, or of the data's key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_not_in_the_log_or_the_configuration_shown() {
    const PREVIOUS: &str = "the key of the day before";
    const DATA: &str = "the key of stored data";
    let mut party = Party::new().await;
    let cluster = format!("previous_key = \"{PREVIOUS}\"\ndata_key = \"{DATA}\"");
    party.start("node-a", Addrs::free(1)[0], &Spec { cluster, ..Spec::default() });
    party.wait_for(1).await;
    let node = &party.nodes[0];
    let shown = node.admin("/admin/v1/config").await.unwrap().json();
    for (name, key) in [("key", KEY), ("previous_key", PREVIOUS), ("data_key", DATA)] {
        assert!(!shown["cluster"][name]["value"].is_null(), "{name} is set: {shown}");
        assert!(!shown.to_string().contains(key) && !node.log().contains(key), "{name}");
    }
}

/// F23: two nodes' clocks differ by an hour. They form one ring, and each serves the other's entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_an_hour_apart_are_one_cluster() {
    let mut party = Party::of(2).await;
    let (clock, addrs) = (MovedClock::new(), Addrs::free(1)[0]);
    clock.move_by(3_600_000);
    let seeds = [party.nodes[0].addrs.peer];
    let config = Spec::seeded(&seeds).config();
    let mut ahead = NodeProcess::new(party.dir.path(), "node-c", addrs, &config);
    ahead.preload = Some(clock.preload());
    ahead.start();
    party.nodes.push(ahead);
    party.wait_for(3).await;
    let first_hour = |log: &str| log.lines().next().and_then(|line| line.get(11..13)).map(ToOwned::to_owned);
    let (ours, theirs) = (first_hour(&party.nodes[0].log()), first_hour(&party.nodes[2].log()));
    assert!(ours.is_some() && ours != theirs, "the clock was not moved: {ours:?} {theirs:?}");
    for k in 0..12 {
        party.nodes[2].ask(&question(k)).await;
        assert!(party.nodes[0].ask(&question(k)).await.is_hit(), "{k}");
    }
}
