//! The Docker Engine that container tests and the compose file run on: the one that answers, else one started here.
//!
//! `down` stops exactly the engine that `up` started. An engine that answered before is never stopped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{folder, install, process};

/// An engine is up in about a second; after a hard end it first tidies its old state.
const UP_MAX: Duration = Duration::from_secs(60);

/// Brings an engine up; whether it was started here and now.
pub(crate) fn up(root: &Path) -> Result<bool> {
    if let Some(version) = version() {
        println!("docker: running, engine {version}");
        return Ok(false);
    }
    install::missing(&[install::DOCKER, install::IPTABLES])?;
    if process::wait_until(Duration::from_secs(3), || version().is_some()).is_ok() {
        println!("docker: started by its package");
        return Ok(false);
    }
    let home = folder(root).join("docker");
    std::fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    let (pid_file, log) = (pid_file(root), home.join("dockerd.log"));
    // The engine refuses to start when its own pid file names a live process, as ours does by then.
    let own_pid_file = home.join("dockerd.pid").display().to_string();
    process::start("dockerd", &["--pidfile".to_owned(), own_pid_file], &pid_file, &log)?;
    let waited = process::wait_until(UP_MAX, || process::running(&pid_file).is_none() || version().is_some());
    if waited.is_err() || version().is_none() {
        process::stop("docker", &pid_file)?;
        bail!("dockerd did not come up (it needs root and mounted cgroups):\n{}", process::log_tail(&log));
    }
    println!("docker: started, engine {}", version().unwrap_or_default());
    Ok(true)
}

/// Stops the engine that `up` started, and with it whatever still runs on it.
pub(crate) fn down(root: &Path) -> Result<()> {
    if !pid_file(root).exists() {
        return Ok(());
    }
    process::stop("docker", &pid_file(root))
}

fn pid_file(root: &Path) -> PathBuf {
    folder(root).join("docker/pid")
}

/// The version of the engine that answers.
fn version() -> Option<String> {
    let output = Command::new("timeout")
        .args(["5", "docker", "version", "--format", "{{.Server.Version}}"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
