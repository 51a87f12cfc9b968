//! Many joins and leaves in a short time, with gossip of any quality and without requests. Measures how far keys move,
//! how large the tables become, and how soon all rings agree. Only tests use this; `simulate.rs` runs seeds.

use std::collections::BTreeSet;

use hopcache_core::key::QueryKey;
use hopcache_core::node::NodeName;
use hopcache_core::ring::Ring;
use hopcache_core::time::Millis;

use crate::drive::cluster::Cluster;
use crate::world::members::ring_of;
use crate::world::udp::UdpWeather;

/// The result of a churn test, as the first node saw it.
#[derive(Debug, Clone, Default)]
pub struct Churn {
    /// Nodes that joined.
    pub joined: usize,
    /// Nodes that left.
    pub left: usize,
    /// Rings that followed each other.
    pub rings: usize,
    /// Keys that changed their owner, as shares of all, added up.
    pub moved: f64,
    /// The ideal sum of moved shares: 1/n of the new ring for a join, 1/n of the old ring for a leave.
    pub due: f64,
    /// Most members that any node knew, including dead ones.
    pub members_max: usize,
    /// When all rings agreed for good, after the last change was asked for.
    pub agreed_after: Option<Millis>,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Ring changes that any node saw in the ten seconds after all agreed: repeated news change nothing.
    pub changes_after: usize,
    /// How often each fault occurred.
    pub coverage: crate::check::coverage::Coverage,
}

/// The keys that the measurement looks up in each ring.
const KEYS: u64 = 2_000;
/// Between two looks.
const LOOK_MS: u64 = 10;
/// Rings have to agree by then.
const AGREE_MS: u64 = 18_000;

/// Runs `changes` joins and leaves in turn, evenly over `span`, among about four nodes.
pub async fn churn(seed: u64, (changes, span): (u64, Millis), weather: UdpWeather) -> Churn {
    let mut cluster = Cluster::of_few(seed);
    let mut seen = Churn::default();
    let mut before = None;
    watch(&mut cluster, &mut seen, &mut before, 4_000).await;
    cluster.world.net.udp.set_weather(weather);
    for change in 0..changes {
        if change % 2 == 0 {
            cluster.join_unconditionally();
            seen.joined += 1;
        } else if let Some(oldest) = cluster.ready_after_first() {
            cluster.drain(oldest);
            seen.left += 1;
        }
        watch(&mut cluster, &mut seen, &mut before, span.0 / changes.max(1)).await;
    }
    for looked_ms in (0..AGREE_MS).step_by(100) {
        watch(&mut cluster, &mut seen, &mut before, 100).await;
        let all = Cluster::names(&cluster.staying());
        let agrees = |node: &usize| cluster.world.nodes[*node].routing.names() == all;
        if !cluster.staying().iter().all(agrees) {
            seen.agreed_after = None;
        } else if seen.agreed_after.is_none() {
            seen.agreed_after = Some(Millis(looked_ms + 100));
        }
    }
    let rings = |cluster: &Cluster| -> u64 {
        cluster.staying().iter().map(|node| cluster.world.nodes[*node].routing.rings()).sum()
    };
    // From now on every datagram comes twice.
    cluster.world.net.udp.set_weather(UdpWeather { doubled: 1_000, lost: 0, ..weather });
    let agreed = rings(&cluster);
    watch(&mut cluster, &mut seen, &mut before, 10_000).await;
    seen.changes_after = usize::try_from(rings(&cluster) - agreed).unwrap_or(usize::MAX);
    seen.datagrams = cluster.world.net.udp.sent();
    seen.coverage = cluster.world.record.coverage();
    seen
}

async fn watch(cluster: &mut Cluster, seen: &mut Churn, before: &mut Option<Vec<NodeName>>, span_ms: u64) {
    for _ in 0..span_ms / LOOK_MS {
        tokio::time::sleep(Millis(LOOK_MS).duration()).await;
        cluster.see_off();
        cluster.name_seeds();
        let known = cluster.world.nodes.iter().map(|node| node.routing.members().len()).max();
        seen.members_max = seen.members_max.max(known.unwrap_or(0));
        let now = cluster.world.nodes[0].routing.names();
        if let Some(old) = before.replace(now.clone()).filter(|old| *old != now && old.len() > 1) {
            seen.rings += 1;
            let (moved, due) = moved(&old, &now);
            seen.moved += moved;
            seen.due += due;
        }
    }
}

fn moved(old: &[NodeName], new: &[NodeName]) -> (f64, f64) {
    let count = |nodes: usize| nodes as f64;
    let [was, is]: [BTreeSet<&NodeName>; 2] = [old, new].map(|names| names.iter().collect());
    let due = count(is.difference(&was).count()) / count(new.len().max(1))
        + count(was.difference(&is).count()) / count(old.len().max(1));
    let (one, other) = (ring_of(old), ring_of(new));
    let owner = |ring: &Ring, key: u64| {
        let mut bytes = [0; 32];
        // Spread as a digest is (the golden ratio's odd multiple of 2^64).
        bytes[..8].copy_from_slice(&key.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
        ring.owner(&QueryKey(bytes)).cloned()
    };
    let moved = (0..KEYS).filter(|key| owner(&one, *key) != owner(&other, *key)).count();
    (count(moved) / KEYS as f64, due)
}
