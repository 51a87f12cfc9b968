//! The request rate of a key: every hit counts on the copy, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::{HEAT_SAMPLE_ARRIVALS, REFRESH_RATE_PER_S_MAX};
use crate::time::MonoTime;

/// The previous rate counts as if it had been watched for this long. A copy that lives longer outweighs it; a new copy
/// keeps it.
const BEFORE_S: f64 = 10.0;
/// Without a previous rate: after this time any number of arrivals counts, even none. Otherwise a rare key would never
/// have a history.
pub(super) const WATCHED_S: f64 = 10.0;
/// Without a previous rate: this many arrivals count earlier (a quarter off, one deviation) …
const ARRIVALS: f64 = 16.0;
/// … but not within a second, in which all waiters of the copy's run come at once.
const BURST_S: f64 = 1.0;

/// Requests for one copy, and the previous rate.
#[derive(Debug)]
pub struct Heat {
    since: MonoTime,
    /// NaN if unknown.
    before_per_s: f32,
    /// 64 bits, so that it cannot wrap and needs no look before it is added to.
    arrivals: AtomicU64,
}

impl Heat {
    /// Counting begins at `since`. `before_per_s` is the rate seen on the previous copy, if there was one; a negative
    /// or infinite one counts as none.
    #[must_use]
    pub fn new(since: MonoTime, before_per_s: Option<f32>) -> Self {
        let before_per_s = before_per_s.filter(|rate| rate.is_finite() && *rate >= 0.0).unwrap_or(f32::NAN);
        Self { since, before_per_s, arrivals: AtomicU64::new(0) }
    }

    /// Counts `count` requests. A hit pays nothing more: the addition needs no ordering, because a rate may miss a few
    /// of the latest arrivals. Returns whether these are the first ones, or the first in another group of
    /// [`HEAT_SAMPLE_ARRIVALS`]: then it is worth a look how hot the key is.
    pub fn arrive(&self, count: u32) -> bool {
        let before = self.arrivals.fetch_add(u64::from(count), Ordering::Relaxed);
        before == 0 || before / HEAT_SAMPLE_ARRIVALS != (before + u64::from(count)) / HEAT_SAMPLE_ARRIVALS
    }

    /// Requests counted so far, saturating.
    #[must_use]
    pub fn arrivals(&self) -> u32 {
        u32::try_from(self.arrivals.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// Requests per second, from the arrivals and the previous rate.
    ///
    /// `None` without history: there was no previous rate, and the copy was watched for less than 10 s with fewer than
    /// 16 arrivals, or for less than 1 s. If the clock stepped back before the beginning, the previous rate counts.
    #[must_use]
    pub fn rate_per_s(&self, now: MonoTime) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits of its parts")]
        let (elapsed_s, seen) =
            (now.since(self.since).0 as f64 / 1_000.0, self.arrivals.load(Ordering::Relaxed) as f64);
        let before = f64::from(self.before_per_s);
        let rate = if before.is_nan() {
            let is_history = elapsed_s >= WATCHED_S || (elapsed_s >= BURST_S && seen >= ARRIVALS);
            is_history.then(|| seen / elapsed_s)?
        } else if elapsed_s > 0.0 {
            (seen + before * BEFORE_S) / (elapsed_s + BEFORE_S)
        } else {
            before
        };
        Some(rate.min(REFRESH_RATE_PER_S_MAX))
    }
}
