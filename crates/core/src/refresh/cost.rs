//! The cost of a key's runs: δ as a moving mean, and its tail. It decides nothing; invalid numbers never get in.

use crate::limits::{
    REFRESH_COST_MS_MAX, REFRESH_COST_MS_MIN, REFRESH_COST_MS_UNKNOWN, REFRESH_TAIL_FACTOR_MAX,
};
use crate::time::Millis;

/// Standard deviations from the median to the 99th percentile of a normal distribution.
pub(super) const P99_DEVIATIONS: f64 = 2.326;
/// Variance of ln δ for unknown runs: it gives a 99th percentile of 3 × the mean (2.326·0.533 − 0.533²/2 = ln 3).
const SPREAD_PRIOR: f64 = 0.533 * 0.533;
/// The weight, in runs, of the prior spread or of a pattern's history. Its share is a half after 4 runs, a fifth after
/// 16, a thirteenth after 50, and falls to nothing from then on.
const RUNS_PRIOR: f64 = 4.0;
/// Runs in the moving mean: it follows a change of the origin within ten runs.
const RUNS_MEAN: f64 = 10.0;
/// Runs in the moving spread. A 99th percentile needs more of them: from 10 runs of cv 1.5 it would be off by half,
/// from 50 by a quarter. A longer run lengthens the tail at once, since it is a deviation.
const RUNS_SPREAD: f64 = 50.0;

/// The cost of a run.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Cost {
    /// δ: the moving mean, in milliseconds.
    pub mean_ms: f64,
    /// An estimate of the 99th percentile, in milliseconds; not below the mean.
    pub tail_ms: f64,
}

impl Cost {
    /// Neither the key nor its pattern has run yet.
    pub const UNKNOWN: Self =
        Self { mean_ms: REFRESH_COST_MS_UNKNOWN, tail_ms: 3.0 * REFRESH_COST_MS_UNKNOWN };

    /// The cost from a single known run, such as that of an entry from another node. Any value is accepted.
    #[must_use]
    pub fn of_run(took_ms: Millis) -> Self {
        let mut history = CostHistory::default();
        history.observe(took_ms);
        history.cost().unwrap_or(Self::UNKNOWN)
    }

    /// The same within bounds, for any numbers: 1 ms ≤ mean ≤ 10 min, mean ≤ tail ≤ 10 × mean. A NaN counts as unknown.
    #[must_use]
    pub fn bounded(self) -> Self {
        if self.mean_ms.is_nan() {
            return Self::UNKNOWN;
        }
        let mean_ms = self.mean_ms.clamp(REFRESH_COST_MS_MIN, REFRESH_COST_MS_MAX);
        let tail_ms = if self.tail_ms.is_nan() { 3.0 * mean_ms } else { self.tail_ms };
        Self { mean_ms, tail_ms: tail_ms.clamp(mean_ms, mean_ms * REFRESH_TAIL_FACTOR_MAX) }
    }

    /// Standard deviation of ln(run time), of the lognormal distribution with this mean and 99th percentile:
    /// ln(tail/mean) = 2.326·σ − σ²/2, the smaller solution.
    pub(super) fn spread(self) -> f64 {
        let log_tail = (self.tail_ms / self.mean_ms).ln();
        P99_DEVIATIONS - P99_DEVIATIONS.mul_add(P99_DEVIATIONS, -2.0 * log_tail).max(0.0).sqrt()
    }

    /// The quantile at `deviations` above the median.
    pub(super) fn quantile_ms(self, deviations: f64) -> f64 {
        (self.tail_ms * ((deviations - P99_DEVIATIONS) * self.spread()).exp()).max(self.mean_ms)
    }
}

/// The times of runs so far: a moving mean, and moving moments of ln δ. The tail is computed from them as if run times
/// were lognormal. Measured ones are skewed, and a key has one run for each TTL: too few to count a 99th percentile.
/// Constant size.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CostHistory {
    mean_ms: f64,
    log_mean: f64,
    log_variance: f64,
    /// The weight of the history in runs, at most [`RUNS_SPREAD`].
    runs: f64,
}

/// The same in 13 bytes, which have no alignment. It is rounded by a ten-millionth.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ShortCostHistory {
    mean_ms: [u8; 4],
    log_mean: [u8; 4],
    log_variance: [u8; 4],
    /// A whole number, since each run counts as one.
    runs: u8,
}

const _: () = assert!(RUNS_SPREAD <= u8::MAX as f64);

impl From<CostHistory> for ShortCostHistory {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "estimates, and a small number"
    )]
    fn from(long: CostHistory) -> Self {
        let short = |number: f64| (number as f32).to_le_bytes();
        Self {
            mean_ms: short(long.mean_ms),
            log_mean: short(long.log_mean),
            log_variance: short(long.log_variance),
            runs: long.runs as u8,
        }
    }
}

impl From<ShortCostHistory> for CostHistory {
    fn from(short: ShortCostHistory) -> Self {
        let long = |number| f64::from(f32::from_le_bytes(number));
        Self {
            mean_ms: long(short.mean_ms),
            log_mean: long(short.log_mean),
            log_variance: long(short.log_variance),
            runs: short.runs.into(),
        }
    }
}

impl CostHistory {
    /// The history of a key that has not run yet, from that of its pattern or another group: it counts as four runs at
    /// most, so that the key's own runs soon outweigh it.
    #[must_use]
    pub fn from_prior(group: &Self) -> Self {
        Self { runs: group.runs.min(RUNS_PRIOR), ..*group }
    }

    /// The history of a key from another node's cost: it counts as four runs, so that the key's own soon outweigh it.
    #[must_use]
    pub fn of_cost(cost: Cost) -> Self {
        Self::of_lognormal(cost, RUNS_PRIOR)
    }

    /// The history of a key's own runs from their cost and number. That of one run is as it was; of more, as if their times were
    /// lognormal.
    #[must_use]
    pub fn of_runs(cost: Cost, runs: u8) -> Self {
        if runs > 1 {
            return Self::of_lognormal(cost, f64::from(runs).min(RUNS_SPREAD));
        }
        let mut history = Self::default();
        if runs == 1 {
            history.observe_ms(cost.bounded().mean_ms);
        }
        history
    }

    fn of_lognormal(cost: Cost, runs: f64) -> Self {
        let cost = cost.bounded();
        let spread = cost.spread();
        let log_mean = P99_DEVIATIONS.mul_add(-spread, cost.tail_ms.ln());
        Self { mean_ms: cost.mean_ms, log_mean, log_variance: spread * spread, runs }
    }

    /// The weight of the history in runs.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
    pub fn runs(&self) -> u8 {
        self.runs as u8
    }

    /// Notes a run. Spans outside of 1 ms to 10 min count as the nearer bound.
    pub fn observe(&mut self, took_ms: Millis) {
        #[expect(clippy::cast_precision_loss, reason = "clamped to 10 min")]
        let took_ms = took_ms.0 as f64;
        self.observe_ms(took_ms);
    }

    fn observe_ms(&mut self, took_ms: f64) {
        let took_ms = took_ms.clamp(REFRESH_COST_MS_MIN, REFRESH_COST_MS_MAX);
        let log = took_ms.ln();
        if self.runs == 0.0 {
            *self = Self { mean_ms: took_ms, log_mean: log, log_variance: SPREAD_PRIOR, runs: 1.0 };
            return;
        }
        self.runs = (self.runs + 1.0).min(RUNS_SPREAD);
        self.mean_ms += (took_ms - self.mean_ms) / self.runs.min(RUNS_MEAN);
        let deviation = log - self.log_mean;
        self.log_mean += deviation / self.runs;
        // (1 − 1/runs): the deviation is from a mean that was itself estimated (Welford's update).
        let squared = deviation * deviation * (1.0 - 1.0 / self.runs);
        self.log_variance += (squared - self.log_variance) / (self.runs + RUNS_PRIOR);
    }

    /// The expected cost of the next run; `None` before the first run.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        let tail_ms = P99_DEVIATIONS.mul_add(self.log_variance.sqrt(), self.log_mean).exp();
        (self.runs > 0.0).then(|| Cost { mean_ms: self.mean_ms, tail_ms }.bounded())
    }
}
