//! The Docker Engine of container tests and the compose file: an engine that already answers, or one that xtask starts.
//!
//! `down` stops only the engine that `up` started. It never stops an engine that answered before, or one that a package
//! starts.
//!
//! The engine uses the usual socket and data folder (`/var/lib/docker`), for three reasons: clients find it without
//! configuration, work trees share images of gigabytes, and the file system of `target` may not support overlay layers.
//! So images outlast `down`; `docker image prune -a` removes them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{folder, install, process};

/// Longest start. The engine starts in about a second; after a kill it first cleans up its old state.
const UP_MAX: Duration = Duration::from_secs(60);
/// Longest wait for the service of a package that was just installed.
const PACKAGE_STARTS_MAX: Duration = Duration::from_secs(3);

/// Starts an engine if none answers. Returns whether it started one.
pub(crate) fn up(root: &Path) -> Result<bool> {
    if let Some(version) = version() {
        println!("docker: running, engine {version}");
        return Ok(false);
    }
    install::docker()?;
    // Two engines cannot share a data folder: the second ends at once, without an error that names the first.
    let starts_by_itself = process::wait_until(PACKAGE_STARTS_MAX, || version().is_some()).is_ok()
        || (is_starting()
            && process::wait_until(UP_MAX, || version().is_some() || !is_starting()).is_ok()
            && version().is_some());
    if starts_by_itself {
        println!("docker: started by its package");
        return Ok(false);
    }
    let home = folder(root).join("docker");
    std::fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    let (pid_file, log) = (home.join("pid"), home.join("dockerd.log"));
    // The engine refuses to start if its own pid file names a live process, and our process may have that pid by
    // then.
    let own_pid_file = home.join("dockerd.pid").display().to_string();
    process::start("dockerd", &["--pidfile".to_owned(), own_pid_file], &pid_file, &log)
        .with_context(|| process::log_tail(&log))?;
    let ended = || process::running(&pid_file).is_none();
    let waited = process::wait_until(UP_MAX, || ended() || version().is_some());
    match version() {
        // Our engine has ended because another one answers. The other one is not ours to stop.
        Some(version) if waited.is_ok() && !ended() => {
            println!("docker: started, engine {version}");
            Ok(true)
        }
        _ => {
            process::stop("docker", &pid_file)?;
            bail!("dockerd did not come up (it needs root and mounted cgroups):\n{}", process::log_tail(&log))
        }
    }
}

/// Whether the engine that `up` started is running.
pub(crate) fn is_ours(root: &Path) -> bool {
    process::running(&folder(root).join("docker/pid")).is_some()
}

/// Stops the engine that `up` started, and all its containers.
pub(crate) fn down(root: &Path) -> Result<()> {
    let pid_file = folder(root).join("docker/pid");
    if pid_file.exists() { process::stop("docker", &pid_file) } else { Ok(()) }
}

/// Whether an engine runs that xtask did not start. It may not answer yet.
fn is_starting() -> bool {
    let pid = std::fs::read_to_string("/var/run/docker.pid").unwrap_or_default();
    let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.trim())).unwrap_or_default();
    !pid.trim().is_empty() && name.trim() == "dockerd"
}

/// The version of the engine that answers.
fn version() -> Option<String> {
    let mut client = Command::new("timeout");
    client.args(["5", "docker", "version", "--format", "{{.Server.Version}}"]).stdin(Stdio::null());
    let output = client.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
