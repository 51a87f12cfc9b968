//! Whether the cache answers a statement. The statement becomes an ask of the engine, with the same key as over HTTP.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hopcache_bolt::server::ExtraBytes;
use hopcache_bolt::server::old_values::has_other_values;
use hopcache_core::limits::{REQUEST_BODY_BYTES_MAX, STATEMENT_BYTES_MAX};
use hopcache_core::result::ResultSet;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ParsedStatement;
use hopcache_engine::ask::{Ask, RequestBypass, SessionTag};
use hopcache_engine::identity::Identity;
use hopcache_engine::outcome::{Answer, Class, Failure, FailureKind, Outcome, Reason};
use hopcache_engine::ports::Clock;
use hopcache_engine::rendering::RenderingId;
use hopcache_net::body_budget::SharedRoom;
use hopcache_ops::labels::{Front, status_of_passed};
use hopcache_ops::logging::query_text;
use hopcache_ops::traces::{AnsweredRequest, RequestSpan, TraceContext};
use hopcache_packstream::{DecodeError, Reader, encode_canonical};

use super::live::{LiveResult, WaitEnd};
use super::route::RouteOptions;
use super::{RequestError, Session};
use crate::bolt_front::failure::{BoltFailure, INVALID};
use crate::bolt_front::messages::{self, MESSAGES};
use crate::bolt_front::options::StatementOptions;
use crate::bolt_front::records::CachedResult;
use crate::credentials::Acceptance;
use crate::front::answer::{cache_status, status_of};
use crate::front::ask::answer_timeout_ms;
use hopcache_state::audit::ClientListener;

/// The statement of a RUN.
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) params: Bytes,
    pub(super) extra: ExtraBytes,
    /// The whole message.
    pub(super) message: Bytes,
    /// The room that the bytes take. A run can outlive its request.
    pub(super) room: SharedRoom,
}

/// The cache's response to a statement.
pub(super) enum CacheResponse {
    /// An answer.
    Answered(Box<CachedResult>),
    /// The records of a run that goes on.
    Live(Box<LiveResult>),
    /// Neo4j has to answer, for this reason. `None` if the request is counted already.
    ToNeo4j(Option<Reason>),
}

fn check_text(statement: &Statement) -> Result<(), BoltFailure> {
    match statement.text.len() {
        0..=STATEMENT_BYTES_MAX => Ok(()),
        _ => {
            let message = format!("The statement is over {STATEMENT_BYTES_MAX} bytes.");
            Err(BoltFailure::own("RequestTooLarge", message))
        }
    }
}

/// What becomes of a read with more parameters than the cache takes.
fn too_large(statement: &Statement, goes_to_neo4j: bool) -> Option<Result<CacheResponse, RequestError>> {
    if statement.text.len() + statement.params.len() <= REQUEST_BODY_BYTES_MAX {
        return None;
    }
    if goes_to_neo4j {
        return Some(Ok(CacheResponse::ToNeo4j(Some(Reason::TooLarge))));
    }
    let message =
        format!("The sample graph takes statements and parameters of {REQUEST_BODY_BYTES_MAX} bytes.");
    Some(Err(BoltFailure::own("RequestTooLarge", message).into()))
}

impl Session {
    /// The options of a RUN.
    pub(super) fn options(&self, extra: &ExtraBytes) -> Result<StatementOptions, BoltFailure> {
        Ok(self.readable(StatementOptions::read(&extra.decoded())?))
    }

    /// Before a server that is not Neo4j, bookmarks of another form are none.
    pub(super) fn readable(&self, mut options: StatementOptions) -> StatementOptions {
        if self.front.ignores_other_bookmarks {
            options.asked.get_or_insert_default();
        }
        options
    }

    /// Asks the cache. `span` is that of the request, if it is traced.
    pub(super) async fn ask(
        &mut self,
        options: &StatementOptions,
        statement: &Statement,
        remembered: Option<Arc<Acceptance>>,
        span: &mut Option<RequestSpan>,
    ) -> Result<CacheResponse, RequestError> {
        let (started, came) = (Instant::now(), self.front.clock.now());
        if let Some(routing) = RouteOptions::of_call(self.version, &statement.text, &statement.params) {
            return Ok(CacheResponse::Answered(self.route_as_result(routing).await?));
        }
        let identity = self.acting(options)?;
        let has_relays = self.front.relays.is_some();
        if has_relays && options.asked.is_none() {
            return Ok(CacheResponse::ToNeo4j(Some(Reason::Bookmarks)));
        }
        if self.has_other_values(statement).await? {
            if has_relays {
                return Ok(CacheResponse::ToNeo4j(Some(Reason::OldBolt)));
            }
            let message = "The sample graph takes parameters of Bolt 5 only.";
            return Err(BoltFailure::own("OldBolt", message).into());
        }
        check_text(statement)?;
        let text = self.read_text(options, statement).await?;
        // Without a relay the engine runs what it cannot cache, but not in a transaction.
        let goes_to_neo4j = has_relays || self.transaction.is_some();
        if let Some(reason) = text.passes()
            && goes_to_neo4j
            && !options.freshness.only_if_cached
        {
            return Ok(CacheResponse::ToNeo4j(Some(reason)));
        }
        if let Some(passes) = too_large(statement, goes_to_neo4j) {
            return passes;
        }
        let mut ask = self.ask_of(options, statement, (identity, text), came).await?;
        if let Some(span) = span {
            ask.traceparent = Some(span.traceparent());
        }
        let ask = Arc::new(ask);
        let engine = Arc::clone(&self.front.engine);
        let answered = if let Some(outcome) = engine.path().request_hit(&ask, came) {
            Ok(outcome)
        } else if has_relays {
            match self.wait_or_stream(options, &ask, came).await? {
                WaitEnd::Answered(answered) => answered,
                WaitEnd::Live(mut live) => {
                    live.trace(span.take());
                    return Ok(CacheResponse::Live(live));
                }
            }
        } else if self.transaction.is_some() {
            // In a transaction the cache may run nothing that a rollback could not undo, also if there is no relay.
            self.out.wait_for(engine.path().request_cached(&ask, came)).await?
        } else {
            Ok(self.out.wait_for(engine.path().request(&ask, came)).await?)
        };
        let outcome = match answered {
            Ok(outcome) => outcome,
            Err(reason) => return Ok(CacheResponse::ToNeo4j(Some(reason))),
        };
        if let (Answer::Body(_), Some(acceptance)) = (&outcome.answer, remembered) {
            self.remember(&statement.message, options, &ask, acceptance);
        }
        self.count_answer(&ask, &outcome, started, span.as_mut());
        self.take_note(&ask, &outcome);
        if let Some(transaction) = &mut self.transaction {
            transaction.was_answered(&outcome.how);
        }
        self.result_of(options, &ask, outcome, (has_relays, started))
    }

    /// The result of a hit.
    pub(in crate::bolt_front) fn hit_of(
        &mut self,
        options: &StatementOptions,
        ask: &Ask,
        outcome: Outcome,
        started: Instant,
    ) -> Option<Box<CachedResult>> {
        let mut span = self.span_of("RUN", options, started);
        self.count_answer(ask, &outcome, started, span.as_mut());
        match self.result_of(options, ask, outcome, (false, started)) {
            Ok(CacheResponse::Answered(result)) => Some(result),
            _ => None,
        }
    }

    /// Begins the span of a request, if it is traced. Its name is that of its message.
    pub(super) fn span_of(
        &self,
        name: &'static str,
        options: &StatementOptions,
        started: Instant,
    ) -> Option<RequestSpan> {
        let context = || TraceContext { traceparent: options.traceparent.as_deref(), tracestate: None };
        self.front.state.traces.request(name, started, context)
    }

    fn count_answer(
        &mut self,
        ask: &Ask,
        outcome: &Outcome,
        started: Instant,
        span: Option<&mut RequestSpan>,
    ) {
        self.is_counted = true;
        tracing::debug!(statement = query_text(&ask.query.statement), key = ?outcome.key, how = ?outcome.how, "answered over Bolt");
        let status = match &outcome.answer {
            Answer::Body(_) => status_of_passed(true),
            Answer::Failed(failure) => status_of(failure).as_u16(),
        };
        let (query, traceparent) = (&ask.query, ask.traceparent.as_deref());
        let (front, took) = (Front::Bolt, started.elapsed());
        let answered = AnsweredRequest { front, query, outcome, status, took, traceparent };
        self.front.state.answered(&answered, span);
    }

    /// The session of a statement that came at `came`: the one that its options name, else the driver's on this connection.
    pub(in crate::bolt_front) fn session_tag(
        &mut self,
        options: &StatementOptions,
        came: MonoTime,
    ) -> Option<SessionTag> {
        let senders = &self.front.shared.senders;
        match &options.session {
            Some(name) => senders.session_of_name(name.as_bytes()),
            None => self.driver_session.at(came, |part| senders.session_of_connection(self.id, part)),
        }
    }

    /// Whether a parameter has a form that the client's version does not have, or that only it has.
    async fn has_other_values(&mut self, statement: &Statement) -> Result<bool, RequestError> {
        let (version, has_utc) = (self.version, self.has_utc_patch);
        let read = || has_other_values(&statement.params, version, has_utc);
        self.read_apart(statement.params.len(), read).await
    }

    async fn read_text(
        &mut self,
        options: &StatementOptions,
        statement: &Statement,
    ) -> Result<ParsedStatement, RequestError> {
        let database: Arc<str> = match &options.database {
            Some(name) => name.as_str().into(),
            None => self.home(options).await?,
        };
        let engine = Arc::clone(&self.front.engine);
        let read = || engine.path().read_text(database, statement.text.as_str().into());
        self.read_apart(statement.text.len(), read).await
    }

    async fn ask_of(
        &mut self,
        options: &StatementOptions,
        statement: &Statement,
        (identity, text): (Arc<Identity>, ParsedStatement),
        came: MonoTime,
    ) -> Result<Ask, RequestError> {
        let engine = Arc::clone(&self.front.engine);
        let read = || {
            let params = Reader::new(&statement.params).value()?;
            let params = statement.room.kept_by(encode_canonical(&params).into());
            Ok(engine.path().query_of(text, params, (options.impersonated.clone(), identity)))
        };
        let query = self.read_apart(statement.params.len(), read).await?;
        let query =
            query.map_err(|error: DecodeError| BoltFailure::invalid(format!("parameters: {error}.")))?;
        let front = &self.front;
        // A limit of the client counts only if it is shorter than the operator's.
        let run_ms_max =
            options.timeout_ms.map(Millis).filter(|run_ms_max| *run_ms_max < front.run_timeout_ms);
        Ok(Ask {
            query: Arc::new(query),
            rendering: if self.version.major >= 5 { MESSAGES } else { RenderingId::RECORDS },
            freshness: options.freshness,
            hints: options.hints,
            mode: options.mode,
            bypass: match &options.asked {
                None => Some(RequestBypass::Bookmarks(options.bookmarks.clone())),
                Some(_) => options.no_store.then_some(RequestBypass::NoStore),
            },
            bookmarks: options.asked.clone().unwrap_or_default(),
            written: None,
            deadline: came + answer_timeout_ms(run_ms_max.unwrap_or(front.run_timeout_ms)),
            run_ms_max,
            traceparent: options.traceparent.clone(),
            is_forwarded: false,
            metadata: None,
            live: None,
            client: None,
            session: self.session_tag(options, came),
        })
    }

    /// The identity with which a statement runs.
    pub(super) fn acting(&self, options: &StatementOptions) -> Result<Arc<Identity>, RequestError> {
        let login = self.login()?;
        let acting = match &options.impersonated {
            None => Some(Arc::clone(&login.identity)),
            user => self.front.shared.senders.acting(login.credentials.clone(), user.as_deref()),
        };
        let refusal = "imp_user: this cache runs every statement as its own service user; remove it.";
        acting.ok_or_else(|| BoltFailure::own("NoImpersonation", refusal).into())
    }

    /// The database of a client that names none.
    pub(super) async fn home(&mut self, options: &StatementOptions) -> Result<Arc<str>, RequestError> {
        let identity = self.acting(options)?;
        let impersonated = options.impersonated.as_deref();
        if let Some(known) = self.front.shared.databases.known_home(&identity, impersonated) {
            return Ok(known);
        }
        let databases = Arc::clone(&self.front.shared.databases);
        let home = self.out.wait_for(databases.find(&identity, impersonated, None)).await?;
        home.map_err(|error| BoltFailure::of_fault(&error.kind).into())
    }

    fn take_note(&self, ask: &Ask, outcome: &Outcome) {
        if let Answer::Failed(Failure { kind: FailureKind::Neo4j(error), .. }) = &outcome.answer {
            self.front.shared.refused_by_neo4j(&ask.query.identity, error, ClientListener::Bolt);
        }
    }

    fn result_of(
        &self,
        options: &StatementOptions,
        ask: &Ask,
        mut outcome: Outcome,
        (has_relays, started): (bool, Instant),
    ) -> Result<CacheResponse, RequestError> {
        if !self.front.shared.outgoing.admit(&mut outcome.answer) {
            let message = "Too many large answers are being read slowly. Try again shortly.";
            return Err(BoltFailure::new("Neo.TransientError.Hopcache.TooManyAnswers", message).into());
        }
        let failure = match &outcome.answer {
            Answer::Body(body) => {
                let unreadable = || {
                    BoltFailure::new(
                        "Neo.DatabaseError.General.UnknownError",
                        "A kept result cannot be read.",
                    )
                };
                let status = cache_status(&outcome, &self.front.engine.me().node);
                let mut result = if ask.rendering == MESSAGES {
                    let (mut result, has_new) = messages::read(body).ok_or_else(unreadable)?;
                    ask.query.name_columns(&mut result.fields);
                    CachedResult::of_messages(result, has_new, status)
                } else {
                    let mut result = ResultSet::from_bytes(body).map_err(|_| unreadable())?;
                    ask.query.name_columns(&mut result.fields);
                    CachedResult::new(result, status)
                };
                if outcome.how.class == Class::Hit {
                    result.set_hit(started.elapsed());
                }
                result.set_range(outcome.range);
                result.set_noted(options.notifies);
                if self.transaction.is_none() {
                    result.set_bookmark(&options.asked.clone().unwrap_or_default());
                }
                return Ok(CacheResponse::Answered(Box::new(result)));
            }
            Answer::Failed(failure) => failure,
        };
        if has_relays && self.is_better_relayed(failure) {
            return Ok(CacheResponse::ToNeo4j(None));
        }
        let sent = BoltFailure::of_failure(failure, &outcome.how.class);
        match &failure.fields {
            Some(fields) => {
                let result = CachedResult::failed(fields.clone(), failure.records.clone(), sent);
                Ok(CacheResponse::Answered(Box::new(result)))
            }
            None => Err(sent.into()),
        }
    }

    /// Whether Neo4j itself should answer a statement for which the cache's run failed. There are two such cases: a
    /// result that is too large for the cache is relayed as it comes; from 5.7 on a failure has a GQL status that
    /// only Neo4j can give. Both statements are reads, so asking once more changes nothing.
    fn is_better_relayed(&self, failure: &Failure) -> bool {
        match &failure.kind {
            FailureKind::TooLarge { .. } => true,
            FailureKind::Neo4j(failure) => {
                let is_of_text = failure.refuses_statement() || failure.code == INVALID;
                self.version.has_gql_failures() && is_of_text
            }
            _ => false,
        }
    }
}
