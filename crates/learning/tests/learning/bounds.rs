//! Memory and work are bounded (I9): patterns without end, offered to 256 places and to a tenth of as many.

use hopcache_core::limits::{EPOCH_MS, MEMBERS_MAX, SLOTS_PER_FORM_MAX};
use hopcache_learning::{Bounds, Successors};

use super::{at, close, form, hear, node, offered, pattern, pull, query};

const MIB: usize = 1 << 20;

#[test]
fn the_bounds_are_what_the_documents_say() {
    let (few, many) = (Bounds::for_patterns(256), Bounds::for_patterns(100_000));
    assert_eq!((few.patterns, few.queries), (256, 4_096));
    assert_eq!((many.patterns, many.queries), (100_000, 1 << 18));
    assert!(few.bytes_max() <= 34 * MIB, "{}", few.bytes_max());
    assert!(many.bytes_max() <= 800 * MIB, "{}", many.bytes_max());
    assert_eq!(Bounds::for_patterns(0).patterns, 1);
    assert_eq!(Bounds::for_patterns(usize::MAX), many);
}

/// One pattern in ten is one of a hundred frequent ones; the others come once.
fn offer_many(patterns: usize) -> Successors {
    let mut known = node(1, 11, patterns, at(0));
    for n in 0..offered() {
        let now = at(n / 1_000);
        let source = if n % 10 == 0 { pattern(n / 10 % 100) } else { pattern(1_000 + n) };
        known.saw(source, now);
        if n % 10 == 0 {
            known.count(source, form(n / 10 % 100), now);
        }
    }
    known
}

#[test]
fn many_patterns_in_256_places() {
    let known = offer_many(256);
    let sizes = known.sizes();
    assert!(sizes.patterns == 256 && sizes.slots <= 2 * 256, "{sizes:?}");
    assert!(sizes.bytes <= MIB && sizes.untold <= 2 * 256 + 1, "{sizes:?}");
    // N/m = N/256 sightings; the frequent ones came N/1,000 times, so they were replaced now and then: Space-Saving
    // promises nothing below N/m. Predictions are never invented.
    let found = known.patterns(1_000, at(1_000));
    assert_eq!(found.len(), 256);
    let came = offered() as f64 / 1_000.0;
    assert!(found.iter().all(|view| view.tally.seen <= came));
}

#[test]
fn many_patterns_in_a_tenth_of_as_many_places() {
    let (places, came) = (usize::try_from(offered() / 10).unwrap(), offered() as f64 / 1_000.0);
    let known = offer_many(places);
    let sizes = known.sizes();
    // 64 MiB for 100,000.
    assert!(sizes.patterns == places && sizes.bytes <= 671 * places, "{sizes:?}");
    // N/m = 10: each of the frequent ones is there, with all of its counts.
    for of in 0..100 {
        let found = known.predictions(pattern(of), at(1_000));
        assert!(found.len() == 1 && close(found[0].tally.seen, came), "{of}: {found:?}");
    }
}

/// Any number of exact queries keeps within its places, and their definitions are forgotten with them.
#[test]
fn one_off_queries_take_nothing_with_them() {
    let mut known = node(1, 11, 16, at(0));
    for n in 0..20_000_u64 {
        let now = at(n);
        known.define_form(form(n), &super::definition_of(form(n), 100));
        known.saw(query(n), now);
        known.count(query(n), form(n), now);
        if n % 100 == 0 {
            assert!(known.next_pieces(1_024, now).len() <= 2);
        }
    }
    let sizes = known.sizes();
    assert!(sizes.queries == 256 && sizes.slots == 512, "{sizes:?}");
    assert!(sizes.bytes <= Bounds::for_patterns(16).bytes_max(), "{sizes:?}");
    for n in 0..3 {
        let _ = known.digest(at(20_000 + n * 20_000));
    }
    assert_eq!(known.sizes().forms, 256, "definitions go with what refers to them");
}

/// A full cluster's slots of one form, over all epochs: the smallest ones give way, the latest ones stay.
#[test]
fn slots_of_one_form_are_bounded() {
    let mut known = node(1, 11, 16, at(0));
    for epoch in 0..6_u64 {
        let now = at(epoch * EPOCH_MS);
        for n in 0..MEMBERS_MAX as u64 - 1 {
            let mut other = node(100 + n, 1, 1, at(0));
            other.saw(pattern(0), now);
            other.count(pattern(0), form(0), now);
            pull(&mut known, now, &mut other, now);
        }
        known.saw(pattern(0), now);
        known.count(pattern(0), form(0), now);
    }
    let now = at(5 * EPOCH_MS);
    assert!(known.sizes().slots <= 2 * SLOTS_PER_FORM_MAX, "{:?}", known.sizes());
    let found = known.predictions(pattern(0), now);
    let seen = found[0].tally.seen;
    // 128 of the present epoch, and half of them of the last one, at half weight.
    assert!(seen >= MEMBERS_MAX as f64 * 1.2, "{seen} of the present and the last epoch");
}

/// When all slots are taken, other nodes' counts give way first; this node's own counts always find room.
#[test]
fn slots_altogether_are_bounded() {
    let bounds = Bounds { slots: 64, ..Bounds::for_patterns(16) };
    let mut known =
        Successors::new(hopcache_learning::OriginTag(1), hopcache_core::node::Incarnation(1), bounds, at(0));
    let mut other = node(2, 22, 16, at(0));
    for of in 0..200 {
        other.saw(query(of), at(0));
        other.count(query(of), form(of), at(0));
    }
    pull_once(&mut known, &mut other);
    assert!(known.sizes().slots <= 64);
    for of in 1_000..1_020 {
        known.saw(query(of), at(0));
        known.count(query(of), form(of), at(0));
        assert!(known.sizes().slots <= 64);
        assert_eq!(known.predictions(query(of), at(0)).len(), 1);
    }
}

fn pull_once(to: &mut Successors, from: &mut Successors) {
    let page = from.answer_pull(&to.digest(at(0)), at(0));
    hear(to, &page, at(0));
}

/// Weights are relative to a moving moment: nothing overflows in a year.
#[test]
fn a_year_of_epochs_overflows_nothing() {
    let mut known = node(1, 11, 1, at(0));
    for day in 0..366_u64 {
        let now = at(day * 86_400_000);
        known.saw(pattern(day), now);
        known.count(pattern(day), form(day), now);
        let found = known.predictions(pattern(day), now);
        assert!(found.len() == 1 && close(found[0].p, 0.5), "day {day}: {found:?}");
        assert!(known.sizes().patterns == 1);
    }
}
