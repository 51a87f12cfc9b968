//! A simulated node as tests and schedules hold it: its engine and everything behind its ports.

use std::sync::Arc;

use hopcache_core::node::Holder;
use hopcache_core::time::Millis;
use hopcache_engine::Engine;

use crate::event_log::EventLog;
use crate::gossip_command::GossipCommand;
use crate::listeners::SimulatedListeners;
use crate::map_memory::MapMemory;
use crate::members::SimRouting;
use crate::net::PeersPort;
use crate::process::Process;
use crate::record::Life;
use crate::spread::SpreadPort;

/// What a node starts with.
pub struct Start {
    /// Which life of which node it is.
    pub life: Life,
    /// Its name and incarnation; the incarnation seeds its dice.
    pub me: Holder,
    /// Its view of the ring.
    pub routing: Arc<SimRouting>,
    /// What its clock shows beside the simulation's.
    pub apart: Millis,
}

/// One node.
#[derive(Clone)]
pub struct NodeHandle {
    /// Its engine.
    pub engine: Arc<Engine>,
    /// Which life of which node it is.
    pub life: Life,
    /// What its clock shows beside the simulation's: two nodes' clocks have nothing to do with each other.
    pub apart: Millis,
    /// Its process.
    pub process: Process,
    /// Its listeners.
    pub listeners: SimulatedListeners,
    /// Its way to its peers.
    pub peers: PeersPort,
    /// Its view of the ring.
    pub routing: Arc<SimRouting>,
    /// What it noted.
    pub events: Arc<EventLog>,
    /// Its memory.
    pub memory: Arc<MapMemory>,
    /// Its way to all others at once.
    pub(crate) spread: Arc<SpreadPort>,
    /// To whom it is said that it drains or leaves, where nodes do.
    pub(crate) gossip_commands: Option<tokio::sync::mpsc::Sender<GossipCommand>>,
}

impl NodeHandle {
    /// Tells the task that gossips; nothing where there is none.
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
