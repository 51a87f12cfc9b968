//! Worlds: two networks, a Redis, three nodes, and a counting proxy before the Neo4j that all worlds share.
//!
//! A world is lent to one test after another. Each test has its own statements and heals the world. A world whose test
//! failed is thrown away, and its logs are kept. Two tests run at a time, because tests wait more than they compute.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use testcontainers::{GenericImage, ImageExt};
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit};

use super::docker::{self, Container, Network};
use super::node::Node;
use super::redis;
use crate::support::bolt_proxy::BoltProxy;
use crate::support::http::{self, Reply};
use crate::support::pace::Slowness;
use crate::support::{say, until};

/// Places on the networks.
const REDIS: u8 = 9;
pub const FIRST_NODE: u8 = 11;
pub const PASSWORD: &str = "hopcache-test";

/// A start takes 6 to 10 s on idle cores.
const NEO4J_UP_MAX: Duration = Duration::from_secs(150);

/// The Neo4j that all tests of this run share; it ends with the run.
static NEO4J: OnceCell<Container> = OnceCell::const_new();
/// A test that causes faults of Neo4j itself is alone.
static NEO4J_USE: RwLock<()> = RwLock::const_new(());
static WORLDS: Semaphore = Semaphore::const_new(2);
static IDLE: Mutex<Vec<World>> = Mutex::new(Vec::new());

/// Runs a test: on one runtime for all, since the worlds' proxies outlive the test that started them.
pub fn run(test: impl Future<Output = ()>) {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let start = || tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    RUNTIME.get_or_init(|| start().unwrap()).block_on(test);
}

/// A test's hold on Neo4j.
enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

/// A world while a test has it.
pub struct Lent {
    world: Option<World>,
    test: String,
    began: Instant,
    is_for_one: bool,
    _turn: Turn,
    _place: SemaphorePermit<'static>,
}

impl Deref for Lent {
    type Target = World;

    fn deref(&self) -> &World {
        self.world.as_ref().unwrap()
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut World {
        self.world.as_mut().unwrap()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(world) = self.world.take() else { return };
        if std::thread::panicking() {
            keep_logs(&self.test, &world.name);
        } else if !self.is_for_one {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(world);
        }
        say(&format!("{}: {} ms", self.test, self.began.elapsed().as_millis()));
    }
}

pub struct World {
    name: String,
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
}

/// A test's changes of the usual settings.
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
    /// Three nodes that know each other. Runs last as long as the proxy is set to delay them.
    pub async fn start(test: &str) -> Lent {
        let place = WORLDS.acquire().await.unwrap();
        let turn = Turn::Shared { _guard: NEO4J_USE.read().await };
        let began = Instant::now();
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let world = match idle {
            Some(world) => world,
            None => Self::create(&Plan::default()).await,
        };
        world.wait_until_whole().await;
        let test = test.to_owned();
        Lent { world: Some(world), test, began, is_for_one: false, _turn: turn, _place: place }
    }

    /// One as planned, for a test that does something to Neo4j itself.
    pub async fn alone(test: &str, plan: Plan) -> Lent {
        let place = WORLDS.acquire().await.unwrap();
        let turn = Turn::Alone { _guard: NEO4J_USE.write().await };
        let began = Instant::now();
        let world = Self::create(&plan).await;
        let test = test.to_owned();
        Lent { world: Some(world), test, began, is_for_one: true, _turn: turn, _place: place }
    }

    async fn create(plan: &Plan) -> Self {
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
        let mut world = Self { name, peers, store, redis, redis_addr, neo4j, neo4j_http, proxy, nodes };
        let config = world.config(plan);
        let start = |place| Node::start(&world.name, place, &world.peers, &world.store, &config);
        let (a, b, c) = tokio::join!(start(FIRST_NODE), start(FIRST_NODE + 1), start(FIRST_NODE + 2));
        world.nodes = vec![a, b, c];
        tokio::join!(world.wait_until_whole(), world.wait_for_neo4j());
        world
    }

    async fn wait_for_neo4j(&self) {
        // A test that failed may have left it so.
        if self.neo4j.is_paused().await {
            self.neo4j.unpause().await;
        }
        let request = query("RETURN 1");
        until("Neo4j answers", NEO4J_UP_MAX, async || {
            http::ask(self.neo4j_http, &request).await.is_ok_and(|reply| reply.status == 202)
        })
        .await;
    }

    /// Each node runs this query, which ends its view that the origin is down.
    pub async fn wait_for_origin(&self, statement: &str) {
        for node in &self.nodes {
            let request = query(&format!("{statement}, '{}' AS node", node.name));
            until("the node asks the origin again", Duration::from_secs(20), async || {
                node.ask(&request).await.status == 202
            })
            .await;
        }
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

    /// Waits until every result that was answered is stored: a node answers first, and holds the lease until the commit.
    pub async fn committed(&self) {
        until("what was answered is stored", Duration::from_secs(10), async || {
            redis::keys(self.redis_addr(), "hopcache:*:l").await.is_empty()
        })
        .await;
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

    pub async fn redis_is_back(&mut self) {
        self.redis_addr = (self.redis.addr().await, 6379).into();
        let addr = self.redis_addr;
        until("Redis answers", Duration::from_secs(10), async || {
            super::redis::tell(addr, "PING").await.is_ok_and(|answer| answer.starts_with("+PONG"))
        })
        .await;
    }

    /// How slow this machine is now: by misses at each node, while nothing is wrong.
    pub async fn slowness(&self) -> Slowness {
        static CONTROLS: AtomicUsize = AtomicUsize::new(0);
        let mut took = Vec::new();
        for number in 0..20 {
            let control = CONTROLS.fetch_add(1, Ordering::Relaxed);
            let request = query(&format!("RETURN {control} AS pace"));
            took.push(self.nodes[number % self.nodes.len()].ask(&request).await.took);
        }
        Slowness::by(took)
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
        docker::remove_test(&self.name);
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
