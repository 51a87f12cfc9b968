//! Which answers are considered: those of this node's own copies, whoever asked. The node that has the copy has the
//! fields of the result too, so it asks no other node, and `consider` never waits.
//!
//! On the request's path there is one look at a word, and sometimes one push into a short queue. A query that was
//! considered a moment ago is passed over, and so is each answer for which the queue has no room.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    CONSIDERED_EVERY_MS, CONSIDERED_IN_ROUND_MAX, CONSIDERED_KEPT_MAX, CONSIDERED_KEPT_MS,
    OBSERVED_QUERY_BYTES_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::model::ask::{Ask, Query};
use crate::model::event::ObservationWord;
use crate::model::outcome::{Class, Outcome};
use crate::model::rendering::RenderingId;
use crate::peers::message::ForwardedAsk;
use crate::prefetch::Prefetch;
use crate::prefetch::observe::is_observed;

/// An answered request, and the identity that made it. Kept until the candidates that follow it are ordered.
pub(super) struct Antecedent {
    pub(super) query: Arc<Query>,
    /// The rendering of its answer.
    pub(super) rendering: RenderingId,
}

/// A request that this node has answered.
enum Answered {
    /// Read.
    Read(Antecedent),
    /// A forwarded one, of which only the head was read.
    Unread(Box<ForwardedAsk>),
}

impl Answered {
    fn key(&self) -> &QueryKey {
        match self {
            Self::Read(before) => &before.query.key,
            Self::Unread(forwarded) => forwarded.key(),
        }
    }
}

/// Answers that wait to be considered.
pub(super) struct AnsweredQueue {
    queue: mpsc::Sender<Answered>,
    /// The queue's end, until the task that drains it takes it.
    drained: Mutex<Option<mpsc::Receiver<Answered>>>,
    recent: RecentKeys,
    /// Answers without room in the queue that were not counted yet.
    passed_over: AtomicUsize,
}

impl AnsweredQueue {
    pub(super) fn new() -> Self {
        let (queue, drained) = mpsc::channel(CONSIDERED_IN_ROUND_MAX);
        let recent = RecentKeys::new();
        Self { queue, drained: Mutex::new(Some(drained)), recent, passed_over: AtomicUsize::new(0) }
    }

    /// Answers that wait.
    pub(super) fn len(&self) -> usize {
        CONSIDERED_IN_ROUND_MAX - self.queue.capacity()
    }

    fn push(&self, key: &QueryKey, is_new: bool, now: MonoTime, answered: impl FnOnce() -> Answered) {
        if !is_new && self.recent.has(key, now) {
            return;
        }
        match self.queue.try_reserve() {
            Ok(place) => place.send(answered()),
            Err(_) => drop(self.passed_over.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Keys of a moment ago, without a lock: each has one word, which another key may take.
struct RecentKeys(Box<[AtomicU64]>);

impl RecentKeys {
    fn new() -> Self {
        Self((0..CONSIDERED_KEPT_MAX).map(|_| AtomicU64::new(0)).collect())
    }

    /// The key's word, and the upper half that names the key. Keys are digests.
    fn word(&self, key: &QueryKey) -> Option<(&AtomicU64, u64)> {
        let [place, name] = key.0.as_chunks::<8>().0.first_chunk()?.map(u64::from_le_bytes);
        let place = usize::try_from(place % self.0.len() as u64).ok()?;
        Some((self.0.get(place)?, name | 1 << 32))
    }

    fn has(&self, key: &QueryKey, now: MonoTime) -> bool {
        let Some((word, name)) = self.word(key) else { return false };
        let word = word.load(Ordering::Relaxed);
        // The lower half is a time in milliseconds, which may wrap around.
        let ago_ms = millis(now).wrapping_sub(millis_of(word));
        word >> 32 == name >> 32 && u64::from(ago_ms) < CONSIDERED_KEPT_MS
    }

    fn put(&self, key: &QueryKey, now: MonoTime) {
        if let Some((word, name)) = self.word(key) {
            word.store(name >> 32 << 32 | u64::from(millis(now)), Ordering::Relaxed);
        }
    }
}

fn millis(now: MonoTime) -> u32 {
    millis_of(now.0 / 1_000)
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn millis_of(word: u64) -> u32 {
    word as u32
}

impl Prefetch {
    /// A request of this node's client, or a forwarded one, was answered from here.
    pub(crate) fn consider_answer(&self, ask: &Ask, outcome: &Outcome, now: MonoTime) {
        let Ask { query, rendering, .. } = ask;
        let is_short = query.statement.len() + query.params.len() <= OBSERVED_QUERY_BYTES_MAX;
        if self.is_considering() && is_short && is_observed(outcome) {
            let is_new = matches!(outcome.how.class, Class::Miss { .. });
            let read = || Answered::Read(Antecedent { query: Arc::clone(query), rendering: *rendering });
            self.learning.answered.push(&query.key, is_new, now, read);
        }
    }

    /// A forwarded request was answered from memory, without reading more than its head.
    pub(crate) fn consider_forwarded(&self, forwarded: &ForwardedAsk, now: MonoTime) {
        // With the identity and the reading of the statement it is longer than the query.
        if self.is_considering() && forwarded.len_bytes() <= 2 * OBSERVED_QUERY_BYTES_MAX {
            let unread = || Answered::Unread(Box::new(forwarded.clone()));
            self.learning.answered.push(forwarded.key(), false, now, unread);
        }
    }

    fn is_considering(&self) -> bool {
        self.policy.is_on && self.policy.queries_max > 0
    }

    /// Considers which queries may follow the answers of this node, for ever.
    pub(super) async fn consider_rounds(self: &Arc<Self>) -> Infallible {
        let answered = &self.learning.answered;
        let drained = answered.drained.lock().take();
        let Some(mut drained) = drained else { return pending().await };
        loop {
            // Woken by the first after a quiet time, not by each. By then the client has had its answer.
            let Some(first) = drained.recv().await else { return pending().await };
            self.context.sleep(Millis(CONSIDERED_EVERY_MS)).await;
            let mut round = vec![first];
            while round.len() <= CONSIDERED_IN_ROUND_MAX
                && let Ok(next) = drained.try_recv()
            {
                round.push(next);
            }
            self.note_observed(
                ObservationWord::Unconsidered,
                answered.passed_over.swap(0, Ordering::Relaxed),
            );
            self.consider_round(round);
        }
    }

    fn consider_round(self: &Arc<Self>, round: Vec<Answered>) {
        let now = self.context.now();
        let mut orders = Vec::new();
        let mut seen: Vec<QueryKey> = Vec::with_capacity(round.len());
        for answered in round {
            if seen.contains(answered.key()) {
                continue;
            }
            seen.push(*answered.key());
            // A near copy answered: the owner considers the query each time that the near copy is renewed.
            if self.routing.view().owner(answered.key()) != Some(self.context.node())
                && self.cache.look(answered.key()).is_none()
            {
                continue;
            }
            self.learning.answered.recent.put(answered.key(), now);
            let before = match answered {
                Answered::Read(before) => before,
                // A key that is not the query's: the sender is told when it leads to a run.
                Answered::Unread(forwarded) => match forwarded.read(&self.hasher, &self.procedures, now) {
                    Ok(ask) => Antecedent { query: ask.query, rendering: ask.rendering },
                    Err(_) => continue,
                },
            };
            orders.extend(self.orders_after(&before, now));
        }
        self.send_orders(orders);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> QueryKey {
        QueryKey(std::array::from_fn(|place| {
            byte.wrapping_mul(17).wrapping_add(u8::try_from(place).unwrap())
        }))
    }

    #[test]
    fn a_key_is_recent_for_a_while_and_no_other_is() {
        let recent = RecentKeys::new();
        let at = |ms: u64| MonoTime(ms * 1_000);
        // Also where the lower half of the time wraps around.
        for start in [5, u64::from(u32::MAX) - 10] {
            assert!(!recent.has(&key(1), at(start)));
            recent.put(&key(1), at(start));
            assert!(
                recent.has(&key(1), at(start)) && recent.has(&key(1), at(start + CONSIDERED_KEPT_MS - 1))
            );
            assert!(!recent.has(&key(1), at(start + CONSIDERED_KEPT_MS)) && !recent.has(&key(2), at(start)));
        }
    }

    #[test]
    fn two_keys_in_one_place_are_told_apart() {
        let recent = RecentKeys::new();
        let mut other = key(1);
        other.0[15] ^= 1;
        recent.put(&key(1), MonoTime(1_000));
        assert!(!recent.has(&other, MonoTime(1_000)));
        recent.put(&other, MonoTime(1_000));
        assert!(!recent.has(&key(1), MonoTime(1_000)), "the later one has the place");
    }
}
