//! Estimates against processes whose rate is known.

use proptest::prelude::*;

use super::*;

const TTL_MS: Millis = Millis(60_000);

fn rule(stale_target: f64) -> TtlRule {
    TtlRule::new(stale_target, TTL_MS).unwrap()
}

/// Intervals of `length_ms`, of which the first `changed` of each hundred hold a change, in an even mix.
fn watched(rule: &TtlRule, length_ms: u64, changed: u64, intervals: u64) -> (ChangeHistory, ChangeHistory) {
    let (mut key, mut pattern) = (ChangeHistory::default(), ChangeHistory::default());
    for number in 0..intervals {
        let has_changed = (number * changed) % 100 < changed;
        rule.observe(&mut key, &mut pattern, Interval { length_ms: Millis(length_ms), has_changed });
    }
    (key, pattern)
}

#[test]
fn without_a_target_or_a_ttl_nothing_is_learned() {
    assert_eq!(TtlRule::new(0.0, TTL_MS), None);
    assert_eq!(TtlRule::new(-1.0, TTL_MS), None);
    assert_eq!(TtlRule::new(f64::NAN, TTL_MS), None);
    assert_eq!(TtlRule::new(0.1, Millis::ZERO), None);
}

#[test]
fn the_first_ttl_is_the_operators() {
    for target in [0.001, 0.05, 0.5, 7.0] {
        let first = rule(target).ttl_ms(&ChangeHistory::default(), &ChangeHistory::default());
        assert!(first.0.abs_diff(TTL_MS.0) <= 1, "{target}: {first:?}");
    }
}

/// 1 − (1 − e^(−x)) ÷ x, at the x that belongs to a share.
#[test]
fn the_life_of_a_share_is_its_inverse() {
    for share in [0.001, 0.01, 0.05, 0.1, 0.3, 0.5] {
        let x = changes_per_life(share);
        let again = 1.0 + (-x).exp_m1() / x;
        assert!((again - share).abs() < 1e-9, "{share}: x {x}, {again}");
    }
}

/// Of even intervals τ of which a share p holds a change, the maximum likelihood estimate is −ln(1 − p) ÷ τ (Cho and
/// Garcia-Molina 2003, section 4), and not p ÷ τ: two changes in one interval show as one.
#[test]
fn several_changes_in_one_interval_are_counted() {
    let rule = rule(0.05);
    for changed in [10, 50, 80] {
        let (key, pattern) = watched(&rule, 60_000, changed, 2_000);
        let (found, share) = (rule.rate_per_s(&key, &pattern), changed as f64 / 100.0);
        let expected = -(1.0 - share).ln() / 60.0;
        assert!((found / expected - 1.0).abs() < 0.1, "{changed} %: {found} beside {expected}");
    }
}

#[test]
fn a_ttl_stays_within_its_bounds() {
    let rule = rule(0.05);
    let (key, pattern) = watched(&rule, 3_600_000, 0, 200);
    assert_eq!(rule.ttl_ms(&key, &pattern), Millis(20 * TTL_MS.0), "it never changes");
    let (key, pattern) = watched(&rule, 10, 100, 200);
    assert_eq!(rule.ttl_ms(&key, &pattern), Millis(TTL_MS.0 / 10), "it changes all the time");
}

/// A new key of a pattern that never changes begins with a long TTL; one that changes has a short one soon, and does not take
/// it from the others.
#[test]
fn a_key_begins_as_its_pattern_and_is_then_judged_by_itself() {
    let rule = rule(0.05);
    let (_, mut pattern) = watched(&rule, 60_000, 0, 500);
    let mut lively = ChangeHistory::default();
    assert!(rule.ttl_ms(&lively, &pattern) > Millis(5 * TTL_MS.0), "as its pattern");
    for _ in 0..10 {
        rule.observe(&mut lively, &mut pattern, Interval { length_ms: Millis(30_000), has_changed: true });
    }
    assert!(rule.ttl_ms(&lively, &pattern) < TTL_MS, "{:?}", rule.ttl_ms(&lively, &pattern));
    assert!(rule.ttl_ms(&ChangeHistory::default(), &pattern) > Millis(2 * TTL_MS.0), "its pattern's others");
}

/// A key that rested for long and changes now is read more often after some twenty runs.
#[test]
fn a_change_of_pace_is_followed() {
    let rule = rule(0.05);
    let (mut key, mut pattern) = watched(&rule, 600_000, 0, 200);
    let before = rule.ttl_ms(&key, &pattern);
    let mut runs = 0;
    while rule.ttl_ms(&key, &pattern) > TTL_MS {
        let length_ms = rule.ttl_ms(&key, &pattern);
        rule.observe(&mut key, &mut pattern, Interval { length_ms, has_changed: true });
        runs += 1;
    }
    assert_eq!(before, Millis(20 * TTL_MS.0));
    assert!(runs < 160, "{runs} runs");
}

proptest! {
    /// Whatever is observed, the TTL stays within its bounds, and more changes never make it longer.
    #[test]
    fn any_intervals_give_a_ttl(
        target in 0.0001..1.0_f64,
        intervals in prop::collection::vec((0_u64..=u64::MAX / 1_000, any::<bool>()), 0..200),
    ) {
        let rule = rule(target);
        let (mut key, mut pattern) = (ChangeHistory::default(), ChangeHistory::default());
        for (length_ms, has_changed) in intervals {
            let length_ms = Millis(length_ms);
            let (mut other_key, mut other_pattern) = (key, pattern);
            rule.observe(&mut other_key, &mut other_pattern, Interval { length_ms, has_changed: true });
            let with_change = rule.ttl_ms(&other_key, &other_pattern);
            let (mut same_key, mut same_pattern) = (key, pattern);
            rule.observe(&mut same_key, &mut same_pattern, Interval { length_ms, has_changed: false });
            let without = rule.ttl_ms(&same_key, &same_pattern);
            prop_assert!(with_change <= without, "{with_change:?} beside {without:?}");
            (key, pattern) = if has_changed { (other_key, other_pattern) } else { (same_key, same_pattern) };
            let ttl_ms = rule.ttl_ms(&key, &pattern);
            prop_assert!((TTL_MS.0 / 10..=20 * TTL_MS.0).contains(&ttl_ms.0), "{ttl_ms:?}");
        }
    }
}
