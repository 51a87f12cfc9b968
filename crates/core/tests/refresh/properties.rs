//! For any facts: a plan is finite, draws are probabilities, and fall with the time left.

use hopcache_core::limits::REFRESH_LEAD_SHARE_MAX;
use hopcache_core::refresh::{
    Cost, CostHistory, Heat, KeyFacts, Mode, Plan, Rule, Timing, beta_for_late, exponential_integral,
    late_probability, mean_lead_ms,
};
use hopcache_core::time::{Millis, MonoTime};
use proptest::prelude::*;

/// Any bits; real or special values more often than by chance.
fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        0.001..1e6_f64,
        prop::sample::select(vec![
            0.0,
            -0.0,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE
        ]),
    ]
}

fn whole() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..200_000_u64, Just(0), Just(u64::MAX)]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(vec![Mode::Plain, Mode::TopologySensitive, Mode::Adaptive])
}

prop_compose! {
    fn facts()(
        ttl_ms in whole(),
        mean_ms in float(),
        tail_ms in float(),
        rate_per_s in prop::option::of(float()),
        degree in prop::option::of(whole()),
        volatility in float(),
    ) -> KeyFacts {
        KeyFacts { ttl_ms: Millis(ttl_ms), cost: Cost { mean_ms, tail_ms }, rate_per_s, degree, volatility }
    }
}

/// The rate for which a plan's lead is bounded.
fn reckoned_rate(facts: &KeyFacts) -> f64 {
    facts.rate_per_s.filter(|rate| *rate >= 0.0).map_or(1_000.0, |rate| rate.min(1e7))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_facts_make_a_plan(facts in facts(), mode in mode(), beta in float()) {
        let plan = Rule { mode, beta }.plan(&facts);
        for part in [plan.scale_ms, plan.ahead_ms, plan.window_ms()] {
            prop_assert!(part.is_finite() && part >= 0.0, "{plan:?}");
        }
        prop_assert_eq!(plan.timing == Timing::Formula, mode != Mode::Adaptive);
    }

    #[test]
    fn the_mean_lead_of_adaptive_is_within_its_bound(facts in facts(), beta in float()) {
        let plan = Rule { mode: Mode::Adaptive, beta }.plan(&facts);
        let bound = facts.ttl_ms.0 as f64 * REFRESH_LEAD_SHARE_MAX;
        let lead = mean_lead_ms(plan.scale_ms, reckoned_rate(&facts)).max(plan.ahead_ms);
        prop_assert!(lead <= bound * (1.0 + 1e-9), "lead {lead} ms of {bound} ms: {plan:?}");
        prop_assert!(plan.scale_ms <= 8.0 * facts.cost.bounded().mean_ms);
        prop_assert!(plan.scale_ms == 0.0 || plan.ahead_ms == 0.0);
    }

    #[test]
    fn draws_are_probabilities_that_fall_with_time_left_and_grow_with_hits(
        facts in facts(), mode in mode(), lefts in (float(), float()), hits in (any::<u32>(), any::<u32>()),
    ) {
        let plan = Rule { mode, beta: 1.0 }.plan(&facts);
        let (less, more) = (lefts.0.min(lefts.1), lefts.0.max(lefts.1));
        let (few, many) = (hits.0.min(hits.1), hits.0.max(hits.1));
        let p = plan.probability(more, few);
        prop_assert!((0.0..=1.0).contains(&p), "{p}");
        // exp and its like are right to a bit or two, no more.
        prop_assert!(plan.probability(less, few) >= p * (1.0 - 1e-12));
        prop_assert!(plan.probability(more, many) >= p * (1.0 - 1e-12));
        prop_assert_eq!(plan.fires(more, few, p), false);
        prop_assert_eq!(plan.fires(more, few, p / 2.0), p > 0.0 && p / 2.0 < p);
    }

    /// Near copies get their plan in a message.
    #[test]
    fn plans_of_any_kind_give_probabilities(parts in [float(), float(), float()], hits in any::<u32>()) {
        let [scale_ms, ahead_ms, left_ms] = parts;
        let plan = Plan { scale_ms, ahead_ms, ..Plan::default() };
        let p = plan.probability(left_ms, hits);
        prop_assert!((0.0..=1.0).contains(&p), "{p}: {plan:?} with {left_ms} left");
        prop_assert!(plan.window_ms() >= 0.0, "{plan:?}");
    }

    /// One draw for many hits is as likely to fire as their single draws.
    #[test]
    fn a_batch_is_its_hits(scale_ms in 1.0..1e4_f64, share in 0.0..10.0_f64, hits in 1..50_u32) {
        let plan = Plan { scale_ms, ..Plan::default() };
        let once = plan.probability(share * scale_ms, 1);
        let none = (0..hits).fold(1.0, |none, _| none * (1.0 - once));
        prop_assert!((plan.probability(share * scale_ms, hits) - (1.0 - none)).abs() < 1e-12);
    }

    #[test]
    fn any_history_gives_a_cost_within_bounds(runs in prop::collection::vec(whole(), 1..80)) {
        let mut history = CostHistory::default();
        for took in runs {
            history.observe(Millis(took));
        }
        for history in [history, CostHistory::from_prior(&history)] {
            let cost = history.cost().unwrap();
            prop_assert!((1.0..=600_000.0).contains(&cost.mean_ms), "{cost:?}");
            prop_assert!(cost.tail_ms >= cost.mean_ms && cost.tail_ms <= 10.0 * cost.mean_ms, "{cost:?}");
        }
    }

    #[test]
    fn any_heat_is_a_rate(since in any::<u64>(), now in any::<u64>(), before in float(), counts in any::<[u32; 3]>()) {
        let heat = Heat::new(MonoTime(since), Some(before as f32));
        counts.iter().for_each(|&count| { heat.arrive(count); });
        let rate = heat.rate_per_s(MonoTime(now)).unwrap_or(0.0);
        prop_assert!((0.0..=1e7).contains(&rate), "{rate}");
    }

    /// The mean lead is the integral of P(L > x): another way to compute its formula.
    #[test]
    fn the_mean_lead_is_the_integral_of_its_tail(scale_ms in 10.0..5_000.0_f64, rate in 0.01..5_000.0_f64) {
        let step = scale_ms / 200.0;
        let tail = |x: f64| -(-rate * scale_ms / 1e3 * (-x / scale_ms).exp()).exp_m1();
        let integral: f64 = (0..10_000)
            .map(|at| step * tail((f64::from(at) + 0.5) * step))
            .sum();
        let formula = mean_lead_ms(scale_ms, rate);
        prop_assert!((formula / integral - 1.0).abs() < 1e-4, "{formula} {integral}");
    }

    #[test]
    fn the_solved_beta_solves(n in 1e-3..1e6_f64, k in 1.0..30.0_f64, late in 1e-6..0.5_f64) {
        let beta = beta_for_late(n, k, late);
        // n = λδ with δ = 1 s.
        let got = late_probability(beta * 1e3, n, k * 1e3);
        prop_assert!((got.ln() / late.ln() - 1.0).abs() < 1e-9, "{got} for {late}");
        prop_assert!(exponential_integral(n * beta) >= 0.0);
    }
}
