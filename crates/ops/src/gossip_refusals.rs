//! Why a node refuses a datagram of gossip: the reasons as metrics and the log name them.

hopcache_core::words! {
    /// Why a datagram is refused.
    pub enum GossipRefusal {
        /// Larger than any datagram of a node.
        Oversized = "oversized",
        /// Too short for a datagram of a node.
        Truncated = "truncated",
        /// Another version of the seal, or another wire version.
        Version = "version",
        /// Sealed under a key that this node does not have.
        Cluster = "cluster",
        /// It names a key of this node, and the proof is wrong.
        Forged = "forged",
        /// Seen before, or older than the replay window.
        Replayed = "replayed",
        /// Sealed correctly, and still not readable.
        Unreadable = "unreadable",
        /// Sent by this node: a seed may be the node itself.
        Own = "own",
        /// Its sender gives an address that no node can connect to.
        Unreachable = "unreachable",
        /// The table of members is full.
        Full = "full",
        /// This node has said goodbye.
        Left = "left",
    }
}

impl GossipRefusal {
    /// Its meaning and the action to take, for the log. `None` if there is nothing to do.
    #[must_use]
    pub const fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::Oversized => "larger than gossip is: something else sends to the peer port",
            Self::Truncated => "too short for gossip: something else sends to the peer port",
            Self::Version => {
                "another version of gossip: a node of another release, or something else that sends to the peer port"
            }
            Self::Cluster => {
                "another cluster's key or name: if it should belong to this one, compare cluster.key, cluster.previous_key and cluster.name of both"
            }
            Self::Forged => "the proof of the cluster key does not fit: changed on the way, or forged",
            Self::Replayed => "seen before: repeated by the network, or played again",
            Self::Unreadable => {
                "sealed with this cluster's key and yet not readable: a node of another release"
            }
            Self::Unreachable => {
                "its sender gives an address that nobody can connect to: set its node.peer_advertise"
            }
            Self::Full => "as many members as a cluster can have: the sender is left out",
            Self::Own | Self::Left => return None,
        })
    }
}
