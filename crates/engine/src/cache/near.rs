//! Near copies of hot keys (DESIGN section 3, step 4). The owner decides which of its answers other nodes may reuse;
//! the entry node reuses them. `hopcache_core::near` decides for how long.
//!
//! A near copy lies in this node's memory under its key, so that purges, ring changes, the byte budget and the
//! principals' shares cover it. It is never taken for an owner's copy, because every other file looks through
//! [`Cache::look`]. So it never answers a forwarded request. Otherwise lives would add up along a chain of near copies
//! (I4).
//!
//! A near copy counts its answers. The next forward of its key reports them to the owner, whose early refresh counts
//! all requests. Unreported hits are lost with the copy in two cases. If requests for its key stop here, the key needs
//! no refresh for them. After a purge or a change of the ring, another entry or owner counts anew.

use std::sync::atomic::{AtomicU32, Ordering};

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{NEAR_LINGER_MS, NEAR_MS_MAX};
use hopcache_core::near::{NearFacts, near_ms};
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::Cache;
use crate::cache::copy::{CopyTimes, MemoryCopy, ScopeTag, SharedCopy};
use crate::cache::proofs::Coverage;
use crate::model::ask::Ask;
use crate::model::event::Event;
use crate::model::outcome::{Answer, Class, How, Outcome};
use crate::model::text_facts::Reads;

/// Hits of a near copy on their way to the owner, and the copy to return them to.
pub(crate) struct NearHits {
    copy: Option<SharedCopy>,
    hits: u32,
}

impl NearHits {
    pub(crate) fn count(&self) -> u32 {
        self.hits
    }

    /// Returns the hits for the next forward: as far as this node knows, the owner did not get them. If only the
    /// owner's answer was lost, it counts them twice, and a refresh comes early rather than late.
    pub(crate) fn put_back(&self) {
        if let Some(copy) = &self.copy {
            add_near_hits(copy, self.hits);
        }
    }
}

/// An owner's permission to answer with an outcome for a time.
pub(crate) struct Permission<'a> {
    outcome: &'a Outcome,
    near_ms: Millis,
    sent: MonoTime,
}

impl<'a> Permission<'a> {
    /// `sent` is when the forward was sent that brought it. Its age counts from then, as the answer may have been
    /// delayed since.
    pub(crate) fn new(outcome: &'a Outcome, near_ms: Millis, sent: MonoTime) -> Self {
        Self { outcome, near_ms, sent }
    }
}

impl Cache {
    /// For how long other nodes may answer with this rendering of a copy; zero for not at all.
    pub(crate) fn near_ms_for_others(
        &self,
        (key, copy): (&QueryKey, &MemoryCopy),
        body_bytes: usize,
        now: MonoTime,
    ) -> Millis {
        if copy.token().is_none() || self.queued.has(key) {
            // No token fences the copy, or not yet, so it lives briefly here and on no other node.
            return Millis::ZERO;
        }
        if copy.reads().is_some_and(Reads::has_tokens) {
            // Another node has no summary to see by what else this answer depends on.
            return Millis::ZERO;
        }
        let facts = NearFacts {
            rate_per_s: copy.heat().rate_per_s(now),
            left_ms: copy.fresh_until().since(now),
            plan: self.key_stats.plan_in_force(key, copy, now),
            body_bytes,
        };
        near_ms(&facts, self.near_rate_per_s_min)
    }

    /// The near copy's answer while it is permitted: no await and no hop, and a lock only for a bookmark that its run did not carry.
    pub(crate) fn near_hit(&self, ask: &Ask) -> Option<Outcome> {
        if !ask.freshness.is_plain() {
            return None;
        }
        let copy = self.memory.get(&ask.query.key)?;
        let hits = copy.near_hits()?;
        let coverage = self.coverage(&copy, &ask.bookmarks);
        if coverage == Coverage::None || self.written.has_ended(&copy) {
            return None;
        }
        let now = self.context.now();
        if now >= copy.dead_at() || !copy.has_rendering(ask.rendering) || !self.vouches_for(&copy, now) {
            return None;
        }
        let is_proved = self.proves(&copy, now);
        if !coverage.holds(is_proved) || ask.freshness.may_write && !is_proved {
            return None;
        }
        debug_assert_eq!(
            copy.owner(),
            ScopeTag::of(ask.query.identity.scope),
            "I5: another principal's near copy"
        );
        let answer = Answer::Body(copy.rendering(ask.rendering, &*self.renderer).ok()?);
        count(hits, 1);
        self.context.note(Event::NearHit);
        let how = How { is_proved, ..copy.how(Class::Hit, None, now) };
        Some(Outcome { answer, how, answered_by: None, key: ask.query.key, range: copy.range().cloned() })
    }

    /// Takes the near copy's count of answers, to report it to the owner.
    pub(crate) fn take_near_hits(&self, key: &QueryKey) -> NearHits {
        let copy = self.memory.get(key).filter(|copy| copy.near_hits().is_some());
        let taken =
            copy.as_deref().and_then(MemoryCopy::near_hits).map(|hits| hits.swap(0, Ordering::Relaxed));
        NearHits { copy, hits: taken.unwrap_or(0) }
    }

    /// Keeps an answer that the owner permits to reuse. The caller checks afterwards whether a purge came meanwhile.
    pub(crate) fn keep_near(&self, ask: &Ask, permitted: &Permission<'_>) -> Option<SharedCopy> {
        let copy = near_copy(ask, permitted, self.context.now())?;
        let copy = SharedCopy::new(self.of_query(copy, &ask.query));
        let key = ask.query.key;
        // Hits of another rendering's near copy, or of one that this node still served while it asked.
        let untold = self.take_near_hits(&key);
        add_near_hits(&copy, untold.count());
        let life_ms = Millis(copy.dead_at().since(self.context.now()).0 + NEAR_LINGER_MS);
        self.memory.put(key, SharedCopy::clone(&copy), life_ms);
        Some(copy)
    }
}

/// The owner states its age and life left after the forward was sent, and both count from then: a process that was
/// stopped with the answer unread does not make the copy younger. Whatever the owner permits, the near copy ends with
/// the entry's soft life, and after [`NEAR_MS_MAX`].
fn near_copy(ask: &Ask, permitted: &Permission<'_>, now: MonoTime) -> Option<MemoryCopy> {
    let Answer::Body(body) = &permitted.outcome.answer else { return None };
    let how = &permitted.outcome.how;
    let (age_ms, left_ms) = (how.age_ms?, u64::try_from(how.ttl_ms?).ok()?);
    let near_ms = permitted.near_ms.0.min(NEAR_MS_MAX).min(left_ms);
    if permitted.sent + Millis(near_ms) <= now {
        return None;
    }
    let times = near_times(permitted.sent, age_ms, Millis(left_ms), Millis(near_ms));
    let copy = MemoryCopy::near(body, ask.rendering, times, ask.query.tags.clone());
    Some(copy.of_principal(ask.query.identity.scope).of_range(permitted.outcome.range.clone()))
}

/// Both ends count from when the forward was sent. An age that reaches back before this node's clock began is cut
/// there, and moves neither end.
fn near_times(sent: MonoTime, age_ms: Millis, left_ms: Millis, near_ms: Millis) -> CopyTimes {
    let read_started = sent - age_ms;
    let life_ms = (sent + near_ms).since(read_started);
    CopyTimes {
        read_started,
        soft_ms: (sent + left_ms).since(read_started),
        physical_ms: life_ms,
        total_ms: life_ms,
        cost_ms: Millis::ZERO,
    }
}

/// Counts requests that were answered with a near copy, or together with it.
pub(crate) fn add_near_hits(copy: &MemoryCopy, hits: u32) {
    if let Some(counted) = copy.near_hits() {
        count(counted, hits);
    }
}

/// No near copy answers 2^32 requests in its second. An overflow would start again from zero, and the owner would lose
/// that much of the key's heat.
fn count(hits: &AtomicU32, more: u32) {
    hits.fetch_add(more, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I4: whatever age a peer claims, a near copy ends when its owner says.
    #[test]
    fn no_age_moves_the_end_of_a_near_copy() {
        let sent = MonoTime(60_000_000);
        for age_ms in [0, 1, 59_999, 60_000, 60_001, u64::MAX / 1_000, u64::MAX] {
            let times = near_times(sent, Millis(age_ms), Millis(5_000), Millis(1_000));
            assert_eq!(times.read_started + times.physical_ms, sent + Millis(1_000), "{age_ms}");
            assert_eq!(times.read_started + times.soft_ms, sent + Millis(5_000), "{age_ms}");
            assert_eq!(times.read_started, sent - Millis(age_ms));
        }
    }
}
