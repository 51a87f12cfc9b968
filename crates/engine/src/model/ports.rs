//! What the engine needs of the world. Production has adapters of these in `hopcache` (the node
//! crate), the simulator has its own; each port with more than one implementation has one contract
//! suite that all of them pass.
//!
//! Every method may be dropped at any await: an implementation leaves nothing half-done that
//! somebody else could meet (a cut connection is closed, not pooled).

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hopcache_core::key::QueryKey;
use hopcache_core::lease::{Commit, Grant, LeaseAsk, SlotView, Token};
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::ring::Ring;
use hopcache_core::tags::Tag;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;

use crate::model::event::Event;
use crate::model::identity::Identity;

pub use hopcache_core::lease::log::{LogCursor, LogMark};

pub use crate::model::faults::{Neo4jFailure, OriginError, OriginFault, PeerError, StoreError};
pub use crate::model::origin_run::{AccessMode, OriginRun, RunBookmarks};

/// Time on this node.
pub trait Clock: Send + Sync + 'static {
    /// The monotonic clock.
    fn now(&self) -> MonoTime;
    /// Done when so much time has passed.
    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()>;
}

/// Randomness on this node.
pub trait Dice: Send + Sync + 'static {
    /// 64 random bits, good enough for fence tokens when called twice.
    fn u64(&self) -> u64;
}

/// What nodes share: entries, leases, invalidations (DESIGN "Lease protocol"). Each method is one
/// atomic step in the store. Each has the implementation's own deadline and never hangs.
///
/// A store whose content went back (a snapshot, a replica that lagged) counts as empty, and its log as another one:
/// [`StoreLife`](hopcache_core::lease::life::StoreLife). Callers need not know.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// A fresh value; else, where nobody leads, a lease with a new token; else who leads.
    async fn get_or_lease(&self, key: &QueryKey, ask: &LeaseAsk) -> Result<Grant, StoreError>;
    /// Stores `entry` for `life_ms` from now, and ends the lease, if `token` is the current lease's. With a life of
    /// zero nothing is stored, and what was there is removed.
    async fn commit(
        &self,
        key: &QueryKey,
        token: Token,
        entry: Bytes,
        life_ms: Millis,
    ) -> Result<Commit, StoreError>;
    /// Prolongs the lease to `lease_ms` from now if `token` is the current one and has not lapsed; whether it was.
    async fn renew(&self, key: &QueryKey, token: Token, lease_ms: Millis) -> Result<bool, StoreError>;
    /// Ends the lease if `token` is the current one; whether it was.
    async fn release(&self, key: &QueryKey, token: Token) -> Result<bool, StoreError>;
    /// As `get_or_lease`, but a lease with token `dead`, whose holder is known to be dead, counts as free.
    async fn steal(&self, key: &QueryKey, dead: Token, ask: &LeaseAsk) -> Result<Grant, StoreError>;
    /// Removes entry and lease (so that a result read before cannot land), and tells every node through
    /// the invalidation log. Returns how many entries were removed.
    async fn invalidate(&self, scope: &Scope) -> Result<u64, StoreError>;
    /// What the invalidation log says after `cursor`.
    async fn invalidations_since(&self, cursor: LogCursor) -> Result<LogPage, StoreError>;
    /// Entry and lease under a key, changing nothing (for `explain`).
    async fn peek(&self, key: &QueryKey) -> Result<SlotView, StoreError>;
    /// Whether the store answers and takes writes.
    async fn ping(&self) -> Result<(), StoreError>;
}

/// What an invalidation covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// One entry.
    Key(QueryKey),
    /// Every entry that depends on this.
    Tag(Tag),
    /// Every entry.
    All,
}

/// A part of the store's invalidation log.
pub type LogPage = hopcache_core::lease::log::LogPage<Scope>;

/// The graph database.
#[async_trait]
pub trait Origin: Send + Sync + 'static {
    /// Runs a statement to its end. Only a complete result is `Ok` (promise I10).
    async fn run(&self, run: &OriginRun) -> Result<ResultSet, OriginError>;
    /// What kind of statement this is, by the server's word, without running it.
    async fn kind(&self, run: &OriginRun) -> Result<StatementKind, OriginError>;
    /// Whether the server accepts these credentials now.
    async fn verify(&self, identity: &Identity) -> Result<(), OriginError>;
    /// Whether the server is there and, where this node has credentials of its own, accepts them.
    async fn reach(&self) -> Result<(), OriginError> {
        Ok(())
    }
    /// What a run of this class, that may take so long, would be refused for without waiting; nothing where it would run
    /// or wait. A guess, and cheap: it is asked before a lease is, so that a run that cannot begin costs none.
    fn would_shed(&self, identity: &Identity, class: RunClass, timeout_ms: Millis) -> Option<OriginFault> {
        let _ = (identity, class, timeout_ms);
        None
    }
    /// Runs under way on this node.
    fn in_flight(&self) -> usize;
    /// Runs that may be under way at a time; nothing where there is no bound.
    fn slots(&self) -> Option<usize> {
        None
    }
    /// Whether it answered when it was last asked anything, a probe included.
    fn is_reachable(&self) -> bool {
        true
    }
    /// Whether it refused this node's own credentials when they were last tried. Nothing is run until
    /// [`reach`](Origin::reach) has them accepted.
    fn refuses_us(&self) -> bool {
        false
    }
}

/// Peers, one hop away. What is said is [`message`](crate::peers::message)'s; how it travels, and who is believed,
/// is the implementation's.
#[async_trait]
pub trait Peers: Send + Sync + 'static {
    /// Sends a request to its owner and waits for the answer at most `timeout_ms`.
    async fn forward(&self, to: &NodeName, message: Bytes, timeout_ms: Millis) -> Result<Bytes, PeerError>;
    /// Whether the peer lives: its incarnation, or how it could not be reached.
    async fn probe(&self, to: &NodeName, timeout_ms: Millis) -> Result<Incarnation, PeerError>;
}

/// What this node spreads to all others beside their membership, as well as it goes: lost, late, twice, in any order.
/// What the others spread comes to [`Prefetch::heard_spread`](crate::prefetch::Prefetch::heard_spread).
pub trait Spread: Send + Sync + 'static {
    /// Spreads a piece of at most `GOSSIP_SPREAD_BYTES_MAX` bytes; false where it is known to be lost. Never blocks.
    fn spread(&self, piece: Bytes) -> bool;
}

/// Spreads nothing: for a node whose peers only ever ask.
#[derive(Debug, Clone, Copy)]
pub struct SpreadsNothing;

impl Spread for SpreadsNothing {
    fn spread(&self, _: Bytes) -> bool {
        false
    }
}

/// Who owns which key, and who can be asked at all.
pub trait Routing: Send + Sync + 'static {
    /// The view in force; an immutable snapshot.
    fn view(&self) -> Arc<Ring>;
    /// The life in which a node is known now. Looked up before it is asked, for [`Routing::report`]: by the time that an ask
    /// has failed it may have another.
    fn life_of(&self, node: &NodeName) -> Option<Incarnation>;
    /// A peer could not be asked in the life that it was known in: a refused or reset connection takes it out of routing at
    /// once, unless it has another life by now.
    fn report(&self, node: &NodeName, life: Option<Incarnation>, error: &PeerError);
    /// Done when `node` cannot be asked any more, by what connections to it showed or what it said itself; at once if that
    /// is so already. Who is out of routing by hearsay alone may still answer what it was asked.
    fn lost(&self, node: &NodeName) -> BoxFuture<'static, ()>;
    /// Whether a connection to this life of the node was refused, or broke and could not be made again, since it last
    /// answered. One that is only silent may be stopped, or cut off.
    fn is_gone(&self, _life: &Holder) -> bool {
        false
    }
    /// Who can be asked: those on the ring, and those that join or drain.
    fn reachable(&self) -> Vec<NodeName> {
        self.view().members().to_vec()
    }
    /// Whether another living node of this node's own name was met, in this life of it.
    fn has_met_namesake(&self, _life: Incarnation) -> bool {
        false
    }
}

/// Counts what happens.
pub trait Observer: Send + Sync + 'static {
    /// Takes note; never blocks.
    fn note(&self, event: Event);
}
