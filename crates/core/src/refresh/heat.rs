//! How often a key is asked: counted on its copy by whoever serves it, without a lock.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::time::MonoTime;

/// Requests for one copy, and the rate that was known before it.
#[derive(Debug)]
pub struct Heat {
    since: MonoTime,
    before_per_s: f32,
    arrivals: AtomicU32,
}

impl Heat {
    /// Counting begins at `since`; `before_per_s` is the rate seen on the copy before, if there was one.
    #[must_use]
    pub fn new(since: MonoTime, before_per_s: Option<f32>) -> Self {
        Self { since, before_per_s: before_per_s.unwrap_or(f32::NAN), arrivals: AtomicU32::new(0) }
    }

    /// So many more requests came.
    pub fn arrive(&self, count: u32) {
        self.arrivals.fetch_add(count, Ordering::Relaxed);
    }

    /// Requests that were counted so far.
    #[must_use]
    pub fn arrivals(&self) -> u32 {
        self.arrivals.load(Ordering::Relaxed)
    }

    /// Requests per second, by what came and what was known before; nothing where there is no history.
    #[must_use]
    pub fn rate_per_s(&self, now: MonoTime) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ms")]
        let elapsed_s = now.since(self.since).0 as f64 / 1_000.0;
        let seen = f64::from(self.arrivals());
        let before = f64::from(self.before_per_s);
        if before.is_nan() && seen < 2.0 {
            return None;
        }
        let (weight_s, before) = if before.is_nan() { (0.0, 0.0) } else { (10.0, before) };
        Some((seen + before * weight_s) / (elapsed_s + weight_s).max(0.001))
    }
}
