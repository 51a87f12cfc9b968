//! The gate: the order of its steps, and which steps run beside others.
//!
//! Compiling uses both cores of a small machine, so steps that wait run beside steps that compile. Most tests wait as
//! well, so lints and long computations run beside the tests with the processor time that the tests leave over. Chaos
//! runs alone.

use std::path::Path;

use anyhow::Result;

use super::beside::{Beside, Priority, Task, Xtask};
use super::program::Program;
use super::steps::{Step, step};
use super::{fmt, programs};
use crate::services::{engine, install};
use crate::{chaos, images, services, tidy};

/// The variable that limits how many tests libtest runs at a time, unless an argument does.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
/// Tests of `tests/faults` that run at a time. They run beside all other tests, because both mostly wait: for processes,
/// deadlines and TTLs.
const FAULTS_AT_A_TIME: usize = 3;
/// Least number of other tests at a time, also on a machine with fewer processors.
const OTHERS_AT_A_TIME_MIN: usize = 4;
/// The test program with the longest waits.
const FAULTS: &str = "node faults";
/// The variable that gives test programs of different lanes different ports (`tests/support/process.rs`).
const TEST_LANE: &str = "HOPCACHE_TEST_LANE";

/// Builds everything that tests, chaos and the simulator start: one build with one set of features.
const BUILD: [&str; 4] = ["build", "--workspace", "--bins", "--tests"];

/// Steps beside the build: downloads, and servers that start.
const PREPARE: &[Task] = &[
    ("services up", &["services", "up"]),
    ("programs", &["step", "programs"]),
    ("drivers", &["drivers", "install"]),
    ("docker engine", &["services", "engine"]),
    ("images of others", &["images", "redis", "neo4j", "haproxy", "prometheus"]),
];

/// Steps beside the tests: containers that start and are scraped.
const COMPOSE: &[Task] = &[("compose file", &["step", "compose-file"])];

/// Steps beside the tests, at the lowest priority.
const COMPUTE: &[Task] = &[
    ("clippy", &["step", "clippy"]),
    ("alert rules", &["step", "alert-rules"]),
    ("simulator", &["step", "simulator"]),
    ("seeded bugs", &["step", "seeded"]),
    ("doc", &["step", "doc"]),
    ("book", &["step", "book"]),
    ("cargo-deny", &["step", "cargo-deny"]),
    ("systemd unit", &["step", "systemd-unit"]),
];

pub(super) fn run(root: &Path, args: &[String], steps: &mut Vec<Step>) -> Result<()> {
    let xtask = Xtask::find()?;
    let services_ran = services::any_running(root);
    let engine_ran = engine::is_ours(root);
    steps.push(fmt(root));
    steps.push(step("tidy", || tidy::run(root)));

    let prepare = Beside::start(root, &xtask, PREPARE, Priority::Usual);
    let mut built = Vec::new();
    steps.push(step("build", || {
        built = programs::build(root, &BUILD.map(str::to_owned))?;
        Ok(())
    }));
    steps.extend(prepare.join());
    // Without the image, tests/containers fails and names the missing image. All other tests still run.
    steps.push(step("node image", || images::make(root, &[images::Which::Node], images::ImageBuild::Quick)));

    let compose = Beside::start(root, &xtask, COMPOSE, Priority::Usual);
    let compute = Beside::start(root, &xtask, COMPUTE, Priority::Lowest);
    let mut failed_beside_others = None;
    steps.push(step("tests", || {
        let outcome = tests(root, &built, args)?;
        if outcome.may_run_again() {
            failed_beside_others = Some(outcome);
            return Ok(());
        }
        outcome.told().map(|_| ())
    }));
    steps.extend(compose.join());
    steps.extend(compute.join());
    if let Some(outcome) = failed_beside_others {
        steps.push(step("second runs", || outcome.with_second_runs()?.told().map(|_| ())));
    }
    steps.push(step("chaos", || chaos::gate(root)));

    if !engine_ran {
        steps.push(step("docker engine down", || engine::down(root)));
    }
    if !services_ran {
        steps.push(step("services down", || services::down(root)));
    }
    Ok(())
}

/// Installs the programs that tests and chaos cause faults with, the balancer, and the browser.
pub(super) fn programs_that_hurt() -> Result<()> {
    // A Docker Engine needs none of them.
    chaos::programs().and_then(|()| install::missing(&[install::HAPROXY, install::CURL]))?;
    install::missing(&install::BROWSER)
}

fn tests(root: &Path, built: &[Program], args: &[String]) -> Result<programs::Outcome> {
    // The services run already, and this returns their addresses. Without services, every test that needs one would
    // fail with the same message.
    let environment = services::up(root)?;
    let (faults, others): (Vec<_>, Vec<_>) = built.iter().partition(|program| program.name() == FAULTS);
    let lane = |number: usize, programs, tests_at_a_time: usize| {
        let variables = environment.variables().into_iter().map(|(name, value)| (name, value.to_owned()));
        let own = [(TEST_THREADS, tests_at_a_time.to_string()), (TEST_LANE, number.to_string())];
        programs::Lane { programs, variables: variables.chain(own).collect() }
    };
    let asked = std::env::var(TEST_THREADS).ok().and_then(|text| text.parse().ok());
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let others_at_a_time = asked.unwrap_or_else(|| processors().max(OTHERS_AT_A_TIME_MIN));
    let faults_at_a_time = asked.unwrap_or(FAULTS_AT_A_TIME);
    let lanes = [lane(0, faults, faults_at_a_time), lane(1, others, others_at_a_time)];
    programs::run_lanes(&lanes, args)
}
