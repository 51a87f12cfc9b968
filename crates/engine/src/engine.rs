//! The engine: ports, policy, and what one node remembers between requests.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures_util::StreamExt;
use hopcache_core::entry::ChecksumKey;
use hopcache_core::key::{KeyHasher, QueryKey};
use hopcache_core::limits;
use hopcache_core::node::Holder;
use hopcache_core::refresh::Rule;
use hopcache_core::result::StatementKind;
use hopcache_core::ring::Ring;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_queryapi::render::Form;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::classify::{ServerWords, WordKey};
use crate::degree::Degrees;
use crate::flight::{FlightBounds, FlightTable};
use crate::handover::Handover;
use crate::history::History;
use crate::holdings::Holdings;
use crate::lead::Landed;
use crate::leaving::Leaving;
use crate::outcome::Event;
use crate::pause::Awake;
use crate::peer_breakers::PeerBreakers;
use crate::ports::{
    Clock, Dice, Memory, Observer, Origin, OriginError, Peers, Routing, Spread, Store, StoreError,
};
use crate::prefetch::{Learning, PrefetchPolicy, Tickets};
use crate::refresh::Queue;
use crate::restraint::Restraint;
use crate::route::SharedHop;
use crate::setbacks::Setbacks;
use crate::spares::Spares;

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
    /// What is told to all nodes at once.
    pub spread: Arc<dyn Spread>,
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
    /// Beyond grace, for how long an entry is served while the origin fails; zero turns that off.
    pub stale_if_error_ms: Millis,
    /// Whether misses of one key share a run. Without it each miss runs for itself and keeps what it read in memory
    /// only (I1 does not hold): there only to measure what sharing gains.
    pub collapses: bool,
    /// Early refresh.
    pub refresh: RefreshPolicy,
    /// Prefetch of what sessions ask next.
    pub prefetch: PrefetchPolicy,
    /// Requests per second from which on other nodes get near copies of a key; infinite for never. No setting:
    /// [`limits::NEAR_RATE_PER_S_MIN`] in production.
    pub near_rate_per_s_min: f64,
}

/// What the operator decides of refreshes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RefreshPolicy {
    /// Whether entries are refreshed before they expire. Stale ones are refreshed in any case.
    pub is_early: bool,
    /// How the moment is chosen.
    pub rule: Rule,
    /// Entries with a shorter TTL are not refreshed early.
    pub ttl_ms_min: Millis,
    /// Refreshes that run at a time.
    pub workers: u32,
    /// Refreshes that wait for a worker; more are dropped.
    pub queue_max: u32,
    /// Deadline of one try.
    pub timeout_ms: Millis,
    /// How often a failed refresh is tried again by itself; zero for never.
    pub retries_max: u32,
    /// Factor between the waits before two retries.
    pub retry_factor: f64,
}

/// One node's engine.
pub struct Engine {
    pub(crate) ports: Ports,
    pub(crate) policy: Policy,
    pub(crate) me: Holder,
    pub(crate) began: MonoTime,
    pub(crate) hasher: KeyHasher,
    pub(crate) checksum_key: ChecksumKey,
    /// Flights that lead at the origin (or the store) here.
    pub(crate) flights: Arc<FlightTable<QueryKey, Arc<Landed>>>,
    /// Flights that wait for another node. A forwarded request never looks here (I8).
    pub(crate) forwards: Arc<FlightTable<(QueryKey, Form), Arc<SharedHop>>>,
    /// Refreshes that wait, run, or sleep before their next try; they have no followers.
    pub(crate) refreshes: Arc<FlightTable<QueryKey, ()>>,
    pub(crate) words: ServerWords,
    /// Questions to the server what a statement is, under way.
    pub(crate) questions: Arc<FlightTable<WordKey, Result<StatementKind, OriginError>>>,
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) tasks: TaskTracker,
    pub(crate) history: Mutex<History>,
    pub(crate) queue: Queue,
    pub(crate) degrees: Degrees,
    pub(crate) too_large: Mutex<LruCache<QueryKey, MonoTime>>,
    pub(crate) setbacks: Setbacks,
    pub(crate) spares: Spares,
    pub(crate) awake: Awake,
    pub(crate) handover: Handover,
    pub(crate) leaving: Leaving,
    /// Flights that tell other nodes of a refusal.
    pub(crate) refusals: Semaphore,
    pub(crate) peer_breakers: PeerBreakers,
    pub(crate) restraint: Restraint,
    pub(crate) learning: Learning,
    pub(crate) prefetch: Arc<Tickets>,
    store_trouble: Mutex<StoreTrouble>,
}

/// What is wrong with the store, by its last answers.
#[derive(Default)]
struct StoreTrouble {
    /// It refuses (full, a replica). It still answers reads, so only a ping, which writes, ends this.
    refusal: Option<StoreError>,
    /// It does not answer; any answer ends this.
    silence: Option<StoreError>,
}

impl StoreTrouble {
    fn said(&self) -> Option<&StoreError> {
        self.silence.as_ref().or(self.refusal.as_ref())
    }

    fn take(&mut self, error: &StoreError) {
        match error {
            StoreError::Refused(_) => *self = Self { refusal: Some(error.clone()), silence: None },
            _ => self.silence = Some(error.clone()),
        }
    }
}

impl Engine {
    /// An engine that nothing has asked yet.
    #[must_use]
    pub fn new(me: Holder, secrets: Secrets, policy: Policy, ports: Ports) -> Arc<Self> {
        let queue = Queue::new(policy.refresh.workers, policy.refresh.queue_max);
        let bounds = FlightBounds { flights_max: limits::FLIGHTS_MAX, followers_max: limits::FOLLOWERS_MAX };
        let handover = Handover::new(ports.routing.view());
        let began = ports.clock.now();
        let learning = Learning::new(&me, &secrets.hasher, &policy.prefetch, &ports.clock);
        let prefetch = Tickets::new(Arc::clone(&ports.observer));
        Arc::new(Self {
            ports,
            policy,
            me,
            began,
            hasher: secrets.hasher,
            checksum_key: secrets.checksum_key,
            flights: FlightTable::new(bounds),
            forwards: FlightTable::new(bounds),
            refreshes: FlightTable::new(bounds),
            words: ServerWords::new(),
            questions: FlightTable::new(bounds),
            holdings: Arc::default(),
            tasks: TaskTracker::new(),
            history: Mutex::new(History::new()),
            queue,
            degrees: Degrees::new(),
            too_large: Mutex::new(LruCache::new(
                NonZeroUsize::new(limits::UNCACHEABLE_KEYS_MAX).unwrap_or(NonZeroUsize::MIN),
            )),
            setbacks: Setbacks::new(),
            spares: Spares::default(),
            awake: Awake::default(),
            handover,
            leaving: Leaving::default(),
            refusals: Semaphore::new(limits::REFUSALS_TOLD_AT_A_TIME),
            peer_breakers: PeerBreakers::default(),
            restraint: Restraint::default(),
            learning,
            prefetch,
            store_trouble: Mutex::default(),
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

    /// Leases held by this node.
    #[must_use]
    pub fn leases_held(&self) -> usize {
        self.holdings.len()
    }

    /// Whether the store answers and takes writes.
    #[must_use]
    pub fn store_is_reachable(&self) -> bool {
        self.store_trouble.lock().said().is_none()
    }

    /// What is wrong with the store; nothing when it answers and takes writes.
    #[must_use]
    pub fn store_trouble(&self) -> Option<StoreError> {
        self.store_trouble.lock().said().cloned()
    }

    /// Waits for flights to land, then gives back whatever leases are left. Nothing is started
    /// afterwards that outlives the caller's deadline; call it under one. No refresh begins any more, and those
    /// that wait or sleep end at once.
    pub async fn finish(&self) {
        self.queue.end();
        self.learning.end();
        self.tasks.close();
        self.tasks.wait().await;
        // What nobody has used until now stays pending.
        self.prefetch.end();
        self.give_back_leases().await;
    }

    /// Releases every lease this node still holds, so that nobody waits for them to lapse. One that could
    /// not be released stays among [`Engine::leases_held`].
    pub async fn give_back_leases(&self) {
        #[cfg(hopcache_seeded)]
        if crate::seeded::keeps_leases() {
            return;
        }
        let give_back = async |(key, token)| {
            if self.ports.store.release(&key, token).await.is_ok() {
                self.holdings.remove(&key, token);
            }
        };
        let held = futures_util::stream::iter(self.holdings.all());
        held.for_each_concurrent(limits::LEASES_RELEASED_AT_A_TIME, give_back).await;
    }

    pub(crate) fn now(&self) -> MonoTime {
        self.ports.clock.now()
    }

    pub(crate) fn note(&self, event: Event) {
        self.ports.observer.note(event);
    }

    /// A refusal stays until a ping is answered ([`Engine::ask_refusing_store`]), which also says whether the
    /// store is silent meanwhile: one command that was late is no other trouble than the refusal.
    pub(crate) fn saw_store<T>(&self, answer: &Result<T, StoreError>) {
        let mut trouble = self.store_trouble.lock();
        match answer {
            Ok(_) => trouble.silence = None,
            Err(error) => {
                if trouble.refusal.is_none() || matches!(error, StoreError::Refused(_)) {
                    trouble.take(error);
                }
                drop(trouble);
                self.note(Event::StoreFault);
            }
        }
    }

    /// Asks a store that refused whether it still does.
    pub(crate) async fn ask_refusing_store(&self) {
        if self.store_trouble.lock().refusal.is_none() {
            return;
        }
        let answer = self.ports.store.ping().await;
        let mut trouble = self.store_trouble.lock();
        match answer {
            Ok(()) => *trouble = StoreTrouble::default(),
            Err(error) => trouble.take(&error),
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
