//! What experience makes of predictions: how far a kind's probabilities are believed, how many candidates of a pattern are
//! launched, and which refused one is tried all the same. It launches nothing and counts no launches itself: it is told.
//!
//! The bounds 0.75 and 0.40 on accuracy are those of Srinath, Mutlu, Kim, Patt, "Feedback Directed Prefetching", HPCA 2007,
//! section 4: above the upper one more aggressive by a step, below the lower one less. One step less here is half, so
//! that a pattern which has become unpredictable is off after few windows.

use super::gain::CandidateKind;
use crate::limits::{
    PREFETCH_ACCURACY_HIGH_PERCENT, PREFETCH_ACCURACY_LOW_PERCENT, PREFETCH_CALIBRATION_LAUNCHES,
    PREFETCH_CALIBRATION_PRIOR, PREFETCH_TRIAL_EVERY, PREFETCH_WINDOW,
};

/// K of one pattern: how many candidates a request of it may launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    launches_max: u32,
    resolved: u32,
    used: u32,
}

impl Width {
    /// Of a pattern that nothing is known of yet: half of what the operator allows, but one where that is not zero.
    #[must_use]
    pub fn new(queries_max: u32) -> Self {
        Self { launches_max: queries_max.div_ceil(2), resolved: 0, used: 0 }
    }

    /// K; zero is off, but for trials.
    #[must_use]
    pub fn launches_max(&self) -> u32 {
        self.launches_max
    }

    /// A launch of the pattern was used (late counts as used) or wasted; `queries_max` is the operator's bound.
    pub fn resolved(&mut self, is_used: bool, queries_max: u32) {
        self.resolved += 1;
        self.used += u32::from(is_used);
        if self.resolved < PREFETCH_WINDOW {
            return;
        }
        let percent = self.used * 100 / self.resolved;
        if percent > PREFETCH_ACCURACY_HIGH_PERCENT {
            self.launches_max += 1;
        } else if percent < PREFETCH_ACCURACY_LOW_PERCENT {
            self.launches_max /= 2;
        } else if self.launches_max == 0 {
            // Trials that went well enough.
            self.launches_max = 1;
        }
        *self = Self { launches_max: self.launches_max.min(queries_max), resolved: 0, used: 0 };
    }
}

/// How far the probabilities of each kind are believed: launches that were used ÷ those that were said to be, with decay and a
/// prior of right ones. Where it says half of what comes true, nothing is gained: it lowers, and never raises.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    by_kind: [Record; CandidateKind::ALL.len()],
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Record {
    used: f64,
    foreseen: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        let right = Record { used: PREFETCH_CALIBRATION_PRIOR, foreseen: PREFETCH_CALIBRATION_PRIOR };
        Self { by_kind: [right; CandidateKind::ALL.len()] }
    }
}

impl Calibration {
    /// A launch of this kind, of which `p` was foreseen, was used (late counts as used) or wasted. Without a usable `p` it says
    /// nothing.
    pub fn resolved(&mut self, kind: CandidateKind, p: f64, is_used: bool) {
        if !(0.0..=1.0).contains(&p) {
            return;
        }
        let record = &mut self.by_kind[kind.place()];
        let kept = 1.0 - 1.0 / PREFETCH_CALIBRATION_LAUNCHES;
        // The prior is not forgotten: what decays is what is over it.
        let decay = |sum: f64| PREFETCH_CALIBRATION_PRIOR + (sum - PREFETCH_CALIBRATION_PRIOR) * kept;
        *record = Record {
            used: decay(record.used) + f64::from(u8::from(is_used)),
            foreseen: decay(record.foreseen) + p,
        };
    }

    /// What a probability of this kind is worth by experience.
    #[must_use]
    pub fn effective(&self, kind: CandidateKind, p: f64) -> f64 {
        p * self.factor(kind)
    }

    /// By how much probabilities of this kind are lowered: 1 where they come true.
    #[must_use]
    pub fn factor(&self, kind: CandidateKind) -> f64 {
        let Record { used, foreseen } = self.by_kind[kind.place()];
        (used / foreseen).min(1.0)
    }
}

/// Which of the candidates that only experience refuses are tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trials {
    refused: u32,
}

impl Trials {
    /// A candidate was refused that would have been launched by its own probability alone (its kind's calibration, or its
    /// pattern's K, stood against it); whether it is tried all the same. Others are not to be counted here: what is improbable by
    /// its own count is not worth a trial.
    pub fn is_tried(&mut self) -> bool {
        self.refused = (self.refused + 1) % PREFETCH_TRIAL_EVERY;
        self.refused == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::gain::Prices;
    use super::*;

    fn window(width: &mut Width, used: u32) {
        (0..PREFETCH_WINDOW).for_each(|each| width.resolved(each < used, 4));
    }

    /// HPCA 2007, section 4: the two bounds, and nothing between them.
    #[test]
    fn accuracy_moves_the_width_by_the_bounds() {
        let mut width = Width::new(4);
        assert_eq!(width.launches_max(), 2);
        for (used, expected) in [(12, 2), (13, 3), (16, 4), (16, 4), (7, 4), (6, 2), (0, 1), (0, 0), (6, 0)] {
            window(&mut width, used);
            assert_eq!(width.launches_max(), expected, "{used} of 16 used");
        }
        window(&mut width, 8);
        assert_eq!(width.launches_max(), 1, "trials that go well turn it on again");
    }

    #[test]
    fn an_operator_who_wants_none_gets_none() {
        let mut width = Width::new(0);
        for _ in 0..3 {
            (0..PREFETCH_WINDOW).for_each(|_| width.resolved(true, 0));
            assert_eq!(width.launches_max(), 0);
        }
    }

    /// Must show 4 of issue 7: unpredictable traffic turns a kind off after a few launches, whatever it claims, and alone
    /// that kind.
    #[test]
    fn wasted_launches_turn_their_kind_off() {
        let idle = Prices::of(50.0, 0.0);
        for p in [0.3, 0.5, 1.0] {
            let mut calibration = Calibration::default();
            let pays = |calibration: &Calibration, kind| idle.pays(calibration.effective(kind, p));
            let mut launches = 0;
            while pays(&calibration, CandidateKind::Exact) {
                calibration.resolved(CandidateKind::Exact, p, false);
                launches += 1;
                assert!(launches <= 7, "{p}: {launches} launches and still on");
            }
            assert!(pays(&calibration, CandidateKind::Template), "another kind's is another's");
        }
    }

    /// A kind that was off and has become right is on again after trials.
    #[test]
    fn a_kind_recovers() {
        let mut calibration = Calibration::default();
        (0..1_000).for_each(|_| calibration.resolved(CandidateKind::Exact, 0.9, false));
        assert!(calibration.factor(CandidateKind::Exact) < 0.05);
        (0..60).for_each(|_| calibration.resolved(CandidateKind::Exact, 0.9, true));
        assert!(calibration.effective(CandidateKind::Exact, 0.9) > 0.25);
    }

    #[test]
    fn each_sixty_fourth_is_tried() {
        let mut trials = Trials::default();
        let tried: Vec<u32> = (1..=200).filter(|_| trials.is_tried()).collect();
        assert_eq!(tried, [64, 128, 192]);
    }

    proptest! {
        /// It lowers and never raises, whatever it is told.
        #[test]
        fn a_factor_is_between_nothing_and_one(told in prop::collection::vec((any::<f64>(), any::<bool>()), 0..300)) {
            let mut calibration = Calibration::default();
            for (p, is_used) in told {
                calibration.resolved(CandidateKind::Overlap, p, is_used);
                let factor = calibration.factor(CandidateKind::Overlap);
                prop_assert!(factor > 0.0 && factor <= 1.0, "{}", factor);
            }
        }
    }
}
