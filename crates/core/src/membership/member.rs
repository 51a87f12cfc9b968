//! The words of membership: what is known of a member, what was seen of it, and what that changed.
//!
//! Decides nothing.

use std::net::SocketAddr;

use super::card::{BoltAddr, PROTOCOL, Phase, Weight};
use crate::limits::{INTRODUCTIONS_MAX, MEMBERS_MAX};
use crate::node::{Incarnation, NodeName};

/// What is known of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberState {
    /// Answered the last time. Routed to.
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
    /// Where it listens for peers.
    pub peer_addr: SocketAddr,
    /// What is known of it.
    pub state: MemberState,
    /// Its life when it last answered.
    pub incarnation: Incarnation,
    /// What it last said of its phase.
    pub phase: Phase,
    /// What it last said of its share.
    pub weight: Weight,
    /// Where its Bolt clients reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bolt: Option<BoltAddr>,
    /// Whether a connection to it has shown that it is gone, or it said goodbye. Who is down by gossip alone may be at what
    /// it was asked: new requests go elsewhere, those under way are not given up.
    #[serde(skip)]
    pub is_lost: bool,
    /// Whether a connection to this life of it was refused, or broke and could not be made again, since it last answered.
    /// One that is only silent is not: it may be stopped, or cut off.
    #[serde(skip)]
    pub is_gone: bool,
    /// Whether this life of it said goodbye.
    #[serde(skip)]
    pub has_left: bool,
}

impl MemberInfo {
    /// Whether it should be there and is not: down, without a goodbye, and without having said that it leaves.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.state == MemberState::Down && !self.has_left && self.phase != Phase::Draining
    }

    /// Whether it owns keys: it can be reached, and says that it is ready.
    #[must_use]
    pub fn is_routable(&self) -> bool {
        self.state.is_routable() && self.phase == Phase::Ready
    }
}

/// What somebody saw of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// A connection to this life of it was refused, or broke and was not made again: nobody lives there. Of another life than
    /// the one that is known: nothing. It may be told late:
    ///   a request goes to the old life · that is killed · the new one answers a probe · the request ends, refused.
    Gone(Incarnation),
    /// A probe was not answered in time.
    ProbeUnanswered,
    /// A request was not answered in time: the peer or what it asked the origin. It is probed at once, and no more.
    RequestUnanswered,
    /// It answered a probe without the cluster key, or as somebody else.
    Stranger,
    /// Gossip agreed that this life of it is dead. Of another life than the one that is known: nothing.
    GossipDown(Incarnation),
    /// This life of it said goodbye by gossip. Of another life than the one that is known: nothing.
    Left(Incarnation),
}

/// What a report or an answer changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing that anybody sees.
    None,
    /// A member's state, phase, address or incarnation, but not who is routed to.
    Member,
    /// Who is routed to, or with which weight.
    Routing,
}

/// What is to be done about a card that was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Of a life that has answered a probe: what it says of itself holds.
    Known(Change),
    /// To be probed at this address: unknown, down, or another life of a known name.
    Probe(SocketAddr),
}

/// Why an answer is not taken as a member's.
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
    /// It speaks a protocol that this node does not understand.
    #[error(
        "{name} speaks protocol {}.{}, this node {}.{}: incompatible versions",
        protocol >> 8, protocol & 0xff, PROTOCOL >> 8, PROTOCOL & 0xff
    )]
    Incompatible {
        /// The node.
        name: NodeName,
        /// What it speaks.
        protocol: u16,
    },
    /// Too many unknown nodes were heard of that have not answered a probe yet.
    #[error("{INTRODUCTIONS_MAX} unknown nodes are to be probed already; {0} has to be heard of again")]
    Crowded(NodeName),
    /// Nobody can connect to the address it gives.
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
