//! The owner of a key, and the next nodes when the owner is gone.
//!
//! A [`Ring`] is an immutable snapshot of one membership view: it is built once, swapped whole and never changed. It
//! decides from member names, their weights and query keys only; it never knows which nodes are alive.
//!
//! Crate `hashring` holds the circle, with these restrictions (DESIGN "Ring"). Each member is added as many virtual
//! nodes in one `batch_add`. Only one `u64` is hashed, which a pinned pass-through hasher returns untouched, so no
//! placement depends on Rust's `Hash` encoding of strings, on the platform or on the compiler. `get_with_replicas`
//! (which clones the circle and repeats nodes) is never called. Placement: a virtual node is at `xxh3_64(name ++ 0x00
//! ++ index as u32, little endian)`, a key at its first 8 bytes, big endian (a query key is a keyed digest, so these
//! are uniform). Both are format: a change moves every key (`tests/golden/ring_owners.json`).

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher};

use hashring::HashRing;
use xxhash_rust::xxh3::xxh3_64;

use crate::key::QueryKey;
use crate::limits::{RING_PLACES_MAX, WEIGHT_DEFAULT};
use crate::membership::Weight;
use crate::node::NodeName;

/// Names a membership view: equal on all nodes that see the same members. It distinguishes views and does not order
/// them.
#[derive(
    Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct RingEpoch(pub u64);

impl RingEpoch {
    /// Digest of the member set and the virtual node count, for any order of `members`; all weights are the default. 53
    /// bits, so that a JSON reader with doubles only keeps it.
    #[must_use]
    pub fn of(members: &[NodeName], virtual_nodes: u32) -> Self {
        Self::weighted(&evenly(members), virtual_nodes)
    }

    /// Digest of the members, their weights and the virtual node count, for any order of `members`.
    #[must_use]
    pub fn weighted(members: &[(NodeName, Weight)], virtual_nodes: u32) -> Self {
        let mut text = virtual_nodes.to_le_bytes().to_vec();
        for (name, weight) in in_order(members) {
            text.extend_from_slice(name.as_str().as_bytes());
            if weight != Weight::default() {
                text.push(1);
                text.extend_from_slice(&weight.hundredths().to_le_bytes());
            }
            // No name contains 0 or 1, and the part after a 1 has a fixed length, so no two lists give one text. A list
            // of default weights gives the same text as before weights existed.
            text.push(0);
        }
        Self(xxh3_64(&text) >> 11)
    }
}

fn evenly(members: &[NodeName]) -> Vec<(NodeName, Weight)> {
    members.iter().map(|name| (name.clone(), Weight::default())).collect()
}

/// Sorted by name. If a name occurs twice, the smaller weight counts, in any order.
fn in_order(members: &[(NodeName, Weight)]) -> Vec<(NodeName, Weight)> {
    let mut members = members.to_vec();
    members.sort_unstable();
    members.dedup_by(|later, first| later.0 == first.0);
    members
}

/// One membership view's owners.
#[derive(Debug, Clone)]
pub struct Ring {
    circle: HashRing<VirtualNode, PassThrough>,
    members: Vec<NodeName>,
    shares: Vec<f64>,
    epoch: RingEpoch,
}

impl Ring {
    /// Builds the ring of `members` (in any order, repetitions ignored) with `virtual_nodes` each.
    /// `epoch` is usually [`RingEpoch::of`] the same arguments.
    #[must_use]
    pub fn new(members: &[NodeName], virtual_nodes: u32, epoch: RingEpoch) -> Self {
        Self::build(evenly(members), virtual_nodes, epoch)
    }

    /// Builds the ring of `members` (in any order, repetitions ignored) with `virtual_nodes` × weight each. If that is
    /// more than [`RING_PLACES_MAX`] in total, each gets proportionally fewer. A heavier node's virtual nodes include
    /// all that it has when lighter, so a growing weight only draws keys to that node.
    #[must_use]
    pub fn weighted(members: &[(NodeName, Weight)], virtual_nodes: u32) -> Self {
        Self::build(members.to_vec(), virtual_nodes, RingEpoch::weighted(members, virtual_nodes))
    }

    fn build(members: Vec<(NodeName, Weight)>, virtual_nodes: u32, epoch: RingEpoch) -> Self {
        let members = in_order(&members);
        // By position, so that of two virtual nodes at one place the first name's always stays.
        let mut places = BTreeMap::new();
        let wanted: Vec<u32> = members.iter().map(|(_, weight)| places_of(virtual_nodes, *weight)).collect();
        let all = wanted.iter().map(|wanted| u64::from(*wanted)).sum();
        for (member, ((name, _), wanted)) in members.iter().zip(wanted).enumerate() {
            for index in 0..within_bound(wanted, all) {
                places.entry(position_of(name, index)).or_insert(member);
            }
        }
        let shares = shares_of(&places, members.len());
        let members = members.into_iter().map(|(name, _)| name).collect();
        let mut circle = HashRing::with_hasher(PassThrough);
        circle.batch_add(
            places.into_iter().map(|(position, member)| VirtualNode { position, member }).collect(),
        );
        Self { circle, members, shares, epoch }
    }

    /// The owner of this key; `None` in an empty ring. One binary search, no allocation.
    #[must_use]
    pub fn owner(&self, key: &QueryKey) -> Option<&NodeName> {
        let found = self.circle.get(&Position(position_of_key(key)))?;
        self.members.get(found.member)
    }

    /// Distinct nodes in failover order, the owner first, computed on demand.
    pub fn order(&self, key: &QueryKey) -> impl Iterator<Item = &NodeName> {
        let mut at = position_of_key(key);
        let mut seen = vec![false; self.members.len()];
        let mut steps_left = self.circle.len();
        std::iter::from_fn(move || {
            while steps_left > 0 {
                steps_left -= 1;
                let found = self.circle.get(&Position(at))?;
                at = found.position.wrapping_add(1);
                if let Some(mark) = seen.get_mut(found.member).filter(|mark| !**mark) {
                    *mark = true;
                    return self.members.get(found.member);
                }
            }
            None
        })
    }

    /// The fraction of all keys that `node` owns, 0 to 1; 0 for an unknown node.
    #[must_use]
    pub fn share(&self, node: &NodeName) -> f64 {
        let found = self.members.binary_search(node).ok();
        found.and_then(|index| self.shares.get(index)).copied().unwrap_or(0.0)
    }

    /// Members by name.
    #[must_use]
    pub fn members(&self) -> &[NodeName] {
        &self.members
    }

    /// The number of places of all members together: at most [`RING_PLACES_MAX`], and one for each member.
    #[must_use]
    pub fn places(&self) -> usize {
        self.circle.len()
    }

    /// The view of this ring.
    #[must_use]
    pub const fn epoch(&self) -> RingEpoch {
        self.epoch
    }
}

/// Virtual nodes of one member: at least one, so that rounding leaves no ready node without keys.
fn places_of(virtual_nodes: u32, weight: Weight) -> u32 {
    let places = u64::from(virtual_nodes) * u64::from(weight.hundredths()) / u64::from(WEIGHT_DEFAULT);
    u32::try_from(places).unwrap_or(u32::MAX).max(u32::from(virtual_nodes > 0))
}

/// A member's share of the places that it wants, if all members together want `all`: reduced by the factor by which
/// `all` exceeds the bound. It follows from the members, their weights and the virtual node count alone, as the epoch
/// does, so all nodes place alike. A member keeps the first of its places, so that a joining or leaving member moves
/// little more than its own share.
fn within_bound(wanted: u32, all: u64) -> u32 {
    if all <= u64::from(RING_PLACES_MAX) {
        return wanted;
    }
    let places = u64::from(wanted) * u64::from(RING_PLACES_MAX) / all;
    u32::try_from(places).unwrap_or(u32::MAX).max(u32::from(wanted > 0))
}

fn position_of(name: &NodeName, index: u32) -> u64 {
    let mut text = name.as_str().as_bytes().to_vec();
    text.push(0);
    text.extend_from_slice(&index.to_le_bytes());
    xxh3_64(&text)
}

fn position_of_key(key: &QueryKey) -> u64 {
    let mut head = [0; 8];
    head.copy_from_slice(&key.0[..8]);
    u64::from_be_bytes(head)
}

/// A virtual node owns the arc between the one before it (exclusive) and itself (inclusive).
fn shares_of(places: &BTreeMap<u64, usize>, members: usize) -> Vec<f64> {
    let mut arcs = vec![0_u128; members];
    let Some((&last, _)) = places.last_key_value() else { return vec![0.0; members] };
    let mut before = last;
    for (&position, &member) in places {
        // A single place owns the whole circle, not an empty arc.
        let arc = if places.len() == 1 { 1 << 64 } else { u128::from(position.wrapping_sub(before)) };
        if let Some(sum) = arcs.get_mut(member) {
            *sum += arc;
        }
        before = position;
    }
    arcs.into_iter().map(|arc| arc as f64 / (u64::MAX as f64)).collect()
}

/// One place of a member on the circle; `hashring` places it by its `Hash`, which is `position`.
#[derive(Debug, Clone, Copy)]
struct VirtualNode {
    position: u64,
    member: usize,
}

impl Hash for VirtualNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.position);
    }
}

/// A place to look up.
struct Position(u64);

impl Hash for Position {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// Returns one `u64` unchanged, so that `hashring` sorts by exactly our positions.
#[derive(Debug, Clone, Copy)]
struct PassThrough;

impl BuildHasher for PassThrough {
    type Hasher = Passed;
    fn build_hasher(&self) -> Passed {
        Passed(0)
    }
}

struct Passed(u64);

impl Hasher for Passed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        // Nothing here hashes anything but one `u64`; if something did, it would still be pinned.
        self.0 = xxh3_64(bytes) ^ self.0.rotate_left(1);
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
