//! Nodes, their Redis, and a graph of several kinds of nodes in a real Neo4j. Each kind has a label and a property of its own:
//! a write touches one kind.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use hopcache_testbed::dice::{Dice, Zipf};
use hopcache_testbed::http::{Connection, post};
use hopcache_testbed::process::{
    ClusterPlan, NodeAddrs, PREFETCH_OFF, Process, get, hopcache_binary, start_cluster, start_redis, tempdir,
};
use hopcache_testbed::{metrics, neo4j};
use serde_json::json;

/// Kinds of nodes.
pub(super) const KINDS: usize = 10;
/// Nodes of each kind.
pub(super) const EACH: usize = 200;
const LABEL: &str = "HopcacheBenchFresh";

/// Everything that runs. Clients go before servers.
pub(super) struct Scene {
    pub(super) nodes: Vec<(Process, NodeAddrs)>,
    _redis: Process,
    login: String,
}

/// How an answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct How {
    pub(super) is_hit: bool,
    pub(super) is_proved: bool,
}

impl Scene {
    /// Nodes, and the graph of several kinds. `freshness`: lines of `[freshness]`. `ttl`: of entries.
    pub(super) async fn start(nodes: usize, freshness: &str, ttl: Duration) -> anyhow::Result<Self> {
        let (dir, binary) = (tempdir()?, hopcache_binary()?);
        let (redis, redis_addr) = start_redis(&dir)?;
        let common = format!(
            "[origin]\nuri = \"bolt://{}\"\n[store]\nuri = \"redis://{redis_addr}\"\n[entry]\nttl = \"{}ms\"\n[freshness]\n{freshness}\n[log]\nlevel = \"warn\"\n{PREFETCH_OFF}",
            neo4j::bolt()?,
            ttl.as_millis()
        );
        let plan = ClusterPlan { binary: &binary, dir: &dir, common: &common, node: "" };
        let nodes = start_cluster(&plan, nodes).await?;
        let scene = Self { nodes, _redis: redis, login: login()? };
        scene.fill().await?;
        Ok(scene)
    }

    /// Makes the graph anew, past the nodes.
    async fn fill(&self) -> anyhow::Result<()> {
        for kind in 0..KINDS {
            past(&format!("MATCH (n:{LABEL}{kind}) DETACH DELETE n")).await?;
            past(&format!(
                "UNWIND range(0, {}) AS id CREATE (:{LABEL}{kind} {{id: id, v{kind}: 0}})",
                EACH - 1
            ))
            .await?;
        }
        Ok(())
    }

    pub(super) fn client(&self, place: usize) -> SocketAddr {
        self.nodes[place % self.nodes.len()].1.client
    }

    pub(super) async fn metrics(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        for (_, addrs) in &self.nodes {
            text.push_str(&get(addrs.admin, "/metrics").await?);
        }
        Ok(text)
    }

    pub(super) async fn count(&self, name: &str, label: &str) -> anyhow::Result<u64> {
        Ok(metrics::sum(&self.metrics().await?, name, label).unwrap_or(0))
    }

    /// Runs for misses and refreshes: reads at Neo4j.
    pub(super) async fn reading_runs(&self) -> anyhow::Result<u64> {
        let text = self.metrics().await?;
        let of = |cause| metrics::sum(&text, "hopcache_origin_runs_total", cause).unwrap_or(0);
        Ok(of("cause=\"miss\"") + of("cause=\"refresh\""))
    }

    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        self.nodes.iter().map(|(process, _)| process.cpu()).sum()
    }

    pub(super) fn read(&self, kind: usize, id: usize) -> Vec<u8> {
        post(&read_text(kind), &json!({ "id": id }), &self.login)
    }

    pub(super) fn write(&self, kind: usize, id: usize) -> Vec<u8> {
        post(&write_text(kind), &json!({ "id": id }), &self.login)
    }

    /// Reads anew until the answer is proved: a node's first run after a write past it carries an earlier transaction, so its
    /// result is not.
    pub(super) async fn until_proved(&self, place: usize, (kind, id): (usize, usize)) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.client(place)).await?;
        let again = format!("{}cache-control: no-cache\r\n", self.login);
        let again = post(&read_text(kind), &json!({ "id": id }), &again);
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            ask(&mut connection, &again).await?;
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                if ask(&mut connection, &self.read(kind, id)).await?.is_proved {
                    return Ok(());
                }
            }
        }
        bail!("no answer is proved")
    }
}

/// How the benchmark logs on.
pub(super) fn login() -> anyhow::Result<String> {
    Ok(neo4j::basic("neo4j", &neo4j::password()?))
}

fn read_text(kind: usize) -> String {
    format!("MATCH (n:{LABEL}{kind} {{id: $id}}) RETURN n.v{kind} AS v")
}

fn write_text(kind: usize) -> String {
    format!("MATCH (n:{LABEL}{kind} {{id: $id}}) SET n.v{kind} = n.v{kind} + 1")
}

/// A statement at Neo4j itself.
pub(super) async fn past(statement: &str) -> anyhow::Result<()> {
    let request = post(statement, &json!({}), &login()?);
    ask_neo4j(&mut Connection::open(neo4j::http()?).await?, &request).await
}

/// The write of a kind, for Neo4j itself.
pub(super) fn write_past(kind: usize, id: usize) -> anyhow::Result<Vec<u8>> {
    Ok(post(&write_text(kind), &json!({ "id": id }), &login()?))
}

pub(super) async fn ask_neo4j(connection: &mut Connection, request: &[u8]) -> anyhow::Result<()> {
    let answer = connection.ask(request).await?;
    ensure!(answer.status() == 202, "{}{}", answer.head, String::from_utf8_lossy(&answer.body));
    Ok(())
}

/// Asks a node; anything but a result is an error.
pub(super) async fn ask(connection: &mut Connection, request: &[u8]) -> anyhow::Result<How> {
    let answer = connection.ask(request).await?;
    if answer.status() != 202 {
        bail!("{}{}", answer.head, String::from_utf8_lossy(&answer.body));
    }
    let (is_hit, is_proved) = (answer.head.contains("; hit"), answer.head.contains("; proved"));
    Ok(How { is_hit, is_proved })
}

/// How often each key is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Popularity {
    /// Each as often as another.
    Uniform,
    /// Zipf with exponent 0.99.
    Zipf,
}

/// Draws kinds and ids.
pub(super) struct Keys(Option<Zipf>);

impl Keys {
    pub(super) fn new(popularity: Popularity) -> Self {
        Self((popularity == Popularity::Zipf).then(|| Zipf::new(KINDS * EACH, 0.99)))
    }

    pub(super) fn draw(&self, dice: &mut Dice) -> (usize, usize) {
        let rank = match &self.0 {
            Some(zipf) => zipf.draw(dice),
            None => dice.below(KINDS * EACH),
        };
        (rank % KINDS, rank / KINDS)
    }
}
