//! What this node does not do again, or at all, because there is too much of it: the budget of retries, and what was shed
//! at the origin. Both are remembered for as long as `readyz` names them. Nothing
//! here waits; what it asks the store is whether there is an answer without a run.

use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::limits::DEGRADED_SAID_MS;
use hopcache_core::retries::RetryBudget;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::handover::Brought;
use crate::lead::{Errand, Landing};
use crate::outcome::{Cause, Event, FaultWord};
use crate::ports::OriginFault;

/// The budget, and when something was refused last (in microseconds of this node's clock; 0 for never).
#[derive(Default)]
pub(crate) struct Restraint {
    retries: Mutex<RetryBudget>,
    retry_refused_at: AtomicU64,
    shed_at: AtomicU64,
}

/// For a run's place at the origin, what it is for.
pub(crate) const fn class_of(cause: Cause) -> RunClass {
    match cause {
        Cause::Miss => RunClass::Miss,
        Cause::Refresh => RunClass::Refresh,
        Cause::Write | Cause::Bypass => RunClass::Bypass,
        Cause::Prefetch => RunClass::Prefetch,
    }
}

impl Engine {
    /// A client's request, or one of another node's, was no hit at once: it pays in for this node's retries. Hops and rounds of
    /// it do not, since those are retries or follow from them.
    pub(crate) fn pay_for_retries(&self) {
        self.restraint.retries.lock().request(self.now());
    }

    /// Whether one more second try is within the budget.
    pub(crate) fn may_retry(&self) -> bool {
        let now = self.now();
        let may = self.restraint.retries.lock().take(now);
        if !may {
            self.restraint.retry_refused_at.store(now.0.max(1), Ordering::Relaxed);
            self.note(Event::RetryRefused);
        }
        may
    }

    /// Takes note of a run that was never sent for want of a place.
    pub(crate) fn note_shed(&self, class: RunClass, fault: &OriginFault, was_sent: bool) {
        if was_sent || !matches!(fault, OriginFault::Overloaded | OriginFault::TooManyRuns) {
            return;
        }
        self.note(Event::Shed(class));
        // That refreshes and prefetches give way is meant, and nobody lacks an answer for it.
        if !matches!(class, RunClass::Refresh | RunClass::Prefetch) {
            self.restraint.shed_at.store(self.now().0.max(1), Ordering::Relaxed);
        }
    }

    /// A miss for which the origin has no place in time ends here, before a lease is taken and given back for it, and the
    /// other nodes' store commands with it wait less. It is answered with what is stored or brought; where somebody
    /// else runs it already, it goes on and waits for that.
    pub(crate) async fn shed_early(&self, errand: &Errand) -> Option<Landing> {
        if errand.cause != Cause::Miss {
            return None;
        }
        let (class, query) = (class_of(errand.cause), &errand.query);
        let timeout_ms = self.policy.run_timeout_ms;
        let fault = self.ports.origin.would_shed(&query.identity, class, timeout_ms)?;
        let asked = self.now();
        let seen = self.ports.store.peek(&query.key).await;
        self.saw_store(&seen);
        if let Ok(slot) = seen {
            let stored = slot.entry.and_then(|stored| self.of_stored(errand, stored, asked));
            if stored.is_some() || slot.lease.is_some() {
                return stored;
            }
        }
        match self.brought(errand).await {
            Some(Brought::Fresh(copy)) => return Some(Landing::Found(copy)),
            Some(Brought::Stale(copy)) => return Some(Landing::Stale(copy)),
            None => {}
        }
        self.note_shed(class, &fault, false);
        self.note(Event::OriginFault(FaultWord::from(&fault)));
        self.mark_origin_failed((&query.key, errand.cause), &fault);
        Some(Landing::Failed(fault.into()))
    }

    /// Whether a client's run was shed lately.
    #[must_use]
    pub fn is_shedding(&self) -> bool {
        self.was_lately(&self.restraint.shed_at)
    }

    /// Whether a retry was over the budget lately.
    #[must_use]
    pub fn is_short_of_retries(&self) -> bool {
        self.was_lately(&self.restraint.retry_refused_at)
    }

    fn was_lately(&self, at: &AtomicU64) -> bool {
        let at = at.load(Ordering::Relaxed);
        at > 0 && self.now().since(MonoTime(at)) < Millis(DEGRADED_SAID_MS)
    }
}
