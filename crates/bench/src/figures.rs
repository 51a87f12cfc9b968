//! Percentiles and shares.

use std::fmt;
use std::time::Duration;

/// Nearest rank: the smallest value that at least this share of all does not exceed. Of nothing, 0.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and microseconds are far below 2^53"
)]
pub(crate) fn percentile(sorted: &[u64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0) as f64
}

/// P50, P95, P99, P99.9 and the longest of latencies in µs, in ms.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tail {
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) most_ms: f64,
    pub(crate) count: usize,
}

impl Tail {
    pub(crate) fn of(mut latencies_us: Vec<u64>) -> Self {
        latencies_us.sort_unstable();
        let at = |share| percentile(&latencies_us, share) / 1e3;
        let [p50_ms, p95_ms, p99_ms, p999_ms, most_ms] = [0.5, 0.95, 0.99, 0.999, 1.0].map(at);
        Self { p50_ms, p95_ms, p99_ms, p999_ms, most_ms, count: latencies_us.len() }
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50_ms, p95_ms, p99_ms, most_ms, .. } = self;
        write!(out, "P50 {p50_ms:.2}, P95 {p95_ms:.2}, P99 {p99_ms:.2}, most {most_ms:.1} ms")
    }
}

/// A share, 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A time in µs.
pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// CPU time in µs for each of so many requests.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn each_us(spent: Duration, requests: usize) -> f64 {
    spent.as_secs_f64() * 1e6 / requests.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert!((percentile(&hundred, 0.5) - 50.0).abs() < f64::EPSILON);
        assert!((percentile(&hundred, 0.99) - 99.0).abs() < f64::EPSILON);
        assert!((percentile(&hundred, 0.999) - 100.0).abs() < f64::EPSILON);
        assert!((percentile(&[7], 0.01) - 7.0).abs() < f64::EPSILON);
        assert!(percentile(&[], 0.5).abs() < f64::EPSILON);
    }
}
