//! Load shedding: which retries and runs this node refuses when it is overloaded. It keeps the budget of retries, and
//! the times of recent refusals for `readyz`.
//!
//! Nothing here waits. It asks the store only whether there is an answer without a run.

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
use crate::model::trouble::Trouble;

/// The budget, and the time of the last refusal (in microseconds of this node's clock; 0 for never).
#[derive(Default)]
pub(super) struct LoadShedding {
    retries: Mutex<RetryBudget>,
    retry_refused_at: AtomicU64,
    shed_at: AtomicU64,
}

/// The class in which a run waits for a place at the origin.
pub(super) const fn class_of(cause: Cause) -> RunClass {
    match cause {
        Cause::Miss => RunClass::Miss,
        Cause::Refresh => RunClass::Refresh,
        Cause::Write | Cause::Bypass => RunClass::Bypass,
        Cause::Prefetch => RunClass::Prefetch,
    }
}

impl Fetch {
    /// A request, of a client or another node, was not answered by a hit at once: it pays in for this node's retries.
    /// Its hops and rounds do not pay, because they are retries or follow from them.
    pub(crate) fn pay_for_retries(&self) {
        self.shedding.retries.lock().request(self.context.now());
    }

    /// Whether the budget allows one more retry.
    pub(crate) fn may_retry(&self) -> bool {
        let now = self.context.now();
        let may = self.shedding.retries.lock().take(now);
        if !may {
            self.shedding.retry_refused_at.store(now.0.max(1), Ordering::Relaxed);
            self.context.note(Event::RetryRefused);
        }
        may
    }

    /// Notes a run that was never sent because the origin had no place for it.
    pub(crate) fn note_shed(&self, class: RunClass, fault: &OriginFault, was_sent: bool) {
        if was_sent || !matches!(fault, OriginFault::Overloaded | OriginFault::TooManyRuns) {
            return;
        }
        self.context.note(Event::Shed(class));
        // No client waits for a refresh or a prefetch, so shedding one does not mark the node as overloaded.
        if !matches!(class, RunClass::Refresh | RunClass::Prefetch) {
            self.shedding.shed_at.store(self.context.now().0.max(1), Ordering::Relaxed);
        }
    }

    /// A miss ends here if the origin has no place for it in time. It takes no lease that it would only give back, so
    /// other nodes' store commands wait less. The stored entry or a former owner answers it. If another node runs it
    /// already, it goes on and waits for that run.
    pub(super) async fn shed_early(&self, job: &FetchJob, held: Option<&SharedCopy>) -> Option<FetchResult> {
        let (class, query) = (class_of(job.cause), &job.query);
        let fault = self.origin.would_shed(&query.identity, class, self.policy.now().run_timeout_ms)?;
        let asked = self.context.now();
        if let Ok(slot) = self.store.peek(&query.key).await {
            let stored = match &slot.entry {
                Some(stored) => self.stored_answer(job, stored, asked, held).await,
                None => None,
            };
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

    /// A run of the key failed: stale answers say so until there is a newer copy. A prefetch's failure is not reported
    /// to clients: a request for a stale copy triggers a refresh, and that refresh shows the origin's state.
    pub(super) fn mark_origin_failed(&self, (key, cause): (&QueryKey, Cause), fault: &OriginFault) {
        if cause != Cause::Prefetch && Trouble::is_behind_fault(fault) {
            self.cache.mark_origin_failed(key);
        }
    }
}
