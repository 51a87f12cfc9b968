//! The other nodes' words about credentials: whose belief counts while Neo4j cannot be asked, and how a refusal reaches
//! all.
//!
//! - A node asks the others only about credentials that it has to refuse otherwise: Neo4j cannot be asked, and this node
//!   has no acceptance of its own that is young enough.
//! - The newest word counts, and a no before a yes of the same moment. A yes counts from when Neo4j said it, on whatever
//!   node: a belief that is passed on ends when it ends at its first node, after the same 30 s and the same grace.
//! - A refusal is told to every node at once, without being asked for. It ends beliefs that are older than it.
//!
//! This file decides what the words mean. It asks nobody: [`OtherNodes`] does.

use std::collections::VecDeque;

use async_trait::async_trait;
use hopcache_core::limits::{ENTRY_LIFE_MS_MAX, REFUSALS_TOLD_AT_ONCE, REFUSALS_WAITING_MAX};
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;

use super::peer_words::{Fingerprint, Word};

/// The way to the other nodes.
#[async_trait]
pub trait OtherNodes: Send + Sync + 'static {
    /// The words of those nodes that answer in time.
    async fn words_on(&self, whose: &Fingerprint, within: Millis) -> Vec<Word>;
    /// Tells every node what Neo4j has refused, each as long ago as it says. A node that cannot be reached is left out.
    async fn tell_refused(&self, refused: Vec<(Fingerprint, Millis)>);
}

/// What the words together say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// Neo4j said yes then.
    Accepted(MonoTime),
    /// Neo4j said no then, and nobody knows of a later yes.
    Refused(MonoTime),
}

/// The newest of the words. They were asked for at `asked_at` and came by `now`: a yes counts as old as it can be, and a no
/// as new as it can be. `own_no` is when this node heard a no itself.
pub(super) fn newest(
    words: &[Word],
    (asked_at, now): (MonoTime, MonoTime),
    own_no: Option<MonoTime>,
) -> Option<Heard> {
    let is_sane = |age_ms: &Millis| age_ms.0 <= ENTRY_LIFE_MS_MAX;
    let accepted = words.iter().filter_map(|word| match word {
        Word::Accepted(age_ms) if is_sane(age_ms) => Some(asked_at - *age_ms),
        _ => None,
    });
    let refused = words.iter().filter_map(|word| match word {
        Word::Refused(age_ms) if is_sane(age_ms) => Some(now - *age_ms),
        _ => None,
    });
    match (accepted.max(), refused.chain(own_no).max()) {
        (Some(yes), Some(no)) if yes > no => Some(Heard::Accepted(yes)),
        (Some(yes), None) => Some(Heard::Accepted(yes)),
        (_, Some(no)) => Some(Heard::Refused(no)),
        (None, None) => None,
    }
}

/// Refusals that wait to be told. One task tells at a time.
#[derive(Debug, Default)]
pub(super) struct Untold(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    refused: VecDeque<(Fingerprint, MonoTime)>,
    is_told: bool,
}

impl Untold {
    /// Adds a refusal. Whether the caller has to tell ([`Untold::page`] until there is none).
    pub(super) fn push(&self, whose: Fingerprint, refused_at: MonoTime) -> bool {
        let mut waiting = self.0.lock();
        if waiting.refused.len() >= REFUSALS_WAITING_MAX {
            waiting.refused.pop_front();
        }
        waiting.refused.push_back((whose, refused_at));
        !std::mem::replace(&mut waiting.is_told, true)
    }

    /// The next refusals with their ages. With `None` the caller tells no longer.
    pub(super) fn page(&self, now: MonoTime) -> Option<Vec<(Fingerprint, Millis)>> {
        let mut waiting = self.0.lock();
        let count = waiting.refused.len().min(REFUSALS_TOLD_AT_ONCE);
        let page: Vec<_> = waiting.refused.drain(..count).map(|(whose, at)| (whose, now.since(at))).collect();
        waiting.is_told = !page.is_empty();
        waiting.is_told.then_some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: MonoTime = MonoTime(1_000_000_000_000);

    fn of(words: &[Word], own_no: Option<MonoTime>) -> Option<Heard> {
        newest(words, (NOW - Millis(10), NOW), own_no)
    }

    #[test]
    fn the_newest_word_counts_and_a_no_before_a_yes() {
        let [yes, no] = [|age| Word::Accepted(Millis(age)), |age| Word::Refused(Millis(age))];
        assert_eq!(of(&[], None), None);
        assert_eq!(of(&[Word::Unknown], None), None);
        let accepted = |age: u64| Some(Heard::Accepted(NOW - Millis(10 + age)));
        let refused = |age: u64| Some(Heard::Refused(NOW - Millis(age)));
        assert_eq!(of(&[yes(500), Word::Unknown, yes(90)], None), accepted(90));
        assert_eq!(of(&[yes(90), no(200)], None), accepted(90));
        assert_eq!(of(&[yes(200), no(90)], None), refused(90));
        // Both may have been said at the same moment.
        assert_eq!(of(&[yes(100), no(110)], None), refused(110));
        assert_eq!(of(&[yes(100)], Some(NOW - Millis(50))), refused(50));
        assert_eq!(of(&[yes(100)], Some(NOW - Millis(500))), accepted(100));
        assert_eq!(of(&[yes(u64::MAX), no(u64::MAX)], None), None, "no clock says so");
    }

    /// I9: guesses by the thousand do not pile up, and one task tells them.
    #[test]
    fn refusals_that_wait_are_bounded_and_told_in_pages() {
        let untold = Untold::default();
        let one = |number: usize| [u8::try_from(number % 256).unwrap_or(0); 32];
        assert!(untold.push(one(0), NOW), "the first one tells");
        for number in 1..REFUSALS_WAITING_MAX + 10 {
            assert!(!untold.push(one(number), NOW));
        }
        let page = untold.page(NOW + Millis(7)).unwrap();
        assert_eq!(
            (page.len(), page[0]),
            (REFUSALS_TOLD_AT_ONCE, (one(10), Millis(7))),
            "the oldest went first"
        );
        let mut told = page.len();
        while let Some(page) = untold.page(NOW) {
            told += page.len();
        }
        assert_eq!(told, REFUSALS_WAITING_MAX);
        assert!(untold.push(one(0), NOW), "and the next one tells again");
    }
}
