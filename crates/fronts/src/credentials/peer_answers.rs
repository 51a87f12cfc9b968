//! The other nodes' answers about credentials: which cached acceptance counts while Neo4j cannot be asked, and how a
//! refusal reaches all nodes.
//!
//! - A node asks the others only about credentials that it has to refuse otherwise: Neo4j cannot be asked, and this
//!   node has no acceptance of its own that is young enough.
//! - The newest answer counts, and a refusal before an acceptance of the same moment. An acceptance counts from
//!   Neo4j's decision, at any node. So a copied acceptance ends when the first one ends: after the same 30 s and the
//!   same grace. For example: node A has Neo4j's acceptance from 20 s ago, and node B copies it. At both nodes it
//!   ends 10 s later, or with the grace.
//! - A refusal is sent to every node at once, unasked. It ends older acceptances.
//!
//! This file decides the meaning of the answers. It sends nothing: [`OtherNodes`] does.

use std::collections::VecDeque;

use async_trait::async_trait;
use hopcache_core::limits::{ENTRY_LIFE_MS_MAX, REFUSALS_TOLD_AT_ONCE, REFUSALS_WAITING_MAX};
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;

use super::credential_messages::{CredentialAnswer, Fingerprint};

/// The way to the other nodes.
#[async_trait]
pub trait OtherNodes: Send + Sync + 'static {
    /// The answers of the nodes that answer in time.
    async fn ask(&self, whose: &Fingerprint, within: Millis) -> Vec<CredentialAnswer>;
    /// Sends Neo4j's refusals to every node, each with its age. A node that cannot be reached is left out.
    async fn send_refusals(&self, refused: Vec<(Fingerprint, Millis)>);
}

/// The meaning of all answers together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerVerdict {
    /// Neo4j accepted at this time.
    Accepted(MonoTime),
    /// Neo4j refused at this time, and no node knows of a later acceptance.
    Refused(MonoTime),
}

/// The newest of the answers. They were asked for at `asked_at` and arrived by `now`. An acceptance counts as old as
/// it can be, and a refusal as new as it can be. `own_refusal` is the time of this node's own refusal.
pub(super) fn newest_verdict(
    answers: &[CredentialAnswer],
    (asked_at, now): (MonoTime, MonoTime),
    own_refusal: Option<MonoTime>,
) -> Option<PeerVerdict> {
    let is_sane = |age_ms: &Millis| age_ms.0 <= ENTRY_LIFE_MS_MAX;
    let accepted = answers.iter().filter_map(|answer| match answer {
        CredentialAnswer::Accepted(age_ms) if is_sane(age_ms) => Some(asked_at - *age_ms),
        _ => None,
    });
    let refused = answers.iter().filter_map(|answer| match answer {
        CredentialAnswer::Refused(age_ms) if is_sane(age_ms) => Some(now - *age_ms),
        _ => None,
    });
    match (accepted.max(), refused.chain(own_refusal).max()) {
        (Some(yes), Some(no)) if yes > no => Some(PeerVerdict::Accepted(yes)),
        (Some(yes), None) => Some(PeerVerdict::Accepted(yes)),
        (_, Some(no)) => Some(PeerVerdict::Refused(no)),
        (None, None) => None,
    }
}

/// Refusals that wait to be sent. One task sends at a time.
#[derive(Debug, Default)]
pub(super) struct RefusalQueue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    refused: VecDeque<(Fingerprint, MonoTime)>,
    is_sending: bool,
}

impl RefusalQueue {
    /// Adds a refusal. Returns whether the caller has to send: it calls [`RefusalQueue::page`] until that gives
    /// `None`.
    pub(super) fn push(&self, whose: Fingerprint, refused_at: MonoTime) -> bool {
        let mut waiting = self.0.lock();
        if waiting.refused.len() >= REFUSALS_WAITING_MAX {
            waiting.refused.pop_front();
        }
        waiting.refused.push_back((whose, refused_at));
        !std::mem::replace(&mut waiting.is_sending, true)
    }

    /// The next refusals with their ages. With `None` the caller stops sending.
    pub(super) fn page(&self, now: MonoTime) -> Option<Vec<(Fingerprint, Millis)>> {
        let mut waiting = self.0.lock();
        let count = waiting.refused.len().min(REFUSALS_TOLD_AT_ONCE);
        let page: Vec<_> = waiting.refused.drain(..count).map(|(whose, at)| (whose, now.since(at))).collect();
        waiting.is_sending = !page.is_empty();
        waiting.is_sending.then_some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: MonoTime = MonoTime(1_000_000_000_000);

    fn of(answers: &[CredentialAnswer], own_refusal: Option<MonoTime>) -> Option<PeerVerdict> {
        newest_verdict(answers, (NOW - Millis(10), NOW), own_refusal)
    }

    #[test]
    fn the_newest_answer_counts_and_a_refusal_before_an_acceptance() {
        let [yes, no] =
            [|age| CredentialAnswer::Accepted(Millis(age)), |age| CredentialAnswer::Refused(Millis(age))];
        assert_eq!(of(&[], None), None);
        assert_eq!(of(&[CredentialAnswer::Unknown], None), None);
        let accepted = |age: u64| Some(PeerVerdict::Accepted(NOW - Millis(10 + age)));
        let refused = |age: u64| Some(PeerVerdict::Refused(NOW - Millis(age)));
        assert_eq!(of(&[yes(500), CredentialAnswer::Unknown, yes(90)], None), accepted(90));
        assert_eq!(of(&[yes(90), no(200)], None), accepted(90));
        assert_eq!(of(&[yes(200), no(90)], None), refused(90));
        // Both may be of the same moment.
        assert_eq!(of(&[yes(100), no(110)], None), refused(110));
        assert_eq!(of(&[yes(100)], Some(NOW - Millis(50))), refused(50));
        assert_eq!(of(&[yes(100)], Some(NOW - Millis(500))), accepted(100));
        assert_eq!(of(&[yes(u64::MAX), no(u64::MAX)], None), None, "no clock gives such ages");
    }

    /// I9: thousands of guesses do not pile up, and one task sends their refusals.
    #[test]
    fn refusals_that_wait_are_bounded_and_sent_in_pages() {
        let refusals = RefusalQueue::default();
        let one = |number: usize| [u8::try_from(number % 256).unwrap_or(0); 32];
        assert!(refusals.push(one(0), NOW), "the first caller sends");
        for number in 1..REFUSALS_WAITING_MAX + 10 {
            assert!(!refusals.push(one(number), NOW));
        }
        let page = refusals.page(NOW + Millis(7)).unwrap();
        assert_eq!(
            (page.len(), page[0]),
            (REFUSALS_TOLD_AT_ONCE, (one(10), Millis(7))),
            "the oldest went first"
        );
        let mut sent = page.len();
        while let Some(page) = refusals.page(NOW) {
            sent += page.len();
        }
        assert_eq!(sent, REFUSALS_WAITING_MAX);
        assert!(refusals.push(one(0), NOW), "and the next caller sends again");
    }
}
