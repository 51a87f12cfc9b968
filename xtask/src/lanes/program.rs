//! One test program: how it is started, and what libtest's lines say.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// A built test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// The name for people: `hopcache-core ring`.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The folder that cargo starts a test in: the folder of the package's manifest.
    pub(super) folder: PathBuf,
}

/// A run of a program.
pub(super) struct Ran {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) failed_tests: Vec<String>,
    pub(super) is_success: bool,
}

impl Program {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        Self { name: name.to_owned(), path: PathBuf::new(), folder: PathBuf::new() }
    }

    pub(super) fn run(
        &self,
        args: &[String],
        variables: &[(&str, String)],
        print: &mut dyn FnMut(&str),
    ) -> Result<Ran> {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).args(args);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.env("CARGO_MANIFEST_DIR", &self.folder).stdin(Stdio::null()).stdout(Stdio::piped());
        // libtest writes its results to the standard output, and a failed test's there as well.
        let mut child =
            command.spawn().with_context(|| format!("could not start {}", self.path.display()))?;
        let output = child.stdout.take().context("a test program has no output")?;
        let (mut passed, mut failed, mut failed_tests) = (0, 0, Vec::new());
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context("a test's output cannot be read")?;
            let line = String::from_utf8_lossy(&line);
            print(&line);
            failed_tests.extend(failed_test(&line).map(str::to_owned));
            if let Some(more) = result(&line) {
                passed += more.0;
                failed += more.1;
            }
        }
        let status = child.wait().context("a test program was lost")?;
        Ok(Ran { passed, failed, failed_tests, is_success: status.success() })
    }
}

/// Reads `test result: ok. 12 passed; 0 failed; …`.
fn result(line: &str) -> Option<(usize, usize)> {
    let figures = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let figure = |word: &str| {
        figures
            .split("; ")
            .find_map(|part| part.strip_suffix(word))
            .and_then(|number| number.trim().parse().ok())
    };
    Some((figure(" passed")?, figure(" failed")?))
}

/// The test's name in libtest's line `test NAME ... FAILED`.
fn failed_test(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    (!name.is_empty() && !name.contains(' ')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_libtest_are_counted() {
        let line =
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.27s";
        assert_eq!(result(line), Some((12, 0)));
        assert_eq!(result("test result: FAILED. 1 passed; 2 failed; 0 ignored"), Some((1, 2)));
        assert_eq!(result("test a ... ok"), None);
    }

    #[test]
    fn only_a_failed_tests_own_line_names_it() {
        assert_eq!(failed_test("test joining::a_node ... FAILED"), Some("joining::a_node"));
        for line in [
            "test joining::a_node ... ok",
            "test result: FAILED. 1 passed; 1 failed",
            "FAILED",
            "test  ... FAILED",
        ] {
            assert_eq!(failed_test(line), None, "{line}");
        }
    }
}
