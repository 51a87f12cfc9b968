//! Three nodes on a Redis of their own and the real Neo4j. For faults each node is reached by the others, and reaches Redis,
//! through proxies.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::history::{CELLS, Cell, NODES};
use super::texts::{Form, Place, Text};
use crate::support::bolt_client::BoltClient;
use crate::support::cluster::{OwnLabel, neo4j_http};
use crate::support::process::{Addrs, NodeProcess, raise_open_files};
use crate::support::redis::RedisServer;
use crate::support::tcp_proxy::TcpProxy;
use crate::support::turn::Turn;
use crate::support::udp_proxy::PeerProxy;
use crate::support::{environment, http};

/// Nodes of the cluster.
pub const MEMBERS: usize = 3;
/// Of an entry by age, without jitter and grace.
pub const TTL: Duration = Duration::from_secs(3);
/// TTL, jitter, grace, and some seconds for what notices a write past Hopcache.
pub const QUIET: Duration = Duration::from_secs(10);

/// What the clients know: everything of it can be shared.
pub struct Scene {
    pub label: OwnLabel,
    pub addrs: Vec<Addrs>,
    pub cells: Vec<Cell>,
    pub started: Instant,
    /// Of cells. Neo4j plans each text of each group, which takes longer than to run it.
    pub groups: usize,
    /// Writes move marks, and may end unknown.
    pub has_faults: bool,
}

/// What is faulted.
pub struct Stage {
    pub nodes: Vec<NodeProcess>,
    pub redis: RedisServer,
    /// Before each node's peer port.
    pub peers: Vec<PeerProxy>,
    /// Between each node and Redis, and between each node and Neo4j.
    pub stores: Vec<TcpProxy>,
    pub origins: Vec<TcpProxy>,
    /// Whether Redis has written one that it loads when it starts.
    pub has_snapshot: bool,
    _dir: tempfile::TempDir,
    _turn: Turn,
}

impl Stage {
    /// `freshness` are lines of its section.
    pub async fn start(freshness: &str, groups: usize, has_faults: bool) -> (Self, Scene) {
        let turn = Turn::take().await;
        raise_open_files();
        let (redis, dir) = (RedisServer::start().await, tempfile::tempdir().unwrap());
        let addrs = Addrs::free(MEMBERS);
        let (mut peers, mut stores, mut origins, mut nodes) = (vec![], vec![], vec![], vec![]);
        for addrs in &addrs {
            if has_faults {
                peers.push(PeerProxy::start(addrs.peer).await);
                stores.push(TcpProxy::start(redis.addr()).await);
                origins.push(TcpProxy::start(neo4j_bolt()).await);
            }
        }
        let seen: Vec<SocketAddr> = if has_faults {
            peers.iter().map(PeerProxy::addr).collect()
        } else {
            addrs.iter().map(|a| a.peer).collect()
        };
        let seeds: Vec<String> = seen.iter().map(|addr| format!("\"{addr}\"")).collect();
        for (place, addrs) in addrs.iter().enumerate() {
            let store = stores.get(place).map_or(redis.addr(), TcpProxy::addr);
            let origin = origins.get(place).map_or_else(neo4j_bolt, TcpProxy::addr);
            let config = format!(
                "drain = \"1s\"\npeer_advertise = \"{}\"\n[cluster]\nseeds = [{}]\nkey = \"the key of a test's cluster\"\n[origin]\nuri = \"bolt://{origin}\"\nmax_concurrent = 128\n[store]\nuri = \"redis://{store}\"\n[entry]\nttl = \"{}s\"\n[freshness]\n{freshness}\n",
                seen[place],
                seeds.join(", "),
                TTL.as_secs(),
            );
            let name = format!("node-{}", char::from(b'a' + u8::try_from(place).unwrap()));
            let mut node = NodeProcess::new(dir.path(), &name, *addrs, &config);
            node.start();
            nodes.push(node);
        }
        for node in &nodes {
            node.wait_for_members(MEMBERS).await;
        }
        let cells = std::iter::repeat_with(Cell::default).take(CELLS).collect();
        let scene = Scene {
            label: OwnLabel::new("Oracle"),
            addrs,
            cells,
            started: Instant::now(),
            groups,
            has_faults,
        };
        scene.create_marks().await;
        (Self { nodes, redis, peers, stores, origins, has_snapshot: false, _dir: dir, _turn: turn }, scene)
    }
}

impl Stage {
    /// What the watchers have found, of all nodes since their last start.
    pub async fn watched(&self) -> String {
        let mut found = Vec::new();
        for kind in ["known", "foreign", "uncertain"] {
            let mut sum = 0.0;
            for node in &self.nodes {
                let of_node = node.metric("hopcache_watched_total", &format!("found=\"{kind}\"")).await;
                sum += of_node.unwrap_or(0.0);
            }
            found.push(format!("{sum} {kind}"));
        }
        found.join(", ")
    }
}

impl Scene {
    pub fn prefix(&self) -> &str {
        &self.label.0
    }

    /// What the texts of this run are made of.
    pub fn graph(&self) -> (&str, usize) {
        (self.prefix(), self.groups)
    }

    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// The statements that make a cell's first graph out of any graph of it.
    pub fn reset(&self, cell: usize) -> Vec<Text> {
        let place = Place {
            prefix: self.prefix(),
            groups: self.groups,
            cell,
            form: Form::Property,
            id: 0,
            k: NODES as i64,
            v: 0,
            base: 0,
        };
        let texts = [
            "MATCH @(n) DETACH DELETE n",
            "UNWIND range(0, @k - 1) AS i CREATE (n:@P:@G:@C {id: i, cell: @cell, @a: i % 7, @b: i * 3 % 11, @s: 'n' + i}) FOREACH (x IN CASE WHEN i % 2 = 0 THEN [1] ELSE [] END | SET n:@X) FOREACH (x IN CASE WHEN i % 5 = 0 THEN [1] ELSE [] END | SET n:@Y)",
            "MATCH @(n), @(m) WHERE m.id = (n.id + 1) % @k CREATE (n)-[:@R {@w: n.id}]->(m)",
            "MATCH @(n), @(m) WHERE n.id % 4 = 0 AND m.id = n.id * 3 % @k CREATE (n)-[:@S]->(m)",
        ];
        texts.map(|text| place.text(text)).to_vec()
    }

    /// Marks of all cells, at Neo4j itself.
    async fn create_marks(&self) {
        let text = format!(
            "UNWIND range(0, {CELLS} - 1) AS cell CREATE (:{0}:{0}M {{cell: cell, version: 0, lock: 0}})",
            self.prefix()
        );
        at_neo4j(&text, &json!({})).await;
    }

    /// The version of a cell's mark. With `to` it ends all that may still come of a write: it waits for transactions that
    /// have the mark, and moves it on, so that later ones do nothing.
    pub async fn mark_of(&self, cell: usize, to: Option<i64>) -> i64 {
        let label = format!("{}M", self.prefix());
        let text = match to {
            Some(to) => format!(
                "MATCH (o:{label} {{cell: $cell}}) SET o.lock = {to} WITH o, o.version AS before SET o.version = {to} RETURN before"
            ),
            None => format!("MATCH (o:{label} {{cell: $cell}}) RETURN o.version AS before"),
        };
        let rows = at_neo4j(&text, &json!({"cell": cell})).await;
        rows["data"]["values"][0][0].as_i64().unwrap()
    }
}

/// Runs a statement on Neo4j itself.
pub async fn at_neo4j(statement: &str, parameters: &Value) -> Value {
    let reply = http::ask(neo4j_http(), &http::query(statement, parameters)).await.unwrap();
    assert_eq!(reply.status, 202, "{reply}");
    reply.json()
}

/// A connection that the tests' user has logged on to.
pub async fn bolt(addr: SocketAddr) -> std::io::Result<BoltClient> {
    let mut client = BoltClient::connect(addr).await?;
    let logged_on = client.log_on("neo4j", &environment("HOPCACHE_TEST_NEO4J_PASSWORD")).await?;
    logged_on.map_err(|failure| std::io::Error::other(format!("{}: {}", failure.code, failure.message)))?;
    Ok(client)
}

/// Neo4j's own Bolt listener.
pub fn neo4j_bolt() -> SocketAddr {
    let uri = environment("HOPCACHE_TEST_NEO4J_BOLT");
    let addr = uri.trim_start_matches("bolt://").trim_end_matches('/');
    std::net::ToSocketAddrs::to_socket_addrs(addr).unwrap().next().unwrap()
}
