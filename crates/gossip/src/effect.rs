//! Effects that the caller of [`crate::Gossip`] carries out, and reasons to refuse a datagram. Types only.

use std::net::SocketAddr;

use bytes::Bytes;
use hopcache_core::membership::Card;
use hopcache_core::time::Millis;
use hopcache_core::wire::WIRE_VERSION;

use crate::identity::Identity;

/// Something that the caller has to do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Seal and send this datagram (at most `GOSSIP_DATAGRAM_BYTES_MAX` bytes) to this address.
    Send {
        /// The receiver's address.
        to: SocketAddr,
        /// The datagram.
        datagram: Bytes,
    },
    /// Call [`crate::Gossip::due`] with this timer after this time. [`crate::Timers`] keeps them.
    Wake {
        /// The time from now.
        after: Millis,
        /// The timer to hand back.
        timer: Timer,
    },
    /// A member appeared, came back, or has a newer card: for `Membership::heard`.
    Heard(Card),
    /// Gossip has declared a member dead: for `Report::GossipDown` with the card's life.
    Down(Card),
    /// A member said goodbye: for `Report::Left` with the card's life.
    Left(Card),
    /// A piece that another node spread, once for each [`crate::Gossip::spread`] that arrived. Best effort: a piece can come
    /// twice after very many others.
    Spread(Bytes),
    /// This node had been declared down and came back. For a counter.
    Rejoined,
}

/// A timer of [`crate::Gossip`]; opaque.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timer {
    pub(crate) kind: Kind,
    /// The timer was late once already, so it is handled now, whatever the delay.
    pub(crate) put_off: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Foca(foca::Timer<Identity>),
    Maintenance,
}

/// Why a datagram was refused. It changed nothing, unless noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DatagramRefusal {
    /// The datagram is longer than any datagram of a node.
    #[error("longer than any node sends")]
    TooLong,
    /// The datagram does not have the format.
    #[error("not a gossip datagram")]
    Malformed,
    /// The sender has this node's own life: a reflection, or another node with its name and life.
    #[error("from this node itself")]
    FromMyself,
    /// Its sender speaks another wire version.
    #[error("wire version {0}, this node speaks {WIRE_VERSION}")]
    Incompatible(u8),
    /// Its sender gives an address that no node can reach.
    #[error("the sender's address cannot be reached")]
    Unreachable,
    /// The table of members is full of live members.
    #[error("more members than a cluster can have")]
    Full,
    /// This node has said goodbye.
    #[error("this node has left")]
    IHaveLeft,
}

impl DatagramRefusal {
    /// The label of a metric.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::FromMyself => "from_myself",
            Self::Incompatible(_) => "incompatible",
            Self::Unreachable => "unreachable",
            Self::Full => "full",
            Self::IHaveLeft => "left",
        }
    }
}
