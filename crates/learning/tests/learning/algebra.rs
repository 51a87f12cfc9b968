//! Merging lessons is commutative, associative and idempotent (THEORY "Learning and prefetch").

use hopcache_core::limits::EPOCH_MS;
use hopcache_core::time::MonoTime;
use hopcache_learning::{Digest, Successors};
use proptest::prelude::*;

use super::{at, definition_of, form, hear, node, pattern, query};

const NOW_MS: u64 = 7 * EPOCH_MS + 1_234;

/// (source, form or none, epoch, how often, launched too)
type Counts = Vec<(u64, Option<u64>, u64, u32, bool)>;

fn counts() -> impl Strategy<Value = Counts> {
    let form = proptest::option::weighted(0.7, 0..4_u64);
    proptest::collection::vec((0..5_u64, form, 0..8_u64, 1..5_u32, any::<bool>()), 1..24)
}

/// The whole knowledge of a node with these counts.
fn page(me: u64, counts: &Counts) -> Vec<u8> {
    let mut known = node(me, me + 100, 16, at(0));
    let mut counts = counts.clone();
    counts.sort_by_key(|(.., epoch, _, _)| *epoch);
    for (of, follows, epoch, times, is_launched) in counts {
        let now = at((epoch * EPOCH_MS).min(NOW_MS));
        let source = if of % 2 == 0 { pattern(of) } else { query(of) };
        for _ in 0..times {
            known.saw(source, now);
            let Some(follows) = follows else { continue };
            known.count(source, form(follows), now);
            assert!(known.define_form(form(follows), &definition_of(form(follows), 40)));
            if is_launched {
                known.launched(source, form(follows), now);
            }
        }
    }
    let asks_for_all = node(9, 9, 16, at(0)).digest(at(0));
    let mut everything = known.answer_pull(&asks_for_all, at(NOW_MS));
    // Definitions are requested by name.
    let mut asker = node(9, 9, 16, at(0));
    hear(&mut asker, &everything, at(NOW_MS));
    let wants = asker.digest(at(NOW_MS));
    assert!(Digest::decode(&wants.encode()).is_some());
    if counts_are_empty(&asker, at(NOW_MS)) {
        everything = known.answer_pull(&wants, at(NOW_MS));
    }
    everything
}

fn counts_are_empty(known: &Successors, now: MonoTime) -> bool {
    known.patterns(1, now).is_empty() && known.sizes().slots == 0
}

/// Everything visible, and the sums over every slot.
fn state(known: &mut Successors) -> (String, Vec<u8>) {
    let now = at(NOW_MS);
    let views: Vec<_> = (0..5).map(|of| (known.view(pattern(of), now), known.view(query(of), now))).collect();
    (format!("{views:?}"), known.digest(now).encode())
}

fn merged(pages: &[&Vec<u8>]) -> Successors {
    let mut known = node(7, 7, 16, at(0));
    for page in pages {
        hear(&mut known, page, at(NOW_MS));
    }
    known
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn order_does_not_matter(a in counts(), b in counts(), c in counts()) {
        let (a, b, c) = (page(1, &a), page(2, &b), page(3, &c));
        let expected = state(&mut merged(&[&a, &b, &c]));
        for order in [[&a, &c, &b], [&b, &a, &c], [&b, &c, &a], [&c, &a, &b], [&c, &b, &a]] {
            prop_assert_eq!(&state(&mut merged(&order)), &expected);
        }
    }

    #[test]
    fn grouping_does_not_matter(a in counts(), b in counts(), c in counts()) {
        let (a, b, c) = (page(1, &a), page(2, &b), page(3, &c));
        // a, and another node's merge of b and c.
        let mut b_and_c = node(8, 8, 16, at(0));
        hear(&mut b_and_c, &b, at(NOW_MS));
        hear(&mut b_and_c, &c, at(NOW_MS));
        let all = node(9, 9, 16, at(0)).digest(at(0));
        let b_and_c = b_and_c.answer_pull(&all, at(NOW_MS));
        prop_assert_eq!(state(&mut merged(&[&a, &b_and_c])), state(&mut merged(&[&a, &b, &c])));
    }

    #[test]
    fn repetition_does_not_matter(a in counts(), later in counts()) {
        // The same life, earlier and later: the earlier one comes again at the end.
        let both = [a.clone(), later].concat();
        let (early, late) = (page(1, &a), page(1, &both));
        let expected = state(&mut merged(&[&late]));
        prop_assert_eq!(state(&mut merged(&[&early, &late, &early, &late, &early])), expected);
        let mut known = merged(&[&late]);
        let again = hear(&mut known, &late, at(NOW_MS));
        prop_assert_eq!((again.taken, again.defined), (0, 0));
    }
}
