//! Load shedding: which retries and runs this node refuses when it is overloaded. It has a budget of retries, and remembers
//! what was shed at the origin, for as long as `readyz` names them.
//!
//! Nothing here waits. What it asks the store is whether there is an answer without a run.

use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::key::QueryKey;
use hopcache_core::limits::DEGRADED_SAID_MS;
use hopcache_core::retries::RetryBudget;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use parking_lot::Mutex;

use crate::cache::copy::SharedCopy;
use crate::fetch::{Fetch, FetchResult};
use crate::invalidate::FormerCopy;
use crate::model::event::{Cause, Event, FaultWord};
use crate::model::job::FetchJob;
use crate::model::ports::{OriginFault, Store};

/// The budget, and when something was refused last (in microseconds of this node's clock; 0 for never).
#[derive(Default)]
pub(super) struct LoadShedding {
    retries: Mutex<RetryBudget>,
    retry_refused_at: AtomicU64,
    shed_at: AtomicU64,
}

/// For a run's place at the origin, what it is for.
pub(super) const fn class_of(cause: Cause) -> RunClass {
    match cause {
        Cause::Miss => RunClass::Miss,
        Cause::Refresh => RunClass::Refresh,
        Cause::Write | Cause::Bypass => RunClass::Bypass,
        Cause::Prefetch => RunClass::Prefetch,
    }
}

impl Fetch {
    /// A client's request, or one of another node's, was no hit at once: it pays in for this node's retries. Hops and rounds of
    /// it do not, since those are retries or follow from them.
    pub(crate) fn pay_for_retries(&self) {
        self.shedding.retries.lock().request(self.context.now());
    }

    /// Whether one more second try is within the budget.
    pub(crate) fn may_retry(&self) -> bool {
        let now = self.context.now();
        let may = self.shedding.retries.lock().take(now);
        if !may {
            self.shedding.retry_refused_at.store(now.0.max(1), Ordering::Relaxed);
            self.context.note(Event::RetryRefused);
        }
        may
    }

    /// Takes note of a run that was never sent for want of a place.
    pub(crate) fn note_shed(&self, class: RunClass, fault: &OriginFault, was_sent: bool) {
        if was_sent || !matches!(fault, OriginFault::Overloaded | OriginFault::TooManyRuns) {
            return;
        }
        self.context.note(Event::Shed(class));
        // That refreshes and prefetches give way is meant, and nobody lacks an answer for it.
        if !matches!(class, RunClass::Refresh | RunClass::Prefetch) {
            self.shedding.shed_at.store(self.context.now().0.max(1), Ordering::Relaxed);
        }
    }

    /// A miss for which the origin has no place in time ends here, before a lease is taken and given back for it, and the
    /// other nodes' store commands with it wait less. It is answered with what is stored, or by a former owner. Where
    /// somebody else runs it already, it goes on and waits for that.
    pub(super) async fn shed_early(&self, job: &FetchJob, held: Option<&SharedCopy>) -> Option<FetchResult> {
        let (class, query) = (class_of(job.cause), &job.query);
        let fault = self.origin.would_shed(&query.identity, class, self.policy.run_timeout_ms)?;
        let asked = self.context.now();
        if let Ok(slot) = self.store.peek(&query.key).await {
            let stored = slot.entry.and_then(|stored| self.stored_answer(job, &stored, asked, held));
            if stored.is_some() || slot.lease.is_some() {
                return stored;
            }
        }
        match self.invalidate.former_copy(query, &job.bounds).await {
            Some(FormerCopy::Fresh(copy)) => return Some(FetchResult::Found(copy)),
            Some(FormerCopy::Stale(copy)) => return Some(FetchResult::Stale(copy)),
            None => {}
        }
        self.note_shed(class, &fault, false);
        self.context.note(Event::OriginFault(FaultWord::from(&fault)));
        self.mark_origin_failed((&query.key, job.cause), &fault);
        Some(FetchResult::Failed(fault.into()))
    }

    /// Whether a client's run was shed lately.
    #[must_use]
    pub fn is_shedding(&self) -> bool {
        self.was_lately(&self.shedding.shed_at)
    }

    /// Whether a retry was over the budget lately.
    #[must_use]
    pub fn is_short_of_retries(&self) -> bool {
        self.was_lately(&self.shedding.retry_refused_at)
    }

    fn was_lately(&self, at: &AtomicU64) -> bool {
        let at = at.load(Ordering::Relaxed);
        at > 0 && self.context.now().since(MonoTime(at)) < Millis(DEGRADED_SAID_MS)
    }

    /// A run of the key failed: stale answers say so until there is a newer copy. A prefetch's failure is nothing that a
    /// client is told: a request for a stale copy has it refreshed, and that refresh says how the origin is.
    pub(super) fn mark_origin_failed(&self, (key, cause): (&QueryKey, Cause), fault: &OriginFault) {
        if cause != Cause::Prefetch && fault.is_outage() {
            self.cache.mark_origin_failed(key);
        }
    }
}
