//! `cargo xtask bench`: hopcache and its benchmarks, both built as they are published (profile `dist`), then one benchmark.
//!
//! It decides what is built and started; the arguments are hopcache-bench's own.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::finish;

/// Hopcache-bench starts the hopcache beside it, so both are built.
const PACKAGES: [&str; 7] =
    ["build", "--profile", "dist", "--package", "hopcache", "--package", "hopcache-bench"];

/// … and the simulator where a benchmark starts that.
const SIMULATOR: [&str; 2] = ["--package", "hopcache-sim"];

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let mut build = Command::new("cargo");
    build.current_dir(root).args(PACKAGES);
    if args.iter().any(|arg| arg == "--simulated") {
        build.args(SIMULATOR);
    }
    finish(&mut build, "the build")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let program = target.join("dist/hopcache-bench");
    finish(Command::new(program).current_dir(root).args(args), "hopcache-bench")
}
