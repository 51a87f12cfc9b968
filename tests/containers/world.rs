//! One test's world: networks of its own, a Redis, nodes, and a counting proxy before the Neo4j that all tests
//! share. All of it is gone when the test is; the logs of a failed one are kept.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use testcontainers::{GenericImage, ImageExt};
use tokio::sync::{Mutex, MutexGuard};

use super::engine::{self, Container, Network};
use super::node::Node;
use crate::support::bolt_proxy::BoltProxy;
use crate::support::cluster::ONE_AT_A_TIME;
use crate::support::http::{self, Reply};
use crate::support::until;

/// Places on the networks.
const REDIS: u8 = 9;
pub const FIRST_NODE: u8 = 11;
pub const PASSWORD: &str = "hopcache-test";

/// A start takes 6 to 10 s on idle cores.
const NEO4J_UP_MAX: Duration = Duration::from_secs(150);

/// The Neo4j that all tests of this run share; it ends with the run.
static NEO4J: Mutex<Option<Container>> = Mutex::const_new(None);

pub struct World {
    pub test: String,
    /// Between nodes.
    pub peers: Network,
    /// Between nodes and Redis.
    pub store: Network,
    pub redis: Container,
    redis_addr: SocketAddr,
    pub neo4j: Container,
    neo4j_http: SocketAddr,
    pub proxy: BoltProxy,
    pub nodes: Vec<Node>,
    _turn: MutexGuard<'static, ()>,
}

/// What a test wants otherwise than usual.
pub struct Plan {
    /// Lines of `[entry]`.
    pub entry: &'static str,
    /// More lines of `[origin]`.
    pub origin: &'static str,
}

impl Default for Plan {
    fn default() -> Self {
        Self { entry: "ttl = \"10m\"", origin: "" }
    }
}

impl World {
    /// Three nodes that know each other; runs last as long as the proxy is told.
    pub async fn start(test: &str) -> Self {
        Self::of(test, Plan::default()).await
    }

    pub async fn of(test: &str, plan: Plan) -> Self {
        let turn = ONE_AT_A_TIME.lock().await;
        let neo4j = shared_neo4j().await;
        let names = [format!("{test}-peers"), format!("{test}-store")];
        let (peers, store) = tokio::join!(Network::create(&names[0], test), Network::create(&names[1], test));
        let request = GenericImage::new("redis", "7-alpine").with_cmd(["redis-server", "--save", ""]);
        let redis = Container::start(request, "redis", test).await;
        store.connect(&redis.id, REDIS).await;
        let neo4j_addr = neo4j.addr().await;
        let proxy =
            BoltProxy::start_at(neo4j.host_addr().await.into(), &format!("{neo4j_addr}:7687")).await.unwrap();
        let redis_addr = (redis.addr().await, 6379).into();
        let neo4j_http = (neo4j_addr, 7474).into();
        let test = test.to_owned();
        let nodes = Vec::new();
        let mut world =
            Self { test, peers, store, redis, redis_addr, neo4j, neo4j_http, proxy, nodes, _turn: turn };
        let config = world.config(&plan);
        let start = |place| Node::start(&world.test, place, &world.peers, &world.store, &config);
        let (a, b, c) = tokio::join!(start(FIRST_NODE), start(FIRST_NODE + 1), start(FIRST_NODE + 2));
        world.nodes = vec![a, b, c];
        world.wait_until_whole().await;
        world
    }

    fn config(&self, plan: &Plan) -> String {
        let seeds: Vec<String> = (FIRST_NODE..FIRST_NODE + 3)
            .map(|place| format!("\"{}:7476\"", self.peers.addr(place)))
            .collect();
        format!(
            "[cluster]\nseeds = [{}]\nkey = \"the key of a test's cluster\"\n[origin]\nuri = \"bolt://{}\"\nmax_concurrent = 128\n{}\n[store]\nuri = \"redis://{}:6379\"\n[entry]\n{}\n",
            seeds.join(", "),
            self.proxy.addr(),
            plan.origin,
            self.store.addr(REDIS),
            plan.entry
        )
    }

    /// Every node is ready, sees every other, and has its store.
    pub async fn wait_until_whole(&self) {
        for node in &self.nodes {
            node.wait_for_members(self.nodes.len()).await;
        }
    }

    /// Place of the node that owns a query, and those of the others.
    pub async fn owner(&self, statement: &str) -> (usize, Vec<usize>) {
        let told = self.nodes[0].explain(statement).await;
        let owner = told["owner"].as_str().expect("explain names an owner");
        let owner = self.nodes.iter().position(|node| node.name == owner).expect("a node of this world");
        (owner, (0..self.nodes.len()).filter(|place| *place != owner).collect())
    }

    /// Takes a node off the networks, or brings it back with the addresses that it had.
    pub async fn cut(&self, place: usize, networks: &[&Network]) {
        for network in networks {
            network.disconnect(&self.nodes[place].container.id).await;
        }
    }

    pub async fn heal(&self, place: usize, networks: &[&Network]) {
        for network in networks {
            network.connect(&self.nodes[place].container.id, self.nodes[place].place).await;
        }
    }

    /// Where Redis is, for the test itself.
    pub fn redis_addr(&self) -> SocketAddr {
        self.redis_addr
    }

    pub async fn redis_is_back(&mut self) {
        self.redis_addr = (self.redis.addr().await, 6379).into();
        let addr = self.redis_addr;
        until("Redis answers", Duration::from_secs(10), async || {
            super::redis::tell(addr, "PING").await.is_ok_and(|said| said.starts_with("+PONG"))
        })
        .await;
    }

    /// Sum of a metric over the nodes at these places.
    pub async fn metric(&self, places: &[usize], name: &str, labels: &str) -> f64 {
        let mut sum = 0.0;
        for place in places {
            sum += self.nodes[*place].metric(name, labels).await;
        }
        sum
    }

    /// Runs a statement on Neo4j itself, past hopcache.
    pub async fn at_neo4j(&self, statement: &str) -> Reply {
        let reply = http::ask(self.neo4j_http, &query(statement)).await.unwrap();
        assert_eq!(reply.status, 202, "{reply}");
        reply
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            keep_logs(&self.test);
        }
        engine::remove_test(&self.test);
    }
}

/// A Query API request by the user `neo4j`.
pub fn query(statement: &str) -> std::sync::Arc<[u8]> {
    let body = json!({"statement": statement}).to_string();
    http::post("/db/neo4j/query/v2", &http::basic("neo4j", PASSWORD), &body)
}

async fn shared_neo4j() -> Container {
    let mut shared = NEO4J.lock().await;
    if let Some(neo4j) = &*shared {
        // A test that failed may have left it so.
        if neo4j.is_paused().await {
            neo4j.unpause().await;
        }
        return neo4j.clone();
    }
    let request = GenericImage::new("neo4j", "5.26-community")
        .with_env_var("NEO4J_AUTH", format!("neo4j/{PASSWORD}"))
        .with_env_var("NEO4J_server_memory_heap_initial__size", "384m")
        .with_env_var("NEO4J_server_memory_heap_max__size", "384m")
        .with_env_var("NEO4J_server_memory_pagecache_size", "64m");
    let neo4j = Container::start(request, "neo4j", "all").await;
    let http = (neo4j.addr().await, 7474).into();
    let request = query("RETURN 1");
    until("Neo4j answers", NEO4J_UP_MAX, async || {
        http::ask(http, &request).await.is_ok_and(|reply| reply.status == 202)
    })
    .await;
    *shared = Some(neo4j.clone());
    neo4j
}

/// What the test's containers, and the shared Neo4j, have said.
fn keep_logs(test: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/containers").join(test);
    let _ = std::fs::create_dir_all(&folder);
    for label in [test, "all"] {
        for (id, name) in engine::containers_of(label) {
            let said = Container { id }.said();
            let _ = std::fs::write(folder.join(format!("{name}.log")), said);
        }
    }
    crate::support::say(&format!("logs of the containers: {}", folder.display()));
}
