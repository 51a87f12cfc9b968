//! THEORY "Keys loaded together": 10,000 keys, 10 requests/s each. Early refresh spreads the refreshes of one key,
//! not of many; TTL jitter does.

use hopcache_core::refresh::{Cost, KeyFacts, Mode, Plan, Rule};
use hopcache_core::time::Millis;

use super::dice::Dice;
use super::key_life::{ERRORS, Sample, first_lead_ms};

const KEYS: u32 = 10_000;
const TTL_MS: f64 = 60_000.0;
/// Width of the bins that a rate is counted in.
const BIN_MS: f64 = 100.0;
const LOADS: u32 = 8;

/// The busiest 100 ms ÷ the number with refreshes spread evenly over the TTL.
fn peak(plan: &Plan, life: impl Fn(&mut Dice) -> f64, dice: &mut Dice) -> f64 {
    let mut bins = vec![0_u32; 800];
    for _ in 0..KEYS {
        let ttl_ms = TTL_MS * life(dice);
        let at_ms = ttl_ms - first_lead_ms(plan, 10.0, ttl_ms, dice);
        bins[(at_ms / BIN_MS) as usize] += 1;
    }
    f64::from(*bins.iter().max().unwrap()) / (f64::from(KEYS) * BIN_MS / TTL_MS)
}

#[test]
fn only_jitter_spreads_keys_that_were_loaded_together() {
    let cost = Cost { mean_ms: 200.0, tail_ms: 200.0 };
    let facts =
        KeyFacts { ttl_ms: Millis(60_000), cost, rate_per_s: Some(10.0), degree: None, volatility: 1.0 };
    let xfetch = Rule { mode: Mode::Plain, beta: 1.0 }.plan(&facts);
    let adaptive = Rule { mode: Mode::Adaptive, beta: 1.0 }.plan(&facts);
    let tenth = |dice: &mut Dice| 0.9 + 0.2 * dice.unit();
    let mut dice = Dice(11);
    println!("peak / even rate over {LOADS} loads of {KEYS} keys: mean ± deviation (THEORY, of one load)");
    let mut say = |name: &str, theory: Option<(f64, f64)>, one: &mut dyn FnMut(&mut Dice) -> f64| {
        let mut peaks = Sample::default();
        for _ in 0..LOADS {
            peaks.add(one(&mut dice));
        }
        let deviation = peaks.error() * peaks.count.sqrt();
        println!("{name:<22} {:>6.2} ± {deviation:.2} ({theory:?})", peaks.mean());
        if let Some((printed, half_unit)) = theory {
            let allowed = ERRORS * deviation.hypot(peaks.error()) + half_unit;
            assert!((peaks.mean() - printed).abs() <= allowed, "{name}: {} ± {allowed}", peaks.mean());
        }
        peaks.mean()
    };
    say("plain expiry", Some((381.0, 0.5)), &mut |dice| peak(&Plan::default(), |_| 1.0, dice));
    say("XFetch", Some((107.0, 0.5)), &mut |dice| peak(&xfetch, |_| 1.0, dice));
    say("XFetch, TTL ± 10 %", Some((6.3, 0.05)), &mut |dice| peak(&xfetch, tenth, dice));
    say("XFetch, TTL 0.5 to 1", Some((3.0, 0.05)), &mut |dice| {
        peak(&xfetch, |dice| 0.5 + 0.5 * dice.unit(), dice)
    });
    // Must-show 5's bound, on the default mode.
    let ours = say("adaptive, TTL ± 10 %", None, &mut |dice| peak(&adaptive, tenth, dice));
    assert!(ours <= 7.0, "{ours}");
}
