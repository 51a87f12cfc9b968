//! Drops what was prefetched and nobody has used, in the memories of all nodes. The store keeps its entries: they are as good
//! as any other, and cost no memory here.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use hopcache_core::limits::PEERS_TOLD_AT_A_TIME;
use hopcache_core::node::NodeName;
use hopcache_packstream::{Reader, Writer};

use super::Resolution;
use crate::engine::Engine;
use crate::message::encode_flush_waste;
use crate::ports::Scope;

/// What a flush reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Unused copies dropped.
    pub copies: u64,
    /// Nodes that did, this one included.
    pub nodes: u32,
    /// Nodes that could not be told.
    pub unreached: u32,
}

impl Engine {
    /// Flushes here and on every node that can be asked.
    pub async fn flush_waste(self: &Arc<Self>) -> Flushed {
        let own = Flushed { copies: self.flush_waste_here(), nodes: 1, unreached: 0 };
        let told =
            self.in_order_to_tell(&Scope::All).into_iter().map(async |node| self.tell_to_flush(&node).await);
        let add = async |sum: Flushed, copies: Option<u64>| match copies {
            Some(copies) => Flushed { copies: sum.copies + copies, nodes: sum.nodes + 1, ..sum },
            None => Flushed { unreached: sum.unreached + 1, ..sum },
        };
        stream::iter(told).buffered(PEERS_TOLD_AT_A_TIME).fold(own, add).await
    }

    /// Flushes on this node; how many copies. Whoever is answered with one in the same moment uses it, or it is flushed: the
    /// ticket says which. Flights under way are not touched.
    pub(crate) fn flush_waste_here(&self) -> u64 {
        self.ports
            .memory
            .remove_where(&|_, copy| copy.ticket().is_some_and(|ticket| ticket.settle(Resolution::Wasted)))
    }

    pub(crate) fn serve_flush(&self) -> Bytes {
        let mut writer = Writer::new();
        writer.int(i64::try_from(self.flush_waste_here()).unwrap_or(i64::MAX));
        writer.into_bytes().into()
    }

    async fn tell_to_flush(&self, node: &NodeName) -> Option<u64> {
        let timeout_ms = self.policy.probe_timeout_ms;
        let answer = self.ports.peers.forward(node, encode_flush_waste(), timeout_ms).await.ok()?;
        u64::try_from(Reader::new(&answer).value().ok()?.as_int()?).ok()
    }
}
