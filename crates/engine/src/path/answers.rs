//! Turns a copy in memory, or the result of a fetch, into the outcome of a request. Nothing here waits or asks anybody,
//! except that `only-if-cached` looks into the store.

use std::sync::Arc;

use hopcache_core::lease::SlotView;
use hopcache_core::limits::{PAUSE_MS, RENDER_INLINE_BYTES_MAX};
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::Cache;
use crate::cache::copy::{Life, MemoryCopy, SharedCopy};
use crate::fetch::FetchResult;
use crate::model::ask::{Ask, Hints};
use crate::model::bounds::ValueBounds;
use crate::model::event::{Cause, Event};
use crate::model::job::FetchJob;
use crate::model::outcome::{Answer, Class, Detail, Failure, FailureKind, How, Outcome, Reason, Role};
use crate::model::ports::{Neo4jFailure, Store};
use crate::model::span::scaled;
use crate::model::worker::in_place_if_large;
use crate::path::Path;

/// This node's answer to a request.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are answers: a box would cost each hit an allocation"
)]
pub(super) enum LocalAnswer {
    /// An answer, or a failure.
    Answered(Outcome),
    /// The server has not confirmed a read: the entry node runs the statement for its own client.
    NotARead(Reason),
    /// This node is leaving and leads no more: the caller asks the key's new owner.
    Elsewhere,
}

impl Path {
    /// Serves a fresh copy, or a stale one while a refresh runs (stale-while-revalidate, RFC 5861).
    pub(super) fn from_memory(self: &Arc<Self>, ask: &Ask, held: Option<&SharedCopy>) -> Option<Outcome> {
        if ask.freshness.no_cache {
            return None;
        }
        let copy = held?;
        let now = self.context.now();
        if !self.cache.vouches_for(copy, now) {
            return None;
        }
        let coverage = self.cache.coverage(copy, &ask.bookmarks);
        let is_ended = self.is_ended(ask, copy);
        if let Some(range) = copy.range().filter(|_| is_ended) {
            self.writes.want_exclusions(&ask.query, range);
        }
        // A proof makes the copy younger, so it is looked for first.
        let is_proved = !is_ended && self.cache.proves(copy, now);
        if !is_proved && self.needs_proof(ask) {
            return None;
        }
        if !coverage.holds(is_proved) || !copy.keeps_to(ask.freshness, now) {
            return None;
        }
        if is_ended && !copy.is_accepted_after_write(ask.freshness, now) {
            return None;
        }
        // A request with `only-if-cached` must not cause a run at the origin.
        let job = || (!ask.freshness.only_if_cached).then(|| FetchJob::of(ask, Cause::Refresh));
        match copy.life(now) {
            _ if is_proved => {
                self.refresh.on_proved_hit(copy, (1, now), job);
                Some(self.proved_outcome(ask, copy, now))
            }
            // Neo4j cannot be reached: see [`Path::needs_proof`].
            Life::Fresh(_) | Life::Stale(_) if ask.freshness.may_write && !is_ended => {
                Some(self.fallback_outcome(ask, copy, now))
            }
            Life::Fresh(_) if !is_ended => {
                self.refresh.on_hit(&ask.query.key, copy, (1, now), job);
                Some(self.hit_outcome(ask, copy, None, now))
            }
            Life::Fresh(_) | Life::Stale(_) => {
                if is_ended {
                    self.refresh.on_ended_hit(copy, now, job);
                } else if !ask.freshness.only_if_cached {
                    self.refresh.on_hit(&ask.query.key, copy, (1, now), job);
                }
                Some(self.stale_outcome(ask, copy, now))
            }
            Life::Dead => None,
        }
    }

    /// `only-if-cached`: the store may have an entry that memory lacks.
    pub(super) async fn look_in_store(&self, ask: &Ask, held: Option<&SharedCopy>) -> Outcome {
        let asked = self.context.now();
        let seen = self.store.peek(&ask.query.key).await;
        if let Ok(SlotView { entry: Some(stored), .. }) = seen
            && let Ok(copy) =
                self.writes.take_stored(&ask.query, &stored, asked, held.map(|copy| &**copy)).await
            && self.policy.now().ttl_ms > Millis::ZERO
        {
            // A proof makes the copy younger, so it is looked for first.
            let is_proved = self.cache.is_proved_answer(&copy, &ValueBounds::of_request(ask));
            let now = self.context.now();
            if is_proved && copy.keeps_to(ask.freshness, now) {
                return self.proved_outcome(ask, &copy, now);
            }
            let is_ended = self.cache.is_before_mark(&copy, ask.written, now)
                || self.cache.write_positions().has_ended(&copy);
            match copy.life(now) {
                _ if !copy.suits(ask, now) || self.needs_proof(ask) => {}
                _ if is_ended && !copy.is_accepted_after_write(ask.freshness, now) => {}
                Life::Fresh(_) if !is_ended => return self.hit_outcome(ask, &copy, None, now),
                Life::Fresh(_) | Life::Stale(_) => return self.stale_outcome(ask, &copy, now),
                Life::Dead => {}
            }
        }
        self.not_cached(ask)
    }

    /// The answer from the end of a flight.
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
            FetchResult::Found(copy)
                if (self.needs_proof(ask) || copy.is_past_ttl(now)) && self.cache.is_proved(copy, now) =>
            {
                self.proved_outcome(ask, copy, now)
            }
            FetchResult::Found(copy) => self.hit_outcome(ask, copy, None, now),
            FetchResult::Stale(copy) => {
                // The store's copy does not know the results of later runs.
                if self.fetch.has_failed_since(&ask.query.key, copy.read_started()) {
                    copy.origin_failed();
                }
                self.stale_outcome(ask, copy, now)
            }
            FetchResult::Ran { copy, live, kept, detail } => {
                if role == Role::Joined
                    && let Some(provenance) = copy.provenance()
                {
                    // It landed after this request joined and before that was noted: see `Tickets::joined`.
                    provenance.joined();
                }
                let answer = match live {
                    Some((rendering, body)) if *rendering == ask.rendering => Answer::Body(body.clone()),
                    _ => self.answer_of(copy, ask),
                };
                let mut how = copy.how(Class::Miss { kept: *kept, role }, *detail, now);
                if !kept.is_kept() {
                    how.ttl_ms = None;
                }
                Outcome { answer, how, answered_by: None, key: ask.query.key, range: copy.range().cloned() }
            }
        })
    }

    /// Whether the request takes no entry that is not proved. While Neo4j cannot be reached, a transaction that may write takes what a
    /// reader takes: it can write no more then ([`crate::TransactionReads`]).
    pub(super) fn needs_proof(&self, ask: &Ask) -> bool {
        ask.freshness.proved_only || ask.freshness.may_write && self.origin.is_reachable()
    }

    /// Whether the end of a flight is good enough for a request of [`Path::needs_proof`] that came at `came`: it is of a run that began
    /// after that, or it is proved now. A run that began before may have missed a write that did not go through Hopcache, long before
    /// the request came, and nobody tells of such a write. Schedule:
    ///   a run of 10 s begins · the write · 9 s later a transaction begins, and its read joins the run
    /// A proof holds for the time of a report that is at most as old as the bound, however long the run took.
    pub(super) fn is_current(&self, result: &FetchResult, came: MonoTime, now: MonoTime) -> bool {
        match result {
            FetchResult::Ran { copy, .. } if copy.read_started() >= came => true,
            FetchResult::Ran { copy, .. } | FetchResult::Found(copy) | FetchResult::Stale(copy) => {
                self.cache.is_proved(copy, now)
            }
            FetchResult::NotARead(_) | FetchResult::Failed(_) | FetchResult::HeldBack { .. } => true,
        }
    }

    /// Notes that a client's request is answered at its entry node. [`Path::request`] and its kin do it themselves.
    pub fn note_answered(&self, ask: &Ask, outcome: &Outcome, came: MonoTime) {
        if ask.freshness.may_write && outcome.how.class == Class::Hit {
            self.context.note(Event::WriteAccessHit);
        }
        self.note_worth(ask, outcome);
        self.prefetch.observe(ask, outcome, came);
    }

    /// Counts the read for its pattern. A request that shared a run needed none of its own, as a hit.
    fn note_worth(&self, ask: &Ask, outcome: &Outcome) {
        let worths = self.cache.pattern_worths();
        if !matches!(outcome.answer, Answer::Body(_))
            || !ask.freshness.is_plain()
            || !self.policy.now().counts_worth()
        {
            return;
        }
        match outcome.how.class {
            Class::Hit | Class::Miss { role: Role::Joined, .. } => worths.hit(&ask.query),
            Class::Miss { role: Role::Led, .. } => {
                worths.missed(&ask.query, self.routing.view().members().len(), self.context.now());
            }
            Class::Bypass(_) => {}
        }
    }

    /// The outcome of a stale or dead copy, marked as such.
    fn stale_outcome(&self, ask: &Ask, copy: &SharedCopy, now: MonoTime) -> Outcome {
        self.context.note(Event::StaleServed);
        let detail = if copy.has_origin_failed() { Detail::StaleIfError } else { Detail::Stale };
        self.hit_outcome(ask, copy, Some(detail), now)
    }

    /// The outcome of a copy that is proved, however old it is.
    fn proved_outcome(&self, ask: &Ask, copy: &SharedCopy, now: MonoTime) -> Outcome {
        let mut outcome = self.outcome_of(ask, copy, None, now);
        outcome.how.is_proved = true;
        // Below zero would mean stale.
        outcome.how.ttl_ms = outcome.how.ttl_ms.map(|ttl_ms| ttl_ms.max(0));
        outcome
    }

    /// `now` is when the copy was judged. By a later reading of the clock it could be stale and be called fresh.
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
        self.outcome_of(ask, copy, detail, now)
    }

    fn outcome_of(&self, ask: &Ask, copy: &SharedCopy, detail: Option<Detail>, now: MonoTime) -> Outcome {
        copy.serves_demand();
        let detail = detail.or(copy.why_unstored());
        let answer = match self.cache.render(ask.query.key, copy, ask.rendering, now) {
            Ok(body) => Answer::Body(body),
            Err(error) => Answer::Failed(FailureKind::from(error).into()),
        };
        let how = copy.how(Class::Hit, detail, now);
        Outcome { answer, how, answered_by: None, key: ask.query.key, range: copy.range().cloned() }
    }

    /// A client whose own limit has ended its statement gets the failure that Neo4j has for that: to repeat it cannot help.
    pub(super) fn in_clients_terms(ask: &Ask, mut outcome: Outcome) -> Outcome {
        if let Answer::Failed(failure) = &mut outcome.answer
            && ask.run_ms_max.is_some()
            && matches!(failure.kind, FailureKind::OriginTimedOut | FailureKind::DeadlinePassed)
        {
            failure.kind = FailureKind::Neo4j(Neo4jFailure::clients_time_is_over());
        }
        outcome
    }

    /// The same answer for the client that asked this node: its names of columns, its bookmarks.
    pub(super) fn for_asker(&self, ask: &Ask, mut outcome: Outcome) -> Outcome {
        if let Answer::Body(body) = &outcome.answer
            && let Some(columns) = ask.query.columns()
            && !ask.rendering.is_bare()
            && !self.cache.renderer().has_columns(ask.rendering, body, columns)
        {
            let named = || self.cache.renderer().with_columns(ask.rendering, body, columns);
            if let Some(named) = in_place_if_large(body.len(), RENDER_INLINE_BYTES_MAX, named) {
                outcome.answer = Answer::Body(named);
            }
        }
        self.with_bookmarks_of(ask, outcome)
    }

    /// The same answer with the client's own bookmarks beside its own, at the node that the client asked. Mostly the answer
    /// is later than all of them: its own bookmark, which its rendering has, says that too.
    fn with_bookmarks_of(&self, ask: &Ask, mut outcome: Outcome) -> Outcome {
        let (Answer::Body(body), Some(range)) = (&outcome.answer, &outcome.range) else { return outcome };
        if ask.bookmarks.is_empty() || ask.rendering.is_bare() {
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

    /// Whether a flight's result is too old for this request (I4). The request that led takes the result however long
    /// the run took: it is the origin's answer. So do requests that joined within the value's life. Judged by the age
    /// at landing, they would be refused every result of a run that outlasts that life:
    ///   a TTL of 1 s, runs of 2 s, forty requests at once: one is answered · the others compete again · one of them is
    ///   answered … and after some rounds the rest gets 503 although the origin is healthy.
    /// A result older than any run takes was held by a process that was stopped in between.
    pub(super) fn is_holder_too_old(
        &self,
        ask: &Ask,
        result: &FetchResult,
        (role, joined, now): (Role, MonoTime, MonoTime),
    ) -> bool {
        match result {
            FetchResult::Found(copy) => copy.is_past_ttl(now) && !self.cache.is_proved(copy, now),
            FetchResult::Stale(copy) => copy.life(now) == Life::Dead && !self.cache.is_proved(copy, now),
            FetchResult::Ran { copy, .. } => {
                // Past its own life, jitter included, before this request came. Without a TTL it has no such life.
                let was_dead = copy.dead_at() > copy.read_started() && copy.dead_at() < joined;
                let was_too_old = self.is_too_old(ask, joined.since(copy.read_started()), None);
                let age_ms = copy.age_ms(now);
                let was_stopped = age_ms.0 > self.policy.now().run_timeout_ms.0.saturating_add(PAUSE_MS)
                    && self.is_too_old(ask, age_ms, None);
                role == Role::Joined && (was_dead || was_too_old || was_stopped)
            }
            FetchResult::NotARead(_) | FetchResult::Failed(_) | FetchResult::HeldBack { .. } => false,
        }
    }

    /// Whether an answer of this age is past the shortest possible TTL and grace; for a stale-if-error answer, past
    /// that too.
    pub(super) fn is_too_old(&self, ask: &Ask, age_ms: Millis, detail: Option<Detail>) -> bool {
        self.age_ms_max(ask.hints, detail).is_some_and(|most_ms| age_ms > most_ms)
    }

    /// TTL and grace that these hints ask for, plus stale-if-error for such an answer. If the operator gives no TTL,
    /// there is no such bound. A request that hints a TTL of zero is bound by the operator's TTL instead. A run takes
    /// time, so every answer has some age, and an answer that waited in the socket of a stopped node may have any.
    pub(super) fn age_ms_max(&self, hints: Hints, detail: Option<Detail>) -> Option<Millis> {
        let wished_ms = hints.ttl_ms.filter(|ttl_ms| *ttl_ms > Millis::ZERO);
        let longest_ms = self.cache.key_stats().ttl_ms_max();
        let ttl_ms = wished_ms.unwrap_or(longest_ms).min(longest_ms);
        let fallback_ms = match detail {
            Some(Detail::StaleIfError) => self.policy.now().stale_if_error_ms,
            _ => Millis::ZERO,
        };
        let most_ms = scaled(ttl_ms, 1.0 + self.policy.now().grace).0.saturating_add(fallback_ms.0);
        (ttl_ms > Millis::ZERO).then_some(Millis(most_ms))
    }
}

/// Whether the result of a flight satisfies the request's own bookmarks, `max-age` and `max-stale`.
pub(super) fn is_fresh_enough(ask: &Ask, result: &FetchResult, now: MonoTime) -> bool {
    let (FetchResult::Found(copy) | FetchResult::Stale(copy) | FetchResult::Ran { copy, .. }) = result else {
        return true;
    };
    copy.suits(ask, now)
}
