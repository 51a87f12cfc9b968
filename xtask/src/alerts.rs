//! `cargo xtask alerts`: `promtool` checks and tests the alert rules under `cluster/prometheus`.
//!
//! Uses the `promtool` on the path. Without one, unpacks the distribution's package into `target/tools`: installing the
//! package would start a Prometheus server. This module never starts a server.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{answers, finish};
use crate::services::install;

const RULES: &str = "cluster/prometheus";
const PACKAGE: &str = "prometheus";

/// Checks the rules and the example's configuration, and runs the rules' tests.
pub(crate) fn run(root: &Path) -> Result<()> {
    let promtool = program(root, "promtool")?;
    for arguments in [
        ["check", "rules", "alerts.yml"].as_slice(),
        &["check", "config", "prometheus.yml"],
        // `cluster.yml` names a token file that exists only in the container.
        &["check", "config", "--syntax-only", "cluster.yml"],
        &["test", "rules", "alerts_test.yml"],
    ] {
        let mut command = Command::new(&promtool);
        finish(command.current_dir(root.join(RULES)).args(arguments), "promtool")?;
    }
    Ok(())
}

/// The path of `promtool` or `prometheus`.
pub(crate) fn program(root: &Path, name: &str) -> Result<PathBuf> {
    if let Some(program) = install::path_of(name) {
        return Ok(program);
    }
    let folder = root.join("target/tools/prometheus");
    let program = folder.join("usr/bin").join(name);
    if !answers(&program) {
        unpack(&folder).with_context(|| {
            format!(
                "{name} is missing. Debian and Ubuntu: `sudo apt-get install prometheus` (this starts a server too), \
                 or put {name} on the path"
            )
        })?;
    }
    Ok(program)
}

fn unpack(folder: &Path) -> Result<()> {
    println!("unpacking the package {PACKAGE} into target/tools (once)");
    let apt =
        |arguments: &[&str]| finish(Command::new("apt-get").current_dir(folder).args(arguments), "apt-get");
    let download = || apt(&["download", "-qq", PACKAGE]);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if download().is_err() {
        // A fresh image has no package lists, and only root can fetch them.
        apt(&["update", "-qq"])?;
        download()?;
    }
    let files = std::fs::read_dir(folder).context("cannot list the download")?;
    let mut packages = files.filter_map(|file| Some(file.ok()?.path()));
    let package = packages
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get downloaded nothing")?;
    finish(Command::new("dpkg").arg("--extract").arg(&package).arg(folder), "dpkg")?;
    std::fs::remove_file(&package).with_context(|| format!("cannot remove {}", package.display()))
}
