//! From a copy in memory, or the result of a fetch, to the outcome of a request. Nothing here waits or asks anybody, but for
//! `only-if-cached`, which looks into the store.

use std::sync::Arc;

use hopcache_core::lease::SlotView;
use hopcache_core::limits::PAUSE_MS;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::Cache;
use crate::cache::copy::{Life, MemoryCopy, SharedCopy};
use crate::fetch::FetchResult;
use crate::model::ask::{Ask, Hints};
use crate::model::event::{Cause, Event};
use crate::model::job::FetchJob;
use crate::model::outcome::{Answer, Class, Detail, Failure, FailureKind, How, Kept, Outcome, Reason, Role};
use crate::model::ports::Store;
use crate::model::rendering::RenderingId;
use crate::model::span::scaled;
use crate::path::Path;

/// What this node makes of a request.
#[derive(Debug, Clone)]
pub(super) enum LocalAnswer {
    /// An answer, or a failure.
    Answered(Outcome),
    /// The server does not vouch for a read: the entry node runs it for its one client.
    NotARead(Reason),
    /// This node is leaving and leads no more: the key's new owner is to be asked.
    Elsewhere,
}

impl Path {
    /// Serves a fresh copy, or a stale one while a refresh runs (stale while revalidate, RFC 5861).
    pub(super) fn from_memory(self: &Arc<Self>, ask: &Ask, held: Option<&SharedCopy>) -> Option<Outcome> {
        if ask.freshness.no_cache {
            return None;
        }
        let copy = held?;
        let now = self.context.now();
        if !self.cache.guard().is_awake(now) || !copy.suits(ask, now) {
            return None;
        }
        // Nobody asks the origin for a request with `only-if-cached`.
        let job = || (!ask.freshness.only_if_cached).then(|| FetchJob::of(ask, Cause::Refresh));
        match copy.life(now) {
            Life::Fresh(_) => {
                self.refresh.on_hit(&ask.query.key, copy, (1, now), job);
                Some(self.hit_outcome(ask, copy, None, now))
            }
            Life::Stale(_) => {
                if !ask.freshness.only_if_cached {
                    self.refresh.on_hit(&ask.query.key, copy, (1, now), job);
                }
                Some(self.stale_outcome(ask, copy, now))
            }
            Life::Dead => None,
        }
    }

    /// `only-if-cached`: what memory does not have may still be in the store.
    pub(super) async fn look_in_store(&self, ask: &Ask, held: Option<&SharedCopy>) -> Outcome {
        let asked = self.context.now();
        let seen = self.store.peek(&ask.query.key).await;
        if let Ok(SlotView { entry: Some(stored), .. }) = seen
            && let Some(copy) = self.cache.decode(&ask.query, &stored, asked, held.map(|copy| &**copy))
            && self.policy.ttl_ms > Millis::ZERO
        {
            let now = self.context.now();
            match copy.life(now) {
                _ if !copy.suits(ask, now) => {}
                Life::Fresh(_) => return self.hit_outcome(ask, &copy, None, now),
                Life::Stale(_) => return self.stale_outcome(ask, &copy, now),
                Life::Dead => {}
            }
        }
        self.not_cached(ask)
    }

    /// The answer that the end of a flight is.
    pub(super) fn of_result(
        &self,
        ask: &Ask,
        result: &FetchResult,
        role: Role,
        now: MonoTime,
    ) -> LocalAnswer {
        LocalAnswer::Answered(match result {
            FetchResult::NotARead(reason) => return LocalAnswer::NotARead(*reason),
            FetchResult::Failed(error) => self.failed(ask, Failure::from(error.clone()), role),
            FetchResult::HeldBack { left_ms } => {
                self.failed(ask, FailureKind::HeldBack { left_ms: *left_ms }.into(), role)
            }
            FetchResult::Found(copy) => self.hit_outcome(ask, copy, None, now),
            FetchResult::Stale(copy) => {
                // The store's copy does not know how the runs after it went.
                if self.fetch.has_failed_since(&ask.query.key, copy.read_started()) {
                    copy.origin_failed();
                }
                self.stale_outcome(ask, copy, now)
            }
            FetchResult::Ran { copy, live, kept, detail } => {
                if role == Role::Joined
                    && let Some(provenance) = copy.provenance()
                {
                    // It landed between this request's joining and its being seen to have: see `Tickets::joined`.
                    provenance.joined();
                }
                let answer = match live {
                    Some((rendering, body)) if *rendering == ask.rendering => Answer::Body(body.clone()),
                    _ => self.answer_of(copy, ask),
                };
                let mut how = copy.how(Class::Miss { kept: *kept, role }, *detail, now);
                if *kept != Kept::Stored {
                    how.ttl_ms = None;
                }
                Outcome { answer, how, answered_by: None, key: ask.query.key, range: copy.range().cloned() }
            }
        })
    }

    /// A stale copy, or a dead one, in its own words.
    fn stale_outcome(&self, ask: &Ask, copy: &SharedCopy, now: MonoTime) -> Outcome {
        self.context.note(Event::StaleServed);
        let detail = if copy.has_origin_failed() { Detail::StaleIfError } else { Detail::Stale };
        self.hit_outcome(ask, copy, Some(detail), now)
    }

    /// `now` is when the copy was judged: read once more it could be stale by then, and called fresh.
    pub(super) fn hit_outcome(
        &self,
        ask: &Ask,
        copy: &SharedCopy,
        detail: Option<Detail>,
        now: MonoTime,
    ) -> Outcome {
        Cache::assert_owner(ask, copy);
        let until = if detail == Some(Detail::StaleIfError) { copy.fallback_until() } else { copy.dead_at() };
        debug_assert!(now <= until, "I4: a copy that ended at {until:?} is served at {now:?}, {detail:?}");
        copy.serves_demand();
        let detail = detail.or(copy.why_unstored());
        let answer = match self.cache.render(ask.query.key, copy, ask.rendering, now) {
            Ok(body) => Answer::Body(body),
            Err(error) => Answer::Failed(FailureKind::from(error).into()),
        };
        let how = copy.how(Class::Hit, detail, now);
        Outcome { answer, how, answered_by: None, key: ask.query.key, range: copy.range().cloned() }
    }

    /// The same answer with the client's own bookmarks beside its own, at the node that the client asked. Mostly the answer
    /// is later than all of them: its own bookmark, which its rendering has, says that too.
    pub(super) fn with_bookmarks_of(&self, ask: &Ask, mut outcome: Outcome) -> Outcome {
        let (Answer::Body(body), Some(range)) = (&outcome.answer, &outcome.range) else { return outcome };
        if ask.bookmarks.is_empty() || ask.rendering == RenderingId::RECORDS {
            return outcome;
        }
        let bookmark = range.bookmark_for(&ask.bookmarks);
        if *bookmark.positions() != [range.to()]
            && let Some(text) = bookmark.encode()
        {
            let body = self.cache.renderer().with_bookmark(ask.rendering, body.clone(), &text);
            outcome.answer = Answer::Body(body);
        }
        outcome
    }

    fn answer_of(&self, copy: &MemoryCopy, ask: &Ask) -> Answer {
        match copy.rendering(ask.rendering, self.cache.renderer()) {
            Ok(body) => Answer::Body(body),
            Err(error) => Answer::Failed(FailureKind::from(error).into()),
        }
    }

    pub(super) fn failed(&self, ask: &Ask, failure: Failure, role: Role) -> Outcome {
        let answer = Answer::Failed(failure);
        Outcome { answer, how: How::failed(role), answered_by: None, key: ask.query.key, range: None }
    }

    pub(super) fn not_cached(&self, ask: &Ask) -> Outcome {
        let mut outcome = self.failed(ask, FailureKind::NotCached.into(), Role::Led);
        outcome.how.detail = Some(Detail::NotCached);
        outcome
    }

    /// Whether what landed is no answer to this request any more (I4). A run's own request takes its result however long the
    /// run took: it is what the origin answers. So do those who joined while the value would have been within its life. To
    /// judge them by its age at landing would refuse them every result whose run outlasts that:
    ///   a TTL of 1 s, runs of 2 s, forty requests at once: one is answered · the others compete again · one of them is
    ///   answered … and after some rounds the rest is told 503 by a healthy origin.
    /// But what is older than any run takes was held by a process that was stopped in between.
    pub(super) fn is_holder_too_old(
        &self,
        ask: &Ask,
        result: &FetchResult,
        (role, joined, now): (Role, MonoTime, MonoTime),
    ) -> bool {
        match result {
            FetchResult::Found(copy) | FetchResult::Stale(copy) => copy.life(now) == Life::Dead,
            FetchResult::Ran { copy, .. } => {
                // Past its own life, jitter included, before this request came. Without a TTL there is no such life.
                let was_dead = copy.dead_at() > copy.read_started() && copy.dead_at() < joined;
                let was_too_old = self.is_too_old(ask, joined.since(copy.read_started()), None);
                let age_ms = copy.age_ms(now);
                let was_stopped = age_ms.0 > self.policy.run_timeout_ms.0.saturating_add(PAUSE_MS)
                    && self.is_too_old(ask, age_ms, None);
                role == Role::Joined && (was_dead || was_too_old || was_stopped)
            }
            FetchResult::NotARead(_) | FetchResult::Failed(_) | FetchResult::HeldBack { .. } => false,
        }
    }

    /// Whether an answer of this age is past TTL and grace, by the least that they can be; past stale-if-error too where it is
    /// one of those.
    pub(super) fn is_too_old(&self, ask: &Ask, age_ms: Millis, detail: Option<Detail>) -> bool {
        self.age_ms_max(ask.hints, detail).is_some_and(|most_ms| age_ms > most_ms)
    }

    /// TTL and grace of what such hints ask for, stale-if-error too where it is one of those. Where the operator gives no TTL
    /// there is no such bound. A request that wishes for none is bound by the operator's: a run takes time, so no answer is
    /// younger than nothing, and one that waited in the socket of a stopped node may be of any age.
    pub(super) fn age_ms_max(&self, hints: Hints, detail: Option<Detail>) -> Option<Millis> {
        let wished_ms = hints.ttl_ms.filter(|ttl_ms| *ttl_ms > Millis::ZERO);
        let ttl_ms = wished_ms.unwrap_or(self.policy.ttl_ms).min(self.policy.ttl_ms);
        let fallback_ms = match detail {
            Some(Detail::StaleIfError) => self.policy.stale_if_error_ms,
            _ => Millis::ZERO,
        };
        let most_ms = scaled(ttl_ms, 1.0 + self.policy.grace).0.saturating_add(fallback_ms.0);
        (ttl_ms > Millis::ZERO).then_some(Millis(most_ms))
    }
}

/// Whether the result of a flight keeps to the request's own bookmarks, `max-age` and `max-stale`.
pub(super) fn is_fresh_enough(ask: &Ask, result: &FetchResult, now: MonoTime) -> bool {
    let (FetchResult::Found(copy) | FetchResult::Stale(copy) | FetchResult::Ran { copy, .. }) = result else {
        return true;
    };
    copy.suits(ask, now)
}
