//! Running other programs, to their end, and whether they are there at all; and speaking to one that may have ended. It
//! decides nothing.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs to the end with no standard input. `what` is how an error calls it.
pub(crate) fn finish(command: &mut Command, what: &str) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("could not start {what}"))?;
    if !status.success() {
        bail!("{what} ended with {status}");
    }
    Ok(())
}

/// Whether the program is there and runs.
pub(crate) fn answers(program: &Path) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Writes to standard output. Whoever reads it (`head`) may have had enough: that is no error, and `print!` would panic.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write"),
        _ => Ok(()),
    }
}

/// The simulator's profile: faster than `dev`, of which a seed takes a quarter of a second, and built sooner than `release`.
pub(crate) const SIMULATION: [&str; 2] = ["--profile", "simulation"];

/// Where cargo builds.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into)
}
