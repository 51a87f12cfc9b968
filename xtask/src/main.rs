//! The repository's own commands: checks, services for tests, test lanes, trials, benchmarks.
//!
//! Decides how the repository is checked and set up. This crate never links hopcache's crates: it reads their manifests
//! and runs their programs.
#![allow(clippy::print_stdout, reason = "a command-line tool prints to stdout")]

mod alerts;
mod bench;
mod book;
mod command;
mod compose;
mod dist;
mod drivers;
mod fuzz;
mod helm;
mod images;
mod lanes;
mod lines;
mod other_stores;
mod pgo;
mod sbom;
mod seeded;
mod services;
mod systemd;
mod tidy;
mod tools;

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
    /// Check the repository's own rules (rooms of the engine, sizes, headers, tests, links).
    Tidy,
    /// Check and test the alert rules with promtool.
    Alerts,
    /// Redis and Neo4j for development and tests, under target/services.
    Services {
        #[command(subcommand)]
        action: services::Action,
    },
    /// Build the node image, and stand-ins for images that cannot be pulled here. Starts a Docker Engine if none runs.
    Images {
        /// Build only these images; without a name, build all.
        which: Vec<images::Which>,
        /// Build the node's program static and optimised, as published. Without this, use the debug build that tests
        /// run.
        #[arg(long)]
        release: bool,
    },
    /// Neo4j's drivers and frameworks on top of them, against Neo4j and against Hopcache before it.
    Drivers {
        #[command(subcommand)]
        action: drivers::Action,
    },
    /// Check formatting, tidy and clippy.
    Check,
    /// Run the gate: formatting, tidy, one build, the tests that a change has to pass, 200 seeds, clippy.
    Test {
        /// Run `check` and every test that needs no service.
        #[arg(long)]
        quick: bool,
        /// Passed to cargo-nextest.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run everything: every test, images, containers, drivers, chaos, simulator, seeded bugs, documentation, cargo-deny.
    Full {
        /// Passed to cargo-nextest.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// By hand, hours, on a machine that does nothing else: the figures of docs/BENCHMARKS.md, soak, every driver version, dist.
    Release,
    /// Count lines of code by part, files, test programs and packages, at a commit.
    Lines {
        /// A commit, branch or tag.
        #[arg(default_value = "HEAD")]
        commit: String,
    },
    /// Run one step of a lane.
    Step { which: lanes::Single },
    /// Run the fuzz targets with cargo-fuzz (libFuzzer, address sanitizer); needs a nightly toolchain.
    Fuzz {
        /// Run one target; without a name, run all.
        #[arg(long)]
        target: Option<String>,
        /// Number of inputs for each target.
        #[arg(long, default_value_t = 1_000_000)]
        runs: u64,
        /// Most seconds for each target.
        #[arg(long, default_value_t = 900)]
        seconds: u64,
    },
    /// Build the documentation as a book (mdBook) into target/book.
    Book,
    /// Write docs/reference from the code.
    Reference,
    /// Write a bill of materials of the program `hopcache` (CycloneDX, JSON) to target/sbom.
    Sbom,
    /// Make a release's files in target/dist-archives: an archive for each platform, a Debian package, a bill of
    /// materials, checksums. Takes three builds with the profile `release`.
    Dist(dist::Options),
    /// Build hopcache as it is published, optimised by the profile in the repository, and print its path. `--train` makes the profile
    /// anew: an instrumented build answers the traffic of the applications (ten minutes; deletes all that the Neo4j of `services` holds).
    Pgo {
        /// Make the profile, and build nothing with it.
        #[arg(long)]
        train: bool,
    },
    /// Run seeds with faults in the simulator, which checks the promises after every step: `--seed S`, `--seeds N` (with `--cover yes`
    /// every fault and outcome has to occur), `--replay FILE`, `--minimise S`; without arguments 10,000 seeds. `--seeded` builds in each
    /// seeded bug, and shows that a checker catches it.
    Sim {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Cause faults on real processes by a seed's schedule, and judge every request and every run at the origin: `--seed S --minutes M`.
    /// `--debug` takes the builds of the tests.
    Chaos {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Build hopcache and hopcache-trials in release mode and run a trial: `trials soak`, `trials roll`, …
    Trials {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Build hopcache and hopcache-bench in release mode and run a benchmark: `bench expiry hot`, `bench hit`, …
    /// `bench apps` also installs a driver and starts Redis and Neo4j; its `--debug` takes the builds of the tests.
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
        Task::Images { which, release } => {
            let form = if release { images::ImageBuild::Static } else { images::ImageBuild::Quick };
            images::run(&root, &which, form)
        }
        Task::Drivers { action } => drivers::run(&root, &action),
        Task::Check => lanes::run(&root, lanes::Scope::Check, &[]),
        Task::Test { quick, args } => {
            let scope = if quick { lanes::Scope::Quick } else { lanes::Scope::Gate };
            lanes::run(&root, scope, &args)
        }
        Task::Full { args } => lanes::run(&root, lanes::Scope::Full, &args),
        Task::Release => lanes::run(&root, lanes::Scope::Release, &[]),
        Task::Lines { commit } => lines::run(&root, &commit),
        Task::Step { which } => lanes::single(&root, which),
        Task::Fuzz { target, runs, seconds } => {
            fuzz::run(&root, &fuzz::Plan { target: target.as_deref(), runs, seconds })
        }
        Task::Book => book::run(&root),
        Task::Reference => book::write_reference(&root),
        Task::Sbom => sbom::run(&root),
        Task::Dist(options) => dist::run(&root, &options),
        Task::Pgo { train: false } => pgo::build(&root),
        Task::Pgo { train: true } => pgo::train(&root),
        Task::Sim { args } => bench::sim(&root, &args),
        Task::Chaos { args } => bench::chaos(&root, &args),
        Task::Trials { args } => bench::run(&root, bench::TRIALS, &args),
        Task::Bench { args } => bench::bench(&root, &args),
    }
}

/// The folder above this crate, which holds the workspace's `Cargo.toml`.
fn repository_root() -> Result<PathBuf> {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask has no parent folder")?.to_path_buf())
}
