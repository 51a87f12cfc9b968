//! What a leader does: win the right to run, run, commit, and tell everyone.
//!
//! A leader is a detached task. It belongs to the engine's task tracker, not to the request that
//! happened to start it. It decides nothing about who leads on other nodes: the store's lease does.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::entry::Entry;
use hopcache_core::lease::{Commit, Grant, LeaseAsk, StoredEntry, Token};
use hopcache_core::limits;
use hopcache_core::node::Holder;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_queryapi::render::Form;

use crate::ask::{Ask, Freshness, Hints, Query, RunBounds};
use crate::copy::{CopyTimes, MemoryCopy, SharedCopy, with_bookmark};
use crate::engine::Engine;
use crate::flight::Leader;
use crate::outcome::{Cause, Detail, Event, FaultWord, Kept, Reason, RefreshWord};
use crate::ports::{OriginError, OriginFault, PeerError};

/// How a flight ends, for its leader and its followers alike.
#[derive(Debug)]
pub(crate) enum Landing {
    /// The store had a fresh value.
    Found(SharedCopy),
    /// The store had a stale value; a refresh goes on.
    Stale(SharedCopy),
    /// The origin ran.
    Ran {
        /// Its result.
        copy: SharedCopy,
        /// The answer with this run's bookmark, in the leader's form.
        live: Option<(Form, Bytes)>,
        /// What became of it.
        kept: Kept,
        /// Why it was not kept as usual.
        detail: Option<Detail>,
    },
    /// Nobody vouches that this is a read: each request has to go its own way.
    NotARead(Reason),
    /// The run failed. The error is the statement's own where [`OriginFault::Failed`].
    Failed(OriginError),
}

/// What a leader needs to know of the request that started it.
#[derive(Debug, Clone)]
pub(crate) struct Errand {
    pub(crate) query: Arc<Query>,
    pub(crate) form: Form,
    pub(crate) hints: Hints,
    pub(crate) traceparent: Option<String>,
    pub(crate) cause: Cause,
    /// Entries older than this do not count; zero for `no-cache`.
    pub(crate) age_max_ms: Option<Millis>,
    /// Whether a stale value in the store is an answer.
    pub(crate) stale_use: StaleUse,
}

impl Errand {
    pub(crate) fn of(ask: &Ask, cause: Cause) -> Self {
        Self {
            query: Arc::clone(&ask.query),
            form: ask.form,
            hints: ask.hints,
            traceparent: ask.traceparent.clone(),
            cause,
            age_max_ms: ask.freshness.age_max_ms,
            stale_use: if ask.freshness == Freshness::default() { StaleUse::Serve } else { StaleUse::Ignore },
        }
    }
}

/// How the competition for a key ended.
enum Win {
    /// There is a fresh value.
    Value(SharedCopy),
    /// We may run. A stale value may be served meanwhile.
    Lease { token: Token, lease_ms: Millis, stale: Option<SharedCopy> },
    /// Somebody else runs, and a stale value may be served meanwhile.
    BusyStale(SharedCopy),
    /// Somebody else ran for longer than we wait.
    GaveUp,
    /// The store is out of reach: run without a lease, store nothing.
    NoStore,
}

type KeyLeader = Leader<hopcache_core::key::QueryKey, Arc<Landing>>;

impl Engine {
    /// Starts the leader's task.
    pub(crate) fn launch(self: &Arc<Self>, leader: KeyLeader, errand: Errand) {
        let engine = Arc::clone(self);
        self.tasks.spawn(async move { engine.lead(leader, errand).await });
    }

    async fn lead(self: Arc<Self>, leader: KeyLeader, errand: Errand) {
        let landing = match self.win(&errand).await {
            Win::Value(copy) => Landing::Found(copy),
            Win::BusyStale(copy) => Landing::Stale(copy),
            Win::GaveUp => Landing::Failed(OriginFault::Overloaded.into()),
            Win::NoStore => self.run(&errand, None).await,
            Win::Lease { token, lease_ms, stale: None } => self.run_leased(&errand, token, lease_ms).await,
            Win::Lease { token, lease_ms, stale: Some(copy) } => {
                self.refresh_leased(&errand, token, lease_ms);
                Landing::Stale(copy)
            }
        };
        self.keep(&errand, &landing);
        if !leader.is_attached() {
            // An invalidation came between our read and our keeping it:
            //   we read X · purge detaches this flight · purge empties memory · we keep X.
            self.ports.memory.remove(&errand.query.key);
        }
        let followers = leader.land(Arc::new(landing));
        self.note(Event::Landed { followers });
    }

    /// Refreshes a stale copy in the background, at most once at a time here; the lease keeps it to
    /// once in the cluster.
    pub(crate) fn refresh(self: &Arc<Self>, errand: Errand) {
        let crate::flight::Seat::Lead(seat) = self.refreshes.join(&errand.query.key) else { return };
        let engine = Arc::clone(self);
        self.tasks.spawn(async move {
            let errand = Errand { cause: Cause::Refresh, stale_use: StaleUse::Ignore, ..errand };
            engine.note(Event::Refresh(RefreshWord::Triggered));
            let landing = match engine.win(&errand).await {
                Win::Value(copy) | Win::BusyStale(copy) => Landing::Found(copy),
                Win::Lease { token, lease_ms, .. } => engine.run_leased(&errand, token, lease_ms).await,
                Win::GaveUp => Landing::Failed(OriginFault::Overloaded.into()),
                Win::NoStore => Landing::Failed(OriginFault::Overloaded.into()),
            };
            engine.end_refresh(&errand, &landing, seat);
        });
    }

    fn refresh_leased(self: &Arc<Self>, errand: &Errand, token: Token, lease_ms: Millis) {
        let engine = Arc::clone(self);
        let errand = Errand { cause: Cause::Refresh, ..errand.clone() };
        let seat = self.refreshes.join(&errand.query.key);
        self.tasks.spawn(async move {
            engine.note(Event::Refresh(RefreshWord::Triggered));
            let landing = engine.run_leased(&errand, token, lease_ms).await;
            if let crate::flight::Seat::Lead(seat) = seat {
                engine.end_refresh(&errand, &landing, seat);
            }
        });
    }

    fn end_refresh(
        &self,
        errand: &Errand,
        landing: &Landing,
        seat: Leader<hopcache_core::key::QueryKey, ()>,
    ) {
        let ended = match landing {
            Landing::Found(_) | Landing::Ran { kept: Kept::Stored, .. } => RefreshWord::Completed,
            _ => RefreshWord::Failed,
        };
        if ended == RefreshWord::Completed {
            self.keep(errand, landing);
        }
        if !seat.is_attached() {
            self.ports.memory.remove(&errand.query.key);
        }
        self.note(Event::Refresh(ended));
        seat.land(());
    }

    /// Competes for the key until there is a value, a lease, or no store. A loser waits with
    /// exponential back-off and jitter and then competes again: a wait that ends never turns into a
    /// run without a lease.
    async fn win(&self, errand: &Errand) -> Win {
        let key = &errand.query.key;
        let lease_ms = self.lease_ms(&errand.query);
        let give_up_at = self.now() + self.policy.run_timeout_ms + Millis(limits::LEASE_MS_MAX);
        let mut wait_ms = limits::LEASE_POLL_MS_FIRST;
        let mut dead = None;
        loop {
            let ask = self.lease_ask(errand, lease_ms);
            let grant = match dead.take() {
                None => self.ports.store.get_or_lease(key, &ask).await,
                Some(token) => self.ports.store.steal(key, token, &ask).await,
            };
            self.saw_store(&grant);
            match grant {
                Err(_) => return Win::NoStore,
                Ok(Grant::Value(stored)) => match self.read_stored(errand, &stored).await {
                    Some(copy) => return Win::Value(copy),
                    None => continue,
                },
                Ok(Grant::Lease { token, kind, stale }) => {
                    self.note(Event::LeaseGrant(kind));
                    self.holdings.add(*key, token);
                    let stale = self.stale_copy(errand, stale).await;
                    return Win::Lease { token, lease_ms, stale };
                }
                Ok(Grant::Busy { holder, token, stale, .. }) => {
                    self.note(Event::LeaseBusy);
                    if let Some(copy) = self.stale_copy(errand, stale).await {
                        return Win::BusyStale(copy);
                    }
                    if self.is_dead(&holder).await {
                        dead = Some(token);
                        continue;
                    }
                }
            }
            if self.now() >= give_up_at {
                return Win::GaveUp;
            }
            self.ports.clock.sleep(self.jittered(wait_ms)).await;
            wait_ms = (wait_ms * 2).min(limits::LEASE_POLL_MS_MAX);
        }
    }

    /// A copy of a stored entry. One that does not pass its checksum is removed, so that the next
    /// round finds none (I10, F39).
    async fn read_stored(&self, errand: &Errand, stored: &StoredEntry) -> Option<SharedCopy> {
        let key = &errand.query.key;
        if let Some(copy) = self.decode_stored(key, stored) {
            return Some(copy);
        }
        tracing::warn!(key = ?key, "a stored entry failed its checksum; removed");
        let removed = self.ports.store.invalidate(&crate::ports::Scope::Key(*key)).await;
        self.saw_store(&removed);
        None
    }

    async fn stale_copy(&self, errand: &Errand, stored: Option<StoredEntry>) -> Option<SharedCopy> {
        match (stored, errand.stale_use) {
            (Some(stored), StaleUse::Serve) => self.read_stored(errand, &stored).await,
            _ => None,
        }
    }

    /// Whether the holder of a lease is known to be dead: an earlier life of this node, or a peer whose
    /// port refuses or answers as somebody else. A silent one may only be slow: its lease decides.
    async fn is_dead(&self, holder: &Holder) -> bool {
        if holder.node == self.me.node {
            return holder.incarnation != self.me.incarnation;
        }
        match self.ports.peers.probe(&holder.node, self.policy.probe_timeout_ms).await {
            Ok(incarnation) => incarnation != holder.incarnation,
            Err(PeerError::Gone(_)) => true,
            Err(PeerError::TimedOut | PeerError::Refused(_)) => false,
        }
    }

    pub(crate) async fn run_leased(&self, errand: &Errand, token: Token, lease_ms: Millis) -> Landing {
        let landing = tokio::select! {
            biased;
            landing = self.run(errand, Some(token)) => landing,
            never = self.renew_for_ever(errand, token, lease_ms) => match never {},
        };
        self.holdings.remove(&errand.query.key, token);
        landing
    }

    /// Renews at a third of the lease, so that two renewals may be lost. A renewal that is refused
    /// changes nothing here: the commit will be refused too, and the waiters still get the value.
    async fn renew_for_ever(&self, errand: &Errand, token: Token, lease_ms: Millis) -> Infallible {
        loop {
            self.ports.clock.sleep(Millis(lease_ms.0 / 3)).await;
            let renewed = self.ports.store.renew(&errand.query.key, token, lease_ms).await;
            self.saw_store(&renewed);
        }
    }

    /// Classifies by the server's word, runs, and offers the result to the store.
    pub(crate) async fn run(&self, errand: &Errand, token: Option<Token>) -> Landing {
        let query = &errand.query;
        let bounds =
            RunBounds { timeout_ms: self.policy.run_timeout_ms, bytes_max: limits::PASS_THROUGH_BYTES_MAX };
        match self.server_word(query).await {
            Ok(StatementKind::Read) => {}
            Ok(_) => return self.land_without(query, token, Landing::NotARead(Reason::Write)).await,
            // A text that cannot be planned fails when it is run, with its own positions in the
            // message; access mode READ keeps that harmless.
            Err(OriginError { kind: OriginFault::Failed(_), .. }) => {
                let run = query.reading(bounds, errand.traceparent.clone());
                let landing = match self.ports.origin.run(&run).await {
                    Err(error) => Landing::Failed(error),
                    Ok(_) => Landing::NotARead(Reason::Unknown),
                };
                return self.land_without(query, token, landing).await;
            }
            Err(error) => return self.land_without(query, token, Landing::Failed(error)).await,
        }
        let read_started = self.now();
        let ended = self.ports.origin.run(&query.reading(bounds, errand.traceparent.clone())).await;
        let took_ms = self.now().since(read_started);
        let fault = ended.as_ref().err().map(|error| FaultWord::from(&error.kind));
        self.note(Event::OriginRun { cause: errand.cause, took_ms, fault });
        match ended {
            Err(error) => self.land_without(query, token, Landing::Failed(error)).await,
            Ok(result) => {
                self.costs.lock().observe(query, took_ms);
                self.settle(errand, token, result, Reading { read_started, took_ms }).await
            }
        }
    }

    /// Gives the lease back, so that the next one need not wait for it to lapse.
    async fn land_without(&self, query: &Query, token: Option<Token>, landing: Landing) -> Landing {
        if let Some(token) = token {
            let released = self.ports.store.release(&query.key, token).await;
            self.saw_store(&released);
        }
        landing
    }

    /// Decides what becomes of a result.
    async fn settle(
        &self,
        errand: &Errand,
        token: Option<Token>,
        result: ResultSet,
        reading: Reading,
    ) -> Landing {
        let query = &errand.query;
        let times = self.times(errand.hints, reading);
        let is_read = result.kind == Some(StatementKind::Read) && !result.has_updates();
        let too_large = result.weight_bytes() > self.policy.entry_bytes_max;
        let copy = Arc::new(MemoryCopy::new(result, times, token, query.database_tag));
        let skip = if !is_read {
            // The server vouched for a read and then reported a change: never again by its word.
            self.words.set(query, StatementKind::ReadWrite);
            Some(Detail::Updates)
        } else if too_large {
            self.too_large.lock().put(query.key, self.now() + Millis(limits::UNCACHEABLE_TTL_MS));
            Some(Detail::TooLarge)
        } else if times.soft_ms == Millis::ZERO {
            Some(Detail::Off)
        } else {
            None
        };
        if skip.is_some() {
            let live = live_body(&copy, errand.form);
            let landing = Landing::Ran { copy, live, kept: Kept::Skipped, detail: skip };
            return self.land_without(query, token, landing).await;
        }
        let (kept, detail) = match token {
            None => (Kept::Skipped, Some(Detail::Degraded)),
            Some(token) => self.commit(query, token, &copy, times).await,
        };
        self.note(Event::Commit(kept));
        let live = live_body(&copy, errand.form);
        Landing::Ran { copy, live, kept, detail }
    }

    async fn commit(
        &self,
        query: &Query,
        token: Token,
        copy: &MemoryCopy,
        times: CopyTimes,
    ) -> (Kept, Option<Detail>) {
        let entry = Entry {
            physical: times.physical_ms,
            soft: times.soft_ms,
            cost: times.cost_ms,
            token,
            database: query.database_tag,
            stored_by: self.me.node.clone(),
            body: copy.result.to_bytes().into(),
        };
        let Ok(bytes) = entry.encode(&self.checksum_key, &query.key) else {
            let _ = self.ports.store.release(&query.key, token).await;
            return (Kept::Skipped, Some(Detail::TooLarge));
        };
        // Age counts from the start of the read, so what the run took is already spent (I4).
        let left_ms = times.physical_ms.saturating_sub(self.now().since(times.read_started));
        if left_ms == Millis::ZERO {
            let _ = self.land_without(query, Some(token), Landing::NotARead(Reason::Unknown)).await;
            return (Kept::Skipped, None);
        }
        let answer = self.ports.store.commit(&query.key, token, bytes, left_ms).await;
        self.saw_store(&answer);
        match answer {
            Ok(Commit::Stored) => (Kept::Stored, None),
            Ok(Commit::Fenced) => (Kept::Fenced, Some(Detail::Fenced)),
            Err(_) => (Kept::Skipped, Some(Detail::Degraded)),
        }
    }

    /// Keeps what landed in memory, rendered, before anybody is told.
    pub(crate) fn keep(&self, errand: &Errand, landing: &Landing) {
        let now = self.now();
        let (copy, bound_ms) = match landing {
            Landing::Found(copy) | Landing::Stale(copy) | Landing::Ran { copy, kept: Kept::Stored, .. } => {
                (copy, Millis(u64::MAX))
            }
            // Nothing fences this copy, so it lives only briefly (F7).
            Landing::Ran { copy, detail: Some(Detail::Degraded), .. } => {
                (copy, Millis(limits::DEGRADED_TTL_MS))
            }
            Landing::Ran { .. } | Landing::NotARead(_) | Landing::Failed(_) => return,
        };
        if copy.rendering(errand.form).is_err() {
            return;
        }
        let life_ms = copy.dead_at.since(now).min(bound_ms);
        self.ports.memory.put(errand.query.key, Arc::clone(copy), life_ms);
    }

    fn times(&self, hints: Hints, reading: Reading) -> CopyTimes {
        let ttl_ms = hints.ttl_ms.unwrap_or(self.policy.ttl_ms);
        let soft_ms = jittered_ttl(ttl_ms, self.policy.ttl_jitter, self.unit());
        CopyTimes {
            read_started: reading.read_started,
            soft_ms,
            physical_ms: scaled(soft_ms, 1.0 + self.policy.grace),
            cost_ms: reading.took_ms,
        }
    }

    pub(crate) fn lease_ask(&self, errand: &Errand, lease_ms: Millis) -> LeaseAsk {
        LeaseAsk {
            nonce: self.nonce(),
            holder: self.me.clone(),
            database: errand.query.database_tag,
            lease_ms,
            age_max_ms: errand.age_max_ms,
        }
    }

    pub(crate) fn lease_ms(&self, query: &Query) -> Millis {
        self.costs.lock().lease_ms(query)
    }

    fn jittered(&self, wait_ms: u64) -> Millis {
        scaled(Millis(wait_ms), 0.5 + self.unit())
    }
}

/// One body for all whom this run answers: its bookmark covers what they read.
fn live_body(copy: &MemoryCopy, form: Form) -> Option<(Form, Bytes)> {
    let body = copy.rendering(form).ok()?;
    Some((form, with_bookmark(body, copy.result.bookmark.as_deref())))
}

/// Whether a stale value in the store ends the competition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StaleUse {
    /// Somebody waits: serve it.
    Serve,
    /// It is what is being refreshed.
    Ignore,
}

/// When a run began and how long it took.
#[derive(Debug, Clone, Copy)]
struct Reading {
    read_started: MonoTime,
    took_ms: Millis,
}

/// `span × factor`, rounded down; factors are finite and not negative.
pub(crate) fn scaled(span: Millis, factor: f64) -> Millis {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "spans are far below 2^53 ms, and the cast saturates"
    )]
    Millis((span.0 as f64 * factor) as u64)
}

/// TTL × (1 ± jitter), `unit` in [0, 1): entries loaded together do not expire together (THEORY:
/// ±10 % brings a peak of 107 × the even refresh rate down to 6 ×).
pub(crate) fn jittered_ttl(ttl_ms: Millis, jitter: f64, unit: f64) -> Millis {
    scaled(ttl_ms, 1.0 + jitter * (2.0 * unit - 1.0))
}
