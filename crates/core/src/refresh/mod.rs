//! Early refresh: when a hit on a fresh entry should have it read anew (DESIGN "Early refresh", XFetch).
//!
//! Source: Vattani, Chierichetti, Lowenstein, "Optimal Probabilistic Cache Stampede Prevention", PVLDB 8(8):886-897,
//! 2015, doi 10.14778/2757807.2757813. Rule: refresh when `left ≤ −β·δ·ln(u)`, `u ∈ (0, 1]`, δ the measured time of
//! a run. It decides from numbers alone: it reads no clock, draws nothing and runs nothing. That one refresh runs at a
//! time is the flight's and the lease's.

mod cost;
mod heat;

pub use cost::{Cost, CostHistory};
pub use heat::Heat;

use crate::time::Millis;

/// How β is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// β = β0·σ.
    Plain,
    /// β = β0·(1 + ln d)·σ.
    TopologySensitive,
    /// β solved for the key's own rate and cost.
    Adaptive,
}

/// What the operator decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// How β is chosen.
    pub mode: Mode,
    /// β0, 0.5 to 2.0.
    pub beta: f64,
}

/// What is known of a key when its plan is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeyFacts {
    /// Soft life of the entry, jitter included.
    pub ttl_ms: Millis,
    /// δ and its tail.
    pub cost: Cost,
    /// Requests per second that its owner sees, where there is a history of them.
    pub rate_per_s: Option<f64>,
    /// Degree of the graph node asked about, where it is known.
    pub degree: Option<u64>,
    /// σ: how fast the answer changes; 1 is usual.
    pub volatility: f64,
}

/// When an entry is refreshed early: by chance with scale s = β·δ, and at the latest on the first hit with
/// `ahead_ms` left.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Plan {
    /// s = β·δ, in milliseconds.
    pub scale_ms: f64,
    /// Refresh-ahead: any hit with at most so much left refreshes; zero for none.
    pub ahead_ms: f64,
}

impl Rule {
    /// The plan for a key.
    #[must_use]
    pub fn plan(&self, facts: &KeyFacts) -> Plan {
        Plan { scale_ms: self.beta * facts.volatility * facts.cost.mean_ms, ahead_ms: 0.0 }
    }
}

impl Plan {
    /// With more than this left, in milliseconds, no draw can refresh: who serves a hit need not draw.
    #[must_use]
    pub fn window_ms(&self) -> f64 {
        (self.scale_ms * 37.0).max(self.ahead_ms)
    }

    /// Whether one of `hits` hits with `left_ms` left refreshes; `unit` in [0, 1) is the draw for all of them.
    #[must_use]
    pub fn fires(&self, left_ms: f64, hits: u32, unit: f64) -> bool {
        hits > 0 && unit < self.probability(left_ms, hits)
    }

    /// Probability that one of `hits` hits with `left_ms` left refreshes: 1 − (1 − e^(−r/s))^hits.
    #[must_use]
    pub fn probability(&self, left_ms: f64, hits: u32) -> f64 {
        if left_ms <= self.ahead_ms {
            return 1.0;
        }
        let once = (-left_ms / self.scale_ms).exp();
        -(f64::from(hits) * (-once).ln_1p()).exp_m1()
    }
}
