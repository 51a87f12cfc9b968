//! What a run of a key takes: δ as a moving mean, and its tail. It decides nothing; bad numbers never get in.

use crate::time::Millis;

/// What a run takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// δ: the moving mean, in milliseconds.
    pub mean_ms: f64,
    /// An estimate of the 99th percentile, in milliseconds; not below the mean.
    pub tail_ms: f64,
}

/// What runs have taken so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CostHistory {
    mean_ms: f64,
    runs: u32,
}

impl CostHistory {
    /// Takes note of a run.
    pub fn observe(&mut self, took_ms: Millis) {
        #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ms")]
        let took_ms = took_ms.0 as f64;
        self.mean_ms = if self.runs == 0 { took_ms } else { self.mean_ms + (took_ms - self.mean_ms) / 5.0 };
        self.runs = self.runs.saturating_add(1);
    }

    /// What the next run is expected to take; nothing before the first run.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        (self.runs > 0).then_some(Cost { mean_ms: self.mean_ms, tail_ms: self.mean_ms })
    }
}
