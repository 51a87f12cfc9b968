//! The engine: ports, policy, and what one node remembers between requests.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hopcache_core::entry::ChecksumKey;
use hopcache_core::key::{KeyHasher, QueryKey};
use hopcache_core::limits;
use hopcache_core::node::Holder;
use hopcache_core::result::StatementKind;
use hopcache_core::ring::Ring;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_queryapi::render::Form;
use lru::LruCache;
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use crate::classify::{ServerWords, WordKey};
use crate::costs::Costs;
use crate::flight::{FlightBounds, FlightTable};
use crate::holdings::Holdings;
use crate::lead::Landing;
use crate::outcome::Event;
use crate::ports::{Clock, Dice, Memory, Observer, Origin, OriginError, Peers, Routing, Store};
use crate::route::SharedHop;

/// Everything outside that the engine acts through.
#[derive(Clone)]
pub struct Ports {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub dice: Arc<dyn Dice>,
    /// What nodes share.
    pub store: Arc<dyn Store>,
    /// The graph database.
    pub origin: Arc<dyn Origin>,
    /// The other nodes.
    pub peers: Arc<dyn Peers>,
    /// Who owns what.
    pub routing: Arc<dyn Routing>,
    /// Copies in this node's memory.
    pub memory: Arc<dyn Memory>,
    /// Where events are counted.
    pub observer: Arc<dyn Observer>,
}

/// What nodes of one cluster derive from its key.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// Makes query keys.
    pub hasher: KeyHasher,
    /// Seals entries.
    pub checksum_key: ChecksumKey,
}

/// What the operator decides.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Soft TTL; zero turns caching off.
    pub ttl_ms: Millis,
    /// Physical life = TTL × (1 + grace).
    pub grace: f64,
    /// Each entry's TTL is drawn from TTL × (1 ± this).
    pub ttl_jitter: f64,
    /// Largest entry body.
    pub entry_bytes_max: usize,
    /// Deadline of one origin run.
    pub run_timeout_ms: Millis,
    /// Deadline of one peer probe.
    pub probe_timeout_ms: Millis,
    /// Procedures beyond the built-in list that the operator vouches for.
    pub procedures: Vec<String>,
}

/// One node's engine.
pub struct Engine {
    pub(crate) ports: Ports,
    pub(crate) policy: Policy,
    pub(crate) me: Holder,
    pub(crate) hasher: KeyHasher,
    pub(crate) checksum_key: ChecksumKey,
    /// Flights that lead at the origin (or the store) here.
    pub(crate) flights: Arc<FlightTable<QueryKey, Arc<Landing>>>,
    /// Flights that wait for another node. A forwarded request never looks here (I8).
    pub(crate) forwards: Arc<FlightTable<(QueryKey, Form), Arc<SharedHop>>>,
    /// Refreshes under way; they have no followers.
    pub(crate) refreshes: Arc<FlightTable<QueryKey, ()>>,
    pub(crate) words: ServerWords,
    /// Questions to the server what a statement is, under way.
    pub(crate) questions: Arc<FlightTable<WordKey, Result<StatementKind, OriginError>>>,
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) tasks: TaskTracker,
    pub(crate) costs: Mutex<Costs>,
    pub(crate) too_large: Mutex<LruCache<QueryKey, MonoTime>>,
    store_reachable: AtomicBool,
}

impl Engine {
    /// An engine that nothing has asked yet.
    #[must_use]
    pub fn new(me: Holder, secrets: Secrets, policy: Policy, ports: Ports) -> Arc<Self> {
        let bounds = FlightBounds { flights_max: limits::FLIGHTS_MAX, followers_max: limits::FOLLOWERS_MAX };
        Arc::new(Self {
            ports,
            policy,
            me,
            hasher: secrets.hasher,
            checksum_key: secrets.checksum_key,
            flights: FlightTable::new(bounds),
            forwards: FlightTable::new(bounds),
            refreshes: FlightTable::new(bounds),
            words: ServerWords::new(),
            questions: FlightTable::new(bounds),
            holdings: Arc::default(),
            tasks: TaskTracker::new(),
            costs: Mutex::new(Costs::new()),
            too_large: Mutex::new(LruCache::new(
                NonZeroUsize::new(limits::UNCACHEABLE_KEYS_MAX).unwrap_or(NonZeroUsize::MIN),
            )),
            store_reachable: AtomicBool::new(true),
        })
    }

    /// Who this node is.
    #[must_use]
    pub fn me(&self) -> &Holder {
        &self.me
    }

    /// The ring in force.
    #[must_use]
    pub fn view(&self) -> Arc<Ring> {
        self.ports.routing.view()
    }

    /// What queries are keyed with.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// What the operator decided.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Flights under way here, forwards and refreshes included.
    #[must_use]
    pub fn flights_under_way(&self) -> usize {
        self.flights.len() + self.forwards.len() + self.refreshes.len()
    }

    /// Refreshes under way here.
    #[must_use]
    pub fn refreshes_under_way(&self) -> usize {
        self.refreshes.len()
    }

    /// Leases held by this node.
    #[must_use]
    pub fn leases_held(&self) -> usize {
        self.holdings.len()
    }

    /// Whether the store answered the last command that was sent to it.
    #[must_use]
    pub fn store_is_reachable(&self) -> bool {
        self.store_reachable.load(Ordering::Relaxed)
    }

    /// Waits for flights to land, then gives back whatever leases are left. Nothing is started
    /// afterwards that outlives the caller's deadline; call it under one.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.give_back_leases().await;
    }

    /// Releases every lease this node still holds, so that nobody waits for them to lapse.
    pub async fn give_back_leases(&self) {
        for (key, token) in self.holdings.all() {
            let _ = self.ports.store.release(&key, token).await;
            self.holdings.remove(&key, token);
        }
    }

    pub(crate) fn now(&self) -> MonoTime {
        self.ports.clock.now()
    }

    pub(crate) fn note(&self, event: Event) {
        self.ports.observer.note(event);
    }

    pub(crate) fn saw_store<T>(&self, answer: &Result<T, crate::ports::StoreError>) {
        self.store_reachable.store(answer.is_ok(), Ordering::Relaxed);
        if answer.is_err() {
            self.note(Event::StoreFault);
        }
    }

    /// A number in [0, 1).
    pub(crate) fn unit(&self) -> f64 {
        // 53 bits fill a double's mantissa exactly.
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let unit = (self.ports.dice.u64() >> 11) as f64 / (1_u64 << 53) as f64;
        unit
    }

    pub(crate) fn nonce(&self) -> u128 {
        u128::from(self.ports.dice.u64()) << 64 | u128::from(self.ports.dice.u64())
    }
}
