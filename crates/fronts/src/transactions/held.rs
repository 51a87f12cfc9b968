//! One transaction that a node holds open. It reaches Neo4j with the first statement that the cache cannot answer. From
//! then on everything in it runs on its one relay, which no other transaction uses.
//!
//! After an error the transaction is over: the caller drops it, or rolls it back. COMMIT is sent once, and its lost
//! answer is never asked for again (I6).
//!
//! COMMIT of a transaction that has written ends the entries of its database before it is answered. So does a statement
//! of an implicit transaction, which may commit by itself (`CALL { … } IN TRANSACTIONS`).

use std::sync::Arc;
use std::time::Duration;

use hopcache_bolt::server::Kind;
use hopcache_bolt::{RunError, RunFault, WholeResult, request_bytes};
use hopcache_core::bookmark::Bookmark;
use hopcache_core::limits::PASS_THROUGH_BYTES_MAX;
use hopcache_core::routing_table::MemberFault;
use hopcache_core::tags::{TagId, Touched};
use hopcache_core::time::Millis;
use hopcache_engine::event::{Cause, FaultWord};
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{AccessMode, OriginError, OriginFault, Parts, WriteOf};
use hopcache_engine::trace::{Step, Tracer as _};
use hopcache_engine::{Effects, MadeTokens, PendingWrite, Writes};
use hopcache_neo4j::fault;
use hopcache_neo4j::marker::Marker;
use hopcache_neo4j::relays::{LentRelay, Relays};
use hopcache_neo4j::updates::{TransactionWrites, WriteWords, may_have_written};
use hopcache_ops::traces::{Traces, end_step};
use hopcache_packstream::Value;
use tokio::time::{Instant, timeout};

use super::lazy_begin::LazyBegin;

/// Plain data: what holds for every statement of a transaction.
#[derive(Clone)]
pub(crate) struct Terms {
    /// The client that began it.
    pub(crate) login: Arc<Identity>,
    /// The identity that its statements run as.
    pub(crate) acting: Arc<Identity>,
    /// Another user to act as.
    pub(crate) impersonated: Option<String>,
    pub(crate) database: Arc<str>,
    pub(crate) mode: AccessMode,
    /// W3C trace context of the request that uses it now.
    pub(crate) traceparent: Option<String>,
}

/// Plain data: the way of a transaction to Neo4j.
#[derive(Clone)]
pub(crate) struct ToNeo4j {
    pub(crate) relays: Arc<Relays>,
    /// Ends the entries of databases that are written.
    pub(crate) writes: Arc<Writes>,
}

/// An open transaction.
pub(crate) struct HeldTransaction {
    terms: Terms,
    begin: LazyBegin,
    /// `None` for the sample graph, which has no transactions.
    to_neo4j: Option<ToNeo4j>,
    /// Present from BEGIN on.
    relay: Option<LentRelay>,
    writes: TransactionWrites,
    /// Labels, types and keys that it may have made at Neo4j, which stay whatever becomes of it.
    tokens: Option<MadeTokens>,
}

impl HeldTransaction {
    /// A transaction that Neo4j does not know of yet.
    pub(crate) fn new(terms: Terms, begin: LazyBegin, to_neo4j: Option<ToNeo4j>) -> Self {
        let mark = to_neo4j.as_ref().and_then(|to| to.writes.position_of(&terms.database));
        Self { terms, begin, to_neo4j, relay: None, writes: TransactionWrites::begun_at(mark), tokens: None }
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// What the transaction does from now on belongs to the trace of this request.
    pub(crate) fn continue_trace(&mut self, traceparent: Option<String>) {
        self.terms.traceparent = traceparent;
    }

    /// Whether there is a Neo4j that has transactions.
    pub(crate) fn has_neo4j(&self) -> bool {
        self.to_neo4j.is_some()
    }

    /// Whether Neo4j may hold a change of this transaction, which COMMIT would show.
    pub(crate) fn has_written(&self) -> bool {
        self.writes.has_written()
    }

    /// What is known of a transaction that has not begun at Neo4j.
    pub(crate) fn lazy(&mut self) -> Option<&mut LazyBegin> {
        self.relay.is_none().then_some(&mut self.begin)
    }

    /// Begins at Neo4j without a statement.
    pub(crate) async fn begin_now(&mut self, within: Duration) -> Result<(), OriginError> {
        let relay = self.queue_begin().await?;
        let begun = in_time(within, async { relay.answer().await.map(drop).map_err(RunError::from) }).await;
        match begun {
            Ok(()) => Ok(()),
            Err(error) => Err(self.as_told(error).await),
        }
    }

    /// Runs a statement to its end. The first one takes BEGIN along.
    pub(crate) async fn run(
        &mut self,
        statement: &str,
        params: &[u8],
        within: Duration,
    ) -> Result<WholeResult, OriginError> {
        let begins = self.relay.is_none();
        let Some(ToNeo4j { relays, .. }) = self.to_neo4j.clone() else { return Err(no_relays()) };
        let words = WriteWords::of(statement, params);
        self.may_go_on(words.may_write)?;
        let within = self.look_ahead(&words, within).await?;
        if begins {
            // The look ahead may have taken the rest of the client's time.
            self.begin.check_time()?;
            self.queue_begin().await?;
        }
        self.writes.sent(&words);
        let write = if (self.begin.is_implicit() || words.calls_procedure()) && words.may_write {
            // It commits by itself, without a marker.
            let tokens = words.effects.tokens().filter(|_| relays.marker().is_none());
            let may = (words.effects.touched(), tokens, words.parts.clone());
            let write = self.begin_write(within, may);
            if self.begin.is_implicit() { write } else { write.map(PendingWrite::within_a_transaction) }
        } else {
            None
        };
        self.may_make_tokens(within, &words);
        let Some(relay) = &mut self.relay else { return Err(no_relays()) };
        relay.queue(&request_bytes::run(statement, params, &Value::Map(Vec::new())));
        relay.queue(&request_bytes::pull_all());
        let place = relays.results().place();
        let exchange = in_time(within, async {
            if begins {
                relay.answer().await?;
            }
            relay.result(PASS_THROUGH_BYTES_MAX, &place).await
        });
        match exchange.await {
            Ok(finished) => {
                let touched = self.note_end(&words, &finished);
                match (write, touched) {
                    (Some(write), Some(touched)) => write.narrowed(touched).committed(None).await,
                    (Some(write), None) => write.changed_nothing(),
                    (None, _) => {}
                }
                Ok(WholeResult { records: place.keep(finished.records), ..finished })
            }
            Err(mut error) => {
                write_failed(write, &error).await;
                if let Some(tokens) = self.tokens.take() {
                    tokens.rolled_back().await;
                }
                error.records = place.keep(error.records);
                Err(self.as_told(error).await)
            }
        }
    }

    /// Commits, and returns the bookmark. A transaction that Neo4j does not know of has only read: its bookmark covers
    /// what the client asked for, and what the cache has shown.
    ///
    /// If the transaction has written, no node in touch serves an entry from before the commit when this returns.
    pub(crate) async fn commit(
        mut self,
        within: Duration,
        traces: &Traces,
    ) -> Result<Option<String>, OriginError> {
        // Dropped with its relay, it is rolled back.
        self.may_go_on(self.has_written())?;
        let marker = self.to_neo4j.as_ref().and_then(|to_neo4j| to_neo4j.relays.marker());
        // An implicit transaction has committed by itself, without a marker.
        let is_counted = marker.is_none() || !self.begin.is_implicit();
        let marker = marker.filter(|_| is_counted && Marker::is_for_commit(&self.writes)).cloned();
        let tokens = self.writes.tokens.clone().filter(|_| is_counted);
        let may = (self.writes.touched.clone(), tokens, self.writes.parts.clone());
        let write = if self.has_written() { self.begin_write(within, may) } else { None };
        let (Some(relay), Some(ToNeo4j { relays, .. })) = (&mut self.relay, &self.to_neo4j) else {
            self.begin.check_time()?;
            return Ok(self.begin.reads.asked().and_then(Bookmark::encode));
        };
        let begun = Instant::now();
        let cause = if write.is_some() { Cause::Write } else { Cause::Bypass };
        let step = self.terms.traceparent.as_deref().and_then(|parent| traces.begin(parent, Step::Commit));
        if let Some(marker) = &marker {
            marker.requests().iter().for_each(|request| relay.queue(request));
        }
        relay.queue(&request_bytes::bare(Kind::Commit));
        let committing = async {
            let mut marked = None;
            if marker.is_some() {
                relay.answer().await?;
                marked = Some(Marker::done(&relay.answer().await?));
            }
            Ok((relay.answer().await?, marked))
        };
        let committed = in_time(within, committing).await;
        end_step(step, cause, committed.as_ref().err().map(|error| FaultWord::from(&error.kind)));
        let (success, marked) = match committed {
            Ok(committed) => committed,
            Err(error) => {
                write_failed(write, &error).await;
                return Err(self.as_told(error).await);
            }
        };
        relay.set_clean();
        let bookmark = success.get("bookmark").and_then(Value::as_str).map(str::to_owned);
        let position = bookmark.as_deref().and_then(|returned| {
            let asked = self.begin.reads.asked().cloned().unwrap_or_default();
            relays.saw_bookmark(&self.terms.database, asked, returned, begun)
        });
        if let Some(write) = write {
            write.has_changed(self.writes.net_change).with_marker(marked).committed(position).await;
        }
        self.tokens.take().into_iter().for_each(MadeTokens::committed);
        Ok(bookmark)
    }

    /// Rolls back. When this returns Neo4j has rolled back, or the connection is closed, which makes it roll back.
    pub(crate) async fn roll_back(self) {
        if let Some(relay) = self.relay {
            relay.reset().await;
        }
        if let Some(tokens) = self.tokens {
            tokens.rolled_back().await;
        }
    }

    /// Whether it may send a statement, or COMMIT, as far as its reads go.
    fn may_go_on(&self, writes: bool) -> Result<(), OriginError> {
        self.begin.reads.may_go_on(writes).map_err(|failure| OriginFault::Failed(failure).into())
    }

    /// An error as the client gets it. A member of a cluster that does not lead the database has refused the transaction: the
    /// client may run it again, and it is over here.
    async fn as_told(&self, error: OriginError) -> OriginError {
        let (Some(relay), OriginFault::Failed(said)) = (&self.relay, &error.kind) else { return error };
        if relay.saw_failure(|| said.code.clone()).await == Some(MemberFault::NotLeader) {
            let kind = OriginFault::Transient(fault::no_leader(&self.terms.database, &said.code));
            return OriginError { kind, ..error };
        }
        error
    }

    /// Borrows a relay, and queues BEGIN.
    async fn queue_begin(&mut self) -> Result<&mut LentRelay, OriginError> {
        let Some(ToNeo4j { relays, .. }) = &self.to_neo4j else { return Err(no_relays()) };
        let version = relays.gathering_version().await;
        let database = (Some(&*self.terms.database), self.terms.impersonated.as_deref());
        let mut relay = relays.lend(&self.terms.login, version, database).await?;
        relay.queue(&self.begin.message());
        Ok(self.relay.insert(relay))
    }

    /// Before a statement that may write: what it will not change is found out. Returns the time that is left.
    ///
    /// # Errors
    /// [`OriginFault::TimedOut`] when none is left. Nothing was sent.
    async fn look_ahead(&self, words: &WriteWords, within: Duration) -> Result<Duration, OriginError> {
        let Some(ToNeo4j { writes, .. }) = self.to_neo4j.as_ref() else { return Ok(within) };
        if !words.may_write || self.terms.mode == AccessMode::Read {
            return Ok(within);
        }
        let asked = Instant::now();
        let _ = timeout(within, writes.look_ahead(&self.terms.database, &words.effects)).await;
        let left = within.saturating_sub(asked.elapsed());
        if left.is_zero() { Err(OriginFault::TimedOut.into()) } else { Ok(left) }
    }

    /// What may write goes to Neo4j now. In read mode Neo4j refuses writes.
    fn begin_write(
        &self,
        within: Duration,
        may: (Touched, Option<Arc<[TagId]>>, Parts),
    ) -> Option<PendingWrite> {
        let ToNeo4j { writes, .. } = self.to_neo4j.as_ref()?;
        Some(writes.begin(self.write_of(within, may)?))
    }

    /// A statement of an explicit transaction goes to Neo4j now, which may make labels, types or keys.
    fn may_make_tokens(&mut self, within: Duration, words: &WriteWords) {
        let is_first = self.tokens.is_none() && !self.begin.is_implicit();
        let Some(ToNeo4j { writes, .. }) = self.to_neo4j.as_ref().filter(|_| is_first) else { return };
        if words.may_make_tokens() {
            let of = self.write_of(within, (Touched::nothing(), None, Parts::None));
            self.tokens = of.and_then(|of| writes.may_make_tokens(of));
        }
    }

    /// What a write is made of. `None` in read mode.
    fn write_of(
        &self,
        within: Duration,
        (touched, tokens, parts): (Touched, Option<Arc<[TagId]>>, Parts),
    ) -> Option<WriteOf> {
        if self.terms.mode == AccessMode::Read {
            return None;
        }
        Some(WriteOf {
            database: Arc::clone(&self.terms.database),
            identity: Arc::clone(&self.terms.acting),
            impersonated: self.terms.impersonated.clone(),
            timeout_ms: Millis::from(within),
            may_name_graph: self.writes.may_name_graph,
            parts,
            changes_rights: self.writes.changes_rights,
            began: self.writes.began,
            touched,
            tokens,
        })
    }

    /// A statement has ended well. Returns what it may have written.
    fn note_end(&mut self, words: &WriteWords, finished: &WholeResult) -> Option<Touched> {
        let kind = finished.statement_type.as_deref();
        let touched = may_have_written(kind, &finished.summary, words.calls_procedure())
            .then(|| words.touched(&finished.summary))?;
        self.writes.wrote(&touched, Some(Effects::net_change(&finished.summary)));
        Some(touched)
    }
}

/// Says how a write without an answer of success has ended. The client gets its answer after that.
async fn write_failed(write: Option<PendingWrite>, error: &OriginError) {
    if let Some(write) = write {
        write.failed(error).await;
    }
}

fn no_relays() -> OriginError {
    OriginFault::Unreachable("the sample graph has no transactions".to_owned()).into()
}

/// Waits for Neo4j at most that long.
async fn in_time<T>(
    within: Duration,
    exchange: impl Future<Output = Result<T, RunError>>,
) -> Result<T, OriginError> {
    match timeout(within, exchange).await {
        Ok(ended) => ended.map_err(fault::of_transaction),
        Err(_) => Err(fault::of_transaction(RunFault::TimedOut.into())),
    }
}
