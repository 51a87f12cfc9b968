//! THEORY's table of mean lead and P(late), by simulation, against its numbers and against the formulas.

use hopcache_core::refresh::{
    Cost, KeyFacts, Mode, Plan, Rule, late_probability, load_factor, mean_lead_ms, never_early_probability,
};
use hopcache_core::time::Millis;

use super::dice::Dice;
use super::key_life::{ERRORS, Sample, cycles, first_lead_hit_by_hit_ms, first_lead_ms, share_error};

const RUN_MS: f64 = 200.0;
const TTL_MS: f64 = 60_000.0;
/// The number of cycles behind THEORY's numbers.
const THEORY_CYCLES: f64 = 200_000.0;

/// A number as THEORY prints it, and half a unit of its last digit.
struct Printed(f64, f64);

/// A row of THEORY's table: rule, its plan, and (mean lead in s, P(late)) at λ = 10, 100 and 1,000 per second.
struct Row {
    name: &'static str,
    plan: Plan,
    printed: [Option<(Printed, Printed)>; 3],
}

fn facts(degree: Option<u64>) -> KeyFacts {
    let cost = Cost { mean_ms: RUN_MS, tail_ms: RUN_MS };
    KeyFacts { ttl_ms: Millis(60_000), cost, rate_per_s: Some(10.0), degree, volatility: 1.0 }
}

fn by(mode: Mode, degree: Option<u64>) -> Plan {
    Rule { mode, beta: 1.0 }.plan(&facts(degree))
}

fn printed(lead: (f64, f64), late: (f64, f64)) -> Option<(Printed, Printed)> {
    Some((Printed(lead.0, lead.1), Printed(late.0, late.1)))
}

fn rows() -> Vec<Row> {
    let (hundredth, ten_thousandth) = (0.005, 0.000_05);
    let topology = |name, degree, leads: [f64; 3], late: f64, last: bool| Row {
        name,
        plan: by(Mode::TopologySensitive, Some(degree)),
        printed: [
            printed((leads[0], hundredth), (late, ten_thousandth)),
            printed((leads[1], hundredth), (0.0, ten_thousandth)),
            if last { printed((leads[2], hundredth), (0.0, ten_thousandth)) } else { None },
        ],
    };
    vec![
        Row {
            name: "plain expiry",
            plan: Plan::default(),
            printed: [
                printed((-0.10, 0.005), (1.0, 0.0)),
                printed((-0.01, 0.005), (1.0, 0.0)),
                printed((-0.001, 0.000_5), (1.0, 0.0)),
            ],
        },
        Row {
            name: "beta = 1",
            plan: by(Mode::Plain, Some(500)),
            printed: [
                printed((0.251, 0.000_5), (0.478, 0.000_5)),
                printed((0.714, 0.000_5), (0.000_7, ten_thousandth)),
                printed((1.176, 0.000_5), (0.0, ten_thousandth)),
            ],
        },
        topology("topology d=10", 10, [1.62, 3.15, 4.67], 0.007_6, true),
        topology("topology d=100", 100, [3.35, 5.93, 8.52], 0.000_1, true),
        topology("topology d=500", 500, [4.68, 8.01, 0.0], 0.0, false),
    ]
}

struct Outcome {
    lead: Sample,
    lead_early: Sample,
    late: Sample,
}

fn simulate(plan: &Plan, rate_per_s: f64, dice: &mut Dice) -> Outcome {
    let mut outcome =
        Outcome { lead: Sample::default(), lead_early: Sample::default(), late: Sample::default() };
    for _ in 0..cycles() {
        let lead_ms = first_lead_ms(plan, rate_per_s, TTL_MS, dice);
        outcome.lead.add(lead_ms);
        outcome.lead_early.add(lead_ms.max(0.0));
        outcome.late.add(f64::from(u8::from(lead_ms < RUN_MS)));
    }
    outcome
}

/// Against THEORY: both are simulations, so both have an error, and THEORY's numbers are rounded.
fn compare_with_theory(name: &str, outcome: &Outcome, lead: &Printed, late: &Printed) {
    let both = 1.0 + (outcome.lead.count / THEORY_CYCLES).sqrt();
    let off = (outcome.lead.mean() / 1_000.0 - lead.0).abs();
    let allowed = ERRORS * outcome.lead.error() / 1_000.0 * both + lead.1;
    assert!(off <= allowed, "{name}: lead {} s, THEORY {} s", outcome.lead.mean() / 1_000.0, lead.0);
    let allowed = share_error(late.0, outcome.late.count) + share_error(late.0, THEORY_CYCLES) + late.1;
    let off = (outcome.late.mean() - late.0).abs();
    assert!(off <= allowed, "{name}: late {}, THEORY {} ± {allowed}", outcome.late.mean(), late.0);
}

fn compare_with_formulas(name: &str, outcome: &Outcome, scale_ms: f64, rate: f64) {
    let lead_ms = mean_lead_ms(scale_ms, rate);
    let allowed = ERRORS * outcome.lead_early.error() + 1e-9;
    let off = (outcome.lead_early.mean() - lead_ms).abs();
    assert!(off <= allowed, "{name}: lead {} ms, formula {lead_ms} ms", outcome.lead_early.mean());
    // A key that never fires early is refreshed 1/λ after expiry on average.
    let lead_ms = lead_ms - never_early_probability(scale_ms, rate) * 1_000.0 / rate;
    let off = (outcome.lead.mean() - lead_ms).abs();
    assert!(off <= ERRORS * outcome.lead.error() + 1e-9, "{name}: lead {} ms", outcome.lead.mean());
    let late = late_probability(scale_ms, rate, RUN_MS);
    let (seen, allowed) = (outcome.late.mean(), share_error(late, outcome.late.count));
    assert!((seen - late).abs() <= allowed, "{name}: late {seen}, formula {late} ± {allowed}");
}

#[test]
fn the_table_of_theory_comes_out() {
    println!("{} cycles, run 200 ms, TTL 60 s, one flight per key", cycles());
    println!("rule            rate/s  lead s ± error  (THEORY, formula)  late      (THEORY, formula)  load");
    let mut dice = Dice(1);
    for row in rows() {
        for (rate, printed) in [10.0, 100.0, 1_000.0].into_iter().zip(&row.printed) {
            let outcome = simulate(&row.plan, rate, &mut dice);
            let scale_ms = row.plan.scale_ms;
            let lead_ms = mean_lead_ms(scale_ms, rate) - never_early_probability(scale_ms, rate) * 1e3 / rate;
            let (theory_lead, theory_late) =
                printed.as_ref().map_or((String::from("–"), String::from("–")), |(lead, late)| {
                    (lead.0.to_string(), late.0.to_string())
                });
            println!(
                "{:<14}  {rate:>6}  {:>7.4} ± {:.4}  ({theory_lead:>6}, {:>7.4})  {:.5}  ({theory_late:>6}, {:.5})  {:.4}",
                row.name,
                outcome.lead.mean() / 1e3,
                outcome.lead.error() / 1e3,
                lead_ms / 1e3,
                outcome.late.mean(),
                late_probability(scale_ms, rate, RUN_MS),
                load_factor(outcome.lead.mean(), TTL_MS),
            );
            let name = format!("{} at {rate}/s", row.name);
            compare_with_formulas(&name, &outcome, scale_ms, rate);
            if let Some((lead, late)) = printed {
                compare_with_theory(&name, &outcome, lead, late);
            }
        }
    }
}

/// Skipping bands of time gives the same result as hit by hit.
#[test]
fn band_by_band_is_hit_by_hit() {
    let ahead = Plan { scale_ms: 0.0, ahead_ms: 1_000.0, ..Plan::default() };
    for (seed, plan) in
        [by(Mode::Plain, None), by(Mode::TopologySensitive, Some(10)), ahead].iter().enumerate()
    {
        let mut dice = Dice(seed as u64);
        let (mut bands, mut hits) = (Sample::default(), Sample::default());
        for _ in 0..3_000 {
            bands.add(first_lead_ms(plan, 20.0, TTL_MS, &mut dice));
            hits.add(first_lead_hit_by_hit_ms(plan, 20.0, 20_000.0, &mut dice));
        }
        let off = (bands.mean() - hits.mean()).abs();
        assert!(off <= ERRORS * bands.error().hypot(hits.error()), "{} {}", bands.mean(), hits.mean());
    }
}
