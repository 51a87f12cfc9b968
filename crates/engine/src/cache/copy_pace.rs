//! A copy's state of its own refreshes, so that a hit outside the refresh window costs one comparison and no lock. It
//! decides nothing.
//!
//! Concurrent hits may race here without harm. A hit that reads an older value makes the plan once more, or finds the
//! refresh's seat taken.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hopcache_core::limits::REFRESH_PLANS_MAX;
use hopcache_core::refresh::Plan;
use hopcache_core::time::{Millis, MonoTime};

/// When to look, and the plan. A span over 49 days counts as 49 days: then a hit decides more often than it must.
#[derive(Debug)]
pub(crate) struct CopyPace {
    /// A fresh hit with more of the soft TTL left than this decides nothing.
    look_ms: AtomicU32,
    /// With this much left or less, the plan is made anew: the rate has changed meanwhile.
    replan_ms: AtomicU32,
    /// Scale and refresh-ahead of the plan, as the bits of two `f32`: read as one.
    plan: AtomicU64,
    /// In microseconds of the node's clock. No refresh begins before.
    refresh_after: AtomicU64,
}

impl Default for CopyPace {
    fn default() -> Self {
        Self {
            // The first hit decides whether the copy gets a plan.
            look_ms: AtomicU32::new(u32::MAX),
            replan_ms: AtomicU32::new(u32::MAX),
            plan: AtomicU64::new(0),
            refresh_after: AtomicU64::new(0),
        }
    }
}

impl CopyPace {
    /// Whether a fresh hit with `left` of the soft TTL has something to decide.
    pub(crate) fn looks_at(&self, left: Millis) -> bool {
        short(left.0) <= self.look_ms.load(Ordering::Relaxed)
    }

    /// Switches off early refreshes of this copy.
    pub(crate) fn never_early(&self) {
        self.look_ms.store(0, Ordering::Relaxed);
    }

    /// The plan in force; `None` if it is due to be made anew.
    pub(crate) fn plan(&self, left: Millis) -> Option<Plan> {
        if short(left.0) <= self.replan_ms.load(Ordering::Relaxed) {
            return None;
        }
        let bits = self.plan.load(Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let ahead_ms = f32::from_bits(bits as u32);
        let scale_ms = f64::from(f32::from_bits((bits >> 32) as u32));
        // The plan's inputs are for `explain`, which makes its own plan.
        #[allow(clippy::needless_update, reason = "a plan may know more than what it decides by")]
        Some(Plan { scale_ms, ahead_ms: f64::from(ahead_ms), ..Plan::default() })
    }

    /// Keeps a plan made with so much left of `ttl_ms`.
    pub(crate) fn keep(&self, plan: &Plan, left: Millis, ttl_ms: Millis) {
        #[expect(clippy::cast_possible_truncation, reason = "a millionth is no matter")]
        let (scale, ahead) = (plan.scale_ms as f32, plan.ahead_ms as f32);
        self.plan.store(u64::from(scale.to_bits()) << 32 | u64::from(ahead.to_bits()), Ordering::Relaxed);
        let replan_ms = left.0.saturating_sub((ttl_ms.0 / REFRESH_PLANS_MAX).max(1));
        self.replan_ms.store(short(replan_ms), Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
        let window_ms = plan.window_ms().ceil() as u64;
        self.look_ms.store(short(window_ms.max(replan_ms)), Ordering::Relaxed);
    }

    /// Whether a refresh may begin.
    pub(crate) fn is_due(&self, now: MonoTime) -> bool {
        now.0 >= self.refresh_after.load(Ordering::Relaxed)
    }

    /// Allows no refresh before `until`. `fresh_until` is the copy's.
    pub(crate) fn put_off(&self, until: MonoTime, fresh_until: MonoTime) {
        self.refresh_after.store(until.0, Ordering::Relaxed);
        self.look_ms.store(short(fresh_until.since(until).0), Ordering::Relaxed);
    }
}

fn short(ms: u64) -> u32 {
    u32::try_from(ms).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::needless_update, reason = "a plan may know more than what it decides by")]
    fn plan(scale_ms: f64, ahead_ms: f64) -> Plan {
        Plan { scale_ms, ahead_ms, ..Plan::default() }
    }

    /// A plan is made at most about 32 times in a copy's life, however many hits there are.
    #[test]
    fn a_copys_plan_is_made_seldom() {
        let (ttl_ms, pace) = (Millis(60_000), CopyPace::default());
        let plan = plan(50.0, 0.0);
        let mut plans = 0;
        let mut looks = 0;
        for left in (1..=ttl_ms.0).rev().map(Millis) {
            if !pace.looks_at(left) {
                continue;
            }
            looks += 1;
            if pace.plan(left).is_none() {
                plans += 1;
                pace.keep(&plan, left, ttl_ms);
            }
        }
        assert!((30..=33).contains(&plans), "{plans} plans");
        let window_ms = 37 * 50;
        assert!((window_ms..window_ms + 40).contains(&looks), "{looks} looks, {window_ms} in the window");
    }

    #[test]
    fn a_plan_is_kept_as_it_was() {
        let pace = CopyPace::default();
        pace.keep(&plan(12.5, 750.0), Millis(50_000), Millis(60_000));
        assert_eq!(pace.plan(Millis(49_000)), Some(plan(12.5, 750.0)));
        assert_eq!(pace.plan(Millis(40_000)), None, "made anew");
    }

    #[test]
    fn a_copy_put_off_is_looked_at_again_when_that_is_over() {
        let (pace, fresh_until) = (CopyPace::default(), MonoTime(60_000_000));
        pace.put_off(MonoTime(50_000_000), fresh_until);
        assert!(!pace.looks_at(Millis(10_001)) && pace.looks_at(Millis(10_000)));
        assert!(!pace.is_due(MonoTime(49_999_999)) && pace.is_due(MonoTime(50_000_000)));
        pace.put_off(MonoTime(70_000_000), fresh_until);
        assert!(!pace.looks_at(Millis(1)), "not while it is fresh");
    }
}
