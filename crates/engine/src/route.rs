//! One hop to the owner, and what to do when it does not answer.
//!
//! Requests of this node's clients for one key share one forward, as they share one flight at the
//! owner. These shared forwards are a table of their own that no forwarded request ever looks into,
//! so two nodes that take each other for the owner cannot wait for each other (promise I8).

use std::sync::Arc;

use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};

use crate::ask::{Ask, Freshness};
use crate::engine::Engine;
use crate::flight::{Seat, Wait};
use crate::here::Here;
use crate::message::{self, Reply};
use crate::outcome::{Answer, Class, Event, FailureKind, ForwardWord, Role};
use crate::ports::PeerError;

/// How a forward ended.
#[derive(Debug, Clone)]
pub(crate) enum Hop {
    /// The node answered.
    Answered(Here),
    /// It cannot be asked; the next node of the ring is.
    NextNode,
}

/// How a shared forward ended, and when it had been sent.
#[derive(Debug)]
pub(crate) struct SharedHop {
    pub(crate) sent: MonoTime,
    pub(crate) hop: Hop,
}

impl Engine {
    pub(crate) async fn forward(self: &Arc<Self>, ask: &Ask, to: &NodeName) -> Hop {
        if ask.freshness != Freshness::default() {
            return self.ask_alone(ask, to).await;
        }
        let joined = self.now();
        let (follower, role) = match self.forwards.join(&(ask.query.key, ask.form)) {
            Seat::Full => {
                return Hop::Answered(Here::Answered(self.failed(
                    ask,
                    FailureKind::Overloaded.into(),
                    Role::Joined,
                )));
            }
            Seat::Follow(follower) => (follower, Role::Joined),
            Seat::Lead(leader) => {
                let follower = leader.follow();
                let (engine, ask, to) = (Arc::clone(self), ask.clone(), to.clone());
                let sent = self.now();
                self.tasks.spawn(async move {
                    let hop = engine.ask_peer(&ask, &to).await;
                    leader.land(Arc::new(SharedHop { sent, hop }));
                });
                (follower, Role::Led)
            }
        };
        let left = ask.deadline.since(self.now());
        tokio::select! {
            biased;
            end = follower.wait() => match end {
                // With this request's own deadline and credentials, once: a second failure is its own.
                Wait::Landed(shared) if role == Role::Joined && self.is_leaders_own(ask, &shared, joined) => {
                    self.ask_alone(ask, to).await
                }
                Wait::Landed(shared) => self.as_role(&shared.hop, role),
                Wait::Lost => Hop::NextNode,
            },
            () = self.ports.clock.sleep(left) => {
                let failure = FailureKind::DeadlinePassed.into();
                Hop::Answered(Here::Answered(self.failed(ask, failure, role)))
            }
        }
    }

    /// Asks for this request only, by its own deadline: the margin that [`Engine::ask_peer`] gives an answer on
    /// its way, once for each node of the ring that is silent, is not the client's to wait for.
    async fn ask_alone(self: &Arc<Self>, ask: &Ask, to: &NodeName) -> Hop {
        let left = ask.deadline.since(self.now());
        tokio::select! {
            biased;
            hop = self.ask_peer(ask, to) => hop,
            () = self.ports.clock.sleep(left) => {
                let failure = FailureKind::DeadlinePassed.into();
                Hop::Answered(Here::Answered(self.failed(ask, failure, Role::Led)))
            }
        }
    }

    /// Asks, and stops waiting as soon as the node is known to be out of routing: a stopped process
    /// keeps its connections open and would be waited for until the request's own deadline (I7).
    async fn ask_peer(self: &Arc<Self>, ask: &Ask, to: &NodeName) -> Hop {
        let left_ms = ask.deadline.since(self.now());
        let epoch = self.ports.routing.view().epoch();
        let message = message::encode_ask(ask, left_ms, epoch);
        // The owner answers a passed deadline itself; the margin is for its answer's way back.
        let timeout_ms = Millis(left_ms.0.saturating_add(500));
        let answer = tokio::select! {
            biased;
            answer = self.ports.peers.forward(to, message, timeout_ms) => answer,
            () = self.ports.routing.lost(to) => Err(PeerError::TimedOut),
        };
        let reply = answer.and_then(|bytes| {
            message::decode_reply(&bytes).map_err(|why| PeerError::Refused(why.to_string()))
        });
        self.note(Event::Forward(match &reply {
            Ok(_) => ForwardWord::Answered,
            Err(PeerError::Gone(_)) => ForwardWord::Gone,
            Err(PeerError::TimedOut) => ForwardWord::TimedOut,
            Err(PeerError::Refused(_)) => ForwardWord::Refused,
        }));
        match reply {
            Ok(Reply::Answered(mut outcome)) => {
                outcome.key = ask.query.key;
                outcome.answered_by = Some(to.clone());
                Hop::Answered(Here::Answered(outcome))
            }
            Ok(Reply::NotARead(reason)) => Hop::Answered(Here::NotARead(reason)),
            Err(error) => {
                self.ports.routing.report(to, &error);
                Hop::NextNode
            }
        }
    }

    /// Whether a shared answer is nothing for those who joined: it was on its way for longer than it may
    /// be old (I4), or it failed by the leader's circumstances (its deadline, its credentials, its
    /// luck) and not by the statement.
    ///
    /// When the owner answered cannot be known, only that it was after the forward was sent. So what joined later
    /// takes the time between for the answer's: the owner answers · this process is stopped for 20 s · it goes
    /// on, a client comes and joins · the answer is read from the socket, 20 s old and saying 1 s.
    fn is_leaders_own(&self, ask: &Ask, shared: &SharedHop, joined: MonoTime) -> bool {
        let Hop::Answered(Here::Answered(outcome)) = &shared.hop else { return false };
        let on_its_way = joined.since(shared.sent);
        let is_old = |age_ms: Millis| self.is_too_old(ask, Millis(age_ms.0.saturating_add(on_its_way.0)));
        match &outcome.answer {
            Answer::Body(_) => outcome.how.age_ms.is_some_and(is_old),
            Answer::Failed(failure) => !failure.kind.is_of_statement() && !failure.kind.is_of_key(),
        }
    }

    /// The same end, as seen by one who joined.
    fn as_role(&self, hop: &Hop, role: Role) -> Hop {
        let mut hop = hop.clone();
        if role == Role::Joined
            && let Hop::Answered(Here::Answered(outcome)) = &mut hop
            && let Class::Miss { role, .. } = &mut outcome.how.class
        {
            *role = Role::Joined;
            self.note(Event::Joined);
        }
        hop
    }
}
