//! `cargo xtask sim`: builds the simulator for speed and runs seeds. `--seeded` runs `crate::seeded`.
//!
//! This module decides how the simulator is built and started. It does not decide what a seed does.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::{SIMULATION, finish};
use crate::seeded;

/// Seeds of the gate: enough for every fault and every outcome to occur. Two of five seeds have nodes that come and go;
/// these take five times as long as the others.
pub(crate) const GATE_SEEDS: u64 = 2_000;

/// Seeds of `cargo xtask sim` without options.
const LONG_SEEDS: u64 = 10_000;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run one seed and print everything that happened.
    #[arg(long, conflicts_with_all = ["seeds", "replay", "seeded"])]
    seed: Option<u64>,
    /// Run this many seeds (default 10,000). Traces of seeds that break a promise go to target/sim. Prints how often
    /// each fault and each outcome occurred. Fails if one never occurred, unless there are too few seeds for that.
    #[arg(long, conflicts_with_all = ["replay", "seeded"])]
    seeds: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run the seed of a kept trace again and report whether the trace is the same.
    #[arg(long, conflicts_with = "seeded")]
    replay: Option<std::path::PathBuf>,
    /// Remove from a seed's plan all steps that its violation does not need. The smaller trace goes to target/sim.
    #[arg(long, conflicts_with_all = ["seed", "seeds", "replay", "seeded"])]
    minimise: Option<u64>,
    /// Build in each seeded bug, one at a time, and show that a checker catches it.
    #[arg(long)]
    seeded: bool,
    /// Number of threads; by default the number of processors.
    #[arg(long)]
    threads: Option<usize>,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    if options.seeded {
        return seeded::prove(root);
    }
    let mut args = match (options.seed, options.seeds, &options.replay) {
        _ if options.minimise.is_some() => {
            vec!["--minimise".to_owned(), options.minimise.unwrap_or_default().to_string()]
        }
        (Some(seed), ..) => vec!["--seed".to_owned(), seed.to_string()],
        (None, None, Some(file)) => vec!["--replay".to_owned(), file.display().to_string()],
        (None, seeds, _) => {
            let seeds = seeds.unwrap_or(LONG_SEEDS);
            let covers = if seeds >= GATE_SEEDS { "yes" } else { "no" };
            let (seeds, from) = (seeds.to_string(), options.from.to_string());
            ["--seeds", &seeds, "--from", &from, "--cover", covers].map(str::to_owned).to_vec()
        }
    };
    if let Some(threads) = options.threads {
        args.extend(["--threads".to_owned(), threads.to_string()]);
    }
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["run", "--quiet", "--package", "hopcache-sim"]).args(SIMULATION);
    finish(command.arg("--").args(args), "the simulator")
}

/// The gate's seeds.
pub(crate) fn gate(root: &Path) -> Result<()> {
    let options = Options {
        seed: None,
        seeds: Some(GATE_SEEDS),
        from: 0,
        replay: None,
        minimise: None,
        seeded: false,
        threads: None,
    };
    run(root, &options)
}
