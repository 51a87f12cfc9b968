//! Drops copies that were prefetched and not used, in the memories of all nodes. The store keeps its entries: they are
//! as good as any other, and take no memory here.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use hopcache_core::limits::PEERS_TOLD_AT_A_TIME;
use hopcache_core::node::NodeName;

use crate::cache::Provenance;
use crate::model::ports::Scope;
use crate::peers;
use crate::prefetch::Prefetch;

/// Plain data: how far a flush reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlushReach {
    /// Unused copies dropped.
    pub copies: u64,
    /// Nodes that flushed, this one included.
    pub nodes: u32,
    /// Nodes that could not be reached.
    pub unreached: u32,
}

impl Prefetch {
    /// Flushes here and on every node that can be asked.
    pub async fn flush_waste(self: &Arc<Self>) -> FlushReach {
        let own = FlushReach { copies: self.flush_waste_here(), nodes: 1, unreached: 0 };
        let nodes = self.invalidate.in_order_to_tell(&Scope::All);
        let told = nodes.into_iter().map(async |node| self.tell_to_flush(&node).await);
        let add = async |sum: FlushReach, copies: Option<u64>| match copies {
            Some(copies) => FlushReach { copies: sum.copies + copies, nodes: sum.nodes + 1, ..sum },
            None => FlushReach { unreached: sum.unreached + 1, ..sum },
        };
        stream::iter(told).buffered(PEERS_TOLD_AT_A_TIME).fold(own, add).await
    }

    /// Flushes on this node. Returns the number of copies. A request may use a copy at the same moment: the copy is
    /// then either used or flushed, and the ticket shows which. Flights under way are not touched.
    pub(crate) fn flush_waste_here(&self) -> u64 {
        self.cache.remove_where(&|_, copy| copy.provenance().is_some_and(Provenance::flush))
    }

    async fn tell_to_flush(&self, node: &NodeName) -> Option<u64> {
        self.peers.ask(node, peers::flush_waste(), self.probe_timeout_ms).await.ok()
    }
}
