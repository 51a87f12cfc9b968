//! Percentiles of a sample.

use std::fmt;
use std::time::Duration;

/// P50, P95, P99 and the longest, in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) most: f64,
}

impl Times {
    pub(super) fn of(times: &mut [Duration]) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let place = (times.len() * percent / 100).min(times.len().saturating_sub(1));
            times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        Self { p50: at(50), p95: at(95), p99: at(99), most: at(100) }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "P50 {:.2}, P95 {:.2}, P99 {:.2}, most {:.1} ms", self.p50, self.p95, self.p99, self.most)
    }
}

/// A share of a whole.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(super) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_sample() {
        let mut times: Vec<_> = (0..100).rev().map(Duration::from_millis).collect();
        let times = Times::of(&mut times);
        assert_eq!((times.p50, times.p95, times.p99, times.most), (50.0, 95.0, 99.0, 99.0));
        assert_eq!(Times::of(&mut []).p99, 0.0);
    }
}
