//! The engine's ports to the world. Production has adapters for them in `hopcache` (the node crate), the simulator has
//! its own. Each port with more than one implementation has one contract suite that all of them pass.
//!
//! Every method may be dropped at any await: an implementation leaves nothing half-done that another caller could meet
//! (a cut connection is closed, not pooled).

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use hopcache_core::bookmark::{DatabaseUuid, Position};
use hopcache_core::key::{ClusterTag, DatabaseTag, QueryKey, ServerTag};
use hopcache_core::lease::{Commit, Grant, LeaseAsk, SlotView, Token};
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::proof::{Report, ServerRun};
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::ring::Ring;
use hopcache_core::tags::Tag;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use hopcache_core::write_position::{WriteEvent, WriteRecord};

use crate::model::ask::Query;
use crate::model::event::{Cause, Event};
use crate::model::fetch_times::FetchTimes;
use crate::model::identity::Identity;

pub use hopcache_core::lease::log::{CursorDigest, LogCursor};
pub use hopcache_core::write_position::{EventCursor, StorePoll};

pub use crate::model::faults::{Neo4jFailure, OriginError, OriginFault, PeerError, StoreError};
pub use crate::model::origin_run::{
    AccessMode, OriginRun, Parts, RunBookmarks, TransactionMetadata, WriteBegan, WriteOf, traced,
};

/// Time on this node.
pub trait Clock: Send + Sync + 'static {
    /// The monotonic clock.
    fn now(&self) -> MonoTime;
    /// Completes after `span`.
    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()>;
}

/// Randomness on this node.
pub trait Dice: Send + Sync + 'static {
    /// 64 random bits, good enough for fence tokens when called twice.
    fn u64(&self) -> u64;
}

/// The cores that this node may use.
pub trait Cores: Send + Sync + 'static {
    /// Whether nearly all of their time was used lately, by this process or another one. Work that no client waits for takes it from
    /// others then.
    fn are_busy(&self) -> bool;
}

/// What nodes share: entries, leases, invalidations (DESIGN "Lease protocol"). Each method is one
/// atomic step in the store. Each has the implementation's own deadline and never hangs.
///
/// A store whose content went back (a snapshot, a replica that lagged) counts as empty, and its log as another log:
/// [`StoreLife`](hopcache_core::lease::life::StoreLife). Callers need not know.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// A fresh value. Without one: a lease with a new token if nobody leads, else the current holder.
    async fn get_or_lease(&self, key: &QueryKey, ask: &LeaseAsk) -> Result<Grant, StoreError>;
    /// Stores `entry` for `life_ms` from now, and ends the lease, if `token` is the current lease's. With a life of
    /// zero it stores nothing and removes the old entry.
    async fn commit(
        &self,
        key: &QueryKey,
        token: Token,
        entry: Bytes,
        life_ms: Millis,
    ) -> Result<Commit, StoreError>;
    /// Prolongs the lease to `lease_ms` from now if `token` is the current one and has not lapsed. Returns whether it
    /// was.
    async fn renew(&self, key: &QueryKey, token: Token, lease_ms: Millis) -> Result<bool, StoreError>;
    /// Ends the lease if `token` is the current one. Returns whether it was.
    async fn release(&self, key: &QueryKey, token: Token) -> Result<bool, StoreError>;
    /// Ends many leases. Each end is one atomic step, as [`commit`](Store::commit) or [`release`](Store::release) is, and they
    /// may be carried out in any order. Returns for each, in the order of `ends`, whether its token was the current one.
    async fn end_leases(&self, ends: &[LeaseEnd]) -> Vec<Result<bool, StoreError>> {
        join_all(ends.iter().map(|end| async move {
            match &end.entry {
                Some((entry, life_ms)) => {
                    let commit = self.commit(&end.key, end.token, entry.clone(), *life_ms).await?;
                    Ok(commit == Commit::Stored)
                }
                None => self.release(&end.key, end.token).await,
            }
        }))
        .await
    }
    /// As `get_or_lease`, but a lease with token `dead`, whose holder is known to be dead, counts as free.
    async fn steal(&self, key: &QueryKey, dead: Token, ask: &LeaseAsk) -> Result<Grant, StoreError>;
    /// Removes entry and lease, so that an earlier read cannot be stored, and tells every node through the invalidation
    /// log. Returns how many entries were removed.
    async fn invalidate(&self, scope: &Scope) -> Result<u64, StoreError>;
    /// The page of the invalidation log after `cursor`.
    async fn invalidations_since(&self, cursor: LogCursor) -> Result<LogPage, StoreError>;
    /// Keeps these marks, or later ones that it has, and writes the events that they are the marks of to its log.
    async fn tell_written(
        &self,
        cluster: ClusterTag,
        told: (&[WriteRecord], &[WriteEvent]),
    ) -> Result<StoreReceipt, StoreError>;
    /// Polls the store. It returns all marks, the events since this place in its log, and all watchers' reports, and notes that this node may
    /// serve for so long without another poll: writers wait that long for a node that they cannot tell.
    async fn hear_written(
        &self,
        cluster: ClusterTag,
        listener: (&NodeName, Millis),
        since: Option<EventCursor>,
    ) -> Result<StorePoll, StoreError>;
    /// Keeps a watcher's report, unless there is one of a later look of the same database by the same name.
    async fn report(&self, cluster: ClusterTag, report: &Report) -> Result<(), StoreError>;
    /// The database that a name leads to at an address of Neo4j, as a node has said last. With `said`, that from now on.
    async fn remember(
        &self,
        cluster: ClusterTag,
        at: (ServerTag, DatabaseTag),
        said: Option<DatabaseUuid>,
    ) -> Result<Option<DatabaseUuid>, StoreError>;
    /// Entry and lease under a key, changing nothing.
    async fn peek(&self, key: &QueryKey) -> Result<SlotView, StoreError>;
    /// Whether the store answers and takes writes.
    async fn ping(&self) -> Result<(), StoreError>;
}

/// Plain data: a lease that its holder ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseEnd {
    /// The key.
    pub key: QueryKey,
    /// The token of the lease.
    pub token: Token,
    /// The entry to store, and its life from now; `None` to give the lease back without one.
    pub entry: Option<(Bytes, Millis)>,
}

/// Plain data: a node that has looked for writes not long ago. It may serve entries from before a write that it has not
/// heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The node.
    pub node: NodeName,
    /// For how long it may, at most.
    pub left_ms: Millis,
}

/// Plain data: what the store answers when it is told of writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreReceipt {
    /// The nodes that listen for writes.
    pub listeners: Vec<Listener>,
    /// Ids are counted anew since the marks that it was told: the latest mark of each such database, as one of
    /// everything.
    pub anew: Vec<WriteRecord>,
}

/// What an invalidation covers.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Scope {
    /// One entry.
    Key(QueryKey),
    /// Every entry that has this tag.
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
    /// The kind of a statement according to the server, without running it.
    async fn kind(&self, run: &OriginRun) -> Result<StatementKind, OriginError>;
    /// The newest transaction of the database, asked now, for a write whose id is unknown. `None` if the server tells none
    /// that this node understands.
    async fn newest(&self, of: &WriteOf, timeout_ms: Millis) -> Result<Option<Position>, OriginError> {
        let _ = (of, timeout_ms);
        Ok(None)
    }
    /// As [`newest`](Origin::newest), and in which run of the server that was; `None` as a run if the server does not tell. Of two
    /// answers with the same run the server was not stopped in between. Each of the two questions takes `timeout_ms` at most, or
    /// `WATCH_RUN_MS_MAX`.
    async fn newest_and_run(
        &self,
        of: &WriteOf,
        timeout_ms: Millis,
    ) -> Result<Option<(Position, Option<ServerRun>)>, OriginError> {
        Ok(self.newest(of, timeout_ms).await?.map(|position| (position, None)))
    }
    /// Whether the server accepts these credentials now.
    async fn verify(&self, identity: &Identity) -> Result<(), OriginError>;
    /// Whether the server is there and accepts this node's own credentials, if it has any.
    async fn reach(&self) -> Result<(), OriginError> {
        Ok(())
    }
    /// The fault with which a run of this class and timeout would be refused without waiting; `None` if it would run or
    /// wait. A cheap guess. It is asked before a lease is, so that a run that cannot begin costs no lease.
    fn would_shed(&self, identity: &Identity, class: RunClass, timeout_ms: Millis) -> Option<OriginFault> {
        let _ = (identity, class, timeout_ms);
        None
    }
    /// Runs under way on this node.
    fn in_flight(&self) -> usize;
    /// Whether the origin has time left over for a run that no client waits for.
    fn has_spare(&self) -> bool {
        true
    }
    /// The greatest number of concurrent runs now; `None` if there is no bound.
    fn slots(&self) -> Option<usize> {
        None
    }
    /// Whether the server answered the last question or probe, and is not late with the answer to a probe.
    fn is_reachable(&self) -> bool {
        true
    }
    /// Whether the server is known to be away: a probe has failed. A server that is only late may be busy, and has answered writes.
    fn is_away(&self) -> bool {
        !self.is_reachable()
    }
    /// Another node cannot reach the server, or is late. Whether this one can is found out; nobody waits for that.
    fn doubt(&self) {}
    /// The members of a cluster, if the origin is one.
    fn members(&self) -> Vec<OriginMember> {
        Vec::new()
    }
    /// Whether the server refused this node's own credentials when they were last tried. Nothing runs until
    /// [`reach`](Origin::reach) succeeds with them.
    fn refuses_us(&self) -> bool {
        false
    }
}

/// Plain data: a member of the origin's cluster, as this node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginMember {
    /// `host:port`, as the cluster names it.
    pub name: String,
    /// The databases that it leads, by this node's routing tables.
    pub leads: Vec<String>,
    /// Whether it answers; `None` if this node has not used it.
    pub is_reachable: Option<bool>,
    /// Runs of this node under way there.
    pub in_flight: usize,
}

/// Keeps what Neo4j has said about users. The engine tells it when that may not be so any more.
pub trait Users: Send + Sync + 'static {
    /// A write through this cluster has changed users or rights: nothing that Neo4j said before counts.
    fn have_changed(&self);
    /// This node was out of touch, and may have missed such a write: Neo4j has to be asked again.
    fn may_have_changed(&self);
}

/// Peers, one hop away. [`message`](crate::peers::message) defines the content. The implementation decides how it
/// travels and authenticates senders.
#[async_trait]
pub trait Peers: Send + Sync + 'static {
    /// Sends a message of any kind to a node, and waits for the answer at most `timeout_ms`. The node may get the message twice.
    async fn forward(&self, to: &NodeName, message: Bytes, timeout_ms: Millis) -> Result<Bytes, PeerError>;
    /// Whether the peer is alive: its incarnation, or why it could not be reached.
    async fn probe(&self, to: &NodeName, timeout_ms: Millis) -> Result<Incarnation, PeerError>;
}

/// Spreads lessons from this node to all others beside their membership, with best effort: pieces may be lost, late,
/// repeated or reordered. The others' pieces arrive at
/// [`Prefetch::heard_spread`](crate::prefetch::Prefetch::heard_spread).
pub trait Spread: Send + Sync + 'static {
    /// Spreads a piece of at most `GOSSIP_SPREAD_BYTES_MAX` bytes. Returns false if it is known to be lost. Never
    /// blocks.
    fn spread(&self, piece: Bytes) -> bool;
}

/// Spreads nothing: for a node whose peers use pulls only.
#[derive(Debug, Clone, Copy)]
pub struct SpreadsNothing;

impl Spread for SpreadsNothing {
    fn spread(&self, _: Bytes) -> bool {
        false
    }
}

/// The owners of keys, and the reachable nodes.
pub trait Routing: Send + Sync + 'static {
    /// The view in force; an immutable snapshot.
    fn view(&self) -> Arc<Ring>;
    /// The current known life of a node. Look it up before asking the node, for [`Routing::report`]: when an ask has
    /// failed, the node may have another life.
    fn life_of(&self, node: &NodeName) -> Option<Incarnation>;
    /// Reports that a peer could not be asked in its life `life`. A refused or reset connection removes it from routing
    /// at once, unless it has another life by now.
    fn report(&self, node: &NodeName, life: Option<Incarnation>, error: &PeerError);
    /// Completes when `node` cannot be asked any more, according to its connections or its own message; at once if that
    /// is already so. Hearsay alone does not count: a node that others report as lost may still answer an earlier
    /// question.
    fn lost(&self, node: &NodeName) -> BoxFuture<'static, ()>;
    /// Whether, since this life of the node last answered, a connection to it was refused, or broke and could not be
    /// restored. A silent node may only be stopped, or cut off.
    fn is_gone(&self, _life: &Holder) -> bool {
        false
    }
    /// The nodes that can be asked: those on the ring, and those that join or drain.
    fn reachable(&self) -> Vec<NodeName> {
        self.view().members().to_vec()
    }
    /// Whether this node, in this life, has met another living node of its own name.
    fn has_met_namesake(&self, _life: Incarnation) -> bool {
        false
    }
}

/// Counts what happens.
pub trait Observer: Send + Sync + 'static {
    /// Notes an event. Never blocks.
    fn note(&self, event: Event);
    /// A fetch ended, and where its time went. Never blocks.
    fn fetched(&self, _: &EndedFetch<'_>) {}
}

/// Plain data: a fetch that ended.
pub struct EndedFetch<'a> {
    /// What was fetched.
    pub query: &'a Query,
    /// For what.
    pub cause: Cause,
    /// How long all of it took.
    pub took_ms: Millis,
    /// The parts of that.
    pub times: &'a FetchTimes,
    /// The `traceparent` of the request that began it.
    pub traceparent: Option<&'a str>,
}
