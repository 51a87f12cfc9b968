//! Runs other programs to their end, and finds out whether a program is installed. This module decides nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs the command to its end without standard input. Errors call the command `what`.
///
/// `cargo xtask` runs in the environment of its own package. A build script that asks for it (ring's does) would run again after each
/// build that somebody starts by hand, and all that depends on it would be built again.
pub(crate) fn finish(command: &mut Command, what: &str) -> Result<()> {
    let is_own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_own)) {
        command.env_remove(name);
    }
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("could not start {what}"))?;
    if !status.success() {
        bail!("{what} ended with {status}");
    }
    Ok(())
}

/// Whether the program is installed and runs.
pub(crate) fn answers(program: &Path) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The simulator's profile. It builds faster than `release`, and its programs run faster than those of `dev` (0.25 s a
/// seed).
pub(crate) const SIMULATION: [&str; 2] = ["--profile", "simulation"];

/// The folder that cargo builds into.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into)
}

/// The target triple that cargo builds for by default.
pub(crate) fn host() -> Result<String> {
    rustc_tells("host")
}

/// What `rustc -vV` says of this.
pub(crate) fn rustc_tells(what: &str) -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("could not start rustc")?;
    let about = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = about.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
    told.map(str::to_owned).with_context(|| format!("rustc -vV does not say its {what}"))
}
