//! Decides when to stop calling a service that does not answer, and when to try again.
//!
//! Closed: calls go through; `failures_max` failures in a row open it. Open: calls are refused at once. After `open_ms`
//! exactly one call is admitted as a probe (half-open). Its success closes the breaker, its failure opens it again. A
//! probe that is given up (its caller left) or never reports back does not block: another is admitted, in the second
//! case after `probe_ms_max`. Reports of calls that were admitted before the breaker opened change nothing. It reads no
//! clock: `now` comes in.

use crate::time::{Millis, MonoTime};

/// When a breaker opens and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that open it; 0 counts as 1.
    pub failures_max: u32,
    /// Failures closer together than this count as one: calls that are under way at the same time fail together, and
    /// are one sign of trouble.
    pub apart_ms: Millis,
    /// From opening to the first probe.
    pub open_ms: Millis,
    /// How long a probe may be silent before another is admitted.
    pub probe_ms_max: Millis,
}

crate::words! {
    /// A breaker's state, with its name in metrics.
    pub enum BreakerState {
        /// Calls go through.
        Closed = "closed",
        /// Calls are refused.
        Open = "open",
        /// One probe is out.
        HalfOpen = "half_open",
    }
}

/// Permission to call. The caller returns it with a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Counts openings and probes, to detect late reports.
    era: u64,
}

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallReport {
    /// It answered, possibly with a refusal.
    Answered,
    /// It could not be reached or did not answer in time.
    Failed,
    /// The caller left before either.
    Abandoned,
}

/// The breaker's state. [`Breaker::admit`] and [`Breaker::report`] return a state when it changed.
#[derive(Debug, Clone)]
pub struct Breaker {
    settings: BreakerSettings,
    phase: Phase,
    era: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed { failures: u32, counted_at: MonoTime },
    Open { until: MonoTime },
    HalfOpen { silent_until: MonoTime },
}

const CLOSED: Phase = Phase::Closed { failures: 0, counted_at: MonoTime(0) };

impl Breaker {
    /// A closed breaker.
    #[must_use]
    pub const fn new(settings: BreakerSettings) -> Self {
        Self { settings, phase: CLOSED, era: 0 }
    }

    /// Its state.
    #[must_use]
    pub const fn state(&self) -> BreakerState {
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Whether a call may be made now, and the new state if asking changed it.
    pub fn admit(&mut self, now: MonoTime) -> (Option<Admission>, Option<BreakerState>) {
        let until = match self.phase {
            Phase::Closed { .. } => return (Some(Admission { era: self.era }), None),
            Phase::Open { until } => until,
            Phase::HalfOpen { silent_until } => silent_until,
        };
        if now < until {
            return (None, None);
        }
        self.era += 1;
        let before = self.state();
        self.phase = Phase::HalfOpen { silent_until: now + self.settings.probe_ms_max };
        let changed = (before != BreakerState::HalfOpen).then_some(BreakerState::HalfOpen);
        (Some(Admission { era: self.era }), changed)
    }

    /// Notes the result of an admitted call. Returns the new state if that changed it.
    pub fn report(&mut self, now: MonoTime, call: Admission, report: CallReport) -> Option<BreakerState> {
        if call.era != self.era {
            return None;
        }
        match (self.phase, report) {
            (Phase::Open { .. }, _) | (Phase::Closed { .. }, CallReport::Abandoned) => None,
            (Phase::Closed { .. }, CallReport::Answered) => {
                self.phase = CLOSED;
                None
            }
            (Phase::Closed { failures, counted_at }, CallReport::Failed) => {
                if failures > 0 && now < counted_at + self.settings.apart_ms {
                    return None;
                }
                let failures = failures.saturating_add(1);
                if failures >= self.settings.failures_max {
                    return Some(self.open_until(now + self.settings.open_ms));
                }
                self.phase = Phase::Closed { failures, counted_at: now };
                None
            }
            (Phase::HalfOpen { .. }, CallReport::Answered) => {
                self.era += 1;
                self.phase = CLOSED;
                Some(BreakerState::Closed)
            }
            (Phase::HalfOpen { .. }, CallReport::Failed) => {
                Some(self.open_until(now + self.settings.open_ms))
            }
            // The call showed nothing, so the next call may probe at once.
            (Phase::HalfOpen { .. }, CallReport::Abandoned) => Some(self.open_until(now)),
        }
    }

    fn open_until(&mut self, until: MonoTime) -> BreakerState {
        self.era += 1;
        self.phase = Phase::Open { until };
        BreakerState::Open
    }
}

#[cfg(test)]
mod tests;
