//! The processes of a soak: three nodes, their own Redis, the real Neo4j behind a proxy, and a second user of Neo4j. A
//! killed process starts again on the same ports.

use anyhow::Context;
use serde_json::json;

use hopcache_testbed::bolt_proxy::BoltProxy;
use hopcache_testbed::http::{Connection, query};
use hopcache_testbed::neo4j;
use hopcache_testbed::node::{Node, Nodes};
use hopcache_testbed::process::{Process, hopcache_binary, signal};
use hopcache_testbed::report::progress;

/// Nodes of the cluster. The last one is never killed, so that its counters span the whole soak.
pub(super) const NODES: usize = 3;
/// The second principal's password.
const SECOND_PASSWORD: &str = "soak-second-user";

/// Everything that runs.
pub(super) struct Scene {
    pub(super) nodes: Nodes,
    pub(super) proxy: BoltProxy,
    /// Label of the nodes that the load writes, and name of the second user.
    pub(super) label: String,
}

impl Scene {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let proxy = BoltProxy::start(&neo4j::bolt()?).await?;
        // Lives and memory are short and small, so that the caches turn over many times within the soak.
        let sections = format!(
            "[origin]\nuri = \"bolt://{}\"\ntimeout = \"8s\"\n[entry]\nttl = \"20s\"\n",
            proxy.addr()
        );
        let binary = hopcache_binary()?;
        let nodes = Nodes::start_of(&binary, NODES, "memory = \"48MiB\"\n", &sections).await?;
        let scene = Self { nodes, proxy, label: format!("HcSoak{}", std::process::id()) };
        let create = format!(
            "CREATE USER {} IF NOT EXISTS SET PASSWORD '{SECOND_PASSWORD}' CHANGE NOT REQUIRED",
            scene.label
        );
        scene.at_neo4j("system", &create).await?;
        Ok(scene)
    }

    pub(super) fn node(&self, place: usize) -> &Node {
        &self.nodes.nodes[place]
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

    /// Starts a node that was killed, and waits until all see it.
    pub(super) async fn start_node(&self, place: usize) -> anyhow::Result<()> {
        self.node(place).start()?;
        self.nodes.agree().await.map(drop)
    }

    pub(super) fn signal_redis(&self, name: &str) -> anyhow::Result<()> {
        let pid = self.nodes.redis().as_ref().map(Process::id);
        signal(pid.context("Redis runs")?, name).map(drop)
    }

    /// Open descriptors of each node before any client came.
    pub(super) fn idle(&self) -> anyhow::Result<Vec<usize>> {
        self.nodes.nodes.iter().map(|node| descriptors(node.pid()?)).collect()
    }

    async fn at_neo4j(&self, database: &str, statement: &str) -> anyhow::Result<()> {
        let request = query(database, &json!({ "statement": statement }).to_string(), &self.login(0)?);
        let answer = Connection::open(neo4j::http()?).await?.ask(&request).await?;
        answer.succeeded().with_context(|| statement.to_owned()).map(drop)
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
