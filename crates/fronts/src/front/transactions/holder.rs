//! Which node holds a transaction, and one hop to it. The name of a transaction has its holder's life.
//!
//! **A request is carried out once.** The link between nodes sends a message a second time when a kept connection or a
//! session has ended, and the holder may have carried out the first copy:
//!
//!   the entry node sends COMMIT · the holder commits · the connection breaks before its answer · the link sends COMMIT
//!   again · the holder knows its nonce, and says so · the client learns that the commit may have happened
//!
//! A holder that is gone has ended its transactions, and Neo4j rolls them back. So its transactions are unknown, unless a
//! COMMIT was on its way.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hopcache_core::limits::{
    HOLDER_LOOK_EVERY_MS, HOLDER_REQUESTS_SEEN_MAX, HOLDER_SILENT_LOOKS_MAX, PEER_BREAKER_PROBE_MS,
};
use hopcache_core::membership::MemberInfo;
use hopcache_core::node::NodeName;
use hopcache_core::tags::Touched;
use hopcache_core::time::Millis;
use hopcache_cypher::checks::graphs::may_hold_use;
use hopcache_engine::PendingWrite;
use hopcache_engine::event::ForwardWord;
use hopcache_engine::ports::{self, PeerError, WriteOf};
use hopcache_engine::trace::{Fact, Span, Step, Tracer as _};
use hopcache_net::body_budget::Reservation;
use hopcache_ops::labels;
use hopcache_queryapi::headers::cache_status::{self, Forward, Member};
use hopcache_queryapi::render::Encoding;
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use lru::LruCache;
use parking_lot::Mutex;
use rand::seq::IndexedRandom;

use super::endpoint::{Endpoint, Verb};
use super::messages::{HolderRequest, Nonce, SentRequest, decode_answer, encode_answer};
use super::refusals::{leaving, unanswered, unknown, unsent};
use super::{ArrivedRequest, TransactionResponse};
use crate::front::refusal::Refusal;
use crate::front::{Front, ask};
use crate::front_question::FrontQuestion;
use crate::transactions::TransactionId;

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Where a request is carried out.
pub(super) enum Holder {
    /// At this node, which may not know the transaction.
    Here,
    At(NodeName),
}

/// The requests of other nodes that this node has met.
pub(super) struct RequestHistory(Mutex<LruCache<Nonce, ()>>);

impl Default for RequestHistory {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(
            NonZeroUsize::new(HOLDER_REQUESTS_SEEN_MAX).unwrap_or(NonZeroUsize::MIN),
        )))
    }
}

impl RequestHistory {
    /// Whether this request comes for the first time.
    fn is_new(&self, nonce: Nonce) -> bool {
        self.0.lock().put(nonce, ()).is_none()
    }
}

impl Front {
    /// The node that holds the transaction of a request. A leaving node begins none: another node does.
    pub(super) fn holder_of(&self, endpoint: &Endpoint) -> Holder {
        let view = self.state.members.view();
        let me = &self.engine.me().node;
        if endpoint.verb == Verb::Open {
            if !self.state.leaving.is_cancelled() {
                return Holder::Here;
            }
            let others: Vec<&MemberInfo> =
                view.members.iter().filter(|member| member.is_routable() && member.name != *me).collect();
            return others
                .choose(&mut rand::rng())
                .map_or(Holder::Here, |other| Holder::At(other.name.clone()));
        }
        let Some(id) = TransactionId::parse(&endpoint.id) else { return Holder::Here };
        let holds = |member: &&MemberInfo| member.incarnation == id.holder && may_hold(member);
        match view.members.iter().find(holds) {
            Some(holder) if holder.name != *me => Holder::At(holder.name.clone()),
            _ => Holder::Here,
        }
    }

    /// Sends a request to the node that holds its transaction, and passes that node's answer on.
    pub(super) async fn ask_holder(
        &self,
        holder: &NodeName,
        arrived: ArrivedRequest,
        endpoint: &Endpoint,
    ) -> Result<TransactionResponse, Refusal> {
        let encoding = self.reader.accepted(&arrived.head.headers).unwrap_or(Encoding::Plain);
        let peers = &self.transactions.parts.peers;
        // Without an answer a request is in doubt. So the usual case, a holder that is dead or silent already, is found
        // first.
        match peers.probe(holder, Millis(PEER_BREAKER_PROBE_MS)).await {
            Ok(_) => {}
            Err(PeerError::Gone(_)) if endpoint.verb != Verb::Open => {
                return Err(unknown(endpoint, encoding));
            }
            Err(_) => return Err(unsent()),
        }
        let write = self.write_at_holder(&arrived, endpoint)?;
        let ArrivedRequest { mut head, body, room, .. } = arrived;
        let mut hop = self.begin_step(&mut head, Step::Forward);
        let request = FrontQuestion::Transaction(SentRequest::of(rand::random(), &head, &body)).encode();
        // The copy in the request is enough.
        drop((head, body, room));
        let within = self.reader.answer_timeout_ms(None);
        let answer = tokio::select! {
            biased;
            answer = peers.forward(holder, request, within) => answer,
            () = self.until_silent(holder) => Err(PeerError::TimedOut),
        };
        if let Some(hop) = &mut hop {
            hop.note(Fact::Peer(holder));
            hop.note(Fact::Forwarded(ForwardWord::from(&answer)));
        }
        drop(hop);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(%holder, %error, "no answer about a transaction");
                write.in_doubt().await;
                let is_gone = matches!(error, PeerError::Gone(_))
                    && matches!(endpoint.verb, Verb::Run | Verb::RollBack);
                return Err(if is_gone { unknown(endpoint, encoding) } else { unanswered(endpoint.verb) });
            }
        };
        let Some(mut handled) = decode_answer(&answer) else {
            write.in_doubt().await;
            return Err(unanswered(endpoint.verb));
        };
        if handled.how.is_none() && handled.status == StatusCode::SERVICE_UNAVAILABLE {
            // The holder leaves, or still works on the first copy of this request.
            write.in_doubt().await;
        } else {
            write.changed_nothing();
        }
        self.add_cache_status(&mut handled);
        Ok(handled)
    }

    /// Completes when the holder no longer answers looks. A run that waits for its turn first may take twice
    /// `origin.timeout`, and a client of a stopped holder should not wait for that.
    async fn until_silent(&self, holder: &NodeName) {
        let mut silent = 0;
        while silent < HOLDER_SILENT_LOOKS_MAX {
            tokio::time::sleep(Duration::from_millis(HOLDER_LOOK_EVERY_MS)).await;
            let looked = self.transactions.parts.peers.probe(holder, Millis(PEER_BREAKER_PROBE_MS)).await;
            silent = if looked.is_ok() { 0 } else { silent + 1 };
        }
    }

    /// The holder tells what a request has written. If its answer does not come, this node does, before its client is
    /// answered: a COMMIT may have happened, and a statement of an implicit transaction too. This node does not know the
    /// statements before a COMMIT, so one of them may have named a graph by itself.
    fn write_at_holder(
        &self,
        arrived: &ArrivedRequest,
        endpoint: &Endpoint,
    ) -> Result<PendingWrite, Refusal> {
        Ok(self.engine.writes().begin(WriteOf {
            database: ask::database(&endpoint.database)?.into(),
            identity: Arc::clone(&arrived.identity),
            impersonated: None,
            timeout_ms: self.reader.run_timeout_ms(),
            may_name_graph: match endpoint.verb {
                Verb::Commit => true,
                Verb::Open | Verb::Run => may_hold_use(&arrived.body),
                Verb::RollBack => false,
            },
            // The holder tells its parts. Of a failure it tells too.
            parts: ports::Parts::None,
            changes_rights: false,
            began: ports::WriteBegan::At(None),
            touched: Touched::Anything,
            // The holder counts its own write. This one only stands in for it.
            tokens: Some(Arc::from([])),
        }))
    }

    /// Answers another node's request about a transaction that this node holds. `None`: the request cannot be read.
    pub async fn serve_holder_request(&self, request: Option<HolderRequest>) -> Bytes {
        let handled = match request {
            Some(request) => Box::pin(self.answer_peer(request)).await,
            None => Err(unsent()),
        };
        let handled =
            handled.unwrap_or_else(|refusal| TransactionResponse::of(refusal.into_response(), None));
        encode_answer(&handled)
    }

    async fn answer_peer(&self, request: HolderRequest) -> Result<TransactionResponse, Refusal> {
        let HolderRequest { nonce, mut head, body } = request;
        let endpoint = Endpoint::of(&head.method, head.uri.path()).ok_or_else(unsent)?;
        if !self.transactions.seen.is_new(nonce) {
            return Err(unanswered(endpoint.verb));
        }
        let _serving = self.begin_step(&mut head, Step::Serve);
        let (identity, standing) = self.check_sender(&head).await?;
        // The message has its room in the budget of peers.
        let arrived = ArrivedRequest { head, body, room: Reservation::default(), identity, standing };
        tokio::select! {
            biased;
            handled = self.carry_out(arrived, &endpoint) => handled,
            () = self.engine.lifecycle().turned_away() => Err(leaving(endpoint.verb)),
        }
    }

    /// Begins a step of a traced request. What the request causes from here on is below it.
    fn begin_step(&self, head: &mut Parts, step: Step) -> Option<Box<dyn Span>> {
        let span = self.state.traces.begin(&ask::traceparent(head)?, step)?;
        ask::set_traceparent(head, Some(span.traceparent()));
        Some(span)
    }

    /// Adds this node to the nodes that the answer names.
    fn add_cache_status(&self, handled: &mut TransactionResponse) {
        let Some(status) = handled.headers.get(CACHE_STATUS).and_then(|value| value.to_str().ok()) else {
            return;
        };
        let mut status = status.to_owned();
        let mut member = Member::forward(self.engine.me().node.as_str(), Forward::Miss);
        member.detail = Some(labels::DETAIL_HOLDER);
        cache_status::append(&mut status, &member);
        if let Ok(value) = HeaderValue::from_str(&status) {
            handled.headers.insert(CACHE_STATUS, value);
        }
    }
}

/// Whether the known life of a member may still hold transactions. One that is silent, or that gossip has given up, may
/// only be stopped, or cut off: it is asked, and goes on with its transactions afterwards.
fn may_hold(member: &MemberInfo) -> bool {
    !(member.is_gone || member.has_left)
}
