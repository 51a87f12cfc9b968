//! One client's session: the effect of each request, in the state that the table of `hopcache_bolt::server` gives.
//!
//! Rules that the connection relies on:
//! - A reply that ends a request is appended last: nothing is awaited after it. So a request that is dropped half way
//!   has no reply yet.
//! - Dropping a session closes its relay if anything is open on it, and Neo4j then ends that.

mod ahead;
mod boxed;
mod driver_session;
mod elsewhere;
mod live;
mod login;
mod pull_ending;
mod queued;
mod relayed;
mod route;
mod statement;
mod transaction;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use hopcache_bolt::Interrupted;
use hopcache_bolt::server::{
    Admission, BadRequest, Ending, Kind, Machine, ReceivedMessage, Request, State, Take, Version, reply,
};
use hopcache_core::limits::PARSE_INLINE_BYTES_MAX;
use hopcache_cypher::verdict::BypassReason;
use hopcache_engine::identity::Identity;
use hopcache_engine::outcome::Reason;
use hopcache_engine::ports::Clock as _;
use hopcache_neo4j::relays::LentRelay;
use hopcache_net::body_budget::Reservation;
use hopcache_net::client_addr::ClientAddr;
use hopcache_ops::labels::Front;
use hopcache_ops::traces::RequestSpan;
use hopcache_packstream::Value;

use self::boxed::boxed;
use self::driver_session::DriverSession;
use self::live::LiveResult;
use self::login::{Hello, Login, credentials_in};
use self::pull_ending::{PullEnding, ending_of};
use self::relayed::{RelayedResult, append_as_is, append_success};
use self::route::RouteOptions;
use self::statement::{CacheResponse, Statement};
use self::transaction::Transaction;
use super::BoltFront;
use super::failure::{BoltFailure, code_of, status_of};
use super::options::StatementOptions;
use super::outbox::Outbox;
use super::records::{CachedResult, Piece};
use crate::credentials::Standing;

/// With this code drivers remove this node from their routing tables.
const UNAVAILABLE: &str = "Neo.TransientError.General.DatabaseUnavailable";

/// Why a request did not succeed.
#[derive(Debug)]
pub(super) enum RequestError {
    /// FAILURE with this code and message.
    Failed(BoltFailure),
    /// FAILURE as Neo4j wrote it.
    Neo4j(Bytes),
    /// The connection to Neo4j, or to the client, broke: this connection ends.
    Cut(String),
}

impl RequestError {
    pub(super) fn cut(why: &str) -> Self {
        Self::Cut(why.to_owned())
    }
}

impl From<BoltFailure> for RequestError {
    fn from(failure: BoltFailure) -> Self {
        Self::Failed(failure)
    }
}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> Self {
        Self::Cut(error.to_string())
    }
}

/// A result that the client has not read to its end.
enum OpenResult {
    /// From the cache.
    Cached(Box<CachedResult>),
    /// From a run of the cache that goes on.
    Live(Box<LiveResult>),
    /// From Neo4j.
    Relayed(Box<RelayedResult>),
}

/// One client's session.
pub(crate) struct Session {
    pub(super) front: Arc<BoltFront>,
    pub(super) version: Version,
    pub(super) id: u64,
    pub(super) client: Option<ClientAddr>,
    pub(super) out: Outbox,
    machine: Machine,
    /// The client's name for itself.
    agent: Option<String>,
    /// The filters of HELLO.
    pub(super) hello: Value,
    /// Whether HELLO has agreed on date-times in UTC.
    pub(super) has_utc_patch: bool,
    login: Option<Login>,
    result: Option<OpenResult>,
    transaction: Option<Transaction>,
    pub(super) relay: Option<LentRelay>,
    /// Scratch space of `known`.
    pub(super) raw: Vec<u8>,
    /// Whether the present request is counted.
    is_counted: bool,
    /// Whether nothing of the statement, or transaction, is committed if its member refuses it: a client may run it again.
    may_run_again: bool,
    /// The PULL that the client has sent directly behind the present RUN.
    pull_behind: Option<ReceivedMessage>,
    /// Which statements belong together, for learning.
    driver_session: DriverSession,
}

impl Session {
    pub(super) fn new(
        front: Arc<BoltFront>,
        version: Version,
        (id, client): (u64, Option<ClientAddr>),
        out: Outbox,
    ) -> Self {
        Self {
            front,
            version,
            id,
            client,
            out,
            machine: Machine::new(version),
            agent: None,
            hello: Value::Map(Vec::new()),
            has_utc_patch: false,
            login: None,
            result: None,
            transaction: None,
            relay: None,
            raw: Vec::new(),
            is_counted: false,
            may_run_again: true,
            pull_behind: None,
            driver_session: DriverSession::default(),
        }
    }

    pub(super) fn state(&self) -> State {
        self.machine.state()
    }

    /// Whether Neo4j has accepted this client's credentials.
    pub(super) fn is_logged_on(&self) -> bool {
        self.login.is_some()
    }

    pub(super) fn accepted_identity(&self) -> Option<&Arc<Identity>> {
        self.login.as_ref().map(|login| &login.identity)
    }

    fn login(&self) -> Result<&Login, RequestError> {
        self.login.as_ref().ok_or_else(|| BoltFailure::invalid("No user is logged on.").into())
    }

    /// Carries a request out and appends its replies.
    pub(super) async fn handle(&mut self, received: ReceivedMessage, room: Reservation) {
        let kind = received.kind;
        self.is_counted = false;
        match self.machine.admit(kind) {
            Admission::Handle => {}
            Admission::Ignore => return reply::ignored(self.out.bytes()),
            Admission::End => return,
            Admission::Violation => {
                let message = format!("{} is not allowed in the state of this connection.", kind.name());
                return self.refuse(&BoltFailure::invalid(message));
            }
        }
        if kind == Kind::Run
            && self.transaction.is_none()
            && let Some(done) = self.known_hit(&received.message)
        {
            return self.settle(kind, done);
        }
        let done = match self.read_apart(received.message.len(), || received.read()).await {
            Ok(Ok(request)) => self.carry_out(request, (received.message, room)).await,
            // As at Neo4j, RESET recovers from a field that is wrong. Bytes that are no PackStream end the connection.
            Ok(Err(error @ (BadRequest::Field(..) | BadRequest::Options { .. }))) => {
                Err(BoltFailure::of_bad_request(&error).into())
            }
            Ok(Err(error)) => return self.refuse(&BoltFailure::of_bad_request(&error)),
            Err(error) => Err(error),
        };
        self.settle(kind, done);
    }

    /// Reads a large part of a request in its principal's turn. A stranger sends nothing large: see `BOLT_STRANGER_BYTES_MAX`.
    pub(super) async fn read_apart<T>(
        &mut self,
        bytes: usize,
        read: impl FnOnce() -> T,
    ) -> Result<T, RequestError> {
        debug_assert!(
            self.is_logged_on() || bytes <= PARSE_INLINE_BYTES_MAX,
            "I9: a stranger sent {bytes} bytes"
        );
        let login = self.login.as_ref().filter(|_| bytes > PARSE_INLINE_BYTES_MAX);
        let Some(login) = login else { return Ok(read()) };
        let (principal, parses) = (login.identity.fingerprint, Arc::clone(&self.front.shared.parses));
        let read = self.out.wait_for(parses.read(bytes, &principal, read)).await?;
        read.map_err(|why| BoltFailure::crowded_out(why).into())
    }

    /// A request was dropped half way, because a RESET waits. As at Neo4j, the statement that was running has failed. If it was running
    /// at Neo4j, it is ended there now, and fails in Neo4j's own words. The end of one that had ended by itself is not taken
    /// back: its write is committed.
    pub(super) async fn interrupted(&mut self, kind: Kind) {
        self.machine.interrupt();
        self.result = None;
        if !matches!(kind, Kind::Run | Kind::Pull | Kind::Discard) {
            return reply::ignored(self.out.bytes());
        }
        let commits_itself = self.transaction.take().is_none();
        match self.reset_relay().await {
            Interrupted::Failed(failure) => append_as_is(self.out.bytes(), &failure),
            Interrupted::Ended(success) if kind != Kind::Run => match ending_of(&success, commits_itself) {
                PullEnding::Whole => append_as_is(self.out.bytes(), &success),
                PullEnding::Part => reply::ignored(self.out.bytes()),
                PullEnding::Other => BoltFailure::terminated().append(self.out.bytes(), self.version),
            },
            Interrupted::EndedUnseen if kind != Kind::Run => reply::ignored(self.out.bytes()),
            _ => BoltFailure::terminated().append(self.out.bytes(), self.version),
        }
    }

    /// Ends what is open at Neo4j. Returns what Neo4j says of what was running.
    async fn reset_relay(&mut self) -> Interrupted {
        match self.relay.take() {
            Some(relay) if !relay.is_clean() => relay.reset().await,
            _ => Interrupted::Unknown,
        }
    }

    /// A RESET waits: all requests before it are ignored.
    pub(super) fn interrupt(&mut self) {
        self.machine.interrupt();
    }

    /// A leaving node begins nothing new. A driver takes another node, or connects again.
    pub(super) fn check_stays(&self) -> Result<(), RequestError> {
        if self.front.is_leaving.load(Ordering::Relaxed) {
            return Err(BoltFailure::new(UNAVAILABLE, "This node is leaving. Other nodes answer.").into());
        }
        Ok(())
    }

    /// Sends the failure and ends the connection.
    pub(super) fn refuse(&mut self, failure: &BoltFailure) {
        failure.append(self.out.bytes(), self.version);
        self.machine.end();
    }

    fn settle(&mut self, kind: Kind, done: Result<Value, RequestError>) {
        let ending = match done.map_err(|error| self.as_told(error)) {
            Ok(metadata) => {
                append_success(self.out.bytes(), &metadata);
                let in_transaction = self.transaction.as_ref().map_or(0, Transaction::open_results);
                Ending::Success { open_results: in_transaction + usize::from(self.result.is_some()) }
            }
            Err(RequestError::Failed(failure)) => {
                failure.append(self.out.bytes(), self.version);
                self.count_refused(kind, &failure.code);
                Ending::Failure
            }
            Err(RequestError::Neo4j(message)) => {
                self.take_note_of(&message);
                self.count_refused(kind, &code_of(&message));
                append_as_is(self.out.bytes(), &message);
                Ending::Failure
            }
            Err(RequestError::Cut(why)) => {
                tracing::debug!(why, "a Bolt connection ends");
                self.machine.end();
                return;
            }
        };
        if ending == Ending::Failure {
            // The relay, if there is one, stays until RESET, which Neo4j awaits as well.
            (self.result, self.transaction) = (None, None);
        }
        self.machine.ended(kind, ending);
        self.driver_session.answered(self.front.clock.now());
    }

    /// Counts a request that was refused before it became a query, as over HTTP: a log-on, a routing table, a transaction, or a
    /// statement.
    fn count_refused(&self, kind: Kind, code: &str) {
        let begins = matches!(kind, Kind::Hello | Kind::Logon | Kind::Route | Kind::Begin | Kind::Run);
        if begins && !self.is_counted {
            self.front.state.meters.count_rejected(Front::Bolt, status_of(code));
        }
    }

    /// A request can wait for long, and a decoded map takes up to 40 times its bytes: so the maps are gone before the first wait.
    async fn carry_out(
        &mut self,
        request: Request,
        (message, room): (Bytes, Reservation),
    ) -> Result<Value, RequestError> {
        let nothing = || Value::Map(Vec::new());
        match request {
            Request::Hello(extra) => {
                let hello = Hello::read(self.version, &extra);
                drop(extra);
                self.hello(hello).await
            }
            Request::Logon(auth) => {
                let credentials = credentials_in(&auth);
                drop(auth);
                self.log_on(credentials).await.map(Value::Map)
            }
            Request::Logoff => {
                self.login = None;
                Ok(nothing())
            }
            Request::Telemetry | Request::Goodbye => Ok(nothing()),
            Request::Route { context, bookmarks, extra } => {
                let options = RouteOptions::read(&context, &extra);
                drop((context, bookmarks, extra));
                self.route(options).await
            }
            Request::Run { statement, params, extra } => {
                let statement = Statement { text: statement, params, extra, message, room: room.shared() };
                self.run(&statement).await
            }
            Request::Pull(take) => self.take(Kind::Pull, take).await,
            Request::Discard(take) => self.take(Kind::Discard, take).await,
            Request::Begin(extra) => boxed(|| self.begin(extra, room.shared())).await,
            Request::Commit => boxed(|| self.end_transaction(Kind::Commit)).await,
            Request::Rollback => boxed(|| self.end_transaction(Kind::Rollback)).await,
            Request::Reset => {
                self.reset().await;
                Ok(nothing())
            }
        }
    }

    async fn run(&mut self, statement: &Statement) -> Result<Value, RequestError> {
        if self.transaction.is_some() {
            return boxed(|| self.run_in_transaction(statement)).await;
        }
        let options = self.options(&statement.extra)?;
        let identity = self.login()?.identity.clone();
        let standing = self.check(&identity).await?;
        let mut span = self.span_of("RUN", &options, Instant::now());
        let Standing::Accepted(acceptance) = standing else {
            let reason = Reason::Text(BypassReason::Administration);
            return boxed(|| self.run_at_neo4j(&options, statement, (Some(reason), span))).await;
        };
        match self.ask(&options, statement, Some(acceptance), &mut span).await? {
            CacheResponse::Answered(result) => Ok(self.open_cached(result, &options.filters)),
            CacheResponse::Live(mut result) => {
                let opening = result.open(&options.filters, self.version, None);
                self.result = Some(OpenResult::Live(result));
                Ok(opening)
            }
            CacheResponse::ToNeo4j(reason) => {
                boxed(|| self.run_at_neo4j(&options, statement, (reason, span))).await
            }
        }
    }

    /// Opens a result of the cache, and returns RUN's SUCCESS.
    pub(super) fn open_cached(&mut self, mut result: Box<CachedResult>, filters: &Value) -> Value {
        result.filter(self.version, filters, &self.hello);
        let opening = result.opening(self.version, None);
        self.result = Some(OpenResult::Cached(result));
        opening
    }

    async fn run_at_neo4j(
        &mut self,
        options: &StatementOptions,
        statement: &Statement,
        why: (Option<Reason>, Option<RequestSpan>),
    ) -> Result<Value, RequestError> {
        let words = self.read_ahead(Some(options), statement).await?;
        self.need_relay(options).await?;
        let (success, result) = self.relay_run((statement, words), why).await?;
        self.result = Some(OpenResult::Relayed(Box::new(result)));
        Ok(success)
    }

    /// PULL or DISCARD.
    async fn take(&mut self, kind: Kind, take: Take) -> Result<Value, RequestError> {
        if self.transaction.is_some() {
            let (qid, result) = self.result_in_transaction(take.qid)?;
            let (metadata, left) = self.take_from(kind, take.records_max, result).await?;
            if let Some(result) = left {
                self.put_back(qid, result);
            }
            return Ok(metadata);
        }
        let result = self.result.take().ok_or_else(|| BoltFailure::invalid("There is no open result."))?;
        let is_relayed = matches!(result, OpenResult::Relayed(_));
        let (metadata, left) = self.take_from(kind, take.records_max, result).await?;
        if left.is_none() && is_relayed {
            self.release();
        }
        self.result = left;
        Ok(metadata)
    }

    /// The last SUCCESS, and the result unless it is at its end.
    async fn take_from(
        &mut self,
        kind: Kind,
        records_max: Option<u64>,
        mut result: OpenResult,
    ) -> Result<(Value, Option<OpenResult>), RequestError> {
        match &mut result {
            OpenResult::Cached(cached) => {
                let form = self.record_form();
                let out = (kind == Kind::Pull).then_some((&mut self.out, form));
                match cached.take(records_max, out).await? {
                    Piece::Done { metadata, has_more } => Ok((metadata, has_more.then_some(result))),
                    Piece::Failed(failure) => Err(failure.into()),
                }
            }
            OpenResult::Live(live) => {
                let (metadata, has_more) = self.take_live(kind, records_max, live).await?;
                Ok((metadata, has_more.then_some(result)))
            }
            OpenResult::Relayed(relayed) => {
                let (metadata, has_more) = self.relay_records(kind, records_max, relayed).await?;
                Ok((metadata, has_more.then_some(result)))
            }
        }
    }

    /// Forgets open results and transactions. When this returns they have ended at Neo4j, or their connection is
    /// closed.
    async fn reset(&mut self) {
        (self.result, self.transaction) = (None, None);
        self.driver_session.end();
        self.reset_relay().await;
    }
}
