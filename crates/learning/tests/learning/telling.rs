//! The lessons that a node sends by gossip: the most important first, within the budget, once.

use hopcache_core::limits::{
    DELTA_PIECE_BYTES_MAX, DELTA_PIECES_PER_ROUND, DELTA_QUERIES_CONSIDERED_MAX, DELTAS_EVERY_MS, EPOCH_MS,
    FORM_BYTES_MAX, PATTERN_TEXT_BYTES_MAX, PULL_DIGEST_BYTES_MAX, PULL_PAGE_BYTES_MAX,
};
use hopcache_learning::{Definition, Digest, Successors, TransitionCounts};

use super::{at, close, definition_of, form, hear, node, pattern, pull, query};

fn follow(known: &mut Successors, of: u64, f: u64, times: u32) {
    for _ in 0..times {
        known.saw(pattern(of), at(0));
        known.count(pattern(of), form(f), at(0));
    }
}

#[test]
fn the_largest_change_of_probability_is_told_first() {
    let mut known = node(1, 11, 256, at(0));
    // 60 sources with one sure form, and 60 whose first of many forms was seen once.
    for of in 0..60 {
        follow(&mut known, of, of, 9);
        (0..9).for_each(|_| known.saw(pattern(100 + of), at(0)));
        known.count(pattern(100 + of), form(of), at(0));
    }
    let mut other = node(2, 22, 256, at(0));
    let pieces = known.next_pieces(1_024, at(0));
    assert!(pieces.len() == 2 && pieces.iter().all(|piece| piece.len() <= DELTA_PIECE_BYTES_MAX));
    pieces.iter().for_each(|piece| assert!(hear(&mut other, piece, at(0)).taken > 0));
    let told = |from: u64| (from..from + 60).filter(|of| !other.predictions(pattern(*of), at(0)).is_empty());
    assert!(told(0).count() > 30, "{} of the sure ones fit", told(0).count());
    assert_eq!(told(100).count(), 0);
}

#[test]
fn each_change_is_told_once_and_all_are_told_in_the_end() {
    let mut known = node(1, 11, 256, at(0));
    (0..200).for_each(|of| follow(&mut known, of, of, 2));
    let mut other = node(2, 22, 256, at(0));
    let (mut taken, mut rounds) = (0, 0);
    while known.sizes().untold > 0 {
        for piece in known.next_pieces(1_024, at(0)) {
            let merged = hear(&mut other, &piece, at(0));
            assert_eq!(merged.known, 0, "sent twice");
            taken += merged.taken;
        }
        rounds += 1;
        assert!(rounds < 100);
    }
    assert_eq!(taken, 400, "a row of the source and one of the form each");
    assert!(known.next_pieces(1_024, at(0)).is_empty(), "nothing changed since");
    follow(&mut known, 7, 7, 1);
    let again = known.next_pieces(1_024, at(0));
    assert_eq!(again.len(), 1);
    assert_eq!(hear(&mut other, &again[0], at(0)).taken, 2);
    assert!(close(other.predictions(pattern(7), at(0))[0].tally.seen, 3.0));
}

/// Issue 7, must-show 6: with ever more news than a round has room for, each round sends its share and no more, and so
/// do digests and pages. ([`pull`] checks each page.)
#[test]
fn a_flood_of_news_is_told_within_its_budget() {
    let budget_bytes = DELTA_PIECES_PER_ROUND * DELTA_PIECE_BYTES_MAX;
    let (mut known, mut other) = (node(1, 11, 4_096, at(0)), node(2, 22, 4_096, at(0)));
    let (mut told_bytes, rounds) = (0, 50);
    for round in 0..rounds {
        let now = at(round * DELTAS_EVERY_MS);
        for of in 0..200 {
            let of = (round * 200 + of) % 3_000;
            known.saw(pattern(of), now);
            known.count(pattern(of), form(of), now);
            known.define_form(form(of), &definition_of(form(of), 100));
        }
        let pieces = known.next_pieces(budget_bytes, now);
        assert!(pieces.len() <= DELTA_PIECES_PER_ROUND, "{} pieces", pieces.len());
        assert!(pieces.iter().all(|piece| piece.len() <= DELTA_PIECE_BYTES_MAX));
        told_bytes += pieces.iter().map(Vec::len).sum::<usize>();
        assert!(other.digest(now).encode().len() <= PULL_DIGEST_BYTES_MAX);
        pieces.iter().for_each(|piece| assert!(hear(&mut other, piece, now).refused_bounds == 0));
    }
    let allowed_bytes = budget_bytes * usize::try_from(rounds).unwrap();
    assert!(told_bytes <= allowed_bytes && told_bytes > allowed_bytes / 2, "{told_bytes} of {allowed_bytes}");
    assert!(known.sizes().untold > 1_000, "it was a flood: {:?}", known.sizes());
    let now = at(rounds * DELTAS_EVERY_MS);
    assert!(pull(&mut other, now, &mut known, now) > 1_000, "unsent rows are pulled");
}

/// Counts from just before the end of an epoch are sent after it.
#[test]
fn the_end_of_an_epoch_loses_nothing() {
    let mut known = node(1, 11, 256, at(0));
    known.saw(query(1), at(EPOCH_MS - 1));
    known.count(query(1), form(1), at(EPOCH_MS - 1));
    let mut other = node(2, 22, 256, at(0));
    for piece in known.next_pieces(1_024, at(EPOCH_MS)) {
        hear(&mut other, &piece, at(0));
    }
    let found = other.predictions(query(1), at(0));
    assert!(close(found[0].tally.seen, 0.5), "{found:?}");
}

/// Queries that wait are told even if more other queries change in each round than a round has places.
#[test]
fn queries_that_change_in_each_round_leave_places_to_those_that_wait() {
    let mut known = node(1, 11, 256, at(0));
    let mut other = node(2, 22, 256, at(0));
    let count = |known: &mut Successors, of: u64| {
        known.saw(query(of), at(0));
        known.count(query(of), form(of), at(0));
    };
    // Greater tags than the others', so that at the same change they come last.
    (10_000..10_100).for_each(|of| count(&mut known, of));
    for round in 0..30 {
        (0..2 * DELTA_QUERIES_CONSIDERED_MAX as u64).for_each(|of| count(&mut known, round * 100 + of));
        for piece in known.next_pieces(1_024, at(0)) {
            hear(&mut other, &piece, at(0));
        }
    }
    let told = (10_000..10_100).filter(|of| !other.predictions(query(*of), at(0)).is_empty());
    let told = told.count();
    assert!(told >= 50, "{told} of 100 in 30 rounds");
}

#[test]
fn definitions_go_with_their_slots_or_by_pull() {
    let mut known = node(1, 11, 256, at(0));
    follow(&mut known, 0, 0, 1);
    follow(&mut known, 1, 1, 1);
    assert!(known.define_form(form(0), &definition_of(form(0), 200)));
    assert!(known.define_form(form(1), &definition_of(form(1), FORM_BYTES_MAX)));
    assert!(
        !known.define_form(form(2), &definition_of(form(2), FORM_BYTES_MAX + 1)),
        "too long to be learned"
    );
    known.define_pattern(hopcache_learning::PatternTag(pattern(0).tag()), "MATCH (n) RETURN n");
    let mut other = node(2, 22, 256, at(0));
    for piece in known.next_pieces(2_048, at(0)) {
        hear(&mut other, &piece, at(0));
    }
    assert_eq!(other.form(form(0)).unwrap(), definition_of(form(0), 200));
    assert_eq!(other.view(pattern(0), at(0)).unwrap().text.as_deref(), Some("MATCH (n) RETURN n"));
    assert!(other.form(form(1)).is_none(), "3 KiB fit no piece");
    pull(&mut other, at(0), &mut known, at(0));
    assert_eq!(other.form(form(1)).unwrap(), definition_of(form(1), FORM_BYTES_MAX));
    assert_eq!(pull(&mut other, at(0), &mut known, at(0)), 0);
}

/// A pull for definitions brings no counts, costs a few bytes to ask, and does not move the place of the other pulls.
#[test]
fn missing_definitions_are_pulled_without_counts() {
    let mut known = node(1, 11, 256, at(0));
    follow(&mut known, 0, 0, 1);
    assert!(known.define_form(form(0), &definition_of(form(0), FORM_BYTES_MAX)));
    known.define_pattern(hopcache_learning::PatternTag(pattern(0).tag()), "MATCH (n) RETURN n");
    let mut other = node(2, 22, 256, at(0));
    for piece in known.next_pieces(2_048, at(0)) {
        hear(&mut other, &piece, at(0));
    }
    assert!(other.form(form(0)).is_none() && other.lacks_definitions(), "3 KiB fit no piece");
    for of in 1..256 {
        follow(&mut known, of, of, 1);
    }
    let digest = other.digest_of_wants().unwrap().encode();
    assert!(digest.len() < 64, "{} bytes", digest.len());
    let page = known.answer_pull(&Digest::decode(&digest).unwrap(), at(0));
    let merged = other.merge_definitions(&TransitionCounts::decode(&page).unwrap(), at(0), super::is_true);
    assert_eq!((merged.taken, merged.known, merged.defined), (0, 0, 1));
    assert_eq!(other.form(form(0)).unwrap(), definition_of(form(0), FORM_BYTES_MAX));
    assert!(other.digest_of_wants().is_none(), "nothing to ask for");
    pull(&mut other, at(0), &mut known, at(0));
    assert_eq!(other.sizes().slots, known.sizes().slots);
}

#[test]
fn a_forged_definition_is_refused() {
    let mut known = node(1, 11, 256, at(0));
    follow(&mut known, 0, 0, 1);
    assert!(known.define_form(form(0), b"something else"), "a node trusts itself");
    let mut other = node(2, 22, 256, at(0));
    let lessons = known.next_pieces(1_024, at(0));
    let merged = hear(&mut other, &lessons[0], at(0));
    assert_eq!((merged.defined, merged.refused_forged), (0, 1));
    assert!(other.form(form(0)).is_none());
    let counts = TransitionCounts::decode(&lessons[0]).unwrap();
    let mut asked = Vec::new();
    other.merge(&counts, at(0), |definition| {
        asked.push(definition.clone());
        true
    });
    assert!(matches!(&asked[..], [Definition::Form { id, .. }] if *id == form(0)));
    assert!(other.form(form(0)).is_some());
}

/// A new node has everything after one chain of pages, each within its bound.
#[test]
fn a_joiner_catches_up_page_after_page() {
    let mut known = node(1, 11, 256, at(0));
    for of in 0..256 {
        for f in 0..8 {
            follow(&mut known, of, of * 8 + f, 1);
            assert!(known.define_form(form(of * 8 + f), &definition_of(form(of * 8 + f), 300)));
        }
    }
    for of in 0..4_096 {
        known.saw(query(of), at(0));
        known.count(query(of), form(of % 2_048), at(0));
    }
    let mut other = node(2, 22, 256, at(0));
    let taken = pull(&mut other, at(0), &mut known, at(0));
    assert!(taken >= 256 * 9 + 2 * 4_096 + 2_048, "{taken}");
    let (here, there) = (known.sizes(), other.sizes());
    assert_eq!((here.slots, here.forms, here.patterns, here.queries), (there.slots, there.forms, 256, 4_096));
    assert_eq!(pull(&mut other, at(0), &mut known, at(0)), 0, "nothing differs");
    let quiet = known.answer_pull(&other.digest(at(0)), at(0)).len();
    assert!(quiet < 100, "an answer without news has {quiet} of {PULL_PAGE_BYTES_MAX} bytes");
}

#[test]
fn texts_are_cut_between_characters() {
    let mut known = node(1, 11, 256, at(0));
    let tag = hopcache_learning::PatternTag(5);
    known.define_pattern(tag, &"é".repeat(PATTERN_TEXT_BYTES_MAX));
    assert_eq!(known.pattern(tag).unwrap().len(), PATTERN_TEXT_BYTES_MAX);
    known.define_pattern(
        hopcache_learning::PatternTag(6),
        &format!("x{}", "é".repeat(PATTERN_TEXT_BYTES_MAX)),
    );
    assert_eq!(known.pattern(hopcache_learning::PatternTag(6)).unwrap().len(), PATTERN_TEXT_BYTES_MAX - 1);
}
