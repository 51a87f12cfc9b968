//! The lanes with services: `test`, which is the gate, `full`, and `release`. Nothing runs beside the tests.
//!
//! Compiling uses both cores of a small machine, so steps that wait (downloads, servers that start) run beside the build.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::beside::{Beside, Task, Xtask};
use super::nextest::{self, NEXTEST, Profile};
use super::steps::{Step, step};
use super::{cargo, clippy, deny, doc, fmt};
use crate::command::{finish, target};
use crate::services::{engine, install};
use crate::{alerts, bench, book, compose, helm, images, other_stores, seeded, services, systemd, tidy};

/// Steps beside the build.
const PREPARE: &[Task] = &[("services up", &["services", "up"]), ("programs", &["step", "programs"])];

/// Steps beside the build of `full`.
const PREPARE_FULL: &[Task] = &[
    ("services up", &["services", "up"]),
    ("programs", &["step", "programs"]),
    ("browser", &["step", "browser"]),
    ("drivers", &["drivers", "install"]),
    ("docker engine", &["services", "engine"]),
    ("images of others", &["images", "redis", "neo4j", "haproxy", "prometheus"]),
];

/// The steps of `release`, each a command of its own.
const RELEASE: &[Task] = &[
    ("hit", &["bench", "hit"]),
    ("bolt-hit", &["bench", "bolt-hit"]),
    ("miss", &["bench", "miss"]),
    ("cold", &["bench", "cold"]),
    ("fresh mix", &["bench", "fresh", "mix"]),
    ("fresh noticed", &["bench", "fresh", "noticed"]),
    ("fresh cost", &["bench", "fresh", "cost"]),
    ("memory", &["bench", "memory"]),
    ("expiry", &["bench", "expiry", "hot"]),
    ("prefetch", &["bench", "prefetch"]),
    ("ablation", &["bench", "ablation"]),
    ("soak", &["trials", "soak"]),
    ("driver versions", &["drivers", "versions"]),
    ("dist", &["dist"]),
];

/// Seeds of the gate, run by the simulator of the tests' build. `full` has those of [`bench::sim_of_full`].
const GATE_SEEDS: u64 = 200;

pub(super) fn test(root: &Path, args: &[String], steps: &mut Vec<Step>) -> Result<()> {
    let services_ran = services::any_running(root);
    prepared(root, PREPARE, steps)?;
    steps.push(step("tests", || tests(root, Profile::Gate, args)));
    steps.push(step("simulator", || seeds(root)));
    steps.push(step("clippy", || clippy(root)));
    if !services_ran {
        steps.push(step("services down", || services::down(root)));
    }
    Ok(())
}

pub(super) fn full(root: &Path, args: &[String], steps: &mut Vec<Step>) -> Result<()> {
    let services_ran = services::any_running(root);
    let engine_ran = engine::is_ours(root);
    prepared(root, PREPARE_FULL, steps)?;
    // Without the image, tests/containers fails and names the missing image. All other tests still run.
    steps.push(step("node image", || images::make(root, &[images::Which::Node], images::ImageBuild::Quick)));
    steps.push(step("tests", || tests(root, Profile::Full, args)));
    // One program, because its tests share one Neo4j in a container, and a few clusters.
    steps.push(step("containers", || {
        cargo(root, &["test", "--workspace", "--test", "e2e", "--", "containers::"], &[])
    }));
    steps.push(step("other stores", || other_stores::run(root)));
    steps.push(step("chaos", || bench::chaos_of_full(root)));
    steps.push(step("compose file", || compose::validate::validate(root)));
    steps.push(step("simulator", || bench::sim_of_full(root)));
    steps.push(step("seeded bugs", || seeded::prove(root)));
    steps.push(step("clippy", || clippy(root)));
    steps.push(step("doc", || doc(root)));
    steps.push(step("book", || book::run(root)));
    steps.push(step("alert rules", || alerts::run(root)));
    steps.push(step("cargo-deny", || deny(root)));
    steps.push(step("systemd unit", || systemd::run(root)));
    steps.push(step("Helm chart", || helm::run(root)));
    if !engine_ran {
        steps.push(step("docker engine down", || engine::down(root)));
    }
    if !services_ran {
        steps.push(step("services down", || services::down(root)));
    }
    Ok(())
}

/// One after another, because each measures alone.
pub(super) fn release(root: &Path, steps: &mut Vec<Step>) -> Result<()> {
    let services_ran = services::any_running(root);
    let environment = services::up(root)?;
    // Read before a build replaces the file.
    let xtask = std::env::current_exe()?;
    for (name, args) in RELEASE {
        let mut command = Command::new(&xtask);
        command.current_dir(root).args(*args).envs(environment.variables());
        steps.push(step(name, || finish(&mut command, name)));
    }
    if !services_ran {
        steps.push(step("services down", || services::down(root)));
    }
    Ok(())
}

/// Installs the programs that tests and chaos cause faults with, the balancer, and what runs the tests.
pub(super) fn programs(root: &Path) -> Result<()> {
    // A Docker Engine needs none of them.
    bench::chaos_programs().and_then(|()| install::missing(&[install::HAPROXY, install::CURL]))?;
    NEXTEST.command(root).map(drop)
}

/// Formatting, this repository's rules, and one build of everything that tests, chaos and the simulator start.
fn prepared(root: &Path, beside: &'static [Task], steps: &mut Vec<Step>) -> Result<()> {
    let xtask = Xtask::find()?;
    steps.push(fmt(root));
    steps.push(step("tidy", || tidy::run(root)));
    let beside = Beside::start(root, &xtask, beside);
    steps.push(step("build", || cargo(root, &["build", "--workspace", "--bins", "--tests"], &[])));
    steps.extend(beside.join());
    Ok(())
}

fn tests(root: &Path, profile: Profile, args: &[String]) -> Result<()> {
    // The services run already, and this returns their addresses. Without services, every test that needs one would
    // fail with the same message.
    let environment = services::up(root)?;
    nextest::run(root, profile, &environment.variables(), args)
}

fn seeds(root: &Path) -> Result<()> {
    let mut simulator = Command::new(target(root).join("debug/hopcache-sim"));
    let seeds = GATE_SEEDS.to_string();
    finish(simulator.current_dir(root).args(["--seeds", &seeds, "--cover", "no"]), "the simulator")
}
