//! What the rest of a simulated node tells its gossip task.

use bytes::Bytes;

/// What the task is told.
#[derive(Debug)]
pub(crate) enum GossipCommand {
    /// A probe of a node's address ended for the first time.
    Tried(usize),
    /// A node that was only heard of did not answer, and is given up.
    GivenUp(usize),
    /// A node answered whom gossip may not know.
    Answered(usize),
    /// This node drains from now on.
    Drain,
    /// This node says goodbye.
    Leave,
    /// This is for all others.
    Spread(Bytes),
}
