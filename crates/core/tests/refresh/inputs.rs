//! F41 and issue 5's bad input: each gives a valid plan, and the intended one.

use hopcache_core::refresh::{Cost, CostHistory, KeyFacts, Mode, Plan, Rule};
use hopcache_core::time::Millis;

const TEN_YEARS_MS: u64 = 315_360_000_000;

fn facts() -> KeyFacts {
    let cost = Cost { mean_ms: 200.0, tail_ms: 300.0 };
    KeyFacts { ttl_ms: Millis(60_000), cost, rate_per_s: Some(100.0), degree: Some(10), volatility: 1.0 }
}

fn plans(facts: &KeyFacts) -> [Plan; 3] {
    [Mode::Plain, Mode::TopologySensitive, Mode::Adaptive].map(|mode| Rule { mode, beta: 1.0 }.plan(facts))
}

#[test]
fn costs_that_are_no_costs() {
    let plain = |mean_ms| {
        let [plain, ..] = plans(&KeyFacts { cost: Cost { mean_ms, tail_ms: mean_ms }, ..facts() });
        plain.scale_ms
    };
    assert_eq!(plain(0.0), 1.0, "δ = 0 is 1 ms");
    assert_eq!(plain(-7.0), 1.0);
    assert_eq!(plain(f64::NEG_INFINITY), 1.0);
    assert_eq!(plain(f64::NAN), 50.0, "no number is unknown");
    assert_eq!(plain(f64::INFINITY), 600_000.0);
    assert_eq!(plain(1e300), 600_000.0);
    for (mean_ms, tail_ms, bounded) in
        [(200.0, 100.0, 200.0), (200.0, f64::NAN, 600.0), (200.0, f64::INFINITY, 2_000.0), (-1.0, -1.0, 1.0)]
    {
        assert_eq!(Cost { mean_ms, tail_ms }.bounded().tail_ms, bounded, "tail {tail_ms} of {mean_ms}");
    }
}

/// A stored entry from another writer may have any u64.
#[test]
fn runs_that_no_run_took() {
    for (took, mean_ms) in [(0, 1.0), (1, 1.0), (u64::MAX, 600_000.0)] {
        let cost = Cost::of_run(Millis(took));
        assert!((cost.mean_ms - mean_ms).abs() < 1e-6, "{cost:?} of {took}");
        assert_eq!(cost, cost.bounded());
    }
    let mut history = CostHistory::default();
    for took in [0, u64::MAX, 0, 3, u64::MAX] {
        history.observe(Millis(took));
        let cost = history.cost().unwrap();
        assert_eq!(cost, cost.bounded(), "after {took}");
    }
}

#[test]
fn volatility_stays_within_the_hints_range() {
    let with = |volatility| plans(&KeyFacts { volatility, ..facts() });
    assert_eq!(with(1e6), with(100.0));
    assert_eq!(with(f64::INFINITY), with(100.0));
    assert_eq!(with(-1.0), with(0.01));
    assert_eq!(with(0.0), with(0.01));
    assert_eq!(with(f64::NAN), with(1.0));
}

#[test]
fn any_degree_and_any_ttl() {
    let [_, hub, _] = plans(&KeyFacts { degree: Some(1_000_000_000), ..facts() });
    assert!((hub.scale_ms - 200.0 * (1.0 + 1e9_f64.ln())).abs() < 1e-6, "{hub:?}");
    let [_, all, _] = plans(&KeyFacts { degree: Some(u64::MAX), ..facts() });
    assert!(all.scale_ms < 200.0 * 46.0);
    for degree in [None, Some(0), Some(1)] {
        let [plain, topology, _] = plans(&KeyFacts { degree, ..facts() });
        assert_eq!(plain, topology, "{degree:?} counts as 1");
    }
    let usual = plans(&facts());
    for ttl_ms in [TEN_YEARS_MS, u64::MAX] {
        assert_eq!(plans(&KeyFacts { ttl_ms: Millis(ttl_ms), ..facts() }), usual, "δ sets the window");
    }
    let [.., none] = plans(&KeyFacts { ttl_ms: Millis(0), ..facts() });
    assert_eq!((none.scale_ms, none.ahead_ms), (0.0, 0.0), "TTL 0: nothing is early");
}

#[test]
fn rates_that_are_no_rates() {
    let with = |rate_per_s| {
        let [.., adaptive] = plans(&KeyFacts { rate_per_s, ..facts() });
        adaptive
    };
    assert_eq!(with(Some(f64::NAN)), with(None));
    assert_eq!(with(Some(-1.0)), with(None));
    assert_eq!(with(Some(f64::INFINITY)), with(Some(1e7)));
    assert_ne!(with(Some(0.0)), with(None), "nobody asking is a history");
}

/// Hits are reported in batches, and times of no kind reach the draw.
#[test]
fn draws_of_any_kind() {
    let plan = Plan { scale_ms: 100.0, ..Plan::default() };
    let once = plan.probability(250.0, 1);
    assert!((once - (-2.5_f64).exp()).abs() < 1e-15);
    assert!((plan.probability(250.0, 7) - (1.0 - (1.0 - once).powi(7))).abs() < 1e-12);
    assert!(
        (plan.probability(3_600.0, 1_000_000) / (1e6 * (-36.0_f64).exp()) - 1.0).abs() < 1e-9,
        "no cancellation"
    );
    assert_eq!(plan.probability(1.0, u32::MAX), 1.0);
    assert_eq!(plan.probability(-1.0, 0), 0.0);
    for left_ms in [0.0, -1.0, f64::NEG_INFINITY, 1e-300] {
        assert_eq!(plan.probability(left_ms, 1), 1.0, "{left_ms}");
    }
    assert_eq!(plan.probability(f64::INFINITY, 1), 0.0);
    assert_eq!(plan.probability(f64::NAN, 1), 0.0);
    let none = Plan::default();
    assert_eq!((none.probability(1e-300, u32::MAX), none.probability(0.0, 1)), (0.0, 1.0));
    assert!(!plan.fires(50.0, 1, f64::NAN));
}

/// A degree is used where a plan without history may decide; a copy has a history after ten seconds.
#[test]
fn a_degree_is_heeded_where_it_decides() {
    let rule = |mode| Rule { mode, beta: 1.0 };
    let unknown = KeyFacts { rate_per_s: None, ..facts() };
    let known = KeyFacts { rate_per_s: Some(3.0), ..facts() };
    let any = [Millis(0), Millis(1_000), facts().ttl_ms];
    for (left, facts) in any.into_iter().flat_map(|left| [(left, unknown), (left, known)]) {
        assert!(!rule(Mode::Plain).heeds_degree(&facts, left));
        assert!(rule(Mode::TopologySensitive).heeds_degree(&facts, left));
    }
    let adaptive = rule(Mode::Adaptive);
    assert!(any.iter().all(|left| !adaptive.heeds_degree(&known, *left)));
    let by_degree = |degree| adaptive.plan(&KeyFacts { degree: Some(degree), ..unknown }).window_ms();
    let widest = by_degree(u64::MAX);
    assert!(by_degree(1) < widest);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
    let until = 10_000 + widest as u64;
    assert!(adaptive.heeds_degree(&unknown, Millis(until)));
    assert!(!adaptive.heeds_degree(&unknown, Millis(until + 1)));
    let absurd = KeyFacts { ttl_ms: Millis(u64::MAX), rate_per_s: Some(f64::NAN), ..unknown };
    assert!(!adaptive.heeds_degree(&absurd, Millis(u64::MAX)));
}
