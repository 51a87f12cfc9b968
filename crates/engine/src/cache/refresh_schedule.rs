//! A copy's state of its own refreshes, so that a hit outside the refresh window costs one comparison and no lock; and of its
//! handover to another node. It decides nothing.
//!
//! Concurrent hits may race here without harm. A hit that reads an older value makes the plan once more, or finds the
//! refresh's seat taken.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hopcache_core::limits::REFRESH_PLANS_MAX;
use hopcache_core::refresh::{Cost, CostHistory, Plan};
use hopcache_core::time::Millis;

use crate::cache::packed_duration::PackedDuration;

/// When to look, and the plan. A soft TTL over 49 days counts as 49 days: then a hit decides more often than it must. Times are spans
/// from the start of the copy's read, [`PackedDuration::down`].
#[derive(Debug)]
pub(crate) struct RefreshSchedule {
    /// A fresh hit with more of the soft TTL left than this decides nothing.
    look_ms: AtomicU32,
    /// With this much left or less, the plan is made anew: the rate has changed meanwhile.
    replan_ms: AtomicU32,
    /// Scale and refresh-ahead of the plan, as the bits of two `f32`: read as one. Before the first plan: the key's cost, for the
    /// first plan ([`RefreshSchedule::set_first_cost`]); zero if it is not known.
    plan: AtomicU64,
    /// No refresh begins before.
    refresh_after: AtomicU32,
    /// When another node became owner of its key, and this copy was left for that node to fetch, and 1 more; zero if none did.
    left: AtomicU32,
}

/// The sign of a mean: a plan has none, so it says that the word is a first cost.
const IS_FIRST_COST: u64 = 1 << 63;
/// The last bits of a tail are the number of runs. It is good for six digits without them.
const RUNS: u64 = 7;

impl Default for RefreshSchedule {
    fn default() -> Self {
        Self {
            // The first hit decides whether the copy gets a plan.
            look_ms: AtomicU32::new(u32::MAX),
            replan_ms: AtomicU32::new(u32::MAX),
            plan: AtomicU64::new(0),
            refresh_after: AtomicU32::new(0),
            left: AtomicU32::new(0),
        }
    }
}

impl RefreshSchedule {
    /// Whether a fresh hit with `left` of the soft TTL has something to decide.
    pub(crate) fn looks_at(&self, left: Millis) -> bool {
        short(left.0) <= self.look_ms.load(Ordering::Relaxed)
    }

    /// Notes the cost of the key's runs, and how many of them it stands for, up to seven. Only for a copy that nobody else has yet.
    pub(crate) fn set_first_cost(&self, history: &CostHistory) {
        let Some(cost) = history.cost() else { return };
        let runs = u64::from(history.runs()).min(RUNS);
        let bits = two_halves(cost.mean_ms, cost.tail_ms) & !RUNS | runs | IS_FIRST_COST;
        self.plan.store(bits, Ordering::Relaxed);
    }

    /// That cost, until there is a plan: the word is one or the other.
    pub(crate) fn first_cost(&self) -> Option<CostHistory> {
        let bits = self.plan.load(Ordering::Relaxed);
        let ([mean_ms, tail_ms], runs) = (halves(bits & !IS_FIRST_COST & !RUNS), bits & RUNS);
        let history = || CostHistory::of_runs(Cost { mean_ms, tail_ms }, u8::try_from(runs).unwrap_or(1));
        (bits & IS_FIRST_COST != 0).then(history)
    }

    /// Switches off early refreshes of this copy.
    pub(crate) fn never_early(&self) {
        self.look_ms.store(0, Ordering::Relaxed);
    }

    /// The plan in force; `None` if it is due to be made anew.
    pub(crate) fn plan(&self, left: Millis) -> Option<Plan> {
        // Acquire: with the time comes the plan.
        if short(left.0) <= self.replan_ms.load(Ordering::Acquire) {
            return None;
        }
        let bits = self.plan.load(Ordering::Relaxed);
        let [scale_ms, ahead_ms] = halves(bits);
        // The plan's inputs are for `explain`, which makes its own plan.
        #[allow(clippy::needless_update, reason = "a plan may know more than what it decides by")]
        Some(Plan { scale_ms, ahead_ms, ..Plan::default() })
    }

    /// Keeps a plan made with so much left of `ttl_ms`.
    pub(crate) fn keep(&self, plan: &Plan, left: Millis, ttl_ms: Millis) {
        self.plan.store(two_halves(plan.scale_ms, plan.ahead_ms) & !IS_FIRST_COST, Ordering::Relaxed);
        let replan_ms = left.0.saturating_sub((ttl_ms.0 / REFRESH_PLANS_MAX).max(1));
        self.replan_ms.store(short(replan_ms), Ordering::Release);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
        let window_ms = plan.window_ms().ceil() as u64;
        self.look_ms.store(short(window_ms.max(replan_ms)), Ordering::Relaxed);
    }

    /// Whether a refresh may begin so long after the copy's read.
    pub(crate) fn is_due(&self, after: Millis) -> bool {
        PackedDuration::down(after).0 >= self.refresh_after.load(Ordering::Relaxed)
    }

    /// Allows no refresh before `after`. Then there will be `left` of the soft TTL.
    pub(crate) fn put_off(&self, after: Millis, left: Millis) {
        self.refresh_after.store(PackedDuration::up(after).0, Ordering::Relaxed);
        self.look_ms.store(short(left.0), Ordering::Relaxed);
    }

    /// Marks that another node owns the copy's key, so long after its read. Returns whether this is new.
    pub(crate) fn leave(&self, after: Millis) -> bool {
        let marked = PackedDuration::down(after).0.saturating_add(1);
        self.left.compare_exchange(0, marked, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// When another node became the owner of its key, if one did.
    pub(crate) fn left(&self) -> Option<Millis> {
        self.left.load(Ordering::Relaxed).checked_sub(1).map(|steps| PackedDuration(steps).span())
    }
}

/// Two numbers in one word.
fn two_halves(one: f64, other: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "a millionth is no matter")]
    let (one, other) = (one as f32, other as f32);
    u64::from(one.to_bits()) << 32 | u64::from(other.to_bits())
}

fn halves(bits: u64) -> [f64; 2] {
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    let halves = [(bits >> 32) as u32, bits as u32];
    halves.map(|half| f32::from_bits(half).into())
}

fn short(ms: u64) -> u32 {
    u32::try_from(ms).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use hopcache_core::limits::ENTRY_LIFE_MS_MAX;

    use super::*;
    use crate::cache::packed_duration::{EXACT_MS, STEP_MS};

    #[allow(clippy::needless_update, reason = "a plan may know more than what it decides by")]
    fn plan(scale_ms: f64, ahead_ms: f64) -> Plan {
        Plan { scale_ms, ahead_ms, ..Plan::default() }
    }

    /// A plan is made at most about 32 times in a copy's life, however many hits there are.
    #[test]
    fn a_copys_plan_is_made_seldom() {
        let (ttl_ms, schedule) = (Millis(60_000), RefreshSchedule::default());
        let plan = plan(50.0, 0.0);
        let mut plans = 0;
        let mut looks = 0;
        for left in (1..=ttl_ms.0).rev().map(Millis) {
            if !schedule.looks_at(left) {
                continue;
            }
            looks += 1;
            if schedule.plan(left).is_none() {
                plans += 1;
                schedule.keep(&plan, left, ttl_ms);
            }
        }
        assert!((30..=33).contains(&plans), "{plans} plans");
        let window_ms = 37 * 50;
        assert!((window_ms..window_ms + 40).contains(&looks), "{looks} looks, {window_ms} in the window");
    }

    #[test]
    fn a_plan_is_kept_as_it_was() {
        let schedule = RefreshSchedule::default();
        schedule.keep(&plan(12.5, 750.0), Millis(50_000), Millis(60_000));
        assert_eq!(schedule.plan(Millis(49_000)), Some(plan(12.5, 750.0)));
        assert_eq!(schedule.plan(Millis(40_000)), None, "made anew");
    }

    #[test]
    fn a_copy_put_off_is_looked_at_again_when_that_is_over() {
        let schedule = RefreshSchedule::default();
        schedule.put_off(Millis(50_000), Millis(10_000));
        assert!(!schedule.looks_at(Millis(10_001)) && schedule.looks_at(Millis(10_000)));
        assert!(!schedule.is_due(Millis(49_999)) && schedule.is_due(Millis(50_000)));
        schedule.put_off(Millis(70_000), Millis(0));
        assert!(!schedule.looks_at(Millis(1)), "not while it is fresh");
    }

    #[test]
    fn the_first_cost_is_there_until_the_first_plan() {
        let schedule = RefreshSchedule::default();
        assert_eq!(schedule.first_cost(), None);
        let mut cost = CostHistory::default();
        cost.observe(Millis(10_000));
        schedule.set_first_cost(&cost);
        assert_eq!((schedule.first_cost(), schedule.plan(Millis(50_000))), (Some(cost), None));
        schedule.keep(&plan(12.5, 750.0), Millis(50_000), Millis(60_000));
        assert_eq!(schedule.first_cost(), None);
    }

    /// A pattern's history counts as four runs, and the key's own run as one.
    #[test]
    fn the_first_cost_weighs_as_many_runs_as_it_had() {
        let mut cost = CostHistory::of_cost(Cost { mean_ms: 400.0, tail_ms: 900.0 });
        cost.observe(Millis(50));
        let schedule = RefreshSchedule::default();
        schedule.set_first_cost(&cost);
        let mut kept = schedule.first_cost().unwrap();
        assert_eq!(kept.runs(), 5);
        for history in [&mut cost, &mut kept] {
            history.observe(Millis(50));
        }
        let [own, kept] = [cost, kept].map(|history| history.cost().unwrap());
        assert!((own.mean_ms - kept.mean_ms).abs() < 1e-3, "{own:?}, {kept:?}");
        assert!((0.5..2.0).contains(&(own.tail_ms / kept.tail_ms)), "{own:?}, {kept:?}");
    }

    /// An entry may live for ten years.
    #[test]
    fn a_copy_of_years_is_put_off_and_left_as_a_young_one_is() {
        for ms in [0, EXACT_MS - 1, EXACT_MS, 1 << 32, (1 << 33) + 77, ENTRY_LIFE_MS_MAX] {
            let (schedule, now) = (RefreshSchedule::default(), Millis(ms));
            schedule.put_off(Millis(ms + 1_000), Millis(0));
            assert!(!schedule.is_due(now) && !schedule.is_due(Millis(ms + 999)), "put off at {ms}");
            assert!(schedule.is_due(Millis(ms + 1_000 + STEP_MS)));
            assert!(schedule.leave(now));
            let left = schedule.left().unwrap();
            assert!(left <= now && left.0 + STEP_MS > ms, "left at {ms}, not at {left:?}");
        }
    }

    #[test]
    fn a_copy_is_left_once() {
        let schedule = RefreshSchedule::default();
        assert_eq!(schedule.left(), None);
        assert!(schedule.leave(Millis(0)) && !schedule.leave(Millis(7)));
        assert_eq!(schedule.left(), Some(Millis(0)));
    }
}
