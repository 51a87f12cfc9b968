//! `cargo xtask test`: the gate, as `.ci/run` calls it.
//!
//! Every step runs even when an earlier one failed, so that one run tells everything. Services that ran before stay;
//! those started here are stopped, also after a failure.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::command::finish;
use crate::services::engine;
use crate::{alerts, chaos, compose, deny, images, services, sim, tidy};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything.
    Full,
    /// Nothing that needs a service, a download or a long build.
    Quick,
}

/// How libtest is told how many tests of a binary run at a time, where no argument says so.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
/// As many as that, also where there are fewer processors, of which it would else take the number: the longest tests wait for
/// processes, deadlines and lapses, and use a quarter of one.
const TESTS_AT_A_TIME_MIN: usize = 4;

struct Step {
    name: &'static str,
    elapsed: Duration,
    failure: Option<String>,
}

pub(crate) fn run(root: &Path, scope: Scope, args: &[String]) -> Result<()> {
    let mut steps = static_checks(root);
    match scope {
        Scope::Quick => steps.push(step("unit tests", || {
            cargo(root, &with_args(&["test", "--workspace", "--lib", "--exclude", "hopcache"], args), &[])
        })),
        Scope::Full => full(root, args, &mut steps),
    }
    summary(&steps)
}

fn static_checks(root: &Path) -> Vec<Step> {
    vec![
        step("fmt", || cargo(root, &["fmt", "--all", "--check"], &[])),
        step("tidy", || tidy::run(root)),
        step("clippy", || {
            cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
        }),
    ]
}

fn full(root: &Path, args: &[String], steps: &mut Vec<Step>) {
    steps.push(step("cargo-deny", || {
        println!("advisories are not checked: their database is fetched over the network");
        let program = deny::program(root)?;
        finish(Command::new(program).current_dir(root).args(deny::CHECKS), "cargo-deny")
    }));
    steps.push(step("doc", || {
        cargo(root, &["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
    }));
    steps.push(step("alert rules", || alerts::run(root)));
    steps.push(step("simulator", || sim::gate(root)));
    let ran_before = services::any_running(root);
    let mut environment = None;
    steps.push(step("services up", || services::up(root).map(|found| environment = Some(found))));
    // An engine that answers already brings none of them.
    steps.push(step("programs", || {
        chaos::programs().and_then(|()| services::install::missing(&[services::install::HAPROXY]))
    }));
    let mut started_engine = false;
    steps.push(step("docker engine", || engine::up(root).map(|started| started_engine = started)));
    // Without them tests/containers fails and says so; all other tests still tell what they have to tell.
    steps.push(step("images", || images::make(root, images::FOR_TESTS, images::Form::Quick)));
    steps.push(step("compose file", || {
        images::make(root, images::ALL, images::Form::Quick).and_then(|()| compose::validate::validate(root))
    }));
    // Without services every test that needs one would fail with the same words.
    if let Some(environment) = &environment {
        steps.push(step("tests", || {
            let threads = test_threads().to_string();
            let mut variables = environment.variables();
            variables.push((TEST_THREADS, &threads));
            cargo(root, &with_args(&["test", "--workspace", "--no-fail-fast"], args), &variables)
        }));
    }
    steps.push(step("chaos", || chaos::gate(root)));
    if started_engine {
        steps.push(step("docker engine down", || engine::down(root)));
    }
    if !ran_before {
        steps.push(step("services down", || services::down(root)));
    }
}

fn test_threads() -> usize {
    let told = std::env::var(TEST_THREADS).ok().and_then(|text| text.parse().ok());
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    told.unwrap_or_else(|| processors().max(TESTS_AT_A_TIME_MIN))
}

fn with_args<'a>(command: &[&'a str], args: &'a [String]) -> Vec<&'a str> {
    let mut all = command.to_vec();
    if !args.is_empty() {
        all.push("--");
        all.extend(args.iter().map(String::as_str));
    }
    all
}

fn step(name: &'static str, work: impl FnOnce() -> Result<()>) -> Step {
    println!("\n== {name}");
    let start = Instant::now();
    let failure = work().err().map(|error| format!("{error:#}"));
    let elapsed = start.elapsed();
    match &failure {
        None => println!("== {name}: ok, {:.1} s", elapsed.as_secs_f64()),
        Some(failure) => println!("== {name}: FAILED, {:.1} s: {failure}", elapsed.as_secs_f64()),
    }
    Step { name, elapsed, failure }
}

fn cargo(root: &Path, args: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    finish(Command::new("cargo").current_dir(root).args(args).envs(variables.iter().copied()), "cargo")
}

fn summary(steps: &[Step]) -> Result<()> {
    println!("\n== summary");
    for step in steps {
        let verdict = if step.failure.is_none() { "ok" } else { "FAILED" };
        println!("{:>8.1} s  {verdict:<6}  {}", step.elapsed.as_secs_f64(), step.name);
    }
    let failed: Vec<&str> =
        steps.iter().filter(|step| step.failure.is_some()).map(|step| step.name).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_step_fails_the_lane_and_is_named() {
        let steps = [step("good", || Ok(())), step("bad", || bail!("reason"))];
        assert_eq!(summary(&steps).unwrap_err().to_string(), "failed: bad");
        assert!(summary(&steps[..1]).is_ok());
    }
}
