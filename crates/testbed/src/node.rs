//! A node as a process: started, asked, signalled, killed and started again. And a cluster of nodes with a Redis of its own.
//! This module does not decide which faults happen.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::cluster::packet_filter::{Party, uid_of};
use crate::http::{Answer, Connection};
use crate::metrics;
use crate::process::{Dir, Process, free_addrs, get, hopcache_binary, signal, start_redis_at, wait_until};

/// Longest wait until nodes are ready and see each other.
const SOON: Duration = Duration::from_secs(60);
/// Pause between two looks.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);
/// For benchmarks that count runs at the origin or bytes of entries: a prefetch adds a run and an entry that no client
/// asked for. `hit` measures with prefetch on, as users have it; trials always do.
pub const PREFETCH_OFF: &str = "[prefetch]\nenabled = false\n";
/// For nodes whose configuration names no Neo4j: `hopcache serve` serves the sample graph only with this setting.
const SAMPLE_GRAPH: &str = "[origin]\nuri = \"embedded:\"\n";

/// One node, running or not.
pub struct Node {
    /// `node.name`.
    pub name: String,
    /// Where clients ask.
    pub client: SocketAddr,
    /// Where operators ask.
    pub admin: SocketAddr,
    /// Where drivers ask.
    pub bolt: SocketAddr,
    /// The node's identity for the packet filter.
    pub party: Party,
    life: Mutex<(u32, Option<Process>)>,
    config: PathBuf,
    binary: PathBuf,
    /// Whether the node runs under its own user id.
    is_apart: bool,
}

/// What the nodes of a cluster have in common.
pub struct Settings<'a> {
    /// Where configuration and logs go.
    pub dir: &'a Path,
    /// The hopcache binary.
    pub binary: &'a Path,
    /// Further lines of `[node]`.
    pub node: &'a str,
    /// Further sections of the configuration.
    pub sections: &'a str,
    /// Whether each node runs under its own user id.
    pub is_apart: bool,
}

/// The ring of a ready node, as the node shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// `epoch` of the ring.
    pub epoch: String,
    /// Members that are up and have a share.
    pub up: usize,
}

impl Settings<'_> {
    /// Nodes at these addresses, four for each. None is started.
    pub fn nodes(&self, addrs: &[SocketAddr]) -> anyhow::Result<Vec<Node>> {
        let addrs = addrs.as_chunks::<4>().0;
        let seeds: Vec<String> = addrs.iter().map(|[peer, ..]| format!("\"{peer}\"")).collect();
        let make = |(place, addrs): (usize, &[SocketAddr; 4])| self.node(place, *addrs, &seeds.join(", "));
        addrs.iter().enumerate().map(make).collect()
    }

    fn node(
        &self,
        place: usize,
        [peer, client, admin, bolt]: [SocketAddr; 4],
        seeds: &str,
    ) -> anyhow::Result<Node> {
        let name = format!("node-{place}");
        let config = self.dir.join(format!("{name}.toml"));
        let origin = if self.sections.contains("[origin]") { "" } else { SAMPLE_GRAPH };
        let log = if self.sections.contains("[log]") { "" } else { "[log]\nlevel = \"warn\"\n" };
        std::fs::write(
            &config,
            format!(
                "[node]\nname = \"{name}\"\nclient_addr = \"{client}\"\npeer_addr = \"{peer}\"\nadmin_addr = \"{admin}\"\nbolt_addr = \"{bolt}\"\nbolt_advertise = \"{bolt}\"\n{}\
                 [cluster]\nseeds = [{seeds}]\nkey = \"the key of a cluster, of 32 bytes or more\"\n{log}{origin}{}",
                self.node, self.sections
            ),
        )?;
        all_may(&config, 0o644)?;
        let party = Party { uid: uid_of(place), peer };
        let (life, binary) = (Mutex::new((0, None)), self.binary.to_owned());
        Ok(Node { name, client, admin, bolt, party, life, config, binary, is_apart: self.is_apart })
    }
}

/// Sets the permissions explicitly, because of the umask.
pub(crate) fn all_may(path: &Path, mode: u32) -> anyhow::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .with_context(|| format!("make {} readable", path.display()))
}

impl Node {
    fn life(&self) -> MutexGuard<'_, (u32, Option<Process>)> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often it was started.
    pub fn lives(&self) -> u32 {
        self.life().0
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
        life.1 = Some(Process::start(&mut command, &self.log(life.0))?);
        Ok(())
    }

    /// What it has logged in its present life.
    pub fn logged(&self) -> anyhow::Result<String> {
        let log = self.log(self.lives());
        std::fs::read_to_string(&log).with_context(|| format!("read {}", log.display()))
    }

    fn log(&self, life: u32) -> PathBuf {
        self.config.with_extension(format!("{life}.log"))
    }

    /// Process id; an error where it does not run.
    pub fn pid(&self) -> anyhow::Result<u32> {
        self.life().1.as_ref().map(Process::id).with_context(|| format!("{} does not run", self.name))
    }

    /// Writes other lines into its configuration, which a reload takes.
    pub fn change_config(&self, lines: &str, others: &str) -> anyhow::Result<()> {
        let config = std::fs::read_to_string(&self.config)?;
        anyhow::ensure!(config.contains(lines) || config.contains(others), "no {lines:?} in it");
        Ok(std::fs::write(&self.config, config.replace(lines, others))?)
    }

    /// CPU time of its present life; none if it does not run.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        self.life().1.as_ref().map_or(Ok(Duration::ZERO), Process::cpu)
    }

    /// I13: fails if the node was started and ended by itself, or panicked in any of its lives.
    pub fn check_runs(&self) -> anyhow::Result<()> {
        let mut life = self.life();
        life.1.as_mut().map_or(Ok(()), |process| process.check_runs(&self.name))?;
        for number in 1..=life.0 {
            let log = std::fs::read_to_string(self.log(number))?;
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

    /// Its view, if it is ready.
    pub async fn view(&self) -> Option<View> {
        let asking = async { (get(self.admin, "/readyz").await, get(self.admin, "/admin/v1/ring").await) };
        let (ready, ring) = tokio::time::timeout(Duration::from_secs(2), asking).await.ok()?;
        ready.ok()?;
        let ring: Value = serde_json::from_str(&ring.ok()?).ok()?;
        let members = ring["members"].as_array()?;
        let owns = |member: &&Value| {
            member["state"] == "up" && member["share"].as_f64().is_some_and(|share| share > 0.0)
        };
        Some(View { epoch: ring["epoch"].to_string(), up: members.iter().filter(owns).count() })
    }

    /// The node's own report and the end of its log, for the message of a failed run.
    async fn standing(&self) -> String {
        let mut text = format!("\n{}:", self.name);
        for path in ["/readyz", "/admin/v1/ring"] {
            match self.admin("GET", path, "").await {
                Ok(answer) => text.push_str(&format!(" {}", String::from_utf8_lossy(&answer.body))),
                Err(error) => text.push_str(&format!(" {path}: {error:#}")),
            }
        }
        let log = std::fs::read_to_string(self.log(self.lives())).unwrap_or_default();
        text + log.lines().last().unwrap_or_default()
    }

    /// Its metrics, as Prometheus reads them.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        let asking = get(self.admin, "/metrics");
        tokio::time::timeout(Duration::from_secs(5), asking).await.context("no metrics within 5 s")?
    }

    /// Sum of a metric's series whose labels contain `label`.
    pub async fn metric(&self, name: &str, label: &str) -> anyhow::Result<u64> {
        Ok(metrics::sum(&self.metrics().await?, name, label).unwrap_or(0))
    }
}

/// Waits until these nodes are ready and show one epoch and a ring of each other; how long that took.
pub async fn all_agree(nodes: &[&Node], within: Duration) -> anyhow::Result<Duration> {
    let start = Instant::now();
    loop {
        let mut views = Vec::new();
        for node in nodes {
            views.push(node.view().await);
        }
        let is_whole = |view: &Option<View>| view.as_ref().is_some_and(|view| view.up == nodes.len());
        if views.iter().all(|view| is_whole(view) && *view == views[0]) {
            return Ok(start.elapsed());
        }
        if start.elapsed() >= within {
            let mut states = String::new();
            for node in nodes {
                states.push_str(&node.standing().await);
            }
            bail!("no common ring within {within:?}:{states}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Nodes that know each other, and their Redis. Nodes end before it.
pub struct Nodes {
    /// All of them.
    pub nodes: Vec<Node>,
    redis: Mutex<Option<Process>>,
    /// Where the Redis listens.
    pub redis_addr: SocketAddr,
    /// Where configuration and logs are.
    pub dir: Dir,
}

impl Nodes {
    /// Starts them with these sections of the configuration, beside those of the store and the log, and waits until each is ready
    /// and sees all of them.
    pub async fn start(count: usize, sections: &str) -> anyhow::Result<Self> {
        Self::start_of(&hopcache_binary()?, count, "", sections).await
    }

    /// The same of another binary, or with further lines of `[node]`.
    pub async fn start_of(binary: &Path, count: usize, node: &str, sections: &str) -> anyhow::Result<Self> {
        let (dir, ip) = (Dir::new()?, IpAddr::from(Ipv4Addr::LOCALHOST));
        let addrs = free_addrs(ip, 4 * count + 1)?;
        let redis_addr = addrs[4 * count];
        let redis = start_redis_at(redis_addr, &dir.0)?;
        wait_until("redis answers", || std::net::TcpStream::connect(redis_addr).is_ok())?;
        let sections = format!("[store]\nuri = \"redis://{redis_addr}\"\n{sections}");
        let settings = Settings { dir: &dir.0, binary, node, sections: &sections, is_apart: false };
        let nodes = settings.nodes(&addrs)?;
        nodes.iter().try_for_each(Node::start)?;
        all_agree(&nodes.iter().collect::<Vec<_>>(), SOON).await?;
        Ok(Self { nodes, redis: Mutex::new(Some(redis)), redis_addr, dir })
    }

    /// Waits until all of them are ready and see each other again.
    pub async fn agree(&self) -> anyhow::Result<Duration> {
        all_agree(&self.nodes.iter().collect::<Vec<_>>(), SOON).await
    }

    /// Where clients ask one of them, in turn.
    pub fn client(&self, place: usize) -> SocketAddr {
        self.nodes[place % self.nodes.len()].client
    }

    /// Where clients ask.
    pub fn clients(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.client).collect()
    }

    /// All nodes' metrics, one behind the other: a [`metrics::sum`] over it is one over the nodes.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        for node in &self.nodes {
            text.push_str(&node.metrics().await?);
        }
        Ok(text)
    }

    /// Sum of a metric over all nodes, of the series whose labels contain `label`.
    pub async fn metric(&self, name: &str, label: &str) -> anyhow::Result<u64> {
        Ok(metrics::sum(&self.metrics().await?, name, label).unwrap_or(0))
    }

    /// The CPU time that all nodes have used.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        self.nodes.iter().map(Node::cpu).sum()
    }

    /// The Redis, to be measured or broken: `None` after a kill.
    pub fn redis(&self) -> MutexGuard<'_, Option<Process>> {
        self.redis.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an empty Redis on the port of the one before, which was killed.
    pub fn start_redis(&self) -> anyhow::Result<()> {
        *self.redis() = Some(start_redis_at(self.redis_addr, &self.dir.0)?);
        wait_until("redis answers again", || std::net::TcpStream::connect(self.redis_addr).is_ok())
    }
}
