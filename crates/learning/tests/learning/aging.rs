//! Decay over six epochs by the receiver's own clock (THEORY: value = Σ 2^(−age)·count), and predictions.

use hopcache_core::limits::{EPOCH_MS, LIFE_KEPT_MS, PREDICTIONS_MAX};
use hopcache_learning::FormId;

use super::{at, close, form, hear, node, pattern, pull, query};

/// A receiver's clock, unrelated to the sender's.
const APART_MS: u64 = 3_600_000;

#[test]
fn what_a_departed_node_counted_decays_over_six_epochs_by_the_receivers_clock() {
    let mut gone = node(1, 11, 16, at(0));
    for _ in 0..64 {
        gone.saw(pattern(0), at(EPOCH_MS / 2));
        gone.count(pattern(0), form(0), at(EPOCH_MS / 2));
    }
    let mut here = node(2, 22, 16, at(APART_MS));
    for piece in gone.next_pieces(1_024, at(EPOCH_MS / 2)) {
        hear(&mut here, &piece, at(APART_MS + 5));
    }
    drop(gone);
    for (age, expected) in [64.0, 32.0, 16.0, 8.0, 4.0, 2.0].into_iter().enumerate() {
        let now = at(APART_MS + age as u64 * EPOCH_MS + 10);
        let found = here.predictions(pattern(0), now);
        assert!(close(found[0].tally.seen, expected), "age {age}: {found:?}");
        assert!(close(found[0].p, expected / (expected + 1.0)), "age {age}: {found:?}");
    }
    let late = at(APART_MS + 6 * EPOCH_MS);
    assert!(here.predictions(pattern(0), late).is_empty(), "the seventh epoch");
    // And nothing of it is left: not the source, not the life, not the definition's name.
    let _ = here.digest(late);
    assert_eq!((here.sizes().patterns, here.sizes().slots), (0, 0));
    let _ = here.digest(at(APART_MS + LIFE_KEPT_MS + 60_000));
    let sizes = here.sizes();
    assert_eq!((sizes.patterns, sizes.slots, sizes.lives), (0, 0, 1), "{sizes:?}");
}

/// B's counts from A, which it passes on after an hour, are an hour old for C as well.
#[test]
fn a_pull_carries_the_time_since_it_was_heard() {
    let mut a = node(1, 11, 16, at(0));
    for _ in 0..8 {
        a.saw(query(0), at(1_000));
        a.count(query(0), form(3), at(1_000));
    }
    let mut b = node(2, 22, 16, at(APART_MS));
    assert!(pull(&mut b, at(APART_MS), &mut a, at(1_000)) > 0);
    let mut c = node(3, 33, 16, at(5 * APART_MS));
    let later = 3 * EPOCH_MS + 10_000;
    pull(&mut c, at(5 * APART_MS), &mut b, at(APART_MS + later));
    let found = c.predictions(query(0), at(5 * APART_MS));
    assert!(close(found[0].tally.seen, 1.0), "8 halved three times: {found:?}");
    assert_eq!(found[0].taught_by.len(), 1);
}

/// A life's counts do not hide behind an earlier life's (THEORY: a restarted node needs a new incarnation).
#[test]
fn a_new_life_adds_to_the_old_one() {
    let mut here = node(2, 22, 16, at(0));
    for life in [11, 12] {
        let mut other = node(1, life, 16, at(0));
        for _ in 0..5 {
            other.saw(pattern(0), at(0));
            other.count(pattern(0), form(0), at(0));
        }
        pull(&mut here, at(0), &mut other, at(0));
    }
    let found = here.predictions(pattern(0), at(0));
    assert!(close(found[0].tally.seen, 10.0), "{found:?}");
    assert!(close(found[0].taught_by[0].1, 10.0), "one node, two lives: {found:?}");
}

#[test]
fn the_eight_likeliest_are_predicted_in_order() {
    let mut known = node(1, 11, 16, at(0));
    for f in 0..20 {
        for _ in 0..=f {
            known.saw(pattern(0), at(0));
            known.count(pattern(0), form(f), at(0));
        }
    }
    let found = known.predictions(pattern(0), at(0));
    let forms: Vec<_> = found.iter().map(|prediction| prediction.form).collect();
    let expected: Vec<_> = (12..20).rev().map(form).collect();
    assert_eq!(forms, expected);
    assert_eq!(forms.len(), PREDICTIONS_MAX);
    assert!(close(found[0].p, 20.0 / 211.0));
}

/// A form cannot follow more often than always, even if gossip brought its count before its source's.
#[test]
fn no_probability_is_above_one() {
    let mut known = node(1, 11, 16, at(0));
    for _ in 0..10 {
        known.count(pattern(0), form(0), at(0));
    }
    assert!(close(known.predictions(pattern(0), at(0))[0].p, 1.0));
    assert!(known.predictions(pattern(0), at(0)).iter().all(|found| found.form != FormId::ANY));
}

#[test]
fn launches_are_no_sightings_and_make_precision() {
    let mut known = node(1, 11, 16, at(0));
    known.saw(pattern(0), at(0));
    for f in 0..2 {
        for _ in 0..4 {
            known.launched(pattern(0), form(f), at(0));
        }
    }
    known.used(pattern(0), form(1), at(0));
    assert!(known.predictions(pattern(0), at(0)).is_empty(), "nothing was seen to follow");
    let precision = known.precision(pattern(0), at(EPOCH_MS));
    assert!(close(precision.launched, 4.0) && close(precision.used, 0.5), "{precision:?}");
}
