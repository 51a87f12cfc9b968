//! Joins and leaves of a seed's schedule: nodes join under a new name, drain, and leave forever. Also heals a majority
//! only. The steps of a joining or leaving node are in `node_tasks.rs` and `gossip_task.rs`.

use std::sync::Arc;

use hopcache_core::membership::Phase;
use hopcache_core::node::{Holder, NodeName};
use hopcache_core::time::Millis;
use hopcache_engine::ports::Dice;

use crate::check::record::{Life, What};
use crate::drive::cluster::Cluster;
use crate::drive::profile::NODES_MAX;
use crate::world::dice::SimDice;
use crate::world::gossip_task::SimulatedGossip;
use crate::world::members::SimRouting;
use crate::world::names::{NAMES_MAX, addr_of, node_name};
use crate::world::node_handle::{NodeHandle, Start};
use crate::world::node_tasks::{be_taken_in, leave};
use crate::world::process::Power;

/// The addresses of the seeds' name: two running nodes that are not leaving, as a DNS name for healthy nodes would
/// have. Gossip finds the other nodes.
const SEEDS: usize = 2;

impl Cluster {
    /// Nodes that have not left for ever, dead ones among them.
    pub(crate) fn nodes(&self) -> Vec<usize> {
        (0..self.world.nodes.len()).filter(|node| !self.changes.gone.contains(node)).collect()
    }

    /// Nodes that are to be in every ring once all is well.
    pub(crate) fn staying(&self) -> Vec<usize> {
        let leaves = |node: &usize| self.changes.draining.contains(&self.world.nodes[*node].life);
        self.nodes().into_iter().filter(|node| !leaves(node)).collect()
    }

    /// Their names, in order.
    pub(crate) fn names(nodes: &[usize]) -> Vec<NodeName> {
        let mut names: Vec<NodeName> = nodes.iter().copied().filter_map(node_name).collect();
        names.sort();
        names
    }

    /// A life of a node that finds the others by gossip, from seeds.
    pub(crate) fn started_to_join(&mut self, life: Life, me: Holder) -> Option<NodeHandle> {
        let routing = SimRouting::joining(&me, addr_of(life.node));
        let apart = Millis(self.dice.below(self.profile.apart_ms_max + 1));
        let start = Start { life, me, routing, apart };
        let mut handle = self.world.start(start, &self.profile.policy);
        handle.routing.belongs_to(&handle.engine);
        self.start_engines_tasks(&handle);
        self.world.net.show_card(life, &handle.routing);
        let (seeds, dice) = (self.seeds_for(life.node), SimDice::new(self.dice.u64()));
        let (gossip_task, commands) = SimulatedGossip::new(&handle, &self.world.net, &seeds, dice);
        // The first node that runs and is still in this life.
        let _ = handle.spread.gossip_task.set(commands.clone());
        handle.gossip_commands = Some(commands);
        let joins = be_taken_in(handle.clone(), Arc::clone(&self.world.record));
        for task in [tokio::spawn(gossip_task.run()), tokio::spawn(joins)] {
            self.tasks.push((life, task.abort_handle()));
        }
        Some(handle)
    }

    fn seeds_for(&self, me: usize) -> Vec<usize> {
        if self.world.nodes.len() < self.profile.nodes {
            // The first ones, which start together, are each other's.
            return (0..self.profile.nodes).filter(|node| *node != me).take(SEEDS).collect();
        }
        self.world.net.seeds().into_iter().filter(|node| *node != me).collect()
    }

    /// The nodes that the seeds' name names now.
    pub(crate) fn name_seeds(&self) {
        let runs = |node: &usize| self.world.nodes[*node].process.power() == Power::On;
        let healthy = self.staying().into_iter().filter(runs);
        let seeds =
            healthy.filter(|node| self.changes.whole.as_ref().is_none_or(|whole| whole.contains(node)));
        self.world.net.set_seeds(seeds.take(SEEDS).collect());
    }

    pub(crate) fn join(&mut self) {
        let node = self.world.nodes.len();
        if node >= NAMES_MAX || self.nodes().len() >= NODES_MAX {
            return;
        }
        self.join_unconditionally();
    }

    /// Three or four nodes that find each other by gossip, and no faults.
    pub(crate) fn of_few(seed: u64) -> Self {
        // The first quiet world with joins and leaves (`profile.rs`) does this regardless of its dice.
        let mut cluster = Self::new(seed * 320 + 96);
        while cluster.world.nodes.len() < 3 {
            cluster.join_unconditionally();
        }
        cluster
    }

    /// Starts one more node with a new name.
    pub(crate) fn join_unconditionally(&mut self) {
        let node = self.world.nodes.len();
        self.world.record.note(What::Power { node, power: "joined" });
        if let Some(handle) = self.started(Life { node, life: 0 }) {
            self.world.nodes.push(handle);
        }
    }

    /// The oldest node behind the first that is ready.
    pub(crate) fn ready_after_first(&self) -> Option<usize> {
        let is_ready = |node: &usize| self.world.nodes[*node].routing.phase() == Some(Phase::Ready);
        self.staying().into_iter().filter(|node| *node > 0).find(is_ready)
    }

    /// Leaves in good order (`node_tasks.rs`).
    pub(crate) fn drain(&mut self, node: usize) {
        let handle = self.world.nodes[node].clone();
        let is_up = handle.process.power() == Power::On && handle.routing.phase() == Some(Phase::Ready);
        // The last two nodes stay, so that requests have a node to go to.
        if !is_up || self.staying().len() <= 2 || !self.changes.draining.insert(handle.life) {
            return;
        }
        let (record, emptied) = (Arc::clone(&self.world.record), Arc::clone(&self.changes.emptied));
        let life = handle.life;
        let leaves = async move {
            leave(handle, record).await;
            emptied.lock().push(life);
        };
        self.tasks.push((life, tokio::spawn(leaves).abort_handle()));
    }

    /// Those that have ended are gone.
    pub(crate) fn see_off(&mut self) {
        let emptied = std::mem::take(&mut *self.changes.emptied.lock());
        for life in emptied {
            if self.world.nodes[life.node].life != life {
                continue;
            }
            self.power(life.node, Power::Off, "left");
            self.bury(life.node);
            self.changes.gone.insert(life.node);
        }
    }

    /// Heals a majority of the staying nodes and their services. The other nodes are cut off from the majority, or stay
    /// dead. Returns the majority; nothing if the only majority is all nodes.
    pub(crate) fn heal_majority(&mut self) -> Option<Vec<usize>> {
        let mut majority = self.staying();
        let minority = (majority.len().max(1) - 1) / 2;
        if minority == 0 {
            return None;
        }
        for _ in 0..minority {
            // The dead and the stopped first: nothing is done for them.
            let is_down = |node: &usize| self.world.nodes[*node].process.power() != Power::On;
            let down = majority.iter().position(is_down);
            let place = down.unwrap_or_else(|| self.dice.index(majority.len()));
            majority.remove(place);
        }
        self.heal_ways();
        self.heal_services();
        for node in self.nodes().into_iter().filter(|node| !majority.contains(node)) {
            self.cut_node(node);
        }
        for node in majority.clone() {
            self.heal_process(node);
        }
        self.changes.whole = Some(majority.clone());
        self.world.record.note(What::MajorityHealed { nodes: majority.clone() });
        Some(majority)
    }
}
