//! A cluster to write tests with: build it, ask it, break it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hopcache_core::entry::ChecksumKey;
use hopcache_core::key::{KeyHasher, PrincipalScope, QueryKey};
use hopcache_core::limits::NEAR_RATE_PER_S_MIN;
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::refresh::{Mode, Rule};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ask::{Ask, Freshness, Hints, Query, QueryParts};
use hopcache_engine::copy::{MemoryCopy, SharedCopy};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::outcome::{Cause, Event, Outcome, PrefetchWord, RefreshWord};
use hopcache_engine::ports::{AccessMode, Clock, Memory, Observer};
use hopcache_engine::prefetch::{ObservationWord, PrefetchPolicy};
use hopcache_engine::{Engine, Policy, Ports, RefreshPolicy, Secrets};
use hopcache_packstream::{Value, encode_canonical};
use hopcache_queryapi::render::{Counters, Encoding, Form};
use parking_lot::Mutex;

use crate::dice::SimDice;
use crate::door::Door;
use crate::members::{RoutingPort, SimRouting};
use crate::net::{Net, PeersPort};
use crate::origin::{OriginPort, ScriptedOrigin, seeded_panic};
use crate::record::{Life, Record};
use crate::spread::SpreadPort;
use crate::store::{SlotStore, StorePort};
use crate::switch::Switch;
use crate::talk::Word;

thread_local! {
    /// When the world of this thread began: its clock counts from there.
    static BEGAN: Cell<Option<tokio::time::Instant>> = const { Cell::new(None) };
}

/// What [`sim_now`] shows when a world begins.
pub(crate) const EPOCH_US: u64 = 3_600_000_000;

/// Now, on tokio's paused clock, since the world was built.
#[must_use]
pub fn sim_now() -> MonoTime {
    let elapsed = BEGAN.get().map_or(std::time::Duration::ZERO, |began| began.elapsed());
    MonoTime(EPOCH_US + u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX / 2))
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
    /// What happened.
    pub record: Arc<Record>,
    pub(crate) secrets: Secrets,
}

/// What a node starts with.
pub struct Start {
    /// Which life of which node it is.
    pub life: Life,
    /// Its name and incarnation; the incarnation seeds its dice.
    pub me: Holder,
    /// Its view of the ring.
    pub routing: Arc<SimRouting>,
    /// What its clock shows beside the simulation's.
    pub apart: Millis,
}

/// The name of a node.
#[must_use]
pub fn node_name(node: usize) -> Option<NodeName> {
    NodeName::new(&format!("sim-{node}")).ok()
}

/// One node.
#[derive(Clone)]
pub struct NodeHandle {
    /// Its engine.
    pub engine: Arc<Engine>,
    /// Which life of which node it is.
    pub life: Life,
    /// What its clock shows beside the simulation's: two nodes' clocks have nothing to do with each other.
    pub apart: Millis,
    /// Its process.
    pub switch: Switch,
    /// Its listeners.
    pub door: Door,
    /// Its way to its peers.
    pub peers: PeersPort,
    /// Its view of the ring.
    pub routing: Arc<SimRouting>,
    /// What it noted.
    pub events: Arc<EventLog>,
    /// Its memory.
    pub memory: Arc<MapMemory>,
    /// Its way to all others at once.
    pub(crate) spread: Arc<SpreadPort>,
    /// To whom it is said that it drains or leaves, where nodes do.
    pub(crate) words: Option<tokio::sync::mpsc::Sender<Word>>,
}

impl NodeHandle {
    /// Tells the task that gossips; nothing where there is none.
    pub(crate) async fn say(&self, word: Word) {
        if let Some(words) = &self.words {
            let _ = words.send(word).await;
        }
    }

    /// Refreshes that it noted as begun, and as ended one way or another; and those that it says are under way.
    #[must_use]
    pub fn refreshes(&self) -> (u64, u64, u64) {
        let noted = self.events.noted();
        (noted.refreshes_begun, noted.refreshes_ended, self.engine.refreshes_begun() as u64)
    }
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
        let mut world = Self::empty(seed);
        let names: Vec<NodeName> = (0..nodes).filter_map(node_name).collect();
        for (node, name) in names.iter().enumerate() {
            let start = Start {
                life: Life { node, life: 0 },
                me: Holder { node: name.clone(), incarnation: Incarnation(seed ^ (node as u64 + 1) << 32) },
                routing: SimRouting::new(&names),
                apart: Millis::ZERO,
            };
            let node = world.start(start, policy);
            world.nodes.push(node);
        }
        world
    }

    /// A world without nodes. Its clock begins now.
    #[must_use]
    pub fn empty(seed: u64) -> Self {
        BEGAN.set(Some(tokio::time::Instant::now()));
        let secrets = Secrets { hasher: KeyHasher::new(b"simulated"), checksum_key: ChecksumKey([7; 32]) };
        let record = Arc::new(Record::default());
        Self {
            store: Arc::new(SlotStore::new(Arc::clone(&record), seed ^ 0x0570_0e5e)),
            origin: Arc::new(ScriptedOrigin::new(Arc::clone(&record), seed ^ 0x0121_7194)),
            net: Arc::new(Net::new(Arc::clone(&record), seed ^ 0x0e7)),
            nodes: Vec::new(),
            record,
            secrets,
        }
    }

    /// Starts a node and makes it reachable.
    #[must_use]
    pub fn start(&self, start: Start, policy: &Policy) -> NodeHandle {
        let Start { life, me, routing, apart } = start;
        let switch = Switch::default();
        let events = Arc::new(EventLog {
            events: Mutex::default(),
            noted: Mutex::default(),
            record: Arc::clone(&self.record),
        });
        let memory = Arc::new(MapMemory::default());
        let peers = PeersPort {
            net: Arc::clone(&self.net),
            me: me.node.clone(),
            by: life,
            switch: switch.clone(),
            delay_ms: 1,
            hasher: self.secrets.hasher.clone(),
        };
        let store = StorePort {
            shared: Arc::clone(&self.store),
            switch: switch.clone(),
            by: life,
            apart,
            checksum_key: self.secrets.checksum_key.clone(),
        };
        let origin = OriginPort { shared: Arc::clone(&self.origin), switch: switch.clone(), by: life };
        let spread = Arc::new(SpreadPort {
            net: Arc::clone(&self.net),
            by: life,
            switch: switch.clone(),
            talk: OnceLock::new(),
        });
        let ports = Ports {
            clock: Arc::new(SimClock { apart, switch: switch.clone() }),
            dice: Arc::new(SimDice::new(me.incarnation.0)),
            store: Arc::new(store),
            origin: Arc::new(origin),
            peers: Arc::new(peers.clone()),
            spread: Arc::clone(&spread) as Arc<dyn hopcache_engine::ports::Spread>,
            routing: Arc::new(RoutingPort(Arc::clone(&routing))),
            memory: Arc::clone(&memory) as Arc<dyn Memory>,
            observer: Arc::clone(&events) as Arc<dyn Observer>,
        };
        let engine = Engine::new(me, self.secrets.clone(), policy.clone(), ports);
        let door = Door::default();
        self.net.plug_in(&engine, (switch.clone(), door.clone()), life);
        NodeHandle { engine, life, apart, switch, door, peers, routing, events, memory, spread, words: None }
    }

    /// A request of the usual user.
    #[must_use]
    pub fn ask(&self, statement: &str) -> Ask {
        self.ask_as(statement, "alice")
    }

    /// A request of some user.
    #[must_use]
    pub fn ask_as(&self, statement: &str, user: &str) -> Ask {
        self.ask_in("neo4j", statement, user)
    }

    /// A request of some user in some database.
    #[must_use]
    pub fn ask_in(&self, database: &str, statement: &str, user: &str) -> Ask {
        self.ask_with(Value::Map(Vec::new()), (database, statement, user))
    }

    /// A request with parameters: in a database, of a statement, of a user.
    #[must_use]
    pub fn ask_with(&self, params: Value, (database, statement, user): (&str, &str, &str)) -> Ask {
        let hasher = &self.secrets.hasher;
        let identity = Identity {
            scope: PrincipalScope::of(hasher, "basic", user, None),
            fingerprint: [0; 32],
            credentials: Credentials::Basic { user: user.to_owned(), password: "secret".to_owned() },
        };
        let parts = QueryParts {
            database: database.into(),
            statement: statement.into(),
            params: Bytes::from(encode_canonical(&params)),
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
        stale_if_error_ms: Millis::ZERO,
        collapses: true,
        refresh: RefreshPolicy {
            is_early: false,
            rule: Rule { mode: Mode::Adaptive, beta: 1.0 },
            ttl_ms_min: Millis(60_000),
            workers: 4,
            queue_max: 100,
            timeout_ms: Millis(30_000),
            retries_max: 3,
            retry_factor: 2.0,
        },
        near_rate_per_s_min: NEAR_RATE_PER_S_MIN,
        prefetch: PrefetchPolicy::OFF,
    }
}

/// A node's clock. A stopped process sees that time has passed when it goes on.
struct SimClock {
    apart: Millis,
    switch: Switch,
}

impl Clock for SimClock {
    fn now(&self) -> MonoTime {
        sim_now() + self.apart
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()> {
        let switch = self.switch.clone();
        Box::pin(async move {
            tokio::time::sleep(span.duration()).await;
            switch.on().await;
        })
    }
}

/// Copies in an ordered map.
#[derive(Default)]
pub struct MapMemory {
    copies: Mutex<BTreeMap<QueryKey, SharedCopy>>,
    panics_at_put: AtomicBool,
}

impl MapMemory {
    /// Forgets everything, as a cache may at any time.
    pub fn forget_all(&self) {
        self.copies.lock().clear();
    }

    /// The next copy that is to be kept panics in the task that brings it.
    pub fn panic_at_next_put(&self) {
        self.panics_at_put.store(true, Ordering::Relaxed);
    }
}

impl Memory for MapMemory {
    fn get(&self, key: &QueryKey) -> Option<SharedCopy> {
        self.copies.lock().get(key).cloned()
    }

    fn put(&self, key: QueryKey, copy: SharedCopy, _: Millis) {
        if self.panics_at_put.swap(false, Ordering::Relaxed) {
            seeded_panic();
        }
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
pub struct EventLog {
    events: Mutex<Vec<Event>>,
    noted: Mutex<Noted>,
    record: Arc<Record>,
}

/// Sums of what a node noted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Noted {
    /// Refreshes triggered.
    pub refreshes_begun: u64,
    /// Those completed or failed.
    pub refreshes_ended: u64,
    /// Runs for requests that missed.
    pub misses: u64,
    /// Prefetches launched.
    pub launched: u64,
    /// Those used in time.
    pub used: u64,
    /// Those joined while they ran.
    pub late: u64,
    /// Those that nobody used.
    pub wasted: u64,
    /// Requests observed here, whatever became of the observations.
    pub observed: u64,
    /// Observations taken for the sessions that it owns.
    pub taken: u64,
    /// When something was last taken that counts are made of.
    pub taught_at: MonoTime,
}

impl Noted {
    fn count(&mut self, event: &Event) {
        let (count, more) = match event {
            Event::Refresh(RefreshWord::Triggered) => (&mut self.refreshes_begun, 1),
            Event::Refresh(RefreshWord::Completed | RefreshWord::Failed) => (&mut self.refreshes_ended, 1),
            Event::OriginRun { cause: Cause::Miss, .. } => (&mut self.misses, 1),
            Event::Observed(ObservationWord::Taken, count) => {
                self.taught_at = sim_now();
                (&mut self.taken, u64::from(*count))
            }
            Event::Observed(word, count) if is_first_word(*word) => (&mut self.observed, u64::from(*count)),
            Event::Prefetch(word) => {
                let count = match word {
                    PrefetchWord::Launched(_) => &mut self.launched,
                    PrefetchWord::Used(_) => &mut self.used,
                    PrefetchWord::Late(_) => &mut self.late,
                    PrefetchWord::Wasted(_) => &mut self.wasted,
                    PrefetchWord::Skipped(_) => return,
                };
                self.taught_at = sim_now();
                (count, 1)
            }
            _ => return,
        };
        *count += more;
    }
}

/// Whether an observation ends at its entry node with this word, which each does with one.
const fn is_first_word(word: ObservationWord) -> bool {
    use ObservationWord::{
        Crowded, Dropped, Learned, Refused, Sent, Taken, TooLong, Unconsidered, Unreached,
    };
    match word {
        Sent | Dropped | TooLong | Crowded | Unreached => true,
        Taken | Refused | Learned | Unconsidered => false,
    }
}

impl EventLog {
    /// Sums of what was noted.
    #[must_use]
    pub fn noted(&self) -> Noted {
        *self.noted.lock()
    }

    /// Shows each of them, in order.
    pub fn each(&self, show: impl FnMut(&Event)) {
        self.events.lock().iter().for_each(show);
    }

    /// How many of them are such.
    #[must_use]
    pub fn count(&self, such: impl Fn(&Event) -> bool) -> usize {
        self.events.lock().iter().filter(|event| such(event)).count()
    }
}

impl Observer for EventLog {
    fn note(&self, event: Event) {
        self.record.cover_with(|coverage| coverage.event(&event));
        self.noted.lock().count(&event);
        self.events.lock().push(event);
    }
}
