//! Random schedules: every seed keeps the promises, and the same seed gives the same trace.

use hopcache_sim::explore::{Report, explore};

/// Seeds in the gate; `HOPCACHE_SIM_SEEDS` runs more by hand.
const SEEDS: u64 = 400;

fn seeds() -> u64 {
    std::env::var("HOPCACHE_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

fn holds(seed: u64) -> Report {
    match explore(seed) {
        Ok(report) => report,
        Err(violation) => {
            unreachable!("seed {seed}: {}\n{}", violation.what, violation.trace.join("\n"))
        }
    }
}

#[test]
fn every_seed_keeps_the_promises() {
    let started = std::time::Instant::now();
    let reports: Vec<Report> = (0..seeds()).map(holds).collect();
    let sum = |of: fn(&Report) -> usize| reports.iter().map(of).sum::<usize>();
    println!(
        "{} seeds in {:?}: {} answers checked, {} runs, {} faults",
        reports.len(),
        started.elapsed(),
        sum(|report| report.answers),
        sum(|report| report.runs),
        sum(|report| report.faults)
    );
    // A schedule in which nothing is asked or nothing breaks proves nothing.
    assert!(sum(|report| report.answers) > 50 * reports.len());
    assert!(sum(|report| report.faults) > reports.len());
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [1, 2, 3, 17] {
        let (once, again) = (holds(seed), holds(seed));
        for (place, (one, other)) in once.trace.iter().zip(&again.trace).enumerate() {
            assert_eq!(one, other, "seed {seed}, line {place}");
        }
        assert_eq!(once, again, "seed {seed}");
    }
}
