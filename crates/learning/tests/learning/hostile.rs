//! F14: forged, absurd, endless and outdated gossip is refused and counted, and takes no more than its bound. I13: no
//! bytes cause a panic.

use hopcache_core::limits::{
    EPOCH_LEAD_MS_MAX, EPOCH_MS, FORMS_PER_PATTERN_MAX, LIFE_QUIET_MS, LIVES_MAX, LIVES_PER_ORIGIN_MAX,
    PULL_PAGE_BYTES_MAX, SLOT_COUNT_MAX, UPTIME_MS_MAX,
};
use hopcache_learning::{
    Digest, MergeOutcome, OriginTag, SourceId, Successors, TransitionCounts, TransitionCountsError,
};
use proptest::prelude::*;

use super::{at, close, definition_of, form, hear, node, offered, pattern, query};

fn number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// (origin, life, up for ms)
type LifeClaim = (u64, u64, u64);

/// A lesson in the format of `src/delta.rs`, with any content: each sighting has a life by its index, an age, a source, a
/// form or none, and a count.
fn forged(lives: &[LifeClaim], sightings: &[(u64, u64, SourceId, Option<u64>, u64)]) -> Vec<u8> {
    let mut out = vec![1, 0];
    number(&mut out, lives.len() as u64);
    for (origin, life, up_ms) in lives {
        out.extend_from_slice(&origin.to_le_bytes());
        number(&mut out, *life);
        number(&mut out, *up_ms);
    }
    for (life, age, source, follows, seen) in sightings {
        out.push(if source.is_pattern() { 0 } else { 1 });
        out.extend_from_slice(&source.tag().to_le_bytes());
        match follows {
            None => out.push(2),
            Some(f) => {
                out.push(3);
                out.extend_from_slice(&form(*f).0.to_le_bytes());
            }
        }
        [1, life * 6 + age, *seen, 0, 0].into_iter().for_each(|each| number(&mut out, each));
    }
    out
}

fn honest(times: u32) -> Successors {
    let mut known = node(1, 11, 256, at(0));
    for of in 0..256 {
        for _ in 0..times {
            known.saw(pattern(of), at(0));
            known.count(pattern(of), form(of), at(0));
        }
    }
    known
}

#[test]
fn impossible_counts_are_refused() {
    let mut known = honest(1);
    let most = u64::from(SLOT_COUNT_MAX);
    let one = |seen| forged(&[(2, 22, 0)], &[(0, 0, pattern(0), Some(9), seen)]);
    assert_eq!(TransitionCounts::decode(&one(1 << 32)), Err(TransitionCountsError), "2^32 counts");
    assert_eq!(hear(&mut known, &one(u64::from(u32::MAX)), at(0)).refused_bounds, 1);
    assert_eq!(hear(&mut known, &one(most + 1), at(0)).refused_bounds, 1);
    assert_eq!(hear(&mut known, &one(most), at(0)).taken, 1);
    let found = known.predictions(pattern(0), at(0));
    assert!(found.iter().all(|found| found.p <= 1.0 && found.p.is_finite()), "{found:?}");
    // And this node's own counts go on unchanged.
    known.count(pattern(0), form(0), at(0));
    let own = known.predictions(pattern(0), at(0));
    assert!(own.iter().any(|found| found.form == form(0) && close(found.tally.seen, 2.0)), "{own:?}");
}

#[test]
fn absurd_epochs_move_a_life_by_less_than_what_is_kept() {
    let mut known = node(1, 11, 256, at(0));
    let says = |up_ms, age| forged(&[(2, 22, up_ms)], &[(0, age, pattern(0), Some(0), 8)]);
    assert_eq!(TransitionCounts::decode(&says(UPTIME_MS_MAX + 1, 0)), Err(TransitionCountsError));
    assert_eq!(TransitionCounts::decode(&says(u64::MAX, 0)), Err(TransitionCountsError));
    assert_eq!(
        TransitionCounts::decode(&says(0, 1)),
        Err(TransitionCountsError),
        "an epoch before the first one"
    );
    let up_ms = 10 * EPOCH_MS;
    assert_eq!(hear(&mut known, &says(up_ms, 0), at(0)).taken, 1);
    for ahead in [EPOCH_LEAD_MS_MAX + 1, 1_000 * EPOCH_MS, UPTIME_MS_MAX - up_ms] {
        assert_eq!(hear(&mut known, &says(up_ms + ahead, 0), at(0)).refused_future, 1);
    }
    // Step by step it gets no further.
    let mut taken = 0;
    for step in 1..100 {
        taken += hear(&mut known, &says(up_ms + step * EPOCH_MS, 0), at(0)).taken;
    }
    assert_eq!(taken as u64, EPOCH_LEAD_MS_MAX / EPOCH_MS);
    // The node's own reports meanwhile are still accepted: another source, in its true epoch.
    let truth = forged(&[(2, 22, up_ms)], &[(0, 0, pattern(1), Some(0), 32)]);
    assert_eq!(hear(&mut known, &truth, at(0)).taken, 1);
    assert!(close(known.predictions(pattern(1), at(0))[0].tally.seen, 1.0));
    assert_eq!(hear(&mut known, &says(up_ms, 5), at(0)).refused_old, 1, "five epochs before that");
}

/// A life whose uptime was overestimated from the first message: it is refused as long as its forged slots count, and
/// then it is new.
#[test]
fn a_forged_first_claim_is_forgotten() {
    let mut known = node(1, 11, 256, at(0));
    let lie = forged(&[(2, 22, UPTIME_MS_MAX)], &[(0, 0, pattern(0), Some(0), 8)]);
    assert_eq!(hear(&mut known, &lie, at(0)).taken, 1);
    let truth = |now_ms: u64| forged(&[(2, 22, now_ms)], &[(0, 0, pattern(1), Some(0), 8)]);
    assert_eq!(hear(&mut known, &truth(1), at(1)).refused_old, 1);
    let later = 13 * EPOCH_MS;
    assert!(
        known.predictions(pattern(0), at(later)).is_empty(),
        "at the end of what can be believed it decays too"
    );
    for _ in 0..3 {
        let _ = known.digest(at(later));
    }
    assert_eq!(hear(&mut known, &truth(later), at(later)).taken, 1);
}

/// No other node speaks for this one: its own life is as old as it is.
#[test]
fn what_is_said_of_this_nodes_own_future_is_refused() {
    let mut known = node(1, 11, 256, at(0));
    let says = forged(&[(1, 11, EPOCH_MS)], &[(0, 0, pattern(0), Some(0), 8)]);
    assert_eq!(hear(&mut known, &says, at(EPOCH_MS - 1)).refused_future, 1);
    assert_eq!(hear(&mut known, &says, at(EPOCH_MS)).taken, 1, "what it forgot, others give back");
}

/// Endless sources, from ever new lives, each with the largest valid count.
#[test]
fn a_flood_of_sources_pushes_out_no_more_than_half() {
    let mut known = honest(3);
    let bytes_max = hopcache_learning::Bounds::for_patterns(256).bytes_max();
    let mut sum = MergeOutcome::default();
    let pages = offered() / 1_000;
    for page in 0..pages {
        let sightings: Vec<_> = (0..500)
            .flat_map(|n| {
                let tag = 1_000_000 + page * 500 + n;
                let seen = u64::from(SLOT_COUNT_MAX);
                [(0, 0, pattern(tag), Some(tag), seen), (0, 0, query(tag), Some(tag), seen)]
            })
            .collect();
        let bytes = forged(&[(2, page, 0)], &sightings);
        assert!(bytes.len() <= PULL_PAGE_BYTES_MAX);
        let merged = hear(&mut known, &bytes, at(page));
        sum.taken += merged.taken;
        sum.refused_bounds += merged.refused_bounds;
    }
    let sizes = known.sizes();
    assert!(sizes.bytes <= bytes_max && sizes.patterns <= 256 && sizes.queries <= 4_096, "{sizes:?}");
    assert_eq!((sum.taken + sum.refused_bounds) as u64, 1_000 * pages, "each one is accounted for: {sum:?}");
    let own = |of: &u64| known.predictions(pattern(*of), at(0)).iter().any(|found| found.form == form(*of));
    assert!((0..256).filter(own).count() >= 128, "half of what this node saw is still there");
}

#[test]
fn a_flood_of_forms_leaves_half_of_what_this_node_counted() {
    let mut known = node(1, 11, 256, at(0));
    for f in 0..FORMS_PER_PATTERN_MAX as u64 {
        known.saw(pattern(0), at(0));
        known.count(pattern(0), form(f), at(0));
    }
    for page in 0..1_000 {
        let sightings: Vec<_> =
            (0..1_000).map(|n| (0, 0, pattern(0), Some(1_000 + page * 1_000 + n), 1_000)).collect();
        hear(&mut known, &forged(&[(2, 22, 0)], &sightings), at(0));
    }
    // The likeliest, which are forged, are predicted. This node's own rows exist and go on counting.
    let before = known.sizes();
    assert!(before.slots <= 2 * FORMS_PER_PATTERN_MAX, "{before:?}");
    for f in 0..FORMS_PER_PATTERN_MAX as u64 {
        (0..10_000).for_each(|_| known.count(pattern(0), form(f), at(1)));
    }
    let found = known.predictions(pattern(0), at(1));
    assert!(found.iter().all(|found| found.taught_by[0].0 == OriginTag(1)), "{found:?}");
}

/// Invented lives take no place from members, nor from nodes that spoke a moment ago.
#[test]
fn a_flood_of_nodes_takes_no_members_place() {
    let mut known = node(1, 11, 256, at(0));
    known.members(&[OriginTag(1), OriginTag(2)]);
    let member = |now_ms: u64| forged(&[(2, 22, now_ms)], &[(0, 0, pattern(0), Some(0), now_ms + 1)]);
    assert_eq!(hear(&mut known, &member(0), at(0)).taken, 1);
    for page in 0..4_000_u64 {
        let now_ms = page * 100;
        let lives: Vec<_> = (0..250).map(|n| (1_000 + page * 250 + n, 1, 0)).collect();
        let sightings: Vec<_> = (0..250).map(|n| (n, 0, query(n), Some(n), 1)).collect();
        hear(&mut known, &forged(&lives, &sightings), at(now_ms));
        assert!(known.sizes().lives <= LIVES_MAX);
    }
    let now_ms = 4_000 * 100;
    assert!(now_ms > 2 * LIFE_QUIET_MS && now_ms < EPOCH_MS, "strangers gave way to strangers");
    let found = known.predictions(pattern(0), at(now_ms));
    assert!(close(found[0].tally.seen, 1.0), "a million nodes later: {found:?}");
    assert_eq!(hear(&mut known, &member(now_ms), at(now_ms)).taken, 1);
    // A member that was unknown so far finds a place at once.
    known.members(&[OriginTag(1), OriginTag(2), OriginTag(3)]);
    let joins = forged(&[(3, 33, 0)], &[(0, 0, pattern(0), Some(1), 1)]);
    assert_eq!(hear(&mut known, &joins, at(now_ms)).taken, 1);
}

#[test]
fn ever_new_lives_of_one_node_are_bounded() {
    let mut known = node(1, 11, 256, at(0));
    for life in 0..1_000 {
        hear(&mut known, &forged(&[(2, life, 0)], &[(0, 0, pattern(0), Some(0), 1)]), at(0));
    }
    assert_eq!(known.sizes().lives, 1 + LIVES_PER_ORIGIN_MAX);
    // A node that really restarted is accepted once its old lives are silent.
    let later = LIFE_QUIET_MS + 1;
    let merged = hear(&mut known, &forged(&[(2, 9_999, 0)], &[(0, 0, pattern(0), Some(0), 1)]), at(later));
    assert_eq!(merged.taken, 1);
}

#[test]
fn a_flood_of_definitions_stays_within_its_bytes() {
    let mut known = node(1, 11, 16, at(0));
    let bytes_max = hopcache_learning::Bounds::for_patterns(16).definition_bytes;
    let mut other = node(2, 22, 100_000, at(0));
    for n in 0..4_000_u64 {
        assert!(other.define_form(form(n), &definition_of(form(n), 3_000)));
        for piece in other.next_pieces(1_024, at(0)) {
            hear(&mut known, &piece, at(0));
        }
        let mut bytes = forged(&[(2, 22, 0)], &[(0, 0, query(n % 256), Some(n), n + 1)]);
        bytes.push(4);
        bytes.extend_from_slice(&form(n).0.to_le_bytes());
        number(&mut bytes, 3_000);
        bytes.extend_from_slice(&definition_of(form(n), 3_000));
        hear(&mut known, &bytes, at(n));
        assert!(known.sizes().definition_bytes <= bytes_max);
    }
    // This node's own find room anyway.
    assert!(known.define_form(form(1_000_000), &definition_of(form(1_000_000), 3_000)));
    assert!(known.form(form(1_000_000)).is_some());
}

#[test]
fn what_is_cut_or_too_long_is_no_lesson() {
    let bytes = forged(&[(2, 22, 0)], &[(0, 0, pattern(0), Some(0), 1)]);
    assert!(TransitionCounts::decode(&bytes).is_ok());
    assert_eq!(TransitionCounts::decode(&bytes[..bytes.len() - 1]), Err(TransitionCountsError));
    assert_eq!(TransitionCounts::decode(&[]), Err(TransitionCountsError));
    assert_eq!(TransitionCounts::decode(&vec![1; PULL_PAGE_BYTES_MAX + 1]), Err(TransitionCountsError));
    assert!(Digest::decode(&[0, 1]).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_are_a_lesson_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..600), flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4)) {
        let _ = TransitionCounts::decode(&bytes);
        let _ = Digest::decode(&bytes);
        // And a valid one with some bytes changed, merged as if it were true.
        let mut known = honest(1);
        let mut good = forged(
            &[(2, 22, 7 * EPOCH_MS), (3, 33, 5)],
            &[(0, 3, pattern(0), Some(0), 5), (1, 0, query(0), None, 300), (0, 0, pattern(500), Some(7), 1)],
        );
        for (place, byte) in flips {
            let len = good.len();
            good[usize::from(place) % len] = byte;
        }
        if let Ok(counts) = TransitionCounts::decode(&good) {
            known.merge(&counts, at(5), |_| true);
        }
        prop_assert!(known.predictions(pattern(0), at(9)).iter().all(|found| found.p.is_finite() && found.p <= 1.0));
    }

    #[test]
    fn any_digest_is_answered_within_a_page(bytes in proptest::collection::vec(any::<u8>(), 40..300)) {
        // From the beginning, one bit, four sums.
        let mut head = vec![0, 1, 4];
        head.extend_from_slice(&bytes);
        let mut known = honest(1);
        for len in 0..head.len() {
            if let Some(digest) = Digest::decode(&head[..len]) {
                prop_assert!(known.answer_pull(&digest, at(0)).len() <= PULL_PAGE_BYTES_MAX);
                prop_assert_eq!(Digest::decode(&digest.encode()), Some(digest));
            }
        }
    }
}
