//! The client listener: it reads requests of Neo4j's Query API v2, asks the engine, and writes Query API responses.
//!
//! | module | decides |
//! |---|---|
//! | [`ask`] | which query a request asks for, or why it is refused |
//! | [`request_cache`], [`known_ask`] | whether a request is byte for byte one that was read before |
//! | `arriving` | how long a body may take, and what room it has |
//! | `streamed` | the body of a result that is too large to be held |
//! | `answer_budget` | how many bytes of large answers are written at a time |
//! | [`answer`] | status, headers and body of an outcome |
//! | [`refusal`] | the same for a request that does not become a query |
//! | `auth_errors` | the same for credentials that Neo4j refused or could not check |
//! | `transactions` | explicit transactions, at this node or at the one that holds them |
//!
//! The engine, and not this module, decides whether, where and how a query is run or cached.
//! [`crate::credentials`] decides whether Neo4j accepts the sender's credentials.

pub mod answer;
pub(crate) mod answer_budget;
mod arriving;
pub mod ask;
mod auth_errors;
pub(crate) mod directives;
mod failure_texts;
pub mod known_ask;
mod preflight;
mod query_api_renderer;
pub mod refusal;
pub mod request_cache;
mod request_sizes;
mod shown_client;
mod shown_filter;
mod streamed;
pub mod transactions;

pub(crate) use query_api_renderer::QueryApiRenderer;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{MethodRouter, get, options};
use bytes::Bytes;
use hopcache_config::{OriginAuth, OriginUri, Settings};
use hopcache_core::limits::{LIVE_RUNS_MAX, STRANGERS_BODY_BYTES_MAX, body_room_bytes};
use hopcache_engine::ask::{Ask, RequestBypass};
use hopcache_engine::identity::Identity;
use hopcache_engine::outcome::{Answer, FailureKind, Outcome};
use hopcache_engine::ports::{Clock, Dice, Neo4jFailure, OriginFault};
use hopcache_engine::{Engine, TooLargeToHold};
use hopcache_neo4j::fault::{is_credential_refusal, must_change_password};
use hopcache_net::body_budget::{BodyBudget, Reservation};
use hopcache_net::client_addr;
use hopcache_net::crowding::{CrowdedBy, CrowdedOut};
use hopcache_net::listener::Answers;
use hopcache_ops::clock::{SystemClock, SystemDice};
use hopcache_ops::labels;
use hopcache_ops::logging::query_text;
use hopcache_ops::traces::AnsweredRequest;
use http::header::{CONNECTION, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;

use crate::bolt_front::advertised::AdvertisedAddrs;
use crate::credentials::{Credentials, Standing};
use crate::databases::Databases;
use crate::discovery::{self, Urls};
use crate::front::answer::Reply;
use crate::front::ask::{AskReader, AskedQuery, Raw};
use crate::front::known_ask::KnownAsk;
use crate::front::query_api_renderer::encoding_of;
use crate::front::refusal::Refusal;
use crate::front::request_cache::RequestCache;
use crate::front::transactions::endpoint::Endpoint;
use crate::front::transactions::{TransactionParts, Transactions};
use crate::neo4j_server::Neo4jServer;
use crate::parse_turns::ParseTurns;
use crate::senders::Senders;
use hopcache_state::audit::{self, ClientListener, LogOn};
use hopcache_state::host_check::{self, HostCheck};
use hopcache_state::node_state::NodeState;

/// A body of this listener. The answer to a query is a whole body without a box.
pub type FrontBody = Either<Full<Bytes>, Body>;

/// The name of a query's span: the method and the route (OpenTelemetry semantic conventions, HTTP spans).
const QUERY_ROUTE: &str = "POST /db/{database}/query/v2";

/// The client listener's state.
pub struct Front {
    state: Arc<NodeState>,
    engine: Arc<Engine>,
    clock: Arc<SystemClock>,
    reader: AskReader,
    remembered: Arc<RequestCache<KnownAsk>>,
    shared: FrontShared,
    transactions: Transactions,
    /// The scheme of this listener's URLs.
    scheme: &'static str,
    /// Where Bolt clients reach this node, for the discovery document.
    bolt: Option<AdvertisedAddrs>,
    _sweeper: AbortOnDropHandle<()>,
}

/// Plain data: the parts that all fronts of a node share.
#[derive(Clone)]
pub struct FrontShared {
    /// The identities of senders.
    pub senders: Arc<Senders>,
    /// The accepted credentials.
    pub credentials: Arc<Credentials>,
    /// Bytes of large answers that are being written.
    pub(crate) outgoing: Arc<answer_budget::AnswerBudget>,
    /// Places of results that are streamed while their runs go on.
    pub(crate) live_runs: Arc<Semaphore>,
    /// Bytes of large requests that are read, or belong to a run.
    pub(crate) bodies: Arc<BodyBudget>,
    /// Largest message or body of a client.
    pub(crate) message_bytes_max: usize,
    /// Turns for reading large requests.
    pub(crate) parses: Arc<ParseTurns>,
    /// Neo4j's answers about databases.
    pub databases: Arc<Databases>,
    /// Neo4j's version and edition.
    pub(crate) server: Arc<Neo4jServer>,
    /// The hosts that a request may name. Present where no check of the sender follows: this node runs every statement as
    /// its own user, or there is no Neo4j.
    pub hosts: Option<Arc<HostCheck>>,
}

impl FrontShared {
    /// Whether clients need no credentials: this node runs every statement as its own user, or there is no Neo4j.
    pub(crate) fn asks_for_no_secret(&self) -> bool {
        self.hosts.is_some()
    }

    /// Neo4j has refused a statement or a log-on just now. If it refused the credentials, they are checked again.
    pub(crate) fn refused_by_neo4j(
        &self,
        identity: &Arc<Identity>,
        error: &Neo4jFailure,
        listener: ClientListener,
    ) {
        if is_credential_refusal(error) {
            audit::credentials(identity, LogOn::Refused, &error.code, listener);
            self.credentials.distrust(identity);
        } else if must_change_password(error) {
            self.credentials.ask_again(identity);
        }
    }

    /// The shared parts of a node that begins.
    pub fn new(
        (senders, credentials): (Arc<Senders>, Arc<Credentials>),
        (databases, server): (Arc<Databases>, Arc<Neo4jServer>),
        settings: &Settings,
    ) -> Self {
        let asks_for_no_secret = matches!(settings.origin.auth, OriginAuth::Service { .. })
            || settings.origin.uri == OriginUri::Embedded;
        let message_bytes_max = settings.node.message_bytes_max;
        Self {
            senders,
            credentials,
            databases,
            server,
            outgoing: Arc::default(),
            live_runs: Arc::new(Semaphore::new(LIVE_RUNS_MAX)),
            bodies: Arc::new(BodyBudget::new(body_room_bytes(message_bytes_max), message_bytes_max)),
            message_bytes_max,
            parses: Arc::new(ParseTurns::new()),
            hosts: asks_for_no_secret.then(|| Arc::new(HostCheck::new(settings))),
        }
    }
}

impl Front {
    /// Makes the client listener's state. It shares `FrontShared` with the other fronts of the node. It must be called
    /// inside a tokio runtime, because it owns a task that removes cached requests of senders that are not accepted any
    /// more.
    #[must_use]
    pub fn new(
        state: Arc<NodeState>,
        shared: FrontShared,
        (transactions, bolt): (TransactionParts, Option<AdvertisedAddrs>),
        settings: &Settings,
        clock: Arc<SystemClock>,
    ) -> Arc<Self> {
        let engine = Arc::clone(&state.engine);
        let remembered = Arc::new(RequestCache::new(SystemDice.u64()));
        let sweeper_clock: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        let sweeping = request_cache::sweep_for_ever(Arc::clone(&remembered), sweeper_clock);
        Arc::new(Self {
            reader: AskReader::new(
                &engine,
                (Arc::clone(&shared.senders), Arc::clone(&shared.server)),
                settings,
            ),
            remembered,
            shared,
            transactions: Transactions::new(transactions),
            scheme: if settings.node.client_tls.is_some() { "https" } else { "http" },
            bolt,
            _sweeper: AbortOnDropHandle::new(tokio::spawn(sweeping)),
            engine,
            state,
            clock,
        })
    }

    /// Forgets how requests were read: the operator has changed what counts as a read.
    pub fn forget_readings(&self) {
        self.remembered.forget();
    }

    /// The listener's service. Queries are nearly all requests. They go directly to `Front::answer`, without routing,
    /// extraction and boxes; the gain was not measured alone (docs/benchmarks/2026-11-21-hit). Other requests go through
    /// axum's router.
    pub fn service(self: Arc<Self>) -> impl Answers<FrontBody> {
        let routes = Arc::clone(&self).routes();
        let served = Arc::new((self, routes));
        service_fn(move |request: Request<Incoming>| {
            let served = Arc::clone(&served);
            async move {
                let (front, routes) = &*served;
                if let Err(fault) = host_check::check(front.shared.hosts.as_deref(), &request) {
                    return Ok(front.refuse_and_close(Refusal::host(fault)).map(Either::Left));
                }
                if is_query(&request) {
                    return Ok(front.answer(request).await);
                }
                if let Some(endpoint) = Endpoint::of(request.method(), request.uri().path()) {
                    let answered = Box::pin(front.answer_transaction(request, endpoint));
                    return Ok(answered.await.map(Either::Left));
                }
                let answered = Box::pin(routes.clone().oneshot(request)).await;
                answered.map(|response| response.map(Either::Right))
            }
        })
    }

    fn routes(self: Arc<Self>) -> Router {
        Router::new()
            .route("/", get(give_discovery).options(preflight::of_discovery))
            .route("/db/{database}/query/v2", not_posts())
            .route("/db/{database}/query/v2/", not_posts())
            .route("/db/{database}/query/v2/tx", not_posts())
            .route("/db/{database}/query/v2/tx/", not_posts())
            .route("/db/{database}/query/v2/tx/{id}", not_on_transactions())
            .route("/db/{database}/query/v2/tx/{id}/", not_on_transactions())
            .route("/db/{database}/query/v2/tx/{id}/commit", not_posts())
            .route("/db/{database}/query/v2/tx/{id}/commit/", not_posts())
            .fallback(answer::not_found)
            .with_state(self)
    }

    async fn answer(&self, request: Request<Incoming>) -> http::Response<FrontBody> {
        let (started, came) = (Instant::now(), self.clock.now());
        let (head, body) = request.into_parts();
        let mut span = self.state.traces.request(QUERY_ROUTE, started, || ask::trace_of(&head));
        let asked = tokio::select! {
            biased;
            asked = self.asked(head, body) => asked,
            () = self.engine.lifecycle().turned_away() => Err(Refusal::leaving()),
        };
        let AskedQuery { mut ask, filter } = match asked {
            Ok(asked) => asked,
            Err(refusal) => {
                let refused = self.refuse(refusal);
                if let Some(mut span) = span {
                    span.refused(refused.status().as_u16());
                }
                return refused.map(Either::Left);
            }
        };
        if let Some(span) = &span {
            ask.traceparent = Some(span.traceparent());
        }
        let mut outcome = match self.engine.path().request_held(&ask, came).await {
            Ok(outcome) => outcome,
            Err(TooLargeToHold) => {
                let shown = filter.as_ref();
                match Box::pin(self.stream(&mut ask, shown, (started, &mut span))).await {
                    Ok(streamed) => return streamed,
                    Err(outcome) => outcome,
                }
            }
        };
        self.take_note(&ask, &outcome);
        if let Some(filter) = &filter {
            answer::filter(&mut outcome, &ask, filter);
        }
        tracing::debug!(
            statement = query_text(&ask.query.statement),
            key = ?ask.query.key,
            how = ?outcome.how,
            "answered"
        );
        let me = &self.engine.me().node;
        let response = if is_unreachable(&outcome) && self.state.origin.refuses_us() {
            answer::with_cache_status(auth_errors::own_log_on_refused(), &outcome, me)
        } else if self.shared.outgoing.admit(&mut outcome.answer) {
            let encoding = filter.map_or_else(|| encoding_of(ask.rendering), |filter| filter.form.encoding);
            answer::of_outcome(&outcome, encoding, me)
        } else {
            answer::of_unsent(&outcome, me)
        };
        let (took, status) = (started.elapsed(), response.status().as_u16());
        let front = labels::Front::Http;
        let (query, outcome, traceparent) = (&ask.query, &outcome, ask.traceparent.as_deref());
        let answered = AnsweredRequest { front, query, outcome, status, took, traceparent };
        self.state.answered(&answered, span.as_mut());
        response.map(Either::Left)
    }

    /// The query of a request: reads the whole request, from a sender whose credentials Neo4j has accepted.
    async fn asked(&self, head: Parts, body: Incoming) -> Result<AskedQuery, Refusal> {
        // A stranger may fill a small buffer, not a large one. A body this large is not among the cached requests
        // either, so its sender is looked up twice; see `ask_anew`.
        let mut whose = None;
        if body.size_hint().upper().is_none_or(|bytes| bytes > STRANGERS_BODY_BYTES_MAX) {
            whose = Some(Box::pin(self.check_sender(&head)).await?.0.fingerprint);
        }
        let budget = (&*self.shared.bodies, whose.as_ref());
        let (body, room) = arriving::read_body(body, self.shared.message_bytes_max, budget).await?;
        // The body is not held while the query runs: the ask has all of it.
        self.ask_of(head, body, room).await
    }

    /// The query of a request, from the request cache or by reading, from a sender whose credentials Neo4j has
    /// accepted.
    async fn ask_of(&self, head: Parts, body: Bytes, room: Reservation) -> Result<AskedQuery, Refusal> {
        let now = self.clock.now();
        let raw = Raw::of(&head, &body);
        if let Some(bytes) = raw.bytes()
            && let Some(known) = self.remembered.find(bytes)
            && self.shared.credentials.serves(&known.acceptance, now)
        {
            self.shared.credentials.check_ahead(&known.read.query().identity, &known.acceptance, now);
            let mut ask = known.read.ask();
            ask.deadline = now + self.reader.answer_timeout_ms(ask.run_ms_max);
            ask.traceparent = ask::traceparent(&head);
            ask.session = self.reader.session(&head)?;
            shown_client::name(&mut ask, &head, &self.engine.me().node);
            return Ok(AskedQuery { ask, filter: None });
        }
        let room = room.shrunk_to(body.len());
        Box::pin(self.ask_anew(&raw, &head, &body, room)).await
    }

    async fn ask_anew(
        &self,
        raw: &Raw,
        head: &Parts,
        body: &Bytes,
        room: Reservation,
    ) -> Result<AskedQuery, Refusal> {
        // First the sender, then the statement, as on the server: a stranger's body is not even parsed.
        let (identity, standing) = self.check_sender(head).await?;
        let read = || self.reader.read(head, body, room, self.clock.now());
        let parsed = self.shared.parses.read(body.len(), &identity.fingerprint, read).await;
        let AskedQuery { mut ask, filter } = parsed.map_err(crowded_out)??;
        // A remembered request has no filter and no metadata, and was read by the version of a Neo4j that has told it.
        let is_plain = filter.is_none() && ask.metadata.is_none();
        match (standing, raw.bytes().filter(|_| is_plain && self.reader.knows_server())) {
            (Standing::Accepted(acceptance), Some(bytes)) => {
                let known = KnownAsk::of(&ask);
                self.remembered.remember(bytes, known.weight_bytes(), || (known, acceptance));
            }
            (Standing::Accepted(_), None) => {}
            // Neo4j answers, and the cache neither gives nor keeps anything.
            (Standing::MustChangePassword, _) => {
                ask.bypass.get_or_insert(RequestBypass::NoStore);
            }
        }
        shown_client::name(&mut ask, head, &self.engine.me().node);
        Ok(AskedQuery { ask, filter })
    }

    async fn check_sender(&self, head: &Parts) -> Result<(Arc<Identity>, Standing), Refusal> {
        let identity = self.reader.sender(head)?;
        match self.shared.credentials.check(&identity).await {
            Ok(standing) => Ok((identity, standing)),
            Err(error) => {
                audit::log_on_failed(&identity, &error.kind, ClientListener::Http);
                Err(Refusal::Credentials(error.kind, identity.credentials.clone()))
            }
        }
    }

    fn take_note(&self, ask: &Ask, outcome: &Outcome) {
        if let Answer::Failed(failure) = &outcome.answer
            && let FailureKind::Neo4j(error) = &failure.kind
        {
            self.shared.refused_by_neo4j(&ask.query.identity, error, ClientListener::Http);
        }
    }

    /// Refuses a request that a proxy may have changed, and all requests behind it.
    fn refuse_and_close(&self, refusal: Refusal) -> Reply {
        let mut reply = self.refuse(refusal);
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        reply
    }

    fn refuse(&self, refusal: Refusal) -> Reply {
        let response = match refusal {
            Refusal::Credentials(OriginFault::Unreachable(_), _) if self.state.origin.refuses_us() => {
                auth_errors::own_log_on_refused()
            }
            refusal => refusal.into_response(),
        };
        self.state.meters.count_rejected(labels::Front::Http, response.status().as_u16());
        response
    }
}

/// The methods on the path of queries that are not POST.
fn not_posts() -> MethodRouter<Arc<Front>> {
    options(preflight::of_queries).fallback(answer::method_not_allowed)
}

/// The methods on the path of one transaction that are neither POST nor DELETE.
fn not_on_transactions() -> MethodRouter<Arc<Front>> {
    options(preflight::of_transactions).fallback(answer::method_not_allowed_of_transaction)
}

/// Whether a request posts a query: `/db/{database}/query/v2`. Like the server it accepts a slash at the end.
fn is_query<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    let path = path.strip_suffix('/').unwrap_or(path);
    let rest = path.strip_prefix("/db/").and_then(|path| path.strip_suffix("/query/v2"));
    request.method() == Method::POST && rest.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

async fn give_discovery(State(front): State<Arc<Front>>, headers: HeaderMap) -> Reply {
    let header = |name| headers.get(name).and_then(|text: &HeaderValue| text.to_str().ok());
    let own = (front.scheme, header("host").unwrap_or("localhost"));
    let written = match client_addr::is_listed_proxy() {
        true => (header("x-forwarded-proto"), header("x-forwarded-host")),
        false => (None, None),
    };
    let (scheme, host) = discovery::forwarded(own, written);
    let bolt = front.bolt.as_ref().map(|bolt| bolt.beside(client_addr::of_request(), &host));
    let urls = Urls {
        http: Some((scheme, &host)),
        bolt: bolt.as_deref(),
        // The Bolt listener has TLS exactly where this one has it.
        is_bolt_tls: front.scheme == "https",
    };
    let document = discovery::document(&urls, &front.shared.server, &front.engine.me().node).await;
    let mut response = answer::plain(StatusCode::OK, answer::JSON, document.into());
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

fn is_unreachable(outcome: &Outcome) -> bool {
    matches!(&outcome.answer, Answer::Failed(failure) if failure.kind == FailureKind::OriginUnreachable)
}

fn crowded_out(why: CrowdedOut) -> Refusal {
    let (status, code) = match why.by {
        CrowdedBy::Own => (StatusCode::TOO_MANY_REQUESTS, "Hopcache.ClientError.TooManyRequests"),
        CrowdedBy::All => (StatusCode::SERVICE_UNAVAILABLE, "Hopcache.TransientError.Overloaded"),
    };
    Refusal::own(status, code, why.to_string())
}
