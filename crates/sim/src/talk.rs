//! One node's gossip and probes: a task that owns its part in the gossip, probes whom it heard of, and says what phase
//! the node is in. It does what the node's own adapters do, over simulated datagrams.
//!
//! Gossip introduces, the probe admits: a card that was heard is probed before anybody is routed to it. What is probed
//! for ever are seeds, whose name is resolved again and again; what was only heard of is given up after a while and has
//! to be heard of again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use hopcache_core::limits::{PROBE_TIMEOUT_MS, SEED_RESOLVE_MS};
use hopcache_core::membership::{Phase, Report, probe_pause};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_engine::Engine;
use hopcache_engine::ports::{Dice, PeerError};
use hopcache_gossip::{Effect, Gossip, Settings, Timers};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::cluster::addr_of;
use crate::dice::SimDice;
use crate::members::SimRouting;
use crate::net::{Net, PeersPort};
use crate::record::Life;
use crate::switch::Switch;
use crate::udp::Datagram;
use crate::world::{NodeHandle, node_name, sim_now};

/// What the task is told.
#[derive(Debug)]
pub(crate) enum Word {
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

/// Who waits for the first word of gossip waits so long.
const FIRST_WORD_MS: u64 = 1_000;
/// Failures in a row after which a node that was only heard of is given up.
const FAILURES_MAX: u32 = 12;
/// How often seeds are announced to, and the long dead forgotten.
const HOUSE_MS: u64 = 2_000;
/// Words to the task that wait.
const WORDS_MAX: usize = 64;

pub(crate) struct Talk {
    life: Life,
    /// Who is told of what others spread.
    engine: Weak<Engine>,
    routing: Arc<SimRouting>,
    port: PeersPort,
    switch: Switch,
    net: Arc<Net>,
    gossip: Gossip,
    timers: Timers,
    datagrams: mpsc::Receiver<Datagram>,
    words: mpsc::Receiver<Word>,
    tell: mpsc::Sender<Word>,
    dice: Arc<SimDice>,
    seeds: BTreeSet<usize>,
    untried: BTreeSet<usize>,
    probed: BTreeMap<usize, tokio::task::AbortHandle>,
    probes: JoinSet<()>,
    house_at: Millis,
    resolve_at: Millis,
    /// When the node is ready at the latest, and no longer waits for gossip's first word.
    ready_at: Option<Millis>,
    has_heard: bool,
}

fn now() -> Millis {
    Millis(sim_now().0 / 1_000)
}

/// The node at an address.
pub(crate) fn node_at(addr: SocketAddr) -> Option<usize> {
    (0..crate::profile::NAMES_MAX.max(64)).find(|node| addr_of(*node) == addr)
}

impl Talk {
    /// The task of a node's life, and where it is told things.
    pub(crate) fn new(
        node: &NodeHandle,
        net: &Arc<Net>,
        seeds: &[usize],
        dice: SimDice,
    ) -> (Self, mpsc::Sender<Word>) {
        let (tell, words) = mpsc::channel(WORDS_MAX);
        let me = node.routing.card().unwrap_or_else(|| unreachable_card(node));
        let talk = Self {
            life: node.life,
            engine: Arc::downgrade(&node.engine),
            routing: Arc::clone(&node.routing),
            port: node.peers.clone(),
            switch: node.switch.clone(),
            net: Arc::clone(net),
            gossip: Gossip::new(me, Settings::default(), dice.u64()),
            timers: Timers::default(),
            datagrams: net.udp.open(node.life),
            words,
            tell: tell.clone(),
            dice: Arc::new(dice),
            seeds: seeds.iter().copied().collect(),
            untried: seeds.iter().copied().collect(),
            probed: BTreeMap::new(),
            probes: JoinSet::new(),
            house_at: now(),
            resolve_at: Millis(now().0 + SEED_RESOLVE_MS),
            ready_at: None,
            has_heard: false,
        };
        (talk, tell)
    }

    pub(crate) async fn run(mut self) {
        for seed in self.seeds.clone() {
            self.probe(seed);
        }
        loop {
            self.keep_house();
            self.become_ready();
            let timer_at = self.timers.next().unwrap_or(Millis(u64::MAX));
            let wake_at = timer_at.min(self.house_at).min(self.ready_at.unwrap_or(Millis(u64::MAX)));
            let mut effects = Vec::new();
            tokio::select! {
                biased;
                Some(word) = self.words.recv() => {
                    self.switch.on().await;
                    self.take_word(&word, &mut effects);
                }
                // The socket before the timers: what waits in it may be the answer that is missed.
                Some(datagram) = self.datagrams.recv() => {
                    self.switch.on().await;
                    let _ = self.gossip.heard(&datagram.bytes, &mut effects);
                }
                () = tokio::time::sleep(wake_at.saturating_sub(now()).duration()) => {
                    self.switch.on().await;
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
                        engine.heard_spread(&piece);
                    }
                }
                Effect::Rejoined => {}
            }
        }
    }

    fn take_word(&mut self, word: &Word, effects: &mut Vec<Effect>) {
        match word {
            Word::Tried(node) => {
                self.untried.remove(node);
                if self.untried.is_empty() && self.ready_at.is_none() {
                    self.ready_at = Some(Millis(now().0 + FIRST_WORD_MS));
                }
            }
            Word::GivenUp(node) => {
                self.probed.remove(node);
                self.routing.dismiss(addr_of(*node));
                // Gossip may have brought it back while the last probe was under way, and does not say so twice.
                let addr = addr_of(*node);
                if self.seeds.contains(node) || self.gossip.members().any(|card| card.peer_addr == addr) {
                    self.probe(*node);
                }
            }
            Word::Answered(node) => {
                let addr = addr_of(*node);
                if !self.gossip.members().any(|card| card.peer_addr == addr) {
                    self.gossip.announce(addr, effects);
                }
            }
            Word::Drain => self.say(Phase::Draining, effects),
            Word::Leave => self.gossip.leave(effects),
            Word::Spread(piece) => {
                let _ = self.gossip.spread(piece, effects);
            }
        }
    }

    fn say(&mut self, phase: Phase, effects: &mut Vec<Effect>) {
        if let Some(card) = self.routing.set_phase(phase) {
            self.gossip.say(card, effects);
        }
    }

    /// Every seed was tried, and gossip has had its first word or its time: this node owns its share.
    fn become_ready(&mut self) {
        if self.seeds.is_empty() && self.ready_at.is_none() {
            self.ready_at = Some(now());
        }
        let is_due = self.ready_at.is_some_and(|at| self.has_heard || at <= now());
        if is_due {
            self.ready_at = None;
            // Once in a life: nobody who drains becomes ready again.
            if self.routing.phase() == Some(Phase::Joining) {
                let mut effects = Vec::new();
                self.say(Phase::Ready, &mut effects);
                self.carry_out(effects);
            }
        }
    }

    fn keep_house(&mut self) {
        if now() < self.house_at {
            return;
        }
        self.house_at = Millis(now().0 + HOUSE_MS);
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
            tell: self.tell.clone(),
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
    tell: mpsc::Sender<Word>,
}

impl Prober {
    async fn run(self, node: usize, name: NodeName) {
        let (addr, mut failures, mut is_tried) = (addr_of(node), 0, false);
        loop {
            let life = self.routing.life_of(&name);
            let report = match self.port.identify(node, Millis(PROBE_TIMEOUT_MS)).await {
                Ok(shown) => {
                    self.routing.answered(addr, &shown.card);
                    let _ = self.tell.send(Word::Answered(node)).await;
                    None
                }
                // Who has never answered is no member.
                Err(PeerError::Gone(_)) => Some(life.map_or(Report::ProbeUnanswered, Report::Gone)),
                Err(PeerError::TimedOut) => Some(Report::ProbeUnanswered),
                Err(PeerError::Refused(_)) => Some(Report::Stranger),
            };
            failures = if report.is_some() { failures + 1 } else { 0 };
            if let Some(report) = report {
                self.routing.failed(&name, report);
            }
            if !std::mem::replace(&mut is_tried, true) {
                let _ = self.tell.send(Word::Tried(node)).await;
            }
            if failures >= FAILURES_MAX {
                let _ = self.tell.send(Word::GivenUp(node)).await;
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

/// Never asked for: every node that talks has a card.
fn unreachable_card(node: &NodeHandle) -> hopcache_core::membership::Card {
    let me = node.engine.me();
    hopcache_core::membership::Card::new(
        me.node.clone(),
        addr_of(node.life.node),
        me.incarnation,
        Phase::Joining,
    )
}
