//! One `hopcache serve` process: started from a configuration, signalled, and ended with its test. If the test fails,
//! the end of its log is printed.

use std::ffi::OsString;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::authority::TlsClient;
use super::http::{self, Reply};
use super::{until, value_within};

/// Tests without a word on freshness are about entries that live for their TTL. Proofs have tests of their own: `oracle`,
/// `cluster::proved`, `freshness`.
const BY_AGE: &str = "\n[freshness]\nmax_life = \"0s\"\n";

/// A signal, by its name, to one process. After `STOP` none of its threads runs: each stops where it is next scheduled, which
/// on a busy machine is later.
pub fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), process.to_string()]).status().unwrap();
    assert!(status.success(), "kill -{name} {process}");
    let deadline = Instant::now() + STOP_MAX;
    while name == "STOP" && !are_threads_stopped(process) {
        assert!(Instant::now() < deadline, "process {process} has not stopped");
        std::thread::yield_now();
    }
}

/// proc(5): the state is the first field after the name, which is in brackets. A zombie has ended.
fn are_threads_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let stats = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    let mut states = stats.map(|stat| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()));
    states.all(|state| matches!(state, Some('T' | 't' | 'Z' | 'X')))
}

/// The program: another build of it, such as a release build, when figures are wanted.
pub fn program() -> OsString {
    let named = std::env::var_os("HOPCACHE_TEST_BINARY");
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_hopcache").into())
}

/// The first of as many free ports that follow each other.
pub fn ports_in_a_row(count: u16) -> u16 {
    loop {
        let ports = free_ports(count.into());
        if ports.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)) {
            return ports[0];
        }
    }
}

/// Raises the limit of open files of this process, and of the nodes that inherit it: each of thousands of clients needs
/// two sockets. If that fails, a test with many clients fails and says why.
pub fn raise_open_files() {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let open_files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let Some(hard) = open_files.and_then(|line| line.split_whitespace().nth(1)) else { return };
    let (own, most) = (std::process::id().to_string(), format!("--nofile={hard}:{hard}"));
    let _ = Command::new("prlimit").args(["--pid", &own, &most]).status();
}

/// Ports that are free now, and that no connection gets by chance before their use: below the kernel's range for
/// outgoing connections (32,768 and up), each once in this process, from a start of its own. A port of the kernel's
/// choice could be taken by one of thousands of connections before its node starts. cargo-nextest runs each test in a process, of
/// which each has a slot of its own: each slot has a part of the ports.
pub fn free_ports(count: usize) -> Vec<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(977);
    let slot = std::env::var("NEXTEST_TEST_GLOBAL_SLOT").ok().and_then(|slot| slot.parse::<u32>().ok());
    let (slot, ports) = slot.map_or((0, PORTS), |slot| (slot % SLOTS, PORTS / SLOTS));
    let next = || {
        let place = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % ports;
        u16::try_from(PORT_FIRST + slot * ports + place).unwrap()
    };
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(next).filter(is_free).take(count).collect()
}

/// A stopped thread on a busy machine is scheduled within that.
const STOP_MAX: Duration = Duration::from_secs(10);
const PORT_FIRST: u32 = 10_000;
const PORTS: u32 = 22_000;
const SLOTS: u32 = 16;

/// Addresses of one node.
#[derive(Debug, Clone, Copy)]
pub struct Addrs {
    pub client: SocketAddr,
    pub peer: SocketAddr,
    pub admin: SocketAddr,
    pub bolt: SocketAddr,
}

impl Addrs {
    /// Four free ports for each of `count` nodes.
    pub fn free(count: usize) -> Vec<Self> {
        let local = |port: &u16| SocketAddr::from(([127, 0, 0, 1], *port));
        let ports = free_ports(count * 4);
        ports
            .chunks(4)
            .map(|four| Self {
                client: local(&four[0]),
                peer: local(&four[1]),
                admin: local(&four[2]),
                bolt: local(&four[3]),
            })
            .collect()
    }
}

pub struct NodeProcess {
    pub name: String,
    pub addrs: Addrs,
    child: Option<Child>,
    config: PathBuf,
    log: PathBuf,
    /// The node's own limit of open files, if it has one.
    pub open_files: Option<u32>,
    /// A library that is loaded before all others, and a variable for it.
    pub preload: Option<(PathBuf, (String, PathBuf))>,
    /// False if a prefetch would disturb the test's counts; the test says which. By default nodes prefetch, as shipped.
    pub prefetches: bool,
    /// The file for stderr, if not the log.
    pub stderr: Option<std::fs::File>,
    /// For the admin listener, where it has TLS.
    pub admin_tls: Option<TlsClient>,
}

impl NodeProcess {
    /// A node that is not started yet. `OWN_BOLT` in its configuration stands for its Bolt listener.
    pub fn new(dir: &Path, name: &str, addrs: Addrs, config: &str) -> Self {
        let (path, log) = (dir.join(format!("{name}.toml")), dir.join(format!("{name}.log")));
        let Addrs { client, peer, admin, bolt } = addrs;
        let config = &config.replace("OWN_BOLT", &bolt.to_string());
        let own = format!(
            "[node]\nname = \"{name}\"\nclient_addr = \"{client}\"\npeer_addr = \"{peer}\"\nadmin_addr = \"{admin}\"\nbolt_addr = \"{bolt}\"\n"
        );
        // Any client of the test is told where this node is.
        let own = match config.contains("bolt_advertise") {
            true => own,
            false => own + &format!("bolt_advertise = \"{bolt}\"\n"),
        };
        // A node serves the sample graph only if its configuration asks for it.
        let sample = if config.contains("[origin]") { "" } else { "\n[origin]\nuri = \"embedded:\"\n" };
        let by_age = if config.contains("[freshness]") { "" } else { BY_AGE };
        std::fs::write(&path, own + config + sample + by_age).unwrap();
        Self {
            name: name.to_owned(),
            addrs,
            child: None,
            config: path,
            log,
            open_files: None,
            preload: None,
            prefetches: true,
            stderr: None,
            admin_tls: None,
        }
    }

    pub fn start(&mut self) {
        let log = std::fs::File::options().create(true).append(true).open(&self.log).unwrap();
        let binary = program();
        let mut command = match self.open_files {
            None => Command::new(binary),
            Some(files) => {
                let mut command = Command::new("prlimit"); // Becomes the node.
                command.arg(format!("--nofile={files}:{files}")).arg(binary);
                command
            }
        };
        if let Some((library, (name, value))) = &self.preload {
            command.env("LD_PRELOAD", library).env(name, value);
        }
        if !self.prefetches {
            command.env("HOPCACHE_PREFETCH__ENABLED", "false");
        }
        let child = command
            .arg("serve")
            .arg("--config")
            .arg(&self.config)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(self.stderr.as_ref().map_or(log, |file| file.try_clone().unwrap()))
            .spawn();
        self.child = Some(child.unwrap());
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the node runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Whether it was started, and has not been killed since.
    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// `STOP`, `CONT` or `TERM`.
    pub fn signal(&self, name: &str) {
        signal(self.child.as_ref().expect("the node runs").id(), name);
    }

    /// Whether it handles SIGTERM by now: before that the signal just ends it.
    pub fn handles_sigterm(&self) -> bool {
        let id = self.child.as_ref().expect("the node runs").id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        caught & (1 << 14) != 0
    }

    /// Sets the soft limit of open files of the running process; those it has open stay so.
    pub fn limit_open_files(&self, soft: u32) {
        let id = self.child.as_ref().expect("the node runs").id().to_string();
        let limit = format!("--nofile={soft}:");
        assert!(Command::new("prlimit").args(["--pid", &id, &limit]).status().unwrap().success());
    }

    /// Resident memory of the process, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let id = self.child.as_ref().expect("the node runs").id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
    }

    /// All lines that the node has logged so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits for its end.
    pub async fn exit(&mut self, within: Duration) -> ExitStatus {
        let child = self.child.as_mut().expect("the node runs");
        let status = value_within("the node exits", within, async || child.try_wait().unwrap()).await;
        self.child = None;
        status
    }

    /// Waits until it is ready and has `members` in its ring.
    pub async fn wait_for_members(&self, members: usize) {
        let what = format!("{} is ready and sees {members} members", self.name);
        let is_there = async || {
            self.admin("/readyz").await.is_ok_and(|reply| reply.status == 200)
                && self.metric("hopcache_ring_members", "").await == Some(members as f64)
        };
        until(&what, Duration::from_secs(30), is_there).await;
    }

    /// A GET on the admin listener.
    pub async fn admin(&self, path: &str) -> std::io::Result<Reply> {
        match &self.admin_tls {
            None => http::ask(self.addrs.admin, &http::get(path)).await,
            Some(tls) => http::exchange(&mut tls.connect(self.addrs.admin).await?, &http::get(path)).await,
        }
    }

    /// Whether `readyz` names this part as degraded.
    pub async fn is_degraded(&self, part: &str) -> bool {
        let ready = self.admin("/readyz").await.unwrap();
        ready.json()["degraded"].as_array().is_some_and(|parts| parts.iter().any(|known| known == part))
    }

    /// Its configuration.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// A POST on the admin listener that has to succeed.
    pub async fn order(&self, path: &str, body: &Value) -> Value {
        let reply = http::ask(self.addrs.admin, &http::post(path, "", &body.to_string())).await.unwrap();
        assert_eq!(reply.status, 200, "{reply}");
        reply.json()
    }

    /// The node's explanation of a query of the tests' user.
    pub async fn explain(&self, statement: &str, parameters: &Value) -> Value {
        let question = json!({"principal": "neo4j", "statement": statement, "parameters": parameters});
        self.order("/admin/v1/explain", &question).await
    }

    /// Asks as a client.
    pub async fn ask(&self, request: &Arc<[u8]>) -> Reply {
        http::ask(self.addrs.client, request).await.unwrap()
    }

    /// The node's counters that are not zero, for the message of a failed test.
    pub async fn counters(&self) -> String {
        let text = self.admin("/metrics").await.map(|reply| reply.body).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let counters = text.lines().filter(|line| line.contains("_total") && !line.starts_with('#'));
        let counters: Vec<&str> = counters.filter(|line| !line.ends_with(" 0")).collect();
        format!("--- {}\n{}\n", self.name, counters.join("\n"))
    }

    /// Sum over a metric's series whose labels contain `labels`; `None` without such a series.
    pub async fn metric(&self, name: &str, labels: &str) -> Option<f64> {
        let text = String::from_utf8(self.admin("/metrics").await.ok()?.body).ok()?;
        sum_of_series(&text, name, labels)
    }
}

/// Sum over a metric's series in Prometheus' text whose labels contain `labels`; `None` without such a series.
pub fn sum_of_series(text: &str, name: &str, labels: &str) -> Option<f64> {
    let series = text.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (known, rest) = series.split_at(series.find('{').unwrap_or(series.len()));
        (known == name && rest.contains(labels)).then(|| value.parse::<f64>().ok())?
    });
    series.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            let mut shown = format!("--- last lines of {}'s log\n", self.name);
            tail.iter().rev().for_each(|line| shown += &format!("{line}\n"));
            let _ = std::io::stderr().write_all(shown.as_bytes());
        }
    }
}
