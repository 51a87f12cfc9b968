//! How often a key is asked: counted on its copy by whoever serves it, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::REFRESH_RATE_PER_S_MAX;
use crate::time::MonoTime;

/// The rate before counts as if it had been watched for so long. A copy that lives longer overrules it; one that
/// was made a moment ago keeps it.
const BEFORE_S: f64 = 10.0;
/// Without a rate before: watched for so long, any number of arrivals is an answer, few or none as well. Else a
/// rare key would have no history for ever.
pub(super) const WATCHED_S: f64 = 10.0;
/// Without a rate before: so many arrivals are an answer earlier (a quarter off, one deviation) …
const ARRIVALS: f64 = 16.0;
/// … but not within a second, where those who waited for the copy's run come all at once.
const BURST_S: f64 = 1.0;

/// Requests for one copy, and the rate that was known before it.
#[derive(Debug)]
pub struct Heat {
    since: MonoTime,
    /// NaN for none.
    before_per_s: f32,
    /// 64 bits, so that it cannot wrap and needs no look before it is added to.
    arrivals: AtomicU64,
}

impl Heat {
    /// Counting begins at `since`; `before_per_s` is the rate seen on the copy before, if there was one. One that is
    /// negative or not finite is none.
    #[must_use]
    pub fn new(since: MonoTime, before_per_s: Option<f32>) -> Self {
        let before_per_s = before_per_s.filter(|rate| rate.is_finite() && *rate >= 0.0).unwrap_or(f32::NAN);
        Self { since, before_per_s, arrivals: AtomicU64::new(0) }
    }

    /// So many more requests came. All that a hit pays: no order with anything else is needed, since a rate that
    /// misses a few of the latest arrivals is as good.
    pub fn arrive(&self, count: u32) {
        self.arrivals.fetch_add(u64::from(count), Ordering::Relaxed);
    }

    /// Requests that were counted so far; no more than fit.
    #[must_use]
    pub fn arrivals(&self) -> u32 {
        u32::try_from(self.arrivals.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// Requests per second, by what came and what was known before.
    ///
    /// Nothing where there is no history: no rate was known before, and the copy was watched for less than 10 s
    /// with fewer than 16 arrivals, or for less than 1 s. A clock that stepped back behind the beginning tells
    /// nothing of this copy: then it is the rate before.
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
