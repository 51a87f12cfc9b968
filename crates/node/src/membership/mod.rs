//! Members found by seeds and by gossip, kept by probes. Publishes who is routed to, and nothing else.
//!
//! The decisions are [`hopcache_core::membership`]'s; here are the lock around them, the seeds' addresses, the
//! probes and the publication. A seed is an address: the name and life behind it come from the answer
//! to a probe; so do those of a node that gossip ([`crate::gossip`]) names. [`Cluster::report`] changes the published view before it returns, so whoever saw a peer
//! refuse a connection routes around it with the very next request.
//!
//! Never here: which node owns a key. What is made of the routable names (a ring) is the caller's
//! `compose`, called once for each set of names and published with it, so a view is never half new.

mod prober;
mod seeds;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hopcache_core::membership::{
    Card, Change, Heard, MemberInfo, Membership, NotAdmitted, Phase, Report, Weight,
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
    /// Counts sets of routable names and weights; grows by one with each. This node's own count.
    pub epoch: u64,
    /// What the caller composed of the routable names.
    pub ring: Arc<R>,
    /// Since when there is this ring.
    pub ring_since: Instant,
    /// Names that may own keys, in order; this node's own if it is ready.
    pub routable: Arc<[NodeName]>,
    /// All members in the order of their names, this node included.
    pub members: Vec<MemberInfo>,
    /// Whether a member was met, or every seed was tried and none was silent. Before that a lone node may only be early.
    pub settled: bool,
    /// Why the cluster does not let this node in, and what to do; nothing where it does, or nobody is there.
    pub shut_out: Option<Arc<str>>,
}

/// Makes of the routable names, their weights and the epoch what routing needs.
type Compose<R> = Box<dyn Fn(&[(NodeName, Weight)], u64) -> R + Send + Sync>;

/// The members, and the view of them.
pub struct Cluster<R> {
    /// This node's.
    name: NodeName,
    state: Mutex<State>,
    /// Held while a view is made, so that views appear in the order of the changes they show; which state the last one shows.
    published: Mutex<u64>,
    compose: Compose<R>,
    view: ArcSwap<View<R>>,
    watch: watch::Sender<Arc<View<R>>>,
    /// Somebody saw a member fail, or named a new one: probe now.
    suspicion: Notify,
    /// Where the seeds are, this node's own address left out; for gossip.
    seeds: ArcSwap<Vec<SocketAddr>>,
    /// Which ring each member's last answers show, and since when. Names that core has forgotten are dropped with the next
    /// [`Cluster::forget`].
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
    /// A cluster of this node alone; a [`Prober`] finds the others.
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

    /// The present view.
    #[must_use]
    pub fn view(&self) -> Arc<View<R>> {
        self.view.load_full()
    }

    /// The view now and each one that follows (the latest only: views in between may be skipped).
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<View<R>>> {
        self.watch.subscribe()
    }

    /// All members in the order of their names, this node included.
    #[must_use]
    pub fn members(&self) -> Vec<MemberInfo> {
        self.view.load().members.clone()
    }

    /// Where a member other than this node listens for peers.
    #[must_use]
    pub fn addr_of(&self, node: &NodeName) -> Option<SocketAddr> {
        self.find(node).map(|(addr, _)| addr)
    }

    /// Where a member other than this node listens for peers, and in which life it is known.
    #[must_use]
    pub fn find(&self, node: &NodeName) -> Option<(SocketAddr, Incarnation)> {
        let view = self.view.load();
        let at = view.members.binary_search_by(|member| member.name.cmp(node)).ok()?;
        view.members.get(at).map(|member| (member.peer_addr, member.incarnation))
    }

    /// How a request to a member failed that was known in this life when it was asked. The view has changed, if it does, when
    /// this returns.
    pub fn report(&self, node: &NodeName, life: Incarnation, error: &PeerError) {
        let report = match error {
            PeerError::Gone(_) => Report::Gone(life),
            PeerError::TimedOut => Report::RequestUnanswered,
            // It lives, and said no to this request; a probe would find a stranger.
            PeerError::Refused(_) => return,
        };
        if self.saw(node, report) != Change::None || report == Report::RequestUnanswered {
            self.suspicion.notify_one();
        }
    }

    /// Where members are that should be probed now.
    fn doubted(&self) -> Vec<SocketAddr> {
        self.state.lock().members.doubted().collect()
    }

    /// What this node says of itself.
    #[must_use]
    pub fn me(&self) -> Card {
        self.state.lock().members.me().clone()
    }

    /// Says another phase of this node; the card to be spread. The view has changed when this returns.
    pub fn set_phase(&self, phase: Phase) -> Card {
        self.change(|members| members.set_phase(phase))
    }

    /// Where the seeds are, as far as they resolve, this node's own address left out.
    #[must_use]
    pub fn seeds(&self) -> Arc<Vec<SocketAddr>> {
        self.seeds.load_full()
    }

    /// Gossip brought a card. The view has changed, if it does, when this returns; a node that is to be probed
    /// is probed soon.
    ///
    /// # Errors
    /// [`NotAdmitted`]: nothing changed, and it is not to be probed.
    pub fn heard(&self, card: &Card) -> Result<Heard, NotAdmitted> {
        let heard = self.change(|members| {
            let heard = members.heard(card);
            let change = if let Ok(Heard::Known(change)) = heard { change } else { Change::None };
            (heard, change)
        });
        if matches!(&heard, Ok(Heard::Probe(_)))
            || heard.as_ref().is_err_and(|why| why.is_of_name(&self.name))
        {
            self.suspicion.notify_one();
        }
        heard
    }

    /// Gossip says that a life of a member is dead, or said goodbye. The view has changed, if it does, when this
    /// returns; it is probed at once, and an answer brings it back.
    pub fn heard_of_end(&self, node: &NodeName, report: Report) -> Change {
        let change = self.saw(node, report);
        if change != Change::None {
            self.suspicion.notify_one();
        }
        change
    }

    /// An address that only gossip named was probed in vain for long.
    fn dismiss(&self, addr: SocketAddr) {
        self.state.lock().members.dismiss(addr);
    }

    /// Addresses that gossip named and that have not answered yet.
    fn introductions(&self) -> Vec<SocketAddr> {
        self.state.lock().members.introductions().collect()
    }

    /// Forgets who was down for long and is no seed.
    fn forget(&self, now: Millis, seeds: &BTreeSet<SocketAddr>) {
        self.change(|members| ((), members.forget(now, |addr| seeds.contains(&addr))));
        let state = self.state.lock();
        self.rings.lock().retain(|name, _| state.members.get(name).is_some());
    }

    /// Somebody saw a member fail, or gossip said so. The view has changed, if it does, when this returns.
    pub fn saw(&self, node: &NodeName, report: Report) -> Change {
        self.change(|members| {
            let change = members.report(node, report);
            (change, change)
        })
    }

    /// `addr` answered a probe. The answer may be older than a report: the peer answers, dies, a forward is
    /// refused and reported, then the answer is noted and the peer is routed to again. The next forward or
    /// probe is refused in turn, so this costs one more refused connection and heals by itself.
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

    /// Which ring a member's last answer shows, and since when its answers do.
    #[must_use]
    pub fn ring_shown_by(&self, name: &NodeName) -> Option<(RingEpoch, Instant)> {
        self.rings.lock().get(name).copied()
    }

    /// As if its address had answered a probe with this card, showing this ring.
    #[cfg(test)]
    pub(crate) fn shows(&self, card: &Card, epoch: RingEpoch) {
        self.answered(card.peer_addr, &PeerIdentity { card: card.clone(), epoch }).unwrap();
    }

    /// As if its address had answered a probe with this card.
    #[cfg(test)]
    pub(crate) fn admit(&self, card: &Card) {
        self.change(|members| ((), members.answered(card.peer_addr, card).unwrap()));
    }

    /// Whether this life of another node of this node's name has answered a probe.
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

    /// Whether the cluster lets this node in, by the last answer of each address.
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

    /// Changes the members; the view shows it, if there is anything to show, when this returns.
    fn change<T>(&self, change: impl FnOnce(&mut Membership) -> (T, Change)) -> T {
        let mut state = self.state.lock();
        let (told, change) = change(&mut state.members);
        if change != Change::None {
            self.publish(state);
        }
        told
    }

    /// Publishes a state that has changed. A ring takes milliseconds to build, so that is done without the state's lock: who
    /// answers probes and gossip goes on meanwhile. Two at once:
    ///   one changes to 1 · other changes to 2 · other publishes 2 · one finds that 2 shows its change too, and publishes nothing.
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
