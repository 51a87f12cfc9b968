//! The solution of the mode `adaptive`, against THEORY's table of β, and its bounds.

use hopcache_core::limits::{
    REFRESH_FITTED_BETA_MAX, REFRESH_FITTED_BETA_MIN, REFRESH_LATE_SHARE, REFRESH_LEAD_SHARE_MAX,
};
use hopcache_core::refresh::{
    Cost, KeyFacts, Mode, Plan, Rule, Timing, beta_for_late, late_probability, load_factor, mean_lead_ms,
};
use hopcache_core::time::Millis;

use super::dice::RunTimes;

fn facts(rate_per_s: Option<f64>, cost: Cost) -> KeyFacts {
    KeyFacts { ttl_ms: Millis(60_000), cost, rate_per_s, degree: None, volatility: 1.0 }
}

fn adaptive(facts: &KeyFacts) -> Plan {
    Rule { mode: Mode::Adaptive, beta: 1.0 }.plan(facts)
}

const STEADY: Cost = Cost { mean_ms: 200.0, tail_ms: 200.0 };

/// THEORY "β for ε = 10⁻³ by λ (k = 1 / k = 3)".
#[test]
fn beta_is_the_one_of_theory() {
    println!("rate/s  beta k=1 (THEORY)  beta k=3 (THEORY)");
    for (rate, k_1, k_3, unit) in [
        (1.0, 35.5, 37.4, 0.1),
        (10.0, 4.35, 5.80, 0.01),
        (100.0, 0.97, 1.81, 0.01),
        (1_000.0, 0.41, 0.92, 0.01),
        (10_000.0, 0.24, 0.58, 0.01),
    ] {
        let solve = |tail_factor| beta_for_late(rate * 0.2, tail_factor, 1e-3);
        println!("{rate:>6}  {:>8.3} ({k_1:>5})  {:>8.3} ({k_3:>5})", solve(1.0), solve(3.0));
        // Half a unit of the last printed digit; THEORY cut 0.585 to 0.58.
        assert!((solve(1.0) - k_1).abs() <= unit / 2.0, "k = 1 at {rate}/s");
        assert!((solve(3.0) - k_3).abs() <= unit / 2.0 + 1e-3, "k = 3 at {rate}/s");
        for tail_factor in [1.0, 3.0] {
            let beta = solve(tail_factor);
            let late = late_probability(beta * 200.0, rate, tail_factor * 200.0);
            assert!((late / 1e-3 - 1.0).abs() < 1e-9, "P(late) {late} at {rate}/s, k = {tail_factor}");
        }
    }
}

/// A key with constant run time: the plan is the table's β for k = 1 unless a bound cuts it.
#[test]
fn a_steady_key_gets_the_solved_beta() {
    for (rate, beta) in [(10.0, 4.347), (100.0, 0.969), (1_000.0, 0.406)] {
        let plan = adaptive(&facts(Some(rate), STEADY));
        assert_eq!(plan.timing, Timing::Fitted);
        assert!((plan.scale_ms / 200.0 - beta).abs() < 1e-3, "{plan:?} at {rate}/s");
    }
    // Below 0.25 the bound applies; then it is late less often than ε, which is no reason for a window.
    let plan = adaptive(&facts(Some(10_000.0), STEADY));
    assert_eq!((plan.timing, plan.scale_ms), (Timing::Fitted, 50.0));
}

/// DESIGN: "keys asked too rarely": β 35 at 1/s is cut to 8, so the first hit with w left refreshes; at 0.5/s w is over
/// a fifth of the TTL.
#[test]
fn rare_keys_are_refreshed_ahead_and_rarer_ones_late() {
    let plan = adaptive(&facts(Some(1.0), STEADY));
    assert_eq!((plan.timing, plan.scale_ms), (Timing::RefreshAhead, 0.0));
    let window_ms = 200.0 + 1_000.0_f64.ln() * 1_000.0;
    assert!((plan.ahead_ms - window_ms).abs() < 1e-6, "{plan:?}");
    assert_eq!(plan.probability(window_ms - 1.0, 1), 1.0);
    assert_eq!(plan.probability(window_ms + 1.0, u32::MAX), 0.0);
    for rate in [0.5, 0.01, 0.0] {
        let plan = adaptive(&facts(Some(rate), STEADY));
        assert_eq!((plan.timing, plan.ahead_ms), (Timing::LateAccepted, 0.0), "{rate}/s");
        assert_eq!(plan.scale_ms, 8.0 * 200.0, "{rate}/s");
    }
    // A long enough TTL has room for the window.
    let long = KeyFacts { ttl_ms: Millis(3_600_000), ..facts(Some(0.5), STEADY) };
    assert_eq!(adaptive(&long).timing, Timing::RefreshAhead);
}

/// Without history: the topology formula, within the bounds of `adaptive`.
#[test]
fn degree_is_the_prior_of_a_key_without_history() {
    for (degree, beta) in
        [(None, 1.0), (Some(0), 1.0), (Some(10), 1.0 + 10.0_f64.ln()), (Some(1_000_000_000), 8.0)]
    {
        let plan = adaptive(&KeyFacts { degree, ttl_ms: Millis(600_000), ..facts(None, STEADY) });
        assert_eq!(plan.timing, Timing::Prior);
        assert!((plan.scale_ms - beta * 200.0).abs() < 1e-9, "degree {degree:?}: {plan:?}");
    }
    // It may be as hot as 1,000/s: then β 8 would lead by 12.7 s of a minute, over a fifth.
    let hub = adaptive(&KeyFacts { degree: Some(1_000_000_000), ..facts(None, STEADY) });
    let lead_ms = mean_lead_ms(hub.scale_ms, 1_000.0);
    assert!(lead_ms <= 12_000.0 && lead_ms > 11_976.0, "{lead_ms} by {hub:?}");
    let seen = adaptive(&KeyFacts { degree: Some(1_000_000_000), ..facts(Some(100.0), STEADY) });
    assert_eq!(seen, adaptive(&facts(Some(100.0), STEADY)), "with a history degree counts no more");
}

/// β0 and σ multiply before the bounds.
#[test]
fn the_operator_and_the_hint_scale_what_was_solved() {
    let at = |beta, volatility, rate| {
        Rule { mode: Mode::Adaptive, beta }.plan(&KeyFacts { volatility, ..facts(Some(rate), STEADY) })
    };
    let usual = at(1.0, 1.0, 100.0);
    for (beta, volatility, times) in [(2.0, 1.0, 2.0), (0.5, 1.0, 0.5), (1.0, 1.5, 1.5), (2.0, 0.25, 0.5)] {
        let plan = at(beta, volatility, 100.0);
        assert_eq!(plan.timing, Timing::Fitted, "β0 {beta}, σ {volatility}");
        assert!((plan.scale_ms / usual.scale_ms - times).abs() < 1e-12, "β0 {beta}, σ {volatility}");
    }
    assert_eq!(at(2.0, 100.0, 100.0).timing, Timing::Fitted, "more than solved is no reason for a window");
    let (usual, half, far) = (at(1.0, 1.0, 1.0), at(0.5, 1.0, 1.0), at(2.0, 100.0, 1.0));
    assert_eq!(half.ahead_ms, usual.ahead_ms / 2.0);
    assert_eq!(far.ahead_ms, 0.2 * 60_000.0, "the window grows up to the bound on the lead");
}

/// A mean lead over a fifth of the TTL is cut: exactly to the bound.
#[test]
fn the_mean_lead_is_bounded() {
    for (ttl_ms, rate, mean_ms) in [(2_000, 1_000.0, 400.0), (60_000, 100.0, 60_000.0), (1, 10.0, 1e6)] {
        let cost = Cost { mean_ms, tail_ms: mean_ms };
        let plan = adaptive(&KeyFacts { ttl_ms: Millis(ttl_ms), ..facts(Some(rate), cost) });
        let (lead, bound) = (mean_lead_ms(plan.scale_ms, rate), ttl_ms as f64 * REFRESH_LEAD_SHARE_MAX);
        assert_eq!(plan.timing, Timing::LateAccepted, "{plan:?}");
        assert!(lead <= bound && lead > 0.998 * bound, "lead {lead} ms of {bound} ms: {plan:?}");
    }
    assert!((load_factor(0.2, 1.0) - 1.25).abs() < 1e-12);
}

/// P(late) of a plan over all runs, computed, not simulated.
fn late(plan: &Plan, rate: f64, times: RunTimes) -> f64 {
    times.expect(|run_ms| {
        if plan.timing == Timing::RefreshAhead {
            return (-rate * (plan.ahead_ms - run_ms).max(0.0) / 1_000.0).exp();
        }
        late_probability(plan.scale_ms, rate, run_ms)
    })
}

/// `fitted`: "at most 2·10⁻³ for cv 0 to 2.6 and 1 to 10,000 requests per second", if mean and 99th percentile are
/// known and no bound on the lead binds. Both timings, by chance and by window, occur.
#[test]
fn late_is_at_most_twice_epsilon_however_runs_vary() {
    println!("P(late), computed, in 1/1000  rate/s: 1  10  100  1,000  10,000");
    let mut ways = [0; 2];
    for cv in [0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 2.6] {
        let times = RunTimes { mean_ms: 200.0, cv };
        let cost = Cost { mean_ms: 200.0, tail_ms: times.quantile_ms(2.326).max(200.0) };
        let mut line = format!("cv {cv:<3}");
        for rate in [1.0, 10.0, 100.0, 1_000.0, 10_000.0] {
            let plan = adaptive(&KeyFacts { ttl_ms: Millis(3_600_000), ..facts(Some(rate), cost) });
            let late = late(&plan, rate, times);
            line += &format!("  {:.3} {:?}", late * 1e3, plan.timing);
            assert!(late <= 2.0 * REFRESH_LATE_SHARE, "cv {cv}, {rate}/s: {late} by {plan:?}");
            ways[usize::from(plan.timing == Timing::RefreshAhead)] += 1;
            let beta = plan.scale_ms / 200.0;
            assert!(beta == 0.0 || (REFRESH_FITTED_BETA_MIN..=REFRESH_FITTED_BETA_MAX).contains(&beta));
        }
        println!("{line}");
    }
    assert!(ways.iter().all(|&times| times > 5), "{ways:?}");
    // The 99th percentile alone would not be enough.
    let times = RunTimes { mean_ms: 200.0, cv: 1.5 };
    let tail_factor = times.quantile_ms(2.326) / 200.0;
    let scale_ms = 200.0 * beta_for_late(1_000.0 * 0.2, tail_factor, REFRESH_LATE_SHARE);
    let short = late(&Plan { scale_ms, ..Plan::default() }, 1_000.0, times);
    println!("cv 1.5 by the 99th percentile alone, 1,000/s: {:.3}", short * 1e3);
    assert!(short > 3e-3, "{short}");
}
