//! A degraded cluster: a faulty peer, too many retries, more load than the origin can take, one principal that takes it
//! all, unbounded names, and a log without a reader. Working parts have to go on working, other requests have to be
//! refused quickly, and both have to be visible (`readyz`, metrics, `status`).
//!
//! | module | faults |
//! |---|---|
//! | `faulty_peers` | half-dead, stopped and babbling peers: breakers, the budget of retries, F10 |
//! | `overload` | F42 (5 × overload, refreshes give way), F37 (many principals) |
//! | `cardinality` | F36 |
//! | `blocked_log` | F38 |
//!
//! Larger runs: `HOPCACHE_TEST_NAMES` (F36: sessions, texts and parameters, 1,500 of each), `HOPCACHE_TEST_OVERLOAD_S`
//! (F42: 3 s), `HOPCACHE_TEST_STRICT` (F42's own bound), `HOPCACHE_TEST_BINARY` (another build, for figures).

mod blocked_log;
mod cardinality;
mod faulty_peer_proxy;
mod faulty_peers;
mod overload;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::http::{basic, post};
use crate::support::process::{Addrs, NodeProcess, raise_open_files};
use crate::support::redis::RedisServer;
use crate::support::scripted_neo4j::ScriptedNeo4j;
use crate::support::turn::Turn;
use faulty_peer_proxy::{FaultyPeerProxy, Way};

/// User and password.
type Who = (&'static str, &'static str);
const ANN: Who = ("ann", "the-password-of-ann");

/// Nodes on a scripted Neo4j and a Redis of their own. The last node's peers reach it by way of a proxy.
struct Scene {
    nodes: Vec<NodeProcess>,
    neo4j: ScriptedNeo4j,
    /// Before the last node.
    proxy: FaultyPeerProxy,
    _redis: RedisServer,
    _dir: tempfile::TempDir,
    _turn: Turn,
}

/// The plan of a scene.
struct Plan {
    nodes: usize,
    users: &'static [Who],
    /// Of one run.
    delay: Duration,
    /// How the last node is asked.
    way: Way,
    /// Lines of `[node]`, `[origin]`, `[entry]` and of later sections.
    node: &'static str,
    origin: &'static str,
    entry: &'static str,
    /// The first node's, if not this test's own.
    stderr: Option<std::fs::File>,
}

const PLAN: Plan = Plan {
    nodes: 3,
    users: &[ANN],
    delay: Duration::ZERO,
    way: Way::Http,
    node: "drain = \"2s\"",
    origin: "",
    entry: "ttl = \"10m\"",
    stderr: None,
};

impl Scene {
    async fn start(plan: Plan) -> Self {
        let turn = Turn::take().await;
        raise_open_files();
        let neo4j = ScriptedNeo4j::start(plan.users, plan.delay).await;
        let redis = RedisServer::start().await;
        let dir = tempfile::tempdir().unwrap();
        let addrs = Addrs::free(plan.nodes);
        let proxy = FaultyPeerProxy::start(addrs.last().unwrap().peer, plan.way).await;
        let peer = |place: usize| if place + 1 == plan.nodes { proxy.addr() } else { addrs[place].peer };
        let seeds: Vec<String> = (0..plan.nodes).map(|place| format!("\"{}\"", peer(place))).collect();
        let config = |place: usize| {
            format!(
                "peer_advertise = \"{}\"\n{}\n[cluster]\nseeds = [{}]\nkey = \"the key of a test's cluster\"\n[origin]\nuri = \"{}\"\n{}\n[store]\nuri = \"{}\"\n[entry]\n{}\n",
                peer(place),
                plan.node,
                seeds.join(", "),
                neo4j.uri(),
                plan.origin,
                redis.uri(),
                plan.entry
            )
        };
        let name = |place: usize| format!("node-{}", char::from(b'a' + u8::try_from(place).unwrap()));
        let nodes = addrs.iter().enumerate();
        let nodes =
            nodes.map(|(place, addrs)| NodeProcess::new(dir.path(), &name(place), *addrs, &config(place)));
        let mut nodes: Vec<_> = nodes.collect();
        nodes[0].stderr = plan.stderr;
        nodes.iter_mut().for_each(NodeProcess::start);
        for node in &nodes {
            node.wait_for_members(plan.nodes).await;
        }
        Self { nodes, neo4j, proxy, _redis: redis, _dir: dir, _turn: turn }
    }

    /// The first node, which the tests' clients ask.
    fn entry(&self) -> &NodeProcess {
        &self.nodes[0]
    }

    fn client(&self) -> SocketAddr {
        self.entry().addrs.client
    }

    /// Names that begin so, of keys that belong to the node at `place`.
    async fn keys_of(&self, place: usize, prefix: &str, count: usize) -> Vec<String> {
        let mut keys = Vec::new();
        for number in 0.. {
            let key = format!("{prefix}-{number}");
            let question = json!({"principal": ANN.0, "statement": STATEMENT, "parameters": {"k": key}});
            let explained = self.entry().order("/admin/v1/explain", &question).await;
            if explained["owner"] == self.nodes[place].name.as_str() {
                keys.push(key);
            }
            if keys.len() == count {
                break;
            }
        }
        keys
    }

    async fn count(&self, name: &str, labels: &str) -> f64 {
        self.entry().metric(name, labels).await.unwrap_or(0.0)
    }

    async fn degraded(&self) -> Value {
        self.entry().admin("/readyz").await.unwrap().json()
    }
}

const STATEMENT: &str = "RETURN $k AS k";

fn read(who: Who, key: &str) -> Arc<[u8]> {
    let body = json!({"statement": STATEMENT, "parameters": {"k": key}});
    post("/db/neo4j/query/v2", &basic(who.0, who.1), &body.to_string())
}

fn percentile(of: &[Duration], percent: usize) -> Duration {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() - 1) * percent / 100]
}
