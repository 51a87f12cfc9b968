//! The nodes' counters, summed over the nodes, as far as the benchmark reports them. This module decides nothing.

use hopcache_testbed::metrics::sum;

/// Counters since the nodes' start, or between two looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Origin runs by cause.
    pub(crate) miss_runs: u64,
    pub(crate) refresh_runs: u64,
    pub(crate) prefetch_runs: u64,
    /// Of any cause.
    pub(crate) runs: u64,
    pub(crate) hits: u64,
    /// Requests that found nothing: those that joined a prefetch under way among them.
    pub(crate) misses: u64,
    pub(crate) launched: u64,
    pub(crate) used: u64,
    pub(crate) late: u64,
    pub(crate) wasted: u64,
    /// Neither used nor wasted yet. This is no counter, so it never becomes a difference.
    pub(crate) pending: u64,
    /// Gossip that nodes sent.
    pub(crate) gossip_bytes: u64,
}

impl Counts {
    /// Of the metrics of all nodes, one behind the other.
    pub(crate) fn of(metrics: &str) -> Self {
        let of = |name: &str, label: &str| sum(metrics, name, label).unwrap_or(0);
        let runs = "hopcache_origin_runs_total";
        Self {
            miss_runs: of(runs, "cause=\"miss\""),
            refresh_runs: of(runs, "cause=\"refresh\""),
            prefetch_runs: of(runs, "cause=\"prefetch\""),
            runs: of(runs, ""),
            hits: of("cache_hit_total", ""),
            misses: of("cache_miss_total", ""),
            launched: of("prefetch_attempts_total", ""),
            used: of("prefetch_hits_total", ""),
            late: of("prefetch_late_total", ""),
            wasted: of("prefetch_waste_total", ""),
            pending: of("prefetch_pending", ""),
            gossip_bytes: of("hopcache_gossip_bytes_total", "direction=\"sent\""),
        }
    }

    /// The increase since `before`. Pending and running prefetches are as they are now.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            miss_runs: self.miss_runs.saturating_sub(before.miss_runs),
            refresh_runs: self.refresh_runs.saturating_sub(before.refresh_runs),
            prefetch_runs: self.prefetch_runs.saturating_sub(before.prefetch_runs),
            runs: self.runs.saturating_sub(before.runs),
            hits: self.hits.saturating_sub(before.hits),
            misses: self.misses.saturating_sub(before.misses),
            launched: self.launched.saturating_sub(before.launched),
            used: self.used.saturating_sub(before.used),
            late: self.late.saturating_sub(before.late),
            wasted: self.wasted.saturating_sub(before.wasted),
            pending: self.pending,
            gossip_bytes: self.gossip_bytes.saturating_sub(before.gossip_bytes),
        }
    }

    /// Launched = used + late + wasted + pending; of counts since the start, at rest.
    pub(super) const fn is_whole(&self) -> bool {
        self.launched == self.used + self.late + self.wasted + self.pending
    }

    /// (used + late) / (used + late + wasted); `None` before the first decision.
    pub(super) fn accuracy(&self) -> Option<f64> {
        self.used_of(self.used + self.late + self.wasted)
    }

    /// The same figure if nobody ever asks for the pending copies: waste is known only when a copy has lived its life.
    pub(super) fn accuracy_at_least(&self) -> Option<f64> {
        self.used_of(self.used + self.late + self.wasted + self.pending)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    fn used_of(&self, all: u64) -> Option<f64> {
        (all > 0).then(|| (self.used + self.late) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_their_names_and_labels() {
        let metrics = "hopcache_origin_runs_total{cause=\"miss\"} 10\nhopcache_origin_runs_total{cause=\"prefetch\"} 4\nhopcache_origin_runs_total{cause=\"miss\"} 1\nprefetch_attempts_total 5\nprefetch_hits_total 2\nprefetch_late_total 1\nprefetch_waste_total 1\nprefetch_pending 1\nhopcache_gossip_bytes_total{direction=\"received\"} 7\nhopcache_gossip_bytes_total{direction=\"sent\"} 9\n";
        let counts = Counts::of(metrics);
        assert_eq!(
            (counts.miss_runs, counts.prefetch_runs, counts.runs, counts.gossip_bytes),
            (11, 4, 15, 9)
        );
        assert!(counts.is_whole());
        assert_eq!((counts.accuracy(), counts.accuracy_at_least()), (Some(0.75), Some(0.6)));
        let later = Counts { wasted: 2, launched: 9, ..counts };
        assert!(!later.is_whole());
        let between = later.since(&counts);
        assert_eq!((between.launched, between.wasted, between.used, between.pending), (4, 1, 0, 1));
        assert_eq!(Counts::default().accuracy(), None);
    }
}
