//! THEORY "Mistakes that circulate", where they concern this module: each test checks the right form.

use hopcache_core::refresh::{Cost, KeyFacts, Mode, Plan, Rule, late_probability};
use hopcache_core::time::Millis;

use super::dice::{Dice, RunTimes};
use super::key_life::{ERRORS, Sample};

fn plain(ttl_ms: u64) -> Plan {
    let cost = Cost { mean_ms: 200.0, tail_ms: 200.0 };
    let facts =
        KeyFacts { ttl_ms: Millis(ttl_ms), cost, rate_per_s: Some(100.0), degree: None, volatility: 1.0 };
    Rule { mode: Mode::Plain, beta: 1.0 }.plan(&facts)
}

/// `−β·ttl·ln(u)`: 36.8 % of all hits would recompute at age 0.
#[test]
fn the_ttl_is_not_in_the_place_of_the_cost() {
    let (minute, year) = (plain(60_000), plain(31_536_000_000));
    assert_eq!(minute, year, "δ, not the TTL, sets the window");
    assert_eq!(minute.probability(60_000.0, 1), 0.0);
    assert!(!minute.fires(60_000.0, u32::MAX, 0.0));
    let mistaken = Plan { scale_ms: 60_000.0, ..minute };
    assert!((mistaken.probability(60_000.0, 1) - 0.368).abs() < 1e-3);
}

/// `now − (expiry − δ·β·ln u) > 0` fires after expiry only.
#[test]
fn the_sign_is_such_that_it_fires_before_expiry() {
    let plan = plain(60_000);
    for (left_ms, unit) in [(100.0, 0.6), (200.0, 0.36), (1_000.0, 0.006)] {
        assert!(plan.fires(left_ms, 1, unit), "left {left_ms} ≤ −200·ln({unit})");
        assert!(!plan.fires(left_ms, 1, unit + 0.02), "left {left_ms} > −200·ln({})", unit + 0.02);
    }
    assert!(plan.fires(0.0, 1, 0.999_999), "at expiry every hit");
    assert!(plan.fires(-5.0, 1, 0.999_999), "and after it, by the soft TTL, well before the physical one");
}

/// `ln(random())` with random() = 0: an infinite window. Here 0 is a draw like the others.
#[test]
fn a_draw_of_zero_is_a_draw() {
    let plan = plain(60_000);
    assert!(plan.window_ms().is_finite());
    assert!(plan.fires(plan.window_ms(), 1, 0.0));
    assert!(!plan.fires(plan.window_ms() + 1.0, 1, 0.0));
    assert!(!plan.fires(plan.window_ms(), 0, 0.0), "without a hit nothing fires");
    let smallest = 1.0 / (1_u64 << 53) as f64;
    assert!(!plan.fires(36.75 * 200.0, 1, smallest), "−ln(2^−53) = 36.74");
    assert!(plan.fires(36.73 * 200.0, 1, smallest));
    let largest = 1.0 - smallest;
    assert!(!plan.fires(1.0, 1, largest));
    assert!(plan.fires(1e-14, 1, largest - smallest), "just before expiry p rounds to almost 1");
}

/// δ as a constant 50 ms: at λ = 100/s and a real 200 ms (cv 0.5; THEORY does not say, its figures do) P(late) is 0.80
/// in place of 0.012. And "with recompute times that vary (cv 1.5, β = 1) 0.057 with δ as EWMA, 0.0001 as P99".
#[test]
fn the_cost_is_measured_and_its_tail_matters() {
    let late = |cv, scale_ms| {
        RunTimes { mean_ms: 200.0, cv }.expect(|run_ms| late_probability(scale_ms, 100.0, run_ms))
    };
    assert!((late(0.5, 50.0) - 0.80).abs() < 0.005, "{}", late(0.5, 50.0));
    assert!((late(0.5, 200.0) - 0.012).abs() < 0.000_5, "{}", late(0.5, 200.0));
    assert!((late(1.5, 200.0) - 0.057).abs() < 0.000_5, "{}", late(1.5, 200.0));
    assert!((late(1.5, 1_386.0) - 0.000_1).abs() < 0.000_05, "{}", late(1.5, 1_386.0));
}

/// "Exactly one refresh, statistically": without a flight every hit until the first run lands may begin another. Their
/// number is geometric with mean e^(1/β), whatever the rate.
#[test]
fn chance_alone_gives_e_to_the_one_over_beta_runs() {
    let mut dice = Dice(3);
    println!("beta  rate/s  runs for each expiry ± error  e^(1/beta)");
    for (beta, rate, expiries) in [(1.0, 200.0, 3_000), (1.0, 400.0, 2_000), (0.5, 1_000.0, 1_500)] {
        let plan = Plan { scale_ms: beta * 200.0, ..Plan::default() };
        let mut runs = Sample::default();
        for _ in 0..expiries {
            // Hits do not see a running read until it lands, 200 ms later.
            let (mut left, mut lands) = (10.0 * plan.scale_ms, f64::NEG_INFINITY);
            let mut begun = 0_u32;
            while left > lands {
                left -= dice.exponential() * 1_000.0 / rate;
                if left > lands && plan.fires(left, 1, dice.unit()) {
                    lands = if begun == 0 { left - 200.0 } else { lands };
                    begun += 1;
                }
            }
            runs.add(f64::from(begun));
        }
        let expected = (1.0_f64 / beta).exp();
        println!("{beta:<4}  {rate:>6}  {:.3} ± {:.3}  {expected:.3}", runs.mean(), runs.error());
        assert!((runs.mean() - expected).abs() <= ERRORS * runs.error() + 0.01, "{}", runs.mean());
    }
}
