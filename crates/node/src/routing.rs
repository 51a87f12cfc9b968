//! The engine's routing port over the members that answer: a ring of them, and who has just left it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hopcache_core::membership::Weight;
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::ring::Ring;
use hopcache_engine::ports::{PeerError, Routing};

use crate::membership::{Cluster, View};

/// The members with the ring that is made of them.
pub type Members = Cluster<Ring>;

/// A ring of these members. Nodes that see the same members and weights have the same ring and the same epoch.
#[must_use]
pub fn ring_of(members: &[(NodeName, Weight)], virtual_nodes: u32) -> Ring {
    Ring::weighted(members, virtual_nodes)
}

/// The engine's view of the members.
pub struct MemberRouting(pub Arc<Members>);

impl Routing for MemberRouting {
    fn view(&self) -> Arc<Ring> {
        Arc::clone(&self.0.view().ring)
    }

    fn report(&self, node: &NodeName, error: &PeerError) {
        self.0.report(node, error);
    }

    fn lost(&self, node: &NodeName) -> BoxFuture<'static, ()> {
        let (mut views, node) = (self.0.subscribe(), node.clone());
        Box::pin(async move {
            // Not only out of the ring: one that is draining answers what it was asked, and so may one of which gossip says
            // that it is dead. Its next probes tell.
            let can_be_asked =
                |view: &View<Ring>| view.members.iter().any(|member| member.name == node && !member.is_lost);
            // An error means that the node is shutting down: nobody can be asked any more.
            let _ = views.wait_for(|view| !can_be_asked(view)).await;
        })
    }

    fn reachable(&self) -> Vec<NodeName> {
        let view = self.0.view();
        let reachable = view.members.iter().filter(|member| member.state.is_routable());
        reachable.map(|member| member.name.clone()).collect()
    }

    fn has_met_namesake(&self, life: Incarnation) -> bool {
        self.0.has_met_namesake(life)
    }
}
