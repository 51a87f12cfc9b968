//! The engine's routing port: the ring of the members that answer, and the nodes that have just left it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hopcache_core::limits::RINGS_DIFFER_MS;
use hopcache_core::membership::{MemberInfo, MemberState, Phase, Weight};
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::ring::Ring;
use hopcache_engine::ports::{PeerError, Routing};

use crate::membership::{Cluster, View};

/// The members and their ring.
pub type Members = Cluster<Ring>;

/// A ring of these members. Nodes that see the same members and weights have the same ring and the same epoch.
#[must_use]
pub fn ring_of(members: &[(NodeName, Weight)], virtual_nodes: u32) -> Ring {
    Ring::weighted(members, virtual_nodes)
}

impl Members {
    /// Members that are down and have not announced that they leave. They are forgotten after
    /// [`hopcache_core::limits::MEMBER_FORGET_DOWN_MS`], unless they are seeds.
    #[must_use]
    pub fn missing(&self) -> Vec<NodeName> {
        let view = self.view();
        let missing = view.members.iter().filter(|member| member.is_missing());
        missing.map(|member| member.name.clone()).collect()
    }

    /// Members that answer and have shown another ring than this node's for [`RINGS_DIFFER_MS`], while neither ring changed.
    #[must_use]
    pub fn disagreeing(&self) -> Vec<NodeName> {
        let view = self.view();
        let differs = |member: &&MemberInfo| {
            let shown = self.ring_shown_by(&member.name);
            member.state == MemberState::Up
                && member.phase == Phase::Ready
                && shown.is_some_and(|(epoch, since)| {
                    epoch != view.ring.epoch()
                        && since.max(view.ring_since).elapsed() >= Duration::from_millis(RINGS_DIFFER_MS)
                })
        };
        view.members.iter().filter(differs).map(|member| member.name.clone()).collect()
    }

    /// Of each member that is missing or disagrees, its own message.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let missing = self.missing().into_iter();
        let missing = missing.map(|name| format!("{name} did not say goodbye and could not be reached"));
        let disagreeing = self.disagreeing().into_iter().map(|name| format!("{name} had another ring"));
        missing.chain(disagreeing).collect()
    }

    /// A message for the operator: which members are missing, and which have another ring than this node.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let (missing, disagreeing) = (self.missing(), self.disagreeing());
        let missing = (!missing.is_empty()).then(|| {
            let names = listed(&missing);
            format!("{names} did not say goodbye and cannot be reached: start it, or repair the network")
        });
        let disagreeing = (!disagreeing.is_empty()).then(|| {
            format!("{} has another ring: compare the members in the status of both", listed(&disagreeing))
        });
        let problems: Vec<String> = missing.into_iter().chain(disagreeing).collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }
}

/// Names for a sentence, with commas.
pub fn listed(names: &[NodeName]) -> String {
    let names: Vec<&str> = names.iter().map(NodeName::as_str).collect();
    names.join(", ")
}

/// The engine's view of the members.
pub struct MemberRouting(pub Arc<Members>);

impl Routing for MemberRouting {
    fn view(&self) -> Arc<Ring> {
        Arc::clone(&self.0.view().ring)
    }

    fn life_of(&self, node: &NodeName) -> Option<Incarnation> {
        self.0.find(node).map(|(_, life)| life)
    }

    fn report(&self, node: &NodeName, life: Option<Incarnation>, error: &PeerError) {
        // A node that was not a member then was not asked.
        if let Some(life) = life {
            self.0.report(node, life, error);
        }
    }

    fn lost(&self, node: &NodeName) -> BoxFuture<'static, ()> {
        let (mut views, node) = (self.0.subscribe(), node.clone());
        Box::pin(async move {
            // Leaving the ring is not enough: a draining node still answers earlier requests, and so may a node that gossip
            // calls dead. The next probes decide.
            let can_be_asked =
                |view: &View<Ring>| view.members.iter().any(|member| member.name == node && !member.is_lost);
            // An error means that the node is shutting down, and no other node can be asked any more.
            let _ = views.wait_for(|view| !can_be_asked(view)).await;
        })
    }

    fn reachable(&self) -> Vec<NodeName> {
        let view = self.0.view();
        let reachable = view.members.iter().filter(|member| member.state.is_routable());
        reachable.map(|member| member.name.clone()).collect()
    }

    fn is_gone(&self, life: &Holder) -> bool {
        let view = self.0.view();
        let of_life =
            |member: &&MemberInfo| member.name == life.node && member.incarnation == life.incarnation;
        view.members.iter().find(of_life).is_some_and(|member| member.is_gone)
    }

    fn has_met_namesake(&self, life: Incarnation) -> bool {
        self.0.has_met_namesake(life)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use hopcache_core::membership::{Card, Report};
    use hopcache_core::node::Incarnation;
    use hopcache_core::ring::RingEpoch;

    use super::*;

    const LIFE: Incarnation = Incarnation(2);

    fn node(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    fn card(name: &str, life: Incarnation, phase: Phase) -> Card {
        Card::new(node(name), "127.0.0.1:2".parse().unwrap(), life, phase)
    }

    /// This node, and `node-b`, which has answered a probe in this phase.
    fn beside(phase: Phase) -> MemberRouting {
        let me = Card {
            peer_addr: "127.0.0.1:1".parse().unwrap(),
            ..card("node-a", Incarnation(1), Phase::Ready)
        };
        let members = Members::new(me, |members, _| ring_of(members, 8));
        members.admit(&card("node-b", LIFE, phase));
        MemberRouting(members)
    }

    fn on_ring(routing: &MemberRouting) -> bool {
        routing.view().members().contains(&node("node-b"))
    }

    /// A forward to a node that drains is answered: a member off the ring is not lost. It is lost when it ends.
    #[test]
    fn a_draining_member_is_off_the_ring_and_not_lost() {
        let routing = beside(Phase::Ready);
        let mut lost = routing.lost(&node("node-b"));
        assert!(on_ring(&routing) && lost.as_mut().now_or_never().is_none());
        let drains = Card { revision: 5, ..card("node-b", LIFE, Phase::Draining) };
        routing.0.heard(&drains).unwrap();
        assert!(!on_ring(&routing), "it drains");
        assert!(lost.as_mut().now_or_never().is_none(), "and answers what it was asked");
        assert!(routing.lost(&node("node-b")).now_or_never().is_none(), "also who asks now");
        routing.0.saw(&node("node-b"), Report::Left(LIFE));
        assert_eq!(lost.now_or_never(), Some(()), "it has gone");
    }

    /// A joining member, and one that did not answer one request, can be asked. An unknown node, and one that is
    /// down, cannot.
    #[test]
    fn lost_is_who_cannot_be_asked() {
        let routing = beside(Phase::Joining);
        assert!(!on_ring(&routing) && routing.lost(&node("node-b")).now_or_never().is_none());
        assert_eq!(routing.lost(&node("node-x")).now_or_never(), Some(()));
        let routing = beside(Phase::Ready);
        routing.report(&node("node-b"), Some(LIFE), &PeerError::TimedOut);
        assert!(on_ring(&routing) && routing.lost(&node("node-b")).now_or_never().is_none(), "suspect");
        let lost = routing.lost(&node("node-b"));
        routing.report(&node("node-b"), Some(LIFE), &PeerError::Gone("reset".to_owned()));
        assert_eq!((on_ring(&routing), lost.now_or_never()), (false, Some(())));
    }

    /// I7: a node is gone when its connection broke. A silent node is not gone, however long it is silent, and
    /// neither is another life of it.
    #[test]
    fn gone_is_whose_connection_broke() {
        let holder = |life| Holder { node: node("node-b"), incarnation: life };
        let routing = beside(Phase::Ready);
        for _ in 0..3 {
            routing.0.saw(&node("node-b"), Report::ProbeUnanswered);
        }
        assert!(!on_ring(&routing) && !routing.is_gone(&holder(LIFE)), "silent");
        routing.report(&node("node-b"), Some(LIFE), &PeerError::Gone("broke".to_owned()));
        assert!(routing.is_gone(&holder(LIFE)) && !routing.is_gone(&holder(Incarnation(3))));
    }

    /// F1: a request to a killed life ends, although the next life is a member already. The report concerns the first
    /// life only.
    #[test]
    fn a_late_report_of_a_former_life_leaves_the_new_one_in() {
        let routing = beside(Phase::Ready);
        let asked = routing.life_of(&node("node-b"));
        routing.0.admit(&card("node-b", Incarnation(3), Phase::Ready));
        routing.report(&node("node-b"), asked, &PeerError::Gone("broke".to_owned()));
        let present = Holder { node: node("node-b"), incarnation: Incarnation(3) };
        assert!(on_ring(&routing) && !routing.is_gone(&present), "it lives, and holds what it holds");
        let asked = routing.life_of(&node("node-b"));
        routing.report(&node("node-b"), asked, &PeerError::Gone("broke".to_owned()));
        assert!(!on_ring(&routing) && routing.is_gone(&present));
        assert_eq!(routing.life_of(&node("node-x")), None);
        routing.report(&node("node-x"), None, &PeerError::Gone("nobody".to_owned()));
    }

    /// A member with another ring is named after a while in which neither ring has changed, and only while they
    /// differ.
    #[tokio::test(start_paused = true)]
    async fn a_ring_that_differs_for_long_is_named() {
        let routing = beside(Phase::Ready);
        let (members, card) = (&routing.0, card("node-b", LIFE, Phase::Ready));
        let (own, other) = (members.view().ring.epoch(), RingEpoch(1));
        let most_of_it = Duration::from_millis(RINGS_DIFFER_MS - 1);
        members.shows(&card, own);
        tokio::time::advance(most_of_it * 2).await;
        assert_eq!(members.disagreeing(), []);
        members.shows(&card, other);
        tokio::time::advance(most_of_it).await;
        members.shows(&card, other);
        assert_eq!(members.disagreeing(), [], "it may be a change under way");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(members.disagreeing(), [node("node-b")]);
        members.shows(&card, own);
        assert_eq!(members.disagreeing(), []);
        members.shows(&card, other);
        tokio::time::advance(most_of_it * 2).await;
        members.saw(&node("node-b"), Report::Gone(LIFE));
        assert_eq!(
            (members.disagreeing(), members.missing()),
            (vec![], vec![node("node-b")]),
            "what a dead one showed"
        );
    }

    /// A missing member is down, and has announced neither its goodbye nor that it leaves.
    #[test]
    fn who_said_goodbye_is_not_missing() {
        let routing = beside(Phase::Ready);
        assert_eq!(routing.0.missing(), []);
        routing.0.saw(&node("node-b"), Report::Gone(LIFE));
        assert_eq!(routing.0.missing(), [node("node-b")]);
        routing.0.saw(&node("node-b"), Report::Left(LIFE));
        assert_eq!(routing.0.missing(), []);
        let routing = beside(Phase::Draining);
        routing.0.saw(&node("node-b"), Report::Gone(LIFE));
        assert_eq!(routing.0.missing(), [], "its port closes before its goodbye");
    }
}
