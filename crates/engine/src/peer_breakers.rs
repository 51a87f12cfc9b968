//! Peers that requests leave out for now, since they failed again and again: a breaker for each.
//!
//! Membership decides who is in the ring, by connections and probes. This is about a peer that is there and no use: it
//! answers probes and no questions, refuses, or speaks another version. Each request for its keys would wait for it
//! first, up to its own deadline. So after some failures in a row requests go to the next node of the ring at once,
//! under the same leases, and one question at a time that costs the peer no run finds out when it is well again: no client's request
//! is the probe, since it could wait for the whole of its deadline.
//!
//! Only requests open a breaker, several of them in a row. That membership loses a peer while it is asked is one such
//! failure and no more: its probes are short, and fail as well where this process, or the whole machine, had no CPU to
//! send or to read them. A probe that fails keeps a breaker open that requests have opened.
//!
//! Never decides who owns a key, and takes nobody out of the ring. Purges and `explain` ask whom they like.

use std::collections::BTreeMap;
use std::convert::Infallible;

use futures_util::future::join_all;
use hopcache_core::breaker::{Admission, Breaker, BreakerSettings, BreakerState, CallReport};
use hopcache_core::key::QueryKey;
use hopcache_core::limits;
use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::engine::Engine;
use crate::message;
use crate::outcome::Event;
use crate::peer_side::decode_inspection;
use crate::ports::PeerError;

const SETTINGS: BreakerSettings = BreakerSettings {
    failures_max: limits::PEER_BREAKER_FAILURES_MAX,
    apart_ms: Millis(limits::PEER_BREAKER_APART_MS),
    open_ms: Millis(limits::PEER_BREAKER_OPEN_MS),
    probe_ms_max: Millis(limits::PEER_BREAKER_PROBE_MS_MAX),
};

/// The breakers of the peers that were asked; of members of the ring, and for a minute of those that left it.
#[derive(Default)]
pub(crate) struct PeerBreakers {
    by_name: Mutex<BTreeMap<NodeName, Guard>>,
    opened: Notify,
}

struct Guard {
    breaker: Breaker,
    /// When it was last in the ring, as far as somebody looked.
    in_ring_at: MonoTime,
}

/// How a forward failed, as far as the next requests for this peer are concerned.
pub(crate) fn report_of<T>(answer: &Result<T, PeerError>) -> CallReport {
    if answer.is_ok() { CallReport::Answered } else { CallReport::Failed }
}

impl Engine {
    /// Leave to ask this peer; nothing while it is left out. A probe is never a request's.
    pub(crate) fn may_ask(&self, to: &NodeName) -> Option<Admission> {
        let now = self.now();
        let mut by_name = self.peer_breakers.by_name.lock();
        if !by_name.contains_key(to) && by_name.len() >= limits::MEMBERS_MAX {
            // More names than a ring has: some have left it.
            let view = self.ports.routing.view();
            by_name.retain(|name, _| view.members().contains(name));
        }
        let guard = by_name
            .entry(to.clone())
            .or_insert_with(|| Guard { breaker: Breaker::new(SETTINGS), in_ring_at: now });
        match guard.breaker.state() {
            BreakerState::Closed => guard.breaker.admit(now).0,
            BreakerState::Open | BreakerState::HalfOpen => None,
        }
    }

    /// Takes note of how a question that was admitted went.
    pub(crate) fn peer_answered(&self, to: &NodeName, call: Admission, report: CallReport) {
        let now = self.now();
        self.move_breaker(to, |breaker| breaker.report(now, call, report));
    }

    /// Peers that requests leave out now.
    #[must_use]
    pub fn peers_left_out(&self) -> Vec<NodeName> {
        let by_name = self.peer_breakers.by_name.lock();
        let left_out = by_name.iter().filter(|(_, guard)| guard.breaker.state() != BreakerState::Closed);
        left_out.map(|(name, _)| name.clone()).collect()
    }

    /// Probes the peers that are left out, until they answer; the caller owns the task.
    pub async fn look_after_peers(&self) -> Infallible {
        loop {
            if self.peers_left_out().is_empty() {
                self.peer_breakers.opened.notified().await;
            }
            self.ports.clock.sleep(Millis(limits::PEER_BREAKER_OPEN_MS)).await;
            join_all(self.due_probes().into_iter().map(|(name, call)| self.probe_peer(name, call))).await;
        }
    }

    /// Whom to ask now. Who is out of the ring is not asked: membership probes it, and brings it back.
    fn due_probes(&self) -> Vec<(NodeName, Admission)> {
        let (now, view) = (self.now(), self.ports.routing.view());
        let mut due = Vec::new();
        let mut moved = 0;
        self.peer_breakers.by_name.lock().retain(|name, guard| {
            if view.members().contains(name) {
                guard.in_ring_at = now;
            } else {
                return now.since(guard.in_ring_at) < Millis(limits::PEER_BREAKER_FORGET_MS);
            }
            if guard.breaker.state() != BreakerState::Closed
                && let (Some(call), changed) = guard.breaker.admit(now)
            {
                due.push((name.clone(), call));
                moved += usize::from(changed.is_some());
            }
            true
        });
        (0..moved).for_each(|_| self.note(Event::PeerBreaker(BreakerState::HalfOpen)));
        due
    }

    /// A question that is answered from memory, on the way that requests go: session, message and engine have to work.
    async fn probe_peer(&self, name: NodeName, call: Admission) {
        let question = message::encode_inspect(&QueryKey([0; 32]));
        let answer = self.ports.peers.forward(&name, question, Millis(limits::PEER_BREAKER_PROBE_MS)).await;
        let is_well = answer.is_ok_and(|bytes| decode_inspection(&bytes).is_some());
        let report = if is_well { CallReport::Answered } else { CallReport::Failed };
        self.peer_answered(&name, call, report);
    }

    fn move_breaker(&self, to: &NodeName, step: impl FnOnce(&mut Breaker) -> Option<BreakerState>) {
        let (before, changed) = {
            let mut by_name = self.peer_breakers.by_name.lock();
            let Some(guard) = by_name.get_mut(to) else { return };
            (guard.breaker.state(), step(&mut guard.breaker))
        };
        let Some(state) = changed else { return };
        self.note(Event::PeerBreaker(state));
        match (before, state) {
            // Once for an absence, not for each probe in it.
            (BreakerState::Closed, BreakerState::Open) => {
                tracing::warn!(peer = %to, "a peer fails requests again and again; they go to the next node");
                self.peer_breakers.opened.notify_one();
            }
            (_, BreakerState::Closed) => tracing::info!(peer = %to, "a peer answers requests again"),
            _ => {}
        }
    }
}
