//! The processes of a soak: three nodes, their own Redis, the real Neo4j behind a proxy, and a second user of Neo4j. A
//! killed process starts again on the same ports.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, bail};

use hopcache_testbed::bolt_proxy::BoltProxy;
use hopcache_testbed::http::Connection;
use hopcache_testbed::neo4j;
use hopcache_testbed::process::{
    ClusterPlan, NodeAddrs, Process, get, hopcache_binary, signal, start_cluster, start_redis,
    start_redis_at, tempdir, wait_for_members, wait_until,
};
use hopcache_testbed::report::progress;

/// Nodes of the cluster. The last one is never killed, so that its counters span the whole soak.
pub(super) const NODES: usize = 3;
/// The second principal's password.
const SECOND_PASSWORD: &str = "soak-second-user";

/// Everything that runs.
pub(super) struct Scene {
    pub(super) proxy: BoltProxy,
    pub(super) addrs: Vec<NodeAddrs>,
    /// Label of the nodes that the load writes, and name of the second user.
    pub(super) label: String,
    nodes: Vec<Mutex<Life>>,
    redis: Mutex<Option<Process>>,
    redis_addr: SocketAddr,
    binary: PathBuf,
    dir: PathBuf,
    neo4j: SocketAddr,
}

/// One life of a node.
struct Life {
    process: Option<Process>,
    number: usize,
}

/// A node's life and process id, while it has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alive {
    pub(super) life: usize,
    pub(super) pid: u32,
}

impl Scene {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let neo4j = neo4j::http()?;
        let proxy = BoltProxy::start(&neo4j::bolt()?).await?;
        let dir = tempdir()?;
        let (redis, redis_addr) = start_redis(&dir)?;
        // Lives and memory are short and small, so that the caches turn over many times within the soak.
        let common = format!(
            "[origin]\nuri = \"bolt://{}\"\ntimeout = \"8s\"\n[store]\nuri = \"redis://{redis_addr}\"\n[entry]\nttl = \"20s\"\n[log]\nlevel = \"warn\"\n",
            proxy.addr()
        );
        let binary = hopcache_binary()?;
        let plan = ClusterPlan { binary: &binary, dir: &dir, common: &common, node: "memory = \"48MiB\"\n" };
        let started = start_cluster(&plan, NODES).await?;
        let addrs = started.iter().map(|(_, addrs)| *addrs).collect();
        let lives =
            started.into_iter().map(|(process, _)| Mutex::new(Life { process: Some(process), number: 0 }));
        let scene = Self {
            proxy,
            addrs,
            label: format!("HcSoak{}", std::process::id()),
            nodes: lives.collect(),
            redis: Mutex::new(Some(redis)),
            redis_addr,
            binary,
            dir,
            neo4j,
        };
        let create = format!(
            "CREATE USER {} IF NOT EXISTS SET PASSWORD '{SECOND_PASSWORD}' CHANGE NOT REQUIRED",
            scene.label
        );
        scene.at_neo4j("system", &create).await?;
        Ok(scene)
    }

    /// `Authorization` of the first or the second principal, with its line end.
    pub(super) fn login(&self, principal: usize) -> anyhow::Result<String> {
        Ok(match principal {
            0 => neo4j::basic("neo4j", &neo4j::password()?),
            _ => neo4j::basic(&self.label, SECOND_PASSWORD),
        })
    }

    /// Credentials of a user that Neo4j does not have, so that no user is locked out.
    pub(super) fn wrong_login(&self) -> String {
        neo4j::basic(&format!("{}Nobody", self.label), "wrong-password")
    }

    pub(super) fn alive(&self, node: usize) -> Option<Alive> {
        let life = self.nodes[node].lock().ok()?;
        life.process.as_ref().map(|process| Alive { life: life.number, pid: process.id() })
    }

    /// SIGKILL.
    pub(super) fn kill_node(&self, node: usize) {
        if let Ok(mut life) = self.nodes[node].lock() {
            life.process = None;
        }
    }

    pub(super) async fn start_node(&self, node: usize) -> anyhow::Result<()> {
        if let Ok(mut life) = self.nodes[node].lock() {
            life.number += 1;
            let mut command = Command::new(&self.binary);
            command.arg("serve").arg("--config").arg(self.dir.join(format!("node-{node}.toml")));
            let log = self.dir.join(format!("node-{node}-{}.log", life.number));
            life.process = Some(Process::start(&mut command, &log)?);
        }
        wait_for_members(self.addrs[node].admin, NODES).await
    }

    pub(super) fn signal_node(&self, node: usize, name: &str) -> anyhow::Result<()> {
        signal(self.alive(node).context("the node runs")?.pid, name).map(drop)
    }

    pub(super) fn signal_redis(&self, name: &str) -> anyhow::Result<()> {
        let pid = self.redis.lock().ok().and_then(|redis| redis.as_ref().map(Process::id));
        signal(pid.context("Redis runs")?, name).map(drop)
    }

    /// SIGKILL.
    pub(super) fn kill_redis(&self) {
        if let Ok(mut redis) = self.redis.lock() {
            *redis = None;
        }
    }

    /// Empty, on the same port.
    pub(super) fn start_redis(&self) -> anyhow::Result<()> {
        let process = start_redis_at(self.redis_addr, &self.dir)?;
        if let Ok(mut redis) = self.redis.lock() {
            *redis = Some(process);
        }
        wait_until("redis answers again", || std::net::TcpStream::connect(self.redis_addr).is_ok())
    }

    /// A node's metrics.
    pub(super) async fn metrics(&self, node: usize) -> anyhow::Result<String> {
        let asking = get(self.addrs[node].admin, "/metrics");
        tokio::time::timeout(Duration::from_secs(5), asking).await.context("no metrics within 5 s")?
    }

    /// Open descriptors of each node before any client came.
    pub(super) async fn idle(&self) -> anyhow::Result<Vec<usize>> {
        (0..NODES).map(|node| descriptors(self.alive(node).context("the node runs")?.pid)).collect()
    }

    pub(super) async fn at_neo4j(&self, database: &str, statement: &str) -> anyhow::Result<()> {
        let body = serde_json::json!({ "statement": statement }).to_string();
        let request = format!(
            "POST /db/{database}/query/v2 HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n{}content-length: {}\r\n\r\n{body}",
            self.login(0)?,
            body.len()
        );
        let answer = Connection::open(self.neo4j).await?.ask(request.as_bytes()).await?;
        if answer.status() != 202 {
            bail!("{statement}: {}{}", answer.head, String::from_utf8_lossy(&answer.body));
        }
        Ok(())
    }

    /// Removes the soak's data from Neo4j.
    pub(super) async fn clean_up(&self) {
        let label = &self.label;
        for (database, statement) in [
            ("neo4j", format!("MATCH (n:{label}) DETACH DELETE n")),
            ("system", format!("DROP USER {label} IF EXISTS")),
        ] {
            if let Err(error) = self.at_neo4j(database, &statement).await {
                progress(&format!("left behind in Neo4j: {error:#}"));
            }
        }
    }
}

/// Descriptors that a process has open.
pub(super) fn descriptors(pid: u32) -> anyhow::Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}
