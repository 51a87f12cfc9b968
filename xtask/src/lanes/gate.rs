//! The gate: the order of its steps, and which steps run beside others.
//!
//! Compiling uses both cores of a small machine, so steps that wait run beside steps that compile. Most tests wait as
//! well, so lints and long computations run beside the tests with the processor time that the tests leave over. Chaos
//! runs alone.

use std::path::Path;

use anyhow::Result;

use super::beside::{Beside, Priority, Task, Xtask};
use super::steps::{Step, step};
use super::{fmt, programs};
use crate::services::{engine, install};
use crate::{chaos, images, services, tidy};

/// The variable that limits how many tests libtest runs at a time, unless an argument does.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
/// Least number of tests at a time, also on a machine with fewer processors. The longest tests wait for processes,
/// deadlines and TTLs, and use a quarter of a processor each.
const TESTS_AT_A_TIME_MIN: usize = 6;

/// Builds everything that tests, chaos and the simulator start: one build with one set of features.
const BUILD: [&str; 4] = ["build", "--workspace", "--bins", "--tests"];

/// Steps beside the build: downloads, and servers that start.
const PREPARE: &[Task] = &[
    ("services up", &["services", "up"]),
    ("programs", &["step", "programs"]),
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
    steps.push(step("tests", || tests(root, &built, args)));
    steps.extend(compose.join());
    steps.extend(compute.join());
    steps.push(step("chaos", || chaos::gate(root)));

    if !engine_ran {
        steps.push(step("docker engine down", || engine::down(root)));
    }
    if !services_ran {
        steps.push(step("services down", || services::down(root)));
    }
    Ok(())
}

/// Installs the programs that tests and chaos cause faults with, and the balancer.
pub(super) fn programs_that_hurt() -> Result<()> {
    // A Docker Engine needs none of them.
    chaos::programs().and_then(|()| install::missing(&[install::HAPROXY, install::CURL]))
}

fn tests(root: &Path, built: &[programs::Program], args: &[String]) -> Result<()> {
    // The services run already, and this returns their addresses. Without services, every test that needs one would
    // fail with the same message.
    let environment = services::up(root)?;
    let threads = test_threads().to_string();
    let mut variables = environment.variables();
    variables.push((TEST_THREADS, &threads));
    programs::run(built, args, &variables).map(|_| ())
}

fn test_threads() -> usize {
    let given = std::env::var(TEST_THREADS).ok().and_then(|text| text.parse().ok());
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    given.unwrap_or_else(|| processors().max(TESTS_AT_A_TIME_MIN))
}
