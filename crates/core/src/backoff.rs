//! How long a key is held back after its runs failed.
//!
//! Without a back-off each client that comes after a failed run begins the next one, and an origin that has trouble
//! with one query gets that query for ever. So runs of such a key are held back for a time that doubles with each
//! failure in a row, within bounds and with jitter. The first run that is answered, well or not, ends it.
//!
//! A run whose connection broke, or that the server itself calls worth another try, had bad luck. Its waiters try once
//! more at once, and only if that fails too is the key held back. A run that used up its whole time has already cost as
//! much as it may: there is no immediate retry.
//!
//! It reads no clock and draws no number: both come in.

use crate::limits::{BACKOFF_MS_FIRST, BACKOFF_MS_MAX};
use crate::time::{Millis, MonoTime};

/// Why a run brought no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunFailure {
    /// Its connection broke, or the server said that trying again may help.
    Cut,
    /// Its time ended.
    TimedOut,
}

/// The failures of one key, in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    failures: u32,
    noted_at: MonoTime,
    until: MonoTime,
}

impl BackOff {
    /// The failures of a key after one more; `before` are the earlier ones. The run began at `began` and ended now;
    /// `unit` in [0, 1) is the jitter's draw.
    ///
    /// Runs that were under way together count as one: a run that began before the last failure was noted adds none.
    /// Old failures are forgotten: a row has no gap longer than [`BACKOFF_MS_MAX`] after its end.
    #[must_use]
    pub fn after(
        before: Option<Self>,
        failure: RunFailure,
        began: MonoTime,
        now: MonoTime,
        unit: f64,
    ) -> Self {
        let before = before.filter(|before| now < before.until + Millis(BACKOFF_MS_MAX));
        if let Some(before) = before.filter(|before| began < before.noted_at) {
            return before;
        }
        let failures = before.map_or(0, |before| before.failures).saturating_add(1);
        let pause_ms = jittered(pause_ms(failures, failure), unit);
        Self { failures, noted_at: now, until: now + pause_ms }
    }

    /// For how long the key is still held back; `None` when it may run.
    #[must_use]
    pub fn left(&self, now: MonoTime) -> Option<Millis> {
        (now < self.until).then(|| self.until.since(now).max(Millis(1)))
    }

    /// When the last failure was noted.
    #[must_use]
    pub const fn noted_at(&self) -> MonoTime {
        self.noted_at
    }

    /// Failures in a row.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

/// The pause after `failures` failures, before jitter.
fn pause_ms(failures: u32, last: RunFailure) -> Millis {
    let steps = match last {
        RunFailure::Cut => failures.saturating_sub(1),
        RunFailure::TimedOut => failures,
    };
    let Some(doublings) = steps.checked_sub(1) else { return Millis::ZERO };
    let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
    Millis(BACKOFF_MS_FIRST.saturating_mul(factor).min(BACKOFF_MS_MAX))
}

/// Between half of it and all of it: keys that failed together do not come back together.
fn jittered(pause: Millis, unit: f64) -> Millis {
    // A draw outside [0, 1) (NaN too) must not lead to a pause outside its bounds.
    let unit = if (0.0..1.0).contains(&unit) { unit } else { 0.0 };
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "pauses are at most BACKOFF_MS_MAX"
    )]
    Millis((pause.0 as f64 * (0.5 + unit / 2.0)) as u64)
}

#[cfg(test)]
mod tests;
