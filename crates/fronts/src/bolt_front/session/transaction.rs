//! An explicit transaction. BEGIN is lazy: it goes to Neo4j with the first statement that the cache cannot answer.
//! The cache may answer reads before that. From then on all statements of the transaction run on its one relay.
//!
//! A transaction that has reached Neo4j ends there before its client gets the answer. When the client has gone, its
//! relay is closed, and Neo4j rolls back.

use std::collections::BTreeMap;
use std::sync::Arc;

use hopcache_bolt::request_bytes;
use hopcache_bolt::server::{ExtraBytes, Kind};
use hopcache_core::bookmark::{Bookmark, Position};
use hopcache_core::limits::BOLT_RESULTS_MAX;
use hopcache_core::result::MarkerEffect;
use hopcache_core::tags::Touched;
use hopcache_cypher::checks::writing::may_write;
use hopcache_engine::event::Cause;
use hopcache_engine::outcome::{How, Reason};
use hopcache_engine::ports::{AccessMode, OriginFault, WriteBegan};
use hopcache_engine::trace::Step;
use hopcache_engine::{MadeTokens, NetChange, TransactionReads};
use hopcache_neo4j::marker::Marker;
use hopcache_neo4j::updates::{TransactionWrites, WriteWords};
use hopcache_net::body_budget::SharedRoom;
use hopcache_net::client_addr::ClientAddr;
use hopcache_ops::traces::{RelayedSpans, RequestSpan};
use hopcache_packstream::Value;
use tokio::time::Instant;

use super::relayed::end_step;
use super::statement::{CacheResponse, Statement};
use super::{OpenResult, RequestError, Session};
use crate::bolt_front::failure::BoltFailure;
use crate::bolt_front::options::{StatementOptions, for_neo4j, naming};
use crate::client_name;
use crate::credentials::Standing;
use crate::transactions::lazy_begin::{LazyBegin, set};

/// A transaction of one session.
pub(super) struct Transaction {
    options: StatementOptions,
    begin: LazyBegin,
    /// The room that BEGIN's options take. `None` when Neo4j has them.
    room: Option<SharedRoom>,
    /// Whether the transaction has begun at Neo4j.
    is_at_neo4j: bool,
    results: BTreeMap<i64, OpenResult>,
    next_qid: i64,
    /// Its database, where BEGIN has not gone to Neo4j.
    database: Option<Arc<str>>,
    writes: TransactionWrites,
    /// Labels, types and keys that it may have made at Neo4j, which stay whatever becomes of it.
    tokens: Option<MadeTokens>,
}

impl Transaction {
    /// When its first statement was sent, or some time before.
    pub(super) fn began(&self) -> WriteBegan {
        self.writes.began
    }

    pub(super) fn options(&self) -> &StatementOptions {
        &self.options
    }

    /// The number of open results.
    pub(super) fn open_results(&self) -> usize {
        self.results.len()
    }

    /// Whether the client still reads a result whose run has not ended. Its position is unknown until then: the cache could answer the
    /// next statement from an older state.
    fn has_live(&self) -> bool {
        self.results.values().any(|result| matches!(result, OpenResult::Live(_)))
    }

    /// Neo4j has the options of BEGIN now.
    fn has_begun(&mut self) {
        self.is_at_neo4j = true;
        self.begin.forget_options();
        self.room = None;
    }

    /// The cache has shown what was there at this position: all that follows must be no older.
    pub(super) fn has_read(&mut self, position: Option<Position>) {
        self.begin.reads.saw(position);
    }

    /// The cache has answered a statement in this way.
    pub(super) fn was_answered(&mut self, how: &How) {
        self.begin.reads.answered(how);
    }

    /// Whether its statements are committed by a COMMIT.
    pub(super) fn is_explicit(&self) -> bool {
        !self.begin.is_implicit()
    }

    /// The options, if a statement with these words may commit by itself.
    pub(super) fn options_if_committing(&self, words: &WriteWords) -> Option<&StatementOptions> {
        (self.begin.is_implicit() || words.calls_procedure()).then_some(&self.options)
    }

    /// The options for the cache's answer to a statement now.
    fn options_now(&self) -> StatementOptions {
        let (timeout_ms, asked) = (self.begin.left_ms(), self.begin.reads.asked().cloned());
        let freshness = self.begin.reads.freshness(self.options.freshness);
        StatementOptions { timeout_ms, asked, freshness, ..self.options.clone() }
    }

    fn take_qid(&mut self) -> i64 {
        let qid = self.next_qid;
        self.next_qid += 1;
        qid
    }
}

impl Session {
    /// BEGIN. It is refused for the same reasons as at Neo4j: credentials, an unknown database, bad options and
    /// bookmarks.
    pub(super) async fn begin(&mut self, extra: ExtraBytes, room: SharedRoom) -> Result<Value, RequestError> {
        self.check_stays()?;
        self.may_run_again = true;
        let (options, begin) = self.begin_of(&extra)?;
        drop(extra);
        let identity = self.login()?.identity.clone();
        let is_accepted = matches!(self.check(&identity).await?, Standing::Accepted(_));
        let acting = self.acting(&options)?;
        let is_eager = options.asked.is_none() || options.no_store || !is_accepted;
        // Before anything of it is sent. A home database has the name that Neo4j has told; before the first answer it is not known.
        let named = options.database.as_deref().map(Arc::from);
        let home = || self.front.shared.databases.known_home(&acting, options.impersonated.as_deref());
        let mark = named.or_else(home).and_then(|name| self.front.engine.writes().position_of(&name));
        let mut transaction = Transaction {
            options: options.clone(),
            begin,
            room: Some(room),
            is_at_neo4j: false,
            results: BTreeMap::new(),
            next_qid: 0,
            database: None,
            writes: TransactionWrites::begun_at(mark),
            tokens: None,
        };
        if is_eager && self.front.relays.is_some() {
            self.need_relay(&options).await?;
            self.queue(&transaction.begin.message())?;
            let success = self.answer().await?;
            transaction.has_begun();
            self.transaction = Some(transaction);
            return Ok(success);
        }
        let databases = Arc::clone(&self.front.shared.databases);
        let (user, name) = (options.impersonated.as_deref(), options.database.as_deref());
        let database = self.out.wait_for(databases.find(&acting, user, name)).await?;
        let database = database.map_err(|error| BoltFailure::of_fault(&error.kind))?;
        transaction.database = Some(Arc::clone(&database));
        self.transaction = Some(transaction);
        let named = self.version.at_least(5, 8).then(|| ("db".to_owned(), Value::from(&*database)));
        Ok(Value::Map(named.into_iter().collect()))
    }

    /// The options for Neo4j, which name the client.
    pub(super) fn for_neo4j(&self, extra: &Value) -> Value {
        let at = self.client.as_ref().map(ClientAddr::ip);
        let named = client_name::full(self.agent.as_deref(), at, &self.front.engine.me().node);
        naming(for_neo4j(extra, &self.hello, self.version), &named)
    }

    fn begin_of(&self, extra: &ExtraBytes) -> Result<(StatementOptions, LazyBegin), RequestError> {
        let extra = extra.decoded();
        let options = self.readable(StatementOptions::read(&extra)?);
        let sent = self.for_neo4j(&extra);
        // No transaction of the sample graph writes.
        let mode = if self.front.relays.is_some() { options.mode } else { AccessMode::Read };
        let reads = TransactionReads::new(mode, options.asked.clone());
        let begin = LazyBegin::new(&sent, options.timeout_ms, reads);
        Ok((options, begin))
    }

    /// RUN in the transaction.
    pub(super) async fn run_in_transaction(&mut self, statement: &Statement) -> Result<Value, RequestError> {
        let transaction = self.transaction_mut()?;
        if transaction.open_results() >= BOLT_RESULTS_MAX {
            let message =
                format!("Over {BOLT_RESULTS_MAX} results are open in this transaction: read or drop some.");
            return Err(BoltFailure::own("TooManyResults", message).into());
        }
        transaction.begin.check_time().map_err(|fault| BoltFailure::of_fault(&fault))?;
        let mut reason = Some(Reason::Transaction);
        let mut span = self.span_in_transaction();
        let transaction = self.transaction_mut()?;
        if !transaction.is_at_neo4j {
            let options = transaction.options_now();
            let asked = if transaction.has_live() {
                CacheResponse::ToNeo4j(reason)
            } else {
                self.ask(&options, statement, None, &mut span).await?
            };
            match asked {
                CacheResponse::Answered(mut result) => {
                    let (version, hello) = (self.version, self.hello.clone());
                    let transaction = self.transaction_mut()?;
                    result.filter(version, &transaction.options.filters, &hello);
                    transaction.has_read(result.read_to());
                    let qid = transaction.take_qid();
                    let opening = result.opening(version, Some(qid));
                    transaction.results.insert(qid, OpenResult::Cached(result));
                    return Ok(opening);
                }
                CacheResponse::Live(mut result) => {
                    let version = self.version;
                    let transaction = self.transaction_mut()?;
                    transaction.has_read(None);
                    let qid = transaction.take_qid();
                    let opening = result.open(&transaction.options.filters, version, Some(qid));
                    transaction.results.insert(qid, OpenResult::Live(result));
                    return Ok(opening);
                }
                CacheResponse::ToNeo4j(why) => reason = why,
            }
        }
        self.check_reads(statement).await?;
        let words = self.read_ahead(None, statement).await?;
        let transaction = self.transaction_mut()?;
        if !transaction.is_at_neo4j {
            // The look ahead may have taken the rest of its time.
            transaction.begin.check_time().map_err(|fault| BoltFailure::of_fault(&fault))?;
            self.queue_begin().await?;
        }
        let (mut success, result) = self.relay_run((statement, words), (reason, span)).await?;
        let transaction = self.transaction_mut()?;
        let qid = transaction.take_qid();
        transaction.results.insert(qid, OpenResult::Relayed(Box::new(result)));
        set(&mut success, "qid", Value::Int(qid));
        Ok(success)
    }

    /// Whether a statement may go to Neo4j, as far as the reads of the transaction go.
    async fn check_reads(&mut self, statement: &Statement) -> Result<(), RequestError> {
        if !self.transaction_mut()?.begin.reads.has_read_old() {
            return Ok(());
        }
        let writes = self.read_apart(statement.text.len(), || may_write(&statement.text)).await?;
        self.may_go_on(writes)
    }

    fn may_go_on(&mut self, writes: bool) -> Result<(), RequestError> {
        let may = self.transaction_mut()?.begin.reads.may_go_on(writes);
        may.map_err(|failure| BoltFailure::of_fault(&OriginFault::Failed(failure)).into())
    }

    /// Begins the span of a RUN in the transaction, if the transaction is traced: its context came with BEGIN.
    fn span_in_transaction(&self) -> Option<RequestSpan> {
        self.span_of("RUN", &self.transaction.as_ref()?.options, std::time::Instant::now())
    }

    /// Queues BEGIN before the first statement, so that both go in one packet.
    async fn queue_begin(&mut self) -> Result<(), RequestError> {
        let options = self.transaction_mut()?.options.clone();
        self.need_relay(&options).await?;
        let message = self.transaction_mut()?.begin.message();
        self.queue(&message)
    }

    /// Takes Neo4j's answer to a BEGIN that was sent together with the statement behind it.
    pub(super) async fn await_begin(&mut self) -> Result<(), RequestError> {
        if self.transaction.as_ref().is_some_and(|transaction| !transaction.is_at_neo4j) {
            self.answer().await?;
            self.transaction_mut()?.has_begun();
        }
        Ok(())
    }

    /// PULL or DISCARD in the transaction: finds the result by its number, or the last one.
    pub(super) fn result_in_transaction(
        &mut self,
        qid: Option<i64>,
    ) -> Result<(i64, OpenResult), RequestError> {
        let transaction = self.transaction_mut()?;
        let qid = qid.unwrap_or(transaction.next_qid - 1);
        let result = transaction.results.remove(&qid);
        let result = result.ok_or_else(|| {
            BoltFailure::invalid(format!("There is no open result {qid} in this transaction."))
        })?;
        Ok((qid, result))
    }

    /// Keeps a result that is not at its end yet.
    pub(super) fn put_back(&mut self, qid: i64, result: OpenResult) {
        if let Some(transaction) = &mut self.transaction {
            transaction.results.insert(qid, result);
        }
    }

    /// The answer to a COMMIT or ROLLBACK of a transaction that has not reached Neo4j. COMMIT is refused after the
    /// transaction's time, as by Neo4j.
    async fn end_unbegun(&mut self, kind: Kind) -> Result<Value, RequestError> {
        let transaction = self.transaction.take().filter(|_| kind == Kind::Commit);
        let mut bookmark = None;
        if let Some(transaction) = transaction {
            transaction.begin.check_time().map_err(|fault| BoltFailure::of_fault(&fault))?;
            bookmark = transaction.begin.reads.asked().and_then(Bookmark::encode);
            if bookmark.is_none()
                && let Some(database) = transaction.database
            {
                let begin = transaction.begin.message();
                bookmark = Box::pin(self.newest_bookmark(database, (begin, transaction.options))).await?;
            }
        }
        let pair = bookmark.map(|text| ("bookmark".to_owned(), Value::String(text)));
        Ok(Value::Map(pair.into_iter().collect()))
    }

    /// The newest bookmark of the database of a transaction in which nothing ran. While this node knows none, Neo4j says it: it begins
    /// and commits such a transaction too. `None` if it does not.
    async fn newest_bookmark(
        &mut self,
        database: Arc<str>,
        (begin, options): (Vec<u8>, StatementOptions),
    ) -> Result<Option<String>, RequestError> {
        if let Some(newest) = self.front.engine.writes().newest_of(&database) {
            return Ok(Bookmark::NONE.with(Some(newest)).encode());
        }
        if let Err(error) = self.need_relay(&options).await {
            return if matches!(error, RequestError::Cut(_)) { Err(error) } else { Ok(None) };
        }
        self.queue(&begin)?;
        self.queue(&request_bytes::bare(Kind::Commit))?;
        let begun = Instant::now();
        let committed = match self.answer().await {
            Ok(_) => self.answer().await,
            refused => refused,
        };
        let Ok(success) = committed else {
            // What is open on it ends there.
            self.relay = None;
            return Ok(None);
        };
        self.release();
        self.note_bookmark(&success, Some(&database), (Bookmark::NONE, begun));
        Ok(success.get("bookmark").and_then(Value::as_str).map(str::to_owned))
    }

    /// COMMIT or ROLLBACK. If the transaction has begun at Neo4j, Neo4j's answer is passed on. A lost answer ends the
    /// connection: the driver then knows that the commit may or may not have happened, and no part of Hopcache tries
    /// it again.
    pub(super) async fn end_transaction(&mut self, kind: Kind) -> Result<Value, RequestError> {
        if !self.transaction_mut()?.is_at_neo4j {
            return self.end_unbegun(kind).await;
        }
        let transaction = self.transaction_mut()?;
        let mut writes = transaction.writes.clone();
        for result in transaction.results.values() {
            // Of a result that was not read to its end nothing is known but its statement.
            if let OpenResult::Relayed(relayed) = result
                && !relayed.may_touch().is_nothing()
            {
                writes.wrote(&relayed.may_touch(), None);
            }
        }
        let asked = transaction.begin.reads.asked().cloned();
        let options = StatementOptions { asked, ..transaction.options.clone() };
        let is_implicit = transaction.begin.is_implicit();
        if is_implicit && self.marker().is_some() {
            // It has committed by itself, without a marker.
            writes.tokens = None;
        }
        if kind == Kind::Commit {
            // The client resets the connection, and Neo4j rolls back.
            self.may_go_on(writes.has_written())?;
        }
        let write = match kind {
            Kind::Commit if writes.has_written() => self.begin_write(&options, writes.clone()).await?,
            _ => None,
        };
        let begun = Instant::now();
        let mut spans = self.spans_of_commit(kind, &options, write.is_some());
        let is_marked = write.is_some() && !is_implicit && Marker::is_for_commit(&writes);
        let ended = match is_marked {
            true => self.commit_marked().await,
            false => self.end_now(kind).await.map(|success| (success, None)),
        };
        end_step(&mut spans, ended.as_ref().err());
        let (success, marked) = match ended {
            Ok(ended) => ended,
            Err(error) => return Err(self.write_failed(write, error).await),
        };
        let tokens = self.transaction.take().and_then(|transaction| transaction.tokens);
        let sent = (options.asked.unwrap_or_default(), begun);
        let position = self.note_bookmark(&success, options.database.as_deref(), sent);
        if let Some(write) = write {
            let write = write.has_changed(writes.net_change).with_marker(marked);
            self.out.wait_for(write.committed(position)).await?;
        }
        match tokens {
            Some(tokens) if kind == Kind::Rollback => self.out.wait_for(tokens.rolled_back()).await?,
            Some(tokens) => tokens.committed(),
            None => {}
        }
        self.release();
        Ok(success)
    }

    /// The spans of a COMMIT that goes to Neo4j, if the transaction is traced.
    fn spans_of_commit(&self, kind: Kind, options: &StatementOptions, writes: bool) -> Option<RelayedSpans> {
        let name = (kind == Kind::Commit).then_some("COMMIT")?;
        let mut request = self.span_of(name, options, std::time::Instant::now())?;
        request.note_how(&How::bypass(Reason::Transaction));
        let cause = if writes { Cause::Write } else { Cause::Bypass };
        Some(RelayedSpans::begin(&self.front.state.traces, request, (Step::Commit, cause)))
    }

    /// COMMIT or ROLLBACK, and Neo4j's answer.
    pub(super) async fn end_now(&mut self, kind: Kind) -> Result<Value, RequestError> {
        self.queue(&request_bytes::bare(kind))?;
        self.answer().await
    }

    /// COMMIT of a transaction that has written, with the marker before it, if writes are marked. Returns Neo4j's answer, and what
    /// it did to the marker.
    pub(super) async fn commit_marked(&mut self) -> Result<(Value, Option<MarkerEffect>), RequestError> {
        let requests = self.marker().map(Marker::requests);
        for request in requests.iter().flatten() {
            self.queue(request)?;
        }
        self.queue(&request_bytes::bare(Kind::Commit))?;
        let mut marked = None;
        if requests.is_some() {
            self.answer().await?;
            marked = Some(Marker::done(&self.answer().await?));
        }
        Ok((self.answer().await?, marked))
    }

    /// A statement goes to Neo4j now, in the transaction if there is one.
    pub(super) fn transaction_has_words(&mut self, words: &WriteWords) {
        if let Some(transaction) = &mut self.transaction {
            transaction.writes.sent(words);
        }
    }

    /// Whether a COMMIT commits the statements that come now.
    pub(super) fn is_in_explicit_transaction(&self) -> bool {
        self.transaction.as_ref().is_some_and(Transaction::is_explicit)
    }

    /// A statement of an explicit transaction goes to Neo4j now, which may make labels, types or keys.
    pub(super) async fn transaction_may_make_tokens(&mut self, words: &WriteWords) {
        let is_first = |transaction: &&Transaction| transaction.tokens.is_none() && transaction.is_explicit();
        let Some(transaction) = self.transaction.as_ref().filter(is_first) else { return };
        if !words.may_make_tokens() {
            return;
        }
        let options = transaction.options.clone();
        // Without a name of its database, the COMMIT fails for the same reason.
        let of = self.write_of(&options, TransactionWrites::tokens_of_one(words)).await.ok().flatten();
        let tokens = of.and_then(|of| self.front.engine.writes().may_make_tokens(of));
        if let Some(transaction) = &mut self.transaction {
            transaction.tokens = tokens;
        }
    }

    /// A statement of the transaction has failed at Neo4j, and the transaction with it.
    pub(super) async fn tell_tokens(&mut self) -> Result<(), RequestError> {
        let tokens = self.transaction.as_mut().and_then(|transaction| transaction.tokens.take());
        if let Some(tokens) = tokens {
            self.out.wait_for(tokens.rolled_back()).await?;
        }
        Ok(())
    }

    /// A statement of the transaction has written this: its COMMIT ends entries.
    pub(super) fn transaction_has_written(&mut self, touched: &Touched, net_change: NetChange) {
        if let Some(transaction) = &mut self.transaction {
            transaction.writes.wrote(touched, Some(net_change));
        }
    }

    fn transaction_mut(&mut self) -> Result<&mut Transaction, RequestError> {
        self.transaction.as_mut().ok_or_else(|| BoltFailure::invalid("There is no open transaction.").into())
    }
}
