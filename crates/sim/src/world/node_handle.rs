//! A simulated node as tests and schedules hold it: its engine and everything behind its ports.

use std::sync::Arc;

use hopcache_core::node::Holder;
use hopcache_core::time::Millis;
use hopcache_engine::Engine;

use crate::check::record::Life;
use crate::world::cores::SimCores;
use crate::world::event_log::EventLog;
use crate::world::gossip_command::GossipCommand;
use crate::world::listeners::SimulatedListeners;
use crate::world::map_memory::MapMemory;
use crate::world::members::SimRouting;
use crate::world::net::PeersPort;
use crate::world::origin::NodeQueue;
use crate::world::process::Process;
use crate::world::spread::SpreadPort;

/// The parts of a new node.
pub struct Start {
    /// The node and its life.
    pub life: Life,
    /// Its name and incarnation; the incarnation seeds its dice.
    pub me: Holder,
    /// Its view of the ring.
    pub routing: Arc<SimRouting>,
    /// The difference between the node's clock and the simulation's.
    pub apart: Millis,
}

/// One node.
#[derive(Clone)]
pub struct NodeHandle {
    /// Its engine.
    pub engine: Arc<Engine>,
    /// The node and its life.
    pub life: Life,
    /// The difference between the node's clock and the simulation's. Clocks of two nodes are independent.
    pub apart: Millis,
    /// Its process.
    pub process: Process,
    /// Its listeners.
    pub listeners: SimulatedListeners,
    /// Its way to its peers.
    pub peers: PeersPort,
    /// Its view of the ring.
    pub routing: Arc<SimRouting>,
    /// The node's events.
    pub events: Arc<EventLog>,
    /// Its memory.
    pub memory: Arc<MapMemory>,
    /// Its slots at the origin, and the line before them.
    pub line: Option<Arc<NodeQueue>>,
    /// Its cores.
    pub cores: Arc<SimCores>,
    /// The node's way to all other nodes at once.
    pub(crate) spread: Arc<SpreadPort>,
    /// The task that announces that the node drains or leaves, if nodes do.
    pub(crate) gossip_commands: Option<tokio::sync::mpsc::Sender<GossipCommand>>,
}

impl NodeHandle {
    /// Sends a command to the gossip task, if the node has one.
    pub(crate) async fn command_gossip(&self, command: GossipCommand) {
        if let Some(commands) = &self.gossip_commands {
            let _ = commands.send(command).await;
        }
    }

    /// Refreshes that it noted as begun, and as ended one way or another; and those that it says are under way.
    #[must_use]
    pub fn refreshes(&self) -> (u64, u64, u64) {
        let noted = self.events.noted();
        (noted.refreshes_begun, noted.refreshes_ended, self.engine.refresh().begun() as u64)
    }
}
