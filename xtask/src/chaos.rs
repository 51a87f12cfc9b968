//! `cargo xtask chaos`: builds hopcache and the trials, then runs a schedule of faults on real processes.
//!
//! This module decides what is built and started. It does not decide which faults happen or how a run is judged.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::{finish, target};
use crate::services::install;

/// Seed of the gate: every run of the gate has the same faults in the same order.
const GATE_SEED: u64 = 1;
/// Minimum seconds of faults in the gate. Start and calm add about 15 seconds.
const GATE_SECONDS: u64 = 20;
/// Seconds of faults in the gate's negative control.
const CONTROL_SECONDS: u64 = 5;

/// Requests per second in the gate: debug builds on two slow cores can answer this rate during faults.
const GATE_RATE: u32 = 120;
/// Requests per second in the negative control: each key is asked for several times within its TTL.
const CONTROL_RATE: u32 = 200;

const RELEASE_BUILD: &[&str] =
    &["build", "--release", "--package", "hopcache", "--package", "hopcache-trials"];
/// Builds the whole workspace, because the gate has built it already with the same features. Building only these
/// packages selects other features and builds most dependencies again.
const DEBUG_BUILD: &[&str] =
    &["build", "--workspace", "--bin", "hopcache", "--bin", "hopcache-trials", "--test", "e2e"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seed of the faults, keys and times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Minutes of faults.
    #[arg(long, default_value_t = 20, conflicts_with = "seconds")]
    minutes: u64,
    /// Seconds of faults instead of minutes. Faults follow each other faster.
    #[arg(long)]
    seconds: Option<u64>,
    /// Number of nodes, 3 to 5.
    #[arg(long, default_value_t = 3)]
    nodes: u8,
    /// Requests per second.
    #[arg(long, default_value_t = 200)]
    rate: u32,
    /// Fail unless every fault happened, and every promise was judged at a time without an excuse. Always on from ten
    /// minutes.
    #[arg(long)]
    thorough: bool,
    /// Negative control: reads forbid sharing. Chaos fails unless it finds that I1 is broken.
    #[arg(long)]
    control: bool,
    /// Use debug builds, as the gate does.
    #[arg(long)]
    debug: bool,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    programs()?;
    let mut build = Command::new("cargo");
    build.current_dir(root).args(if options.debug { DEBUG_BUILD } else { RELEASE_BUILD });
    finish(&mut build, "the build")?;
    let profile = if options.debug { "debug" } else { "release" };
    let mut chaos = Command::new(target(root).join(profile).join("hopcache-trials"));
    chaos.current_dir(root).args(["chaos", "--seed", &options.seed.to_string()]);
    match options.seconds {
        Some(seconds) => chaos.args(["--seconds", &seconds.to_string()]),
        None => chaos.args(["--minutes", &options.minutes.to_string()]),
    };
    chaos.args(["--nodes", &options.nodes.to_string(), "--rate", &options.rate.to_string()]);
    if options.thorough {
        chaos.arg("--thorough");
    }
    if options.control {
        chaos.args(["--control", "--out", "target/chaos-control"]);
    }
    finish(&mut chaos, "chaos")
}

/// Installs or checks the programs that cause faults. Only root can use iptables. Without root there are no cuts, and
/// the report says so.
pub(crate) fn programs() -> Result<()> {
    install::missing(&[install::KILL, install::REDIS])?;
    install::missing(if install::is_root() { &[install::IPTABLES] } else { &[] })
}

/// The gate's part: each fault happens at least once, and each promise is judged. Then runs the negative control, where
/// chaos has to find that I1 is broken.
pub(crate) fn gate(root: &Path) -> Result<()> {
    let (seed, nodes, rate) = (GATE_SEED, 3, GATE_RATE);
    let seconds = Some(GATE_SECONDS);
    let whole =
        Options { seed, minutes: 0, seconds, nodes, rate, debug: true, thorough: true, control: false };
    run(root, &whole)?;
    let seconds = Some(CONTROL_SECONDS);
    run(root, &Options { seconds, rate: CONTROL_RATE, thorough: false, control: true, ..whole })
}
