//! `cargo xtask bench` and `cargo xtask trials`: builds hopcache and the program that drives it with the published
//! profile (`release`), then runs one benchmark or one trial.
//!
//! This module decides what is built and started. It passes the arguments to the program unchanged.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::{finish, target};

/// The program that measures.
pub(crate) const BENCHMARKS: &str = "hopcache-bench";
/// The program that judges promises.
pub(crate) const TRIALS: &str = "hopcache-trials";

/// Builds hopcache and `program`, and runs `program`. `program` starts the hopcache that is built beside it.
pub(crate) fn run(root: &Path, program: &str, args: &[String]) -> Result<()> {
    let mut build = Command::new("cargo");
    build.current_dir(root).args(["build", "--release", "--package", "hopcache", "--package", program]);
    finish(&mut build, "the build")?;
    let file = target(root).join("release").join(program);
    finish(Command::new(file).current_dir(root).args(args), program)
}
