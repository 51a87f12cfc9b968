//! The orders that the rest of the node can give to the gossip task.

use bytes::Bytes;
use tokio::sync::oneshot;

/// An order to the task.
pub(super) enum Order {
    /// Say goodbye to every member. The sender is notified when the datagrams are sent.
    Leave(oneshot::Sender<()>),
    /// Spread this to every member.
    Spread(Bytes),
}

impl std::fmt::Debug for Order {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Leave(_) => out.write_str("Leave"),
            Self::Spread(piece) => write!(out, "Spread({} bytes)", piece.len()),
        }
    }
}
