//! The repository's own commands: checks, services for tests, the test lane, trials, benchmarks.
//!
//! Decides how the repository is checked and set up. It never links hopcache's crates: it reads
//! their manifests and runs their binaries.
#![allow(clippy::print_stdout, reason = "a command-line tool speaks on stdout")]

mod alerts;
mod bench;
mod chaos;
mod cluster;
mod command;
mod compose;
mod dashboard;
mod deny;
mod fuzz;
mod images;
mod lanes;
mod sbom;
mod seeded;
mod services;
mod sim;
mod systemd;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Checks, services, tests, fuzzing, trials and benchmarks of this repository"
)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the repository's own rules (crate arrows, sizes, headers, tests, links).
    Tidy,
    /// Check and test the alert rules with promtool.
    Alerts,
    /// Redis and Neo4j for development and tests, under target/services.
    Services {
        #[command(subcommand)]
        action: services::Action,
    },
    /// The node image, and stand-ins for images that cannot be pulled here; starts a Docker Engine when none runs.
    Images {
        /// Only these; all of them when none is named.
        which: Vec<images::Which>,
        /// The node's program static and optimised, as for use; else the one that tests run, in seconds.
        #[arg(long)]
        release: bool,
    },
    /// A cluster to try faults on: plain processes, or containers with `up --compose`.
    Cluster {
        #[command(subcommand)]
        action: cluster::Action,
    },
    /// Run every query of the Grafana dashboard at a real Prometheus: each has to have data.
    Dashboard(dashboard::Options),
    /// Formatting, tidy and clippy.
    Check,
    /// The whole gate: what `check` does, cargo-deny, doc, alert rules, simulator, images, compose file, tests, chaos.
    Test {
        /// Only what needs no services: what `check` does, and every test without a service.
        #[arg(long)]
        quick: bool,
        /// Passed to the test programs.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// One step of the gate by itself.
    Step { which: lanes::Single },
    /// Run the fuzz targets with cargo-fuzz (libFuzzer, address sanitizer); needs a nightly toolchain.
    Fuzz {
        /// One target; all of them when none is named.
        #[arg(long)]
        target: Option<String>,
        /// Inputs for each target.
        #[arg(long, default_value_t = 1_000_000)]
        runs: u64,
        /// Seconds for each target at the most.
        #[arg(long, default_value_t = 900)]
        seconds: u64,
    },
    /// Write a bill of materials of the program `hopcache` (CycloneDX, JSON) to target/sbom.
    Sbom,
    /// The simulator: seeds with faults, checked after every step.
    Sim(sim::Options),
    /// Faults by a seed's schedule on real processes; every request and every origin run is judged.
    Chaos(chaos::Options),
    /// Build hopcache and hopcache-trials in release mode and run a trial: `trials soak`, `trials roll`, `trials failover`, …
    Trials {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Build hopcache and hopcache-bench in release mode and run a benchmark: `bench expiry hot`, `bench hit`, …
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let root = repository_root()?;
    match cli.command {
        Task::Tidy => tidy::run(&root),
        Task::Alerts => alerts::run(&root),
        Task::Services { action } => services::run(&root, action),
        Task::Cluster { action } => cluster::run(&root, &action),
        Task::Dashboard(options) => dashboard::run(&root, &options),
        Task::Images { which, release } => {
            let form = if release { images::ImageBuild::Static } else { images::ImageBuild::Quick };
            images::run(&root, &which, form)
        }
        Task::Check => lanes::run(&root, lanes::Scope::Check, &[]),
        Task::Test { quick, args } => {
            let scope = if quick { lanes::Scope::Quick } else { lanes::Scope::Gate };
            lanes::run(&root, scope, &args)
        }
        Task::Step { which } => lanes::single(&root, which),
        Task::Fuzz { target, runs, seconds } => {
            fuzz::run(&root, &fuzz::Plan { target: target.as_deref(), runs, seconds })
        }
        Task::Sbom => sbom::run(&root),
        Task::Sim(options) => sim::run(&root, &options),
        Task::Chaos(options) => chaos::run(&root, &options),
        Task::Trials { args } => bench::run(&root, bench::TRIALS, &args),
        Task::Bench { args } => bench::run(&root, bench::BENCHMARKS, &args),
    }
}

/// The folder above this crate: where `Cargo.toml` of the workspace lies.
fn repository_root() -> Result<PathBuf> {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask has no parent folder")?.to_path_buf())
}
