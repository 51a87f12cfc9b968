//! Processes under measurement: started, asked for their CPU time, and killed when dropped.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::http::Connection;
use crate::metrics::number_behind;

const SIGKILL: i32 = 9;

/// A child process that does not outlive its owner.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a command, its output into `log`.
    pub fn start(command: &mut Command, log: &Path) -> anyhow::Result<Self> {
        let file = std::fs::File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        Ok(Self { child })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL and returns the exit status. Fails if the process had already ended by itself.
    pub fn kill(mut self) -> anyhow::Result<ExitStatus> {
        self.child.kill()?;
        let status = self.child.wait()?;
        ensure!(status.signal() == Some(SIGKILL), "ended by itself before it was killed: {status}");
        Ok(status)
    }

    /// An error where it has ended.
    pub fn check_runs(&mut self, name: &str) -> anyhow::Result<()> {
        match self.ended()? {
            Some(status) => bail!("{name} ended by itself: {status}"),
            None => Ok(()),
        }
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// CPU time used so far, user and system, all threads.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_of(self.child.id())
    }
}

/// CPU time that a process on this machine has used so far, user and system, all threads. The kernel accounts it by the scheduler and
/// shows it in steps of 10 ms.
pub fn cpu_of(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Fields 14 and 15, counted behind the command's closing parenthesis (proc(5)).
    let (_, rest) = stat.rsplit_once(')').context("unreadable /proc stat")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// How often the kernel has switched away from a thread of a process.
pub fn switches_of(pid: u32) -> anyhow::Result<u64> {
    let mut switches = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may have ended meanwhile.
        let status = std::fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
        let counts = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
        switches += counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum::<u64>();
    }
    Ok(switches)
}

/// Number of commands that a Redis has processed, as it reports it.
pub fn redis_commands(addr: SocketAddr) -> anyhow::Result<u64> {
    let (ip, port) = (addr.ip().to_string(), addr.port().to_string());
    let output = Command::new("redis-cli").args(["-h", &ip, "-p", &port, "info", "stats"]).output()?;
    number_behind(&String::from_utf8_lossy(&output.stdout), "total_commands_processed:")
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::env::var_os(PROFILE_FILE).is_some() {
            self.end_by_itself();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Names the file into which an instrumented program writes what it counted, when it ends by itself (`cargo xtask pgo --train`).
const PROFILE_FILE: &str = "LLVM_PROFILE_FILE";
/// A node that is asked to leave ends within 5 s.
const END_MAX: Duration = Duration::from_secs(10);

impl Process {
    /// Sends SIGTERM, and waits for the end.
    fn end_by_itself(&mut self) {
        let deadline = Instant::now() + END_MAX;
        let _ = signal(self.id(), "TERM");
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Addresses of this machine that are free now.
pub fn free_addrs(ip: IpAddr, count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    // All are open at once, so that they differ.
    let listeners: Vec<_> =
        (0..count).map(|_| std::net::TcpListener::bind((ip, 0))).collect::<Result<_, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?)).collect()
}

/// Starts an empty `redis-server` on this address.
pub fn start_redis_at(addr: SocketAddr, dir: &Path) -> anyhow::Result<Process> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &addr.port().to_string(), "--bind", "127.0.0.1"]);
    command.args(["--save", "", "--appendonly", "no"]);
    Process::start(&mut command, &dir.join("redis.log"))
        .context("redis-server is needed: apt-get install redis-server")
}

/// Body of a GET that has to answer 2xx.
pub async fn get(addr: SocketAddr, path: &str) -> anyhow::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n");
    let answer = Connection::open(addr).await?.ask(request.as_bytes()).await?;
    if !(200..300).contains(&answer.status()) {
        bail!("GET {path} at {addr}: {}", answer.head);
    }
    Ok(String::from_utf8(answer.body)?)
}

/// Waits for an event in a process. Neo4j needs 4 to 7 s to start on two idle cores.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !done() {
        if Instant::now() > deadline {
            bail!("timed out after 120 s: {what}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The hopcache binary beside this one.
pub fn hopcache_binary() -> anyhow::Result<PathBuf> {
    let binary = std::env::current_exe()?.with_file_name("hopcache");
    if !binary.exists() {
        bail!("{} is missing: cargo build --release -p hopcache", binary.display());
    }
    Ok(binary)
}

/// Sends a signal; the state that the kernel shows of the process then, `T` being stopped.
pub fn signal(pid: u32, name: &str) -> anyhow::Result<String> {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status()?;
    if !status.success() {
        bail!("kill -{name} {pid}");
    }
    // The kernel stops a process' threads one by one.
    let deadline = Instant::now() + Duration::from_millis(500);
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let state = stat.rsplit_once(") ").map_or("?", |(_, rest)| rest.get(..1).unwrap_or("?"));
        if name != "STOP" || state == "T" {
            return Ok(format!("state {state}"));
        }
        ensure!(Instant::now() < deadline, "process {pid} got SIGSTOP and shows state {state}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A directory of one scene's own, which is removed with it unless `HOPCACHE_KEEP_CLUSTER` is set: then configuration and logs are
/// left for a look.
pub struct Dir(pub PathBuf);

impl Dir {
    /// An empty one.
    pub fn new() -> anyhow::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("hopcache-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let dir = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&dir.0)?;
        Ok(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if std::env::var_os("HOPCACHE_KEEP_CLUSTER").is_none() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Process {
        Process::start(Command::new("sh").args(["-c", script]), Path::new("/dev/null")).unwrap()
    }

    #[test]
    fn a_kill_counts_only_of_a_process_that_ran() {
        assert!(start("sleep 60").kill().is_ok());
        let mut crashed = start("exit 101");
        assert!(start("sleep 60").check_runs("it").is_ok());
        wait_until("it ends", || crashed.ended().unwrap().is_some()).unwrap();
        assert!(crashed.check_runs("it").unwrap_err().to_string().contains("101"));
        assert!(crashed.kill().unwrap_err().to_string().contains("101"));
    }

    #[test]
    fn a_stop_counts_only_where_the_kernel_shows_it() {
        let start =
            |script| Process::start(Command::new("sh").args(["-c", script]), Path::new("/dev/null")).unwrap();
        let runs = start("sleep 60");
        assert_eq!(signal(runs.id(), "STOP").unwrap(), "state T");
        // The process has ended and its parent has not waited for it: signals still reach it, and it never stops.
        let ended = start("exit 0");
        let is_zombie =
            || std::fs::read_to_string(format!("/proc/{}/stat", ended.id())).unwrap().contains(") Z");
        wait_until("it ends", is_zombie).unwrap();
        assert!(signal(ended.id(), "STOP").unwrap_err().to_string().contains("state Z"));
    }
}
