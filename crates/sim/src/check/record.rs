//! The record of a simulated cluster: facts in order. The ports and the driver write it; the engine never does.
//! Checkers judge it, a failing seed prints it, and the trace's hash is its hash.

use std::fmt::{self, Write};

use hopcache_core::key::{DatabaseTag, QueryKey};
use hopcache_core::lease::Token;
use hopcache_core::tags::Tag;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::outcome::How;
use hopcache_engine::ports::Scope;
use parking_lot::Mutex;

use crate::check::coverage::Coverage;
use crate::world::clock::sim_now;
use crate::world::write_statement::Touches;

/// One life of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
    /// Which node.
    pub node: usize,
    /// Which of its lives, from 0.
    pub life: u32,
}

/// A query key by the order in which it was first seen: short in traces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u16);

impl fmt::Debug for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "k{}", self.0)
    }
}

/// The scope of an invalidation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covers {
    /// One key.
    Key(KeyId),
    /// A database.
    Database(DatabaseTag),
    /// Everything.
    All,
}

impl Covers {
    /// Whether a key of that database is covered.
    #[must_use]
    pub fn has(self, key: KeyId, database: DatabaseTag) -> bool {
        match self {
            Self::Key(wanted) => wanted == key,
            Self::Database(wanted) => wanted == database,
            Self::All => true,
        }
    }
}

/// A fact and when it was one.
#[derive(Debug, Clone)]
pub struct Fact {
    /// On the simulation's clock.
    pub at: MonoTime,
    /// The event.
    pub what: What,
}

/// A result's report about itself. The simulated origin writes it into every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultReport {
    /// The run that read the value.
    pub run: u32,
    /// The query of that run.
    pub subject: usize,
    /// The version of the data that it read.
    pub version: u32,
    /// Whether the result has its last record.
    pub whole: bool,
}

/// The client's answer.
#[derive(Debug, Clone)]
pub struct ServedAnswer {
    /// The value, in a body that has one.
    pub report: Option<ResultReport>,
    /// Whether the answer has a body.
    pub is_body: bool,
    /// Whether another node found it.
    pub is_from_afar: bool,
    /// Whether it was in the memory of a node that does not own the key.
    pub is_near: bool,
    /// The failure's words.
    pub failure: Option<String>,
    /// Why.
    pub how: How,
}

/// How fresh an answer was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// As usual.
    Plain,
    /// `no-cache`.
    Anew,
    /// `max-age`.
    NoOlder(Millis),
    /// `max-stale=0`.
    Fresh,
    /// `only-if-cached`.
    OnlyCached,
    /// `no-store`.
    Bypass,
    /// With the bookmark of this version.
    After(u32),
    /// In a transaction that may write.
    ToWrite,
}

impl Want {
    /// Whether its run may be for it alone, beside a flight that others wait for.
    #[must_use]
    pub const fn is_alone(self) -> bool {
        !matches!(self, Self::Plain | Self::OnlyCached)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// With a whole result.
    Whole,
    /// With a whole result that shows a change.
    Updates,
    /// With an error.
    Failed,
    /// Without a connection to the origin.
    Away,
    /// With a part of the result and a broken connection.
    Cut,
    /// With a panic in the caller's task.
    Panic,
}

/// An entry as a commit brought it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BroughtEntry {
    /// The result's report, if it could be read.
    pub report: Option<ResultReport>,
    /// Its soft life.
    pub soft: Millis,
    /// Its physical life.
    pub physical: Millis,
    /// Its total life.
    pub total: Millis,
    /// The life that the commit asked for.
    pub left: Millis,
    /// Its database.
    pub database: DatabaseTag,
    /// When its holder offered it.
    pub offered: MonoTime,
}

/// Something that happened.
#[allow(missing_docs, reason = "the fields are named by the words of DESIGN section 1")]
#[derive(Debug, Clone)]
pub enum What {
    /// A client asked a node.
    Asked { ask: u32, node: usize, subject: usize, key: KeyId, want: Want, wait_max: Millis },
    /// It got its answer.
    Answered { ask: u32, served: ServedAnswer },
    /// It left before.
    Left { ask: u32 },
    /// A request was forwarded for this ask.
    Hop { hop: u32, ask: Option<u32>, from: usize, to: usize },
    /// The node that it was sent to began with it.
    ServeBegan { hop: u32, by: Life, key: KeyId, plain: bool },
    /// And ended.
    ServeEnded { hop: u32 },
    /// A node got the order to forget.
    Forgot { node: usize },
    /// A node began to purge: for an operator, or after a write to a database without a mark.
    Purges { node: usize },
    /// A node removed copies of many keys from its memory.
    Removed { node: usize },
    /// The store granted a lease.
    Granted {
        key: KeyId,
        by: Life,
        token: Token,
        lease: Millis,
        database: DatabaseTag,
        stolen: Option<Token>,
        age_max: Option<Millis>,
        store: MonoTime,
        seq: u64,
    },
    /// The store took or refused a result.
    Committed {
        key: KeyId,
        by: Life,
        token: Token,
        stored: bool,
        entry: BroughtEntry,
        store: MonoTime,
        seq: u64,
    },
    /// The store was asked to renew a lease.
    Renewed { key: KeyId, token: Token, done: bool, lease: Millis, store: MonoTime, seq: u64 },
    /// The store was asked to end a lease.
    Released { key: KeyId, token: Token, done: bool, store: MonoTime, seq: u64 },
    /// The store invalidated.
    Invalidated { scope: Covers, store: MonoTime, seq: u64 },
    /// A node's command failed, as that node saw it.
    StoreSaid { by: Life, word: &'static str, key: Option<KeyId>, silent: bool },
    /// The store lost everything.
    StoreLost { seq: u64 },
    /// The store went back to an earlier state.
    StoreFellBack { to_seq: u64, seq: u64 },
    /// The store's clock jumped by this many ms, and the time that it showed before.
    StoreJumped { by_ms: i64, store: MonoTime },
    /// The store can or cannot be asked.
    StoreIs { mode: &'static str },
    /// A run began; ahead of any request, or not.
    RunBegan { run: u32, by: Life, subject: Option<usize>, ask: Option<u32>, is_ahead: bool },
    /// And ended.
    RunEnded { run: u32, end: RunEnd },
    /// The origin gave no word on a subject's statement.
    Wordless { subject: Option<usize> },
    /// A client began to write through a node.
    WriteBegan { write: u32, node: usize },
    /// It got its answer: the version that it has written, or a failure.
    /// `is_told`: its node has said how it ended, and not that the client waits no longer.
    WriteEnded { write: u32, version: Option<u32>, touches: Touches, is_told: bool },
    /// The origin has committed a client's write as this version.
    Wrote { write: u32, version: u32, touches: Touches },
    /// A client began a transaction, which will write with this number.
    TransactionBegan { transaction: u32, node: usize, write: u32 },
    /// The transaction asks this.
    TransactionAsks { transaction: u32, ask: u32 },
    /// The transaction ends without its write: what it has read may be old.
    TransactionOutdated { transaction: u32 },
    /// Nodes know that the origin cannot be reached, or that it can be reached again.
    OriginAway { is_away: bool },
    /// A write took fewer transaction ids than its node allows for: it may hide others (`core::proof`).
    Spared { by: Life },
    /// The origin was restored to an earlier version. The next writes have the same numbers again.
    Restored { version: u32 },
    /// Users or rights have changed.
    RightsChanged,
    /// The data changed: by a write through a node, or by one that no node knows of.
    Version { version: u32, by: Option<Life>, touches: Touches },
    /// A read that changes data ended well at the origin, in write mode: for its node it was a write.
    Drifted { by: Life },
    /// The origin does otherwise.
    OriginIs { behavior: String },
    /// A node's process.
    Power { node: usize, power: &'static str },
    /// A way between two nodes.
    Link { from: usize, to: usize, is_cut: bool },
    /// A question to a living node was reset on its way: to the asking node, the other one is gone.
    Reset { from: usize, to: usize },
    /// A node's way to the store.
    StoreLink { node: usize, is_cut: bool },
    /// A purge was asked for.
    PurgeBegan { purge: u32, node: usize, scope: Covers },
    /// And ended.
    PurgeEnded { purge: u32, stored: bool, unreached: u32, nodes: u32 },
    /// A node forgot its memory, as a cache may.
    MemoryForgotten { node: usize },
    /// Gossip between two nodes was cut or healed in one direction, while all other traffic arrives.
    GossipLink { from: usize, to: usize, is_cut: bool },
    /// A majority is whole again; the others are cut off or dead.
    MajorityHealed { nodes: Vec<usize> },
    /// A node that joined says that it is in: every other member showed its ring, or it waits no longer.
    TakenIn { by: Life, in_time: bool },
    /// A leaving node refuses connections.
    Closed { by: Life },
    /// A leaving node leads no more.
    HandedOn { by: Life },
    /// The even requests whose hits are counted began or ended, before the faults or after them.
    Even { is_after: bool, is_on: bool },
    /// A leaving node has ended its work, or its time is over. The fact has the work that is left.
    Emptied { by: Life, leases: usize, in_time: bool },
    /// Everything that was broken is whole again.
    Healed,
    /// Nothing more will be asked.
    Quiet,
}

/// The record of one simulated cluster.
#[derive(Default)]
pub struct Record {
    inner: Mutex<Inner>,
    coverage: Mutex<Coverage>,
}

struct Inner {
    facts: Vec<Fact>,
    keys: Vec<QueryKey>,
    hops: u32,
    hash: Fnv,
}

impl Default for Inner {
    fn default() -> Self {
        Self { facts: Vec::new(), keys: Vec::new(), hops: 0, hash: Fnv(0xcbf2_9ce4_8422_2325) }
    }
}

impl Record {
    /// Writes a fact down.
    pub fn note(&self, what: What) {
        let fact = Fact { at: sim_now(), what };
        let mut inner = self.inner.lock();
        let _ = write!(inner.hash, "{fact}");
        inner.facts.push(fact);
    }

    /// Counts a word for the coverage; no part of the trace.
    pub fn cover(&self, word: &'static str) {
        self.coverage.lock().count(word);
    }

    /// Counts the end of a request, or an event of a node.
    pub fn cover_with(&self, count: impl FnOnce(&mut Coverage)) {
        count(&mut self.coverage.lock());
    }

    /// The counts.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        self.coverage.lock().clone()
    }

    /// The short name of a key.
    pub fn key(&self, key: &QueryKey) -> KeyId {
        let mut inner = self.inner.lock();
        let found = inner.keys.iter().position(|known| known == key);
        let place = found.unwrap_or_else(|| {
            inner.keys.push(*key);
            inner.keys.len() - 1
        });
        KeyId(u16::try_from(place).unwrap_or(u16::MAX))
    }

    /// The key of a short name.
    #[must_use]
    pub fn key_of(&self, key: KeyId) -> Option<QueryKey> {
        self.inner.lock().keys.get(usize::from(key.0)).copied()
    }

    /// A scope in the record's words.
    pub fn covers(&self, scope: &Scope) -> Covers {
        match scope {
            Scope::Key(key) => Covers::Key(self.key(key)),
            Scope::Tag(Tag::Database(database)) => Covers::Database(*database),
            Scope::All => Covers::All,
        }
    }

    /// A number for a forward.
    pub fn next_hop(&self) -> u32 {
        let mut inner = self.inner.lock();
        inner.hops += 1;
        inner.hops
    }

    /// Facts from place `from` on.
    #[must_use]
    pub fn since(&self, from: usize) -> Vec<Fact> {
        self.inner.lock().facts.get(from..).unwrap_or_default().to_vec()
    }

    /// Hash of everything that happened, in order.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.inner.lock().hash.0
    }

    /// Everything that happened, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.inner.lock().facts.iter().map(ToString::to_string).collect()
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.at.0.saturating_sub(hopcache_core::limits::CLOCK_START_US) / 1_000;
        write!(out, "{ms:>7} ms  {:?}", self.what)
    }
}

/// FNV-1a (Fowler, Noll, Vo), fed with the trace's text.
#[derive(Clone, Copy)]
struct Fnv(u64);

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
