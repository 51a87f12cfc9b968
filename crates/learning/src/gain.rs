//! The expected gain of a prefetch, and whether that is worth its cost. It launches nothing and knows no budget.
//!
//! THEORY.md "Learning and prefetch": launch iff p > C/(B + C), where B is the saving of a used launch for its client
//! and C the cost of a wasted one for everybody. A used run of b milliseconds saves b. A wasted one takes a slot from
//! others for b, which costs more the fuller the origin is: C = B/3 × (1 + load). So the threshold is (1 + load)/(4 +
//! load): 0.25 for an idle origin (at which THEORY.md measured accuracies of 0.73 to 0.87), 0.4 for a full one.

use hopcache_core::limits::PRICED_RUN_MS_MAX;

hopcache_core::words! {
    /// The kind of a candidate.
    #[derive(serde::Serialize, serde::Deserialize)]
    pub enum CandidateKind {
        /// A query that was seen to follow the one asked, with the parameters seen.
        Exact = "exact",
        /// A template, bound to parameters and result of the query asked.
        Template = "template",
        /// A query for a node that the result names, before anything was learned.
        Neighbour = "neighbour",
        /// A cached entry of the same anchor that is about to expire.
        Overlap = "overlap",
    }
}

/// The saving and the cost of a launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// B: the saving of a used launch, in milliseconds.
    gain_ms: f64,
    /// C: the cost of a wasted one, in milliseconds.
    waste_ms: f64,
}

impl Prices {
    /// For a query with runs of `run_ms` on average, at an origin with the share `load` (0 to 1) of its slots in use.
    /// Runs of unknown length count as a millisecond: the threshold does not depend on it, only the order of
    /// candidates.
    #[must_use]
    pub fn of(run_ms: f64, load: f64) -> Self {
        let gain_ms = if run_ms.is_finite() { run_ms.clamp(1.0, PRICED_RUN_MS_MAX) } else { 1.0 };
        let load = if load.is_finite() { load.clamp(0.0, 1.0) } else { 1.0 };
        Self { gain_ms, waste_ms: gain_ms / 3.0 * (1.0 + load) }
    }

    /// The probability from which a launch pays: C/(B + C).
    #[must_use]
    pub fn threshold(&self) -> f64 {
        self.waste_ms / (self.gain_ms + self.waste_ms)
    }

    /// Whether a launch that is used with probability `p` pays.
    #[must_use]
    pub fn pays(&self, p: f64) -> bool {
        p > self.threshold()
    }

    /// The average gain of such a launch, in milliseconds: p·B − (1 − p)·C. Candidates are launched in this order.
    #[must_use]
    pub fn expected_ms(&self, p: f64) -> f64 {
        p * self.gain_ms - (1.0 - p) * self.waste_ms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// THEORY.md: threshold 0.25; the figures at the head of this file.
    #[test]
    fn the_threshold_is_a_quarter_when_idle_and_rises_with_the_load() {
        for (load, threshold) in [(0.0, 0.25), (0.5, 1.0 / 3.0), (1.0, 0.4)] {
            assert!((Prices::of(80.0, load).threshold() - threshold).abs() < 1e-12, "{load}");
        }
        assert!(!Prices::of(80.0, 0.0).pays(0.25) && Prices::of(80.0, 0.0).pays(0.2501));
    }

    proptest! {
        /// p > C/(B + C) is the same as p·B > (1 − p)·C, for any input.
        #[test]
        fn what_pays_is_what_brings_something(run_ms in any::<f64>(), load in any::<f64>(), p in 0.0..1.0_f64) {
            let prices = Prices::of(run_ms, load);
            let threshold = prices.threshold();
            prop_assert!((0.25 - 1e-9..=0.4 + 1e-9).contains(&threshold), "{threshold}");
            if (p - threshold).abs() > 1e-9 {
                prop_assert_eq!(prices.pays(p), prices.expected_ms(p) > 0.0);
            }
        }
    }

    /// What the property above once found.
    #[test]
    fn a_run_of_any_length_has_a_threshold() {
        assert!((Prices::of(1.713e308, 0.0).threshold() - 0.25).abs() < 1e-12);
    }
}
