//! Corrects predictions by experience: the factor on a kind's probabilities, the number of a pattern's candidates to
//! launch, and the refused candidate to try anyway. It launches nothing and counts no launches itself: the caller
//! reports them.
//!
//! The bounds 0.75 and 0.40 on accuracy are those of Srinath, Mutlu, Kim, Patt, "Feedback Directed Prefetching", HPCA
//! 2007, section 4: above the upper one a step more aggressive, below the lower one a step less. A step less here is
//! half, so that a pattern that has become unpredictable is off after few windows.

use hopcache_core::limits::{
    PREFETCH_ACCURACY_HIGH_PERCENT, PREFETCH_ACCURACY_LOW_PERCENT, PREFETCH_CALIBRATION_LAUNCHES,
    PREFETCH_CALIBRATION_PRIOR, PREFETCH_TRIAL_EVERY, PREFETCH_WINDOW,
};

use crate::gain::CandidateKind;

/// K of one pattern: how many candidates a request of it may launch.
///
/// Launches of a pattern end at the owners of many keys, and each owner knows its own share. So this takes sums that
/// all nodes count in (`Successors::precision`), and judges the increase since the last time. The sums decay; if one
/// has decreased, the count begins anew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Width {
    launches_max: u32,
    /// The sums when K was last judged.
    ended: f64,
    used: f64,
}

impl Width {
    /// For a pattern without history: half of the operator's limit, but at least one unless that is zero.
    #[must_use]
    pub fn new(queries_max: u32) -> Self {
        Self { launches_max: queries_max.div_ceil(2), ended: 0.0, used: 0.0 }
    }

    /// K; zero is off, except for trials.
    #[must_use]
    pub fn launches_max(&self) -> u32 {
        self.launches_max
    }

    /// Judges K by the pattern's launches that have ended and those that were used (late counts as used); `queries_max`
    /// is the operator's limit.
    pub fn told(&mut self, ended: f64, used: f64, queries_max: u32) {
        if ended < self.ended || used < self.used {
            (self.ended, self.used) = (ended, used);
        }
        let new = ended - self.ended;
        if new < f64::from(PREFETCH_WINDOW) {
            return;
        }
        let percent = (used - self.used) / new * 100.0;
        if percent > f64::from(PREFETCH_ACCURACY_HIGH_PERCENT) {
            self.launches_max += 1;
        } else if percent < f64::from(PREFETCH_ACCURACY_LOW_PERCENT) {
            self.launches_max /= 2;
        } else if self.launches_max == 0 {
            // Trials that went well enough.
            self.launches_max = 1;
        }
        *self = Self { launches_max: self.launches_max.min(queries_max), ended, used };
    }
}

/// The correction of each kind's probabilities: used launches ÷ predicted uses, with decay and a prior of right ones.
/// An underestimate gains nothing: the factor lowers, and never raises.
///
/// A launch counts as predicted from its beginning, and as used when it is. A wasted one is known only when its copy
/// has lived its life, perhaps minutes later; a kind that is never right would launch all that time. So a kind begins
/// with few launches and gets more as they are used, as a TCP sender does (RFC 5681, slow start).
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
    /// A launch of this kind began, with predicted probability `p`. Without a usable `p` neither it nor its use counts.
    pub fn launched(&mut self, kind: CandidateKind, p: f64) {
        if !is_probability(p) {
            return;
        }
        let record = &mut self.by_kind[kind.place()];
        let kept = 1.0 - 1.0 / PREFETCH_CALIBRATION_LAUNCHES;
        // The prior is not forgotten: only the excess over it decays.
        let decay = |sum: f64| PREFETCH_CALIBRATION_PRIOR + (sum - PREFETCH_CALIBRATION_PRIOR) * kept;
        *record = Record { used: decay(record.used), foreseen: decay(record.foreseen) + p };
    }

    /// A launch that was counted as begun with this `p` was used (late counts as used).
    pub fn used(&mut self, kind: CandidateKind, p: f64) {
        if is_probability(p) {
            self.by_kind[kind.place()].used += 1.0;
        }
    }

    /// A probability of this kind, corrected by experience.
    #[must_use]
    pub fn effective(&self, kind: CandidateKind, p: f64) -> f64 {
        p * self.factor(kind)
    }

    /// The factor on probabilities of this kind: 1 if they come true.
    #[must_use]
    pub fn factor(&self, kind: CandidateKind) -> f64 {
        let Record { used, foreseen } = self.by_kind[kind.place()];
        (used / foreseen).min(1.0)
    }
}

fn is_probability(p: f64) -> bool {
    (0.0..=1.0).contains(&p)
}

/// Chooses the requests that try a candidate that only experience refuses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trials {
    refused: u32,
}

impl Trials {
    /// Call it for a request with at least one candidate that its own probability alone would launch, and that its
    /// kind's calibration or its pattern's K refused. Returns whether the best of these is tried anyway. Other requests
    /// are not counted: a candidate that is improbable by its own count is not worth a trial.
    pub fn is_tried(&mut self) -> bool {
        self.refused = (self.refused + 1) % PREFETCH_TRIAL_EVERY;
        self.refused == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gain::Prices;

    /// Launches of a pattern, as all nodes have counted them.
    #[derive(Default)]
    struct Sums {
        ended: f64,
        used: f64,
    }

    impl Sums {
        /// One more window with `used` used launches, reported one by one.
        fn window(&mut self, width: &mut Width, used: u32, queries_max: u32) {
            for each in 0..PREFETCH_WINDOW {
                self.ended += 1.0;
                self.used += f64::from(u8::from(each < used));
                width.told(self.ended, self.used, queries_max);
            }
        }
    }

    /// HPCA 2007, section 4: the two bounds, and nothing between them.
    #[test]
    fn accuracy_moves_the_width_by_the_bounds() {
        let (mut width, mut sums) = (Width::new(4), Sums::default());
        assert_eq!(width.launches_max(), 2);
        for (used, expected) in [(12, 2), (13, 3), (16, 4), (16, 4), (7, 4), (6, 2), (0, 1), (0, 0), (6, 0)] {
            sums.window(&mut width, used, 4);
            assert_eq!(width.launches_max(), expected, "{used} of 16 used");
        }
        sums.window(&mut width, 8, 4);
        assert_eq!(width.launches_max(), 1, "trials that go well turn it on again");
    }

    /// Sums that halve with an epoch are neither bad launches nor good ones.
    #[test]
    fn what_decays_says_nothing() {
        let (mut width, mut sums) = (Width::new(4), Sums::default());
        (0..4).for_each(|_| sums.window(&mut width, 16, 4));
        assert_eq!(width.launches_max(), 4);
        for _ in 0..6 {
            (sums.ended, sums.used) = (sums.ended / 2.0, sums.used / 2.0);
            width.told(sums.ended, sums.used, 4);
            assert_eq!(width.launches_max(), 4);
        }
        sums.window(&mut width, 0, 4);
        assert_eq!(width.launches_max(), 2, "and then it goes on as before");
    }

    #[test]
    fn an_operator_who_wants_none_gets_none() {
        let (mut width, mut sums) = (Width::new(0), Sums::default());
        for _ in 0..3 {
            sums.window(&mut width, 16, 0);
            assert_eq!(width.launches_max(), 0);
        }
    }

    /// Must show 4 of issue 7: unpredictable traffic turns a kind off after a few launches, for any claimed
    /// probability, and only that kind.
    #[test]
    fn wasted_launches_turn_their_kind_off() {
        let idle = Prices::of(50.0, 0.0);
        for p in [0.3, 0.5, 1.0] {
            let mut calibration = Calibration::default();
            let pays = |calibration: &Calibration, kind| idle.pays(calibration.effective(kind, p));
            let mut launches = 0;
            while pays(&calibration, CandidateKind::Exact) {
                calibration.launched(CandidateKind::Exact, p);
                launches += 1;
                assert!(launches <= 7, "{p}: {launches} launches and still on");
            }
            assert!(pays(&calibration, CandidateKind::Template), "another kind's is another's");
        }
    }

    fn run(calibration: &mut Calibration, launches: u32, p: f64, is_used: bool) {
        for _ in 0..launches {
            calibration.launched(CandidateKind::Exact, p);
            if is_used {
                calibration.used(CandidateKind::Exact, p);
            }
        }
    }

    /// A kind that was off and has become right is on again after trials.
    #[test]
    fn a_kind_recovers() {
        let mut calibration = Calibration::default();
        run(&mut calibration, 1_000, 0.9, false);
        assert!(calibration.factor(CandidateKind::Exact) < 0.05);
        run(&mut calibration, 20, 0.9, true);
        assert!(calibration.effective(CandidateKind::Exact, 0.9) > 0.25);
    }

    /// Slow start: with each round of uses more launches may wait for theirs; in the end the right share is reached.
    #[test]
    fn launches_that_wait_to_be_used_hold_back_the_next() {
        let mut calibration = Calibration::default();
        let kind = CandidateKind::Template;
        let mut rounds = Vec::new();
        for _ in 0..5 {
            let mut launches = 0;
            while launches < 200 && calibration.effective(kind, 0.5) > 0.25 {
                calibration.launched(kind, 0.5);
                launches += 1;
            }
            rounds.push(launches);
            // Three of five are used: a little more than predicted.
            (0..launches * 3 / 5).for_each(|_| calibration.used(kind, 0.5));
        }
        assert_eq!(rounds[0], 5, "{rounds:?}");
        assert!(
            rounds[1..].iter().all(|launches| *launches > rounds[0]) && rounds[4] >= 3 * rounds[0],
            "{rounds:?}"
        );
        assert!(calibration.factor(kind) > 0.9, "{rounds:?}");
    }

    #[test]
    fn one_request_of_many_has_a_trial() {
        let mut trials = Trials::default();
        let tried: Vec<u32> = (1..=3 * PREFETCH_TRIAL_EVERY).filter(|_| trials.is_tried()).collect();
        assert_eq!(tried, [1, 2, 3].map(|times| times * PREFETCH_TRIAL_EVERY));
    }

    proptest! {
        /// It lowers and never raises, for any reports.
        #[test]
        fn a_factor_is_between_nothing_and_one(told in prop::collection::vec((any::<f64>(), any::<bool>()), 0..300)) {
            let mut calibration = Calibration::default();
            for (p, is_use) in told {
                let tell = if is_use { Calibration::used } else { Calibration::launched };
                tell(&mut calibration, CandidateKind::Overlap, p);
                let factor = calibration.factor(CandidateKind::Overlap);
                prop_assert!(factor > 0.0 && factor <= 1.0, "{}", factor);
            }
        }
    }
}
