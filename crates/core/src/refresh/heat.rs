//! The request rate of a key: every hit counts on the copy, without a lock.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::limits::{CLOCK_START_US, ENTRY_LIFE_MS_MAX, HEAT_SAMPLE_ARRIVALS, REFRESH_RATE_PER_S_MAX};
use crate::short::Short;
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
    /// Milliseconds on the node's clock, rounded down: 34 years, of which a node has 14 before it.
    since_ms: Short<5>,
    before_per_s: ShortRate,
    arrivals: AtomicU32,
}

const _: () = assert!(size_of::<Heat>() == 12);
const _: () = assert!(CLOCK_START_US / 1_000 + ENTRY_LIFE_MS_MAX < Short::<5>::MAX);

/// A rate in three bytes: the sign, the exponent and 15 bits of the `f32`, so that it is good for four digits. NaN if unknown.
#[derive(Debug, Clone, Copy)]
struct ShortRate([u8; 3]);

impl ShortRate {
    fn of(per_s: f32) -> Self {
        let [_, a, b, c] = per_s.to_bits().to_le_bytes();
        Self([a, b, c])
    }

    fn per_s(self) -> f64 {
        let Self([a, b, c]) = self;
        f32::from_bits(u32::from_le_bytes([0, a, b, c])).into()
    }
}

/// Counting stops here: after a day of 24,000 requests a second, or ten years of seven. From then on the rate falls as the copy gets
/// older, and the key is no longer looked at as a hot one. 128 threads that count at once do not make it wrap.
const ARRIVALS_MAX: u32 = 1 << 31;
/// Most that is counted at once: more than a node answers with a near copy in its life.
const ARRIVALS_AT_ONCE_MAX: u32 = 1 << 24;

impl Heat {
    /// Counting begins at `since`. `before_per_s` is the rate seen on the previous copy, if there was one; a negative
    /// or infinite one counts as none.
    #[must_use]
    pub fn new(since: MonoTime, before_per_s: Option<f32>) -> Self {
        let before_per_s = before_per_s.filter(|rate| rate.is_finite() && *rate >= 0.0).unwrap_or(f32::NAN);
        Self {
            since_ms: Short::of(since.0 / 1_000),
            before_per_s: ShortRate::of(before_per_s),
            arrivals: AtomicU32::new(0),
        }
    }

    /// Counts `count` requests. A hit pays nothing more: the addition needs no ordering, because a rate may miss a few
    /// of the latest arrivals. Returns whether these are the first ones, or the first in another group of
    /// [`HEAT_SAMPLE_ARRIVALS`]: then it is worth a look how hot the key is.
    pub fn arrive(&self, count: u32) -> bool {
        let count = count.min(ARRIVALS_AT_ONCE_MAX);
        if self.arrivals.load(Ordering::Relaxed) >= ARRIVALS_MAX {
            return false;
        }
        let before = u64::from(self.arrivals.fetch_add(count, Ordering::Relaxed));
        before == 0 || before / HEAT_SAMPLE_ARRIVALS != (before + u64::from(count)) / HEAT_SAMPLE_ARRIVALS
    }

    /// Requests counted so far, up to a bound.
    #[must_use]
    pub fn arrivals(&self) -> u32 {
        self.arrivals.load(Ordering::Relaxed).min(ARRIVALS_MAX)
    }

    /// Requests per second, from the arrivals and the previous rate.
    ///
    /// `None` without history: there was no previous rate, and the copy was watched for less than 10 s with fewer than
    /// 16 arrivals, or for less than 1 s. If the clock stepped back before the beginning, the previous rate counts.
    #[must_use]
    pub fn rate_per_s(&self, now: MonoTime) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits of its parts")]
        let (elapsed_s, seen) = (
            (now.0 / 1_000).saturating_sub(self.since_ms.get()) as f64 / 1_000.0,
            f64::from(self.arrivals()),
        );
        let before = self.before_per_s.per_s();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_at_its_end_stays_there() {
        let heat = Heat::new(MonoTime(0), None);
        for _ in 0..300 {
            heat.arrive(u32::MAX);
        }
        assert!(!heat.arrive(64), "it is not worth a look");
        assert_eq!(heat.arrivals(), ARRIVALS_MAX);
        assert_eq!(heat.rate_per_s(MonoTime(86_400_000_000)), Some(f64::from(ARRIVALS_MAX) / 86_400.0));
    }
}
