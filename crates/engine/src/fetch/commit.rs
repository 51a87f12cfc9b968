//! The use of a result: it is committed under the lease, kept in this node's memory, kept briefly, or only returned to the
//! waiters.
//!
//! It decides what may be stored and for how long. The store decides whether the token is still the current one (I3).

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::limits::{self, COMMIT_ENDED_MS_MAX, RENDER_INLINE_BYTES_MAX};
use hopcache_core::result::ResultSet;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::copy::{CopyTimes, MemoryCopy, SharedCopy};
use crate::fetch::classify::is_read;
use crate::fetch::commit_places::NoPlace;
use crate::fetch::commit_queue::QueuePlace;
use crate::fetch::lease_end::{EndedRun, StoreOffer, or_lapsed};
use crate::fetch::run::{RunLease, RunTimes, RunUnder, Unleased};
use crate::fetch::{Fetch, FetchResult};
use crate::model::ask::Query;
use crate::model::event::{Cause, Event};
use crate::model::job::FetchJob;
use crate::model::outcome::{Detail, Kept};
use crate::model::span::{jittered_ttl, scaled};
use crate::model::worker::apart_if_large;

/// When the result of a run is committed.
#[derive(Debug)]
enum CommitPlace {
    /// Before its answer.
    Now,
    /// After its answer, by the queue.
    InQueue(QueuePlace),
    /// Not at all: the queue is full, and memory alone keeps the result.
    None,
}

impl Fetch {
    /// Decides the use of a result.
    pub(super) async fn settle(
        &self,
        job: &FetchJob,
        under: RunUnder<'_>,
        result: ResultSet,
        reading: RunTimes,
    ) -> FetchResult {
        let times = self.times(job, reading);
        let bookmark = result.bookmark.clone();
        let is_direct = under.unleased == Unleased::Direct;
        let why_not = self.why_not_stored(&job.query, &result, &times);
        if let Some(detail) = why_not.or(is_direct.then_some(Detail::Direct)) {
            self.context.note(Event::Commit(Kept::Skipped));
            let copy = MemoryCopy::passing(result, times, job.query.tags.clone());
            let copy = copy.of_principal(job.query.identity.scope);
            let copy = SharedCopy::new(self.cache.of_query(copy, &job.query));
            let ran = self.ran(job, (copy, None), bookmark, (Kept::Skipped, Some(detail))).await;
            return self.end_without_result(&job.query, under.lease.map(RunLease::token), ran).await;
        }
        let is_settled = !self.invalidate.do_keys_move();
        let bytes = result.weight_bytes();
        let is_admitted = under.lease.is_some()
            && self.admission.admits(job, (under.held, is_settled), (bytes, reading.took_ms));
        let place = self.place_for_commit(job, &under, (is_settled, &times), is_admitted.then_some(bytes));
        let is_offered_now = is_admitted && matches!(place, CommitPlace::Now);
        let (copy, offered, live) = self.copy_of(job, (&under, is_offered_now), result, times).await;
        if let (Some(lease), CommitPlace::InQueue(place)) = (under.lease, place) {
            let kept = if place.is_of_entry() { Kept::Stored } else { Kept::InMemory };
            lease.commits_later(place);
            return self.ran(job, (copy, live), bookmark, (kept, None)).await;
        }
        let (kept, detail) = match under.lease {
            None if under.unleased == Unleased::Beside => (Kept::Skipped, Some(Detail::Busy)),
            None => (Kept::Skipped, Some(Detail::Degraded)),
            Some(lease) => {
                let (query, copy) = (Arc::clone(&job.query), Some(SharedCopy::clone(&copy)));
                let run = EndedRun { query, token: lease.token(), copy, offered };
                let mut ended = (Kept::Fenced, Some(Detail::Degraded));
                self.commits.end(&[run], |_, end| ended = end).await;
                or_lapsed(ended, lease.has_ended(self.context.now()))
            }
        };
        self.context.note(Event::Commit(kept));
        let copy = match detail {
            Some(why @ (Detail::Degraded | Detail::Busy)) => brief(&copy, why, self.context.now()),
            _ => copy,
        };
        self.ran(job, (copy, live), bookmark, (kept, detail)).await
    }

    /// The reason for not storing a result, if there is one. The reason is remembered.
    fn why_not_stored(&self, query: &Query, result: &ResultSet, times: &CopyTimes) -> Option<Detail> {
        let is_read = result.kind.is_some_and(|kind| is_read(kind, &query.statement));
        if !is_read || result.has_updates() {
            // The server confirmed a read and then reported a change: its answer is never used again (I6).
            self.classifier.distrust(query);
            return Some(Detail::Updates);
        }
        if result.weight_bytes() > self.policy.now().entry_bytes_max {
            self.cache.uncacheable().remember(query.key, self.context.now());
            return Some(Detail::TooLarge);
        }
        (times.soft_ms == Millis::ZERO).then_some(Detail::Off)
    }

    /// The copy of a result, what is offered to the store, and if the copy is small, the body for those who wait for the run.
    async fn copy_of(
        &self,
        job: &FetchJob,
        (under, is_admitted): (&RunUnder<'_>, bool),
        result: ResultSet,
        times: CopyTimes,
    ) -> (SharedCopy, StoreOffer, Option<Bytes>) {
        let query = Arc::clone(&job.query);
        let token = under.lease.map(RunLease::token);
        let held = under.held.map(|copy| &**copy);
        let heat = self.cache.key_stats().heat_after(held, &query.key, self.context.now());
        let cost = self.cache.key_stats().first_cost(&query, times.cost_ms);
        let (cache, provenance) = (Arc::clone(&self.cache), under.provenance.clone());
        // Most results are never asked for again: those who wait share this rendering, and the copy keeps the next one.
        let is_for_waiters = job.cause == Cause::Miss && result.range.is_some();
        let rendering = is_for_waiters.then_some(job.rendering);
        apart_if_large(result.weight_bytes(), RENDER_INLINE_BYTES_MAX, move || {
            let copy = MemoryCopy::new(&result, times, token, query.tags.clone());
            let copy = cache.of_query(copy.of_principal(query.identity.scope).with_heat(heat), &query);
            let copy = copy.with_provenance(provenance).with_first_cost(&cost);
            let offered = match token.filter(|_| is_admitted) {
                None => StoreOffer::Nothing,
                Some(token) => {
                    cache.seal(&query.key, &copy, token).map_or(StoreOffer::TooLarge, StoreOffer::Entry)
                }
            };
            let live = rendering.and_then(|id| cache.passing_rendering(&copy, id, &result));
            (SharedCopy::new(copy), offered, live)
        })
        .await
    }

    async fn ran(
        &self,
        job: &FetchJob,
        (copy, live): (SharedCopy, Option<Bytes>),
        bookmark: Option<String>,
        (kept, detail): (Kept, Option<Detail>),
    ) -> FetchResult {
        let live = match copy.range() {
            Some(_) => live,
            None => self.cache.live_rendering(&copy, job.rendering, bookmark).await.ok(),
        };
        FetchResult::Ran { live: live.map(|body| (job.rendering, body)), copy, kept, detail }
    }

    /// When a result is committed: before its answer, or by the queue after that. `bytes` of a result that is admitted.
    ///
    /// It is committed later only where it replaces nothing: the store had no entry when it granted the lease, nobody has
    /// asked for a newer value than another one, this node owns the key, and no key is on its way to another owner, whose
    /// former owner may have an older copy. A store in trouble is asked first too: the answer says what has become of it.
    fn place_for_commit(
        &self,
        job: &FetchJob,
        under: &RunUnder<'_>,
        (is_settled, times): (bool, &CopyTimes),
        bytes: Option<usize>,
    ) -> CommitPlace {
        let bounds = &job.bounds;
        // A result of a short life, or of a long run, may be dead before its commit is sent (seed 1074).
        let dies_first =
            self.context.now() + Millis(COMMIT_ENDED_MS_MAX) >= times.read_started + times.total_ms;
        let replaces_nothing = bounds.age_max_ms.is_none() && bounds.after.is_empty();
        let may_wait = |lease: &RunLease| lease.may_commit_later(self.context.now());
        if !under.lease.is_some_and(may_wait)
            || !replaces_nothing
            || !is_settled
            || dies_first
            || bytes.is_some_and(|bytes| bytes > limits::STORE_INLINE_BYTES_MAX)
            || !self.admission.is_owner(job)
            || !self.store.is_reachable()
        {
            return CommitPlace::Now;
        }
        match self.commits.place(bytes) {
            Ok(place) => CommitPlace::InQueue(place),
            Err(NoPlace::Closed | NoPlace::NoRoom | NoPlace::Late) => CommitPlace::Now,
            Err(NoPlace::Full) => CommitPlace::None,
        }
    }

    fn times(&self, job: &FetchJob, reading: RunTimes) -> CopyTimes {
        // A hint may shorten a life, never lengthen it. The operator decides how old an answer may be (I4), and one
        // caller's wish would apply to everybody who shares the entry.
        let ttl_ms = self.cache.key_stats().ttl_ms(&job.query);
        let ttl_ms = job.hints.ttl_ms.map_or(ttl_ms, |wanted_ms| wanted_ms.min(ttl_ms));
        let soft_ms = jittered_ttl(ttl_ms, self.policy.now().ttl_jitter, self.context.unit());
        // Cut here, not only where the entry is written. The store gets the rest of the total life; if it cut a longer
        // one again, the age would lack the time of the run.
        let cut = |span: Millis| Millis(span.0.min(limits::ENTRY_LIFE_MS_MAX));
        let soft_ms = cut(soft_ms);
        let physical_ms = cut(scaled(soft_ms, 1.0 + self.policy.now().grace));
        CopyTimes {
            read_started: reading.read_started,
            soft_ms,
            physical_ms,
            total_ms: cut(Millis(physical_ms.0.saturating_add(self.policy.now().stale_if_error_ms.0))),
            cost_ms: reading.took_ms,
        }
    }
}

/// The same copy with a short life. No token fences it, so it must not live as long as a stored one (F7).
pub(super) fn brief(copy: &MemoryCopy, why: Detail, now: MonoTime) -> SharedCopy {
    let age_ms = now.since(copy.read_started());
    // Never past its own freshness: after a run that outlasted it, the copy is stale already.
    let life_ms = copy.ttl_ms().min(Millis(age_ms.0.saturating_add(limits::DEGRADED_TTL_MS)));
    let times = CopyTimes { soft_ms: life_ms, physical_ms: life_ms, total_ms: life_ms, ..copy.times() };
    SharedCopy::new(copy.with_times(times).unstored(why))
}

/// The copy of a result to keep in memory, if there is one.
pub(super) fn copy_to_keep(result: &FetchResult) -> Option<&SharedCopy> {
    match result {
        FetchResult::Found(copy)
        | FetchResult::Stale(copy)
        | FetchResult::Ran { copy, kept: Kept::Stored | Kept::InMemory, .. }
        | FetchResult::Ran {
            copy, kept: Kept::Skipped, detail: Some(Detail::Degraded | Detail::Busy), ..
        } => Some(copy),
        FetchResult::Ran { .. }
        | FetchResult::NotARead(_)
        | FetchResult::Failed(_)
        | FetchResult::HeldBack { .. } => None,
    }
}
