//! One node's view of the ring. A test sets it, or core's membership and probes keep it as in production.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use hopcache_core::limits::PROBE_TIMEOUT_MS;
use hopcache_core::membership::{
    Card, CardAction, Change, MemberInfo, Membership, Phase, Report, probe_pause,
};
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::ring::{Ring, RingEpoch};
use hopcache_core::time::Millis;
use hopcache_engine::Engine;
use hopcache_engine::ports::{Dice, PeerError, Peers, Routing};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::world::dice::SimDice;
use crate::world::process::WatchCell;

/// Enough for three or four nodes to share keys; a ring is built often here.
const VIRTUAL_NODES: u32 = 100;

thread_local! {
    /// Rings by members. A seed uses a few hundred views of the same few nodes again and again.
    static RINGS: RefCell<BTreeMap<Vec<NodeName>, Arc<Ring>>> = const { RefCell::new(BTreeMap::new()) };
}

pub(crate) fn ring_of(members: &[NodeName]) -> Arc<Ring> {
    RINGS.with_borrow_mut(|rings| {
        let ring = rings.entry(members.to_vec());
        let build = || Arc::new(Ring::new(members, VIRTUAL_NODES, RingEpoch::of(members, VIRTUAL_NODES)));
        Arc::clone(ring.or_insert_with(build))
    })
}

fn names_of(members: &Membership) -> Vec<NodeName> {
    members.routable().into_iter().map(|(name, _)| name).collect()
}

/// One node's view of the ring.
pub struct SimRouting {
    ring: ArcSwap<Ring>,
    changes: WatchCell<u64>,
    rings: AtomicU64,
    /// Nodes that can be asked and are not on the ring, if a test sets them.
    beside: Mutex<Vec<NodeName>>,
    /// The members, if probes keep them. Otherwise a peer that cannot be asked leaves the ring until a test adds it
    /// again.
    members: Option<Mutex<Membership>>,
    /// Whether members announce their phase. Then a node that has left the ring may still be asked.
    has_phases: bool,
    suspicion: Notify,
    /// Nodes whose connections broke, in worlds whose members no probe keeps.
    gone: Mutex<Vec<NodeName>>,
    engine: Mutex<Weak<Engine>>,
}

impl SimRouting {
    /// A ring of these members, until a test changes it.
    #[must_use]
    pub fn new(members: &[NodeName]) -> Arc<Self> {
        Self::with(members, None, false)
    }

    /// A ring that probes keep. This node is alone at first.
    #[must_use]
    pub fn probed(me: &Holder, addr: SocketAddr) -> Arc<Self> {
        let members = Membership::new(Card::new(me.node.clone(), addr, me.incarnation, Phase::Ready));
        Self::with(std::slice::from_ref(&me.node), Some(Mutex::new(members)), false)
    }

    /// A ring that probes and gossip keep. This node joins, and owns nothing at first.
    #[must_use]
    pub fn joining(me: &Holder, addr: SocketAddr) -> Arc<Self> {
        let members = Membership::new(Card::new(me.node.clone(), addr, me.incarnation, Phase::Joining));
        Self::with(&[], Some(Mutex::new(members)), true)
    }

    fn with(names: &[NodeName], members: Option<Mutex<Membership>>, has_phases: bool) -> Arc<Self> {
        Arc::new(Self {
            ring: ArcSwap::new(ring_of(names)),
            changes: WatchCell::new(0),
            rings: AtomicU64::new(0),
            beside: Mutex::default(),
            members,
            has_phases,
            suspicion: Notify::new(),
            gone: Mutex::default(),
            engine: Mutex::default(),
        })
    }

    /// The node's memory, which forgets keys that the node no longer owns.
    pub(crate) fn belongs_to(&self, engine: &Arc<Engine>) {
        *self.engine.lock() = Arc::downgrade(engine);
    }

    /// Replaces the view.
    pub fn set(&self, members: &[NodeName]) {
        self.ring.store(ring_of(members));
        self.rings.fetch_add(1, Ordering::Relaxed);
        self.changes.set(self.changes.get() + 1);
    }

    /// Marks these nodes as draining: they own nothing, but they still answer.
    pub fn set_beside(&self, members: &[NodeName]) {
        *self.beside.lock() = members.to_vec();
    }

    /// The nodes that this node routes to.
    #[must_use]
    pub fn names(&self) -> Vec<NodeName> {
        self.ring.load().members().to_vec()
    }

    /// The ring in this node's probe answers.
    pub(crate) fn epoch(&self) -> RingEpoch {
        self.ring.load().epoch()
    }

    /// The ring as it will be without this node.
    pub(crate) fn ring_of_others(&self) -> Arc<Ring> {
        let me = self.card().map(|card| card.name);
        let stays = |member: &MemberInfo| member.is_routable() && Some(&member.name) != me.as_ref();
        let names: Vec<NodeName> =
            self.members().into_iter().filter(stays).map(|member| member.name).collect();
        ring_of(&names)
    }

    /// Rings that followed each other here.
    #[must_use]
    pub(crate) fn rings(&self) -> u64 {
        self.rings.load(Ordering::Relaxed)
    }

    /// The members that this node knows, with dead ones. None if a test sets the view.
    #[must_use]
    pub fn members(&self) -> Vec<MemberInfo> {
        self.members.as_ref().map(|members| members.lock().members()).unwrap_or_default()
    }

    /// This node's card, if members announce their phase.
    #[must_use]
    pub fn card(&self) -> Option<Card> {
        self.members.as_ref().filter(|_| self.has_phases).map(|members| members.lock().me().clone())
    }

    /// This node's phase, if members announce one.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        self.card().map(|card| card.phase)
    }

    /// Another phase of this node; its card, which is to be spread.
    pub(crate) fn set_phase(&self, phase: Phase) -> Option<Card> {
        self.change(|members| {
            let (card, change) = members.set_phase(phase);
            (change, Some(card))
        })
    }

    /// A card that gossip brought; where its node has to be probed, if it has to be.
    pub(crate) fn heard(&self, card: &Card) -> Option<SocketAddr> {
        self.change(|members| match members.heard(card) {
            Ok(CardAction::Known(change)) => (change, None),
            Ok(CardAction::Probe(addr)) => (Change::None, Some(addr)),
            Err(_) => (Change::None, None),
        })
    }

    /// A probe of `addr` was answered with this card.
    pub(crate) fn answered(&self, addr: SocketAddr, card: &Card) {
        self.change(|members| (members.answered(addr, card).unwrap_or(Change::None), None::<()>));
    }

    /// The life in which a member is known.
    pub(crate) fn life_of(&self, node: &NodeName) -> Option<Incarnation> {
        self.members.as_ref()?.lock().get(node).map(|member| member.incarnation)
    }

    /// Another node saw the member fail, or heard of its failure.
    pub(crate) fn failed(&self, node: &NodeName, report: Report) {
        self.change(|members| (members.report(node, report), None::<()>));
    }

    /// Forgets the nodes that only gossip named: they are not probed any more.
    pub(crate) fn dismiss(&self, addr: SocketAddr) {
        self.change(|members| {
            members.dismiss(addr);
            (Change::None, None::<()>)
        });
    }

    /// Forgets members that have been down for long.
    pub(crate) fn forget(&self, now: Millis, is_seed: impl Fn(SocketAddr) -> bool) {
        self.change(|members| (members.forget(now, is_seed), None::<()>));
    }

    fn change<T>(&self, act: impl FnOnce(&mut Membership) -> (Change, Option<T>)) -> Option<T> {
        let mut members = self.members.as_ref()?.lock();
        let (change, announced) = act(&mut members);
        let names = names_of(&members);
        drop(members);
        self.publish(change, &names);
        announced
    }

    /// Whether a node can be asked. A draining node is on no ring, and answers requests until its end.
    fn has(&self, node: &NodeName) -> bool {
        match &self.members {
            Some(members) if self.has_phases => {
                members.lock().get(node).is_some_and(|member| !member.is_lost)
            }
            _ => self.ring.load().members().contains(node),
        }
    }

    /// Passes when this node has another ring than that one.
    pub(crate) async fn other_ring(&self, epoch: RingEpoch) {
        self.changes.until(|_| self.epoch() != epoch).await;
    }

    /// Passes when a member was seen to fail: its next probe is due.
    pub(crate) async fn suspicion(&self) {
        self.suspicion.notified().await;
    }

    fn saw(&self, members: &Mutex<Membership>, node: &NodeName, report: Report) -> Change {
        let (change, names) = {
            let mut members = members.lock();
            (members.report(node, report), names_of(&members))
        };
        self.publish(change, &names);
        change
    }

    fn publish(&self, change: Change, names: &[NodeName]) {
        if change == Change::Routing {
            self.set(names);
            // In worlds with joins and leaves a task looks, as in a node (`membership_changes.rs`).
            if let Some(engine) = self.engine.lock().upgrade().filter(|_| !self.has_phases) {
                engine.invalidate().ring_changed();
            }
        } else if change == Change::Member && self.has_phases {
            // The death of a draining member changes no ring, but its waiters have to learn of it.
            self.changes.set(self.changes.get() + 1);
        }
    }

    /// Probes one peer for ever, as the prober of a real node does. The caller owns the task.
    pub(crate) async fn probe_for_ever(
        self: Arc<Self>,
        port: impl Peers,
        peer: NodeName,
        addr: SocketAddr,
        dice: Arc<SimDice>,
    ) -> Infallible {
        let mut failures = 0;
        loop {
            let life = self.life_of(&peer);
            let answer = port.probe(&peer, Millis(PROBE_TIMEOUT_MS)).await;
            if let Some(members) = &self.members {
                let report = match answer {
                    Ok(incarnation) => {
                        let (change, names) = {
                            let mut members = members.lock();
                            let card = Card::new(peer.clone(), addr, incarnation, Phase::Ready);
                            (members.answered(addr, &card), names_of(&members))
                        };
                        self.publish(change.unwrap_or(Change::None), &names);
                        None
                    }
                    // A node that never answered is no member.
                    Err(PeerError::Gone(_)) => Some(life.map_or(Report::ProbeUnanswered, Report::Gone)),
                    Err(PeerError::TimedOut) => Some(Report::ProbeUnanswered),
                    Err(PeerError::Refused(_)) => Some(Report::Stranger),
                };
                failures = if report.is_some() { failures + 1 } else { 0 };
                if let Some(report) = report {
                    self.saw(members, &peer, report);
                }
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep(probe_pause(failures, dice.u64()).duration()) => {}
                () = self.suspicion.notified(), if failures == 0 => {}
            }
        }
    }
}

/// A node's handle on its view.
pub struct RoutingPort(pub Arc<SimRouting>);

impl Routing for RoutingPort {
    fn view(&self) -> Arc<Ring> {
        self.0.ring.load_full()
    }

    fn is_gone(&self, life: &Holder) -> bool {
        if self.0.members.is_none() {
            return self.0.gone.lock().contains(&life.node);
        }
        let of_life =
            |member: &MemberInfo| member.name == life.node && member.incarnation == life.incarnation;
        self.0.members().iter().any(|member| of_life(member) && member.is_gone)
    }

    fn life_of(&self, node: &NodeName) -> Option<Incarnation> {
        self.0.life_of(node)
    }

    fn report(&self, node: &NodeName, life: Option<Incarnation>, error: &PeerError) {
        let Some(members) = &self.0.members else {
            if matches!(error, PeerError::Gone(_)) {
                self.0.gone.lock().push(node.clone());
            }
            let left: Vec<NodeName> =
                self.view().members().iter().filter(|each| *each != node).cloned().collect();
            self.0.set(&left);
            return;
        };
        let Some(life) = life else { return };
        let report = match error {
            PeerError::Gone(_) => Report::Gone(life),
            PeerError::TimedOut => Report::RequestUnanswered,
            PeerError::Refused(_) => return,
        };
        if self.0.saw(members, node, report) != Change::None || report == Report::RequestUnanswered {
            self.0.suspicion.notify_waiters();
        }
    }

    fn lost(&self, node: &NodeName) -> BoxFuture<'static, ()> {
        let (routing, node) = (Arc::clone(&self.0), node.clone());
        Box::pin(async move {
            routing.changes.until(|_| !routing.has(&node)).await;
        })
    }

    fn reachable(&self) -> Vec<NodeName> {
        if self.0.members.is_none() {
            let beside = self.0.beside.lock().clone();
            return self.view().members().iter().cloned().chain(beside).collect();
        }
        let members = self.0.members().into_iter();
        members.filter(|member| member.state.is_routable()).map(|member| member.name).collect()
    }
}
