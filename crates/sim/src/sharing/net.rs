//! The nodes together: a clock that advances by milliseconds, and datagrams that take some time or are lost. Pulls take
//! no time. Decides what arrives when, and counts. The nodes decide what a datagram means.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use hopcache_core::key::KeyHasher;
use hopcache_core::limits::{GOSSIP_DATAGRAM_BYTES_MAX, GOSSIP_SEALED_BYTES_MAX};
use hopcache_core::membership::{Card, Phase};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::Dice;
use hopcache_gossip::Effect;

use super::load::Load;
use super::peer::{Peer, Pull, Traffic};
use super::setting::Setting;
use super::trials::Trials;
use crate::world::dice::SimDice;

/// A datagram takes from 1 ms to this long.
const DELAY_MS_MAX: u64 = 3;
/// A node that does not know all others asks the first one this often to be admitted, as nodes ask their seeds.
const ANNOUNCE_EVERY_MS: u64 = 5_000;
const SEAL_BYTES: usize = GOSSIP_SEALED_BYTES_MAX - GOSSIP_DATAGRAM_BYTES_MAX;
const PORT: u16 = 7_000;

pub(super) struct Net {
    pub(super) now: Millis,
    pub(super) false_deaths: u64,
    peers: Vec<Peer>,
    flights: BTreeMap<(Millis, u64), (usize, Bytes)>,
    flown: u64,
    lost_percent: u64,
    dice: SimDice,
    /// The load. Without it no node learns or shares anything.
    load: Option<Load>,
    trials: Trials,
}

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], PORT + u16::try_from(node).unwrap_or(u16::MAX - PORT)))
}

impl Net {
    /// Nodes that do not know each other yet.
    pub(super) fn new(setting: &Setting) -> Self {
        let dice = SimDice::new(setting.seed);
        let hasher = KeyHasher::new(b"sharing");
        let start = |node: usize| {
            let name = NodeName::new(&format!("node-{node}")).ok()?;
            let card = Card::new(name, address(node), Incarnation(dice.u64()), Phase::Ready);
            Some(Peer::new(card, &hasher, dice.u64(), setting.trials, Millis(0)))
        };
        let peers = (0..setting.nodes).filter_map(start).collect();
        Self {
            now: Millis(0),
            false_deaths: 0,
            peers,
            flights: BTreeMap::new(),
            flown: 0,
            lost_percent: setting.lost_percent,
            dice,
            load: None,
            trials: Trials::default(),
        }
    }

    /// From now on nodes learn and share lessons.
    pub(super) fn teach(&mut self, mut load: Load, trials: Trials) {
        load.ready();
        (self.load, self.trials) = (Some(load), trials);
        for peer in &mut self.peers {
            peer.share_from(self.now, self.dice.u64());
        }
    }

    /// Whether all know all others.
    pub(super) fn is_converged(&self) -> bool {
        self.peers.iter().all(|peer| peer.gossip.members().count() + 1 == self.peers.len())
    }

    pub(super) fn are_trials_done(&self) -> bool {
        self.trials.are_done()
    }

    pub(super) fn trials_ms(&self) -> (Vec<u64>, Vec<u64>) {
        self.trials.took_ms()
    }

    pub(super) fn traffic(&self) -> Vec<Traffic> {
        self.peers.iter().map(|peer| peer.traffic.clone()).collect()
    }

    pub(super) fn untold_most(&self) -> usize {
        self.peers.iter().map(|peer| peer.model.sizes().untold).max().unwrap_or(0)
    }

    /// Advances the clock for this time, or until the condition holds.
    pub(super) fn run_until(&mut self, ms: u64, holds: impl Fn(&Self) -> bool) {
        let end = Millis(self.now.0 + ms);
        while self.now < end && !holds(self) {
            self.step();
            self.now = Millis(self.now.0 + 1);
        }
    }

    /// Advances by one millisecond: arrivals, then lessons, then each node's own timers and rounds.
    fn step(&mut self) {
        self.deliver();
        self.learn();
        for node in 0..self.peers.len() {
            self.fire(node);
            if self.load.is_some() {
                self.share(node);
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(first) = self.flights.first_entry().filter(|first| first.key().0 <= self.now) {
            let (to, datagram) = first.remove();
            let Some(peer) = self.peers.get_mut(to) else { continue };
            let mut out = Vec::new();
            // A refusal is of a member that is taken for dead, which it answers.
            let _ = peer.gossip.heard(&datagram, &mut out);
            self.carry_out(to, out);
        }
    }

    fn learn(&mut self) {
        let Some(load) = &mut self.load else { return };
        while let Some(lesson) = load.due(self.now) {
            let Some(peer) = self.peers.get_mut(lesson.node) else { continue };
            load.write_down(&lesson, &mut peer.model, MonoTime(self.now.0));
            self.trials.look(lesson.node, &peer.model, self.now);
        }
    }

    fn fire(&mut self, node: usize) {
        let Some(peer) = self.peers.get_mut(node) else { return };
        let mut out = Vec::new();
        let announces = node > 0 && self.load.is_none() && self.now.0.is_multiple_of(ANNOUNCE_EVERY_MS);
        if announces && !peer.gossip.members().any(|card| card.peer_addr == address(0)) {
            peer.announce(address(0), &mut out);
        }
        while let Some((timer, late)) = peer.timers.pop(self.now) {
            peer.gossip.due(timer, late, &mut out);
            for effect in out.extract_if(.., |effect| matches!(effect, Effect::Wake { .. })) {
                if let Effect::Wake { after, timer } = effect {
                    peer.timers.add(self.now, after, timer);
                }
            }
        }
        self.carry_out(node, out);
    }

    fn share(&mut self, node: usize) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(node) else { return };
        let mut out = Vec::new();
        peer.tell(now, &mut out);
        let from = match peer.pull_due(now) {
            None => None,
            Some(Pull::Random) => {
                let others = self.peers.len().saturating_sub(1);
                Some((node + 1 + self.dice.index(others)) % self.peers.len())
            }
            Some(Pull::Lacking) => {
                let by = peer.lacking();
                by.and_then(|by| self.peers.iter().position(|peer| peer.origin == by))
            }
        };
        self.carry_out(node, out);
        if let Some(from) = from.filter(|from| *from != node) {
            self.pull(node, from);
        }
    }

    /// Page after page, as long as they bring enough.
    fn pull(&mut self, node: usize, from: usize) {
        let now = self.now;
        while let Ok([asks, answers]) = self.peers.get_disjoint_mut([node, from]) {
            if !asks.pages.take() {
                return;
            }
            let Some(page) = answers.answer(&asks.digest(now), now) else { return };
            let goes_on = asks.take_page(&page, now);
            self.trials.look(node, &asks.model, now);
            if !goes_on {
                return;
            }
        }
    }

    fn carry_out(&mut self, node: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send { to, datagram } => self.send(node, to, datagram),
                Effect::Wake { after, timer } => {
                    if let Some(peer) = self.peers.get_mut(node) {
                        peer.timers.add(self.now, after, timer);
                    }
                }
                Effect::Spread(piece) if self.load.is_some() => {
                    if let Some(peer) = self.peers.get_mut(node) {
                        peer.hear(&piece, self.now);
                        self.trials.look(node, &peer.model, self.now);
                    }
                }
                Effect::Down(_) => self.false_deaths += 1,
                Effect::Spread(_) | Effect::Heard(_) | Effect::Left(_) | Effect::Rejoined => {}
            }
        }
    }

    fn send(&mut self, from: usize, to: SocketAddr, datagram: Bytes) {
        if let Some(peer) = self.peers.get_mut(from) {
            let bytes = datagram.len() + SEAL_BYTES;
            peer.traffic.datagrams += 1;
            peer.traffic.sent_bytes += bytes as u64;
            peer.traffic.datagram_bytes_most = peer.traffic.datagram_bytes_most.max(bytes);
        }
        if self.dice.chance(self.lost_percent * 10) {
            return;
        }
        let at = Millis(self.now.0 + self.dice.between(1, DELAY_MS_MAX));
        self.flown += 1;
        self.flights.insert((at, self.flown), (usize::from(to.port().saturating_sub(PORT)), datagram));
    }
}
