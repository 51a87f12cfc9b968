//! `cargo xtask bench` and `cargo xtask trials`: hopcache and the program that drives it, both built as they are published (profile
//! `dist`), then one benchmark or one trial.
//!
//! It decides what is built and started; the arguments are the program's own.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::finish;

/// Measures.
pub(crate) const BENCHMARKS: &str = "hopcache-bench";
/// Judges promises.
pub(crate) const TRIALS: &str = "hopcache-trials";

/// Builds hopcache and `program`, which starts the hopcache beside it, and runs `program`.
pub(crate) fn run(root: &Path, program: &str, args: &[String]) -> Result<()> {
    let mut build = Command::new("cargo");
    build.current_dir(root).args([
        "build",
        "--profile",
        "dist",
        "--package",
        "hopcache",
        "--package",
        program,
    ]);
    finish(&mut build, "the build")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let file = target.join("dist").join(program);
    finish(Command::new(file).current_dir(root).args(args), program)
}
