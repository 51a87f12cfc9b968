//! A statement that Neo4j answers: the client's messages go to Neo4j on a relay, and Neo4j's messages go back as they
//! are. No record is decoded. A slow client slows Neo4j down: nothing is read before the last bytes are sent.

use std::time::Duration;

use hopcache_bolt::server::reply::{self, ReplyKind};
use hopcache_bolt::server::{Kind, Take, frame};
use hopcache_bolt::{Dialect, RelayCut, metadata};
use hopcache_core::bookmark::{Bookmark, Position};
use hopcache_core::tags::Touched;
use hopcache_core::time::Millis;
use hopcache_engine::event::{Cause, Event, FaultWord};
use hopcache_engine::outcome::{How, Reason};
use hopcache_engine::ports::{AccessMode, Observer, WriteBegan, WriteOf};
use hopcache_engine::trace::Step;
use hopcache_engine::{Effects, PendingWrite};
use hopcache_neo4j::marker::Marker;
use hopcache_neo4j::relays::{LentRelay, Relays};
use hopcache_neo4j::updates::{TransactionWrites, WriteWords, may_have_written};
use hopcache_ops::labels::{self, Front};
use hopcache_ops::request_log::PassedLine;
use hopcache_ops::traces::{RelayedSpans, RequestSpan};
use hopcache_packstream::Value;
use tokio::time::Instant;

use super::statement::Statement;
use super::{RequestError, Session};
use crate::bolt_front::failure::{BoltFailure, code_of};
use crate::bolt_front::options::StatementOptions;
use crate::front::answer::{self, cache_status};
use crate::transactions::lazy_begin::set;

/// An open result at Neo4j.
pub(super) struct RelayedResult {
    /// Its number at Neo4j.
    pub(super) qid: Option<i64>,
    /// The client's next PULL, if Neo4j has got it together with RUN.
    ahead: Option<Take>,
    reason: Option<Reason>,
    begun: Instant,
    /// The client's bookmarks.
    sent: Bookmark,
    /// The write of a statement that may commit by itself: an auto-commit one, or one of an implicit transaction.
    write: Option<PendingWrite>,
    /// What the text of the statement says about its writes.
    words: WriteWords,
    /// Whether this node has begun a transaction for it, and commits it: writes are marked.
    is_wrapped: bool,
    /// Present if the statement is traced.
    spans: Option<RelayedSpans>,
    /// Of the log, if it has lines of requests.
    line: Option<PassedLine>,
}

impl RelayedResult {
    /// Neo4j has answered: with its last record, or with a failure.
    fn end(&mut self, error: Option<&RequestError>) {
        end_step(&mut self.spans, error);
        if let Some(line) = self.line.take() {
            line.write(error.is_none(), self.begun.elapsed());
        }
    }

    /// What its statement may touch.
    pub(super) fn may_touch(&self) -> Touched {
        self.words.effects.touched()
    }
}

impl Session {
    /// A relay of the principal, if there is none yet. A transaction and an auto-commit statement never share one.
    pub(super) async fn need_relay(
        &mut self,
        options: &StatementOptions,
    ) -> Result<&mut LentRelay, RequestError> {
        if self.relay.is_none() {
            // Refuses `imp_user` if all statements run as one user.
            self.acting(options)?;
            let identity = self.login()?.identity.clone();
            let dialect = Dialect { version: self.version, has_utc_patch: self.has_utc_patch };
            let Some(relays) = self.front.relays.clone() else {
                return Err(BoltFailure::own("NoTransactions", NO_TRANSACTIONS).into());
            };
            let database = (options.database.as_deref(), options.impersonated.as_deref());
            let lent = self.out.wait_for(relays.lend(&identity, dialect, database)).await?;
            self.relay = Some(lent.map_err(|fault| self.relay_refused(&identity, &fault))?);
        }
        self.relay.as_mut().ok_or_else(|| RequestError::cut("no relay"))
    }

    /// RUN of an auto-commit statement, or in a transaction that has begun at Neo4j. Returns RUN's SUCCESS as Neo4j
    /// wrote it. `why` is the reason and, if it is traced, the span of the request.
    pub(super) async fn relay_run(
        &mut self,
        (statement, words): (&Statement, WriteWords),
        (reason, span): (Option<Reason>, Option<RequestSpan>),
    ) -> Result<(Value, RelayedResult), RequestError> {
        let begun = Instant::now();
        let options = StatementOptions::read(&statement.extra.decoded()).ok();
        let may_commit = match &self.transaction {
            Some(transaction) => transaction.options_if_committing(&words).cloned(),
            None => options.clone(),
        };
        self.transaction_has_words(&words);
        self.note_parts(&words);
        let is_wrapped = self.is_wrapped(&words);
        let write = match &may_commit {
            Some(options) if words.may_write => {
                let mut writes = TransactionWrites::of_one(&words);
                if let Some(transaction) = &self.transaction {
                    writes.began = transaction.began();
                }
                if !is_wrapped && self.marker().is_some() && !words.effects.touched().is_nothing() {
                    // It commits by itself, without a marker.
                    writes.tokens = None;
                }
                let write = self.begin_write(options, writes).await?;
                if self.is_in_explicit_transaction() {
                    write.map(PendingWrite::within_a_transaction)
                } else {
                    write
                }
            }
            _ => None,
        };
        self.transaction_may_make_tokens(&words).await;
        let database = may_commit.as_ref().and_then(|options| options.database.as_deref());
        let line = self.line_of_run(&statement.text, (database, reason), span.as_ref());
        let spans = span.map(|span| self.spans_of_run(span, reason, (&statement.text, database)));
        self.queue_run(statement, is_wrapped)?;
        let ahead = self.queue_pull_behind(statement)?;
        self.await_begin().await?;
        let mut success = self.answer_to_run(is_wrapped).await;
        if let (Some(options), Err(RequestError::Neo4j(refused))) = (&options, &success)
            && self.may_run_elsewhere(&words, refused)
        {
            let refused = refused.clone();
            success = self.run_elsewhere((statement, options, is_wrapped), refused).await;
        }
        self.count(reason, success.is_ok());
        if let Some(reason) = reason {
            self.front.state.hot.saw_bypass(&statement.text, reason);
        }
        let sent = options.and_then(|options| options.asked).unwrap_or_default();
        let mut result =
            RelayedResult { qid: None, ahead, reason, begun, sent, write, words, is_wrapped, spans, line };
        match success {
            Ok(success) => {
                result.qid = success.get("qid").and_then(Value::as_int);
                Ok((success, result))
            }
            Err(error) => {
                result.end(Some(&error));
                Err(self.write_failed(result.write, error).await)
            }
        }
    }

    /// The line of a statement in the log. A statement without a reason has failed in the cache, and has its line already.
    fn line_of_run(
        &self,
        text: &str,
        (database, reason): (Option<&str>, Option<Reason>),
        span: Option<&RequestSpan>,
    ) -> Option<PassedLine> {
        let traceparent = span.map(RequestSpan::traceparent);
        self.front.state.request_log.now().passing(text, (database, reason?), traceparent.as_deref())
    }

    fn spans_of_run(
        &self,
        mut request: RequestSpan,
        reason: Option<Reason>,
        (text, database): (&str, Option<&str>),
    ) -> RelayedSpans {
        // Without a reason, the span has the cache's answer already, which Neo4j's replaces.
        if let Some(reason) = reason {
            request.note_how(&How::bypass(reason));
            request.note_statement(text);
            database.into_iter().for_each(|name| request.note_database(name));
        }
        RelayedSpans::begin(&self.front.state.traces, request, (Step::Run, cause(reason)))
    }

    /// Neo4j's answer to RUN of a statement that is wrapped, as it answers one that commits by itself: with the database that BEGIN
    /// has named, and without a number. It is the one open result, so PULL needs none.
    async fn answers_of_wrapped(&mut self) -> Result<Value, RequestError> {
        let begun = self.answer().await?;
        let mut success = self.answer().await?;
        if let Value::Map(pairs) = &mut success {
            pairs.retain(|(name, _)| name != "qid");
        }
        if let Some(database) = begun.get("db") {
            set(&mut success, "db", database.clone());
        }
        Ok(success)
    }

    pub(super) async fn answer_to_run(&mut self, is_wrapped: bool) -> Result<Value, RequestError> {
        if is_wrapped { self.answers_of_wrapped().await } else { self.answer().await }
    }

    /// Whether an auto-commit statement runs in a transaction that this node begins, and commits with the marker.
    fn is_wrapped(&self, words: &WriteWords) -> bool {
        self.transaction.is_none() && self.marker().is_some() && Marker::is_for(words)
    }

    /// What each write counts up, if writes are marked.
    pub(super) fn marker(&self) -> Option<&Marker> {
        self.front.relays.as_deref().and_then(Relays::marker)
    }

    /// A statement, or a COMMIT, that may write goes to Neo4j now.
    pub(super) async fn begin_write(
        &mut self,
        options: &StatementOptions,
        writes: TransactionWrites,
    ) -> Result<Option<PendingWrite>, RequestError> {
        let of = self.write_of(options, writes).await?;
        Ok(of.map(|of| self.front.engine.writes().begin(of)))
    }

    /// What a write is made of. `None` in read mode, in which Neo4j refuses writes.
    pub(super) async fn write_of(
        &mut self,
        options: &StatementOptions,
        writes: TransactionWrites,
    ) -> Result<Option<WriteOf>, RequestError> {
        if options.mode == AccessMode::Read {
            return Ok(None);
        }
        let identity = self.acting(options)?;
        let database = match &options.database {
            Some(name) => name.as_str().into(),
            // Whose home Neo4j does not say. Only the password can be changed.
            None if self.login()?.must_change_password => "system".into(),
            None => self.home(options).await?,
        };
        // The name may be another database's since BEGIN: then nobody knows its mark of that time.
        let now = self.front.engine.writes().position_of(&database);
        let began = match writes.began {
            WriteBegan::At(mark) => {
                WriteBegan::At(mark.filter(|mark| now.is_some_and(|now| now.database() == mark.database())))
            }
            WriteBegan::Now => WriteBegan::Now,
        };
        let run_timeout_ms = self.front.run_timeout_ms;
        let timeout_ms = options.timeout_ms.map_or(run_timeout_ms, Millis).min(run_timeout_ms);
        Ok(Some(WriteOf {
            database,
            identity,
            impersonated: options.impersonated.clone(),
            timeout_ms,
            may_name_graph: writes.may_name_graph,
            parts: writes.parts,
            changes_rights: writes.changes_rights,
            began,
            touched: writes.touched,
            tokens: writes.tokens,
        }))
    }

    /// What a write that failed has changed is told before its client gets the failure. If the connection to Neo4j broke, the write may be
    /// committed. It is told before the client's connection ends, so that a client that looks for it does not meet an entry from before it.
    pub(super) async fn write_failed(
        &mut self,
        write: Option<PendingWrite>,
        error: RequestError,
    ) -> RequestError {
        let told = match (write, &error) {
            (Some(write), RequestError::Neo4j(message)) => {
                self.out.wait_for(write.refused(&code_of(message))).await.map_err(RequestError::from)
            }
            (Some(write), _) => self.out.wait_for(write.in_doubt()).await.map_err(RequestError::from),
            (None, RequestError::Neo4j(_)) => self.tell_tokens().await,
            (None, _) => return error,
        };
        told.err().unwrap_or(error)
    }

    /// PULL or DISCARD: records go straight to the client. Returns the last SUCCESS, and whether more is left.
    pub(super) async fn relay_records(
        &mut self,
        kind: Kind,
        records_max: Option<u64>,
        result: &mut RelayedResult,
    ) -> Result<(Value, bool), RequestError> {
        match result.ahead.take() {
            None => self.queue_take(kind, records_max, result.qid)?,
            Some(sent) if kind == Kind::Pull && sent.records_max == records_max => {}
            Some(_) => return Err(RequestError::cut("another PULL was sent ahead")),
        }
        let mut success = match self.answer_showing(result.write.as_ref()).await {
            Ok(success) => success,
            Err(error) => {
                result.end(Some(&error));
                return Err(self.write_failed(result.write.take(), error).await);
            }
        };
        if success.get("has_more") == Some(&Value::Bool(true)) {
            return Ok((success, true));
        }
        let kind = success.get("type").and_then(Value::as_str);
        let touched = may_have_written(kind, &success, result.words.calls_procedure())
            .then(|| result.words.touched(&success));
        let mut marked = None;
        if result.is_wrapped {
            let committed = match &touched {
                Some(_) => self.commit_marked().await,
                None => self.end_now(Kind::Commit).await.map(|success| (success, None)),
            };
            match committed {
                Ok((committed, done)) => {
                    take_bookmark(&mut success, &committed);
                    marked = done;
                }
                Err(error) => {
                    result.end(Some(&error));
                    return Err(self.write_failed(result.write.take(), error).await);
                }
            }
        }
        result.end(None);
        let position = self.note_bookmark(&success, None, (result.sent.clone(), result.begun));
        let net_change = Effects::net_change(&success);
        if let Some(touched) = &touched {
            self.transaction_has_written(touched, net_change);
        }
        match (result.write.take(), touched) {
            (Some(write), Some(touched)) => {
                let write = write.narrowed(touched).has_changed(Some(net_change)).with_marker(marked);
                self.out.wait_for(write.committed(position)).await?;
            }
            (Some(write), None) => write.changed_nothing(),
            (None, _) => {}
        }
        let took_ms = Millis::from(result.begun.elapsed());
        self.front.state.meters.note(Event::OriginRun { cause: cause(result.reason), took_ms });
        if let (Value::Map(pairs), Some(reason)) = (&mut success, result.reason) {
            pairs.push(("hopcache".to_owned(), Value::from(self.status_of(reason).as_str())));
        }
        Ok((success, false))
    }

    /// Neo4j's SUCCESS may have a bookmark: the runs of this node carry the newest one. Of a home database that is not named
    /// here nothing is learned.
    ///
    /// `sent` are the bookmarks that were sent, and when. Returns the position that Neo4j tells.
    pub(super) fn note_bookmark(
        &self,
        success: &Value,
        database: Option<&str>,
        (sent, begun): (Bookmark, Instant),
    ) -> Option<Position> {
        let text = |name: &str| success.get(name).and_then(Value::as_str);
        let (relays, returned) = (self.front.relays.as_ref()?, text("bookmark")?);
        relays.saw_bookmark(text("db").or(database)?, sent, returned, begun)
    }

    /// Neo4j's next SUCCESS. Records before it go to the client.
    pub(super) async fn answer(&mut self) -> Result<Value, RequestError> {
        self.answer_showing(None).await
    }

    /// The same of a statement whose records may show parts of this write: these are told before the client gets the records. The
    /// end of the write is told by whoever gets the SUCCESS.
    async fn answer_showing(&mut self, write: Option<&PendingWrite>) -> Result<Value, RequestError> {
        let write = write.filter(|write| write.has_parts());
        let mut has_records = false;
        let relay = self.relay.as_mut().ok_or_else(|| RequestError::cut("no relay"))?;
        let signs = relay.signs();
        self.out.wait_for_neo4j(&signs, relay.flush()).await??;
        loop {
            let received = relay.received()?;
            if let Some(write) = write.filter(|_| has_records && (received.is_none() || self.out.is_full())) {
                self.out.wait_for(write.shows_rows()).await?;
                has_records = false;
            }
            let (kind, message) = match received {
                Some(received) => received,
                None => {
                    self.out.flush().await?;
                    self.out.wait_for_neo4j(&signs, relay.receive()).await??
                }
            };
            match kind {
                ReplyKind::Record => {
                    if self.out.is_full() {
                        self.out.flush().await?;
                    }
                    frame(self.out.bytes(), &message);
                    has_records = true;
                }
                ReplyKind::Success => {
                    let success = metadata(&message).map_err(|error| RequestError::cut(&error))?;
                    let has_more = success.get("has_more") == Some(&Value::Bool(true));
                    if let Some(write) = write.filter(|_| has_records && has_more) {
                        self.out.wait_for(write.shows_rows()).await?;
                    }
                    return Ok(success);
                }
                ReplyKind::Failure => {
                    let fault = relay.saw_failure(|| code_of(&message)).await;
                    if fault.is_none() {
                        // Neo4j's own words, as of a single server: to run it again is in vain.
                        self.may_run_again = false;
                    }
                    return Err(RequestError::Neo4j(message));
                }
                ReplyKind::Ignored => return Err(RequestError::cut("a request was ignored")),
            }
        }
    }

    /// Nothing is open on the relay any more, so another client may use it.
    pub(super) fn release(&mut self) {
        if let Some(mut relay) = self.relay.take() {
            relay.set_clean();
        }
    }

    pub(super) fn status_of(&self, reason: Reason) -> String {
        cache_status(&answer::outcome_of(How::bypass(reason)), &self.front.engine.me().node)
    }

    /// Counts a statement once. A statement that the cache has run before, and that failed, is counted already.
    pub(super) fn count(&mut self, reason: Option<Reason>, is_success: bool) {
        self.is_counted = true;
        if let Some(reason) = reason {
            self.count_passed(reason, labels::status_of_passed(is_success));
        }
    }

    pub(super) fn count_passed(&mut self, reason: Reason, status: u16) {
        self.is_counted = true;
        self.front.state.meters.count(Front::Bolt, &How::bypass(reason), status, Duration::ZERO);
    }
}

/// The bookmark of a statement's own transaction comes with its COMMIT.
fn take_bookmark(success: &mut Value, committed: &Value) {
    if let Some(bookmark) = committed.get("bookmark") {
        set(success, "bookmark", bookmark.clone());
    }
}

/// The message of `hopcache dev` for a transaction that would have to write.
const NO_TRANSACTIONS: &str = "The sample graph has no explicit transactions that write: run the statement by itself, or set origin.uri.";

const fn cause(reason: Option<Reason>) -> Cause {
    match reason {
        Some(Reason::Write | Reason::Unknown) => Cause::Write,
        _ => Cause::Bypass,
    }
}

/// Neo4j has answered a traced request, or its answer does not come any more.
pub(super) fn end_step(spans: &mut Option<RelayedSpans>, error: Option<&RequestError>) {
    if let Some(spans) = spans {
        spans.end_step(error.map(fault_of));
    }
}

fn fault_of(error: &RequestError) -> FaultWord {
    match error {
        RequestError::Cut(_) => FaultWord::Cut,
        RequestError::Neo4j(message) if code_of(message).starts_with("Neo.TransientError.") => {
            FaultWord::Transient
        }
        RequestError::Neo4j(_) | RequestError::Failed(_) => FaultWord::Failed,
    }
}

impl From<RelayCut> for RequestError {
    fn from(cut: RelayCut) -> Self {
        Self::Cut(cut.to_string())
    }
}

/// Appends FAILURE as Neo4j wrote it.
pub(super) fn append_as_is(out: &mut Vec<u8>, message: &[u8]) {
    frame(out, message);
}

/// Appends SUCCESS.
pub(super) fn append_success(out: &mut Vec<u8>, metadata: &Value) {
    reply::success(out, metadata);
}
