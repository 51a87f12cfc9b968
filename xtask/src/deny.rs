//! cargo-deny: licences, bans and sources of every dependency.
//!
//! Uses the one on the path, else builds one into `target/tools`. Advisories are not checked here: their database is
//! fetched over the network on every run, and the gate must pass without it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command::answers;

/// The checks that need nothing but the lock file and the sources cargo has.
pub(crate) const CHECKS: &[&str] = &["--all-features", "check", "bans", "licenses", "sources"];

/// Where cargo-deny is; builds it when it is nowhere.
pub(crate) fn program(root: &Path) -> Result<PathBuf> {
    if answers(Path::new("cargo-deny")) {
        return Ok(PathBuf::from("cargo-deny"));
    }
    let tools = root.join("target/tools");
    let program = tools.join("bin/cargo-deny");
    if !answers(&program) {
        build(&tools)?;
    }
    Ok(program)
}

/// A debug build without debug information: it runs for a second and is built once per machine.
fn build(tools: &Path) -> Result<()> {
    println!("cargo-deny: not found, building it into target/tools (once)");
    let status = Command::new("cargo")
        .args(["install", "cargo-deny", "--locked", "--debug", "--root"])
        .arg(tools)
        .arg("--target-dir")
        .arg(tools.join("build"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .stdin(Stdio::null())
        .status()
        .context("could not start cargo")?;
    if !status.success() {
        bail!("cargo-deny could not be built: install it by hand (`cargo install cargo-deny --locked`)");
    }
    Ok(())
}
