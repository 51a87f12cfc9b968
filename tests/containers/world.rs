//! Worlds: two networks, a Redis, three nodes, and a counting proxy before the Neo4j that all worlds share.
//!
//! The logs of a world whose test failed are kept. Two tests run at a time, because tests wait more than they compute.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use testcontainers::{GenericImage, ImageExt};
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use super::docker::{self, Container, Network};
use super::node::Node;
use crate::support::bolt_proxy::BoltProxy;
use crate::support::http::{self, Reply};
use crate::support::{say, until};

/// Places on the networks.
const REDIS: u8 = 9;
pub const FIRST_NODE: u8 = 11;
pub const PASSWORD: &str = "hopcache-test";

/// A start takes 6 to 10 s on idle cores.
const NEO4J_UP_MAX: Duration = Duration::from_secs(150);

/// The Neo4j that all tests of this run share; it ends with the run.
static NEO4J: OnceCell<Container> = OnceCell::const_new();
static WORLDS: Semaphore = Semaphore::const_new(2);

/// Runs a test: on one runtime for all, since the worlds' proxies outlive the test that started them.
pub fn run(test: impl Future<Output = ()>) {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let start = || tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    RUNTIME.get_or_init(|| start().unwrap()).block_on(test);
}

pub struct World {
    name: String,
    test: &'static str,
    began: Instant,
    /// Between nodes.
    pub peers: Network,
    /// Between nodes and Redis.
    pub store: Network,
    _redis: Container,
    redis_addr: SocketAddr,
    neo4j_http: SocketAddr,
    pub proxy: BoltProxy,
    pub nodes: Vec<Node>,
    _place: SemaphorePermit<'static>,
}

impl World {
    /// Three nodes that know each other. Runs last as long as the proxy is set to delay them.
    pub async fn start(test: &'static str) -> Self {
        let (place, began) = (WORLDS.acquire().await.unwrap(), Instant::now());
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let name = format!("world-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let names = [format!("{name}-peers"), format!("{name}-store")];
        let redis = GenericImage::new("redis", "7-alpine").with_cmd(["redis-server", "--save", ""]);
        let (neo4j, peers, store, redis) = tokio::join!(
            NEO4J.get_or_init(start_neo4j),
            Network::create(&names[0], &name),
            Network::create(&names[1], &name),
            Container::start(redis, "redis", &name)
        );
        store.connect(&redis.id, REDIS).await;
        let neo4j = neo4j.clone();
        let neo4j_addr = neo4j.addr().await;
        let proxy =
            BoltProxy::start_at(neo4j.host_addr().await.into(), &format!("{neo4j_addr}:7687")).await.unwrap();
        let redis_addr = (redis.addr().await, 6379).into();
        let neo4j_http = (neo4j_addr, 7474).into();
        let nodes = Vec::new();
        let mut world = Self {
            name,
            test,
            began,
            peers,
            store,
            _redis: redis,
            redis_addr,
            neo4j_http,
            proxy,
            nodes,
            _place: place,
        };
        let config = world.config();
        let start = |place| Node::start(&world.name, place, &world.peers, &world.store, &config);
        let (a, b, c) = tokio::join!(start(FIRST_NODE), start(FIRST_NODE + 1), start(FIRST_NODE + 2));
        world.nodes = vec![a, b, c];
        tokio::join!(world.wait_until_whole(), world.wait_for_neo4j());
        world
    }

    async fn wait_for_neo4j(&self) {
        let request = query("RETURN 1");
        until("Neo4j answers", NEO4J_UP_MAX, async || {
            http::ask(self.neo4j_http, &request).await.is_ok_and(|reply| reply.status == 202)
        })
        .await;
    }

    fn config(&self) -> String {
        let seeds: Vec<String> = (FIRST_NODE..FIRST_NODE + 3)
            .map(|place| format!("\"{}:7476\"", self.peers.addr(place)))
            .collect();
        format!(
            "[cluster]\nseeds = [{}]\nkey = \"the key of a test's cluster\"\n[origin]\nuri = \"bolt://{}\"\nmax_concurrent = 128\n[store]\nuri = \"redis://{}:6379\"\n[entry]\nttl = \"10m\"\n",
            seeds.join(", "),
            self.proxy.addr(),
            self.store.addr(REDIS)
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
        let explained = self.nodes[0].explain(statement).await;
        let owner = explained["owner"].as_str().expect("explain names an owner");
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
            keep_logs(self.test, &self.name);
        }
        docker::remove_test(&self.name);
        say(&format!("{}: {} ms", self.test, self.began.elapsed().as_millis()));
    }
}

/// A Query API request by the user `neo4j`.
pub fn query(statement: &str) -> std::sync::Arc<[u8]> {
    let body = json!({"statement": statement}).to_string();
    http::post("/db/neo4j/query/v2", &http::basic("neo4j", PASSWORD), &body)
}

async fn start_neo4j() -> Container {
    let request = GenericImage::new("neo4j", "5.26-community")
        .with_env_var("NEO4J_AUTH", format!("neo4j/{PASSWORD}"))
        .with_env_var("NEO4J_server_memory_heap_initial__size", "384m")
        .with_env_var("NEO4J_server_memory_heap_max__size", "384m")
        .with_env_var("NEO4J_server_memory_pagecache_size", "64m");
    Container::start(request, "neo4j", "all").await
}

/// Keeps the logs of a world's containers and of the shared Neo4j.
fn keep_logs(test: &str, world: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/containers").join(test);
    let _ = std::fs::create_dir_all(&folder);
    for label in [world, "all"] {
        for (id, name) in docker::containers_of(label) {
            let logs = Container { id }.logs();
            let _ = std::fs::write(folder.join(format!("{name}.log")), logs);
        }
    }
    say(&format!("logs of the containers: {}", folder.display()));
}
