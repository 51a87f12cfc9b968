//! The peer listener's paths. Decides who is believed; what is asked is the service's business.
//!
//! Everything that arrives here has made its one hop: the service answers from this node and never
//! forwards, and never joins a flight that waits on a forward (promise I8). That is implied by the
//! listener, and there is no header that could claim otherwise.
//!
//! Whoever does not prove the cluster key gets the same 403 whatever was wrong, and is counted by
//! reason. Believed senders get sealed answers, refusals included.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use hopcache_core::limits::{NODE_NAME_LEN_MAX, PEER_BODY_MS_MAX, PEER_MESSAGE_BYTES_MAX};
use hopcache_core::node::NodeName;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::PeerPath;
use super::auth::{AuthError, ClusterKey, HELLO_HEADER, PeerIdentity, TAG_BYTES};
use super::link::inline_or_apart;
use super::sessions::{Opened, Sessions};

/// What a node does for its peers. Every future may be dropped when the peer hangs up.
#[async_trait]
pub trait PeerService: Send + Sync + 'static {
    /// Answers a forwarded request here; never forwards it.
    async fn ask(&self, sender: &NodeName, message: Bytes) -> Result<Bytes, PeerRefusal>;
    /// Drops memory copies.
    async fn purge(&self, sender: &NodeName, message: Bytes) -> Result<Bytes, PeerRefusal>;
    /// Who this node is now.
    fn identity(&self) -> PeerIdentity;
    /// A message did not prove the cluster key: to be counted.
    fn refused(&self, _why: AuthError) {}
}

/// Why this node will not answer a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct PeerRefusal {
    /// What kind of no.
    pub kind: RefusalKind,
    /// For the peer's log. No query text, no parameters.
    pub detail: String,
}

/// Kinds of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalKind {
    /// The message cannot be read.
    Malformed,
    /// The sender's view of the ring is too old, or ours is.
    OtherView,
    /// No room now.
    Overloaded,
    /// Something broke here.
    Failed,
}

impl RefusalKind {
    const fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::OtherView => StatusCode::CONFLICT,
            Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// The listener's routes. Listening, `TCP_NODELAY`, connection caps and head timeouts are the caller's.
pub fn router<S: PeerService>(service: Arc<S>, key: Arc<ClusterKey>) -> Router {
    let desk = Arc::new(Desk { service, sessions: Sessions::new(key) });
    Router::new()
        .route(PeerPath::Probe.as_str(), get(probe::<S>))
        .route(PeerPath::Ask.as_str(), post(ask::<S>))
        .route(PeerPath::Purge.as_str(), post(purge::<S>))
        .fallback(|| async { problem(StatusCode::FORBIDDEN) })
        .method_not_allowed_fallback(|| async { problem(StatusCode::FORBIDDEN) })
        .with_state(desk)
}

struct Desk<S> {
    service: Arc<S>,
    sessions: Sessions,
}

async fn probe<S: PeerService>(State(desk): State<Arc<Desk<S>>>, headers: HeaderMap) -> Response {
    let proof = headers.get(HELLO_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match desk.sessions.welcome(proof, &desk.service.identity()) {
        Ok(welcome) => sealed(StatusCode::OK, welcome),
        Err(error) => refused(&*desk.service, error),
    }
}

async fn ask<S: PeerService>(State(desk): State<Arc<Desk<S>>>, request: Request) -> Response {
    let opened = match desk.open(PeerPath::Ask, request).await {
        Ok(opened) => opened,
        Err(response) => return response,
    };
    let answer = desk.service.ask(&opened.session.sender, opened.message.clone()).await;
    seal(PeerPath::Ask, &opened, answer)
}

async fn purge<S: PeerService>(State(desk): State<Arc<Desk<S>>>, request: Request) -> Response {
    let opened = match desk.open(PeerPath::Purge, request).await {
        Ok(opened) => opened,
        Err(response) => return response,
    };
    let answer = desk.service.purge(&opened.session.sender, opened.message.clone()).await;
    seal(PeerPath::Purge, &opened, answer)
}

impl<S: PeerService> Desk<S> {
    async fn open(&self, path: PeerPath, request: Request) -> Result<Opened, Response> {
        let body = read_body(request.into_body()).await?;
        let opened = inline_or_apart(body.len(), || self.sessions.open(path, body));
        opened.map_err(|error| refused(&*self.service, error))
    }
}

/// Reads a body within its time and size. The size is enforced as bytes arrive, whatever was claimed.
async fn read_body(body: Body) -> Result<Bytes, Response> {
    let most = PEER_MESSAGE_BYTES_MAX + NODE_NAME_LEN_MAX + 64 + TAG_BYTES;
    let reading = Limited::new(body, most).collect();
    match tokio::time::timeout(Duration::from_millis(PEER_BODY_MS_MAX), reading).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(problem(StatusCode::PAYLOAD_TOO_LARGE)),
        Ok(Err(_)) => Err(problem(StatusCode::BAD_REQUEST)),
        Err(_) => Err(problem(StatusCode::REQUEST_TIMEOUT)),
    }
}

fn seal(path: PeerPath, opened: &Opened, answer: Result<Bytes, PeerRefusal>) -> Response {
    let (status, body) = match answer {
        Ok(body) => (StatusCode::OK, body),
        Err(refusal) => (refusal.kind.status(), Bytes::from(refusal.detail)),
    };
    sealed(status, inline_or_apart(body.len(), || opened.seal_answer(path, status.as_u16(), &body)))
}

fn sealed(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response
}

fn refused<S: PeerService>(service: &S, error: AuthError) -> Response {
    service.refused(error);
    tracing::debug!(reason = error.label(), "a message on the peer listener was not believed");
    problem(StatusCode::FORBIDDEN)
}

/// The same words for every reason: a stranger learns nothing from them.
fn problem(status: StatusCode) -> Response {
    let reason = status.canonical_reason().unwrap_or_default();
    let body = format!(r#"{{"title":"{reason}","status":{}}}"#, status.as_u16());
    let mut response = sealed(status, body.into_bytes());
    let kind = header::HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
