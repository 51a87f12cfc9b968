//! A breaker for each peer: requests skip a peer that has failed several of them in a row.
//!
//! Membership decides by connections and probes which nodes are in the ring. A breaker is for a peer that is in the
//! ring and useless: it answers probes and no questions, refuses, or speaks another version. Each request for its keys
//! would first wait for it, up to its own deadline. So after some failures in a row requests go to the next node of the
//! ring at once, under the same leases. One probe at a time, which causes no run, finds out when the peer is well
//! again. No client's request is the probe, since it could wait for its whole deadline.
//!
//! Only requests open a breaker, by several failures in a row. If membership loses a peer while a request asks it, that
//! is one such failure. Membership's probes are short, and also fail when this process or the whole machine had no CPU
//! to send or read them. A failed probe keeps a breaker open that requests have opened.
//!
//! A breaker never decides who owns a key, and takes no node out of the ring. Purges and `explain` ask all peers.

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

use crate::model::event::Event;
use crate::peers::{PeerCalls, inspect};

const SETTINGS: BreakerSettings = BreakerSettings {
    failures_max: limits::PEER_BREAKER_FAILURES_MAX,
    apart_ms: Millis(limits::PEER_BREAKER_APART_MS),
    open_ms: Millis(limits::PEER_BREAKER_OPEN_MS),
    probe_ms_max: Millis(limits::PEER_BREAKER_PROBE_MS_MAX),
};

/// The breakers of the peers that were asked: for members of the ring, and for a minute after a peer left it.
#[derive(Default)]
pub(crate) struct PeerBreakers {
    by_name: Mutex<BTreeMap<NodeName, Guard>>,
    opened: Notify,
}

struct Guard {
    breaker: Breaker,
    /// When this node last found it in the ring. Requests and probes look.
    in_ring_at: MonoTime,
}

impl PeerBreakers {
    pub(crate) fn len(&self) -> usize {
        self.by_name.lock().len()
    }

    /// Permission to ask a peer that is in the ring. `is_member` is called only when there are more names than a ring
    /// has.
    fn ask(&self, to: &NodeName, now: MonoTime, is_member: impl Fn(&NodeName) -> bool) -> Option<Admission> {
        let mut by_name = self.by_name.lock();
        if !by_name.contains_key(to) && by_name.len() >= limits::MEMBERS_MAX {
            by_name.retain(|name, _| is_member(name));
        }
        let guard = by_name
            .entry(to.clone())
            .or_insert_with(|| Guard { breaker: Breaker::new(SETTINGS), in_ring_at: now });
        guard.in_ring_at = now;
        match guard.breaker.state() {
            BreakerState::Closed => guard.breaker.admit(now).0,
            BreakerState::Open | BreakerState::HalfOpen => None,
        }
    }

    /// The peers to probe now, and the number of breakers that this moved. A peer that left the ring is not probed and
    /// after a while forgotten: membership probes it and brings it back.
    fn due(
        &self,
        now: MonoTime,
        is_member: impl Fn(&NodeName) -> bool,
    ) -> (Vec<(NodeName, Admission)>, usize) {
        let (mut due, mut moved) = (Vec::new(), 0);
        self.by_name.lock().retain(|name, guard| {
            if !is_member(name) {
                return now.since(guard.in_ring_at) < Millis(limits::PEER_BREAKER_FORGET_MS);
            }
            guard.in_ring_at = now;
            if guard.breaker.state() != BreakerState::Closed
                && let (Some(call), changed) = guard.breaker.admit(now)
            {
                due.push((name.clone(), call));
                moved += usize::from(changed.is_some());
            }
            true
        });
        (due, moved)
    }

    /// Changes a peer's breaker. Returns its state before, and the new state if that is different.
    fn change(
        &self,
        to: &NodeName,
        now: MonoTime,
        step: impl FnOnce(&mut Breaker) -> Option<BreakerState>,
    ) -> Option<(BreakerState, BreakerState)> {
        let mut by_name = self.by_name.lock();
        let guard = by_name.get_mut(to)?;
        let before = guard.breaker.state();
        let changed = step(&mut guard.breaker)?;
        if before == BreakerState::Closed {
            // A question may have been out for long before it failed. What it shows is kept for the full time from now.
            guard.in_ring_at = now;
        }
        Some((before, changed))
    }

    fn left_out(&self) -> Vec<NodeName> {
        let by_name = self.by_name.lock();
        let left_out = by_name.iter().filter(|(_, guard)| guard.breaker.state() != BreakerState::Closed);
        left_out.map(|(name, _)| name.clone()).collect()
    }
}

impl PeerCalls {
    /// Permission to ask this peer; `None` while requests skip it. A probe is never a client's request.
    pub(super) fn may_ask(&self, to: &NodeName) -> Option<Admission> {
        self.breakers.ask(to, self.context.now(), |name| self.routing.view().members().contains(name))
    }

    /// Notes the result of an admitted question.
    pub(super) fn answered(&self, to: &NodeName, call: Admission, report: CallReport) {
        let now = self.context.now();
        let changed = self.breakers.change(to, now, |breaker| breaker.report(now, call, report));
        let Some((before, state)) = changed else { return };
        self.context.note(Event::PeerBreaker(state));
        match (before, state) {
            // Once for an absence, not for each probe in it.
            (BreakerState::Closed, BreakerState::Open) => {
                tracing::warn!(peer = %to, "a peer fails requests again and again; they go to the next node");
                self.breakers.opened.notify_one();
            }
            (_, BreakerState::Closed) => tracing::info!(peer = %to, "a peer answers requests again"),
            _ => {}
        }
    }

    /// Peers with a breaker.
    pub(crate) fn breakers_len(&self) -> usize {
        self.breakers.len()
    }

    /// Peers that requests skip now.
    #[must_use]
    pub fn left_out(&self) -> Vec<NodeName> {
        self.breakers.left_out()
    }

    /// Probes the skipped peers until they answer; the caller owns the task.
    pub async fn probe_left_out(&self) -> Infallible {
        loop {
            if self.left_out().is_empty() {
                self.breakers.opened.notified().await;
            }
            self.context.sleep(Millis(limits::PEER_BREAKER_OPEN_MS)).await;
            join_all(self.due_probes().into_iter().map(|(name, call)| self.probe_breaker(name, call))).await;
        }
    }

    fn due_probes(&self) -> Vec<(NodeName, Admission)> {
        let view = self.routing.view();
        let (due, moved) = self.breakers.due(self.context.now(), |name| view.members().contains(name));
        (0..moved).for_each(|_| self.context.note(Event::PeerBreaker(BreakerState::HalfOpen)));
        due
    }

    /// A probe: a question that is answered from memory, on the way of requests, so that session, message and engine
    /// must work.
    async fn probe_breaker(&self, name: NodeName, call: Admission) {
        let question = inspect(QueryKey([0; 32]));
        let answer = self.ask(&name, question, Millis(limits::PEER_BREAKER_PROBE_MS)).await;
        let report = if answer.is_ok() { CallReport::Answered } else { CallReport::Failed };
        self.answered(&name, call, report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    fn at(ms: u64) -> MonoTime {
        MonoTime(ms * 1_000)
    }

    /// A peer that was asked at these times and failed each time.
    fn asked_in_vain(breakers: &PeerBreakers, peer: &NodeName, times_ms: impl Iterator<Item = (u64, u64)>) {
        for (asked_ms, failed_ms) in times_ms {
            let call = breakers.ask(peer, at(asked_ms), |_| true).unwrap();
            let now = at(failed_ms);
            breakers.change(peer, now, |breaker| breaker.report(now, call, CallReport::Failed));
        }
    }

    fn failures(from_ms: u64) -> impl Iterator<Item = (u64, u64)> {
        (0..u64::from(limits::PEER_BREAKER_FAILURES_MAX)).map(move |count| {
            let asked_ms = from_ms + count * limits::PEER_BREAKER_APART_MS;
            (asked_ms, asked_ms)
        })
    }

    /// A peer that fails and leaves the ring at the same time (it restarts) is remembered for a minute, however long
    /// ago it was first asked. If it is still sick when it comes back, nobody waits for it anew.
    #[test]
    fn who_is_left_out_and_leaves_the_ring_is_remembered_for_a_while() {
        let (breakers, peer) = (PeerBreakers::default(), NodeName::new("sick").unwrap());
        let call = breakers.ask(&peer, at(0), |_| true).unwrap();
        breakers.change(&peer, at(1), |breaker| breaker.report(at(1), call, CallReport::Answered));
        asked_in_vain(&breakers, &peer, failures(10 * MINUTE));
        let opened_ms = failures(10 * MINUTE).last().unwrap().1;
        assert_eq!(breakers.left_out(), std::slice::from_ref(&peer));
        let soon = opened_ms + limits::PEER_BREAKER_OPEN_MS;
        assert!(breakers.due(at(soon), |_| false).0.is_empty(), "membership probes it");
        assert_eq!(breakers.left_out(), std::slice::from_ref(&peer), "not forgotten");
        assert!(
            breakers.ask(&peer, at(soon + 1), |_| true).is_none(),
            "back in the ring, and not asked by a request"
        );
        let (due, moved) = breakers.due(at(soon + 2), |_| true);
        assert_eq!((due.len(), moved), (1, 1), "but probed");
        breakers.due(at(soon + 3 + MINUTE), |_| false);
        assert!(breakers.left_out().is_empty(), "a name that stays away is forgotten");
    }

    /// The questions that opened the breaker were out for longer than a peer is remembered.
    #[test]
    fn the_while_begins_when_it_is_left_out() {
        let (breakers, peer) = (PeerBreakers::default(), NodeName::new("slow").unwrap());
        asked_in_vain(&breakers, &peer, failures(0).map(|(asked_ms, _)| (asked_ms, asked_ms + 2 * MINUTE)));
        let opened_ms = failures(0).last().unwrap().1 + 2 * MINUTE;
        breakers.due(at(opened_ms + limits::PEER_BREAKER_OPEN_MS), |_| false);
        assert_eq!(breakers.left_out(), [peer]);
    }
}
