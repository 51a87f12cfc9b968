//! Calls to other nodes: the messages and their codec, one way to ask, and the breakers of peers.
//!
//! It decides how a question travels and how its answer is read. It never decides which node to ask (the ring does), or
//! what an answer means.

mod breakers;
pub mod message;
mod question;

use std::sync::Arc;

use hopcache_core::breaker::{Admission, CallReport};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::time::Millis;

use crate::model::context::Context;
use crate::model::ports::{PeerError, Peers, Routing};
use crate::peers::breakers::PeerBreakers;

pub(crate) use question::{
    PeerQuestion, coming, fields, flush_waste, forward, inspect, observed, orders, plans, pull, purge, tally,
    wanted, written,
};

/// Asks other nodes.
pub struct PeerCalls {
    context: Context,
    peers: Arc<dyn Peers>,
    routing: Arc<dyn Routing>,
    breakers: PeerBreakers,
}

impl PeerCalls {
    pub(crate) fn new(context: &Context, peers: Arc<dyn Peers>, routing: Arc<dyn Routing>) -> Arc<Self> {
        Arc::new(Self { context: context.clone(), peers, routing, breakers: PeerBreakers::default() })
    }

    /// Asks a node once, and waits at most `within` for its answer. An answer that cannot be read counts as a refusal.
    ///
    /// The port has a deadline too, which an implementation may count from when it has a connection. So this one counts
    /// from the start.
    pub(crate) async fn ask<A>(
        &self,
        to: &NodeName,
        question: PeerQuestion<A>,
        within: Millis,
    ) -> Result<A, PeerError> {
        let answer = tokio::select! {
            biased;
            answer = self.peers.forward(to, question.message, within) => answer?,
            () = self.context.sleep(within) => return Err(PeerError::TimedOut),
        };
        (question.read)(&answer).map_err(|why| PeerError::Refused(why.to_string()))
    }

    /// Whether a node is alive: its incarnation, or why it could not be reached.
    pub(crate) async fn probe(&self, node: &NodeName, within: Millis) -> Result<Incarnation, PeerError> {
        self.peers.probe(node, within).await
    }

    /// Permission to send a client's request to this node; `None` while its breaker is open.
    pub(crate) fn admit(self: &Arc<Self>, to: &NodeName) -> Option<AdmittedCall> {
        let call = self.may_ask(to)?;
        Some(AdmittedCall { calls: Arc::clone(self), to: to.clone(), call, report: CallReport::Abandoned })
    }
}

/// An admitted request. Dropped with its request, it is no evidence about the node.
pub(crate) struct AdmittedCall {
    calls: Arc<PeerCalls>,
    to: NodeName,
    call: Admission,
    report: CallReport,
}

impl AdmittedCall {
    /// Notes the request's answer for the node's breaker.
    pub(crate) fn ended<T>(mut self, answer: &Result<T, PeerError>) {
        self.report = if answer.is_ok() { CallReport::Answered } else { CallReport::Failed };
    }
}

impl Drop for AdmittedCall {
    fn drop(&mut self) {
        self.calls.answered(&self.to, self.call, self.report);
    }
}
