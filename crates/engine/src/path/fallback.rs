//! Stale answers instead of an outage (RFC 5861, section 4). `cache::stale_fallback` decides which copy stands in and
//! from when on. This module finds it and serves it.
//!
//! A copy that a write has ended stands in only while the origin cannot be reached at all ([`Trouble::Away`]), or if the
//! request allows it (`max-stale`). What one run met is no reason to go back behind a write that was answered.

use hopcache_core::lease::SlotView;
use hopcache_core::limits::{ORIGIN_PROBE_MS_MAX, STALE_FALLBACK_LATE_MS_MAX, STALE_FALLBACK_LOOK_MS};
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::copy::{MemoryCopy, SharedCopy};
use crate::model::ask::Ask;
use crate::model::event::Event;
use crate::model::outcome::{Answer, Detail, FailureKind, Outcome, Role};
use crate::model::ports::Store;
use crate::model::trouble::Trouble;
use crate::path::Path;
use crate::path::answers::LocalAnswer;

impl Path {
    /// The fallback that a request gets without waiting, in one of three cases: it joins a flight that is overdue; the
    /// key's last run is known to have failed; the origin is known to be away. (A run whose origin went silent holds
    /// the key's flight or lease until its own deadline, so waiting for it brings nothing.)
    pub(super) fn overdue_fallback(&self, ask: &Ask, held: Option<&SharedCopy>) -> Option<Outcome> {
        let now = self.context.now();
        // Other nodes may have stored a newer result than a copy that a write has ended: [`Path::find_fallback`] looks.
        let is_newest = |copy: &MemoryCopy| ask.freshness.stale_max_ms.is_some() || !self.is_ended(ask, copy);
        // That an earlier run has failed is no news about now: a write may have been answered since.
        let trouble = self.trouble_of_now();
        let is_silent = trouble != Trouble::OfRun;
        if let Some(copy) = held
            && self.cache.is_stale_if_error_on()
            && (copy.has_origin_failed() || is_silent)
            && is_newest(copy)
            && self.is_fallback_here(ask, copy, (trouble, now))
        {
            return Some(self.fallback_outcome(ask, copy, now));
        }
        let (copy, overdue_at) = self.cache.fallback_of_flight(&ask.query.key)?;
        let is_due = (is_silent || overdue_at <= now) && is_newest(&copy);
        let is_fallback = is_due && self.is_fallback_here(ask, &copy, (trouble, now));
        is_fallback.then(|| self.fallback_outcome(ask, &copy, now))
    }

    /// A Neo4j that refuses this node's own log-on is there: others may write.
    fn trouble_of_now(&self) -> Trouble {
        if self.origin.is_reachable() || self.origin.refuses_us() {
            Trouble::OfRun
        } else if self.origin.is_away() {
            Trouble::Away
        } else {
            Trouble::Late
        }
    }

    /// Completes when the awaited flight is overdue and there is a fallback; otherwise never.
    pub(super) async fn fallback_when_overdue(&self, ask: &Ask) -> Outcome {
        if !self.cache.is_stale_if_error_on() {
            return std::future::pending().await;
        }
        let key = &ask.query.key;
        let usual_ms = self.cache.fallback_wait_ms(&ask.query);
        let mut away_since = None;
        // The store is not asked ten times a second.
        let mut store_at = self.context.now();
        loop {
            let now = self.context.now();
            if self.trouble_of_now() == Trouble::OfRun {
                away_since = None;
            } else {
                // A write has ended this node's copy. Or this node stands in for the owner, which does not reach Neo4j either, and waits
                // for the lease of the owner's run.
                if now >= store_at {
                    if let Some((copy, now)) = self.find_fallback(ask).await {
                        return self.fallback_outcome(ask, &copy, now);
                    }
                    store_at = self.context.now() + usual_ms;
                }
                // The node that asks may reach Neo4j.
                let away_ms = now.since(*away_since.get_or_insert(now));
                if ask.is_forwarded && away_ms > Millis(ORIGIN_PROBE_MS_MAX) {
                    return self.failed(ask, FailureKind::OriginUnreachable.into(), Role::Joined);
                }
            }
            let overdue_at = self.cache.fallback_of_flight(key).map(|(_, overdue_at)| overdue_at);
            let left = overdue_at.map(|overdue_at| overdue_at.since(self.context.now()));
            // One millisecond more, for rounding. If there is no fallback yet, or none for this request, it is looked
            // for again after the same wait.
            let wait_ms =
                left.filter(|left| *left > Millis::ZERO).map_or(usual_ms, |left| Millis(left.0 + 1));
            // Neo4j may turn out to be away meanwhile.
            self.context.sleep(wait_ms.min(Millis(STALE_FALLBACK_LOOK_MS))).await;
            // The process may have been stopped during the wait and have missed a purge.
            self.cache.poll_after_pause(ask.deadline).await;
            if let Some(outcome) = self.overdue_fallback(ask, self.cache.look(key).as_ref()) {
                return outcome;
            }
        }
    }

    /// Replaces a failure by a fallback, if there is one that the request allows.
    pub(super) async fn or_fallback(&self, ask: &Ask, answer: LocalAnswer) -> LocalAnswer {
        let LocalAnswer::Answered(Outcome { answer: Answer::Failed(failure), .. }) = &answer else {
            return answer;
        };
        if !Trouble::is_behind(&failure.kind) || !self.cache.is_stale_if_error_on() || ask.freshness.no_cache
        {
            return answer;
        }
        match self.find_fallback(ask).await {
            Some((copy, now)) => LocalAnswer::Answered(self.fallback_outcome(ask, &copy, now)),
            None => answer,
        }
    }

    /// As [`Self::or_fallback`], for this node's own failures around a forward: the node that was asked has looked for
    /// itself.
    pub(super) async fn or_fallback_beside(&self, ask: &Ask, answer: LocalAnswer) -> LocalAnswer {
        match &answer {
            LocalAnswer::Answered(Outcome { answered_by: None, .. }) if !ask.freshness.only_if_cached => {
                self.or_fallback(ask, answer).await
            }
            _ => answer,
        }
    }

    /// The newest fallback in memory, in the flight's place or in the store, and when it was judged.
    async fn find_fallback(&self, ask: &Ask) -> Option<(SharedCopy, MonoTime)> {
        let key = &ask.query.key;
        let trouble = self.trouble_of_now();
        // A request that has no time left does not wait for a look or a store until a command's own deadline.
        let late = ask.deadline.max(self.context.now() + Millis(STALE_FALLBACK_LATE_MS_MAX));
        // The request may have begun before a pause in which this node missed a purge.
        self.cache.poll_after_pause(late).await;
        let held = self.cache.look(key);
        let now = self.context.now();
        let found = held.clone().or_else(|| Some(self.cache.fallback_of_flight(key)?.0));
        let found = found.filter(|copy| self.is_fallback_here(ask, copy, (trouble, now)));
        if found.as_ref().is_some_and(|copy| !self.is_ended(ask, copy)) {
            return Some((found?, now));
        }
        let stored = self.stored_fallback(ask, held.as_ref(), late).await;
        let is_newer = |stored: &SharedCopy, found: &SharedCopy| stored.read_started() > found.read_started();
        match (stored, found) {
            (Some((stored, now)), Some(found)) if is_newer(&stored, &found) => Some((stored, now)),
            (stored, None) => stored,
            (_, Some(found)) => Some((found, now)),
        }
    }

    /// The fallback in the store, and when it was judged.
    async fn stored_fallback(
        &self,
        ask: &Ask,
        held: Option<&SharedCopy>,
        late: MonoTime,
    ) -> Option<(SharedCopy, MonoTime)> {
        let (key, trouble) = (&ask.query.key, self.trouble_of_now());
        let (purges, asked) = (self.cache.purges(), self.context.now());
        let seen = tokio::select! {
            biased;
            seen = self.store.peek(key) => seen,
            () = self.context.sleep(late.since(asked)) => return None,
        };
        let Ok(SlotView { entry: Some(stored), .. }) = seen else { return None };
        let copy =
            self.writes.take_stored(&ask.query, &stored, asked, held.map(|held| &**held)).await.ok()?;
        let now = self.context.now();
        if !self.is_allowed(ask, &copy, (trouble, now)) {
            return None;
        }
        let is_newer = |held: &MemoryCopy| held.read_started() >= copy.read_started();
        // The next requests of an outage find it in memory. If it overwrites a newer copy that came in between, only
        // memory loses that one: the store has it.
        if !self.cache.look(key).is_some_and(|held| is_newer(&held)) {
            self.cache.put_unless_invalidated(purges, *key, &copy, copy.fallback_until());
        }
        Some((copy, now))
    }

    /// Whether a copy in this node's memory is a fallback for the request. After a pause, this node may not have read of
    /// the copy's purge yet.
    fn is_fallback_here(&self, ask: &Ask, copy: &MemoryCopy, (trouble, now): (Trouble, MonoTime)) -> bool {
        self.cache.vouches_for(copy, now) && self.is_allowed(ask, copy, (trouble, now))
    }

    /// Whether a copy is a fallback and satisfies the request's own bookmarks, `max-age` and `max-stale`.
    fn is_allowed(&self, ask: &Ask, copy: &MemoryCopy, (trouble, now): (Trouble, MonoTime)) -> bool {
        // A driver sends the bookmark of each write with all reads that follow.
        let has_seen = || match trouble {
            Trouble::Away | Trouble::Late => self.cache.has_seen_in_outage(copy, &ask.bookmarks, now),
            Trouble::OfRun => copy.covers(&ask.bookmarks),
        };
        // What a write has ended is stale at any age, so `max-stale` counts for it in an outage too.
        let may_be_ended = || match ask.freshness.stale_max_ms {
            Some(_) => copy.is_accepted_after_write(ask.freshness, now),
            None => trouble == Trouble::Away,
        };
        !self.needs_proof(ask)
            && self.is_fallback(ask, copy, now)
            && copy.keeps_to(ask.freshness, now)
            && has_seen()
            && (may_be_ended() || !self.is_ended(ask, copy))
    }

    /// Whether a write has ended this copy for this request.
    pub(super) fn is_ended(&self, ask: &Ask, copy: &MemoryCopy) -> bool {
        self.cache.is_before_mark(copy, ask.written, self.context.now())
            || self.cache.write_positions().has_ended_for(&ask.query, copy)
    }

    /// Of a transaction that may write, also a fresh copy that is not proved has not been an answer so far.
    fn is_fallback(&self, ask: &Ask, copy: &MemoryCopy, now: MonoTime) -> bool {
        self.cache.is_stale_fallback(copy, now) || ask.freshness.may_write && copy.is_kept_as_fallback(now)
    }

    pub(super) fn fallback_outcome(&self, ask: &Ask, copy: &SharedCopy, now: MonoTime) -> Outcome {
        self.context.note(Event::StaleServed);
        self.hit_outcome(ask, copy, Some(Detail::StaleIfError), now)
    }
}
