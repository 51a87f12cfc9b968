//! A virtual network of [`Gossip`] instances: virtual time, loss, duplication, delay, cuts, stalls; all from one seed.
//!
//! It decides which datagram arrives when. It never decides how a node reacts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use bytes::Bytes;
use hopcache_core::limits::GOSSIP_DATAGRAM_BYTES_MAX;
use hopcache_core::membership::{Card, Phase};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::time::Millis;
use hopcache_gossip::{Effect, Gossip, Settings, Timers};

/// Splitmix64 (Steele, Lea, Flood 2014): dice that are the same everywhere.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.draw() % 100 < chance
    }
}

/// What the network does to datagrams.
#[derive(Clone, Copy)]
pub(crate) struct Weather {
    pub(crate) loss_percent: u64,
    pub(crate) twice_percent: u64,
    /// Each takes from 1 ms to this long, so that they overtake each other.
    pub(crate) delay_ms_max: u64,
}

pub(crate) const FAIR: Weather = Weather { loss_percent: 0, twice_percent: 0, delay_ms_max: 3 };

/// Counts of the faults that took place, so that a test can prove its fault.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) bytes: u64,
    pub(crate) lost: u64,
    pub(crate) twice: u64,
    pub(crate) overtaken: u64,
    pub(crate) cut: u64,
    pub(crate) refused: u64,
    pub(crate) longest: usize,
}

pub(crate) struct Node {
    pub(crate) gossip: Gossip,
    pub(crate) timers: Timers,
    /// The address of its seed, to which it announces itself every five seconds as a node does.
    seed: SocketAddr,
    announce_at: Millis,
    stalled_until: Millis,
    /// Its reports: time, kind (`up`, `down`, `left`), and the name and life of the member.
    pub(crate) reports: Vec<(Millis, &'static str, NodeName, Incarnation)>,
    pub(crate) rejoined: u64,
    pub(crate) pieces: Vec<Bytes>,
}

pub(crate) struct Net {
    pub(crate) now: Millis,
    pub(crate) nodes: BTreeMap<SocketAddr, Node>,
    pub(crate) weather: Weather,
    pub(crate) counts: Counts,
    /// Digest of everything that was sent, in order.
    pub(crate) trace: u64,
    /// Only these nodes hear each other.
    island: BTreeSet<SocketAddr>,
    flights: BTreeMap<(Millis, u64), (SocketAddr, SocketAddr, Bytes)>,
    flown: u64,
    last_sent: BTreeMap<(SocketAddr, SocketAddr), u64>,
    dice: Dice,
}

pub(crate) fn at(node: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7_000 + node))
}

pub(crate) fn card(node: u16, life: u64) -> Card {
    Card::new(NodeName::new(&format!("node-{node}")).unwrap(), at(node), Incarnation(life), Phase::Ready)
}

impl Net {
    pub(crate) fn new(seed: u64, weather: Weather) -> Self {
        Self {
            now: Millis(0),
            nodes: BTreeMap::new(),
            weather,
            counts: Counts::default(),
            trace: seed,
            island: BTreeSet::new(),
            flights: BTreeMap::new(),
            flown: 0,
            last_sent: BTreeMap::new(),
            dice: Dice(seed),
        }
    }

    /// A fair network of nodes 0 to `count` - 1 that all know each other.
    pub(crate) fn settled(seed: u64, count: u16) -> Self {
        let mut net = Self::new(seed, FAIR);
        (0..count).for_each(|node| net.start(card(node, 1 + u64::from(node)), at(0)));
        net.run_until_ms(60_000, Self::is_converged);
        assert!(net.is_converged(), "a fair network of {count} settles");
        net.run_ms(3_000);
        net
    }

    pub(crate) fn start(&mut self, card: Card, seed: SocketAddr) {
        let addr = card.peer_addr;
        let gossip = Gossip::new(card, Settings::default(), self.dice.draw());
        let node = Node {
            gossip,
            timers: Timers::default(),
            seed,
            announce_at: self.now,
            stalled_until: Millis(0),
            reports: Vec::new(),
            rejoined: 0,
            pieces: Vec::new(),
        };
        self.nodes.insert(addr, node);
    }

    /// SIGKILL: the node ends without a goodbye.
    pub(crate) fn kill(&mut self, node: u16) -> Node {
        self.nodes.remove(&at(node)).unwrap()
    }

    /// SIGSTOP for this time: timers and datagrams wait.
    pub(crate) fn stall(&mut self, node: u16, for_ms: u64) {
        self.nodes.get_mut(&at(node)).unwrap().stalled_until = Millis(self.now.0 + for_ms);
    }

    /// From now on no node announces itself to its seed: the cluster can heal by gossip alone.
    pub(crate) fn forget_seeds(&mut self) {
        self.nodes.values_mut().for_each(|node| node.announce_at = Millis(u64::MAX));
    }

    pub(crate) fn cut(&mut self, island: impl IntoIterator<Item = u16>) {
        self.island = island.into_iter().map(at).collect();
    }

    pub(crate) fn heal(&mut self) {
        self.island.clear();
    }

    pub(crate) fn node(&self, node: u16) -> &Node {
        &self.nodes[&at(node)]
    }

    pub(crate) fn act(&mut self, node: u16, act: impl FnOnce(&mut Gossip, &mut Vec<Effect>)) {
        let mut out = Vec::new();
        act(&mut self.nodes.get_mut(&at(node)).unwrap().gossip, &mut out);
        self.take(at(node), out);
    }

    pub(crate) fn run_ms(&mut self, ms: u64) {
        self.run_until_ms(ms, |_| false);
    }

    /// Runs until the condition holds, at most for this time. Returns the time that it took.
    pub(crate) fn run_until_ms(&mut self, ms: u64, holds: impl Fn(&Self) -> bool) -> u64 {
        let (start, end) = (self.now, Millis(self.now.0 + ms));
        while self.now < end && !holds(self) {
            self.now = self.next().min(end);
            // Timers first: this is the order in which a slow node would blame others for its own slowness.
            self.tick();
            self.deliver();
        }
        self.now.0 - start.0
    }

    /// Whether every live node knows all live nodes in their present lives, and no other node.
    pub(crate) fn is_converged(&self) -> bool {
        let living: BTreeSet<&Card> = self.nodes.values().map(|node| node.gossip.me()).collect();
        self.nodes.values().all(|node| {
            let known: BTreeSet<&Card> = node.gossip.members().chain([node.gossip.me()]).collect();
            known == living
        })
    }

    /// The number of reports of this kind at all nodes.
    pub(crate) fn reports(&self, what: &str) -> usize {
        self.nodes.values().flat_map(|node| &node.reports).filter(|report| report.1 == what).count()
    }

    fn next(&self) -> Millis {
        let flight = self.flights.keys().map(|(at, _)| *at).next();
        let nodes = self.nodes.values().map(|node| {
            let due = node.timers.next().map_or(node.announce_at, |timer| timer.min(node.announce_at));
            due.max(node.stalled_until)
        });
        // Never in the past: a late timer is handled now.
        nodes.chain(flight).min().unwrap_or(self.now).max(self.now)
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.flights.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (key, (from, to, datagram)) = entry.remove_entry();
            let Some(node) = self.nodes.get_mut(&to) else { continue };
            if node.stalled_until > self.now {
                // The kernel keeps them, and they are of the same order as they came.
                self.flights.insert((node.stalled_until, key.1), (from, to, datagram));
                continue;
            }
            let last = self.last_sent.entry((from, to)).or_default();
            self.counts.overtaken += u64::from(key.1 < *last);
            *last = key.1.max(*last);
            let mut out = Vec::new();
            if node.gossip.heard(&datagram, &mut out).is_err() {
                self.counts.refused += 1;
            }
            self.take(to, out);
        }
    }

    fn tick(&mut self) {
        let addrs: Vec<SocketAddr> = self.nodes.keys().copied().collect();
        for addr in addrs {
            while let Some(node) = self.nodes.get_mut(&addr).filter(|node| node.stalled_until <= self.now) {
                let mut out = Vec::new();
                if node.announce_at <= self.now {
                    node.announce_at = Millis(self.now.0 + 5_000);
                    node.gossip.announce(node.seed, &mut out);
                } else if let Some((timer, late)) = node.timers.pop(self.now) {
                    node.gossip.due(timer, late, &mut out);
                } else {
                    break;
                }
                self.take(addr, out);
            }
        }
    }

    fn take(&mut self, from: SocketAddr, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send { to, datagram } => self.send(from, to, datagram),
                Effect::Wake { after, timer } => {
                    self.nodes.get_mut(&from).unwrap().timers.add(self.now, after, timer);
                }
                Effect::Heard(card) => self.note(from, "up", &card),
                Effect::Down(card) => self.note(from, "down", &card),
                Effect::Left(card) => self.note(from, "left", &card),
                Effect::Spread(piece) => self.nodes.get_mut(&from).unwrap().pieces.push(piece),
                Effect::Rejoined => self.nodes.get_mut(&from).unwrap().rejoined += 1,
            }
        }
    }

    fn note(&mut self, at: SocketAddr, what: &'static str, card: &Card) {
        let report = (self.now, what, card.name.clone(), card.life);
        self.nodes.get_mut(&at).unwrap().reports.push(report);
    }

    pub(crate) fn send(&mut self, from: SocketAddr, to: SocketAddr, datagram: Bytes) {
        assert!(datagram.len() <= GOSSIP_DATAGRAM_BYTES_MAX, "{} bytes", datagram.len());
        self.counts.longest = self.counts.longest.max(datagram.len());
        self.counts.sent += 1;
        self.counts.bytes += datagram.len() as u64;
        for byte in to.port().to_be_bytes().iter().chain(&datagram[..]) {
            self.trace = (self.trace ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.island.contains(&from) != self.island.contains(&to) {
            self.counts.cut += 1;
            return;
        }
        if self.dice.percent(self.weather.loss_percent) {
            self.counts.lost += 1;
            return;
        }
        let twice = self.dice.percent(self.weather.twice_percent);
        self.counts.twice += u64::from(twice);
        for _ in 0..=u64::from(twice) {
            let delay = 1 + self.dice.draw() % self.weather.delay_ms_max;
            self.flown += 1;
            self.flights.insert((Millis(self.now.0 + delay), self.flown), (from, to, datagram.clone()));
        }
    }
}
