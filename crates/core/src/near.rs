//! Near copies: for how long a node may answer for a hot key that another node owns (DESIGN section 3, step 4).
//!
//! No hash spreads one hot key (THEORY "Ring"), so its owner lets forwarding nodes answer for a moment by themselves.
//! The owner decides, from numbers alone: this reads no clock and keeps nothing.

use crate::limits::{NEAR_BYTES_MAX, NEAR_MS_MAX, NEAR_MS_MIN};
use crate::refresh::Plan;
use crate::time::Millis;

/// The owner's facts of a fresh, stored entry when it answers a forwarded request for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NearFacts {
    /// Requests per second in the whole cluster, if known.
    pub rate_per_s: Option<f64>,
    /// The rest of its soft life.
    pub left_ms: Millis,
    /// The plan of its early refresh; the default if it has none.
    pub plan: Plan,
    /// Length of the rendered answer.
    pub body_bytes: usize,
}

/// Accepted number of refreshes that would have begun if near copies had not kept their hits from the owner's draw.
const REFRESHES_MISSED_MAX: f64 = 0.01;

/// For how long the asking node may answer by itself, from when it asked; zero for not at all.
///
/// Never past the soft life. It ends before hits decide the early refresh, because from then on the owner must see
/// every hit as it comes. A key at or above `rate_per_s_min` is hot.
#[must_use]
pub fn near_ms(facts: &NearFacts, rate_per_s_min: f64) -> Millis {
    // A NaN rate is not hot.
    let is_hot = |rate_per_s: &f64| *rate_per_s >= rate_per_s_min;
    let Some(rate_per_s) = facts.rate_per_s.filter(is_hot) else { return Millis::ZERO };
    if facts.body_bytes > NEAR_BYTES_MAX {
        return Millis::ZERO;
    }
    let life_ms = facts.left_ms.saturating_sub(deciding_ms(&facts.plan, rate_per_s)).0.min(NEAR_MS_MAX);
    Millis(if life_ms < NEAR_MS_MIN { 0 } else { life_ms })
}

/// How long before the end of the soft life hits begin to decide an early refresh.
///
/// One hit with x ms left refreshes with probability e^(−x/s). With λ hits per ms, an expected λ·s·e^(−L/s) of them do
/// so with more than L left; that is a hundredth at L = s·ln(100·λ·s). [`Plan::window_ms`], 37·s, is the span in which
/// any draw can succeed. It bounds this value and is several times as long (λ = 1 per ms, s = 100 ms: 0.9 s and 3.7 s),
/// so with it a hot key would lose near copies for nothing.
fn deciding_ms(plan: &Plan, rate_per_s: f64) -> Millis {
    let refreshes = rate_per_s / 1_000.0 * plan.scale_ms;
    let drawn_ms = plan.scale_ms * (refreshes / REFRESHES_MISSED_MAX).ln().max(0.0);
    // A plan with invalid numbers has no beginning: it is always deciding.
    let window_ms = plan.window_ms();
    let deciding_ms = if drawn_ms.is_finite() && window_ms.is_finite() {
        drawn_ms.min(window_ms).max(plan.ahead_ms)
    } else {
        f64::INFINITY
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative where it is not zero, and the cast saturates"
    )]
    Millis(deciding_ms.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hot() -> NearFacts {
        NearFacts {
            rate_per_s: Some(1_000.0),
            left_ms: Millis(60_000),
            plan: Plan { scale_ms: 100.0, ..Plan::default() },
            body_bytes: 1_000,
        }
    }

    fn life(facts: NearFacts) -> u64 {
        near_ms(&facts, 20.0).0
    }

    #[test]
    fn only_hot_keys_have_near_copies() {
        assert_eq!(life(hot()), NEAR_MS_MAX);
        assert_eq!(life(NearFacts { rate_per_s: Some(20.0), ..hot() }), NEAR_MS_MAX);
        for rate_per_s in [Some(19.9), Some(0.0), Some(-1.0), Some(f64::NAN), None] {
            assert_eq!(life(NearFacts { rate_per_s, ..hot() }), 0, "{rate_per_s:?}");
        }
        assert_eq!(near_ms(&hot(), f64::INFINITY), Millis::ZERO, "which turns them off");
        assert_eq!(near_ms(&hot(), f64::NAN), Millis::ZERO);
    }

    #[test]
    fn large_answers_have_none() {
        assert_eq!(life(NearFacts { body_bytes: NEAR_BYTES_MAX, ..hot() }), NEAR_MS_MAX);
        assert_eq!(life(NearFacts { body_bytes: NEAR_BYTES_MAX + 1, ..hot() }), 0);
    }

    /// 100·ln(1 · 100 / 0.01) = 921.03 ms at 1,000 requests per second.
    #[test]
    fn they_end_before_a_refresh_is_decided() {
        let left = |left_ms| life(NearFacts { left_ms: Millis(left_ms), ..hot() });
        assert_eq!(left(922 + 1_500), NEAR_MS_MAX);
        assert_eq!(left(922 + 400), 400);
        assert_eq!(left(922 + NEAR_MS_MIN), NEAR_MS_MIN);
        assert_eq!(left(922 + NEAR_MS_MIN - 1), 0);
        assert_eq!(left(922), 0);
        assert_eq!(left(0), 0);
        let ahead = Plan { ahead_ms: 5_000.0, ..hot().plan };
        assert_eq!(life(NearFacts { plan: ahead, left_ms: Millis(5_300), ..hot() }), 300);
        let none = NearFacts { plan: Plan::default(), ..hot() };
        assert_eq!(
            life(NearFacts { left_ms: Millis(300), ..none }),
            300,
            "no early refresh: the entry's end"
        );
    }

    /// F41: for any plan, a near copy ends with the entry.
    #[test]
    fn bad_numbers_give_none_and_nothing_outlives_its_entry() {
        let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, f64::MIN_POSITIVE, f64::MAX];
        for scale_ms in bad {
            for ahead_ms in bad {
                for rate_per_s in bad {
                    for left_ms in [0, 1, 49, 50, 999, 1_000, 1_001, u64::MAX] {
                        let facts = NearFacts {
                            rate_per_s: Some(rate_per_s),
                            left_ms: Millis(left_ms),
                            plan: Plan { scale_ms, ahead_ms, ..Plan::default() },
                            body_bytes: 1,
                        };
                        let life_ms = life(facts);
                        assert!(life_ms <= left_ms.min(NEAR_MS_MAX), "{facts:?}: {life_ms}");
                    }
                }
            }
        }
        let plan = Plan { scale_ms: f64::NAN, ..Plan::default() };
        assert_eq!(life(NearFacts { plan, ..hot() }), 0);
    }

    /// The chance left to near copies, counted: hits at 2,000 a second before the deciding span would have begun a
    /// hundredth of a refresh.
    #[test]
    fn hardly_any_refresh_is_missed() {
        for (rate_per_s, scale_ms) in [(50.0, 800.0), (2_000.0, 50.0), (10_000.0, 300.0)] {
            let plan = Plan { scale_ms, ..Plan::default() };
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            let from_ms = deciding_ms(&plan, rate_per_s).0 as f64;
            let between_ms = 1_000.0 / rate_per_s;
            let hits = (0..2_000_000).map(|hit| from_ms + f64::from(hit) * between_ms);
            let missed: f64 = hits.map(|left_ms| plan.probability(left_ms, 1)).sum();
            let bound = REFRESHES_MISSED_MAX * 1.02;
            assert!(missed <= bound, "{rate_per_s} a second, {scale_ms} ms: {missed}");
        }
    }
}
