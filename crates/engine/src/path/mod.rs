//! The request path: one request start to end, on this node and to the owner of its key. It orchestrates the rooms
//! below and leaves their decisions to them.
//!
//! | file | content |
//! |---|---|
//! | `request` | **start here**: answer, hit, hop, flight, lease, run, commit, observe |
//! | `judgement` | the use of a flight's end for one request |
//! | `answers` | from a copy or a result to an outcome |
//! | `fallback` | stale answers instead of an outage |
//! | `after_write` | hot keys that a write has ended are read anew |
//! | `direct` | reads whose caching does not pay |
//! | `forward` | one hop to the owner |
//! | `bypass` | requests that bypass the cache |
//! | `peer_side` | the same at the owner, for other nodes |
//! | `explain` | why the cache did or did not answer a query |
//! | `drain` | leaving in good order |
//! | `transaction` | what a transaction that may write has read, and what it may still do |
//! | `sizes` | the size of every table of this node |

mod after_write;
mod answers;
mod bypass;
mod direct;
mod drain;
pub mod explain;
mod fallback;
mod forward;
mod judgement;
mod parsed_statements;
mod peer_side;
mod request;
pub mod sizes;
mod streamed;
mod transaction;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::KeyHasher;
use hopcache_cypher::statement::Statement;
use tokio_util::task::TaskTracker;

use crate::cache::flight::FlightTable;
use crate::cache::{Cache, WatchedStore};
use crate::fetch::{Fetch, FetchResult};
use crate::invalidate::Invalidate;
use crate::model::ask::{Query, QueryParts};
use crate::model::context::Context;
use crate::model::event::{Cause, Event};
use crate::model::identity::Identity;
use crate::model::job::FetchJob;
use crate::model::policy::PolicyInForce;
use crate::model::ports::{Origin, Routing};
use crate::model::text_facts::TextFacts;
use crate::path::forward::{ForwardKey, SharedForward};
use crate::path::parsed_statements::ParsedStatements;
use crate::peers::PeerCalls;
use crate::prefetch::Prefetch;
use crate::refresh::Refresh;
use crate::writes::Writes;

pub use parsed_statements::ParsedStatement;
pub use streamed::TooLargeToHold;
pub use transaction::TransactionReads;

/// Plain data: the rooms below, as the path uses them.
#[derive(Clone)]
pub(crate) struct Rooms {
    pub(crate) context: Context,
    pub(crate) cache: Arc<Cache>,
    pub(crate) store: Arc<WatchedStore>,
    pub(crate) peers: Arc<PeerCalls>,
    pub(crate) invalidate: Arc<Invalidate>,
    pub(crate) writes: Arc<Writes>,
    pub(crate) fetch: Arc<Fetch>,
    pub(crate) refresh: Arc<Refresh>,
    pub(crate) prefetch: Arc<Prefetch>,
}

/// The request path of one node.
pub struct Path {
    context: Context,
    cache: Arc<Cache>,
    store: Arc<WatchedStore>,
    peers: Arc<PeerCalls>,
    invalidate: Arc<Invalidate>,
    writes: Arc<Writes>,
    fetch: Arc<Fetch>,
    refresh: Arc<Refresh>,
    prefetch: Arc<Prefetch>,
    routing: Arc<dyn Routing>,
    origin: Arc<dyn Origin>,
    hasher: KeyHasher,
    texts: ParsedStatements,
    policy: PolicyInForce,
    /// Forwards that wait for another node. A forwarded request never looks here (I8).
    forwards: Arc<FlightTable<ForwardKey, Arc<SharedForward>>>,
    /// Requests that other nodes sent and wait for.
    forwarded: TaskTracker,
}

impl Path {
    pub(crate) fn new(
        rooms: Rooms,
        (routing, origin): (&Arc<dyn Routing>, &Arc<dyn Origin>),
        hasher: &KeyHasher,
        policy: &PolicyInForce,
    ) -> Arc<Self> {
        Arc::new(Self {
            forwards: rooms.cache.flight_table(),
            context: rooms.context,
            cache: rooms.cache,
            store: rooms.store,
            peers: rooms.peers,
            invalidate: rooms.invalidate,
            writes: rooms.writes,
            fetch: rooms.fetch,
            refresh: rooms.refresh,
            prefetch: rooms.prefetch,
            routing: Arc::clone(routing),
            origin: Arc::clone(origin),
            hasher: hasher.clone(),
            texts: ParsedStatements::new(),
            policy: policy.clone(),
            forwarded: TaskTracker::new(),
        })
    }

    /// Reads a client's statement. Walking over a long text happens off the workers.
    #[must_use]
    pub fn read(&self, parts: QueryParts) -> Query {
        let QueryParts { database, statement, params, impersonated, identity } = parts;
        self.query_of(self.read_text(database, statement), params, (impersonated, identity))
    }

    /// As [`Path::read`], of the text alone: a front that itself passes statements on to the origin asks first whether this one
    /// [passes](ReadText::passes), and makes no query of it then.
    #[must_use]
    pub fn read_text(&self, database: Arc<str>, text: Arc<str>) -> ParsedStatement {
        self.texts.read(database, text, |text| {
            self.context.note(Event::StatementLexed);
            Statement::of(text, &self.policy.now().allowed, self.hasher.shares_spellings())
        })
    }

    /// What a text may write, in whichever database.
    #[must_use]
    pub fn write_facts(&self, text: &str) -> Arc<TextFacts> {
        self.texts.facts("", text)
    }

    /// Forgets how texts were read: the operator has changed what is a read.
    pub(crate) fn forget_texts(&self) {
        self.texts.forget();
    }

    /// The query of a text with these parameters (one canonical PackStream map), for the user to act as and the one who asks.
    #[must_use]
    pub fn query_of(
        &self,
        read: ParsedStatement,
        params: Bytes,
        (impersonated, identity): (Option<String>, Arc<Identity>),
    ) -> Query {
        let parts =
            QueryParts { database: read.database, statement: read.text, params, impersonated, identity };
        Query::of_statement(parts, &self.hasher, (read.statement, read.facts))
    }

    /// The budget of prefetches grows with the runs of clients' misses.
    fn note_demand_run(&self, job: &FetchJob, result: &FetchResult) {
        if job.cause == Cause::Miss && result.was_run() {
            self.prefetch.demand_miss(&job.query);
        }
    }

    /// Follows the store's invalidation log and the writes that it has heard of, for ever; the caller owns the task. It
    /// bounds how long a copy here outlives a purge or a write that did not reach this node directly. Each look at the log
    /// also ends the prefetches whose copies are dead. Writes also cause reads of hot keys.
    pub async fn follow_invalidations(self: &Arc<Self>) -> Infallible {
        let on_poll = || self.prefetch.sweep();
        tokio::select! {
            biased;
            never = self.invalidate.follow_log(&on_poll) => never,
            never = self.writes.follow() => never,
            never = self.writes.watch() => never,
            never = self.read_after_writes() => never,
        }
    }
}
