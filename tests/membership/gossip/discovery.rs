//! How nodes find each other, and which nodes are refused.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{KEY, Party, Spec, WAIT_MAX, in_ring, log_count, member, question, refused, ring};
use crate::support::moved_clock::MovedClock;
use crate::support::process::{Addrs, NodeProcess};
use crate::support::{say, until};

/// No node has `node-c` as a seed, and `node-d` knows only `node-c`. All nodes route to both, to `node-d` with twice
/// the share (weight 2 of 1 + 1 + 1 + 2; DESIGN "Ring": shares within a tenth of their target).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_no_seed_list_names_is_routed_to_by_all() {
    let mut party = Party::of(2).await;
    let addrs = Addrs::free(2);
    let began = Instant::now();
    let first = party.nodes[0].addrs.peer;
    party.start("node-c", addrs[0], &Spec::seeded(&[first]));
    party.wait_for(3).await;
    say(&format!("joined by one seed, one ring everywhere after {} ms", began.elapsed().as_millis()));
    let spec = Spec { node: "ring_weight = 2.0".to_owned(), ..Spec::seeded(&[addrs[0].peer]) };
    party.start("node-d", addrs[1], &spec);
    party.wait_for(4).await;
    for node in &party.nodes {
        let heavy = member(node, "node-d").await;
        assert_eq!(
            (&heavy["weight"], &heavy["phase"], &heavy["state"]),
            (&json!(2.0), &json!("ready"), &json!("up"))
        );
        let share = heavy["share"].as_f64().unwrap();
        assert!((0.36..0.44).contains(&share), "node-d's share is {share}, not two fifths");
        assert_eq!(heavy["life"], member(&party.nodes[3], "node-d").await["life"]);
    }
    let mut forwarded = 0;
    for k in 0..40 {
        let reply = party.nodes[1].ask(&question(k)).await;
        assert_eq!(reply.value(), k);
        forwarded += usize::from(reply.header("cache-status").starts_with("node-d"));
    }
    assert!(forwarded > 4, "node-b asked node-d {forwarded} times of 40");
}

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

/// Two nodes with one name: the first stays; the second is refused and never ready; both logs say so. If the first one
/// is the second's seed, a probe finds the conflict, otherwise gossip does. When the first is gone, the second takes
/// its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_nodes_with_one_name_the_second_is_refused_until_the_first_is_gone() {
    let mut party = Party::of(2).await;
    let before = ring(&party.nodes[0]).await;
    let seeds = [party.nodes[0].addrs.peer, party.nodes[1].addrs.peer];
    let (dirs, addrs) = ([tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()], Addrs::free(2));
    for (place, seeds) in [&seeds[..], &seeds[..1]].into_iter().enumerate() {
        let config = Spec::seeded(seeds).config();
        let mut second = NodeProcess::new(dirs[place].path(), "node-b", addrs[place], &config);
        second.start();
        let taken = format!("the name node-b is taken by the node at {}", party.nodes[1].addrs.peer);
        until("it says why it is not ready", WAIT_MAX, async || not_ready(&second).await.contains(&taken))
            .await;
        let both_said = async || {
            let warning = format!(
                "two nodes are named node-b: {} is kept, {} is refused",
                party.nodes[1].addrs.peer, second.addrs.peer
            );
            [&party.nodes[0], &second].iter().all(|node| log_count(node, &warning) > 0)
        };
        until("the first's neighbour and the second say so", WAIT_MAX, both_said).await;
        for node in &party.nodes[..2] {
            assert_eq!(
                (ring(node).await["epoch"].clone(), in_ring(node).await),
                (before["epoch"].clone(), 2)
            );
            assert_eq!(node.admin("/readyz").await.unwrap().status, 200, "the first of the name stays");
        }
        assert_eq!(
            member(&party.nodes[0], "node-b").await["peer_addr"],
            party.nodes[1].addrs.peer.to_string()
        );
        // It owns nothing: it forwards its clients' requests to the one member that it knows.
        assert_eq!(
            (in_ring(&second).await, member(&second, "node-b").await["phase"].clone()),
            (1, "joining".into())
        );
        for k in 0..8 {
            let reply = second.ask(&question(k)).await;
            assert_eq!(reply.value(), k);
            assert!(reply.header("cache-status").starts_with("node-a"), "{reply}");
        }
        assert!(!second.log().contains("ready for keys"), "it was let in meanwhile");
        if place == 1 {
            let began = Instant::now();
            party.nodes[1].kill();
            party.nodes[1] = second;
            party.wait_for(2).await;
            say(&format!("its namesake gone, the second is in after {} ms", began.elapsed().as_millis()));
        }
    }
}

/// Why a node says that it is not ready; empty where it is, or does not answer yet.
async fn not_ready(node: &NodeProcess) -> String {
    match node.admin("/readyz").await {
        Ok(reply) if reply.status == 503 => reply.json()["reasons"].to_string(),
        _ => String::new(),
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
