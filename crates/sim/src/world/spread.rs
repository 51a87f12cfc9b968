//! The port that spreads pieces to all other nodes. It uses the node's gossip task if there is one. In a world without
//! gossip each piece goes to each other node as a datagram does: late, twice or not at all. This module does not read
//! pieces.

use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use hopcache_core::time::Millis;
use hopcache_engine::ports::Spread;
use tokio::sync::mpsc;

use crate::check::record::Life;
use crate::world::gossip_command::GossipCommand;
use crate::world::net::Net;
use crate::world::process::{Power, Process};

/// One node's way to all other nodes.
pub(crate) struct SpreadPort {
    /// The network.
    pub(crate) net: Arc<Net>,
    /// The node of this port.
    pub(crate) by: Life,
    /// Its process.
    pub(crate) process: Process,
    /// The gossip task, if the node has one.
    pub(crate) gossip_task: OnceLock<mpsc::Sender<GossipCommand>>,
}

/// The time in which gossip reaches all nodes: a few of its rounds (`GOSSIP_SPREAD_EVERY_MS`).
const SPREADS_WITHIN_MS: u64 = 300;

impl Spread for SpreadPort {
    fn spread(&self, piece: Bytes) -> bool {
        if self.process.power() != Power::On {
            return false;
        }
        if let Some(gossip_task) = self.gossip_task.get() {
            return gossip_task.try_send(GossipCommand::Spread(piece)).is_ok();
        }
        for (node, process, engine) in self.net.others(self.by.node) {
            let is_lost = self.net.udp.loses() || self.net.is_cut(self.by.node, node);
            if is_lost {
                continue;
            }
            for _ in 0..self.net.udp.copies() {
                let (piece, late) = (piece.clone(), Millis(self.net.udp.late_ms(SPREADS_WITHIN_MS)));
                let (process, engine) = (process.clone(), Weak::clone(&engine));
                tokio::spawn(async move {
                    tokio::time::sleep(late.duration()).await;
                    if process.power() == Power::On
                        && let Some(engine) = engine.upgrade()
                    {
                        engine.prefetch().heard_spread(&piece);
                    }
                });
            }
        }
        true
    }
}
