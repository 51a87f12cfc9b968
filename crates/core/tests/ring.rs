//! Issue 3, point 7: load, movement, order and pinned placement of the ring (DESIGN "Ring").

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;

use hopcache_core::key::QueryKey;
use hopcache_core::limits::VIRTUAL_NODES_DEFAULT;
use hopcache_core::node::NodeName;
use hopcache_core::ring::{Ring, RingEpoch};

const KEYS: u64 = 60_000;

fn name(index: usize) -> NodeName {
    NodeName::new(&format!("node-{index}")).unwrap()
}

fn names(count: usize) -> Vec<NodeName> {
    (0..count).map(name).collect()
}

fn ring_of(members: &[NodeName]) -> Ring {
    Ring::new(members, VIRTUAL_NODES_DEFAULT, RingEpoch::of(members, VIRTUAL_NODES_DEFAULT))
}

fn key(index: u64) -> QueryKey {
    QueryKey(*blake3::hash(&index.to_le_bytes()).as_bytes())
}

/// The busiest node ÷ mean, by keys and by arcs.
#[test]
fn the_busiest_node_has_at_most_a_tenth_more_than_the_mean() {
    println!("nodes  max/mean by arcs  max/mean by {KEYS} keys");
    for count in [3_usize, 4, 5, 7, 10, 20, 35, 50, 75, 100] {
        let members = names(count);
        let ring = ring_of(&members);
        let arcs: Vec<f64> = members.iter().map(|member| ring.share(member)).collect();
        assert!((arcs.iter().sum::<f64>() - 1.0).abs() < 1e-9, "shares of {count} nodes add up to 1");
        let by_arcs = arcs.iter().copied().fold(0.0, f64::max) * count as f64;
        let mut met = BTreeMap::<&NodeName, u64>::new();
        for index in 0..KEYS {
            *met.entry(ring.owner(&key(index)).unwrap()).or_default() += 1;
        }
        let by_keys = *met.values().max().unwrap() as f64 * count as f64 / KEYS as f64;
        println!("{count:>5}  {by_arcs:>16.3}  {by_keys:>10.3}");
        assert!(by_arcs <= 1.10, "{count} nodes: busiest {by_arcs} × the mean");
        // Counting keys adds the noise of counting: 4 standard deviations of a node's count.
        let noise = 4.0 * (count as f64 / KEYS as f64).sqrt();
        assert!(by_keys <= by_arcs + noise, "{count} nodes: busiest {by_keys} × the mean by keys");
    }
}

/// A join takes 1/n ± 20 % of the keys, all for the new node; a leave is the reverse.
#[test]
fn a_join_or_leave_moves_its_share_and_nothing_else() {
    println!("nodes after  moved  due");
    for count in [3_usize, 5, 10, 30, 100] {
        let all = names(count);
        let joined = &all[count - 1];
        let (before, after) = (ring_of(&all[..count - 1]), ring_of(&all));
        let mut moved = 0_u64;
        for index in 0..KEYS {
            let key = key(index);
            let (old, new) = (before.owner(&key).unwrap(), after.owner(&key).unwrap());
            if old != new {
                moved += 1;
                assert_eq!(new, joined, "a key moved between two nodes that were there all the time");
            }
        }
        let (moved, due) = (moved as f64 / KEYS as f64, 1.0 / count as f64);
        println!("{count:>11}  {moved:.4} {due:.4}");
        assert!((moved / due - 1.0).abs() <= 0.20, "{count} nodes: {moved} moved, {due} due");
    }
}

#[test]
fn the_ring_does_not_depend_on_the_order_of_its_members() {
    let forwards = names(9);
    let mut backwards: Vec<NodeName> = forwards.iter().rev().cloned().collect();
    backwards.push(forwards[4].clone());
    let (one, two) = (ring_of(&forwards), ring_of(&backwards));
    assert_eq!(one.epoch(), two.epoch());
    assert_eq!(one.members(), two.members());
    for index in 0..5_000 {
        let key = key(index);
        assert!(one.order(&key).eq(two.order(&key)));
    }
}

#[test]
fn an_epoch_names_a_view_and_survives_json() {
    let some = names(4);
    let epoch = RingEpoch::of(&some, 1_000);
    assert!(epoch.0 < 1 << 53);
    assert_ne!(epoch, RingEpoch::of(&some[..3], 1_000));
    assert_ne!(epoch, RingEpoch::of(&some, 999));
    // Names that would be ambiguous without a separator.
    let pair = |one: &str, two: &str| [NodeName::new(one).unwrap(), NodeName::new(two).unwrap()];
    assert_ne!(RingEpoch::of(&pair("ab", "c"), 1), RingEpoch::of(&pair("a", "bc"), 1));
}

#[test]
fn failover_goes_over_every_node_once_and_agrees_with_the_ring_without_the_dead() {
    let members = names(6);
    let ring = ring_of(&members);
    for index in 0..500 {
        let key = key(index);
        let order: Vec<&NodeName> = ring.order(&key).collect();
        assert_eq!(order.len(), 6);
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 6);
        assert_eq!(ring.owner(&key), Some(order[0]));
        let living: Vec<NodeName> = members.iter().filter(|name| *name != order[0]).cloned().collect();
        assert_eq!(ring_of(&living).owner(&key), Some(order[1]), "the next in order takes over");
    }
}

#[test]
fn small_rings_are_right() {
    let none = ring_of(&[]);
    assert_eq!(none.owner(&key(1)), None);
    assert_eq!(none.order(&key(1)).count(), 0);
    let alone = ring_of(&names(1));
    assert_eq!(alone.owner(&key(1)), Some(&name(0)));
    assert!((alone.share(&name(0)) - 1.0).abs() < 1e-9);
    assert!((Ring::new(&names(1), 1, RingEpoch(0)).share(&name(0)) - 1.0).abs() < 1e-9);
    assert!(alone.share(&name(7)).abs() < f64::EPSILON);
}

/// Placement is format: a platform or version that disagrees empties every cache. To write the file anew on purpose:
/// `HOPCACHE_GOLDEN=write cargo test -p hopcache-core --lib tests::ring::golden`.
#[test]
fn golden_owners_are_the_same_everywhere() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/ring_owners.json");
    let members = names(5);
    let ring = ring_of(&members);
    let owners: BTreeMap<String, Vec<&str>> = (0..64)
        .map(|index| {
            let key = key(index);
            (key.to_hex(), ring.order(&key).take(3).map(NodeName::as_str).collect())
        })
        .collect();
    let found = serde_json::json!({
        "recipe": "nodes node-0 … node-4 with 1,000 virtual nodes each; virtual node at xxh3_64(name, 0x00, index u32 LE); key at its first 8 bytes, big endian; keys are BLAKE3 of 0 … 63 as u64 LE; the first three nodes in failover order",
        "epoch": ring.epoch().0,
        "owners": owners,
    });
    if std::env::var("HOPCACHE_GOLDEN").is_ok_and(|mode| mode == "write") {
        std::fs::write(path, serde_json::to_string_pretty(&found).unwrap() + "\n").unwrap();
    }
    let kept: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(found, kept);
}

/// The lookup is on the path of every hit. Prints the figure; the bound is for an optimised build
/// (150 ns); here it is loose, since tests are built without optimisation and share their machine.
#[test]
#[expect(clippy::disallowed_methods, reason = "this measures; core's own code reads no clock")]
fn an_owner_lookup_is_fast() {
    let ring = ring_of(&names(10));
    let keys: Vec<QueryKey> = (0..1_024).map(key).collect();
    let rounds = 200;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        for key in &keys {
            let _ = black_box(ring.owner(black_box(key)));
        }
    }
    let each_ns = start.elapsed().as_nanos() / (rounds * keys.len() as u128);
    println!("owner lookup in a ring of 10 × 1,000: {each_ns} ns");
    let bound_ns = if cfg!(debug_assertions) { 20_000 } else { 1_500 };
    assert!(each_ns < bound_ns, "{each_ns} ns");
}
