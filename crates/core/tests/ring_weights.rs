//! Weighted members: shares follow weights, a change moves its share only, and equal weights give the unweighted ring.

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    MEMBERS_MAX, RING_PLACES_MAX, VIRTUAL_NODES_DEFAULT, VIRTUAL_NODES_MAX, WEIGHT_MAX, WEIGHT_MIN,
};
use hopcache_core::membership::Weight;
use hopcache_core::node::NodeName;
use hopcache_core::ring::{Ring, RingEpoch};
use proptest::prelude::*;

const KEYS: u64 = 40_000;

fn member(index: usize, weight: u16) -> (NodeName, Weight) {
    (NodeName::new(&format!("node-{index}")).unwrap(), Weight::new(weight).unwrap())
}

fn members(weights: &[u16]) -> Vec<(NodeName, Weight)> {
    weights.iter().enumerate().map(|(index, weight)| member(index, *weight)).collect()
}

fn ring_of(members: &[(NodeName, Weight)]) -> Ring {
    Ring::weighted(members, VIRTUAL_NODES_DEFAULT)
}

fn key(index: u64) -> QueryKey {
    QueryKey(*blake3::hash(&index.to_le_bytes()).as_bytes())
}

/// A member's part of the circle is a sum of as many random arcs as it has virtual nodes, so its relative deviation is
/// 1/√(virtual nodes). The test requires a tenth for members with 700 or more of them (2.6 σ; the names are fixed, so
/// this is no matter of luck) and 3.5 σ for smaller ones.
#[test]
fn a_share_follows_the_weight() {
    println!("weights  share ÷ due, the worst");
    for weights in [
        &[100, 200, 300][..],
        &[100, 100, 1000],
        &[50, 100],
        &[10, 100, 100],
        &[70, 100, 130, 100, 400],
        &[100; 10],
        &[200, 100, 200, 100, 200, 100, 200, 100],
    ] {
        let members = members(weights);
        let ring = ring_of(&members);
        let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        let mut worst = 1.0_f64;
        for (name, weight) in &members {
            let weight = f64::from(weight.hundredths());
            let ratio = ring.share(name) / (weight / sum);
            let virtual_nodes = f64::from(VIRTUAL_NODES_DEFAULT) * weight / 100.0;
            let allowed = (3.5 / virtual_nodes.sqrt()).max(0.10);
            assert!((ratio - 1.0).abs() <= allowed, "{weights:?}: {name} has {ratio} × its due");
            worst = if (ratio - 1.0).abs() > (worst - 1.0).abs() { ratio } else { worst };
        }
        println!("{weights:?}  {worst:.3}");
    }
}

#[test]
fn a_join_moves_its_weighted_share_and_nothing_else() {
    println!("weights  moved  due");
    for weights in [&[100, 100, 200][..], &[100, 300, 50], &[100, 100, 100, 100, 400], &[300, 100, 100]] {
        let all = members(weights);
        let (joined, weight) = all.last().unwrap();
        let (before, after) = (ring_of(&all[..all.len() - 1]), ring_of(&all));
        let mut moved = 0_u64;
        for index in 0..KEYS {
            let key = key(index);
            let (old, new) = (before.owner(&key).unwrap(), after.owner(&key).unwrap());
            if old != new {
                moved += 1;
                assert_eq!(new, joined, "a key moved between two nodes that were there all the time");
            }
        }
        let sum: u16 = weights.iter().sum();
        let due = f64::from(weight.hundredths()) / f64::from(sum);
        let moved = moved as f64 / KEYS as f64;
        println!("{weights:?}  {moved:.4}  {due:.4}");
        assert!((moved / due - 1.0).abs() <= 0.20, "{weights:?}: {moved} moved, {due} due");
    }
}

#[test]
fn a_weight_that_grows_draws_keys_to_its_node_only() {
    let (light, heavy) = (members(&[100, 100, 100]), members(&[100, 200, 100]));
    let (before, after) = (ring_of(&light), ring_of(&heavy));
    assert_ne!(before.epoch(), after.epoch());
    for index in 0..KEYS {
        let key = key(index);
        let (old, new) = (before.owner(&key).unwrap(), after.owner(&key).unwrap());
        assert!(old == new || new.as_str() == "node-1");
    }
}

/// I9: for any configuration and cards a ring is bounded. Under the bound every member has all the places that it asks
/// for; over it all are reduced alike, and all nodes place them alike.
#[test]
fn a_ring_is_bounded_and_keeps_the_proportions() {
    let mut heavy = members(&[WEIGHT_MAX; MEMBERS_MAX]);
    heavy[5].1 = Weight::new(WEIGHT_MAX / 2).unwrap();
    let ring = Ring::weighted(&heavy, VIRTUAL_NODES_MAX);
    assert!((RING_PLACES_MAX as usize * 9 / 10..=RING_PLACES_MAX as usize).contains(&ring.places()));
    let due = 1.0 / (MEMBERS_MAX as f64 - 0.5);
    let mut shares: Vec<f64> = heavy.iter().map(|(name, _)| ring.share(name) / due).collect();
    assert!((0.4..0.6).contains(&shares.swap_remove(5)));
    assert!(shares.iter().all(|share| (0.8..1.2).contains(share)), "{shares:?}");
    heavy.reverse();
    let other = Ring::weighted(&heavy, VIRTUAL_NODES_MAX);
    assert!(ring.epoch() == other.epoch() && (0..1_000).all(|k| ring.owner(&key(k)) == other.owner(&key(k))));
    // A leaving member leaves its share to the others, and little else moves.
    let fewer = Ring::weighted(&heavy[1..], VIRTUAL_NODES_MAX);
    let gone = &heavy[0].0.clone();
    let stays = |k: &u64| ring.owner(&key(*k)) != Some(gone);
    let moved = (0..10_000).filter(stays).filter(|k| ring.owner(&key(*k)) != fewer.owner(&key(*k))).count();
    assert!(moved < 200, "{moved} of 10,000 keys moved between members that stay");
    // A light one among heavy ones still has a place.
    heavy[0].1 = Weight::new(WEIGHT_MIN).unwrap();
    assert!(Ring::weighted(&heavy, VIRTUAL_NODES_MAX).share(gone) > 0.0);
    let usual = members(&[100; MEMBERS_MAX]);
    assert!(ring_of(&usual).places() > 127_000, "what is usual is not cut");
}

#[test]
fn default_weights_are_as_if_there_were_none() {
    let weighted = members(&[100; 5]);
    let names: Vec<NodeName> = weighted.iter().map(|(name, _)| name.clone()).collect();
    let epoch = RingEpoch::of(&names, VIRTUAL_NODES_DEFAULT);
    assert_eq!(RingEpoch::weighted(&weighted, VIRTUAL_NODES_DEFAULT), epoch);
    let (plain, ring) = (Ring::new(&names, VIRTUAL_NODES_DEFAULT, epoch), ring_of(&weighted));
    assert_eq!(plain.epoch(), ring.epoch());
    assert!((0..2_000).all(|index| plain.order(&key(index)).eq(ring.order(&key(index)))));
    // The smallest weight of a small ring still has a place.
    let tiny = Ring::weighted(&members(&[WEIGHT_MIN, WEIGHT_MAX]), 1);
    assert!(tiny.share(&member(0, 100).0) > 0.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The epoch names the set of members and weights: equal for any order, different for any other set.
    #[test]
    fn an_epoch_is_of_the_set(
        weights in proptest::collection::vec(10..=1000_u16, 1..12),
        other in proptest::collection::vec(10..=1000_u16, 1..12),
        turn in any::<prop::sample::Index>(),
    ) {
        let one = members(&weights);
        let mut turned = one.clone();
        turned.rotate_left(turn.index(one.len()));
        prop_assert_eq!(RingEpoch::weighted(&one, 100), RingEpoch::weighted(&turned, 100));
        let two = members(&other);
        prop_assert_eq!(RingEpoch::weighted(&one, 100) == RingEpoch::weighted(&two, 100), one == two);
    }
}
