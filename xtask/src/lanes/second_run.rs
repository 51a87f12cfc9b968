//! A second run, alone, for a few tests that failed beside the others.
//!
//! The lanes share one machine with lints, the simulator and each other. A test whose bound on time a busy machine broke
//! passes when nothing else runs, not even the steps beside the tests; a test that found a defect fails again. Each test that needed it is named at the end,
//! so that it is looked at: nothing is passed over in silence. More than [`SECOND_RUNS_MAX`] are no accident: then none
//! has a second run.

use super::program::Program;

/// Tests of one gate that may have a second run.
pub(super) const SECOND_RUNS_MAX: usize = 8;

/// A test that failed, in a program of a lane.
#[derive(Debug, Clone)]
pub(super) struct FailedTest {
    pub(super) program: Program,
    pub(super) name: String,
    /// The variables of the lane in which it failed.
    pub(super) variables: Vec<(&'static str, String)>,
}

/// Whether each of these programs that failed is explained by tests of which each may run again.
pub(super) fn may_run_again(failed_programs: usize, tests: &[FailedTest], failed_tests: usize) -> bool {
    let mut explained: Vec<&str> = tests.iter().map(|test| test.program.name()).collect();
    explained.dedup();
    // A program that crashed names no test, or not all.
    failed_programs > 0
        && explained.len() == failed_programs
        && tests.len() == failed_tests
        && tests.len() <= SECOND_RUNS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_failed_tests_run_again_and_a_crash_does_not() {
        let program = Program::named("node faults");
        let failed = |name: &str| FailedTest {
            program: program.clone(),
            name: name.to_owned(),
            variables: Vec::new(),
        };
        let few: Vec<_> = ["a", "b", "c"].map(failed).into();
        let many: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(failed).into();
        assert!(may_run_again(1, &few, 3));
        assert!(!may_run_again(1, &many, 9), "more than a machine's accident");
        assert!(!may_run_again(1, &[], 0), "a program that crashed");
        assert!(!may_run_again(2, &few, 3), "another program that crashed");
        assert!(!may_run_again(1, &few, 4), "a test whose line was not read");
        assert!(!may_run_again(0, &[], 0));
    }
}
