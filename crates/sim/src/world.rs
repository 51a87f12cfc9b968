//! A cluster to write tests with: build it, ask it, break it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hopcache_core::entry::ChecksumKey;
use hopcache_core::key::{KeyHasher, PrincipalScope, QueryKey};
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ask::{Ask, Freshness, Hints, Query, QueryParts};
use hopcache_engine::copy::{MemoryCopy, SharedCopy};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::outcome::{Event, Outcome};
use hopcache_engine::ports::{AccessMode, Clock, Dice, Memory, Observer};
use hopcache_engine::{Engine, Policy, Ports, Secrets};
use hopcache_packstream::{Value, encode_canonical};
use hopcache_queryapi::render::{Counters, Encoding, Form};
use parking_lot::Mutex;

use crate::net::{Net, PeersPort, RoutingPort, SimRouting};
use crate::origin::{OriginPort, ScriptedOrigin};
use crate::store::{SlotStore, StorePort};
use crate::switch::Switch;

thread_local! {
    /// When the world of this thread began: its clock counts from there.
    static BEGAN: Cell<Option<tokio::time::Instant>> = const { Cell::new(None) };
}

/// Now, on tokio's paused clock, since the world was built.
#[must_use]
pub fn sim_now() -> MonoTime {
    let elapsed = BEGAN.get().map_or(std::time::Duration::ZERO, |began| began.elapsed());
    MonoTime(3_600_000_000 + u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX / 2))
}

/// A cluster.
pub struct World {
    /// What the nodes share.
    pub store: Arc<SlotStore>,
    /// The graph database.
    pub origin: Arc<ScriptedOrigin>,
    /// The network.
    pub net: Arc<Net>,
    /// The nodes.
    pub nodes: Vec<NodeHandle>,
    secrets: Secrets,
}

/// One node.
#[derive(Clone)]
pub struct NodeHandle {
    /// Its engine.
    pub engine: Arc<Engine>,
    /// Its process.
    pub switch: Switch,
    /// Its view of the ring.
    pub routing: Arc<SimRouting>,
    /// What it noted.
    pub events: Arc<EventLog>,
    /// Its memory.
    pub memory: Arc<MapMemory>,
}

impl World {
    /// `nodes` nodes that know each other, and dice from `seed`.
    #[must_use]
    pub fn new(nodes: usize, seed: u64) -> Self {
        Self::with_policy(nodes, seed, &default_policy())
    }

    /// As [`World::new`], with another policy.
    #[must_use]
    pub fn with_policy(nodes: usize, seed: u64, policy: &Policy) -> Self {
        BEGAN.set(Some(tokio::time::Instant::now()));
        let secrets = Secrets { hasher: KeyHasher::new(b"simulated"), checksum_key: ChecksumKey([7; 32]) };
        let mut world = Self {
            store: Arc::default(),
            origin: Arc::default(),
            net: Arc::default(),
            nodes: Vec::new(),
            secrets,
        };
        let names: Vec<NodeName> =
            (0..nodes).filter_map(|node| NodeName::new(&format!("sim-{node}")).ok()).collect();
        for (place, name) in names.iter().enumerate() {
            let node = world.start(name, &names, seed ^ (place as u64 + 1) << 32, policy);
            world.nodes.push(node);
        }
        world
    }

    fn start(&self, name: &NodeName, members: &[NodeName], seed: u64, policy: &Policy) -> NodeHandle {
        let switch = Switch::default();
        let routing = SimRouting::new(members);
        let events = Arc::new(EventLog::default());
        let memory = Arc::new(MapMemory::default());
        let ports = Ports {
            clock: Arc::new(SimClock),
            dice: Arc::new(SimDice { state: Mutex::new(seed) }),
            store: Arc::new(StorePort { shared: Arc::clone(&self.store), switch: switch.clone() }),
            origin: Arc::new(OriginPort { shared: Arc::clone(&self.origin), switch: switch.clone() }),
            peers: Arc::new(PeersPort { net: Arc::clone(&self.net), me: name.clone(), delay_ms: 1 }),
            routing: Arc::new(RoutingPort(Arc::clone(&routing))),
            memory: Arc::clone(&memory) as Arc<dyn Memory>,
            observer: Arc::clone(&events) as Arc<dyn Observer>,
        };
        let me = Holder { node: name.clone(), incarnation: Incarnation(seed) };
        let engine = Engine::new(me, self.secrets.clone(), policy.clone(), ports);
        self.net.plug_in(&engine, switch.clone());
        NodeHandle { engine, switch, routing, events, memory }
    }

    /// A request of the usual user.
    #[must_use]
    pub fn ask(&self, statement: &str) -> Ask {
        self.ask_as(statement, "alice")
    }

    /// A request of some user.
    #[must_use]
    pub fn ask_as(&self, statement: &str, user: &str) -> Ask {
        let hasher = &self.secrets.hasher;
        let identity = Identity {
            scope: PrincipalScope::of(hasher, "basic", user, None),
            fingerprint: [0; 32],
            credentials: Credentials::Basic { user: user.to_owned(), password: "secret".to_owned() },
        };
        let parts = QueryParts {
            database: "neo4j".into(),
            statement: statement.into(),
            params: Bytes::from(encode_canonical(&Value::Map(Vec::new()))),
            impersonated: None,
            identity: Arc::new(identity),
        };
        Ask {
            query: Arc::new(Query::read(parts, hasher, &[])),
            form: Form { encoding: Encoding::Plain, counters: Counters::Omit },
            freshness: Freshness::default(),
            hints: Hints::default(),
            mode: AccessMode::Write,
            bypass: None,
            deadline: sim_now() + Millis(60_000),
            traceparent: None,
            session: None,
        }
    }

    /// Which node owns a request's key, by the first node's view.
    #[must_use]
    pub fn owner_of(&self, ask: &Ask) -> usize {
        let view = self.nodes[0].engine.view();
        let owner = view.owner(&ask.query.key);
        self.nodes.iter().position(|node| Some(&node.engine.me().node) == owner).unwrap_or(0)
    }

    /// Asks node `node` in a task of its own.
    pub fn send(&self, node: usize, ask: &Ask) -> tokio::task::JoinHandle<Outcome> {
        let engine = Arc::clone(&self.nodes[node].engine);
        let ask = ask.clone();
        tokio::spawn(async move { engine.answer(&ask).await })
    }

    /// Lets simulated time pass, and everything due in it happen.
    pub async fn pass(&self, span_ms: u64) {
        tokio::time::sleep(Millis(span_ms).duration()).await;
    }
}

/// TTL 60 s, grace 0.5, no jitter.
#[must_use]
pub fn default_policy() -> Policy {
    Policy {
        ttl_ms: Millis(60_000),
        grace: 0.5,
        ttl_jitter: 0.0,
        entry_bytes_max: 1 << 20,
        run_timeout_ms: Millis(30_000),
        probe_timeout_ms: Millis(200),
        procedures: Vec::new(),
    }
}

struct SimClock;

impl Clock for SimClock {
    fn now(&self) -> MonoTime {
        sim_now()
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span.duration()))
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere.
struct SimDice {
    state: Mutex<u64>,
}

impl Dice for SimDice {
    fn u64(&self) -> u64 {
        let mut state = self.state.lock();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Copies in an ordered map.
#[derive(Default)]
pub struct MapMemory {
    copies: Mutex<BTreeMap<QueryKey, SharedCopy>>,
}

impl MapMemory {
    /// Forgets everything, as a cache may at any time.
    pub fn forget_all(&self) {
        self.copies.lock().clear();
    }
}

impl Memory for MapMemory {
    fn get(&self, key: &QueryKey) -> Option<SharedCopy> {
        self.copies.lock().get(key).cloned()
    }

    fn put(&self, key: QueryKey, copy: SharedCopy, _: Millis) {
        self.copies.lock().insert(key, copy);
    }

    fn remove(&self, key: &QueryKey) -> bool {
        self.copies.lock().remove(key).is_some()
    }

    fn remove_where(&self, covers: &dyn Fn(&QueryKey, &MemoryCopy) -> bool) -> u64 {
        let mut copies = self.copies.lock();
        let before = copies.len();
        copies.retain(|key, copy| !covers(key, copy));
        (before - copies.len()) as u64
    }

    fn size(&self) -> (u64, u64) {
        (self.copies.lock().len() as u64, 0)
    }
}

/// Events in their order.
#[derive(Default)]
pub struct EventLog {
    events: Mutex<Vec<Event>>,
}

impl EventLog {
    /// How many of them are such.
    #[must_use]
    pub fn count(&self, such: impl Fn(&Event) -> bool) -> usize {
        self.events.lock().iter().filter(|event| such(event)).count()
    }
}

impl Observer for EventLog {
    fn note(&self, event: Event) {
        self.events.lock().push(event);
    }
}
