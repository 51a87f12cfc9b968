//! Stale answers instead of an outage (RFC 5861, section 4). Which copy stands in, and from when on, is decided in
//! `cache::stale_fallback`; here it is found and served.

use hopcache_core::lease::SlotView;
use hopcache_core::limits::STALE_FALLBACK_LATE_MS_MAX;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::copy::{MemoryCopy, SharedCopy};
use crate::model::ask::Ask;
use crate::model::event::Event;
use crate::model::outcome::{Answer, Detail, Outcome};
use crate::model::ports::Store;
use crate::path::Path;
use crate::path::answers::LocalAnswer;

impl Path {
    /// The fallback for a request that joins a flight that others have waited for long enough, or that begins or joins one
    /// after a run that is known to have failed, or while the origin is known to be away. (A run that it lost without a word
    /// holds the key's flight, or its lease, until its own deadline: to wait for that is to wait for nothing.)
    pub(super) fn overdue_fallback(&self, ask: &Ask, held: Option<&SharedCopy>) -> Option<Outcome> {
        let now = self.context.now();
        if !self.cache.guard().is_awake(now) {
            return None;
        }
        let is_away = !self.origin.is_reachable();
        if let Some(copy) = held
            && self.cache.is_stale_if_error_on()
            && (copy.has_origin_failed() || is_away)
            && is_allowed(ask, copy, now)
        {
            return Some(self.fallback_outcome(ask, copy, now));
        }
        let (copy, overdue_at) = self.cache.fallback_of_flight(&ask.query.key)?;
        let is_due = is_away || overdue_at <= now;
        (is_due && is_allowed(ask, &copy, now)).then(|| self.fallback_outcome(ask, &copy, now))
    }

    /// Done when the flight that is waited for is overdue and there is a fallback; never, otherwise.
    pub(super) async fn fallback_when_overdue(&self, ask: &Ask) -> Outcome {
        if !self.cache.is_stale_if_error_on() {
            return std::future::pending().await;
        }
        let key = &ask.query.key;
        let usual_ms = self.cache.fallback_wait_ms(&ask.query);
        loop {
            let overdue_at = self.cache.fallback_of_flight(key).map(|(_, overdue_at)| overdue_at);
            let left = overdue_at.map(|overdue_at| overdue_at.since(self.context.now()));
            // One more for what was rounded off. Where there is no fallback yet, or one that this request may not have, it is
            // looked for again after as long.
            let wait_ms =
                left.filter(|left| *left > Millis::ZERO).map_or(usual_ms, |left| Millis(left.0 + 1));
            self.context.sleep(wait_ms).await;
            // The process may have been stopped while this waited, and a purge have missed it.
            self.cache.look_after_pause().await;
            if let Some(outcome) = self.overdue_fallback(ask, self.cache.look(key).as_ref()) {
                return outcome;
            }
        }
    }

    /// A fallback instead of an outage, where there is one that the request allows.
    pub(super) async fn or_fallback(&self, ask: &Ask, answer: LocalAnswer) -> LocalAnswer {
        let LocalAnswer::Answered(Outcome { answer: Answer::Failed(failure), .. }) = &answer else {
            return answer;
        };
        if !failure.kind.is_outage() || !self.cache.is_stale_if_error_on() || ask.freshness.no_cache {
            return answer;
        }
        match self.find_fallback(ask).await {
            Some((copy, now)) => LocalAnswer::Answered(self.fallback_outcome(ask, &copy, now)),
            None => answer,
        }
    }

    /// The same for failures of this node's own making beside a forward: the node that was asked has looked for itself.
    pub(super) async fn or_fallback_beside(&self, ask: &Ask, answer: LocalAnswer) -> LocalAnswer {
        match &answer {
            LocalAnswer::Answered(Outcome { answered_by: None, .. }) if !ask.freshness.only_if_cached => {
                self.or_fallback(ask, answer).await
            }
            _ => answer,
        }
    }

    /// The fallback in memory, in the flight's place or in the store, and when it was judged.
    async fn find_fallback(&self, ask: &Ask) -> Option<(SharedCopy, MonoTime)> {
        let key = &ask.query.key;
        // The request may have begun before a pause in which a purge missed this node.
        self.cache.look_after_pause().await;
        let held = self.cache.look(key);
        let now = self.context.now();
        let found = held.clone().or_else(|| Some(self.cache.fallback_of_flight(key)?.0));
        if let Some(copy) = found.filter(|copy| is_allowed(ask, copy, now)) {
            return Some((copy, now));
        }
        let (purges, asked) = (self.cache.purges(), self.context.now());
        // A store that is silent would keep a request that has no time left for as long as a command may take.
        let within = ask.deadline.since(asked).max(Millis(STALE_FALLBACK_LATE_MS_MAX));
        let seen = tokio::select! {
            biased;
            seen = self.store.peek(key) => seen,
            () = self.context.sleep(within) => return None,
        };
        let Ok(SlotView { entry: Some(stored), .. }) = seen else { return None };
        let copy = self.cache.decode(&ask.query, &stored, asked, held.as_deref())?;
        let now = self.context.now();
        if !is_allowed(ask, &copy, now) {
            return None;
        }
        let is_newer = |held: &MemoryCopy| held.read_started() >= copy.read_started();
        // The next requests of an outage find it here. A newer one that comes in between is lost to memory only: the store has
        // it.
        if !self.cache.look(key).is_some_and(|held| is_newer(&held)) {
            self.cache.put_unless_invalidated(purges, *key, &copy, copy.fallback_until());
        }
        Some((copy, now))
    }

    fn fallback_outcome(&self, ask: &Ask, copy: &SharedCopy, now: MonoTime) -> Outcome {
        self.context.note(Event::StaleServed);
        self.hit_outcome(ask, copy, Some(Detail::StaleIfError), now)
    }
}

/// Whether a copy is a fallback, and keeps to the request's own bookmarks, `max-age` and `max-stale`.
fn is_allowed(ask: &Ask, copy: &MemoryCopy, now: MonoTime) -> bool {
    copy.is_stale_fallback(now) && copy.suits(ask, now)
}
