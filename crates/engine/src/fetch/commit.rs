//! The use of a result: it is committed under the lease, kept in this node's memory, kept briefly, or only returned to the
//! waiters.
//!
//! It decides what may be stored and for how long. The store decides whether the token is still the current one (I3).

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::lease::{Commit, SlotView, Token};
use hopcache_core::limits::{self, RENDER_INLINE_BYTES_MAX};
use hopcache_core::result::ResultSet;
use hopcache_core::time::Millis;

use crate::cache::copy::{CopyTimes, MemoryCopy, SharedCopy};
use crate::fetch::classify::is_read;
use crate::fetch::run::{RunLease, RunTimes, RunUnder, Unleased};
use crate::fetch::{Fetch, FetchResult};
use crate::model::ask::Query;
use crate::model::event::{Cause, Event};
use crate::model::job::FetchJob;
use crate::model::outcome::{Detail, Kept, Reason};
use crate::model::ports::{Store, StoreError};
use crate::model::span::{jittered_ttl, scaled};
use crate::model::worker::apart_if_large;

/// What a run under a lease offers to the store.
enum StoreOffer {
    /// An entry.
    Entry(Bytes),
    /// Nothing: it would not fit into an entry.
    TooLarge,
    /// Nothing: it is not worth its room (`admission`).
    Nothing,
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
            let ran = self.ran(job, copy, bookmark, (Kept::Skipped, Some(detail))).await;
            return self.end_without_result(&job.query, under.lease.map(RunLease::token), ran).await;
        }
        let is_admitted = under.lease.is_some() && {
            let is_settled = !self.invalidate.do_keys_move();
            self.admission.admits(job, (under.held, is_settled), (result.weight_bytes(), reading.took_ms))
        };
        let (copy, offered) = self.copy_of(job, (&under, is_admitted), result, times).await;
        let (kept, detail) = match under.lease {
            None if under.unleased == Unleased::Beside => (Kept::Skipped, Some(Detail::Busy)),
            None => (Kept::Skipped, Some(Detail::Degraded)),
            Some(lease) => match self.commit(&job.query, lease.token(), (&copy, offered)).await {
                // The store cannot tell whether there is a newer leader, and by this node's clock there may be one:
                //   we read X · we are stopped or cut off past our lease · another node leads and reads Y · we go on
                //   without the store.
                // The waiters get X. If X were kept, it would answer later requests (F2).
                (_, Some(Detail::Degraded)) if lease.has_ended(self.context.now()) => {
                    (Kept::Fenced, Some(Detail::Degraded))
                }
                ended => ended,
            },
        };
        self.context.note(Event::Commit(kept));
        let copy = match detail {
            Some(why @ (Detail::Degraded | Detail::Busy)) => self.brief(&copy, why),
            _ => copy,
        };
        self.ran(job, copy, bookmark, (kept, detail)).await
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

    /// The copy of a result, and what is offered to the store.
    async fn copy_of(
        &self,
        job: &FetchJob,
        (under, is_admitted): (&RunUnder<'_>, bool),
        result: ResultSet,
        times: CopyTimes,
    ) -> (SharedCopy, StoreOffer) {
        let query = Arc::clone(&job.query);
        let token = under.lease.map(RunLease::token);
        let held = under.held.map(|copy| &**copy);
        let heat = self.cache.key_stats().heat_after(held, &query.key, self.context.now());
        let cost = self.cache.key_stats().first_cost(&query, times.cost_ms);
        let (cache, provenance) = (Arc::clone(&self.cache), under.provenance.clone());
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
            (SharedCopy::new(copy), offered)
        })
        .await
    }

    async fn ran(
        &self,
        job: &FetchJob,
        copy: SharedCopy,
        bookmark: Option<String>,
        (kept, detail): (Kept, Option<Detail>),
    ) -> FetchResult {
        let live = match copy.range() {
            // Most results are never asked for again: those who wait share this rendering, and the copy keeps the next one.
            Some(_) if job.cause == Cause::Miss => self.cache.passing_rendering(&copy, job.rendering),
            Some(_) => None,
            None => self.cache.live_rendering(&copy, job.rendering, bookmark).await.ok(),
        };
        FetchResult::Ran { live: live.map(|body| (job.rendering, body)), copy, kept, detail }
    }

    /// The same copy with a short life. No token fences it, so it must not live as long as a stored one (F7).
    fn brief(&self, copy: &MemoryCopy, why: Detail) -> SharedCopy {
        let age_ms = self.context.now().since(copy.read_started());
        // Never past its own freshness: after a run that outlasted it, the copy is stale already.
        let life_ms = copy.ttl_ms().min(Millis(age_ms.0.saturating_add(limits::DEGRADED_TTL_MS)));
        let times = CopyTimes { soft_ms: life_ms, physical_ms: life_ms, total_ms: life_ms, ..copy.times() };
        SharedCopy::new(copy.with_times(times).unstored(why))
    }

    async fn commit(
        &self,
        query: &Query,
        token: Token,
        (copy, offered): (&MemoryCopy, StoreOffer),
    ) -> (Kept, Option<Detail>) {
        debug_assert_eq!(
            copy.token(),
            Some(token),
            "I3: a copy is committed with the token that it was read under"
        );
        let times = copy.times();
        // `entry::Head::read` requires this order of every entry.
        let is_in_order = times.soft_ms <= times.physical_ms && times.physical_ms <= times.total_ms;
        debug_assert!(is_in_order, "I4: {times:?}");
        let bytes = match offered {
            StoreOffer::Entry(bytes) => bytes,
            StoreOffer::Nothing => return self.keep_in_memory_only(query, token).await,
            StoreOffer::TooLarge => {
                let _ = self.store.release(&query.key, token).await;
                return (Kept::Skipped, Some(Detail::TooLarge));
            }
        };
        // Age counts from the start of the read. So the run's time is already spent (I4), and so is the time for which
        // a silent store delayed the second try.
        let left = || times.total_ms.saturating_sub(self.context.now().since(times.read_started));
        let left_ms = left();
        if left_ms == Millis::ZERO {
            let nothing = FetchResult::NotARead(Reason::Unknown);
            let _ = self.end_without_result(query, Some(token), nothing).await;
            return (Kept::Skipped, None);
        }
        let mut answer = self.store.commit(&query.key, token, bytes.clone(), left_ms).await;
        let was_silent = answer == Err(StoreError::TimedOut);
        if was_silent {
            answer = self.store.commit(&query.key, token, bytes, left()).await;
        }
        match answer {
            Ok(Commit::Stored) => (Kept::Stored, None),
            Ok(Commit::Fenced) if was_silent => self.whose_commit(query, token).await,
            Ok(Commit::Fenced) => (Kept::Fenced, Some(Detail::Fenced)),
            Err(_) => (Kept::Skipped, Some(Detail::Degraded)),
        }
    }

    /// Gives the lease back without an entry. As with a commit, the store's answer says whether the token is still the current
    /// one: a holder that was stopped past its lease must not keep what it read (I3, F2). Without an answer it must not either:
    ///   we read X · our lease is given back, and the answer is lost · another node gets the lease, reads Y and stores it.
    async fn keep_in_memory_only(&self, query: &Query, token: Token) -> (Kept, Option<Detail>) {
        match self.store.release(&query.key, token).await {
            Ok(true) => (Kept::InMemory, None),
            Ok(false) => (Kept::Fenced, Some(Detail::Fenced)),
            Err(_) => (Kept::Fenced, Some(Detail::Degraded)),
        }
    }

    /// The second commit, after a silent first one, was refused. Either the first was carried out and ended the lease,
    /// or the lease was lost. The stored entry shows which.
    async fn whose_commit(&self, query: &Query, token: Token) -> (Kept, Option<Detail>) {
        let asked = self.context.now();
        match self.store.peek(&query.key).await {
            Ok(SlotView { entry: Some(stored), .. }) => {
                let copy = self.cache.decode(query, &stored, asked, None).await;
                if copy.is_some_and(|copy| copy.token() == Some(token)) {
                    (Kept::Stored, None)
                } else {
                    (Kept::Fenced, Some(Detail::Fenced))
                }
            }
            Ok(_) => (Kept::Fenced, Some(Detail::Fenced)),
            Err(_) => (Kept::Skipped, Some(Detail::Degraded)),
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
