//! `cargo xtask chaos`: builds hopcache and the trials, then runs a schedule of faults on real processes.
//!
//! It decides what is built and started, nothing about what happens or how it is judged.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::finish;
use crate::services::install;

/// Seed of the gate: the same faults in the same order in each run.
const GATE_SEED: u64 = 1;
/// Seconds of faults in the gate, at least; with start and calm about 15 more.
const GATE_SECONDS: u64 = 20;
/// Of its negative control.
const CONTROL_SECONDS: u64 = 5;

/// Requests per second there: what debug builds on two slow cores take beside their faults.
const GATE_RATE: u32 = 120;
/// Of the negative control: enough that a key is asked for several times within its TTL.
const CONTROL_RATE: u32 = 200;

const RELEASE_BUILD: &[&str] =
    &["build", "--profile", "dist", "--package", "hopcache", "--package", "hopcache-trials"];
/// With the features of `cargo test --workspace`, which a test among the targets asks for: plain packages have others, and
/// most dependencies would be built a second time.
const DEBUG_BUILD: &[&str] =
    &["build", "--workspace", "--bin", "hopcache", "--bin", "hopcache-trials", "--test", "containers"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Of faults, keys and times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Minutes of faults.
    #[arg(long, default_value_t = 20, conflicts_with = "seconds")]
    minutes: u64,
    /// Seconds of them instead, in quick succession.
    #[arg(long)]
    seconds: Option<u64>,
    /// Nodes, three to five.
    #[arg(long, default_value_t = 3)]
    nodes: u8,
    /// Requests per second.
    #[arg(long, default_value_t = 200)]
    rate: u32,
    /// Fails unless every fault happened and every promise was judged where nothing excused it: always so from ten
    /// minutes on.
    #[arg(long)]
    thorough: bool,
    /// Negative control: reads forbid sharing, and chaos fails unless it finds I1 broken.
    #[arg(long)]
    control: bool,
    /// Debug builds, as the gate has them.
    #[arg(long)]
    debug: bool,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    programs()?;
    let mut build = Command::new("cargo");
    build.current_dir(root).args(if options.debug { DEBUG_BUILD } else { RELEASE_BUILD });
    finish(&mut build, "the build")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let profile = if options.debug { "debug" } else { "dist" };
    let mut chaos = Command::new(target.join(profile).join("hopcache-trials"));
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

/// Installs or checks the programs that cause faults. Only root can use iptables: without root there are no cuts, and the
/// report says so.
pub(crate) fn programs() -> Result<()> {
    install::missing(&[install::KILL, install::REDIS])?;
    install::missing(if install::is_root() { &[install::IPTABLES] } else { &[] })
}

/// The gate's part: each fault at least once, each promise judged; then the negative control, in which chaos has to find
/// I1 broken.
pub(crate) fn gate(root: &Path) -> Result<()> {
    let (seed, nodes, rate) = (GATE_SEED, 3, GATE_RATE);
    let seconds = Some(GATE_SECONDS);
    let whole =
        Options { seed, minutes: 0, seconds, nodes, rate, debug: true, thorough: true, control: false };
    run(root, &whole)?;
    let seconds = Some(CONTROL_SECONDS);
    run(root, &Options { seconds, rate: CONTROL_RATE, thorough: false, control: true, ..whole })
}
