//! The breaker around every call to the store.
//!
//! Unreachable and timed-out calls count against it; a refusal is an answer. A call that is dropped
//! reports so on its way out, or a dropped probe would keep the breaker half open.

use std::sync::Arc;

use hopcache_core::breaker::{Admission, Breaker, BreakerSettings, BreakerState, CallReport};
use hopcache_core::time::MonoTime;
use hopcache_engine::ports::StoreError;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Told of each change of the breaker's state (`hopcache_breaker_transitions_total{peer_kind,to}`).
pub type BreakerHook = Arc<dyn Fn(BreakerState) + Send + Sync>;

/// A breaker with its clock and its listener.
pub(super) struct Gate {
    breaker: Mutex<Breaker>,
    started: Instant,
    hook: Option<BreakerHook>,
}

impl Gate {
    pub(super) fn new(settings: BreakerSettings, hook: Option<BreakerHook>) -> Self {
        Self { breaker: Mutex::new(Breaker::new(settings)), started: Instant::now(), hook }
    }

    pub(super) fn state(&self) -> BreakerState {
        self.breaker.lock().state()
    }

    /// Makes the call unless the breaker is open.
    pub(super) async fn pass<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let (admission, changed) = self.breaker.lock().admit(self.now());
        self.tell(changed);
        let admission = admission.ok_or_else(|| StoreError::Unreachable("the breaker is open".to_owned()))?;
        let mut ticket = Ticket { gate: self, admission, report: CallReport::Abandoned };
        let outcome = call.await;
        ticket.report = match &outcome {
            Err(StoreError::Unreachable(_) | StoreError::TimedOut) => CallReport::Failed,
            Ok(_) | Err(StoreError::Refused(_)) => CallReport::Answered,
        };
        outcome
    }

    fn now(&self) -> MonoTime {
        MonoTime(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn tell(&self, changed: Option<BreakerState>) {
        if let (Some(state), Some(hook)) = (changed, &self.hook) {
            hook(state);
        }
    }
}

/// Reports when it goes, however it goes.
struct Ticket<'gate> {
    gate: &'gate Gate,
    admission: Admission,
    report: CallReport,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let changed = self.gate.breaker.lock().report(self.gate.now(), self.admission, self.report);
        self.gate.tell(changed);
    }
}
