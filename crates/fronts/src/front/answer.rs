//! Turns an outcome into a response. This is the only file that gives an outcome its status. A request that is refused
//! before it becomes a query gets its status in [`super::refusal`].
//!
//! Errors have Neo4j's format. Errors of Neo4j keep Neo4j's codes. Hopcache's own codes are `Hopcache.ClientError.*` and
//! `Hopcache.TransientError.*` (INTERFACE section 1). Where a write may have been carried out, a code of Neo4j stands for the latter.

use bytes::Bytes;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{HEAD_BYTES_MAX, HEAD_TIMEOUT_MS, HEADERS_MAX, PASS_THROUGH_BYTES_MAX};
use hopcache_core::node::NodeName;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_engine::ask::Ask;
use hopcache_engine::outcome::{Answer, Class, Failure, FailureKind, How, Outcome, Reason, Role};
use hopcache_net::body::tied;
use hopcache_net::refusal_response::UnservedReason;
use hopcache_ops::labels;
use hopcache_packstream::Value;
use hopcache_queryapi::failure;
use hopcache_queryapi::headers::authorization::CHALLENGE;
use hopcache_queryapi::headers::cache_status::{self, Collapsed, Forward, Member, Stored};
use hopcache_queryapi::headers::media;
use hopcache_queryapi::render::{
    self, Counters, Encoding, RenderError, ResponseForm, ResultView, Times, render_within,
};
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, AGE, ALLOW, CONTENT_TYPE, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::Full;

pub(crate) use super::failure_texts::Fate;
pub(super) use super::failure_texts::leaving_unread;
use super::failure_texts::{
    CARRIED_OUT, leaving, no_place, too_deep, too_large, too_many_runs, unreachable, unread,
};
use super::preflight;
use super::query_api_renderer::for_engine;
use super::shown_filter::ShownFilter;

/// A response with its whole body, without a box.
pub type Reply = http::Response<Full<Bytes>>;

/// `Cache-Status` (RFC 9211).
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
/// Neo4j's content type for its own refusals.
pub(super) const JSON_UTF8: HeaderValue = HeaderValue::from_static("application/json;charset=utf-8");
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Neo4j allows every origin.
pub(super) const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");
/// Headers of ours that a page of another origin may read.
const EXPOSED: HeaderValue = HeaderValue::from_static("cache-status,age");
pub(super) const CODE_UNKNOWN: &str = "Neo.DatabaseError.General.UnknownError";
pub(super) const CODE_LEAVING: &str = "Hopcache.TransientError.Leaving";
pub(super) const CODE_INVALID: &str = "Neo.ClientError.Request.Invalid";

/// Headers of most responses, with hyper's `content-length` and `date`.
const HEADERS_USUAL: usize = 7;

/// The response to a request that became a query.
#[must_use]
pub fn of_outcome(outcome: &Outcome, encoding: Encoding, me: &NodeName) -> Reply {
    let (status, content_type, body, retry_after) = match &outcome.answer {
        Answer::Body(body) => (StatusCode::ACCEPTED, content_type(encoding), body.clone(), None),
        Answer::Failed(failure) => of_failure(failure, fate(&outcome.how.class), encoding),
    };
    let mut response = Reply::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    // Room for our headers and hyper's. A map that has to grow is built twice.
    *headers = HeaderMap::with_capacity(HEADERS_USUAL);
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    if let (Class::Hit, Some(age)) = (outcome.how.class, outcome.how.age_ms) {
        headers.insert(AGE, HeaderValue::from(age.0 / 1_000));
    }
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(cache_status(outcome, me))) {
        headers.insert(CACHE_STATUS, value);
    }
    if let Some(seconds) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
    }
    response
}

/// Writes the answer of an outcome that has records, with the notifications that its client wants.
pub(super) fn filter(outcome: &mut Outcome, ask: &Ask, shown: &ShownFilter) {
    let Answer::Body(body) = &outcome.answer else { return };
    let bookmark = outcome.range.as_ref().and_then(|range| range.bookmark_for(&ask.bookmarks).encode());
    let written = ResultSet::from_bytes(body).map_err(|_| FailureKind::BadResult).and_then(|mut result| {
        ask.query.name_columns(&mut result.fields);
        let summary = &ShownFilter::of(&shown.filter, std::mem::replace(&mut result.summary, Value::Null));
        let view = ResultView {
            kind: result.kind.map(StatementKind::to_bolt),
            fields: &result.fields,
            records: &result.records,
            summary,
            bookmarks: &[],
            errors: &[],
        };
        let body = render::answer(&view, shown.form, bookmark.as_deref(), PASS_THROUGH_BYTES_MAX);
        body.map_err(|error| FailureKind::from(for_engine(error)))
    });
    outcome.answer = match written {
        Ok(written) => Answer::Body(tied(written, body.clone())),
        Err(kind) => Answer::Failed(kind.into()),
    };
}

/// The response to a request whose answer has no room in the answer budget.
#[must_use]
pub fn of_unsent(outcome: &Outcome, me: &NodeName) -> Reply {
    let response = match fate(&outcome.how.class) {
        Fate::Harmless | Fate::RolledBack => {
            let (code, message) = crowded();
            error(StatusCode::SERVICE_UNAVAILABLE, code, &message, JSON)
        }
        Fate::InDoubt => error(UNSHOWN.0, UNSHOWN.1, &format!("{CROWDED}{CARRIED_OUT}"), JSON),
    };
    with_cache_status(response, outcome, me)
}

const CROWDED: &str = "Too many large answers are being read slowly.";

/// Code and message of a read whose answer has no room in the answer budget.
pub(super) fn crowded() -> (&'static str, String) {
    ("Hopcache.TransientError.TooManyAnswers", format!("{CROWDED} Try again shortly."))
}

/// The status of a read that has failed.
pub(crate) fn status_of(failure: &Failure) -> StatusCode {
    of_failure(failure, Fate::Harmless, Encoding::Plain).0
}

/// Adds `Cache-Status`, which describes how the request was handled.
pub(super) fn with_cache_status(mut response: Reply, outcome: &Outcome, me: &NodeName) -> Reply {
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(cache_status(outcome, me))) {
        response.headers_mut().insert(CACHE_STATUS, value);
    }
    response
}

/// An outcome without a result and a key, for `Cache-Status` alone.
pub(crate) fn outcome_of(how: How) -> Outcome {
    Outcome {
        answer: Answer::Body(Bytes::new()),
        how,
        answered_by: None,
        key: QueryKey([0; 32]),
        range: None,
    }
}

/// Members of `Cache-Status`. The node nearest to the origin comes first.
pub(crate) fn cache_status(outcome: &Outcome, me: &NodeName) -> String {
    let key = outcome.key.to_hex();
    let found_by = outcome.answered_by.as_ref().map_or(me, |by| &by.node);
    let mut text = String::with_capacity(192);
    cache_status::append(&mut text, &member(outcome, found_by.as_str(), &key));
    if outcome.answered_by.is_some() {
        let mut entry = Member::forward(me.as_str(), Forward::Miss);
        entry.detail = Some(labels::DETAIL_OWNER);
        cache_status::append(&mut text, &entry);
    }
    text
}

fn member<'a>(outcome: &Outcome, node: &'a str, key: &'a str) -> Member<'a> {
    let how = &outcome.how;
    let mut member = match how.class {
        Class::Hit => Member::hit(node),
        Class::Bypass(_) => {
            let mut member = Member::forward(node, Forward::Bypass);
            member.detail = labels::detail_of(how);
            return member;
        }
        Class::Miss { kept, role } => {
            let mut member = Member::forward(node, Forward::Miss);
            member.stored = if kept.is_kept() { Stored::Yes } else { Stored::No };
            member.collapsed = if role == Role::Joined { Collapsed::Yes } else { Collapsed::No };
            member
        }
    };
    member.ttl_s = how.ttl_ms.map(|ttl| ttl.div_euclid(1_000));
    member.key = Some(key);
    member.is_proved = how.is_proved;
    member.detail = labels::detail_of(how);
    member
}

pub(super) type Parts = (StatusCode, HeaderValue, Bytes, Option<u64>);

pub(crate) fn fate(class: &Class) -> Fate {
    match class {
        Class::Bypass(Reason::NoStore | Reason::Bookmarks | Reason::TooLarge | Reason::Rejected)
        | Class::Hit
        | Class::Miss { .. } => Fate::Harmless,
        Class::Bypass(
            Reason::Write | Reason::Unknown | Reason::Text(_) | Reason::Transaction | Reason::OldBolt,
        ) => Fate::InDoubt,
    }
}

/// Status and code of a statement that was carried out, and whose result cannot be shown. Neo4j has the same for a result that
/// it cannot write: no client repeats such a statement by itself.
const UNSHOWN: (StatusCode, &str) = (StatusCode::INTERNAL_SERVER_ERROR, CODE_INVALID);

/// The response to a failed statement of a transaction.
pub(super) fn of_failure_with(failure: &Failure, fate: Fate, encoding: Encoding) -> Reply {
    let (status, content_type, body, retry_after) = of_failure(failure, fate, encoding);
    let mut response = plain(status, content_type, body);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
    }
    response
}

fn of_failure(failure: &Failure, fate: Fate, encoding: Encoding) -> Parts {
    if let FailureKind::Neo4j(error) = &failure.kind {
        return of_neo4j(failure, &error.code, &error.message, encoding);
    }
    let OwnFailure { status, code, message, retry_after_s } = own_failure(failure, fate);
    (status, JSON, failure::body(code, &message).into(), retry_after_s)
}

/// A failure of Hopcache's own.
pub(crate) struct OwnFailure {
    status: StatusCode,
    /// `Hopcache.<class>.<title>`.
    pub(crate) code: &'static str,
    /// For a person.
    pub(crate) message: String,
    retry_after_s: Option<u64>,
}

const TRANSIENT: &str = ".TransientError.";
/// Status and code of a failure that would be transient, of a statement that may have been carried out.
pub(super) const IN_DOUBT: (StatusCode, &str) =
    (StatusCode::INTERNAL_SERVER_ERROR, "Neo.DatabaseError.General.UnknownError");

/// Code, status and message of a failure that is not Neo4j's own.
pub(crate) fn own_failure(failure: &Failure, fate: Fate) -> OwnFailure {
    let own = |status, code: &'static str, message: &str| {
        let is_in_doubt = failure.was_sent && fate == Fate::InDoubt;
        let is_transient = code.contains(TRANSIENT);
        // To repeat what may have been carried out would carry it out twice: clients repeat what is transient, and balancers a 503.
        let (status, code) = if is_in_doubt && is_transient { IN_DOUBT } else { (status, code) };
        let retry_after = (is_transient || status == StatusCode::TOO_MANY_REQUESTS) && !is_in_doubt;
        OwnFailure {
            status,
            code,
            message: message.to_owned(),
            retry_after_s: retry_after.then_some(RETRY_AFTER_S),
        }
    };
    let doubt = fate.sentence();
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    let late = StatusCode::GATEWAY_TIMEOUT;
    match &failure.kind {
        FailureKind::Neo4j(_) => own(unavailable, "Hopcache.TransientError.BadResult", &unread(fate)),
        FailureKind::OriginUnreachable => {
            own(unavailable, "Hopcache.TransientError.OriginUnreachable", &unreachable(fate))
        }
        FailureKind::OriginCut => own(
            unavailable,
            "Hopcache.TransientError.OriginConnectionLost",
            &format!("The connection to Neo4j broke before the answer was complete.{doubt}"),
        ),
        FailureKind::OriginTimedOut => own(
            late,
            "Hopcache.ClientError.OriginTimedOut",
            &format!(
                "Neo4j did not finish the statement within origin.timeout, or the request's maxExecutionTime.{doubt}"
            ),
        ),
        FailureKind::Overloaded => {
            own(unavailable, "Hopcache.TransientError.Overloaded", &no_place(failure.was_sent, fate))
        }
        FailureKind::TooManyRuns => {
            own(StatusCode::TOO_MANY_REQUESTS, "Hopcache.ClientError.TooManyRequests", &too_many_runs(fate))
        }
        FailureKind::DeadlinePassed => own(
            late,
            "Hopcache.TransientError.DeadlinePassed",
            &format!("The answer did not come within the time that this request may wait.{doubt}"),
        ),
        FailureKind::HeldBack { left_ms } => {
            let queued = own(
                unavailable,
                "Hopcache.TransientError.BackingOff",
                "Neo4j did not answer this query the last times, so it is left alone for a while. Try again later.",
            );
            OwnFailure { retry_after_s: Some(left_ms.0.div_ceil(1_000)), ..queued }
        }
        FailureKind::Leaving => own(unavailable, CODE_LEAVING, &leaving(fate)),
        FailureKind::NotCached => own(
            late,
            "Hopcache.ClientError.NotCached",
            "The request says only-if-cached, and there is no entry, fresh or within grace.",
        ),
        FailureKind::BadResult if fate == Fate::InDoubt => own(UNSHOWN.0, UNSHOWN.1, &unread(fate)),
        FailureKind::BadResult => own(unavailable, "Hopcache.TransientError.BadResult", &unread(fate)),
        FailureKind::TooDeep => own(UNSHOWN.0, UNSHOWN.1, &too_deep(fate)),
        FailureKind::TooLarge { limit_bytes } => own(
            StatusCode::PAYLOAD_TOO_LARGE,
            "Hopcache.ClientError.ResultTooLarge",
            &too_large(*limit_bytes, doubt),
        ),
    }
}

/// A failure of Neo4j. When it came after the column names, it is in a body with status 202, because Neo4j has begun its
/// answer by then.
pub(super) fn of_neo4j(failure: &Failure, code: &str, message: &str, encoding: Encoding) -> Parts {
    let message = shown_message(code, message);
    let Some(fields) = &failure.fields else {
        let status = StatusCode::from_u16(failure::status(code)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let content_type =
            if status == StatusCode::UNAUTHORIZED { JSON_UTF8 } else { content_type(encoding) };
        return (status, content_type, failure::body(code, message).into(), None);
    };
    let errors = [(code.to_owned(), message.to_owned())];
    let body = with_records(fields, &failure.records, &errors, encoding)
        // The records before the failure may be left out, but not the failure.
        .or_else(|_| with_records(fields, &[], &errors, encoding))
        .unwrap_or_default();
    // The room of the records also counts for this body until it is sent.
    let body = tied(body, failure.records.clone());
    (StatusCode::ACCEPTED, content_type(encoding), body, None)
}

/// Over HTTP Neo4j hides the details of internal errors that it shows over Bolt.
pub(super) fn shown_message<'a>(code: &str, message: &'a str) -> &'a str {
    if code == CODE_UNKNOWN { "An unknown error occurred." } else { message }
}

fn with_records(
    fields: &[String],
    records: &[u8],
    errors: &[(String, String)],
    encoding: Encoding,
) -> Result<Vec<u8>, RenderError> {
    let summary = &Value::Map(Vec::new());
    let view = ResultView { kind: None, fields, records, summary, bookmarks: &[], errors };
    render_within(
        &view,
        ResponseForm { encoding, counters: Counters::Omit, times: Times::Omit },
        PASS_THROUGH_BYTES_MAX,
    )
}

/// Seconds after which a client should try again: by then the origin's breaker has probed again.
pub(super) const RETRY_AFTER_S: u64 = 1;

pub(super) fn content_type(encoding: Encoding) -> HeaderValue {
    HeaderValue::from_static(media::name(encoding))
}

/// The client listener's response when no request was read. `None` when the client has sent nothing or does not read.
#[must_use]
pub fn unserved(why: UnservedReason) -> Option<http::Response<Bytes>> {
    let (status, code, message) = match why {
        UnservedReason::Silent
        | UnservedReason::ReaderTooSlow
        | UnservedReason::HandshakeTooSlow
        | UnservedReason::ProxyHeader
        | UnservedReason::HandshakeFailed => return None,
        UnservedReason::NotTls => (
            StatusCode::BAD_REQUEST,
            "Hopcache.ClientError.TlsRequired",
            "This listener has TLS (node.client_tls). Ask it with https://.".to_owned(),
        ),
        UnservedReason::Crowded => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Hopcache.TransientError.TooManyConnections",
            "This node has as many connections as it may have (node.max_connections). Try again shortly."
                .to_owned(),
        ),
        UnservedReason::HeadTooSlow => (
            StatusCode::REQUEST_TIMEOUT,
            "Hopcache.ClientError.HeadTooSlow",
            format!("The request's head did not arrive within {HEAD_TIMEOUT_MS} ms."),
        ),
        UnservedReason::HeadTooLarge => (
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "Hopcache.ClientError.HeadTooLarge",
            format!("The request's head is over {HEAD_BYTES_MAX} bytes or {HEADERS_MAX} header fields."),
        ),
        UnservedReason::HeadUnreadable => (
            StatusCode::BAD_REQUEST,
            "Hopcache.ClientError.HeadUnreadable",
            "The request's head is not valid HTTP/1.1, or does not say clearly how long its body is."
                .to_owned(),
        ),
    };
    let mut response = http::Response::new(Bytes::from(failure::body(code, &message)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
    if why == UnservedReason::Crowded {
        headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    }
    Some(response)
}

pub(super) fn error(status: StatusCode, code: &str, message: &str, content_type: HeaderValue) -> Reply {
    let mut response = plain(status, content_type, failure::body(code, message).into());
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    }
    response
}

pub(super) fn plain(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Reply {
    let mut response = Reply::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
    response
}

/// The response to a method that the path does not have.
pub async fn method_not_allowed() -> Reply {
    not_allowed(preflight::OF_QUERIES)
}

/// The same on the path of one transaction.
pub async fn method_not_allowed_of_transaction() -> Reply {
    not_allowed(preflight::OF_TRANSACTIONS)
}

fn not_allowed(methods: HeaderValue) -> Reply {
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, CODE_INVALID, "Method Not Allowed", JSON);
    response.headers_mut().insert(ALLOW, methods);
    response
}

/// The response to an unknown path.
pub async fn not_found() -> Reply {
    error(StatusCode::NOT_FOUND, CODE_INVALID, "Not Found", JSON)
}
