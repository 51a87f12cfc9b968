//! Members from a fixed list of seeds, kept by probes. Publishes who is routed to, and nothing else.
//!
//! The decisions are [`hopcache_core::membership`]'s; here are the lock around them, the seeds' addresses, the
//! probes and the publication. A seed is an address: the name and life behind it come from the answer
//! to a probe. [`Cluster::report`] changes the published view before it returns, so whoever saw a peer
//! refuse a connection routes around it with the very next request.
//!
//! Never here: which node owns a key. What is made of the routable names (a ring) is the caller's
//! `compose`, called once for each set of names and published with it, so a view is never half new.

mod prober;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hopcache_core::membership::{Change, MemberInfo, Membership, NotAdmitted, Report};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_engine::ports::PeerError;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::peer::auth::PeerIdentity;
use crate::peer::client::PeerBook;

pub use prober::Prober;

/// One published state of the cluster, as this node sees it.
#[derive(Debug)]
pub struct View<R> {
    /// Counts sets of routable names; grows by one with each.
    pub epoch: u64,
    /// What the caller composed of the routable names.
    pub ring: Arc<R>,
    /// Names that may own keys, in order; this node's own included.
    pub routable: Arc<[NodeName]>,
    /// All members in the order of their names, this node included.
    pub members: Vec<MemberInfo>,
    /// Whether every seed has been tried once. Before that a lone node may only be early.
    pub settled: bool,
}

/// Makes of the routable names and the epoch what routing needs.
type Compose<R> = Box<dyn Fn(&[NodeName], u64) -> R + Send + Sync>;

/// The members, and the view of them.
pub struct Cluster<R> {
    state: Mutex<State>,
    compose: Compose<R>,
    view: ArcSwap<View<R>>,
    watch: watch::Sender<Arc<View<R>>>,
    /// Somebody saw a member fail: probe now.
    suspicion: Notify,
}

struct State {
    members: Membership,
    settled: bool,
}

impl<R: Send + Sync + 'static> Cluster<R> {
    /// A cluster of this node alone; a [`Prober`] finds the others.
    pub fn new(
        name: NodeName,
        peer_addr: SocketAddr,
        incarnation: Incarnation,
        compose: impl Fn(&[NodeName], u64) -> R + Send + Sync + 'static,
    ) -> Arc<Self> {
        let members = Membership::new(name, peer_addr, incarnation);
        let routable: Arc<[NodeName]> = members.routable().into();
        let view = Arc::new(View {
            epoch: members.epoch(),
            ring: Arc::new(compose(&routable, members.epoch())),
            routable,
            members: members.members(),
            settled: false,
        });
        Arc::new(Self {
            state: Mutex::new(State { members, settled: false }),
            compose: Box::new(compose),
            watch: watch::Sender::new(Arc::clone(&view)),
            view: ArcSwap::new(view),
            suspicion: Notify::new(),
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
        let view = self.view.load();
        let at = view.members.binary_search_by(|member| member.name.cmp(node)).ok()?;
        view.members.get(at).map(|member| member.peer_addr)
    }

    /// How a request to a member failed. The view has changed, if it does, when this returns.
    pub fn report(&self, node: &NodeName, error: &PeerError) {
        let report = match error {
            PeerError::Gone(_) => Report::Gone,
            PeerError::TimedOut => Report::RequestUnanswered,
            // It lives, and said no to this request; a probe would find a stranger.
            PeerError::Refused(_) => return,
        };
        if self.saw(node, report) != Change::None {
            self.suspicion.notify_one();
        }
    }

    fn saw(&self, node: &NodeName, report: Report) -> Change {
        let mut state = self.state.lock();
        let change = state.members.report(node, report);
        self.publish(&state, change);
        change
    }

    /// `addr` answered a probe. The answer may be older than a report: the peer answers, dies, a forward is
    /// refused and reported, then the answer is noted and the peer is routed to again. The next forward or
    /// probe is refused in turn, so this costs one more refused connection and heals by itself.
    fn answered(&self, addr: SocketAddr, who: &PeerIdentity) -> Result<Change, NotAdmitted> {
        let mut state = self.state.lock();
        let change = state.members.answered(addr, &who.name, who.incarnation)?;
        self.publish(&state, change);
        Ok(change)
    }

    fn is_me(&self, who: &PeerIdentity) -> bool {
        self.state.lock().members.is_me(&who.name, who.incarnation)
    }

    fn settle(&self) {
        let mut state = self.state.lock();
        if !state.settled {
            state.settled = true;
            self.publish(&state, Change::Member);
        }
    }

    /// Called under the lock, so that views appear in the order of the changes they show.
    fn publish(&self, state: &State, change: Change) {
        let before = self.view.load();
        let (ring, routable) = match change {
            Change::None => return,
            Change::Member => (Arc::clone(&before.ring), Arc::clone(&before.routable)),
            Change::Routing => {
                let routable: Arc<[NodeName]> = state.members.routable().into();
                (Arc::new((self.compose)(&routable, state.members.epoch())), routable)
            }
        };
        let (epoch, members) = (state.members.epoch(), state.members.members());
        let view = Arc::new(View { epoch, ring, routable, members, settled: state.settled });
        self.view.store(Arc::clone(&view));
        self.watch.send_replace(view);
    }
}

impl<R: Send + Sync + 'static> PeerBook for Cluster<R> {
    fn addr_of(&self, node: &NodeName) -> Option<SocketAddr> {
        Cluster::addr_of(self, node)
    }

    fn report(&self, node: &NodeName, error: &PeerError) {
        Cluster::report(self, node, error);
    }
}
