//! The steps of a lane: runs each, and prints its time and whether it failed. A failed step never ends the lane.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// A step that has ended.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) elapsed: Duration,
    pub(super) failure: Option<String>,
    /// Whether the step ran beside other steps.
    pub(super) is_beside: bool,
}

impl Step {
    fn verdict(&self) -> String {
        let seconds = self.elapsed.as_secs_f64();
        match &self.failure {
            None => format!("== {}: ok, {seconds:.1} s", self.name),
            Some(failure) => format!("== {}: FAILED, {seconds:.1} s: {failure}", self.name),
        }
    }
}

pub(super) fn step(name: &'static str, work: impl FnOnce() -> Result<()>) -> Step {
    println!("\n== {name}");
    let start = Instant::now();
    let failure = work().err().map(|error| format!("{error:#}"));
    let step = Step { name, elapsed: start.elapsed(), failure, is_beside: false };
    println!("{}", step.verdict());
    step
}

/// Prints the output of a step that ran beside others, then its verdict.
pub(super) fn ended_beside(
    name: &'static str,
    elapsed: Duration,
    output: &str,
    failure: Option<String>,
) -> Step {
    let step = Step { name, elapsed, failure, is_beside: true };
    println!("\n== {name} (beside the steps above)\n{}\n{}", output.trim_end(), step.verdict());
    step
}

/// Prints all steps with their times. The error names the steps that failed.
pub(super) fn summary(steps: &[Step], whole: Duration) -> Result<()> {
    println!("\n== summary");
    for step in steps {
        let verdict = if step.failure.is_none() { "ok" } else { "FAILED" };
        let beside = if step.is_beside { "  (beside others)" } else { "" };
        println!("{:>8.1} s  {verdict:<6}  {}{beside}", step.elapsed.as_secs_f64(), step.name);
    }
    println!("{:>8.1} s  in all", whole.as_secs_f64());
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
        assert_eq!(summary(&steps, Duration::ZERO).unwrap_err().to_string(), "failed: bad");
        assert!(summary(&steps[..1], Duration::ZERO).is_ok());
    }

    #[test]
    fn a_failed_step_beside_others_fails_the_lane() {
        let steps = [ended_beside("far", Duration::ZERO, "text", Some("reason".to_owned()))];
        assert!(summary(&steps, Duration::ZERO).is_err());
    }
}
