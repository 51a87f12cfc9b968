//! One key with random requests: when a plan first refreshes it.
//!
//! Hits come as a Poisson process. A hit at `left` fires with probability p(left), and p falls with `left`. Walking
//! through every hit takes 40,000 steps for a hot key, so whole bands of time are skipped. Within a band no hit fires
//! with more than p(its end) = m. So hits that could fire come with rate λ·m, and one of them fires if `fires` accepts
//! a draw from [0, m). That is exact (thinning; Lewis and Shedler, 1979) and uses the plan's own `fires`, not a formula
//! for its result.

use hopcache_core::refresh::Plan;

use super::dice::Dice;

/// Rounds of a simulation.
pub(crate) fn cycles() -> u32 {
    std::env::var("HOPCACHE_TEST_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

/// The rest of the TTL when the key is refreshed, in ms; negative if that happened by a hit after expiry. The entry is
/// watched from `from_ms` left on.
pub(crate) fn first_lead_ms(plan: &Plan, rate_per_s: f64, from_ms: f64, dice: &mut Dice) -> f64 {
    let per_ms = rate_per_s / 1_000.0;
    let mut high = plan.window_ms().min(from_ms);
    let band = plan.scale_ms.max(high / 40.0);
    while high > 0.0 {
        let low = (high - band).max(0.0);
        let most = plan.probability(low, 1);
        let mut left = high;
        loop {
            left -= dice.exponential() / (per_ms * most);
            if left <= low {
                break;
            }
            if plan.fires(left, 1, dice.unit() * most) {
                return left;
            }
        }
        high = low;
    }
    // Nothing fired before expiry: the first hit after it does.
    let after = high.min(from_ms) - dice.exponential() / per_ms;
    assert!(plan.fires(after, 1, dice.unit()), "a hit on an expired entry refreshes");
    after
}

/// The same, hit by hit.
pub(crate) fn first_lead_hit_by_hit_ms(plan: &Plan, rate_per_s: f64, from_ms: f64, dice: &mut Dice) -> f64 {
    let mut left = from_ms;
    loop {
        left -= dice.exponential() * 1_000.0 / rate_per_s;
        if plan.fires(left, 1, dice.unit()) {
            return left;
        }
    }
}

/// Mean and its standard error.
#[derive(Default, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) count: f64,
    sum: f64,
    squares: f64,
}

impl Sample {
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    pub(crate) fn mean(&self) -> f64 {
        self.sum / self.count
    }

    pub(crate) fn error(&self) -> f64 {
        let mean = self.mean();
        ((self.squares / self.count - mean * mean).max(0.0) / self.count).sqrt()
    }
}

/// How many standard errors a simulation may be off: by chance once in 150,000 comparisons, and seeds are fixed.
pub(crate) const ERRORS: f64 = 4.5;

/// How far the share of `count` trials that each succeed with `p` may be from `p`, by Bernstein's inequality: 4.5
/// standard errors, and a term that matters if successes are few.
pub(crate) fn share_error(p: f64, count: f64) -> f64 {
    ERRORS * (p * (1.0 - p) / count).sqrt() + ERRORS * ERRORS / (6.0 * count)
}
