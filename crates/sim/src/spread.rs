//! What nodes spread to all others, where a world has no gossip of its own: each piece comes to each other node as
//! datagrams do, late, lost or not at all. It decides nothing about what is said.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::time::Millis;
use hopcache_engine::ports::Spread;

use crate::net::Net;
use crate::record::Life;
use crate::switch::{Power, Switch};

/// One node's way to all others at once.
pub(crate) struct SpreadPort {
    /// The network.
    pub(crate) net: Arc<Net>,
    /// Whose port this is.
    pub(crate) by: Life,
    /// Its process.
    pub(crate) switch: Switch,
}

/// Gossip tells everybody within a few of its rounds (`GOSSIP_SPREAD_EVERY_MS`).
const SPREADS_WITHIN_MS: u64 = 300;

impl Spread for SpreadPort {
    fn spread(&self, piece: Bytes) -> bool {
        if self.switch.power() != Power::On {
            return false;
        }
        for (node, switch, engine) in self.net.others(self.by.node) {
            let is_lost = self.net.udp.loses() || self.net.is_cut(self.by.node, node);
            if is_lost {
                continue;
            }
            let (piece, late) = (piece.clone(), Millis(self.net.udp.late_ms(SPREADS_WITHIN_MS)));
            tokio::spawn(async move {
                tokio::time::sleep(late.duration()).await;
                if switch.power() == Power::On
                    && let Some(engine) = engine.upgrade()
                {
                    engine.heard_spread(&piece);
                }
            });
        }
        true
    }
}
