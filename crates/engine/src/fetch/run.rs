//! Running at the origin and what becomes of the result: committed under the lease, kept in memory,
//! or only handed to those who wait.
//!
//! Nothing here decides who runs; whoever comes here without a lease stores nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hopcache_core::entry::Entry;
use hopcache_core::lease::{Commit, SlotView, Token};
use hopcache_core::limits;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_queryapi::render::Form;

use crate::ask::{Hints, Query, RunBounds};
use crate::copy::{CopyTimes, MemoryCopy, SharedCopy};
use crate::engine::Engine;
use crate::holdings::Held;
use crate::lead::{Errand, Landing};
use crate::outcome::{Cause, Detail, Event, FaultWord, Kept, Reason};
use crate::ports::{OriginError, OriginFault, StoreError};
use crate::restraint::class_of;
use crate::span::{jittered_ttl, scaled};

impl Engine {
    pub(crate) async fn run_leased(&self, errand: &Errand, token: Token, lease_ms: Millis) -> Landing {
        let held = Held::new(self, errand.query.key, token);
        let lease = RunLease::granted(token, self.now() + lease_ms);
        let landing = tokio::select! {
            biased;
            landing = self.run(errand, Some(&lease)) => landing,
            never = self.renew_for_ever(errand, &lease, lease_ms) => match never {},
        };
        held.ended();
        landing
    }

    /// Renews at a third of the lease, so that two renewals may be lost. A renewal that is refused
    /// changes nothing here: the commit will be refused too, and the waiters still get the value.
    async fn renew_for_ever(&self, errand: &Errand, lease: &RunLease, lease_ms: Millis) -> Infallible {
        loop {
            self.ports.clock.sleep(Millis(lease_ms.0 / 3)).await;
            let asked = self.now();
            let renewed = self.ports.store.renew(&errand.query.key, lease.token, lease_ms).await;
            self.saw_store(&renewed);
            if renewed == Ok(true) {
                lease.renewed_until(asked + lease_ms);
            }
        }
    }

    /// Classifies by the server's word, runs, and offers the result to the store.
    pub(crate) async fn run(&self, errand: &Errand, lease: Option<&RunLease>) -> Landing {
        let query = &errand.query;
        let token = lease.map(|lease| lease.token);
        let asked_at = self.now();
        let word = match errand.until {
            Some(until) if errand.cause == Cause::Prefetch => self.server_word_ahead(query, until).await,
            _ => self.server_word_for(query, class_of(errand.cause)).await,
        };
        // Only now: whoever asked for the word may have used up a refresh's time.
        let timeout_ms = self.policy.run_timeout_ms;
        let timeout_ms = errand.until.map_or(timeout_ms, |until| timeout_ms.min(until.since(self.now())));
        let bounds = RunBounds { timeout_ms, bytes_max: limits::PASS_THROUGH_BYTES_MAX };
        match word {
            Ok(StatementKind::Read) | Err(OriginError { kind: OriginFault::Failed(_), .. })
                if timeout_ms == Millis::ZERO && errand.until.is_some() =>
            {
                self.note(Event::OriginFault(FaultWord::TimedOut));
                self.mark_origin_failed((&query.key, errand.cause), &OriginFault::TimedOut);
                return self.land_without(query, token, Landing::Failed(OriginFault::TimedOut.into())).await;
            }
            Ok(StatementKind::Read) => {}
            Ok(_) => return self.land_without(query, token, Landing::NotARead(Reason::Write)).await,
            // Nobody asked for its failure (I6: nobody vouches for a read either).
            Err(OriginError { kind: OriginFault::Failed(_), .. }) if errand.cause == Cause::Prefetch => {
                return self.land_without(query, token, Landing::NotARead(Reason::Unknown)).await;
            }
            // A text that cannot be planned fails when it is run, with its own positions in the
            // message; access mode READ keeps that harmless.
            Err(OriginError { kind: OriginFault::Failed(_), .. }) => {
                let landing = match self.run_counted(errand, bounds).await.0 {
                    Err(error) => Landing::Failed(error),
                    Ok(_) => Landing::NotARead(Reason::Unknown),
                };
                return self.land_without(query, token, landing).await;
            }
            Err(error) => {
                self.note_end((&query.key, errand.cause), asked_at, Some(&error.kind));
                self.note_shed(class_of(errand.cause), &error.kind, error.was_sent);
                self.note(Event::OriginFault(FaultWord::from(&error.kind)));
                self.mark_origin_failed((&query.key, errand.cause), &error.kind);
                return self.land_without(query, token, Landing::Failed(error)).await;
            }
        }
        let (ended, Reading { read_started, took_ms }) = self.run_counted(errand, bounds).await;
        #[cfg(hopcache_seeded)]
        let ended = crate::seeded::misread(ended);
        match ended {
            Err(error) => self.land_without(query, token, Landing::Failed(error)).await,
            Ok(result) => {
                let landing = self.settle(errand, lease, result, Reading { read_started, took_ms }).await;
                // A holder that was stopped in mid-run (F2) measured its own pause: taken for the
                // statement's, it would make the next leases as long as they may be.
                if !matches!(landing, Landing::Ran { kept: Kept::Fenced, .. }) {
                    self.history.lock().observe(query, errand.hints, took_ms);
                }
                landing
            }
        }
    }

    async fn run_counted(
        &self,
        errand: &Errand,
        bounds: RunBounds,
    ) -> (Result<ResultSet, OriginError>, Reading) {
        let read_started = self.now();
        let under_way = UnderWay { engine: self, errand, bounds, read_started, is_ended: false };
        let mut run = errand.query.reading(bounds, errand.traceparent.clone());
        run.class = class_of(errand.cause);
        let ended = self.ports.origin.run(&run).await;
        let took_ms = under_way.ended(&ended);
        (ended, Reading { read_started, took_ms })
    }

    /// Gives the lease back, so that the next one need not wait for it to lapse; with the entry, where the server
    /// would not give that any more.
    async fn land_without(&self, query: &Query, token: Option<Token>, landing: Landing) -> Landing {
        if let Some(token) = token {
            if landing.is_refusal() {
                self.withdraw(&query.key, token).await;
                return landing;
            }
            let released = self.ports.store.release(&query.key, token).await;
            self.saw_store(&released);
        }
        landing
    }

    /// Decides what becomes of a result.
    async fn settle(
        &self,
        errand: &Errand,
        lease: Option<&RunLease>,
        result: ResultSet,
        reading: Reading,
    ) -> Landing {
        let query = &errand.query;
        let token = lease.map(|lease| lease.token);
        let times = self.times(errand.hints, reading);
        let is_read = result.kind == Some(StatementKind::Read) && !result.has_updates();
        let too_large = result.weight_bytes() > self.policy.entry_bytes_max;
        let bookmark = result.bookmark.clone();
        let skip = if !is_read {
            // The server vouched for a read and then reported a change: never again by its word.
            self.words.set(query, StatementKind::ReadWrite);
            Some(Detail::Updates)
        } else if too_large {
            self.too_large.lock().put(query.key, self.now() + Millis(limits::UNCACHEABLE_TTL_MS));
            Some(Detail::TooLarge)
        } else if times.soft_ms == Millis::ZERO {
            Some(Detail::Off)
        } else {
            None
        };
        if skip.is_some() {
            self.note(Event::Commit(Kept::Skipped));
            let copy = Arc::new(MemoryCopy::passing(result, times, query.database_tag));
            let live = live_body(&copy, errand.form, bookmark.as_deref());
            let landing = Landing::Ran { copy, live, kept: Kept::Skipped, detail: skip };
            return self.land_without(query, token, landing).await;
        }
        let copy = MemoryCopy::new(&result, times, token, query.database_tag);
        let copy = copy.of_principal(query.identity.scope).with_heat(self.heat_of(&query.key));
        let copy = Arc::new(copy.with_ticket(errand.ticket.clone()));
        drop(result);
        let (kept, detail) = match lease {
            None if !self.policy.collapses => (Kept::Skipped, None),
            None => (Kept::Skipped, Some(Detail::Degraded)),
            Some(lease) => match self.commit(query, lease.token, &copy, times).await {
                // The store cannot say whether somebody newer leads, and this node's own clock says that somebody may:
                //   we read X · we are stopped, or cut off, past our lease · another leads, and reads Y · we go on
                //   without the store. Those who waited get X; kept, it would answer whoever comes now (F2).
                (_, Some(Detail::Degraded)) if lease.has_ended(self.now()) => {
                    (Kept::Fenced, Some(Detail::Degraded))
                }
                ended => ended,
            },
        };
        self.note(Event::Commit(kept));
        let copy = if detail == Some(Detail::Degraded) { self.brief(&copy) } else { copy };
        let live = live_body(&copy, errand.form, bookmark.as_deref());
        Landing::Ran { copy, live, kept, detail }
    }

    /// The same copy with a short life: nothing fences it, so it must not live as if something did (F7).
    fn brief(&self, copy: &MemoryCopy) -> SharedCopy {
        let age_ms = self.now().since(copy.read_started);
        // Never beyond its own freshness: a run that outlasted that leaves a copy that is stale already.
        let soft_ms = copy.fresh_until.since(copy.read_started);
        let life_ms = soft_ms.min(Millis(age_ms.0.saturating_add(limits::DEGRADED_TTL_MS)));
        let times = CopyTimes {
            read_started: copy.read_started,
            soft_ms: life_ms,
            physical_ms: life_ms,
            total_ms: life_ms,
            cost_ms: copy.cost_ms,
        };
        Arc::new(copy.with_times(times))
    }

    async fn commit(
        &self,
        query: &Query,
        token: Token,
        copy: &MemoryCopy,
        times: CopyTimes,
    ) -> (Kept, Option<Detail>) {
        let entry = Entry {
            total: times.total_ms,
            physical: times.physical_ms,
            soft: times.soft_ms,
            cost: times.cost_ms,
            token,
            database: query.database_tag,
            stored_by: self.me.node.clone(),
            body: copy.stored_form(),
        };
        let Ok(bytes) = entry.encode(&self.checksum_key, &query.key) else {
            let _ = self.ports.store.release(&query.key, token).await;
            return (Kept::Skipped, Some(Detail::TooLarge));
        };
        // Age counts from the start of the read, so what the run took is already spent (I4), and what a silent
        // store took before the second try as well.
        let left = || times.total_ms.saturating_sub(self.now().since(times.read_started));
        let left_ms = left();
        #[cfg(hopcache_seeded)]
        let left_ms = crate::seeded::life(left_ms, times.total_ms);
        if left_ms == Millis::ZERO {
            let _ = self.land_without(query, Some(token), Landing::NotARead(Reason::Unknown)).await;
            return (Kept::Skipped, None);
        }
        let mut answer = self.ports.store.commit(&query.key, token, bytes.clone(), left_ms).await;
        self.saw_store(&answer);
        let was_silent = answer == Err(StoreError::TimedOut);
        if was_silent {
            answer = self.ports.store.commit(&query.key, token, bytes, left()).await;
            self.saw_store(&answer);
        }
        match answer {
            Ok(Commit::Stored) => (Kept::Stored, None),
            Ok(Commit::Fenced) if was_silent => self.whose_commit(query, token).await,
            Ok(Commit::Fenced) => (Kept::Fenced, Some(Detail::Fenced)),
            Err(_) => (Kept::Skipped, Some(Detail::Degraded)),
        }
    }

    /// A commit after a silent one was refused: by the first one, which was carried out and ended the lease, or
    /// because the lease was lost. What is stored tells.
    async fn whose_commit(&self, query: &Query, token: Token) -> (Kept, Option<Detail>) {
        let asked = self.now();
        let seen = self.ports.store.peek(&query.key).await;
        self.saw_store(&seen);
        match seen {
            Ok(SlotView { entry: Some(stored), .. })
                if self
                    .decode_stored(query, &stored, asked)
                    .is_some_and(|copy| copy.token == Some(token)) =>
            {
                (Kept::Stored, None)
            }
            Ok(_) => (Kept::Fenced, Some(Detail::Fenced)),
            Err(_) => (Kept::Skipped, Some(Detail::Degraded)),
        }
    }

    /// Keeps what landed in memory, rendered, before anybody is told.
    pub(crate) fn keep(&self, errand: &Errand, landing: &Landing) {
        let copy = match landing {
            Landing::Found(copy)
            | Landing::Stale(copy)
            | Landing::Ran { copy, kept: Kept::Stored, .. }
            | Landing::Ran { copy, kept: Kept::Skipped, detail: Some(Detail::Degraded), .. } => copy,
            Landing::Ran { .. } | Landing::NotARead(_) | Landing::Failed(_) | Landing::HeldBack { .. } => {
                return;
            }
        };
        self.note_answer_of(&errand.query.key, copy.read_started);
        if copy.rendering(errand.form).is_err() {
            return;
        }
        self.ports.memory.put(errand.query.key, Arc::clone(copy), copy.kept_until().since(self.now()));
    }

    fn times(&self, hints: Hints, reading: Reading) -> CopyTimes {
        // A hint may shorten a life, never lengthen it: how old an answer may be is the operator's to say
        // (I4), and a caller's wish would bind everybody who shares the entry.
        let ttl_ms = hints.ttl_ms.unwrap_or(self.policy.ttl_ms).min(self.policy.ttl_ms);
        let soft_ms = jittered_ttl(ttl_ms, self.policy.ttl_jitter, self.unit());
        // Cut here and not only where it is written: the store's share is what is left of the total, and that
        // of a longer one would be cut again there, so that the age would lack what the run took.
        let cut = |span: Millis| Millis(span.0.min(limits::ENTRY_LIFE_MS_MAX));
        let soft_ms = cut(soft_ms);
        let physical_ms = cut(scaled(soft_ms, 1.0 + self.policy.grace));
        CopyTimes {
            read_started: reading.read_started,
            soft_ms,
            physical_ms,
            total_ms: cut(Millis(physical_ms.0.saturating_add(self.policy.stale_if_error_ms.0))),
            cost_ms: reading.took_ms,
        }
    }
}

/// Whether there was a run at all: one that found no slot, or no server, is none.
pub(crate) fn was_sent(ended: &Result<ResultSet, OriginError>) -> bool {
    ended.as_ref().err().is_none_or(|error| error.was_sent)
}

/// One body for all whom this run answers: its bookmark covers what they read.
fn live_body(copy: &MemoryCopy, form: Form, bookmark: Option<&str>) -> Option<(Form, Bytes)> {
    Some((form, copy.live_body(form, bookmark).ok()?))
}

/// A run at the origin, noted once, however it ends. One that is dropped after its time was over (an origin that does
/// not keep to the deadline) has timed out; one that is dropped before, by a panic or the process' end, says nothing.
struct UnderWay<'a> {
    engine: &'a Engine,
    errand: &'a Errand,
    bounds: RunBounds,
    read_started: MonoTime,
    is_ended: bool,
}

impl UnderWay<'_> {
    fn ended(mut self, ended: &Result<ResultSet, OriginError>) -> Millis {
        self.is_ended = true;
        self.note(ended.as_ref().err().map(|error| &error.kind), was_sent(ended))
    }

    fn note(&self, fault: Option<&OriginFault>, was_sent: bool) -> Millis {
        let Self { engine, errand, bounds, read_started, .. } = *self;
        let took_ms = engine.now().since(read_started);
        if was_sent {
            engine.note(Event::OriginRun { cause: errand.cause, took_ms });
            if errand.cause == Cause::Miss {
                engine.prefetch.demand_miss();
            }
        }
        // A refresh may have less time than a request's run, which is not held back for it. What it took to come here
        // is no matter.
        let had_ms = bounds.timeout_ms.0.saturating_add(limits::REFRESH_CUT_MS);
        let is_cut_short = had_ms < engine.policy.run_timeout_ms.0;
        let is_prefetch = errand.cause == Cause::Prefetch;
        if is_prefetch || !(is_cut_short && fault == Some(&OriginFault::TimedOut)) {
            engine.note_end((&errand.query.key, errand.cause), read_started, fault);
        }
        if let Some(fault) = fault {
            engine.note_shed(class_of(errand.cause), fault, was_sent);
            engine.note(Event::OriginFault(FaultWord::from(fault)));
            engine.mark_origin_failed((&errand.query.key, errand.cause), fault);
        }
        took_ms
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_ended && self.engine.now().since(self.read_started) >= self.bounds.timeout_ms {
            self.note(Some(&OriginFault::TimedOut), true);
        }
    }
}

/// The lease that a run holds, and until when, by this node's clock.
///
/// It counts from when the run's holder turns to it, and from when a renewal was asked for, never from its answer. Of a
/// grant that lay in a stopped node's socket the end is taken for later than it is; the read begins after that, though,
/// and is no older than one without a lease.
pub(crate) struct RunLease {
    token: Token,
    ends: AtomicU64,
}

impl RunLease {
    fn granted(token: Token, ends: MonoTime) -> Self {
        Self { token, ends: AtomicU64::new(ends.0) }
    }

    fn renewed_until(&self, ends: MonoTime) {
        self.ends.fetch_max(ends.0, Ordering::Relaxed);
    }

    fn has_ended(&self, now: MonoTime) -> bool {
        now.0 >= self.ends.load(Ordering::Relaxed)
    }
}

/// When a run began and how long it took.
#[derive(Debug, Clone, Copy)]
struct Reading {
    read_started: MonoTime,
    took_ms: Millis,
}
