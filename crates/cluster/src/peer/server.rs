//! The paths of the peer listener. This file decides which senders are authenticated. The handler answers them.
//!
//! Every message here has made its one hop: the handler answers from this node, never forwards, and never joins a flight
//! that waits for a forward (promise I8). The listener implies that, and no header can claim otherwise.
//!
//! A sender that does not prove the cluster key always gets the same 403, and is counted by reason. An authenticated
//! sender gets sealed answers, also for refusals.
//!
//! A large body is read before its sender has proved anything, so it takes room from the budget first (`body_budget`).
//! When there is none, the sender gets an unsealed refusal and asks the next node.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use axum::{BoxError, Router};
use bytes::Bytes;
use hopcache_core::limits::{
    NODE_NAME_LEN_MAX, PEER_BODY_MS_MAX, PEER_BODY_ROOM_BYTES, PEER_MESSAGE_BYTES_MAX,
    PEER_SEAL_INLINE_BYTES_MAX,
};
use hopcache_core::node::NodeName;
use hopcache_engine::worker::apart_if_large;
use hopcache_net::body::{whole, within};
use hopcache_net::body_budget::BodyBudget;
use hopcache_net::listener::Answers;
use hopcache_net::refusal_response::UnservedReason;
use hopcache_net::upgrade::Upgrade;
use http_body_util::{LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tower::ServiceExt;

use super::PeerPath;
use super::auth::{AuthError, FRAMES_PROTOCOL, HELLO_HEADER, Keyring, PeerIdentity, TAG_BYTES};
use super::framed_server::FramedSession;
use super::sessions::{OpenedMessage, Sessions};

/// A node's service for its peers. Every future may be dropped when the peer closes the connection.
#[async_trait]
pub trait PeerHandler: Send + Sync + 'static {
    /// Answers a message of another node, also a purge of memory copies. It never forwards the message.
    async fn ask(&self, sender: &NodeName, message: Bytes) -> Result<Bytes, PeerRefusal>;
    /// Whether its answer may be tried in the task that reads all questions of a framed connection: a hit then costs no task of
    /// its own, and what takes long would hold up the others.
    fn may_be_answered_at_once(&self, _message: &[u8]) -> bool {
        true
    }
    /// This node's card and ring epoch.
    fn identity(&self) -> PeerIdentity;
    /// A message did not prove the cluster key. The handler counts it.
    fn refused(&self, _why: AuthError) {}
}

/// This node cannot read a peer's message. Any other failure is an answer of the engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct PeerRefusal {
    /// For the peer's log. No query text, no parameters.
    pub detail: String,
}

/// The listener's service. The caller does the listening, `TCP_NODELAY`, connection limits and head timeouts.
///
/// Nearly all requests are forwarded ones. They go directly to the endpoint, other requests through axum's router.
pub fn service<S: PeerHandler>(service: Arc<S>, keys: impl Into<Keyring>) -> impl Answers<Body> {
    let bodies = BodyBudget::new(PEER_BODY_ROOM_BYTES, BODY_BYTES_MAX);
    let endpoint = Arc::new(PeerEndpoint { service, sessions: Arc::new(Sessions::new(keys)), bodies });
    let routes = Router::new()
        .route(PeerPath::Probe.as_str(), get(probe::<S>))
        .fallback(|| async { problem(StatusCode::FORBIDDEN) })
        .method_not_allowed_fallback(|| async { problem(StatusCode::FORBIDDEN) })
        .with_state(Arc::clone(&endpoint));
    let served = Arc::new((endpoint, routes));
    service_fn(move |request: http::Request<Incoming>| {
        let served = Arc::clone(&served);
        async move {
            let (endpoint, routes) = &*served;
            if request.method() == Method::POST && request.uri().path() == PeerPath::Ask.as_str() {
                return Ok(ask(endpoint, request.into_body()).await);
            }
            let upgrade = request.headers().get(header::UPGRADE);
            if upgrade.is_some_and(|protocol| protocol == FRAMES_PROTOCOL)
                && request.method() == Method::GET
                && request.uri().path() == PeerPath::Probe.as_str()
            {
                return Ok(upgraded(endpoint, request.headers()));
            }
            Box::pin(routes.clone().oneshot(request)).await
        }
    })
}

struct PeerEndpoint<S> {
    service: Arc<S>,
    sessions: Arc<Sessions>,
    bodies: BodyBudget,
}

/// The largest message with its seal.
const BODY_BYTES_MAX: usize = PEER_MESSAGE_BYTES_MAX + NODE_NAME_LEN_MAX + 64 + TAG_BYTES;

async fn probe<S: PeerHandler>(State(endpoint): State<Arc<PeerEndpoint<S>>>, headers: HeaderMap) -> Response {
    match endpoint.sessions.welcome(proof(&headers), &endpoint.service.identity()) {
        Ok(welcome) => sealed(StatusCode::OK, welcome),
        Err(error) => refused(&*endpoint.service, error),
    }
}

/// A probe that makes its connection a framed one. The welcome comes behind the head.
fn upgraded<S: PeerHandler>(endpoint: &PeerEndpoint<S>, headers: &HeaderMap) -> Response {
    let service = Arc::clone(&endpoint.service);
    match endpoint.sessions.welcome_framed(proof(headers), &service.identity()) {
        Ok((sender, welcome, keys)) => {
            let mut response = sealed(StatusCode::SWITCHING_PROTOCOLS, Vec::new());
            let headers = response.headers_mut();
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(header::UPGRADE, HeaderValue::from_static(FRAMES_PROTOCOL));
            let session = FramedSession { service, sender, welcome, keys };
            response.extensions_mut().insert(Upgrade::new(session));
            response
        }
        Err(error) => refused(&*service, error),
    }
}

fn proof(headers: &HeaderMap) -> &str {
    headers.get(HELLO_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

async fn ask<S: PeerHandler>(endpoint: &PeerEndpoint<S>, body: Incoming) -> Response {
    let opened = match endpoint.open(PeerPath::Ask, body).await {
        Ok(opened) => opened,
        Err(response) => return response,
    };
    let answer = endpoint.service.ask(&opened.session.sender, opened.message.clone()).await;
    seal(PeerPath::Ask, opened, answer).await
}

impl<S: PeerHandler> PeerEndpoint<S> {
    async fn open<B>(&self, path: PeerPath, body: B) -> Result<OpenedMessage, Response>
    where
        B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>>,
    {
        let room = self.bodies.for_body(&body, None).await;
        let room = room.map_err(|_| problem(StatusCode::SERVICE_UNAVAILABLE))?;
        let body = read_body(body).await?;
        let room = room.shrunk_to(body.len());
        let (sessions, bytes) = (Arc::clone(&self.sessions), body.len());
        let open = move || sessions.open(path, body);
        let opened = apart_if_large(bytes, PEER_SEAL_INLINE_BYTES_MAX, open).await;
        let mut opened = opened.map_err(|error| refused(&*self.service, error))?;
        // A run can outlive the sender's timeout, and it keeps the parameters, which are a part of the message.
        opened.message = room.kept_by(opened.message);
        Ok(opened)
    }
}

/// Reads a body within its limits of time and size. The size is checked as bytes arrive, whatever the head claims.
async fn read_body<B>(body: B) -> Result<Bytes, Response>
where
    B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>>,
{
    match within(Duration::from_millis(PEER_BODY_MS_MAX), whole(Limited::new(body, BODY_BYTES_MAX))).await {
        Some(Ok(body)) => Ok(body),
        Some(Err(error)) if error.is::<LengthLimitError>() => Err(problem(StatusCode::PAYLOAD_TOO_LARGE)),
        Some(Err(_)) => Err(problem(StatusCode::BAD_REQUEST)),
        None => Err(problem(StatusCode::REQUEST_TIMEOUT)),
    }
}

async fn seal(path: PeerPath, opened: OpenedMessage, answer: Result<Bytes, PeerRefusal>) -> Response {
    let (status, body) = match answer {
        Ok(body) => (StatusCode::OK, body),
        Err(refusal) => (StatusCode::BAD_REQUEST, Bytes::from(refusal.detail)),
    };
    let bytes = body.len();
    let seal = move || opened.seal_answer(path, status.as_u16(), &body);
    sealed(status, apart_if_large(bytes, PEER_SEAL_INLINE_BYTES_MAX, seal).await)
}

fn sealed(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response
}

fn refused<S: PeerHandler>(service: &S, error: AuthError) -> Response {
    service.refused(error);
    tracing::debug!(reason = %error, "a message on the peer listener was refused");
    problem(StatusCode::FORBIDDEN)
}

/// This listener's response when no message was read.
#[must_use]
pub fn unserved(why: UnservedReason) -> Option<http::Response<Bytes>> {
    let status = match why {
        UnservedReason::Silent
        | UnservedReason::ReaderTooSlow
        | UnservedReason::HandshakeTooSlow
        | UnservedReason::ProxyHeader
        | UnservedReason::HandshakeFailed => return None,
        UnservedReason::Crowded => StatusCode::SERVICE_UNAVAILABLE,
        UnservedReason::HeadTooSlow => StatusCode::REQUEST_TIMEOUT,
        UnservedReason::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        UnservedReason::HeadUnreadable | UnservedReason::NotTls => StatusCode::BAD_REQUEST,
    };
    let mut response = http::Response::new(Bytes::from(problem_body(status)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM);
    Some(response)
}

/// The same response for every reason, so that an unknown sender learns nothing from it.
fn problem(status: StatusCode) -> Response {
    let mut response = sealed(status, problem_body(status));
    response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM);
    response
}

const PROBLEM: header::HeaderValue = header::HeaderValue::from_static("application/problem+json");

fn problem_body(status: StatusCode) -> Vec<u8> {
    let reason = status.canonical_reason().unwrap_or_default();
    format!(r#"{{"title":"{reason}","status":{}}}"#, status.as_u16()).into_bytes()
}
