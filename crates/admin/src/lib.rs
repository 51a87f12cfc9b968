//! The admin listener: health probes, metrics, and answers to "why was this (not) cached?".
//!
//! Answers are JSON, errors are `application/problem+json` (RFC 9457). An address other than loopback requires a bearer
//! token, and with `node.admin_tls.client_ca_file` a client certificate too. The two health probes require neither,
//! because they show only yes or no and the reason. `guard` refuses requests.

pub mod console;
mod explain;
mod flush;
mod guard;
mod invalidate;
mod problem;
mod purge;
mod reload;
mod successors;
mod views;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use axum::Router;
use axum::body::Body;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use hopcache_config::{NodeSettings, OriginAuth, OriginUri, Secret, Settings};
use http::{StatusCode, header};
use tokio::sync::Semaphore;

use console::{Console, assets};
use hopcache_state::host_check::HostCheck;
use hopcache_state::node_state::NodeState;
use problem::Problem;
pub use problem::unserved;

/// The admin listener's state.
pub struct Admin {
    state: Arc<NodeState>,
    console: Arc<Console>,
    token: ArcSwapOption<Secret>,
    hosts: HostCheck,
    /// Whether operators have to show a client certificate (`node.admin_tls.client_ca_file`).
    needs_certificate: bool,
    service_user: Option<String>,
    /// The permit of the one request at a time that searches the learned data.
    seeking: Semaphore,
}

impl Admin {
    /// The admin listener of a node.
    #[must_use]
    pub fn new(state: Arc<NodeState>, console: Arc<Console>, settings: &Settings) -> Arc<Self> {
        // The embedded graph has no users: each request keeps its own sender there (see `front::ask`).
        let service_user = match (&settings.origin.auth, &settings.origin.uri) {
            (OriginAuth::Service { user, .. }, OriginUri::Bolt { .. }) => Some(user.clone()),
            _ => None,
        };
        let tls = settings.node.admin_tls.as_ref();
        Arc::new(Self {
            state,
            console,
            token: ArcSwapOption::from_pointee(settings.node.admin_token.clone()),
            hosts: HostCheck::new(settings),
            needs_certificate: tls.is_some_and(|tls| tls.client_ca_file.is_some()),
            service_user,
            seeking: Semaphore::new(1),
        })
    }

    /// From now on this token and these hosts are in force.
    pub fn reload(&self, node: &NodeSettings) {
        self.token.store(node.admin_token.clone().map(Arc::new));
        self.hosts.allow(&node.allowed_hosts);
    }

    /// The sender of an order, for the audit. The listener knows no more than this.
    fn operator(&self) -> &'static str {
        if self.token.load().is_some() { "admin token" } else { "no token needed" }
    }

    /// The listener's routes.
    pub fn router(self: Arc<Self>) -> Router {
        let guarded = Router::new()
            .route("/metrics", get(views::metrics))
            .route("/admin/v1/ring", get(views::ring))
            .route("/admin/v1/config", get(views::config))
            .route("/admin/v1/explain", post(explain::explain))
            .route("/admin/v1/purge", post(purge::purge))
            .route("/admin/v1/invalidate", post(invalidate::invalidate))
            .route("/admin/v1/prefetch/flush-waste", post(flush::flush_waste))
            .route("/admin/v1/successors", get(successors::successors))
            .route("/admin/v1/drain", post(views::drain))
            .route("/admin/v1/reload", post(reload::reload))
            .route("/admin/v1/events", get(console::events))
            .layer(from_fn_with_state(Arc::clone(&self), guard::check_token))
            .layer(from_fn_with_state(Arc::clone(&self), guard::check_certificate))
            .layer(from_fn(guard::refuse_web_pages))
            .layer(from_fn_with_state(Arc::clone(&self), guard::check_host));
        // The page has no secret, and asks for the token.
        let page = Router::new()
            .route("/", get(assets::page))
            .route("/console/{*file}", get(assets::file))
            .layer(from_fn_with_state(Arc::clone(&self), guard::check_certificate))
            .layer(from_fn_with_state(Arc::clone(&self), guard::check_host));
        Router::new()
            .route("/livez", get(views::livez))
            .route("/readyz", get(views::readyz))
            .merge(guarded)
            .merge(page)
            .fallback(|| async {
                Problem::new(StatusCode::NOT_FOUND, "there is no such path").into_response()
            })
            .method_not_allowed_fallback(|| async {
                Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path has no such method").into_response()
            })
            .with_state(self)
    }
}

fn json(status: StatusCode, value: &serde_json::Value) -> Response {
    let mut response = Response::new(Body::from(format!("{value}\n")));
    *response.status_mut() = status;
    let content_type = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
