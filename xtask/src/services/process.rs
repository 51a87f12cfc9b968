//! Detached processes: they inherit no descriptors, have a pid file, and are stopped by pid.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const POLL: Duration = Duration::from_millis(100);
const STOP_MAX: Duration = Duration::from_secs(15);

/// Closes every descriptor above 2 and becomes the program, in its own session. A server that kept a caller's lock file
/// or pipe open would block that caller until the server ends.
const LAUNCHER: &str = r#"
echo $$ >"$0.new" && mv "$0.new" "$0"
for fd in /proc/self/fd/*; do
  fd=${fd##*/}
  if [ "$fd" -gt 2 ]; then eval "exec $fd>&-"; fi
done
exec "$@""#;

/// Starts `program` detached. Its pid goes to `pid_file`, its output to `log`.
pub(crate) fn start(program: &str, arguments: &[String], pid_file: &Path, log: &Path) -> Result<()> {
    let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let errors = output.try_clone().context("cannot share the log file")?;
    remove(pid_file)?;
    let mut child = Command::new("setsid")
        .args(["--fork", "bash", "-c", LAUNCHER])
        .arg(pid_file)
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .context("could not start setsid (package util-linux)")?;
    let status = child.wait().context("setsid was lost")?;
    if !status.success() {
        bail!("setsid ended with {status}; see {}", log.display());
    }
    wait_until(Duration::from_secs(5), || running(pid_file).is_some())
        .with_context(|| format!("{program} did not start; see {}", log.display()))
}

/// The pid in `pid_file`, if that process is still the one that was started.
///
/// The kernel may give the pid to another process. So the process counts only if its command line contains the folder
/// of the pid file, as the arguments of all our services do.
pub(crate) fn running(pid_file: &Path) -> Option<u32> {
    let pid: u32 = std::fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let folder = pid_file.parent()?.to_str()?;
    String::from_utf8_lossy(&command_line).contains(folder).then_some(pid)
}

/// Stops the process of `pid_file`: sends TERM, and KILL after a bounded wait. Does nothing if it does not run.
pub(crate) fn stop(name: &str, pid_file: &Path) -> Result<()> {
    let Some(pid) = running(pid_file) else {
        return remove(pid_file);
    };
    signal("-TERM", pid)?;
    if wait_until(STOP_MAX, || running(pid_file).is_none()).is_err() {
        println!("{name}: pid {pid} ignored TERM for {} s, killing it", STOP_MAX.as_secs());
        signal("-KILL", pid)?;
        wait_until(STOP_MAX, || running(pid_file).is_none()).with_context(|| format!("pid {pid} stays"))?;
    }
    println!("{name}: stopped pid {pid}");
    remove(pid_file)
}

/// Polls `done` until it holds or `deadline` has passed.
pub(crate) fn wait_until(deadline: Duration, done: impl Fn() -> bool) -> Result<()> {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > deadline {
            bail!("not within {} s", deadline.as_secs());
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// A port that nobody listens on now. Another process may take it before the service does; then the service fails to
/// start, and `up` can be run again.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port on loopback")?;
    Ok(listener.local_addr()?.port())
}

/// The last lines of a log, for an error message.
pub(crate) fn log_tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Sends `signal` (`-KILL`, `-STOP` …).
pub(crate) fn signal(signal: &str, pid: u32) -> Result<()> {
    // The shell's built-in `kill`, because not every machine has the program.
    let kill = ["-c", "kill \"$0\" \"$1\"", signal, &pid.to_string()];
    Command::new("sh").args(kill).status().context("could not run sh")?;
    Ok(())
}

/// Makes a script for a test. A shell writes the file, not this process. Otherwise: this process has the file open for
/// writing · another test's thread forks · the child holds the file open until its exec · the script cannot run ("text
/// file busy").
#[cfg(test)]
pub(super) fn script(path: &Path, text: &str) {
    let write = "printf '%s' \"$1\" >\"$0\" && chmod 755 \"$0\"";
    let status =
        Command::new("sh").args(["-c", write]).arg(path).arg(format!("#!/bin/sh\n{text}\n")).status();
    assert!(status.unwrap().success());
}

fn remove(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}
