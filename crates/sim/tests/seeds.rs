//! Random schedules: every seed keeps the promises, and the same seed gives the same trace. This runs in the usual
//! build; `cargo xtask sim --seeds` runs the gate's thousands of seeds.
//!
//! `HOPCACHE_TEST_SIM_SEEDS` sets the number of seeds (default 48). From 48 on every kind of world has to be among
//! them, from 2,000 on every kind of fault.

use hopcache_sim::check::coverage::{Coverage, FAULTS};
use hopcache_sim::drive::simulate::{Keep, Report, simulate};

use std::process::Command;

/// This many seeds have every kind of world.
const SEEDS: u64 = 48;
/// This many seeds have every kind of fault. The rarest, a node that is not waited for, occurs twice in a thousand.
const SEEDS_OF_ALL_FAULTS: u64 = 2_000;

fn seeds() -> u64 {
    std::env::var("HOPCACHE_TEST_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

fn holds(seed: u64) -> Report {
    let report = simulate(seed, Keep::Failures);
    assert_eq!(report.violation, None, "seed {seed}:\n{}", report.trace.join("\n"));
    report
}

#[test]
fn every_seed_keeps_the_promises() {
    let reports: Vec<Report> = (0..seeds()).map(holds).collect();
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    // A schedule in which nothing is asked or nothing breaks proves nothing.
    assert!(sum(|report| report.answers) > 50 * seeds());
    assert!(sum(|report| report.runs) > 10 * seeds());
    if seeds() >= SEEDS {
        assert!(sum(|report| report.near) > seeds() / 10);
        assert!(sum(|report| u64::from(report.is_living)) >= seeds() / 5);
    }
    let mut coverage = Coverage::default();
    reports.iter().for_each(|report| coverage.take(&report.coverage));
    if seeds() >= SEEDS {
        assert!(coverage.of("prefetch launched") > 10 && coverage.of("lesson merged") > 100);
        assert!(reports.iter().any(|report| report.alike_after.is_some()));
    }
    let missing: Vec<&&str> = FAULTS.iter().filter(|word| coverage.of(word) == 0).collect();
    assert!(missing.is_empty() || seeds() < SEEDS_OF_ALL_FAULTS, "every kind of fault occurs: {missing:?}");
}

/// Determinism within one process, where maps of random order would show.
#[test]
fn the_same_seed_gives_the_same_trace() {
    // Seeds without faults, with some and with all, in worlds with and without joins and leaves. From 32 on nodes
    // learn.
    for seed in [0, 1, 7, 16, 18, 23, 33, 39, 42, 47] {
        let (once, again) = (simulate(seed, Keep::Trace), simulate(seed, Keep::Trace));
        let place = once.trace.iter().zip(&again.trace).position(|(one, other)| one != other);
        assert_eq!(place, None, "seed {seed}: line {place:?} differs");
        assert_eq!(once, again, "seed {seed}");
    }
}

/// The traces are the same in other processes, whose addresses and hash keys differ.
#[test]
fn another_process_gives_the_same_trace() {
    // Two seeds with joins and leaves, and two in which nodes learn.
    for seed in [1, 7, 18, 23, 39, 42] {
        let output = Command::new(env!("CARGO_BIN_EXE_hopcache-sim"))
            .args(["--seed", &seed.to_string(), "--out", env!("CARGO_TARGET_TMPDIR")])
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let hash = format!("trace {:016x}", simulate(seed, Keep::Failures).hash);
        assert!(stdout.lines().any(|line| line.ends_with(&hash)), "seed {seed}: {hash}\n{stdout}");
    }
}
