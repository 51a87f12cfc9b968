//! The lanes `cargo xtask check`, `test --quick` and `test`. `test` is the gate, which `.ci/run` calls.
//!
//! Every step runs even if an earlier step failed, so that one run reports everything. The gate stops the services that
//! it started, also after a failure. Services that ran before stay.
//!
//! | module | decides |
//! |---|---|
//! | [`steps`] | the output of a step, and the summary |
//! | [`beside`] | how a step runs beside others |
//! | [`program`] | how a test program is started and read |
//! | [`programs`] | which test programs there are, and how many tests ran |
//! | [`second_run`] | which failed tests run again, alone |
//! | [`gate`] | the gate's order |

mod beside;
mod gate;
mod program;
mod programs;
mod second_run;
mod steps;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::command::finish;
use crate::{alerts, book, chaos, compose, deny, helm, seeded, sim, systemd, tidy};
use steps::{Step, step};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Formatting, this repository's rules, and lints.
    Check,
    /// `Check`, and every test that needs no service.
    Quick,
    /// Every step.
    Gate,
}

/// A step of the gate that runs by itself.
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
    Chaos,
}

/// Test targets that need Redis, Neo4j, a Docker Engine or HAProxy. `cargo xtask test --quick` runs all others.
const WITH_SERVICES: [(&str, &str); 15] = [
    ("hopcache", "cluster"),
    ("hopcache", "console"),
    ("hopcache", "containers"),
    ("hopcache", "differential"),
    ("hopcache", "drivers"),
    ("hopcache", "faults"),
    ("hopcache", "freshness"),
    ("hopcache", "membership"),
    ("hopcache", "oracle"),
    ("hopcache", "prefetch"),
    ("hopcache", "with_services"),
    ("hopcache-bolt", "contract"),
    ("hopcache-core", "shared_real"),
    ("hopcache-queryapi", "differential"),
    ("hopcache-tags", "oracle"),
];

/// `args` go to the test programs.
pub(crate) fn run(root: &Path, scope: Scope, args: &[String]) -> Result<()> {
    let start = Instant::now();
    let mut steps = Vec::new();
    match scope {
        Scope::Check => check(root, &mut steps),
        Scope::Quick => {
            check(root, &mut steps);
            quick(root, args, &mut steps);
        }
        Scope::Gate => gate::run(root, args, &mut steps)?,
    }
    steps::summary(&steps, start.elapsed())
}

pub(crate) fn single(root: &Path, which: Single) -> Result<()> {
    match which {
        Single::Clippy => clippy(root),
        Single::CargoDeny => deny::run(root),
        Single::SystemdUnit => systemd::run(root),
        Single::HelmChart => helm::run(root),
        Single::Doc => doc(root),
        Single::Book => book::run(root),
        Single::AlertRules => alerts::run(root),
        Single::Simulator => sim::gate(root),
        Single::Seeded => seeded::prove(root),
        Single::ComposeFile => compose::validate::validate(root),
        Single::Programs => gate::programs_that_hurt(),
        Single::Chaos => chaos::gate(root),
    }
}

fn check(root: &Path, steps: &mut Vec<Step>) {
    steps.push(fmt(root));
    steps.push(step("tidy", || tidy::run(root)));
    steps.push(step("clippy", || clippy(root)));
}

fn quick(root: &Path, args: &[String], steps: &mut Vec<Step>) {
    let mut built = Vec::new();
    steps.push(step("build", || {
        built = programs::build(root, &tests_without_services(root)?)?;
        Ok(())
    }));
    if !built.is_empty() {
        steps.push(step("tests without services", || programs::run(&built, args, &[]).map(|_| ())));
    }
}

/// Selects the features of the whole workspace, as the gate's build does. Other packages would select other features,
/// and cargo would build most dependencies twice.
fn tests_without_services(root: &Path) -> Result<Vec<String>> {
    let mut command: Vec<String> =
        ["test", "--no-run", "--workspace", "--lib", "--bins"].map(str::to_owned).to_vec();
    for name in programs::targets_without_services(root, &WITH_SERVICES)? {
        command.extend(["--test".to_owned(), name]);
    }
    Ok(command)
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

fn cargo(root: &Path, args: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    finish(Command::new("cargo").current_dir(root).args(args).envs(variables.iter().copied()), "cargo")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::tests_without_services;

    /// A renamed test target would otherwise be noticed by `test --quick` only, which the gate does not run.
    #[test]
    fn every_target_that_needs_services_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert!(tests_without_services(&root).unwrap().contains(&"--test".to_owned()));
    }
}
