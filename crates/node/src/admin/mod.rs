//! The admin listener: health probes, metrics, and answers to "why was this (not) cached?".
//!
//! Answers are JSON, errors are `application/problem+json` (RFC 9457). An address other than loopback requires a bearer
//! token. The two health probes do not, because they show only yes or no and the reason.

mod explain;
mod flush;
mod problem;
mod purge;
mod successors;
mod views;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use http::{Method, StatusCode, header};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use crate::config::{OriginAuth, OriginUri, Secret, Settings};
use crate::node_state::NodeState;
use problem::Problem;
pub use problem::unserved;

/// The admin listener's state.
pub struct Admin {
    state: Arc<NodeState>,
    token: Option<Secret>,
    service_user: Option<String>,
    /// The permit of the one request at a time that searches what was learned.
    seeking: Semaphore,
}

impl Admin {
    /// The admin listener of a node.
    #[must_use]
    pub fn new(state: Arc<NodeState>, settings: &Settings) -> Arc<Self> {
        // The embedded graph has no users: there each request keeps its own sender (see `front::ask`).
        let service_user = match (&settings.origin.auth, &settings.origin.uri) {
            (OriginAuth::Service { user, .. }, OriginUri::Bolt { .. }) => Some(user.clone()),
            _ => None,
        };
        Arc::new(Self {
            state,
            token: settings.node.admin_token.clone(),
            service_user,
            seeking: Semaphore::new(1),
        })
    }

    /// The listener's routes.
    pub fn router(self: Arc<Self>) -> Router {
        let guarded = Router::new()
            .route("/metrics", get(views::metrics))
            .route("/admin/v1/ring", get(views::ring))
            .route("/admin/v1/config", get(views::config))
            .route("/admin/v1/explain", post(explain::explain))
            .route("/admin/v1/purge", post(purge::purge))
            .route("/admin/v1/prefetch/flush-waste", post(flush::flush_waste))
            .route("/admin/v1/successors", get(successors::successors))
            .route("/admin/v1/drain", post(views::drain))
            .layer(from_fn_with_state(Arc::clone(&self), check_token))
            .layer(from_fn(refuse_web_pages));
        Router::new()
            .route("/livez", get(views::livez))
            .route("/readyz", get(views::readyz))
            .merge(guarded)
            .fallback(|| async {
                Problem::new(StatusCode::NOT_FOUND, "there is no such path").into_response()
            })
            .method_not_allowed_fallback(|| async {
                Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path has no such method").into_response()
            })
            .with_state(self)
    }
}

async fn check_token(State(admin): State<Arc<Admin>>, request: Request, next: Next) -> Response {
    let Some(token) = &admin.token else { return next.run(request).await };
    let presented = request.headers().get(header::AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let presented = presented.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or_default();
    if bool::from(presented.ct_eq(token.expose().as_bytes())) {
        return next.run(request).await;
    }
    let mut response =
        Problem::new(StatusCode::UNAUTHORIZED, "send Authorization: Bearer with the node's admin token")
            .into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
    response
}

/// Refuses requests that a web page makes in an operator's browser: a page must not purge or drain. A browser names the
/// page's origin on every such request, and no tool of hopcache does.
async fn refuse_web_pages(request: Request, next: Next) -> Response {
    if request.method() != Method::GET && request.headers().contains_key(header::ORIGIN) {
        return Problem::new(StatusCode::FORBIDDEN, "requests of web pages are refused").into_response();
    }
    next.run(request).await
}

fn json(status: StatusCode, value: &serde_json::Value) -> Response {
    let mut response = Response::new(Body::from(format!("{value}\n")));
    *response.status_mut() = status;
    let content_type = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
