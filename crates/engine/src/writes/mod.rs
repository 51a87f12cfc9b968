//! Writes are seen: a write through this cluster ends the entries that depend on what it has touched, on every node, before
//! its client is answered.
//!
//! | file | content |
//! |---|---|
//! | `pending` | **start here**: how a front says that a write begins and ends |
//! | `effects` | what a statement touches |
//! | `invalidated` | a write past this cluster, of which somebody has told |
//! | `ahead` | asks, before a write, which labels no node has together |
//! | `ended` | from the end of a write to the mark that it leaves |
//! | `exclusions` | the questions for labels that no node has together |
//! | `asking` | the question for Neo4j's newest transaction |
//! | `recent` | the last writes, for people |
//! | `refusals` | what a failure of Neo4j proves about a write |
//! | `parts` | what a write commits before its end |
//! | `tokens` | labels, types and keys of transactions that are rolled back |
//! | `rights` | tells whoever keeps what Neo4j has said about users |
//! | `runs` | what a run has to carry, and what its end shows |
//! | `broadcast` | tells the mark to the other nodes and to the store, and waits for them |
//! | `listen` | hears writes, marks and reports from the store |
//! | `unlogged` | writes that the store may not have heard of |
//! | `database_positions` | the marks, for people |
//! | `marker` | what is counted, and touched, where each write counts up a marker |
//! | `settling` | accounts for the ids of this node's own writes at once |
//! | `tallies` | how many transaction ids this node's writes may have taken |
//! | `databases` | which database a name leads to here, and whose stored entries are taken |
//! | `watchers` | whom this node asks as, and what it knows as a watcher |
//! | `watch` | notices transactions that went past this cluster |
//! | `capture`, `changes` | what those have touched, where the server tells it |
//!
//! A mark is a position in the database, of a tag or of everything (`core::written`). An entry whose run carried less than
//! the marks of what it depends on is ended: `cache` serves it only where stale answers are allowed. So a write costs the same for any number of entries.
//!
//! This room runs no statement of clients. It asks Neo4j for its newest transaction, for captured changes, and for nodes with two labels.

mod ahead;
mod asking;
mod broadcast;
mod capture;
mod changes;
mod database_positions;
mod databases;
mod effects;
mod ended;
mod exclusions;
mod invalidated;
mod listen;
mod marker;
mod parts;
mod pending;
mod recent;
mod refusals;
mod restored;
mod rights;
mod runs;
mod settling;
mod tallies;
mod tokens;
mod unlogged;
mod watch;
mod watchers;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use hopcache_core::bookmark::Position;
use hopcache_core::key::{ClusterTag, DatabaseTag, KeyHasher};
use hopcache_core::limits::WRITTEN_DATABASES_MAX;
use hopcache_core::tags::Touched;
use hopcache_core::time::Millis;
use hopcache_core::write_position::WritePosition;
use parking_lot::Mutex;

use crate::cache::{Cache, WatchedStore};
use crate::invalidate::Invalidate;
use crate::model::context::Context;
use crate::model::ports::{Origin, Routing, Users, WriteBegan, WriteOf};
use crate::peers::PeerCalls;
use crate::writes::ahead::LookAhead;
use crate::writes::broadcast::InvalidationBroadcast;
use crate::writes::capture::Capture;
use crate::writes::databases::DatabaseQuestions;
pub(crate) use crate::writes::databases::Unfit;
use crate::writes::ended::PendingRecheck;
use crate::writes::exclusions::PairQuestions;
use crate::writes::parts::OpenParts;
use crate::writes::pending::OpenWrite;
use crate::writes::recent::RecentWrites;
use crate::writes::restored::PendingPurges;
use crate::writes::runs::later;
use crate::writes::settling::AccountsUnderWay;
use crate::writes::tallies::OwnTallies;
use crate::writes::unlogged::UnloggedWrites;
use crate::writes::watchers::Watchers;

pub use database_positions::{DatabasePositions, watched_words};
pub use effects::{Effects, NetChange};
pub use invalidated::InvalidationOutcome;
pub use marker::MARKER_KEY;
pub use pending::PendingWrite;
pub use recent::{EndedBy, ForeignWrite, ToldBy};
pub use tokens::MadeTokens;

/// Follows the writes of this node and of others.
pub struct Writes {
    context: Context,
    cache: Arc<Cache>,
    store: Arc<WatchedStore>,
    peers: Arc<PeerCalls>,
    invalidate: Arc<Invalidate>,
    routing: Arc<dyn Routing>,
    origin: Arc<dyn Origin>,
    hasher: KeyHasher,
    cluster: ClusterTag,
    broadcast: InvalidationBroadcast,
    unlogged: Mutex<UnloggedWrites>,
    recent: Mutex<RecentWrites>,
    excluding: PairQuestions,
    look_ahead: LookAhead,
    tallies: Arc<OwnTallies>,
    settling: Mutex<AccountsUnderWay>,
    watching: Watchers,
    capture: Capture,
    /// Writes whose answers were lost, one for each database: Neo4j is asked about them again.
    rechecks: Mutex<BTreeMap<DatabaseTag, PendingRecheck>>,
    /// Restored databases whose entries are being purged.
    purging: PendingPurges,
    asking: DatabaseQuestions,
    /// Whether the origin runs code of its own in the transactions of writes, or has rights that depend on labels or properties:
    /// then a write changes more than it touches.
    has_triggers: bool,
    /// Whoever keeps what Neo4j has said about users.
    users: OnceLock<Box<[Weak<dyn Users>]>>,
    /// The name of Neo4j's database of users and rights.
    system: DatabaseTag,
    /// Names of databases that were written through this node, for its metrics.
    shown: Mutex<BTreeMap<DatabaseTag, Arc<str>>>,
}

impl Writes {
    pub(crate) fn new(
        context: &Context,
        (cache, store, invalidate): (&Arc<Cache>, &Arc<WatchedStore>, &Arc<Invalidate>),
        (peers, routing, origin): (&Arc<PeerCalls>, &Arc<dyn Routing>, &Arc<dyn Origin>),
        hasher: &KeyHasher,
        has_triggers: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            cache: Arc::clone(cache),
            store: Arc::clone(store),
            peers: Arc::clone(peers),
            invalidate: Arc::clone(invalidate),
            routing: Arc::clone(routing),
            origin: Arc::clone(origin),
            hasher: hasher.clone(),
            cluster: ClusterTag::of(hasher),
            broadcast: InvalidationBroadcast::default(),
            unlogged: Mutex::default(),
            recent: Mutex::default(),
            excluding: PairQuestions::default(),
            look_ahead: LookAhead::default(),
            tallies: Arc::default(),
            settling: Mutex::default(),
            watching: Watchers::default(),
            capture: Capture::default(),
            rechecks: Mutex::default(),
            purging: PendingPurges::default(),
            asking: DatabaseQuestions::default(),
            has_triggers,
            users: OnceLock::new(),
            system: DatabaseTag::of(hasher, rights::SYSTEM),
            shown: Mutex::default(),
        })
    }

    /// What a write may have changed that has touched this, whoever has made it.
    fn with_triggers(&self, touched: Touched) -> Touched {
        if self.has_triggers { Touched::Anything } else { touched }
    }

    /// A write goes to the origin now.
    pub fn begin(self: &Arc<Self>, mut of: WriteOf) -> PendingWrite {
        if self.lease_ms().is_none() {
            return PendingWrite::new(None);
        }
        of.touched = self.with_triggers(of.touched);
        let name = DatabaseTag::of(&self.hasher, &of.database);
        let before = self.cache.write_positions().of(name);
        of.began = WriteBegan::At(of.began.mark(before));
        let known = self.known_by(name, before);
        let mut shown = self.shown.lock();
        if shown.len() < WRITTEN_DATABASES_MAX {
            shown.entry(name).or_insert_with(|| Arc::clone(&of.database));
        }
        drop(shown);
        let tallied = self.tallies.begin(name, self.ids_of(&of));
        let parts = OpenParts::begin(self, (&of, name), known, &tallied);
        let writes = Arc::clone(self);
        let (has_changed, is_within) = (false, false);
        let open = OpenWrite { writes, of, name, before, known, has_changed, tallied, parts, is_within };
        PendingWrite::new(Some(open))
    }

    /// The mark of a database at this moment. What a transaction finds that begins now has seen all up to it.
    #[must_use]
    pub fn position_of(&self, database: &str) -> Option<WritePosition> {
        self.cache.write_positions().of(DatabaseTag::of(&self.hasher, database))
    }

    /// The newest transaction of a database that this node knows of. A transaction in which nothing ran has seen no newer one.
    #[must_use]
    pub fn newest_of(&self, database: &str) -> Option<Position> {
        let name = DatabaseTag::of(&self.hasher, database);
        let mark = self.cache.write_positions().of(name);
        self.known_by(name, mark).or(mark)?.position()
    }

    /// The latest id of a database that this node knows of: by the last report, and by its mark.
    fn known_by(&self, name: DatabaseTag, write_position: Option<WritePosition>) -> Option<WritePosition> {
        let report = self.cache.report(name)?;
        let settled = Position { database: report.database, id: report.accounts.settled };
        let settled = WritePosition::at(report.epoch, settled);
        later(Some(settled), write_position.filter(|write_position| !write_position.is_unsettled()))
    }

    /// How far the databases that were written through this node have been written, by their names.
    #[must_use]
    pub fn positions(&self) -> Vec<(Arc<str>, u64)> {
        let position = |(name, text): (&DatabaseTag, &Arc<str>)| {
            Some((Arc::clone(text), self.cache.write_positions().of(*name)?.position()?.id.0))
        };
        self.shown.lock().iter().filter_map(position).collect()
    }

    /// How long a node is in touch after its last look; `None` if writes end no entries.
    fn lease_ms(&self) -> Option<Millis> {
        self.cache.lease().lease_ms()
    }

    fn context(&self) -> &Context {
        &self.context
    }
}
