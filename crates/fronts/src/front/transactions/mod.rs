//! Explicit transactions over HTTP: `…/query/v2/tx`, as the server's own.
//!
//! | module | decides |
//! |---|---|
//! | `endpoint` | which paths and methods belong to a transaction |
//! | `requests` | what a request does to a transaction that this node holds |
//! | `statement` | whether the cache or Neo4j answers a statement, and the body of its result |
//! | `holder` | which node holds a transaction, and one hop to it |
//! | `messages` | the bytes of that hop |
//! | `refusals` | the responses when a request is not carried out |
//!
//! `crate::transactions` holds the transactions. A transaction is held by the node that began it. Any node takes a
//! request for it and asks the holder, whose answer it passes on.

pub(crate) mod endpoint;
mod holder;
pub mod messages;
mod refusals;
mod requests;
mod statement;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt;
use hopcache_core::limits::{REQUEST_BODY_BYTES_MAX, STRANGERS_BODY_BYTES_MAX};
use hopcache_engine::identity::Identity;
use hopcache_engine::outcome::{Answer, How};
use hopcache_engine::ports::Peers;
use hopcache_neo4j::relays::Relays;
use hopcache_net::body_budget::Reservation;
use hopcache_ops::labels;
use hopcache_ops::traces::RequestSpan;
use hopcache_queryapi::render::with_bookmark;
use http::header::ACCESS_CONTROL_ALLOW_ORIGIN;
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};

use self::endpoint::{Endpoint, Verb};
use self::holder::{Holder, RequestHistory};
use super::answer::{ANY_ORIGIN, Reply};
use super::arriving::read_body;
use super::refusal::Refusal;
use super::{Front, ask};
use crate::credentials::Standing;
use crate::databases::Databases;
use crate::transactions::OpenTransactions;

/// Plain data: the parts of a node that transactions over HTTP need beside the front's own.
pub struct TransactionParts {
    /// The transactions that this node holds.
    pub open: Arc<OpenTransactions>,
    /// Connections to Neo4j; `None` for the sample graph.
    pub relays: Option<Arc<Relays>>,
    /// Which database a client without a name for it is in.
    pub databases: Arc<Databases>,
    /// The way to other nodes.
    pub peers: Arc<dyn Peers>,
}

/// The front's part for transactions.
pub(super) struct Transactions {
    parts: TransactionParts,
    seen: RequestHistory,
}

impl Transactions {
    pub(super) fn new(parts: TransactionParts) -> Self {
        Self { parts, seen: RequestHistory::default() }
    }
}

/// A request that was read, from a sender whose credentials Neo4j has accepted.
struct ArrivedRequest {
    head: Parts,
    body: Bytes,
    room: Reservation,
    identity: Arc<Identity>,
    standing: Standing,
}

/// The response to a request about a transaction. It may have been made by another node.
#[derive(Debug)]
pub struct TransactionResponse {
    /// Its status.
    pub status: StatusCode,
    /// Those that its client gets.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// How it is counted; `None` for a request that was refused.
    pub how: Option<How>,
}

impl TransactionResponse {
    /// A response of this node.
    fn of(reply: Reply, how: Option<How>) -> Self {
        let (head, body) = reply.into_parts();
        // A whole body, which is there already.
        let body = body.collect().now_or_never().and_then(Result::ok);
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Self { status: head.status, headers: head.headers, body, how }
    }

    /// The same, with the bookmark of its commit.
    fn with_bookmark(self, bookmark: Option<&str>) -> Self {
        let body = bookmark.and_then(|bookmark| with_bookmark(&self.body, bookmark)).map(Bytes::from);
        Self { body: body.unwrap_or(self.body), ..self }
    }
}

impl Front {
    /// Answers a client's request about a transaction.
    pub(super) async fn answer_transaction(&self, request: Request<Incoming>, endpoint: Endpoint) -> Reply {
        let started = Instant::now();
        let (mut head, body) = request.into_parts();
        let mut span = self.state.traces.request(endpoint.route(), started, || ask::trace_of(&head));
        ask::set_traceparent(&mut head, span.as_ref().map(RequestSpan::traceparent));
        let handled = tokio::select! {
            biased;
            handled = self.handle_transaction(head, body, &endpoint) => handled,
            () = self.engine.lifecycle().turned_away() => Err(refusals::leaving(endpoint.verb)),
        };
        let how = handled.as_ref().ok().and_then(|handled| handled.how);
        let reply = self.reply_to_transaction(handled, endpoint.verb, started);
        if let Some(span) = &mut span {
            note_end(span, &endpoint, (how, reply.status().as_u16()));
        }
        reply
    }

    /// The response to a request about a transaction, which is counted.
    fn reply_to_transaction(
        &self,
        handled: Result<TransactionResponse, Refusal>,
        verb: Verb,
        started: Instant,
    ) -> Reply {
        let TransactionResponse { status, mut headers, body, how } = match handled {
            Ok(handled) => handled,
            Err(refusal) => return self.refuse(refusal),
        };
        let mut answer = Answer::Body(body);
        if !self.shared.outgoing.admit(&mut answer) {
            return self.refuse(refusals::too_many_answers(verb));
        }
        let Answer::Body(body) = answer else { return self.refuse(refusals::leaving(verb)) };
        match how {
            Some(how) => {
                self.state.meters.count(labels::Front::Http, &how, status.as_u16(), started.elapsed());
            }
            None => self.state.meters.count_rejected(labels::Front::Http, status.as_u16()),
        }
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
        let mut reply = Reply::new(Full::new(body));
        (*reply.status_mut(), *reply.headers_mut()) = (status, headers);
        reply
    }

    async fn handle_transaction(
        &self,
        head: Parts,
        body: Incoming,
        endpoint: &Endpoint,
    ) -> Result<TransactionResponse, Refusal> {
        let mut whose = None;
        if body.size_hint().upper().is_none_or(|bytes| bytes > STRANGERS_BODY_BYTES_MAX) {
            whose = Some(Box::pin(self.check_sender(&head)).await?.0.fingerprint);
        }
        // The holder may be another node, whose messages are as long.
        let budget = (&*self.shared.bodies, whose.as_ref());
        let (body, room) = read_body(body, REQUEST_BODY_BYTES_MAX, budget).await?;
        let (identity, standing) = self.check_sender(&head).await?;
        let arrived = ArrivedRequest { head, room: room.shrunk_to(body.len()), body, identity, standing };
        match self.holder_of(endpoint) {
            Holder::Here => Box::pin(self.carry_out(arrived, endpoint)).await,
            Holder::At(node) => Box::pin(self.ask_holder(&node, arrived, endpoint)).await,
        }
    }

    /// Carries a request out at this node.
    async fn carry_out(
        &self,
        arrived: ArrivedRequest,
        endpoint: &Endpoint,
    ) -> Result<TransactionResponse, Refusal> {
        match endpoint.verb {
            Verb::Open => Box::pin(self.open_transaction(arrived, endpoint)).await,
            Verb::Run => Box::pin(self.run_in_transaction(arrived, endpoint)).await,
            Verb::Commit => Box::pin(self.commit_transaction(arrived, endpoint)).await,
            Verb::RollBack => self.roll_back_transaction(&arrived, endpoint).await,
        }
    }
}

/// How a traced request has ended.
fn note_end(span: &mut RequestSpan, endpoint: &Endpoint, (how, status): (Option<How>, u16)) {
    if let Ok(database) = ask::database(&endpoint.database) {
        span.note_database(&database);
    }
    match how {
        Some(how) => {
            span.note_how(&how);
            span.note_status(Some(status));
        }
        None => span.refused(status),
    }
}
