//! Turns a request's head and body into an [`Ask`] of the engine: `hopcache-queryapi` reads bodies, parameters and most headers, and
//! this file translates them into the engine's types, and the sender into an identity.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_config::Settings;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::limits::{
    DATABASE_NAME_BYTES_MAX, PARSED_REQUEST_BYTES_MAX, REQUEST_BODY_BYTES_MAX, SESSION_ID_BYTES_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ask::{Ask, Hints, QueryParts, RequestBypass, SessionTag};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::ports::AccessMode;
use hopcache_engine::rendering::RenderingId;
use hopcache_engine::{Engine, TransactionReads};
use hopcache_net::body_budget::Reservation;
use hopcache_net::client_addr::{ClientAddr, SESSION};
use hopcache_ops::traces::TraceContext;
use hopcache_packstream::Value;
use hopcache_queryapi::Generation;
use hopcache_queryapi::headers::authorization::{self, AuthorizationError};
use hopcache_queryapi::headers::media;
use hopcache_queryapi::render::{Counters, Encoding, ResponseForm, Times};
use hopcache_queryapi::request::{self, NewerMembers, RequestError};
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::front::directives::{Control, FRESHNESS, HINT, control, hints, joined};
use crate::front::query_api_renderer::rendering_of;
use crate::front::refusal::Refusal;
use crate::front::request_sizes::{check_bookmarks, check_statement};
use crate::front::shown_client::pairs_of;
use crate::front::shown_filter::ShownFilter;
use crate::neo4j_server::Neo4jServer;
use crate::senders::Senders;
use crate::transactions::held::Terms;

/// W3C trace context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// A longer one is ignored (W3C Trace Context, section 3.3.1.5: at least 512 characters are passed on).
const TRACESTATE_BYTES_MAX: usize = 512;

/// The parts of a request that decide its query, concatenated.
pub struct Raw(Option<Vec<u8>>);

impl Raw {
    /// The bytes of a request that may be cached: a short request without `Cache-Control`. Trace context and session are
    /// left out, because they differ from request to request.
    #[must_use]
    pub fn of(head: &Parts, body: &Bytes) -> Self {
        if body.len() > PARSED_REQUEST_BYTES_MAX || head.headers.contains_key(CACHE_CONTROL) {
            return Self(None);
        }
        let path = head.uri.path().as_bytes();
        let mut bytes = Vec::with_capacity(path.len() + body.len() + 256);
        bytes.extend_from_slice(path);
        for name in [&AUTHORIZATION, &CONTENT_TYPE, &ACCEPT, &HINT, &FRESHNESS] {
            // A separator that no header value can contain, before each value, also before a missing one.
            bytes.push(b'\n');
            for value in head.headers.get_all(name) {
                bytes.push(b'\r');
                bytes.extend_from_slice(value.as_bytes());
            }
        }
        bytes.push(b'\n');
        bytes.extend_from_slice(body);
        Self((bytes.len() <= PARSED_REQUEST_BYTES_MAX).then_some(bytes))
    }

    /// The bytes, if the request may be cached.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

/// Reads requests.
pub struct AskReader {
    engine: Arc<Engine>,
    senders: Arc<Senders>,
    /// Its version decides what the API has.
    server: Arc<Neo4jServer>,
    /// The operator's limit for a run.
    run_timeout_ms: Millis,
}

impl AskReader {
    /// A reader for this configuration.
    #[must_use]
    pub(crate) fn new(
        engine: &Arc<Engine>,
        (senders, server): (Arc<Senders>, Arc<Neo4jServer>),
        settings: &Settings,
    ) -> Self {
        Self { engine: Arc::clone(engine), senders, server, run_timeout_ms: settings.origin.timeout_ms }
    }

    /// Whether the server has told its version.
    pub(crate) fn knows_server(&self) -> bool {
        self.server.is_known()
    }

    /// Which Query API the server has.
    pub(crate) fn generation(&self) -> Generation {
        self.server.generation()
    }

    /// How the values of the answer are written.
    pub(crate) fn accepted(&self, headers: &HeaderMap) -> Result<Encoding, Refusal> {
        accepted(headers, self.generation())
    }

    /// The refusal of a body, as the server has it.
    fn refused(&self, error: &RequestError, encoding: Encoding) -> Refusal {
        let is_new = self.generation().has_times();
        if is_new { Refusal::request_in(error, encoding) } else { Refusal::request(error, encoding) }
    }

    /// A server that does not know a member refuses it.
    fn check_newer(&self, newer: &NewerMembers, encoding: Encoding) -> Result<(), Refusal> {
        match newer.named {
            Some(name) if !self.generation().has_times() => {
                Err(self.refused(&RequestError::Unknown(name.to_owned()), encoding))
            }
            _ => Ok(()),
        }
    }

    fn form_of(&self, encoding: Encoding, include_counters: bool) -> ResponseForm {
        let counters = if include_counters { Counters::Include } else { Counters::Omit };
        let times = if self.generation().has_times() { Times::Include } else { Times::Omit };
        ResponseForm { encoding, counters, times }
    }

    /// The longest time that a client waits. `run_ms_max` is the limit of its run, or the operator's.
    #[must_use]
    pub fn answer_timeout_ms(&self, run_ms_max: Option<Millis>) -> Millis {
        answer_timeout_ms(run_ms_max.unwrap_or(self.run_timeout_ms))
    }

    /// The identity of the credentials in a request's head. They have to be accepted before the body is read. The user to
    /// impersonate is in the body, and does not change the credentials.
    ///
    /// # Errors
    /// [`Refusal`] when the `Authorization` header cannot be understood.
    pub fn sender(&self, head: &Parts) -> Result<Arc<Identity>, Refusal> {
        Ok(self.senders.identity(credentials(&head.headers)?))
    }

    /// Reads a request. Its parameters keep the room of its body in the budget, because they are as large.
    ///
    /// # Errors
    /// [`Refusal`], which names the part and its fault.
    pub(crate) fn read(
        &self,
        head: &Parts,
        body: &Bytes,
        room: Reservation,
        now: MonoTime,
    ) -> Result<AskedQuery, Refusal> {
        let credentials = credentials(&head.headers)?;
        let ReadHead { encoding, params_in, hints, control } =
            ReadHead::of(&head.headers, self.generation())?;
        let database = database_of_query(head.uri.path())?;
        let request = request::parse(body, params_in).map_err(|error| self.refused(&error, encoding))?;
        self.check_newer(&request.newer, encoding)?;
        check_statement(&request.statement)?;
        check_bookmarks(&request.bookmarks)?;
        let mut bypass = control.no_store.then_some(RequestBypass::NoStore);
        let bookmarks = Bookmark::parse_all(&request.bookmarks);
        if bookmarks.is_none() {
            bypass = Some(RequestBypass::Bookmarks(request.bookmarks));
        } else if request.statement.len() + request.parameters.len() > REQUEST_BODY_BYTES_MAX {
            bypass.get_or_insert(RequestBypass::Large);
        }
        // A limit of the client counts only if it is shorter than the operator's.
        let run_ms_max = request.max_execution_time_s.map(|seconds| Millis(seconds.saturating_mul(1_000)));
        let run_ms_max = run_ms_max.filter(|run_ms_max| *run_ms_max < self.run_timeout_ms);
        let parts = QueryParts {
            database: database.into(),
            statement: request.statement.into(),
            params: room.kept_by(request.parameters.into()),
            identity: self.acting(credentials, request.impersonated_user.as_deref())?,
            impersonated: request.impersonated_user,
        };
        let form = self.form_of(encoding, request.include_counters);
        let filter = request.newer.notifications.map(|filter| ShownFilter { form, filter });
        let metadata = pairs_of(request.newer.tx_metadata);
        let ask = Ask {
            query: Arc::new(self.engine.path().read(parts)),
            // What is filtered is written here, from the records: no rendering that is kept has the client's filter.
            rendering: if filter.is_some() { RenderingId::RECORDS } else { rendering_of(form) },
            freshness: control.freshness,
            hints,
            mode: mode_of(request.access_mode),
            bypass,
            bookmarks: bookmarks.unwrap_or_default(),
            written: None,
            deadline: now + self.answer_timeout_ms(run_ms_max),
            run_ms_max,
            traceparent: traceparent(head),
            is_forwarded: false,
            metadata: (!metadata.is_empty()).then(|| metadata.into()),
            live: None,
            client: None,
            session: self.session(head)?,
        };
        Ok(AskedQuery { ask, filter })
    }

    /// Reads a request of an explicit transaction, which may come without a statement.
    ///
    /// # Errors
    /// As [`AskReader::read`].
    pub(crate) fn read_in_transaction(
        &self,
        head: &Parts,
        body: &Bytes,
        room: Reservation,
    ) -> Result<ReadInTransaction, Refusal> {
        let encoding = self.accepted(&head.headers)?;
        if body.is_empty() && !head.headers.contains_key(CONTENT_TYPE) {
            // As the server: without a type it looks for no body, and misses the request then.
            return Err(self.refused(&RequestError::Null, encoding));
        }
        let ReadHead { params_in, hints, control, .. } = ReadHead::of(&head.headers, self.generation())?;
        let parsed = request::parse_in_transaction(body, params_in);
        let request = parsed.map_err(|error| self.refused(&error, encoding))?;
        self.check_newer(&request.newer, encoding)?;
        check_statement(request.statement.as_deref().unwrap_or_default())?;
        check_bookmarks(&request.bookmarks)?;
        let statement = request.statement.map(|text| StatementInTransaction {
            text,
            params: request.parameters.map(|params| room.kept_by(params.into())),
            notifications: request.newer.notifications,
            hints,
            control,
            session: None,
        });
        let session = self.session(head)?;
        Ok(ReadInTransaction {
            form: self.form_of(encoding, request.include_counters),
            statement: statement.map(|statement| StatementInTransaction { session, ..statement }),
            mode: mode_of(request.access_mode),
            bookmarks: request.bookmarks,
            impersonated: request.impersonated_user,
            time_ms_max: request.max_execution_time_s.map(|seconds| seconds.saturating_mul(1_000)),
            kind: request.transaction_type,
            traceparent: traceparent(head),
            metadata: request.newer.tx_metadata,
        })
    }

    /// Asks for a statement in a transaction that Neo4j does not know of yet.
    pub(crate) fn ask_in_transaction(
        &self,
        (statement, params): (&StatementInTransaction, &Bytes),
        terms: &Terms,
        (reads, left_ms): (&TransactionReads, Option<u64>),
        now: MonoTime,
    ) -> Ask {
        let run_ms_max = left_ms.map(Millis).filter(|left_ms| *left_ms < self.run_timeout_ms);
        let parts = QueryParts {
            database: Arc::clone(&terms.database),
            statement: statement.text.as_str().into(),
            params: params.clone(),
            identity: Arc::clone(&terms.acting),
            impersonated: terms.impersonated.clone(),
        };
        Ask {
            query: Arc::new(self.engine.path().read(parts)),
            rendering: RenderingId::RECORDS,
            freshness: reads.freshness(statement.control.freshness),
            hints: statement.hints,
            mode: terms.mode,
            bypass: statement.control.no_store.then_some(RequestBypass::NoStore),
            bookmarks: reads.asked().cloned().unwrap_or_default(),
            written: None,
            deadline: now + self.answer_timeout_ms(run_ms_max),
            run_ms_max,
            traceparent: terms.traceparent.clone(),
            is_forwarded: false,
            metadata: None,
            live: None,
            client: None,
            session: statement.session,
        }
    }

    /// The identity of a request that acts as another user, if it names one.
    ///
    /// # Errors
    /// [`Refusal`] if all statements run as one service user.
    pub(crate) fn acting(
        &self,
        credentials: Credentials,
        impersonated: Option<&str>,
    ) -> Result<Arc<Identity>, Refusal> {
        self.senders.acting(credentials, impersonated).ok_or_else(Refusal::no_impersonation)
    }

    /// The operator's limit for a run.
    pub(crate) fn run_timeout_ms(&self) -> Millis {
        self.run_timeout_ms
    }

    /// The session that a request names, or else the session of its client's address. The engine adds the principal and
    /// the database.
    ///
    /// # Errors
    /// [`Refusal`] when its name is too long, or there are two.
    pub fn session(&self, head: &Parts) -> Result<Option<SessionTag>, Refusal> {
        let mut names = head.headers.get_all(SESSION).iter();
        let name = names.next();
        if names.next().is_some() {
            return Err(Refusal::header(
                &SESSION,
                "is given more than once: a request belongs to one session",
            ));
        }
        // An empty name names no session.
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Ok(self.session_of_address(head));
        };
        if name.len() > SESSION_ID_BYTES_MAX {
            return Err(Refusal::header(&SESSION, &format!("is over {SESSION_ID_BYTES_MAX} bytes")));
        }
        Ok(self.senders.session_of_name(name.as_bytes()))
    }

    fn session_of_address(&self, head: &Parts) -> Option<SessionTag> {
        self.senders.session_of_address(head.extensions.get::<ClientAddr>()?)
    }
}

/// The request's trace context, if it has the form of W3C.
#[must_use]
pub fn traceparent(head: &Parts) -> Option<String> {
    let value = head.headers.get(TRACEPARENT)?.to_str().ok()?;
    is_traceparent(value).then(|| value.to_owned())
}

/// Whether a text looks like a `traceparent`: its length and its characters are right.
pub(crate) fn is_traceparent(value: &str) -> bool {
    value.len() == 55 && value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// What a request causes is traced below this step of it. A request that is not traced stays as it is.
pub(crate) fn set_traceparent(head: &mut Parts, step: Option<String>) {
    if let Some(Ok(value)) = step.map(HeaderValue::try_from) {
        head.headers.insert(TRACEPARENT, value);
    }
}

/// The trace context that came with a request.
pub(crate) fn trace_of(head: &Parts) -> TraceContext<'_> {
    let text = |name: &HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok());
    let tracestate = text(&TRACESTATE).filter(|state| state.len() <= TRACESTATE_BYTES_MAX);
    TraceContext { traceparent: text(&TRACEPARENT), tracestate }
}

/// Plain data: a request that became a query.
pub(crate) struct AskedQuery {
    pub(crate) ask: Ask,
    /// Which notifications its client wants, if it does not want all.
    pub(crate) filter: Option<ShownFilter>,
}

/// Plain data: a request of an explicit transaction. What only counts for a new one is ignored in the others, as by the
/// server.
pub(crate) struct ReadInTransaction {
    /// How its answer is written.
    pub(crate) form: ResponseForm,
    pub(crate) statement: Option<StatementInTransaction>,
    pub(crate) mode: AccessMode,
    pub(crate) bookmarks: Vec<String>,
    pub(crate) impersonated: Option<String>,
    pub(crate) time_ms_max: Option<u64>,
    /// Which kind of transaction the server is to begin.
    pub(crate) kind: Option<String>,
    pub(crate) traceparent: Option<String>,
    /// The transaction's metadata, a map.
    pub(crate) metadata: Option<Value>,
}

/// Plain data: a statement of an explicit transaction.
pub(crate) struct StatementInTransaction {
    /// It may be empty.
    pub(crate) text: String,
    /// The parameters, or why the server refuses them when it runs the statement.
    pub(crate) params: Result<Bytes, RequestError>,
    /// Which notifications its client wants, as options of Bolt.
    pub(crate) notifications: Option<Value>,
    hints: Hints,
    control: Control,
    session: Option<SessionTag>,
}

/// What the head says of the body and of the answer.
struct ReadHead {
    encoding: Encoding,
    params_in: Encoding,
    hints: Hints,
    control: Control,
}

impl ReadHead {
    fn of(headers: &HeaderMap, generation: Generation) -> Result<Self, Refusal> {
        let encoding = accepted(headers, generation)?;
        let params_in = joined(headers, &CONTENT_TYPE)?;
        let params_in = media::content_type(params_in.as_deref(), generation).map_err(Refusal::media)?;
        Ok(Self { encoding, params_in, hints: hints(headers)?, control: control(headers)? })
    }
}

fn accepted(headers: &HeaderMap, generation: Generation) -> Result<Encoding, Refusal> {
    media::accept(joined(headers, &ACCEPT)?.as_deref(), generation).map_err(Refusal::media)
}

/// Without an access mode the server allows writes.
pub(crate) fn mode_of(asked: Option<request::AccessMode>) -> AccessMode {
    match asked {
        Some(request::AccessMode::Read) => AccessMode::Read,
        Some(request::AccessMode::Write) | None => AccessMode::Write,
    }
}

fn credentials(headers: &HeaderMap) -> Result<Credentials, Refusal> {
    let mut logins = headers.get_all(AUTHORIZATION).iter();
    let login = logins.next();
    // A proxy before this node may have checked the other one (F52).
    if logins.next().is_some() {
        return Err(Refusal::header(&AUTHORIZATION, "is given more than once: send one"));
    }
    match authorization::parse(login.map(http::HeaderValue::as_bytes)) {
        Ok(authorization::Credentials::Basic { user, password }) => Ok(Credentials::Basic { user, password }),
        Ok(authorization::Credentials::Bearer(token)) => Ok(Credentials::Bearer { token }),
        // No credentials are valid when Neo4j runs without authentication, and Neo4j decides that.
        Err(AuthorizationError::Missing) => Ok(Credentials::None),
        Err(error) => Err(Refusal::authorization(error)),
    }
}

/// The database of `/db/{database}/query/v2`. Like Neo4j it also accepts a `/` at the end.
fn database_of_query(path: &str) -> Result<String, Refusal> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let name = path.strip_prefix("/db/").and_then(|rest| rest.strip_suffix("/query/v2"));
    database(name.unwrap_or_default())
}

/// A database's name in a path, percent-decoded.
pub(crate) fn database(name: &str) -> Result<String, Refusal> {
    match percent_encoding::percent_decode_str(name).decode_utf8() {
        Ok(name) if !name.is_empty() && name.len() <= DATABASE_NAME_BYTES_MAX => Ok(name.into_owned()),
        _ => Err(Refusal::own(
            StatusCode::BAD_REQUEST,
            "Hopcache.ClientError.BadDatabaseName",
            format!("The database name in the path has 1 to {DATABASE_NAME_BYTES_MAX} bytes of UTF-8."),
        )),
    }
}

/// The longest time that a client waits: the timeout of a run, and as much again for a slot or for an earlier run that
/// has to end first. A client that needs both at their full length gets a timeout. Its run goes on for later clients.
pub(crate) fn answer_timeout_ms(run_timeout_ms: Millis) -> Millis {
    Millis(run_timeout_ms.0.saturating_mul(2).saturating_add(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I9: a request that is too long for the cache is not copied.
    #[test]
    fn only_short_requests_are_copied_to_be_remembered() {
        let (head, ()) = http::Request::post("/db/neo4j/query/v2").body(()).unwrap().into_parts();
        let taken = |len: usize| Raw::of(&head, &vec![b'x'; len].into()).bytes().map(<[u8]>::len);
        let around = taken(0).unwrap();
        assert_eq!(taken(PARSED_REQUEST_BYTES_MAX - around), Some(PARSED_REQUEST_BYTES_MAX));
        assert_eq!(taken(PARSED_REQUEST_BYTES_MAX - around + 1), None);
        assert_eq!(taken(4 << 20), None);
    }
}
