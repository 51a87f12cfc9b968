//! Processes for runs with faults: nodes with their own address and user id, a store with a replica, and an origin
//! whose values name their run. `chaos` and the benchmarks of a living cluster share it. This module decides which
//! processes run. It does not decide which faults happen.
//!
//! | module | decides |
//! |---|---|
//! | [`fault`] | the kinds of fault |
//! | [`history`] | the record of a run |
//! | [`load`] | open-loop requests, and purges that change versions |
//! | [`origin`], [`store`], [`packet_filter`] | the origin, the store, and cuts |

pub mod fault;
pub mod history;
pub mod load;
pub mod origin;
pub mod packet_filter;
pub mod store;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::http::{Answer, Connection};
use crate::metrics;
use crate::process::{Process, get, hopcache_binary, signal};
use crate::report::progress;
use history::Recorder;
use origin::{Origin, RunTime};
use packet_filter::{PacketFilter, Party};
use store::Store;

/// Longest wait until a node is ready, or sees the others.
const SOON: Duration = Duration::from_secs(30);
/// Pause between two looks.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The plan of a cluster. Everything else has the shipped defaults: prefetch is on.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Nodes that have an address.
    pub nodes: usize,
    /// Nodes that are started; the others join later.
    pub started: usize,
    /// Nodes that are named as seeds.
    pub seeded: usize,
    /// `entry.ttl`.
    pub ttl: Duration,
    /// Longest run that a node waits for.
    pub timeout: Duration,
    /// How long the origin takes.
    pub run_time: RunTime,
    /// Of the origin's dice.
    pub seed: u64,
    /// Whether nodes are to be cut one from another, where that can be had.
    pub has_cuts: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            nodes: 3,
            started: 3,
            seeded: 3,
            ttl: Duration::from_secs(60),
            timeout: Duration::from_secs(4),
            run_time: RunTime { least: Duration::from_millis(5), most: Duration::from_millis(40) },
            seed: 1,
            has_cuts: false,
        }
    }
}

/// Everything that runs.
pub struct TestCluster {
    /// All that have an address, running or not.
    pub nodes: Vec<Node>,
    /// The origin of the nodes.
    pub origin: Origin,
    /// See [`TestCluster::store`].
    pub store: Mutex<Store>,
    /// The record so far.
    pub recorder: Arc<Recorder>,
    /// `None` if this machine has no packet filter.
    pub rules: Option<PacketFilter>,
    /// Where nodes reach the store.
    pub store_addr: SocketAddr,
    /// The plan that it was made from.
    pub plan: Plan,
    _dir: Dir,
}

/// A directory that is removed with the cluster.
struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        // `HOPCACHE_KEEP_CLUSTER` leaves configuration and logs for a look.
        if std::env::var_os("HOPCACHE_KEEP_CLUSTER").is_none() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// One node, running or not.
pub struct Node {
    /// `node.name`.
    pub name: String,
    /// Where clients ask.
    pub client: SocketAddr,
    /// Where operators ask.
    pub admin: SocketAddr,
    /// The node's identity for the packet filter.
    pub party: Party,
    life: Mutex<(u32, Option<Process>)>,
    config: PathBuf,
    binary: PathBuf,
    /// Whether the node runs under its own user id.
    is_apart: bool,
}

impl TestCluster {
    /// Nodes that are ready and see each other.
    pub async fn start(plan: Plan) -> anyhow::Result<Self> {
        ensure!(plan.nodes <= packet_filter::NODES_MAX, "at most {} nodes", packet_filter::NODES_MAX);
        let dir = directory()?;
        let recorder = Arc::new(Recorder::start());
        let origin = Origin::start(Arc::clone(&recorder), plan.run_time, plan.seed).await?;
        let store = Store::start(&dir.0).await?;
        let store_addr = store.addr();
        let parties = parties(plan.nodes)?;
        let rules = plan.has_cuts.then(|| PacketFilter::open(&parties)).and_then(|opened| {
            let why =
                |error: &anyhow::Error| progress(&format!("no packet filter here, so no cuts: {error:#}"));
            opened.inspect_err(why).ok()
        });
        let (mut nodes, binary) = (Vec::new(), open_copy(&hopcache_binary()?, &dir.0)?);
        for (place, party) in parties.iter().enumerate() {
            nodes.push(node(
                &dir.0,
                place,
                *party,
                &config(&plan, &parties, origin.addr(), store_addr),
                &binary,
                rules.is_some(),
            )?);
        }
        let cluster =
            Self { nodes, origin, store: Mutex::new(store), recorder, rules, store_addr, plan, _dir: dir };
        for node in cluster.nodes.iter().take(cluster.plan.started) {
            node.start()?;
        }
        cluster.all_agree(&(0..cluster.plan.started).collect::<Vec<_>>(), SOON).await?;
        Ok(cluster)
    }

    /// The store, to be broken.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if a process ended by itself, or has panicked.
    pub fn check_runs(&self) -> anyhow::Result<()> {
        self.nodes.iter().try_for_each(Node::check_runs)?;
        self.store().check_runs()
    }

    /// Waits until these nodes are ready and show one epoch and a ring of each other; how long that took.
    pub async fn all_agree(&self, nodes: &[usize], within: Duration) -> anyhow::Result<Duration> {
        let start = Instant::now();
        loop {
            let mut views = Vec::new();
            for node in nodes {
                views.push(self.nodes[*node].view().await);
            }
            let same = views.first().is_some_and(|first| {
                first.as_ref().is_some_and(|view| view.up == nodes.len())
                    && views.iter().all(|view| view == first)
            });
            if same {
                return Ok(start.elapsed());
            }
            if start.elapsed() >= within {
                let mut states = String::new();
                for node in nodes {
                    states.push_str(&self.nodes[*node].standing().await);
                }
                bail!("no common ring of {nodes:?} within {within:?}:{states}");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The ring of a ready node, as the node shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// `epoch` of the ring.
    pub epoch: String,
    /// Members that are up and have a share.
    pub up: usize,
}

impl Node {
    fn life(&self) -> MutexGuard<'_, (u32, Option<Process>)> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts its process; an error where it runs already.
    pub fn start(&self) -> anyhow::Result<()> {
        let mut life = self.life();
        ensure!(life.1.is_none(), "{} runs already", self.name);
        life.0 += 1;
        let mut command = Command::new(&self.binary);
        command.arg("serve").arg("--config").arg(&self.config);
        if self.is_apart {
            command.uid(self.party.uid);
        }
        let log = self.config.with_extension(format!("{}.log", life.0));
        life.1 = Some(Process::start(&mut command, &log)?);
        Ok(())
    }

    /// Process id; an error where it does not run.
    pub fn pid(&self) -> anyhow::Result<u32> {
        self.life().1.as_ref().map(Process::id).with_context(|| format!("{} does not run", self.name))
    }

    /// I13: fails if the node was started and ended by itself, or panicked in any of its lives.
    pub fn check_runs(&self) -> anyhow::Result<()> {
        let mut life = self.life();
        life.1.as_mut().map_or(Ok(()), |process| process.check_runs(&self.name))?;
        for number in 1..=life.0 {
            let log = std::fs::read_to_string(self.config.with_extension(format!("{number}.log")))?;
            let panic = log.lines().find(|line| line.contains("panicked at"));
            panic.map_or(Ok(()), |line| Err(anyhow::anyhow!("{} in life {number}: {line}", self.name)))?;
        }
        Ok(())
    }

    /// SIGKILL; how it ended.
    pub fn kill(&self) -> anyhow::Result<ExitStatus> {
        let process = self.life().1.take();
        process.with_context(|| format!("{} does not run", self.name))?.kill()
    }

    /// Asks it to leave in good order, and waits; how it ended, which is with code 0.
    pub async fn drain(&self, within: Duration) -> anyhow::Result<ExitStatus> {
        let answer = self.admin("POST", "/admin/v1/drain", "").await?;
        ensure!((200..300).contains(&answer.status()), "drain: {}", answer.head);
        let start = Instant::now();
        loop {
            let ended = self.life().1.as_mut().context("it runs")?.ended()?;
            if let Some(status) = ended {
                self.life().1 = None;
                ensure!(status.success(), "{} did not leave in good order: {status}", self.name);
                return Ok(status);
            }
            ensure!(start.elapsed() < within, "{} has not left within {within:?}", self.name);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// SIGSTOP or SIGCONT, and the state that the kernel shows then.
    pub fn signal(&self, name: &str) -> anyhow::Result<String> {
        signal(self.pid()?, name)
    }

    /// One request to the admin listener.
    pub async fn admin(&self, method: &str, path: &str, body: &str) -> anyhow::Result<Answer> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let asking = async { Connection::open(self.admin).await?.ask(request.as_bytes()).await };
        tokio::time::timeout(Duration::from_secs(10), asking).await.context("no answer within 10 s")?
    }

    /// `/admin/v1/ring`.
    pub async fn ring(&self) -> anyhow::Result<Value> {
        let asking = get(self.admin, "/admin/v1/ring");
        let text =
            tokio::time::timeout(Duration::from_secs(2), asking).await.context("no ring within 2 s")??;
        Ok(serde_json::from_str(&text)?)
    }

    /// Its view, if it is ready.
    pub async fn view(&self) -> Option<View> {
        let asking = get(self.admin, "/readyz");
        tokio::time::timeout(Duration::from_secs(2), asking).await.ok()?.ok()?;
        let ring = self.ring().await.ok()?;
        let members = ring["members"].as_array()?;
        let owns = |member: &&Value| {
            member["state"] == "up" && member["share"].as_f64().is_some_and(|share| share > 0.0)
        };
        Some(View { epoch: ring["epoch"].to_string(), up: members.iter().filter(owns).count() })
    }

    /// The node's own report, for the message of a failed run.
    async fn standing(&self) -> String {
        let mut text = format!("\n{}:", self.name);
        for path in ["/readyz", "/admin/v1/ring"] {
            match self.admin("GET", path, "").await {
                Ok(answer) => text.push_str(&format!(" {}", String::from_utf8_lossy(&answer.body))),
                Err(error) => text.push_str(&format!(" {path}: {error:#}")),
            }
        }
        text
    }

    /// Lines of its present life's log that hold `text`.
    pub fn logged(&self, text: &str) -> Vec<String> {
        let log = self.config.with_extension(format!("{}.log", self.life().0));
        let lines = std::fs::read_to_string(log).unwrap_or_default();
        lines.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }

    /// Sum of a metric's series whose labels contain `label`.
    pub async fn metric(&self, name: &str, label: &str) -> anyhow::Result<u64> {
        let text = get(self.admin, "/metrics").await?;
        Ok(metrics::sum(&text, name, label).unwrap_or(0))
    }
}

/// Addresses and user ids. Every run has its own part of 127.0.0.0/8, so several runs can be active at once.
fn parties(nodes: usize) -> anyhow::Result<Vec<Party>> {
    let run = std::process::id();
    let octet = |value: u32| u8::try_from(value % 200 + 20).unwrap_or(20);
    (0..nodes)
        .map(|node| {
            let ip = [127, octet(run / 200), octet(run), u8::try_from(node + 1)?];
            let listener = std::net::TcpListener::bind(SocketAddr::from((ip, 0)))?;
            Ok(Party { uid: packet_filter::uid_of(node), peer: listener.local_addr()? })
        })
        .collect()
}

fn config(plan: &Plan, parties: &[Party], origin: SocketAddr, store: SocketAddr) -> String {
    let seeds: Vec<String> =
        parties.iter().take(plan.seeded).map(|party| format!("\"{}\"", party.peer)).collect();
    format!(
        "drain = \"8s\"\n[cluster]\nseeds = [{}]\nkey = \"the key of a cluster, of 32 bytes or more\"\n[origin]\nuri = \"bolt://{origin}\"\ntimeout = \"{}ms\"\n[store]\nuri = \"redis://{store}\"\n[entry]\nttl = \"{}ms\"\nstale_if_error = \"20s\"\n[log]\nlevel = \"warn\"\n",
        seeds.join(", "),
        plan.timeout.as_millis(),
        plan.ttl.as_millis(),
    )
}

fn node(
    dir: &std::path::Path,
    place: usize,
    party: Party,
    common: &str,
    binary: &std::path::Path,
    is_apart: bool,
) -> anyhow::Result<Node> {
    let name = format!("node-{place}");
    let free = || -> anyhow::Result<SocketAddr> {
        Ok(std::net::TcpListener::bind(SocketAddr::new(party.peer.ip(), 0))?.local_addr()?)
    };
    let (client, admin) = (free()?, free()?);
    let config = dir.join(format!("{name}.toml"));
    std::fs::write(
        &config,
        format!(
            "[node]\nname = \"{name}\"\nclient_addr = \"{client}\"\npeer_addr = \"{}\"\nadmin_addr = \"{admin}\"\nbolt_addr = \"\"\nmemory = \"64MiB\"\n{common}",
            party.peer
        ),
    )?;
    let life = Mutex::new((0, None));
    all_may(&config, 0o644)?;
    Ok(Node { name, client, admin, party, life, config, binary: binary.to_owned(), is_apart })
}

fn directory() -> anyhow::Result<Dir> {
    let dir = Dir(std::env::temp_dir().join(format!("hopcache-cluster-{}", std::process::id())));
    std::fs::create_dir_all(&dir.0)?;
    all_may(&dir.0, 0o755)?;
    Ok(dir)
}

/// Copies the binary to a path that every user can read. Nodes run under user ids that may not read the home of the
/// user who built it (`/root` is 0700), and a umask of 077 hides every file from them.
fn open_copy(binary: &std::path::Path, dir: &std::path::Path) -> anyhow::Result<PathBuf> {
    let copy = dir.join("hopcache");
    std::fs::copy(binary, &copy)
        .with_context(|| format!("copy {} to {}", binary.display(), copy.display()))?;
    all_may(&copy, 0o755)?;
    Ok(copy)
}

/// Sets the permissions explicitly, because of the umask.
fn all_may(path: &std::path::Path, mode: u32) -> anyhow::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .with_context(|| format!("make {} readable", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_for_all_whatever_its_own_mode_and_folder_say() {
        let (closed, open) = (tempfile_dir("closed"), tempfile_dir("open"));
        let binary = closed.0.join("built");
        std::fs::write(&binary, "#!/bin/sh\n").unwrap();
        all_may(&binary, 0o700).unwrap();
        all_may(&closed.0, 0o700).unwrap();
        let copy = open_copy(&binary, &open.0).unwrap();
        assert_eq!(std::fs::metadata(copy).unwrap().permissions().mode() & 0o777, 0o755);
    }

    fn tempfile_dir(name: &str) -> Dir {
        let dir =
            Dir(std::env::temp_dir().join(format!("hopcache-cluster-test-{name}-{}", std::process::id())));
        std::fs::create_dir_all(&dir.0).unwrap();
        dir
    }
}
