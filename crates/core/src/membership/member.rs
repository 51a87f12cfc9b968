//! The types of membership: the state of a member, reports about it, and their effects.
//!
//! Decides nothing.

use std::net::SocketAddr;

use super::bolt_addrs::BoltAddrs;
use super::card::{Phase, Weight};
use crate::limits::{INTRODUCTIONS_MAX, MEMBERS_MAX};
use crate::node::{Incarnation, NodeName};

/// The state of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberState {
    /// Answered the last probe. Routed to.
    Up,
    /// Did not answer a probe in time. Still routed to; probed at once.
    Suspect,
    /// Cannot be reached. Not routed to until a probe is answered.
    Down,
}

impl MemberState {
    /// Whether keys may be owned by a member in this state.
    #[must_use]
    pub const fn is_routable(self) -> bool {
        matches!(self, Self::Up | Self::Suspect)
    }
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MemberInfo {
    /// Its name.
    pub name: NodeName,
    /// Its address for peers.
    pub peer_addr: SocketAddr,
    /// Its state.
    pub state: MemberState,
    /// Its life when it last answered.
    pub incarnation: Incarnation,
    /// Its last stated phase.
    pub phase: Phase,
    /// Its last stated share.
    pub weight: Weight,
    /// Where its Bolt clients reach it, as far as it says so.
    #[serde(skip_serializing_if = "BoltAddrs::is_empty")]
    pub bolt: BoltAddrs,
    /// Whether a connection to it has shown that it is gone, or it left. A member that is down by gossip alone may
    /// still work on earlier questions: new requests go to other nodes, those under way are not given up.
    #[serde(skip)]
    pub is_lost: bool,
    /// Whether, since this life of it last answered, a connection to it was refused, or broke and could not be
    /// restored. A silent member is not gone: it may be stopped, or cut off.
    #[serde(skip)]
    pub is_gone: bool,
    /// Whether this life of it has left.
    #[serde(skip)]
    pub has_left: bool,
}

impl MemberInfo {
    /// Whether it is missing unexpectedly: down, without having left, and without having announced that it leaves.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.state == MemberState::Down && !self.has_left && self.phase != Phase::Draining
    }

    /// Whether it owns keys: it can be reached, and reports that it is ready.
    #[must_use]
    pub fn is_routable(&self) -> bool {
        self.state.is_routable() && self.phase == Phase::Ready
    }
}

/// An observation about a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// A connection to this life of it was refused, or broke and was not restored: this life is dead. A report about
    /// another life than the known one has no effect. It may come late:
    ///   a request goes to the old life · that is killed · the new one answers a probe · the request ends, refused.
    Gone(Incarnation),
    /// A probe was not answered in time.
    ProbeUnanswered,
    /// A request was not answered in time: the peer was slow, or the origin that it asked. It is probed at once,
    /// nothing more.
    RequestUnanswered,
    /// It answered a probe without the cluster key, or as another node.
    Stranger,
    /// Gossip agreed that this life of it is dead. No effect for another life than the known one.
    GossipDown(Incarnation),
    /// This life of it announced by gossip that it left. No effect for another life than the known one.
    Left(Incarnation),
}

/// The effect of a report or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// No visible effect.
    None,
    /// A member's state, phase, address or incarnation changed, but not the set of routed nodes.
    Member,
    /// The set of routed nodes, or a weight, changed.
    Routing,
}

/// The action for a card that came by gossip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardAction {
    /// Of a life that has answered a probe: the card is accepted.
    Known(Change),
    /// Probe this address: the node is unknown, down, or another life of a known name.
    Probe(SocketAddr),
}

/// Why an answer is not accepted as a member's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// Another living node has this name.
    #[error("two nodes are named {name}: {kept} is kept, {refused} is refused; give each its own node.name")]
    NameTaken {
        /// The name.
        name: NodeName,
        /// Address that keeps it.
        kept: SocketAddr,
        /// Address that does not get it.
        refused: SocketAddr,
    },
    /// The cluster is full.
    #[error("the cluster has {MEMBERS_MAX} members already; {0} is not admitted")]
    Full(NodeName),
    /// Too many unknown nodes named by gossip have not answered a probe yet.
    #[error("{INTRODUCTIONS_MAX} unknown nodes are to be probed already; {0} has to be heard of again")]
    Crowded(NodeName),
    /// No node can connect to the address that it states.
    #[error("{name} gives {addr} as its address, which nobody can connect to")]
    Unreachable {
        /// The node.
        name: NodeName,
        /// The address.
        addr: SocketAddr,
    },
}

impl NotAdmitted {
    /// Whether another node has this name.
    #[must_use]
    pub fn is_of_name(&self, taken: &NodeName) -> bool {
        matches!(self, Self::NameTaken { name, .. } if name == taken)
    }
}
