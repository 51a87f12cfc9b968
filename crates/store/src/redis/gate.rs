//! The breaker around every call to the store, and the log lines about the store.
//!
//! Unreachable and timed-out calls are failures. A refusal is an answer, except a refused login: a wrong password must not
//! cause a connection for each request. A dropped call reports that it was dropped. Otherwise a dropped probe would keep
//! the breaker half open.
//!
//! Each problem is logged once when it begins, and once when it ends: an absent store when the breaker opens, a refusal or
//! an untrusted certificate at the first failed call. A refusal of writes ends when the store takes a write
//! ([`Gate::takes_writes`]), because reads succeed meanwhile.

use std::sync::Arc;

use hopcache_core::breaker::{Admission, Breaker, BreakerSettings, BreakerState, CallReport};
use hopcache_core::time::MonoTime;
use hopcache_engine::ports::StoreError;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::problem::StoreProblem;

/// Called at each change of the breaker's state (`hopcache_breaker_transitions_total{peer_kind,to}`).
pub type BreakerHook = Arc<dyn Fn(BreakerState) + Send + Sync>;

/// A breaker with its clock and its listeners.
pub(super) struct Gate {
    breaker: Mutex<Breaker>,
    started: Instant,
    hook: Option<BreakerHook>,
    /// Where the store is, without its password.
    shown: String,
    /// Why the last failed call failed.
    last: Mutex<Option<StoreError>>,
    logged: Mutex<Option<StoreProblem>>,
}

/// Why a call has no answer.
#[derive(Debug, Clone)]
pub(super) enum Missed {
    /// This machine had no free descriptor for a connection. This says nothing about the store.
    Local(StoreError),
    /// There was no connection for the call.
    Connection(StoreError),
    /// The call was sent.
    Exchange(StoreError),
}

impl Missed {
    fn split(self) -> (StoreError, CallReport) {
        match self {
            Self::Local(error) => (error, CallReport::Abandoned),
            Self::Exchange(error @ StoreError::Refused(_)) => (error, CallReport::Answered),
            Self::Connection(error) | Self::Exchange(error) => (error, CallReport::Failed),
        }
    }
}

impl Gate {
    pub(super) fn new(settings: BreakerSettings, hook: Option<BreakerHook>, shown: String) -> Self {
        Self {
            breaker: Mutex::new(Breaker::new(settings)),
            started: Instant::now(),
            hook,
            shown,
            last: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    pub(super) fn state(&self) -> BreakerState {
        self.breaker.lock().state()
    }

    /// Makes the call unless the breaker is open.
    pub(super) async fn pass<T>(
        &self,
        call: impl Future<Output = Result<T, Missed>>,
    ) -> Result<T, StoreError> {
        let (admission, changed) = self.breaker.lock().admit(self.now());
        self.moved(changed);
        let Some(admission) = admission else { return Err(self.turned_away()) };
        let mut ticket = StoreCallPermit { gate: self, admission, report: CallReport::Abandoned };
        match call.await {
            Ok(answer) => {
                ticket.report = CallReport::Answered;
                // Logged at the first failure, perhaps before the breaker opened. Then no closing of the breaker ends it.
                self.ends(&[StoreProblem::Certificate, StoreProblem::LogOn]);
                Ok(answer)
            }
            Err(missed) => {
                let (error, report) = missed.split();
                ticket.report = report;
                *self.last.lock() = Some(error.clone());
                // The breaker opens at a later failure, which may be a timeout that does not show the reason.
                if !matches!(StoreProblem::of(&error), StoreProblem::Absent) {
                    self.tell(&error);
                }
                Err(error)
            }
        }
    }

    /// The store answered, and refused a part of what was asked.
    pub(super) fn refused(&self, error: &StoreError) {
        *self.last.lock() = Some(error.clone());
        self.tell(error);
    }

    /// The store took a write.
    pub(super) fn takes_writes(&self) {
        if self.logged.lock().take().is_some() {
            tracing::info!("the store takes writes again");
        }
    }

    /// While the breaker is open the reason is that of the last failed call. A timeout becomes "unreachable", because this
    /// call was never sent.
    fn turned_away(&self) -> StoreError {
        match self.last.lock().clone() {
            Some(error @ StoreError::Refused(_)) => error,
            Some(error) => StoreError::Unreachable(format!("the breaker is open: {error}")),
            None => StoreError::Unreachable("the breaker is open".to_owned()),
        }
    }

    fn now(&self) -> MonoTime {
        MonoTime(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn moved(&self, changed: Option<BreakerState>) {
        let Some(state) = changed else { return };
        if let Some(hook) = &self.hook {
            hook(state);
        }
        match state {
            BreakerState::Open => {
                let last = self.last.lock().clone();
                if let Some(error) = last {
                    self.tell(&error);
                }
            }
            BreakerState::Closed => {
                self.ends(&[StoreProblem::Absent, StoreProblem::Certificate, StoreProblem::LogOn]);
            }
            BreakerState::HalfOpen => {}
        }
    }

    fn ends(&self, problems: &[StoreProblem]) {
        let mut logged = self.logged.lock();
        if logged.is_some_and(|problem| problems.contains(&problem)) {
            *logged = None;
            drop(logged);
            tracing::info!("the store answers again");
        }
    }

    fn tell(&self, error: &StoreError) {
        let problem = StoreProblem::of(error);
        let mut logged = self.logged.lock();
        // Also for a server that is slow to refuse a login, or slow in its handshakes, only the refusal is logged.
        let is_less = problem == StoreProblem::Absent
            && matches!(*logged, Some(StoreProblem::Certificate | StoreProblem::LogOn));
        if !is_less && logged.replace(problem) != Some(problem) {
            drop(logged);
            tracing::warn!(store = self.shown, %error, "{}", problem.advice());
        }
    }
}

/// Reports to the breaker on drop.
struct StoreCallPermit<'gate> {
    gate: &'gate Gate,
    admission: Admission,
    report: CallReport,
}

impl Drop for StoreCallPermit<'_> {
    fn drop(&mut self) {
        let changed = self.gate.breaker.lock().report(self.gate.now(), self.admission, self.report);
        self.gate.moved(changed);
    }
}
