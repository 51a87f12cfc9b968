//! What the runs since the last decision have shown. It decides nothing.

use super::run_times::Reference;
use crate::limits::{
    ORIGIN_WINDOW_MS, ORIGIN_WINDOW_RUNS, ORIGIN_WINDOW_SLOW_MS, ORIGIN_WINDOW_SLOW_RUNS,
    ORIGIN_WINDOW_SOME_MS, ORIGIN_WINDOW_SOME_RUNS,
};
use crate::time::{Millis, MonoTime};

/// Sums over runs of the same trust.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    runs: u32,
    /// Quiet times.
    weight: f64,
    /// Logarithms of slowdowns, each weighed by its quiet time.
    ln: f64,
    /// The same for the runs under way.
    under_way: f64,
}

/// The runs since the last decision.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    began: MonoTime,
    /// Runs with a quiet time from probes.
    quiet: Sums,
    /// Runs of patterns without one.
    other: Sums,
    /// Whether a run had to wait for the limit.
    pub(super) was_full: bool,
}

/// The findings of a complete window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// How many times as long runs took as they do when Neo4j is quiet.
    pub(super) slowdown: f64,
    /// This node's runs under way beside a run, in the mean.
    pub(super) under_way: f64,
    pub(super) was_full: bool,
}

impl Window {
    pub(super) fn from(began: MonoTime) -> Self {
        Self { began, ..Self::default() }
    }

    pub(super) fn add(&mut self, took_us: f64, reference: Reference, under_way: f64) {
        let sums = if reference.is_quiet { &mut self.quiet } else { &mut self.other };
        sums.runs += 1;
        sums.weight += reference.us;
        sums.ln += reference.us * (took_us / reference.us).ln();
        sums.under_way += reference.us * under_way;
    }

    /// The findings, once there are enough runs. Runs without a quiet time from probes count only if there are no others.
    pub(super) fn result(&self, now: MonoTime) -> Option<Found> {
        let lasted = now.since(self.began);
        let is_enough = |runs: u32| {
            lasted >= Millis(ORIGIN_WINDOW_MS) && runs >= ORIGIN_WINDOW_RUNS
                || lasted >= Millis(ORIGIN_WINDOW_SOME_MS) && runs >= ORIGIN_WINDOW_SOME_RUNS
                || lasted >= Millis(ORIGIN_WINDOW_SLOW_MS) && runs >= ORIGIN_WINDOW_SLOW_RUNS
        };
        let is_quiet = self.quiet.runs > 0;
        let sums = if is_quiet { self.quiet } else { self.other };
        is_enough(sums.runs).then(|| Found {
            slowdown: (sums.ln / sums.weight).exp(),
            under_way: sums.under_way / sums.weight,
            was_full: self.was_full,
        })
    }
}
