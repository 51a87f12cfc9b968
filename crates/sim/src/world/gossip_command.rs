//! Commands from the rest of a simulated node to its gossip task.

use bytes::Bytes;

/// A command to the gossip task.
#[derive(Debug)]
pub(crate) enum GossipCommand {
    /// A probe of a node's address ended for the first time.
    Tried(usize),
    /// A node that only gossip named has not answered for long, and is given up.
    GivenUp(usize),
    /// A node answered a probe. Gossip may not know it yet.
    Answered(usize),
    /// This node drains from now on.
    Drain,
    /// This node says goodbye.
    Leave,
    /// Spread this piece to all other nodes.
    Spread(Bytes),
}
