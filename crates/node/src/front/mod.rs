//! The client listener: Neo4j's Query API v2 in, engine, Query API out.
//!
//! | module | decides |
//! |---|---|
//! | [`ask`] | what a request asks, or why it is refused |
//! | [`remembered`] | that a request is byte for byte one that was read before |
//! | [`credentials`] | whether its sender is who it says |
//! | [`answer`] | status, headers and body of an outcome |
//!
//! Never here: whether, where and how a query is run or cached. That is the engine's.

pub mod answer;
pub mod ask;
pub mod credentials;
pub mod remembered;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{RouterIntoService, any, get, post};
use bytes::Bytes;
use hopcache_core::limits::{BODY_TIMEOUT_MS, REQUEST_BODY_BYTES_MAX};
use hopcache_core::time::Millis;
use hopcache_engine::Engine;
use hopcache_engine::ask::Ask;
use hopcache_engine::outcome::{Answer, FailureKind, Outcome};
use hopcache_engine::ports::{Clock, Dice};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};

use crate::clock::{SystemClock, SystemDice};
use crate::config::Settings;
use crate::front::answer::Refusal;
use crate::front::ask::{AskReader, Raw};
use crate::front::credentials::Credentials;
use crate::front::remembered::RememberedRequests;
use crate::node::Standing;

/// The client listener's state.
pub struct Front {
    standing: Arc<Standing>,
    engine: Arc<Engine>,
    clock: Arc<SystemClock>,
    reader: AskReader,
    remembered: RememberedRequests,
    credentials: Credentials,
}

impl Front {
    /// A front of a node that has just been put together.
    #[must_use]
    pub fn new(standing: Arc<Standing>, settings: &Settings, clock: Arc<SystemClock>) -> Arc<Self> {
        let engine = Arc::clone(&standing.engine);
        Arc::new(Self {
            reader: AskReader::new(&engine, settings),
            remembered: RememberedRequests::new(SystemDice.u64()),
            credentials: Credentials::new(settings.entry.stale_if_error),
            engine,
            standing,
            clock,
        })
    }

    /// The listener's routes.
    pub fn service(self: Arc<Self>) -> RouterIntoService<hyper::body::Incoming> {
        Router::new()
            .route("/", get(discovery))
            .route("/db/{database}/query/v2", post(query).fallback(answer::method_not_allowed))
            .route("/db/{database}/query/v2/tx", any(answer::no_transactions))
            .route("/db/{database}/query/v2/tx/{*rest}", any(answer::no_transactions))
            .fallback(answer::not_found)
            .with_state(self)
            .into_service()
    }

    async fn answer(&self, request: Request<Body>) -> Response {
        let started = Instant::now();
        let (head, body) = request.into_parts();
        let body = match read_body(body).await {
            Ok(body) => body,
            Err(refusal) => return self.refuse(refusal),
        };
        let raw = Raw::of(&head, &body);
        let ask = match self.ask_of(&raw, &head, &body).await {
            Ok(ask) => ask,
            Err(refusal) => return self.refuse(refusal),
        };
        let outcome = match self.engine.hit(&ask) {
            Some(outcome) => outcome,
            None => self.engine.answer(&ask).await,
        };
        self.take_note(&ask, &outcome);
        let response = answer::of_outcome(&outcome, ask.form.encoding, &self.engine.me().node);
        self.standing.meters.count(&outcome, response.status().as_u16(), started.elapsed());
        response
    }

    /// What is asked, by memory or by reading, from a sender who is who it says.
    async fn ask_of(&self, raw: &Raw, head: &http::request::Parts, body: &Bytes) -> Result<Ask, Refusal> {
        let now = self.clock.now();
        if let Some(bytes) = raw.bytes()
            && let Some(known) = self.remembered.find(bytes)
            && known.belief.holds(now)
        {
            let mut ask = known.ask.clone();
            ask.deadline = now + self.reader.patience_ms();
            ask.traceparent = ask::traceparent(head);
            ask.session = self.reader.session(head)?;
            return Ok(ask);
        }
        let ask = self.reader.read(head, body, now)?;
        let belief = self.believe(&ask).await?;
        if let Some(bytes) = raw.bytes() {
            self.remembered.remember(bytes, ask.clone(), belief);
        }
        Ok(ask)
    }

    async fn believe(&self, ask: &Ask) -> Result<Arc<credentials::Belief>, Refusal> {
        let identity = &ask.query.identity;
        let checked = self.credentials.check(identity, &*self.standing.origin, || self.clock.now()).await;
        checked.map_err(|error| Refusal::Credentials(error.kind, identity.credentials.clone()))
    }

    fn take_note(&self, ask: &Ask, outcome: &Outcome) {
        let Answer::Failed(failure) = &outcome.answer else {
            if !matches!(outcome.how.class, hopcache_engine::outcome::Class::Hit) {
                self.standing.is_origin_reachable.store(true, Ordering::Relaxed);
            }
            return;
        };
        match &failure.kind {
            FailureKind::OriginUnreachable => {
                self.standing.is_origin_reachable.store(false, Ordering::Relaxed);
            }
            FailureKind::Neo4j(said) if said.code.starts_with("Neo.ClientError.Security.") => {
                self.credentials.distrust(&ask.query.identity);
            }
            _ => {}
        }
    }

    fn refuse(&self, refusal: Refusal) -> Response {
        let response = refusal.into_response();
        self.standing.meters.count_rejected(response.status().as_u16());
        response
    }
}

/// How long a client waits at the most: a run's own deadline, and as much again for the run before it
/// that may have to end first.
pub(crate) fn patience_ms(run_timeout_ms: Millis) -> Millis {
    Millis(run_timeout_ms.0.saturating_mul(2).saturating_add(1_000))
}

async fn query(State(front): State<Arc<Front>>, request: Request<Body>) -> Response {
    front.answer(request).await
}

async fn discovery(State(front): State<Arc<Front>>, request: Request<Body>) -> Response {
    let host = request.headers().get(http::header::HOST).and_then(|host| host.to_str().ok());
    answer::discovery(host.unwrap_or("localhost"), &front.engine.me().node)
}

/// The whole body, within its bounds of size and time (F31).
async fn read_body(body: Body) -> Result<Bytes, Refusal> {
    let collected = Limited::new(body, REQUEST_BODY_BYTES_MAX).collect();
    match tokio::time::timeout(Duration::from_millis(BODY_TIMEOUT_MS), collected).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(Refusal::own(
            StatusCode::PAYLOAD_TOO_LARGE,
            "Hopcache.ClientError.RequestTooLarge",
            format!(
                "The request body is over {REQUEST_BODY_BYTES_MAX} bytes. Send large data in several requests."
            ),
        )),
        Ok(Err(_)) => Err(Refusal::own(
            StatusCode::BAD_REQUEST,
            "Hopcache.ClientError.BodyCut",
            "The request body ended before its announced length.".to_owned(),
        )),
        Err(_) => Err(Refusal::own(
            StatusCode::REQUEST_TIMEOUT,
            "Hopcache.ClientError.BodyTooSlow",
            format!("The request body did not arrive within {BODY_TIMEOUT_MS} ms."),
        )),
    }
}
