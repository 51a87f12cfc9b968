//! How fast an answer changes, learned from what its runs bring, and the TTL that follows for a wanted share of stale
//! answers.
//!
//! **What is seen.** Two runs of a key show only whether its answer has changed between them, not how often. For changes
//! at a constant rate λ (a Poisson process), an interval τ with a change held λτ ÷ (1 − e^(−λτ)) changes in the mean, and
//! one without held none. The rate is the sum of these means by the sum of the intervals, with the rate believed so far in
//! the place of λ: that is expectation maximisation, whose fixed point is the maximum likelihood estimate for irregular
//! intervals of Cho and Garcia-Molina, "Estimating Frequency of Change", ACM TOIT 3(3):256-290, 2003, doi
//! 10.1145/857166.857170, section 5.
//!
//! **What is believed before.** Changes per time have a Gamma prior. A pattern begins as if it had changed
//! [`CHANGES_PRIOR_PATTERN`] times at the rate for which the operator's TTL is right; a key begins as if it had changed
//! [`CHANGES_PRIOR_KEY`] times at its pattern's rate. So a pattern whose answers never change lets its keys live longer
//! soon, and one key that changes often ends that for itself only.
//!
//! **The TTL.** Over a life T, requests at even times find an answer from before a change with probability
//! 1 − (1 − e^(−λT)) ÷ (λT). The TTL is the T for which that is the wanted share, within
//! [`TTL_LEARNED_FACTOR_MIN`] and [`TTL_LEARNED_FACTOR_MAX`] times the operator's.
//!
//! It reads no clock, and compares no answers: the caller says how much time lay between two runs, and what they showed.

use crate::limits::{
    CHANGE_INTERVALS_KEY, CHANGE_INTERVALS_PATTERN, CHANGES_PRIOR_KEY, CHANGES_PRIOR_PATTERN,
    STALE_TARGET_MAX, TTL_LEARNED_FACTOR_MAX, TTL_LEARNED_FACTOR_MIN,
};
use crate::time::Millis;

#[cfg(test)]
mod tests;

/// The intervals between runs of a key, or of all keys of a pattern: the changes that they held, and their length. Old
/// intervals weigh less.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ChangeHistory {
    changes: f32,
    watched_s: f32,
}

/// The time between two runs of a key, and what they showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// From the start of one read to the start of the next.
    pub length_ms: Millis,
    /// Whether the two answers differ.
    pub has_changed: bool,
}

/// Chooses TTLs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TtlRule {
    /// λT at which the share of stale answers is the wanted one.
    changes_per_life: f64,
    ttl_ms: Millis,
}

impl TtlRule {
    /// For a share of answers that may be from before a change, and the TTL of an answer of which nothing is known. `None`
    /// if the share is not above 0 or there is no TTL: TTLs are fixed then.
    #[must_use]
    pub fn new(stale_target: f64, ttl_ms: Millis) -> Option<Self> {
        let is_wanted = stale_target > 0.0 && ttl_ms > Millis::ZERO;
        is_wanted
            .then(|| Self { changes_per_life: changes_per_life(stale_target.min(STALE_TARGET_MAX)), ttl_ms })
    }

    /// The longest TTL that it ever chooses.
    #[must_use]
    pub fn ttl_ms_max(&self) -> Millis {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a saturating cast")]
        let ttl_ms = (float(self.ttl_ms) * TTL_LEARNED_FACTOR_MAX) as u64;
        Millis(ttl_ms)
    }

    /// The TTL of a key with these histories.
    #[must_use]
    pub fn ttl_ms(&self, key: &ChangeHistory, pattern: &ChangeHistory) -> Millis {
        let ttl_ms = self.changes_per_life / self.rate_per_s(key, pattern) * 1_000.0;
        let by = |factor: f64| float(self.ttl_ms) * factor;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds")]
        let ttl_ms = ttl_ms.clamp(by(TTL_LEARNED_FACTOR_MIN), by(TTL_LEARNED_FACTOR_MAX)) as u64;
        Millis(ttl_ms.max(1))
    }

    /// Adds an interval to both histories.
    pub fn observe(&self, key: &mut ChangeHistory, pattern: &mut ChangeHistory, interval: Interval) {
        let rate_per_s = self.rate_per_s(key, pattern);
        key.add(interval, rate_per_s, CHANGE_INTERVALS_KEY);
        pattern.add(interval, rate_per_s, CHANGE_INTERVALS_PATTERN);
    }

    /// Changes per second of a key. Never zero.
    fn rate_per_s(&self, key: &ChangeHistory, pattern: &ChangeHistory) -> f64 {
        let unknown = self.changes_per_life / (float(self.ttl_ms) / 1_000.0);
        let of_pattern = pattern.rate_per_s(CHANGES_PRIOR_PATTERN, unknown);
        key.rate_per_s(CHANGES_PRIOR_KEY, of_pattern)
    }
}

impl ChangeHistory {
    /// The mean of the Gamma posterior whose prior is `changes` at `rate_per_s`.
    fn rate_per_s(&self, changes: f64, rate_per_s: f64) -> f64 {
        (changes + f64::from(self.changes)) / (changes / rate_per_s + f64::from(self.watched_s))
    }

    fn add(&mut self, interval: Interval, rate_per_s: f64, intervals: f64) {
        let length_s = float(interval.length_ms) / 1_000.0;
        let expected = rate_per_s * length_s;
        let changes = match interval.has_changed {
            false => 0.0,
            // The limit for short intervals: one change.
            true if expected < 1e-6 => 1.0,
            true => expected / -(-expected).exp_m1(),
        };
        let kept = 1.0 - 1.0 / intervals;
        let sum = |before: f32, more: f64| f64::from(before).mul_add(kept, more).min(f64::from(f32::MAX));
        #[expect(clippy::cast_possible_truncation, reason = "an estimate, and not above the largest f32")]
        {
            self.changes = sum(self.changes, changes) as f32;
            self.watched_s = sum(self.watched_s, length_s) as f32;
        }
    }
}

/// The x at which S(x) = 1 − (1 − e^(−x)) ÷ x is `share`. S grows with x. It is below x ÷ 2, so x is above twice the share; and
/// S(1 ÷ (1 − share)) is above the share, so x is below that.
fn changes_per_life(share: f64) -> f64 {
    let (mut low, mut high) = (2.0 * share, 1.0 / (1.0 - share));
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if 1.0 + (-middle).exp_m1() / middle < share { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ms")]
const fn float(span: Millis) -> f64 {
    span.0 as f64
}
