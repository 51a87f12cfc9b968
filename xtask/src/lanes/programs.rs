//! Test programs: cargo builds them once, then this module runs them one after another, or in lanes, and counts their
//! tests.
//!
//! `cargo test` would take the build lock again before it runs them, and would wait for every other build.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::program::Program;
use super::second_run::{FailedTest, may_run_again};

/// Tests that ran.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) programs: usize,
}

/// Builds with cargo. Returns the test programs that cargo built, in cargo's order.
pub(super) fn build(root: &Path, args: &[String]) -> Result<Vec<Program>> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(args).arg("--message-format=json-render-diagnostics");
    let mut child =
        cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("could not start cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let mut programs = Vec::new();
    for line in BufReader::new(output).lines() {
        programs.extend(program(&line.context("cargo's output cannot be read")?));
    }
    let status = child.wait().context("cargo was lost")?;
    if !status.success() {
        bail!("cargo ended with {status}");
    }
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(programs)
}

/// Integration test targets of the workspace that are not in `with_services`, which lists package and target.
pub(super) fn targets_without_services(root: &Path, with_services: &[(&str, &str)]) -> Result<Vec<String>> {
    let output = Command::new("cargo")
        .current_dir(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("could not run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")?;
    without(&test_targets(&metadata), with_services)
}

/// Package and name of each integration test target.
fn test_targets(metadata: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            let is_test = target["kind"][0] == "test";
            if let (true, Some(package), Some(name)) =
                (is_test, package["name"].as_str(), target["name"].as_str())
            {
                found.push((package.to_owned(), name.to_owned()));
            }
        }
    }
    found
}

/// Fails if two packages have a target of the same name, one with services and one without: cargo selects targets by
/// name in all packages.
fn without(targets: &[(String, String)], with_services: &[(&str, &str)]) -> Result<Vec<String>> {
    let needs_services =
        |target: &(String, String)| with_services.contains(&(target.0.as_str(), target.1.as_str()));
    if let Some(gone) = with_services
        .iter()
        .find(|(package, name)| !targets.contains(&((*package).to_owned(), (*name).to_owned())))
    {
        bail!("{} has no test target {}: take it out of WITH_SERVICES", gone.0, gone.1);
    }
    let (with, without): (Vec<_>, Vec<_>) = targets.iter().partition(|target| needs_services(target));
    if let Some(both) = without.iter().find(|target| with.iter().any(|other| other.1 == target.1)) {
        bail!(
            "test target {} of {} needs no service, another target of that name does: rename one",
            both.1,
            both.0
        );
    }
    let mut names: Vec<String> = without.into_iter().map(|target| target.1.clone()).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// A test program from a line of cargo's output; nothing for any other line.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_str()?;
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let name = if kind == "test" { format!("{package} {target}") } else { format!("{package} ({kind})") };
    Some(Program { name, path: message["executable"].as_str()?.into(), folder })
}

/// Programs that run one after another with these variables, while other lanes run their own.
pub(super) struct Lane<'a> {
    pub(super) programs: Vec<&'a Program>,
    pub(super) variables: Vec<(&'static str, String)>,
}

/// Runs every program, also after one failed. Prints their output as it comes.
pub(super) fn run(
    programs: &[Program],
    args: &[String],
    variables: &[(&'static str, &str)],
) -> Result<Count> {
    let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned()));
    let mut outcome = Outcome::default();
    for program in programs {
        println!("\n-- {}", program.name);
        outcome.run(program, args, &variables.clone().collect::<Vec<_>>(), &mut |line| println!("{line}"))?;
    }
    outcome.told()
}

/// Runs the lanes beside each other. Prints the output of each program in one piece, when the program has ended.
pub(super) fn run_lanes(lanes: &[Lane<'_>], args: &[String]) -> Result<Outcome> {
    let run_lane = |lane: &Lane<'_>| -> Result<Outcome> {
        let mut outcome = Outcome::default();
        for program in &lane.programs {
            let mut output = format!("\n-- {}\n", program.name);
            let ran = outcome.run(program, args, &lane.variables, &mut |line| {
                output.push_str(line);
                output.push('\n');
            });
            print!("{output}");
            ran?;
        }
        Ok(outcome)
    };
    let outcomes = std::thread::scope(|scope| {
        let running: Vec<_> = lanes.iter().map(|lane| scope.spawn(|| run_lane(lane))).collect();
        let joined = running
            .into_iter()
            .map(|lane| lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect::<Result<Vec<_>>>()
    })?;
    Ok(outcomes.into_iter().fold(Outcome::default(), Outcome::with))
}

/// The results of some programs.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    count: Count,
    failed: Vec<String>,
    failed_tests: Vec<FailedTest>,
    /// Tests that failed beside others and passed alone.
    passed_alone: Vec<String>,
}

impl Outcome {
    fn run(
        &mut self,
        program: &Program,
        args: &[String],
        variables: &[(&'static str, String)],
        print: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let start = Instant::now();
        let ran = program.run(args, variables, print)?;
        let tests = ran.passed + ran.failed;
        print(&format!("-- {}: {tests} tests, {:.1} s", program.name, start.elapsed().as_secs_f64()));
        self.count.passed += ran.passed;
        self.count.failed += ran.failed;
        self.count.programs += 1;
        if !ran.is_success {
            self.failed.push(program.name.clone());
            let failed = |name| FailedTest { program: program.clone(), name, variables: variables.to_vec() };
            self.failed_tests.extend(ran.failed_tests.into_iter().map(failed));
        }
        Ok(())
    }

    pub(super) fn may_run_again(&self) -> bool {
        may_run_again(self.failed.len(), &self.failed_tests, self.count.failed)
    }

    /// Runs each failed test alone.
    pub(super) fn with_second_runs(mut self) -> Result<Self> {
        let mut failed_again = Vec::new();
        for test in &self.failed_tests {
            println!("\n-- {}, again and alone: {}", test.program.name, test.name);
            let args = [test.name.clone(), "--exact".to_owned()];
            let ran = test.program.run(&args, &test.variables, &mut |line| println!("{line}"))?;
            if ran.is_success && ran.passed == 1 {
                self.count.failed -= 1;
                self.count.passed += 1;
                self.passed_alone.push(format!("{} {}", test.program.name, test.name));
            } else {
                failed_again.push(test.program.name.clone());
            }
        }
        failed_again.dedup();
        self.failed = failed_again;
        Ok(self)
    }

    fn with(mut self, other: Self) -> Self {
        self.count.passed += other.count.passed;
        self.count.failed += other.count.failed;
        self.count.programs += other.count.programs;
        self.failed.extend(other.failed);
        self.failed_tests.extend(other.failed_tests);
        self
    }

    /// Says how many tests passed, and fails if one failed.
    pub(super) fn told(self) -> Result<Count> {
        let Count { passed, failed, programs } = self.count;
        println!("\n{passed} tests passed, {failed} failed, in {programs} programs");
        for test in &self.passed_alone {
            println!("failed beside the others, and passed alone: {test}");
        }
        if !self.failed.is_empty() {
            bail!("tests failed in: {}", self.failed.join(", "));
        }
        Ok(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_services_is_every_one_that_is_not_listed() {
        let targets = [("a", "ring"), ("a", "contract"), ("b", "ring")]
            .map(|(package, name)| (package.to_owned(), name.to_owned()));
        assert_eq!(without(&targets, &[("a", "contract")]).unwrap(), ["ring"]);
        assert!(without(&targets, &[("a", "gone")]).unwrap_err().to_string().contains("no test target gone"));
        assert!(without(&targets, &[("a", "ring")]).unwrap_err().to_string().contains("rename one"));
    }

    #[test]
    fn test_programs_are_found_among_cargos_messages() {
        let artifact = |test: bool, kind: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/core/Cargo.toml","target":{{"kind":["{kind}"],"name":"ring"}},"profile":{{"test":{test}}},"executable":"/w/target/ring-1"}}"#
            )
        };
        let found = program(&artifact(true, "test")).unwrap();
        assert_eq!((found.name.as_str(), found.folder.to_str()), ("core ring", Some("/w/crates/core")));
        assert_eq!(program(&artifact(true, "lib")).unwrap().name, "core (lib)");
        assert_eq!(program(&artifact(false, "bin")), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
