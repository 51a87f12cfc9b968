//! The members of the cluster: seeds and gossip find them, and probes keep them. This module publishes which nodes are
//! routed to, and nothing else.
//!
//! [`hopcache_core::membership`] makes the decisions. Here are the lock around them, the addresses of seeds, the probes
//! and the published view. A seed is only an address: its name and life come from its answer to a probe. The same holds
//! for a node that gossip ([`crate::gossip`]) names. [`Cluster::report`] changes the published view before it returns.
//! So a request that saw a peer refuse a connection routes around that peer at once.
//!
//! This module does not decide which node owns a key. The caller's `compose` makes a ring of the routable names. It is
//! called once for each set of names and published with it, so a view is always consistent.

mod prober;
mod seeds;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hopcache_core::membership::{
    Card, CardAction, Change, MemberInfo, Membership, NotAdmitted, Phase, Report, Weight,
};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::ring::RingEpoch;
use hopcache_core::time::Millis;
use hopcache_engine::ports::PeerError;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::peer::auth::PeerIdentity;
use crate::peer::client::PeerBook;

pub use prober::Prober;

/// One published state of the cluster, as this node sees it.
#[derive(Debug)]
pub struct View<R> {
    /// Number of the set of routable names and weights. It grows by one with each new set, and only this node counts it.
    pub epoch: u64,
    /// The value that the caller composed of the routable names.
    pub ring: Arc<R>,
    /// Since when this ring is published.
    pub ring_since: Instant,
    /// Names of nodes that may own keys, in order. This node is among them when it is ready.
    pub routable: Arc<[NodeName]>,
    /// All members in the order of their names, this node included.
    pub members: Vec<MemberInfo>,
    /// Whether a member has answered, or every seed was tried and none was silent. Before that a node may seem alone only
    /// because it started first.
    pub settled: bool,
    /// Why the cluster does not admit this node, and the action to take. `None` if it does, or if no other node is
    /// there.
    pub shut_out: Option<Arc<str>>,
}

/// Composes the value that routing needs from the routable names, their weights and the epoch.
type Compose<R> = Box<dyn Fn(&[(NodeName, Weight)], u64) -> R + Send + Sync>;

/// The members and their published view.
pub struct Cluster<R> {
    /// This node's.
    name: NodeName,
    state: Mutex<State>,
    /// The number of the state that the last view shows. It is locked while a view is made, so that views appear in the
    /// order of their changes.
    published: Mutex<u64>,
    compose: Compose<R>,
    view: ArcSwap<View<R>>,
    watch: watch::Sender<Arc<View<R>>>,
    /// Notified when a member failed, or when a new one was named: the prober probes at once.
    suspicion: Notify,
    /// Addresses of the seeds without this node's own, for gossip.
    seeds: ArcSwap<Vec<SocketAddr>>,
    /// The ring that each member's last answers show, and since when. The next [`Cluster::forget`] drops names that core
    /// has forgotten.
    rings: Mutex<BTreeMap<NodeName, (RingEpoch, Instant)>>,
}

struct State {
    members: Membership,
    /// Counts changes.
    version: u64,
    settled: bool,
    shut_out: Option<Arc<str>>,
}

impl<R: Send + Sync + 'static> Cluster<R> {
    /// A cluster of this node alone. A [`Prober`] finds the other nodes.
    pub fn new(
        me: Card,
        compose: impl Fn(&[(NodeName, Weight)], u64) -> R + Send + Sync + 'static,
    ) -> Arc<Self> {
        let name = me.name.clone();
        let members = Membership::new(me);
        let routable = members.routable();
        let view = Arc::new(View {
            epoch: members.epoch(),
            ring: Arc::new(compose(&routable, members.epoch())),
            ring_since: Instant::now(),
            routable: names_of(routable),
            members: members.members(),
            settled: false,
            shut_out: None,
        });
        Arc::new(Self {
            name,
            state: Mutex::new(State { members, version: 0, settled: false, shut_out: None }),
            published: Mutex::new(0),
            compose: Box::new(compose),
            watch: watch::Sender::new(Arc::clone(&view)),
            view: ArcSwap::new(view),
            suspicion: Notify::new(),
            seeds: ArcSwap::default(),
            rings: Mutex::default(),
        })
    }

    /// The current view.
    #[must_use]
    pub fn view(&self) -> Arc<View<R>> {
        self.view.load_full()
    }

    /// The current view and later ones. Only the latest view counts: views in between may be skipped.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<View<R>>> {
        self.watch.subscribe()
    }

    /// All members in the order of their names, this node included.
    #[must_use]
    pub fn members(&self) -> Vec<MemberInfo> {
        self.view.load().members.clone()
    }

    /// The peer address of a member other than this node, and its known life.
    #[must_use]
    pub fn find(&self, node: &NodeName) -> Option<(SocketAddr, Incarnation)> {
        let view = self.view.load();
        let at = view.members.binary_search_by(|member| member.name.cmp(node)).ok()?;
        view.members.get(at).map(|member| (member.peer_addr, member.incarnation))
    }

    /// Reports how a request to a member failed. `life` is the member's life when it was asked. Any change of the view is
    /// published when this returns.
    pub fn report(&self, node: &NodeName, life: Incarnation, error: &PeerError) {
        let report = match error {
            PeerError::Gone(_) => Report::Gone(life),
            PeerError::TimedOut => Report::RequestUnanswered,
            // The peer lives, and refused this request. A probe finds out whether it belongs to the cluster.
            PeerError::Refused(_) => return,
        };
        if self.saw(node, report) != Change::None || report == Report::RequestUnanswered {
            self.suspicion.notify_one();
        }
    }

    /// Addresses of members that should be probed now.
    fn doubted(&self) -> Vec<SocketAddr> {
        self.state.lock().members.doubted().collect()
    }

    /// This node's card.
    #[must_use]
    pub fn me(&self) -> Card {
        self.state.lock().members.me().clone()
    }

    /// Sets the phase of this node and returns its new card, which gossip spreads. The view shows it when this returns.
    pub fn set_phase(&self, phase: Phase) -> Card {
        self.change(|members| members.set_phase(phase))
    }

    /// Addresses of the seeds that resolve, without this node's own.
    #[must_use]
    pub fn seeds(&self) -> Arc<Vec<SocketAddr>> {
        self.seeds.load_full()
    }

    /// Takes a card from gossip. Any change of the view is published when this returns. A node that has to be probed is
    /// probed soon.
    ///
    /// # Errors
    /// [`NotAdmitted`]: nothing changed, and the node is not probed.
    pub fn heard(&self, card: &Card) -> Result<CardAction, NotAdmitted> {
        let heard = self.change(|members| {
            let heard = members.heard(card);
            let change = if let Ok(CardAction::Known(change)) = heard { change } else { Change::None };
            (heard, change)
        });
        if matches!(&heard, Ok(CardAction::Probe(_)))
            || heard.as_ref().is_err_and(|why| why.is_of_name(&self.name))
        {
            self.suspicion.notify_one();
        }
        heard
    }

    /// Gossip says that a life of a member is dead or said goodbye. Any change of the view is published when this returns.
    /// The member is probed at once, and an answer brings it back.
    pub fn heard_of_end(&self, node: &NodeName, report: Report) -> Change {
        let change = self.saw(node, report);
        if change != Change::None {
            self.suspicion.notify_one();
        }
        change
    }

    /// An address that only gossip named has not answered any probe for a long time.
    fn dismiss(&self, addr: SocketAddr) {
        self.state.lock().members.dismiss(addr);
    }

    /// Addresses that gossip named and that have not answered yet.
    fn introductions(&self) -> Vec<SocketAddr> {
        self.state.lock().members.introductions().collect()
    }

    /// Forgets members that were down for a long time and that no seed names.
    fn forget(&self, now: Millis, seeds: &BTreeSet<SocketAddr>) {
        self.change(|members| ((), members.forget(now, |addr| seeds.contains(&addr))));
        let state = self.state.lock();
        self.rings.lock().retain(|name, _| state.members.get(name).is_some());
    }

    /// Reports a member's failure, seen by a request or named by gossip. Any change of the view is published when this
    /// returns.
    pub fn saw(&self, node: &NodeName, report: Report) -> Change {
        self.change(|members| {
            let change = members.report(node, report);
            (change, change)
        })
    }

    /// `addr` answered a probe. The answer may be older than a report:
    ///   the peer answers · the peer dies · a forward is refused and reported · the answer is noted.
    /// Then the peer is routed to again, until the next forward or probe is refused: one more refused connection.
    fn answered(&self, addr: SocketAddr, who: &PeerIdentity) -> Result<Change, NotAdmitted> {
        let change = self.change(|members| {
            let change = members.answered(addr, &who.card);
            let shown = *change.as_ref().unwrap_or(&Change::None);
            (change, shown)
        })?;
        let mut rings = self.rings.lock();
        let shown = rings.get(&who.card.name).filter(|(epoch, _)| *epoch == who.epoch);
        if shown.is_none() {
            rings.insert(who.card.name.clone(), (who.epoch, Instant::now()));
        }
        Ok(change)
    }

    /// The ring that a member's last answer shows, and since when.
    #[must_use]
    pub fn ring_shown_by(&self, name: &NodeName) -> Option<(RingEpoch, Instant)> {
        self.rings.lock().get(name).copied()
    }

    /// Acts as if the card's address had answered a probe with this card and this ring.
    #[cfg(test)]
    pub(crate) fn shows(&self, card: &Card, epoch: RingEpoch) {
        self.answered(card.peer_addr, &PeerIdentity { card: card.clone(), epoch }).unwrap();
    }

    /// Acts as if the card's address had answered a probe with this card.
    #[cfg(test)]
    pub(crate) fn admit(&self, card: &Card) {
        self.change(|members| ((), members.answered(card.peer_addr, card).unwrap()));
    }

    /// Whether another node with this node's name has answered a probe in this life.
    #[must_use]
    pub fn has_met_namesake(&self, life: Incarnation) -> bool {
        self.state.lock().members.has_met_namesake(life)
    }

    fn name(&self) -> &NodeName {
        &self.name
    }

    fn is_me(&self, who: &PeerIdentity) -> bool {
        self.state.lock().members.is_me(&who.card.name, who.card.life)
    }

    /// Sets whether the cluster admits this node, by the last answer of each address.
    fn set_shut_out(&self, why: Option<String>) {
        let mut state = self.state.lock();
        if state.shut_out.as_deref() != why.as_deref() {
            state.shut_out = why.map(Arc::from);
            self.publish(state);
        }
    }

    fn settle(&self) {
        let mut state = self.state.lock();
        if !state.settled {
            state.settled = true;
            self.publish(state);
        }
    }

    /// Changes the members. Any change of the view is published when this returns.
    fn change<T>(&self, change: impl FnOnce(&mut Membership) -> (T, Change)) -> T {
        let mut state = self.state.lock();
        let (result, change) = change(&mut state.members);
        if change != Change::None {
            self.publish(state);
        }
        result
    }

    /// Publishes a changed state. Building a ring takes milliseconds, so it happens without the lock of the state: answers
    /// to probes and gossip go on meanwhile. Two changes at once:
    ///   A changes to state 1 · B changes to state 2 · B publishes 2 · A sees that 2 includes its change, and publishes
    ///   nothing.
    fn publish(&self, mut changed: MutexGuard<'_, State>) {
        changed.version += 1;
        let version = changed.version;
        drop(changed);
        let mut published = self.published.lock();
        if *published >= version {
            return;
        }
        let before = self.view.load();
        let (latest, epoch, settled, shut_out, members, routable) = {
            let state = self.state.lock();
            let routable = (state.members.epoch() != before.epoch).then(|| state.members.routable());
            let (epoch, members) = (state.members.epoch(), state.members.members());
            (state.version, epoch, state.settled, state.shut_out.clone(), members, routable)
        };
        let (ring, ring_since, routable) = match routable {
            None => (Arc::clone(&before.ring), before.ring_since, Arc::clone(&before.routable)),
            Some(routable) => {
                (Arc::new((self.compose)(&routable, epoch)), Instant::now(), names_of(routable))
            }
        };
        let view = Arc::new(View { epoch, ring, ring_since, routable, members, settled, shut_out });
        self.view.store(Arc::clone(&view));
        self.watch.send_replace(view);
        *published = latest;
    }
}

fn names_of(routable: Vec<(NodeName, Weight)>) -> Arc<[NodeName]> {
    routable.into_iter().map(|(name, _)| name).collect()
}

impl<R: Send + Sync + 'static> PeerBook for Cluster<R> {
    fn find(&self, node: &NodeName) -> Option<(SocketAddr, Incarnation)> {
        Cluster::find(self, node)
    }

    fn report(&self, node: &NodeName, life: Incarnation, error: &PeerError) {
        Cluster::report(self, node, life, error);
    }
}
