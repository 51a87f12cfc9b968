//! Percentiles and busiest windows.

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

/// P50, P95, P99 and P99.9 of latencies in µs, in ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tail {
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) count: usize,
}

impl Tail {
    pub(crate) fn of(mut latencies_us: Vec<u64>) -> Self {
        latencies_us.sort_unstable();
        let at = |share| percentile(&latencies_us, share) / 1e3;
        Self {
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            count: latencies_us.len(),
        }
    }
}

/// A share, 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
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
