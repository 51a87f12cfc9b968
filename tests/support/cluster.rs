//! Several nodes, a Redis of their own, and the real Neo4j behind a proxy that counts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::bolt_proxy::BoltProxy;
use super::environment;
use super::http::{self, Reply};
use super::process::{Addrs, NodeProcess, raise_open_files};
use super::redis::RedisServer;
use super::turn::Turn;

/// Tests share the machine, whose cores are busy while they run.
const PREFETCH_AT_ANY_LOAD: &str = "[prefetch]\nyield_cores = false\n";

/// A test's changes of the usual settings.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Nodes that are started.
    pub started: usize,
    /// Nodes that the seeds name.
    pub seeded: usize,
    /// Lines of `[entry]`.
    pub entry: &'static str,
    /// `node.drain`.
    pub drain: &'static str,
    /// More lines of `[node]`.
    pub node: String,
    /// Lines of `[freshness]`. Entries live for their TTL if a test says nothing.
    pub freshness: &'static str,
    /// More lines of `[origin]`.
    pub origin: &'static str,
    /// The server behind the proxy, where it is not the real Neo4j.
    pub upstream: Option<SocketAddr>,
    /// More lines of `[cluster]` for nodes that are not started at first.
    pub late_cluster: &'static str,
    /// Lines of `[prefetch]`. `None` if a prefetch would disturb the test's counts; the test says which.
    pub prefetch: Option<&'static str>,
    /// Where the first node finds the store, if not where the others do.
    pub first_store: Option<SocketAddr>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            started: 3,
            seeded: 3,
            entry: "ttl = \"10m\"",
            freshness: "max_life = \"0s\"",
            origin: "",
            upstream: None,
            drain: "10s",
            node: String::new(),
            late_cluster: "",
            prefetch: Some(""),
            first_store: None,
        }
    }
}

pub struct Cluster {
    pub nodes: Vec<NodeProcess>,
    pub redis: RedisServer,
    pub proxy: BoltProxy,
    _dir: tempfile::TempDir,
    _turn: Turn,
}

impl Cluster {
    /// Three nodes that know each other.
    pub async fn start() -> Self {
        Self::of(Plan::default()).await
    }

    /// Nodes as planned, on a Redis of their own.
    pub async fn of(plan: Plan) -> Self {
        let redis = RedisServer::start().await;
        let uri = redis.uri();
        Self::on(plan, redis, &uri).await
    }

    /// Nodes as planned on this Redis, which they find at `store`; each of the started ones is ready and
    /// sees the others.
    pub async fn on(plan: Plan, redis: RedisServer, store: &str) -> Self {
        let turn = Turn::take().await;
        raise_open_files();
        let upstream =
            plan.upstream.map_or_else(|| environment("HOPCACHE_TEST_NEO4J_BOLT"), |addr| addr.to_string());
        let upstream = upstream.trim_start_matches("bolt://").trim_end_matches('/');
        let proxy = BoltProxy::start(upstream).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let addrs = Addrs::free(plan.seeded);
        let seeds: Vec<String> = addrs.iter().map(|each| format!("\"{}\"", each.peer)).collect();
        // A run lasts a second here, and 300 keys are asked at once. With the default of 32 slots most requests would
        // be refused as overload, which is correct.
        let config = |cluster: &str, store: &str| {
            format!(
                "drain = \"{}\"\n{}\n[cluster]\n{cluster}\nseeds = [{}]\nkey = \"the key of a test's cluster\"\n[origin]\nuri = \"bolt://{}\"\nmax_concurrent = 128\n{}\n[store]\nuri = \"{}\"\n[entry]\n{}\n[freshness]\n{}\n",
                plan.drain,
                plan.node,
                seeds.join(", "),
                proxy.addr(),
                plan.origin,
                store,
                plan.entry,
                plan.freshness
            )
        };
        let name = |place: usize| format!("node-{}", char::from(b'a' + u8::try_from(place).unwrap()));
        let nodes = addrs.iter().enumerate();
        let nodes = nodes.map(|(place, addrs)| {
            let own_store = plan.first_store.filter(|_| place == 0).map(|addr| format!("redis://{addr}"));
            let cluster = if place < plan.started { "" } else { plan.late_cluster };
            let config = config(cluster, own_store.as_deref().unwrap_or(store));
            let config = config
                + &plan.prefetch.map_or(String::new(), |lines| format!("{PREFETCH_AT_ANY_LOAD}{lines}\n"));
            let mut node = NodeProcess::new(dir.path(), &name(place), *addrs, &config);
            node.prefetches = plan.prefetch.is_some();
            node
        });
        let mut cluster = Self { nodes: nodes.collect(), redis, proxy, _dir: dir, _turn: turn };
        cluster.nodes.iter_mut().take(plan.started).for_each(NodeProcess::start);
        for node in cluster.nodes.iter().take(plan.started) {
            node.wait_for_members(plan.started).await;
        }
        cluster
    }

    /// Where clients connect, node by node.
    pub fn clients(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.addrs.client).collect()
    }

    /// Place of the node that owns a query of the tests' user.
    pub async fn owner(&self, statement: &str, parameters: &Value) -> usize {
        let explained = self.nodes[0].explain(statement, parameters).await;
        let owner = explained["owner"].as_str().expect("explain names an owner");
        self.nodes.iter().position(|node| node.name == owner).expect("a node of this cluster")
    }

    /// A parameter `k` with which the statement belongs to the node at `place`.
    pub async fn owned_by(&self, place: usize, statement: &str) -> Value {
        for k in 0..200 {
            if self.owner(statement, &json!({ "k": k })).await == place {
                return json!({ "k": k });
            }
        }
        panic!("{} owns none of 200 keys", self.nodes[place].name);
    }

    /// Starts a node that is not running, and waits until all see all.
    pub async fn bring_back(&mut self, place: usize) {
        self.nodes[place].start();
        for node in &self.nodes {
            node.wait_for_members(self.nodes.len()).await;
        }
    }
}

/// Runs a statement on Neo4j itself, over Neo4j's own Query API.
pub async fn at_neo4j(statement: &str) -> Reply {
    let reply = http::ask(neo4j_http(), &http::query(statement, &json!({}))).await.unwrap();
    assert_eq!(reply.status, 202, "{reply}");
    reply
}

/// Where Neo4j itself speaks HTTP.
pub fn neo4j_http() -> SocketAddr {
    let url = environment("HOPCACHE_TEST_NEO4J_HTTP");
    let addr = url.trim_start_matches("http://").trim_end_matches('/');
    std::net::ToSocketAddrs::to_socket_addrs(addr).unwrap().next().unwrap()
}

/// A label that only this run of one test uses.
pub struct OwnLabel(pub String);

impl OwnLabel {
    pub fn new(test: &str) -> Self {
        let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        Self(format!("HcTest{test}{nanos}"))
    }
}

impl Drop for OwnLabel {
    /// Takes its nodes out of Neo4j, however the test ended.
    fn drop(&mut self) {
        let request: Arc<[u8]> = http::query(&format!("MATCH (n:{}) DETACH DELETE n", self.0), &json!({}));
        let Ok(mut stream) = std::net::TcpStream::connect(neo4j_http()) else { return };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let _ = std::io::Write::write_all(&mut stream, &request);
        let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
    }
}
