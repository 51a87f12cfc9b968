//! Space-Saving's guarantee (Metwally et al. 2005), with and without other nodes.

use std::collections::BTreeMap;

use hopcache_learning::{OfferOutcome, SpaceSaving};
use proptest::prelude::*;

proptest! {
    /// With m places and a stream of weight N: f ≤ weight ≤ f + N/m, the error bounds the excess, and no key above N/m
    /// is missing.
    #[test]
    fn every_frequent_key_is_kept_and_none_is_overrated(
        stream in proptest::collection::vec((0..40_u32).prop_map(|k| k * k / 40), 1..400),
        places in 1..12_usize,
    ) {
        let mut saving = SpaceSaving::new(places);
        let mut truth: BTreeMap<u32, f64> = BTreeMap::new();
        for key in &stream {
            saving.see(*key, 1.0);
            *truth.entry(*key).or_default() += 1.0;
        }
        let most = stream.len() as f64 / places as f64;
        prop_assert!(saving.len() <= places);
        for (key, count) in truth {
            match (saving.weight(key), saving.error(key)) {
                (Some(weight), Some(error)) => {
                    prop_assert!(count <= weight && weight <= count + most, "{key}: {weight} for {count}");
                    prop_assert!(weight - error <= count, "{key}: {weight} − {error} > {count}");
                }
                _ => prop_assert!(count <= most, "{key} came {count} times of {}", stream.len()),
            }
        }
    }

    /// F14: whatever other nodes send, half of the places stay with keys that this node saw.
    #[test]
    fn others_take_no_more_than_half(
        own in 0..20_u32,
        heard in proptest::collection::vec((100..200_u32, 1.0..1e9), 0..200),
        places in 1..16_usize,
    ) {
        let mut saving = SpaceSaving::new(places);
        (0..own).for_each(|key| { saving.see(key, 1.0); });
        for (key, weight) in heard {
            saving.hear(key, weight);
            prop_assert!(saving.len() <= places);
        }
        let kept = (0..own).filter(|key| saving.weight(*key).is_some()).count();
        prop_assert!(kept >= (own as usize).min(places / 2), "{kept} of {own} in {places}");
    }
}

#[test]
fn what_others_say_less_of_than_the_least_finds_no_room() {
    let mut saving = SpaceSaving::new(2);
    assert_eq!(saving.hear('a', 5.0), OfferOutcome::Added);
    assert_eq!(saving.hear('b', 3.0), OfferOutcome::Added);
    assert_eq!(saving.hear('c', 3.0), OfferOutcome::Refused);
    assert_eq!(saving.hear('c', 4.0), OfferOutcome::Replaced('b'));
    assert_eq!(saving.see('d', 1.0), OfferOutcome::Replaced('c'));
    assert_eq!((saving.weight('d'), saving.error('d')), (Some(5.0), Some(4.0)));
    saving.scale(0.5);
    assert_eq!((saving.weight('a'), saving.weight('d')), (Some(2.5), Some(2.5)));
}
