//! `cargo xtask bench`, `trials`, `chaos` and `sim`: builds hopcache and the program that drives it, and runs it.
//!
//! This module decides what is built and started. It passes arguments to the program unchanged.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{SIMULATION, finish, target};
use crate::services::{self, install};
use crate::{drivers, seeded};

/// The program that measures.
pub(crate) const BENCHMARKS: &str = "hopcache-bench";
/// The program that judges promises.
pub(crate) const TRIALS: &str = "hopcache-trials";
/// The benchmark whose clients are an official driver.
const APPLICATIONS: &str = "apps";
/// The data and the traffic of four applications.
const TRAFFIC: &str = "crates/bench/apps/traffic.tar.gz";
/// Names the folder whose `node_modules` holds the driver.
const DRIVER: &str = "HOPCACHE_BENCH_DRIVER";
/// Seeds of `full`: enough for every fault and every outcome to occur. Two of five seeds have nodes that come and go; these take five
/// times as long as the others.
const FULL_SEEDS: &str = "2000";
/// Seeds of `cargo xtask sim` without arguments.
const LONG_SEEDS: &str = "10000";
/// Chaos in `full`, with debug builds, and at the rate that these can answer during faults: every run has the same faults in the same
/// order, each happens, and each promise is judged. Then the negative control, in which each key is asked for several times within its
/// TTL, and I1 has to be found broken.
const CHAOS: [&str; 2] =
    ["--seconds 20 --rate 120 --thorough", "--seconds 5 --rate 200 --control --out target/chaos-control"];

/// Builds hopcache and `program` with the published profile, and runs `program`. It starts the hopcache that is built beside it.
pub(crate) fn run(root: &Path, program: &str, args: &[String]) -> Result<()> {
    let file = build_release(root, program)?;
    finish(Command::new(file).current_dir(root).args(args), program)
}

/// Builds hopcache and `program` with the published profile; where the program is.
fn build_release(root: &Path, program: &str) -> Result<PathBuf> {
    let mut build = Command::new("cargo");
    build.current_dir(root).args(["build", "--release", "--package", "hopcache", "--package", program]);
    finish(&mut build, "the build")?;
    Ok(target(root).join("release").join(program))
}

/// Builds the programs as tests do; where `program` is.
fn build_debug(root: &Path, program: &str) -> Result<PathBuf> {
    let mut build = Command::new("cargo");
    // The whole workspace, because tests have built it already with the same features.
    build.current_dir(root).args(["build", "--workspace", "--bins"]);
    finish(&mut build, "the build")?;
    Ok(target(root).join("debug").join(program))
}

/// A benchmark. `apps` gets what it needs beside the programs ([`applications`]).
pub(crate) fn bench(root: &Path, args: &[String]) -> Result<()> {
    if args.first().is_none_or(|name| name != APPLICATIONS) || args.iter().any(|arg| arg == "--help") {
        return run(root, BENCHMARKS, args);
    }
    applications(root, args, &[])
}

/// The benchmark of applications, with a driver, the repository's traffic unless `args` name another, and Redis and Neo4j. These are
/// stopped if they did not run before. `variables` are for the program and the nodes that it starts.
pub(crate) fn applications(root: &Path, args: &[String], variables: &[(&str, &str)]) -> Result<()> {
    let (debug_flag, mut args): (Vec<String>, Vec<String>) =
        args.iter().cloned().partition(|arg| arg == "--debug");
    if !args.iter().any(|arg| arg == "--data" || arg.starts_with("--data=")) {
        args.extend(["--data".to_owned(), traffic(root)?.display().to_string()]);
    }
    let build = if debug_flag.is_empty() { build_release } else { build_debug };
    let file = build(root, BENCHMARKS)?;
    let driver = drivers::javascript(root)?;
    let ran = services::any_running(root);
    let environment = services::up(root)?;
    let mut program = Command::new(file);
    program.current_dir(root).args(args).envs(environment.variables()).env(DRIVER, driver);
    program.envs(variables.iter().copied());
    let measured = finish(&mut program, BENCHMARKS);
    if ran { measured } else { services::down(root).and(measured) }
}

/// The folder of the repository's traffic, unpacked.
fn traffic(root: &Path) -> Result<PathBuf> {
    let folder = target(root).join("bench-apps").join("data");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(root.join(TRAFFIC)).arg("-C").arg(&folder);
    finish(&mut tar, "tar")?;
    Ok(folder)
}

/// Faults on real processes. `--debug` takes the builds of the tests.
pub(crate) fn chaos(root: &Path, args: &[String]) -> Result<()> {
    chaos_programs()?;
    let (debug_flag, args): (Vec<String>, Vec<String>) =
        args.iter().cloned().partition(|arg| arg == "--debug");
    if !debug_flag.is_empty() {
        return debug(root, "chaos", &args, &[]);
    }
    run(root, TRIALS, &[&["chaos".to_owned()], &args[..]].concat())
}

/// The part of `full`.
pub(crate) fn chaos_of_full(root: &Path) -> Result<()> {
    chaos_programs()?;
    CHAOS.iter().try_for_each(|args| {
        let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        debug(root, "chaos", &args, &[])
    })
}

/// Runs a trial with the programs of the tests' build.
pub(crate) fn debug(root: &Path, trial: &str, args: &[String], variables: &[(&str, &str)]) -> Result<()> {
    let mut program = Command::new(build_debug(root, TRIALS)?);
    finish(program.current_dir(root).arg(trial).args(args).envs(variables.iter().copied()), trial)
}

/// Installs or checks the programs that cause faults. Only root can use iptables. Without root there are no cuts, and
/// the report says so.
pub(crate) fn chaos_programs() -> Result<()> {
    install::missing(&[install::KILL, install::REDIS])?;
    install::missing(if install::is_root() { &[install::IPTABLES] } else { &[] })
}

/// Builds the simulator for speed, and runs it: `--seed S`, `--seeds N`, `--replay FILE`, `--minimise S`. `--seeded` proves its checkers.
pub(crate) fn sim(root: &Path, args: &[String]) -> Result<()> {
    if args.iter().any(|arg| arg == "--seeded") {
        return seeded::prove(root);
    }
    let long = ["--seeds", LONG_SEEDS, "--cover", "yes"].map(str::to_owned);
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["run", "--quiet", "--package", "hopcache-sim"])
        .args(SIMULATION)
        .arg("--");
    finish(command.args(if args.is_empty() { &long } else { args }), "the simulator")
}

/// The seeds of `full`.
pub(crate) fn sim_of_full(root: &Path) -> Result<()> {
    sim(root, &["--seeds", FULL_SEEDS, "--cover", "yes"].map(str::to_owned))
}
