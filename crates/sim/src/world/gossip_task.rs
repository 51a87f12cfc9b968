//! One node's gossip and probes: a task that takes part in the gossip, probes nodes from gossip, and announces the
//! node's phase. The task does the work of a real node's adapters over simulated datagrams.
//!
//! Gossip introduces a node, and the probe admits it: before the task routes to a node from gossip, the node has to
//! answer a probe. The task probes seeds forever and resolves their name again and again. It gives up a silent node
//! that only gossip named, until gossip names it again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use hopcache_core::limits::{PROBE_TIMEOUT_MS, SEED_RESOLVE_MS};
use hopcache_core::membership::{Phase, Report, probe_pause};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_engine::Engine;
use hopcache_engine::ports::{Dice, PeerError};
use hopcache_gossip::{Effect, Gossip, Settings, Timers};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::check::record::Life;
use crate::world::clock::sim_now;
use crate::world::dice::SimDice;
use crate::world::gossip_command::GossipCommand;
use crate::world::members::SimRouting;
use crate::world::names::{addr_of, node_at, node_name};
use crate::world::net::{Net, PeersPort};
use crate::world::node_handle::NodeHandle;
use crate::world::process::Process;
use crate::world::udp::Datagram;

/// How long a node waits for the first news of gossip.
const FIRST_NEWS_MS: u64 = 1_000;
/// Failures in a row after which a node that only gossip named is given up.
const FAILURES_MAX: u32 = 12;
/// How often the node announces itself to seeds, and forgets members that have been dead for long.
const MAINTENANCE_MS: u64 = 2_000;
/// Most commands that wait for the task.
const COMMANDS_MAX: usize = 64;

pub(crate) struct SimulatedGossip {
    life: Life,
    /// The engine that gets pieces of other nodes.
    engine: Weak<Engine>,
    routing: Arc<SimRouting>,
    port: PeersPort,
    process: Process,
    net: Arc<Net>,
    gossip: Gossip,
    timers: Timers,
    datagrams: mpsc::Receiver<Datagram>,
    commands: mpsc::Receiver<GossipCommand>,
    commander: mpsc::Sender<GossipCommand>,
    dice: Arc<SimDice>,
    seeds: BTreeSet<usize>,
    untried: BTreeSet<usize>,
    probed: BTreeMap<usize, tokio::task::AbortHandle>,
    probes: JoinSet<()>,
    maintain_at: Millis,
    resolve_at: Millis,
    /// When the node becomes ready even without news of gossip.
    ready_at: Option<Millis>,
    has_heard: bool,
}

fn now() -> Millis {
    Millis(sim_now().0 / 1_000)
}

impl SimulatedGossip {
    /// The task of a node's life, and the sender of its commands.
    pub(crate) fn new(
        node: &NodeHandle,
        net: &Arc<Net>,
        seeds: &[usize],
        dice: SimDice,
    ) -> (Self, mpsc::Sender<GossipCommand>) {
        let (commander, commands) = mpsc::channel(COMMANDS_MAX);
        let me = node.routing.card().unwrap_or_else(|| unreachable_card(node));
        let task = Self {
            life: node.life,
            engine: Arc::downgrade(&node.engine),
            routing: Arc::clone(&node.routing),
            port: node.peers.clone(),
            process: node.process.clone(),
            net: Arc::clone(net),
            gossip: Gossip::new(me, Settings::default(), dice.u64()),
            timers: Timers::default(),
            datagrams: net.udp.open(node.life),
            commands,
            commander: commander.clone(),
            dice: Arc::new(dice),
            seeds: seeds.iter().copied().collect(),
            untried: seeds.iter().copied().collect(),
            probed: BTreeMap::new(),
            probes: JoinSet::new(),
            maintain_at: now(),
            resolve_at: Millis(now().0 + SEED_RESOLVE_MS),
            ready_at: None,
            has_heard: false,
        };
        (task, commander)
    }

    pub(crate) async fn run(mut self) {
        for seed in self.seeds.clone() {
            self.probe(seed);
        }
        loop {
            self.maintain();
            self.become_ready();
            let timer_at = self.timers.next().unwrap_or(Millis(u64::MAX));
            let wake_at = timer_at.min(self.maintain_at).min(self.ready_at.unwrap_or(Millis(u64::MAX)));
            let mut effects = Vec::new();
            tokio::select! {
                biased;
                Some(command) = self.commands.recv() => {
                    self.process.on().await;
                    self.execute(&command, &mut effects);
                }
                // The socket comes before the timers, because the awaited answer may be in the socket.
                Some(datagram) = self.datagrams.recv() => {
                    self.process.on().await;
                    let _ = self.gossip.heard(&datagram.bytes, &mut effects);
                }
                () = tokio::time::sleep(wake_at.saturating_sub(now()).duration()) => {
                    self.process.on().await;
                    let time = now();
                    while let Some((timer, late)) = self.timers.pop(time) {
                        self.gossip.due(timer, late, &mut effects);
                    }
                }
            }
            self.carry_out(effects);
            while self.probes.try_join_next().is_some() {}
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send { to, datagram } => {
                    if let Some(to) = node_at(to) {
                        let from = self.life.node;
                        self.net.udp.send(from, to, &datagram, self.net.is_cut(from, to));
                    }
                }
                Effect::Wake { after, timer } => self.timers.add(now(), after, timer),
                Effect::Heard(card) => {
                    self.has_heard = true;
                    if let Some(node) = self.routing.heard(&card).and_then(node_at) {
                        self.probe(node);
                    }
                }
                Effect::Down(card) => self.routing.failed(&card.name, Report::GossipDown(card.life)),
                Effect::Left(card) => self.routing.failed(&card.name, Report::Left(card.life)),
                Effect::Spread(piece) => {
                    if let Some(engine) = self.engine.upgrade() {
                        engine.prefetch().heard_spread(&piece);
                    }
                }
                Effect::Rejoined => {}
            }
        }
    }

    fn execute(&mut self, command: &GossipCommand, effects: &mut Vec<Effect>) {
        match command {
            GossipCommand::Tried(node) => {
                self.untried.remove(node);
                if self.untried.is_empty() && self.ready_at.is_none() {
                    self.ready_at = Some(Millis(now().0 + FIRST_NEWS_MS));
                }
            }
            GossipCommand::GivenUp(node) => {
                self.probed.remove(node);
                self.routing.dismiss(addr_of(*node));
                // Gossip may have brought it back while the last probe was under way, and does not say so twice.
                let addr = addr_of(*node);
                if self.seeds.contains(node) || self.gossip.members().any(|card| card.peer_addr == addr) {
                    self.probe(*node);
                }
            }
            GossipCommand::Answered(node) => {
                let addr = addr_of(*node);
                if !self.gossip.members().any(|card| card.peer_addr == addr) {
                    self.gossip.announce(addr, effects);
                }
            }
            GossipCommand::Drain => self.say(Phase::Draining, effects),
            GossipCommand::Leave => self.gossip.leave(effects),
            GossipCommand::Spread(piece) => {
                let _ = self.gossip.spread(piece, effects);
            }
        }
    }

    fn say(&mut self, phase: Phase, effects: &mut Vec<Effect>) {
        if let Some(card) = self.routing.set_phase(phase) {
            self.gossip.say(card, effects);
        }
    }

    /// The node owns its share when every seed was tried, and gossip brought news or the wait is over.
    fn become_ready(&mut self) {
        if self.seeds.is_empty() && self.ready_at.is_none() {
            self.ready_at = Some(now());
        }
        let is_due = self.ready_at.is_some_and(|at| self.has_heard || at <= now());
        if is_due {
            self.ready_at = None;
            // Once in a life: a draining node never becomes ready again.
            if self.routing.phase() == Some(Phase::Joining) {
                let mut effects = Vec::new();
                self.say(Phase::Ready, &mut effects);
                self.carry_out(effects);
            }
        }
    }

    fn maintain(&mut self) {
        if now() < self.maintain_at {
            return;
        }
        self.maintain_at = Millis(now().0 + MAINTENANCE_MS);
        if now() >= self.resolve_at {
            self.resolve_at = Millis(now().0 + SEED_RESOLVE_MS);
            self.seeds = self.net.seeds().into_iter().filter(|node| *node != self.life.node).collect();
            self.seeds.clone().into_iter().for_each(|seed| self.probe(seed));
        }
        let mut effects = Vec::new();
        for seed in self.seeds.clone() {
            self.gossip.announce(addr_of(seed), &mut effects);
        }
        self.carry_out(effects);
        let seeds: Vec<SocketAddr> = self.seeds.iter().copied().map(addr_of).collect();
        self.routing.forget(now(), |addr| seeds.contains(&addr));
    }

    fn probe(&mut self, node: usize) {
        if node == self.life.node || self.probed.contains_key(&node) {
            return;
        }
        let Some(name) = node_name(node) else { return };
        let prober = Prober {
            routing: Arc::clone(&self.routing),
            port: self.port.clone(),
            dice: Arc::clone(&self.dice),
            commander: self.commander.clone(),
        };
        let task = self.probes.spawn(prober.run(node, name));
        self.probed.insert(node, task);
    }
}

/// Probes one node's address.
struct Prober {
    routing: Arc<SimRouting>,
    port: PeersPort,
    dice: Arc<SimDice>,
    commander: mpsc::Sender<GossipCommand>,
}

impl Prober {
    async fn run(self, node: usize, name: NodeName) {
        let (addr, mut failures, mut is_tried) = (addr_of(node), 0, false);
        loop {
            let life = self.routing.life_of(&name);
            let report = match self.port.identify(node, Millis(PROBE_TIMEOUT_MS)).await {
                Ok(shown) => {
                    self.routing.answered(addr, &shown.card);
                    let _ = self.commander.send(GossipCommand::Answered(node)).await;
                    None
                }
                // A node that never answered is no member.
                Err(PeerError::Gone(_)) => Some(life.map_or(Report::ProbeUnanswered, Report::Gone)),
                Err(PeerError::TimedOut) => Some(Report::ProbeUnanswered),
                Err(PeerError::Refused(_)) => Some(Report::Stranger),
            };
            failures = if report.is_some() { failures + 1 } else { 0 };
            if let Some(report) = report {
                self.routing.failed(&name, report);
            }
            if !std::mem::replace(&mut is_tried, true) {
                let _ = self.commander.send(GossipCommand::Tried(node)).await;
            }
            if failures >= FAILURES_MAX {
                let _ = self.commander.send(GossipCommand::GivenUp(node)).await;
                return;
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep(probe_pause(failures, self.dice.u64()).duration()) => {}
                () = self.routing.suspicion(), if failures == 0 => {}
            }
        }
    }
}

/// Never needed: every node with a gossip task has a card.
fn unreachable_card(node: &NodeHandle) -> hopcache_core::membership::Card {
    let me = node.engine.me();
    hopcache_core::membership::Card::new(
        me.node.clone(),
        addr_of(node.life.node),
        me.incarnation,
        Phase::Joining,
    )
}
