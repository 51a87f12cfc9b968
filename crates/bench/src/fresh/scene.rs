//! Nodes, and a graph of several kinds of nodes in a real Neo4j. Each kind has a label and a property of its own: a write touches one
//! kind.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use hopcache_testbed::dice::{Dice, Zipf};
use hopcache_testbed::http::{Connection, post};
use hopcache_testbed::neo4j;
use hopcache_testbed::node::{Nodes, PREFETCH_OFF};
use serde_json::json;

use crate::cache_status::{CacheStatus, Kind};
use crate::graph::login;

/// Kinds of nodes.
pub(super) const KINDS: usize = 10;
/// Nodes of each kind.
pub(super) const EACH: usize = 200;
const LABEL: &str = "HopcacheBenchFresh";

/// Everything that runs.
pub(super) struct Scene {
    pub(super) nodes: Nodes,
    login: String,
}

impl Scene {
    /// Nodes, and the graph of several kinds. `freshness`: lines of `[freshness]`. `ttl`: of entries.
    pub(super) async fn start(nodes: usize, freshness: &str, ttl: Duration) -> anyhow::Result<Self> {
        let sections = format!(
            "[origin]\nuri = \"bolt://{}\"\n[entry]\nttl = \"{}ms\"\n[freshness]\n{freshness}\n{PREFETCH_OFF}",
            neo4j::bolt()?,
            ttl.as_millis()
        );
        let scene = Self { nodes: Nodes::start(nodes, &sections).await?, login: login()? };
        // Past the nodes, so that they begin without results.
        let mut past = Connection::open(neo4j::http()?).await?;
        for kind in 0..KINDS {
            for statement in [
                format!("MATCH (n:{LABEL}{kind}) DETACH DELETE n"),
                format!("UNWIND range(0, {}) AS id CREATE (:{LABEL}{kind} {{id: id, v{kind}: 0}})", EACH - 1),
            ] {
                past.ask(&post(&statement, &json!({}), &scene.login)).await?.succeeded()?;
            }
        }
        Ok(scene)
    }

    /// Runs for misses and refreshes: reads at Neo4j.
    pub(super) async fn reading_runs(&self) -> anyhow::Result<u64> {
        let of = async |cause| self.nodes.metric("hopcache_origin_runs_total", cause).await;
        Ok(of("cause=\"miss\"").await? + of("cause=\"refresh\"").await?)
    }

    pub(super) fn read(&self, kind: usize, id: usize) -> Vec<u8> {
        post(&read_text(kind), &json!({ "id": id }), &self.login)
    }

    /// For a node, or for Neo4j itself.
    pub(super) fn write(&self, kind: usize, id: usize) -> Vec<u8> {
        let text = format!("MATCH (n:{LABEL}{kind} {{id: $id}}) SET n.v{kind} = n.v{kind} + 1");
        post(&text, &json!({ "id": id }), &self.login)
    }

    /// Reads anew until the answer is proved: a node's first run after a write past it carries an earlier transaction, so its
    /// result is not.
    pub(super) async fn until_proved(&self, place: usize, (kind, id): (usize, usize)) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.nodes.client(place)).await?;
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

fn read_text(kind: usize) -> String {
    format!("MATCH (n:{LABEL}{kind} {{id: $id}}) RETURN n.v{kind} AS v")
}

/// Asks a node; anything but a result is an error.
pub(super) async fn ask(connection: &mut Connection, request: &[u8]) -> anyhow::Result<CacheStatus> {
    let answer = connection.ask(request).await?.succeeded()?;
    let status = CacheStatus::of(Ok(answer));
    ensure!(status.kind != Kind::Failed, "no result");
    Ok(status)
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
