//! The operator's settings, as far as the engine needs them. They decide nothing by themselves.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use hopcache_core::admission::Room;
use hopcache_core::limits::PATTERNS_DEFAULT;
use hopcache_core::refresh::Rule;
use hopcache_core::time::Millis;
use hopcache_cypher::verdict::Allowed;
use tokio::sync::Notify;

use crate::model::awaited;

/// The operator's settings.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Soft TTL; zero turns caching off.
    pub ttl_ms: Millis,
    /// Physical life = TTL × (1 + grace).
    pub grace: f64,
    /// Each entry's TTL is drawn from TTL × (1 ± this).
    pub ttl_jitter: f64,
    /// The wanted share of answers from before a change that nobody told of; each key's TTL follows from it and from how often its
    /// answer changes. Zero: TTLs are fixed.
    pub stale_target: f64,
    /// Largest entry body.
    pub entry_bytes_max: usize,
    /// Whether cheap reads that hardly ever hit are run directly.
    pub only_if_it_pays: bool,
    /// Room in the store for entries whose key was run once.
    pub store_room: Room,
    /// The address of the origin as it is configured. It tells this node's data from those before another origin, as long as no
    /// database's UUID does.
    pub origin: String,
    /// Deadline of one origin run.
    pub run_timeout_ms: Millis,
    /// Deadline of one peer probe.
    pub probe_timeout_ms: Millis,
    /// Functions and procedures that the operator vouches for beyond the built-in lists.
    pub allowed: Allowed,
    /// Who tells whether a statement reads.
    pub classifies_by: ClassifiesBy,
    /// How long past grace an entry is served while the origin fails; zero for never.
    pub stale_if_error_ms: Millis,
    /// For how long after its last look at the store this node is in touch with the writes of others; `None` if writes end no
    /// entries (`freshness.mode = "ttl"`).
    pub freshness_lease_ms: Option<Millis>,
    /// How long proofs of freshness last; `None` if nothing is proved.
    pub proofs: Option<ProofSettings>,
    /// Whether the origin runs code of its own in the transactions of writes (triggers).
    pub has_triggers: bool,
    /// Whether a write is compared with an entry by the values, too, by which both find their nodes.
    pub compares_values: bool,
    /// Early refresh.
    pub refresh: RefreshPolicy,
    /// Prefetch of what sessions ask next.
    pub prefetch: PrefetchPolicy,
    /// The rate, in requests per second, from which other nodes get near copies of a key; infinite for never. Not a
    /// setting: [`hopcache_core::limits::NEAR_RATE_PER_S_MIN`] in production.
    pub near_rate_per_s_min: f64,
}

impl Policy {
    /// Whether reads are counted by pattern, and run directly where their caching does not pay. With caching off all are misses, and
    /// nothing is known.
    pub(crate) fn counts_worth(&self) -> bool {
        self.only_if_it_pays && self.ttl_ms > Millis::ZERO
    }
}

/// The settings that are in force. All rooms of an engine share them, and a reload of the configuration replaces them.
///
/// A room reads what it needs at the moment when it needs it. What a room took when it was made stays until a restart: the
/// lease of freshness, proofs, deadlines, and the sizes of tables (`x-reload` in the configuration's schema).
#[derive(Clone)]
pub struct PolicyInForce(Arc<InForce>);

impl PolicyInForce {
    /// The settings of a start.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self(Arc::new(InForce { policy: ArcSwap::from_pointee(policy), changed: Notify::new() }))
    }

    /// The settings at this moment. Hold them for one decision, and never across an `await`.
    #[must_use]
    pub fn now(&self) -> Guard<Arc<Policy>> {
        self.0.policy.load()
    }

    /// From now on these settings are in force.
    pub(crate) fn replace(&self, policy: Policy) {
        self.0.policy.store(Arc::new(policy));
        self.0.changed.notify_waiters();
    }

    /// Completes as soon as the settings in force are such.
    pub(crate) async fn until(&self, are_such: impl Fn(&Policy) -> bool) {
        awaited::until(&self.0.changed, || are_such(&self.now())).await;
    }
}

#[derive(Debug)]
struct InForce {
    policy: ArcSwap<Policy>,
    changed: Notify,
}

/// Who tells whether a statement reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassifiesBy {
    /// The server: by a run in READ mode, or by `EXPLAIN`.
    Server,
    /// The statement's own words, for servers that speak Bolt and are not Neo4j: a statement that begins with `MATCH` and holds no word that
    /// writes is a read. Such a server may neither refuse a write in READ mode nor know `EXPLAIN`.
    Words,
}

/// Plain data: how long proofs of freshness last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProofSettings {
    /// How often the watcher of a database asks; zero: nobody writes past this cluster, and nobody asks.
    pub watch_ms: Millis,
    /// The longest life of a proved entry, from the start of its read.
    pub life_ms_max: Millis,
    /// Whether the watcher reads what the server's change data capture tells of foreign transactions.
    pub is_captured: bool,
    /// Whether the origin has each write that changes something take exactly one transaction id, by a marker that it counts up
    /// in the write's transaction.
    pub is_marked: bool,
}

/// The operator's settings for refreshes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RefreshPolicy {
    /// Whether entries are refreshed before they expire. Stale ones are always refreshed.
    pub is_early: bool,
    /// The rule that chooses the moment.
    pub rule: Rule,
    /// Entries with a shorter TTL are not refreshed early.
    pub ttl_ms_min: Millis,
    /// Refreshes that run at a time.
    pub workers: u32,
    /// Refreshes that wait for a worker; more are dropped.
    pub queue_max: u32,
    /// Deadline of one try.
    pub timeout_ms: Millis,
    /// Retries of a failed refresh; zero for none.
    pub retries_max: u32,
    /// Factor between the waits before two retries.
    pub retry_factor: f64,
}

/// The operator's settings for prefetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefetchPolicy {
    /// Whether anything is observed, learned or launched.
    pub is_on: bool,
    /// The greatest number of candidates launched for one request.
    pub queries_max: u32,
    /// Steps of typed neighbours; 0: none.
    pub neighbour_steps_max: u8,
    /// Whether nothing is launched while nearly all time of the machine's cores is used.
    pub yields_cores: bool,
    /// Patterns whose successors are learned.
    pub patterns_max: u32,
    /// Whether nodes share their lessons.
    pub is_gossiped: bool,
    /// The sources of candidates.
    pub kinds: Kinds,
}

/// The enabled kinds of candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds {
    /// Queries seen before, with their parameters.
    pub exact: bool,
    /// Queries seen before, their parameters bound anew.
    pub template: bool,
    /// Entries of the same anchor that are about to expire.
    pub overlap: bool,
}

impl Kinds {
    /// All of them.
    pub const ALL: Self = Self { exact: true, template: true, overlap: true };
}

impl PrefetchPolicy {
    /// Nothing is observed, learned or launched.
    pub const OFF: Self = Self {
        is_on: false,
        queries_max: 4,
        neighbour_steps_max: 1,
        yields_cores: true,
        patterns_max: PATTERNS_DEFAULT,
        is_gossiped: true,
        kinds: Kinds::ALL,
    };

    /// The default of a node (INTERFACE `[prefetch]`).
    pub const DEFAULT: Self = Self { is_on: true, ..Self::OFF };
}
