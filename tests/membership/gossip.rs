//! The members of the cluster, with real processes: a node is found through one seed and by gossip, kept out if it
//! belongs to another cluster, removed when dead, and back when alive (FAULTS F23, F27, F28;
//! promises I9, I12, I13). No Neo4j: the embedded graph answers. The tests print figures to
//! stderr.

mod discovery;
mod failure_detection;
mod key_rotation;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::process::{Addrs, NodeProcess};
use crate::support::turn::Turn;
use crate::support::{http, until};

const KEY: &str = "the key of a test's cluster";
/// For events that take a second or two on an idle machine.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A node's changes of the usual configuration.
struct Spec {
    seeds: Vec<String>,
    key: &'static str,
    /// More lines of `[node]`.
    node: String,
    /// More lines of `[cluster]`.
    cluster: String,
    store: String,
}

impl Default for Spec {
    fn default() -> Self {
        let (node, cluster, store) = (String::new(), String::new(), "memory:".to_owned());
        Self { seeds: Vec::new(), key: KEY, node, cluster, store }
    }
}

impl Spec {
    fn seeded(seeds: &[SocketAddr]) -> Self {
        Self { seeds: seeds.iter().map(ToString::to_string).collect(), ..Self::default() }
    }

    fn config(&self) -> String {
        let Self { seeds, key, node, cluster, store } = self;
        let seeds: Vec<String> = seeds.iter().map(|seed| format!("{seed:?}")).collect();
        let seeds = seeds.join(", ");
        format!(
            "drain = \"1s\"\n{node}\n[cluster]\nseeds = [{seeds}]\nkey = \"{key}\"\n{cluster}\n[store]\nuri = \"{store}\"\n[entry]\nttl = \"10m\"\n"
        )
    }
}

/// Nodes of one test; clusters of this binary's tests run one after another.
struct Party {
    nodes: Vec<NodeProcess>,
    dir: tempfile::TempDir,
    _turn: Turn,
}

impl Party {
    async fn new() -> Self {
        let turn = Turn::take().await;
        Self { nodes: Vec::new(), dir: tempfile::tempdir().unwrap(), _turn: turn }
    }

    /// Nodes `node-a`, `node-b` …, each with all of them as seeds, started and in one ring.
    async fn of(count: usize) -> Self {
        let mut party = Self::new().await;
        let addrs = Addrs::free(count);
        let seeds: Vec<SocketAddr> = addrs.iter().map(|each| each.peer).collect();
        for (place, addrs) in addrs.iter().enumerate() {
            party.start(&name(place), *addrs, &Spec::seeded(&seeds));
        }
        party.wait_for(count).await;
        party
    }

    fn start(&mut self, name: &str, addrs: Addrs, spec: &Spec) -> &NodeProcess {
        let mut node = NodeProcess::new(self.dir.path(), name, addrs, &spec.config());
        node.start();
        self.nodes.push(node);
        self.nodes.last().unwrap()
    }

    /// Every node is ready and has this many in its ring; all rings are one.
    async fn wait_for(&self, members: usize) {
        for node in &self.nodes {
            node.wait_for_members(members).await;
        }
        let one_ring = async || {
            let mut epochs = Vec::new();
            for node in &self.nodes {
                epochs.push(ring(node).await["epoch"].clone());
            }
            epochs.windows(2).all(|pair| pair[0] == pair[1])
        };
        until("all have one ring", WAIT_MAX, one_ring).await;
    }
}

fn name(place: usize) -> String {
    format!("node-{}", char::from(b'a' + u8::try_from(place).unwrap()))
}

async fn ring(node: &NodeProcess) -> Value {
    node.admin("/admin/v1/ring").await.map_or(Value::Null, |reply| reply.json())
}

/// A member in a node's ring, as the node shows it.
async fn member(node: &NodeProcess, name: &str) -> Value {
    let ring = ring(node).await;
    let members = ring["members"].as_array().cloned().unwrap_or_default();
    members.into_iter().find(|member| member["name"] == name).unwrap_or(Value::Null)
}

async fn in_ring(node: &NodeProcess) -> usize {
    node.metric("hopcache_ring_members", "").await.unwrap_or_default() as usize
}

async fn refused(node: &NodeProcess, reason: &str) -> u64 {
    let labels = format!("reason=\"{reason}\"");
    node.metric("hopcache_gossip_refused_total", &labels).await.unwrap_or_default() as u64
}

/// How often a node's log has this text.
fn log_count(node: &NodeProcess, what: &str) -> usize {
    node.log().matches(what).count()
}

/// A query that the embedded graph answers with its parameter.
fn question(k: usize) -> std::sync::Arc<[u8]> {
    let body = json!({"statement": "RETURN $k AS k", "parameters": {"k": k}}).to_string();
    http::post("/db/neo4j/query/v2", "", &body)
}
