//! Processes under measurement: started, asked for their CPU time, and killed when dropped.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::http::Connection;

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

/// CPU time that a process on this machine has used so far, user and system, all threads.
pub fn cpu_of(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Fields 14 and 15, counted behind the command's closing parenthesis (proc(5)).
    let (_, rest) = stat.rsplit_once(')').context("unreadable /proc stat")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Addresses of one node.
#[derive(Debug, Clone, Copy)]
pub struct NodeAddrs {
    /// Clients.
    pub client: SocketAddr,
    /// Operators.
    pub admin: SocketAddr,
    /// Drivers.
    pub bolt: SocketAddr,
}

/// Addresses that are free now.
pub fn free_addrs(count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let listeners: Vec<_> =
        (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?)).collect()
}

/// A `redis-server` of this run's own, and its address.
pub fn start_redis(dir: &Path) -> anyhow::Result<(Process, SocketAddr)> {
    let addr = free_addrs(1)?[0];
    let process = start_redis_at(addr, dir)?;
    wait_until("redis answers", || std::net::TcpStream::connect(addr).is_ok())?;
    Ok((process, addr))
}

/// Starts an empty `redis-server` on this address.
pub fn start_redis_at(addr: SocketAddr, dir: &Path) -> anyhow::Result<Process> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &addr.port().to_string(), "--bind", "127.0.0.1"]);
    command.args(["--save", "", "--appendonly", "no"]);
    Process::start(&mut command, &dir.join("redis.log"))
        .context("redis-server is needed: apt-get install redis-server")
}

/// For benchmarks that count runs at the origin or bytes of entries: a prefetch adds a run and an entry that no client
/// asked for. `hit` measures with prefetch on, as users have it; trials always do.
pub const PREFETCH_OFF: &str = "[prefetch]\nenabled = false\n";

/// For nodes whose configuration names no Neo4j: `hopcache serve` serves the sample graph only with this setting.
const SAMPLE_GRAPH: &str = "\n[origin]\nuri = \"embedded:\"\n";

/// The parts that a benchmark's nodes share.
pub struct ClusterPlan<'a> {
    /// The hopcache binary.
    pub binary: &'a Path,
    /// Where configuration and logs go.
    pub dir: &'a Path,
    /// Lines of TOML that all nodes have, such as `[origin]` and `[store]`.
    pub common: &'a str,
    /// Further lines of `[node]`.
    pub node: &'a str,
}

/// Starts nodes that know each other and waits until each is ready and sees all of them.
pub async fn start_cluster(
    plan: &ClusterPlan<'_>,
    nodes: usize,
) -> anyhow::Result<Vec<(Process, NodeAddrs)>> {
    let addrs = free_addrs(nodes * 4)?;
    let key_file = plan.dir.join("cluster.key");
    std::fs::write(&key_file, "a benchmark's cluster key of 32 bytes or more")?;
    let seeds: Vec<String> = (0..nodes).map(|node| format!("\"{}\"", addrs[node * 4 + 1])).collect();
    let mut started = Vec::new();
    for node in 0..nodes {
        let [client, peer, admin, bolt] = [0, 1, 2, 3].map(|port| addrs[node * 4 + port]);
        let config = format!(
            "[node]\nname = \"bench-{node}\"\nclient_addr = \"{client}\"\npeer_addr = \"{peer}\"\nadmin_addr = \"{admin}\"\nbolt_addr = \"{bolt}\"\nbolt_advertise = \"{bolt}\"\n{}[cluster]\nseeds = [{}]\nkey_file = \"{}\"\n{}{}",
            plan.node,
            seeds.join(", "),
            key_file.display(),
            plan.common,
            if plan.common.contains("[origin]") { "" } else { SAMPLE_GRAPH }
        );
        let path = plan.dir.join(format!("node-{node}.toml"));
        std::fs::write(&path, config)?;
        let mut command = Command::new(plan.binary);
        command.arg("serve").arg("--config").arg(&path);
        let process = Process::start(&mut command, &plan.dir.join(format!("node-{node}.log")))?;
        started.push((process, NodeAddrs { client, admin, bolt }));
    }
    for (_, addrs) in &started {
        wait_for_members(addrs.admin, nodes).await?;
    }
    Ok(started)
}

/// Waits until the node is ready and sees this many members.
pub async fn wait_for_members(admin: SocketAddr, members: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let wanted = format!("hopcache_ring_members {members}");
    loop {
        if let Ok(metrics) = get(admin, "/metrics").await
            && metrics.contains(&wanted)
            && get(admin, "/readyz").await.is_ok()
        {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("the node at {admin} does not see {members} members after 60 s");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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

/// A directory of this run's own.
pub fn tempdir() -> anyhow::Result<PathBuf> {
    let dir = std::env::temp_dir().join(format!("hopcache-testbed-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
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
