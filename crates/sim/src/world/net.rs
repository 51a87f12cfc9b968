//! The network between simulated nodes. Messages can be late, overtake each other, get lost, or come twice. A test can
//! cut ways in one direction or both. Killed or stopped peers do not answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::key::KeyHasher;
use hopcache_core::membership::Card;
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::ring::RingEpoch;
use hopcache_core::time::Millis;
use hopcache_engine::Engine;
use hopcache_engine::message::{Question, decode_question};
use hopcache_engine::ports::{PeerError, Peers};
use parking_lot::Mutex;

use crate::check::record::{Life, Record, What};
use crate::world::clock::sim_now;
use crate::world::dice::SimDice;
use crate::world::listeners::{ListenerKind, SimulatedListeners};
use crate::world::members::SimRouting;
use crate::world::names::node_name;
use crate::world::process::{Power, Process};
use crate::world::subject::ask_of_trace;
use crate::world::udp::Udp;

/// The weather of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetWeather {
    /// Longest way beyond the usual, in ms: messages overtake each other.
    pub delay_ms_max: u64,
    /// Messages in a thousand that are lost.
    pub lost: u64,
    /// Questions in a thousand that come twice.
    pub doubled: u64,
    /// Questions in a thousand that something on the way resets, as a firewall may. Nothing arrives, and the peer lives.
    pub reset: u64,
    /// Whether a dead node's address dies with it, as a container's address does. Then no host is left to refuse a
    /// probe.
    pub dead_are_silent: bool,
}

/// Every node's address, and the ways between them.
pub struct Net {
    hosts: Mutex<BTreeMap<NodeName, Host>>,
    /// The nodes' cards, if nodes announce their phase.
    cards: Mutex<BTreeMap<usize, (Life, Weak<SimRouting>)>>,
    /// The addresses of the seeds' name.
    seeds: Mutex<Vec<usize>>,
    cut_ways: Mutex<BTreeSet<(usize, usize)>>,
    /// Ways on which something between the nodes answers each message with a reset.
    reset_ways: Mutex<BTreeSet<(usize, usize)>>,
    weather: Mutex<NetWeather>,
    forwards: Mutex<u64>,
    dice: SimDice,
    record: Arc<Record>,
    /// Datagrams' own way.
    pub udp: Arc<Udp>,
}

#[derive(Clone)]
struct Host {
    engine: Weak<Engine>,
    process: Process,
    listeners: SimulatedListeners,
    is_cut_off: bool,
    life: Life,
}

impl Default for Net {
    fn default() -> Self {
        Self::new(Arc::default(), 0)
    }
}

impl Net {
    /// A network in fair weather without nodes.
    #[must_use]
    pub fn new(record: Arc<Record>, seed: u64) -> Self {
        Self {
            hosts: Mutex::default(),
            cards: Mutex::default(),
            seeds: Mutex::default(),
            cut_ways: Mutex::default(),
            reset_ways: Mutex::default(),
            weather: Mutex::default(),
            forwards: Mutex::default(),
            dice: SimDice::new(seed),
            udp: Arc::new(Udp::new(Arc::clone(&record), seed ^ 0x0d61_76a3)),
            record,
        }
    }

    /// Makes a node reachable, in the place of its earlier life.
    pub fn plug_in(
        &self,
        engine: &Arc<Engine>,
        (process, listeners): (Process, SimulatedListeners),
        life: Life,
    ) {
        let host = Host { engine: Arc::downgrade(engine), process, listeners, is_cut_off: false, life };
        self.hosts.lock().insert(engine.me().node.clone(), host);
    }

    /// Sets the node that answers probes for a life.
    pub(crate) fn show_card(&self, life: Life, routing: &Arc<SimRouting>) {
        self.cards.lock().insert(life.node, (life, Arc::downgrade(routing)));
    }

    /// Sets the addresses of the seeds' name.
    pub(crate) fn set_seeds(&self, nodes: Vec<usize>) {
        *self.seeds.lock() = nodes;
    }

    pub(crate) fn seeds(&self) -> Vec<usize> {
        self.seeds.lock().clone()
    }

    /// Cuts a node off from its peers, both ways, or heals it.
    pub fn set_cut(&self, node: &NodeName, is_cut_off: bool) {
        if let Some(host) = self.hosts.lock().get_mut(node) {
            host.is_cut_off = is_cut_off;
        }
    }

    /// Cuts the way from one node to another, or heals it; the way back stays as it is.
    pub fn set_way_cut(&self, from: usize, to: usize, is_cut: bool) {
        let changed = if is_cut {
            self.cut_ways.lock().insert((from, to))
        } else {
            self.cut_ways.lock().remove(&(from, to))
        };
        if changed {
            self.record.note(What::Link { from, to, is_cut });
        }
    }

    /// Something between the nodes resets what comes this way, as a firewall may, or lets it through again. The node at the
    /// end of it lives.
    pub fn set_way_reset(&self, from: usize, to: usize, is_reset: bool) {
        let mut ways = self.reset_ways.lock();
        if is_reset {
            ways.insert((from, to));
        } else {
            ways.remove(&(from, to));
        }
    }

    fn is_reset(&self, from: usize, to: usize) -> bool {
        self.reset_ways.lock().contains(&(from, to))
    }

    /// Sets the weather of messages.
    pub fn set_weather(&self, weather: NetWeather) {
        *self.weather.lock() = weather;
    }

    /// Messages carried so far.
    #[must_use]
    pub fn forwards(&self) -> u64 {
        *self.forwards.lock()
    }

    fn host(&self, node: &NodeName) -> Option<Host> {
        self.hosts.lock().get(node).cloned()
    }

    /// Every node but one, as it lives now.
    pub(crate) fn others(&self, than: usize) -> Vec<(usize, Process, Weak<Engine>)> {
        let hosts = self.hosts.lock();
        let others = hosts.values().filter(|host| host.life.node != than && !host.is_cut_off);
        others.map(|host| (host.life.node, host.process.clone(), Weak::clone(&host.engine))).collect()
    }

    fn weather(&self) -> NetWeather {
        *self.weather.lock()
    }

    /// Whether messages from one node to another do not arrive.
    pub(crate) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cut_ways.lock().contains(&(from, to))
    }
}

/// The content of a probe's answer.
pub(crate) struct Shown {
    /// The node that answers.
    pub(crate) card: Card,
    /// Its ring.
    pub(crate) epoch: RingEpoch,
}

/// One node's way to its peers.
#[derive(Clone)]
pub struct PeersPort {
    /// The network.
    pub net: Arc<Net>,
    /// The node of this port.
    pub me: NodeName,
    /// In which life.
    pub by: Life,
    /// Its process.
    pub process: Process,
    /// One direction, in fair weather.
    pub delay_ms: u64,
    /// Reads the request of each forwarded message.
    pub hasher: KeyHasher,
}

impl PeersPort {
    fn gone() -> PeerError {
        PeerError::Gone("killed by the simulation".to_owned())
    }

    /// Whether a question is reset on its way.
    fn is_reset(&self, from: usize, to: usize) -> bool {
        let reset = self.net.weather().reset;
        let is_reset = self.net.is_reset(from, to) || (reset > 0 && self.net.dice.chance(reset));
        if is_reset {
            self.net.record.note(What::Reset { from, to });
        }
        is_reset
    }

    /// Whether messages from `from` arrive at `to`.
    fn is_cut(&self, host: &Host, from: usize, to: usize) -> bool {
        host.is_cut_off
            || self.net.host(&self.me).is_some_and(|mine| mine.is_cut_off)
            || self.net.is_cut(from, to)
    }

    /// One way; a message that is lost never ends it.
    async fn travel(&self, host: &Host, from: usize, to: usize) {
        let weather = self.net.weather();
        let is_lost = self.net.dice.chance(weather.lost);
        let late_ms =
            if weather.delay_ms_max > 0 { self.net.dice.below(weather.delay_ms_max + 1) } else { 0 };
        for (happens, word) in [(late_ms > 0, "message late"), (is_lost, "message lost")] {
            if happens {
                self.net.record.cover(word);
            }
        }
        tokio::time::sleep(Millis(self.delay_ms + late_ms).duration()).await;
        if is_lost || self.is_cut(host, from, to) {
            std::future::pending::<()>().await;
        }
    }

    async fn call(&self, host: &Host, hop: u32, message: Bytes) -> Result<Bytes, PeerError> {
        let (from, to) = (self.by.node, host.life.node);
        if self.net.dice.chance(self.net.weather().doubled) {
            self.net.record.cover("message twice");
            let (port, host, message) = (self.clone(), host.clone(), message.clone());
            tokio::spawn(async move {
                let way = port.travel(&host, from, to);
                // Losing the second copy of a message changes nothing.
                let _ = tokio::time::timeout(Millis(10_000).duration(), way).await;
                port.serve(&host, hop, message).await
            });
        }
        self.travel(host, from, to).await;
        // The task belongs to the peer: it goes on when the caller stops waiting.
        let (port, target) = (self.clone(), host.clone());
        let serving = tokio::spawn(async move { port.serve(&target, hop, message).await });
        let answer = serving.await.map_err(|_| Self::gone())?;
        host.process.on().await;
        self.travel(host, to, from).await;
        answer
    }

    async fn serve(&self, host: &Host, hop: u32, message: Bytes) -> Result<Bytes, PeerError> {
        host.process.on().await;
        let _connection = host.listeners.enter(ListenerKind::Peer).ok_or_else(Self::gone)?;
        let engine = host.engine.upgrade().ok_or_else(Self::gone)?;
        let record = &self.net.record;
        match decode_question(&message) {
            Ok(Question::Ask(ask)) => {
                let key = record.key(ask.key());
                record.note(What::ServeBegan { hop, by: host.life, key, plain: ask.is_plain() });
            }
            Ok(Question::Purge(_)) => record.note(What::Forgot { node: host.life.node }),
            _ => {}
        }
        let answer = engine.path().serve_peer(&message).await;
        record.note(What::ServeEnded { hop });
        answer.map_err(|why| PeerError::Refused(why.to_string()))
    }

    /// Asks the node at an address for its card.
    pub(crate) async fn identify(&self, there: usize, timeout_ms: Millis) -> Result<Shown, PeerError> {
        self.process.on().await;
        let name = node_name(there).ok_or_else(Self::gone)?;
        let host = self.net.host(&name).ok_or_else(Self::gone)?;
        let here = self.by.node;
        let is_cut = self.is_cut(&host, here, there) || self.is_cut(&host, there, here);
        let is_lost = self.net.dice.chance(self.net.weather().lost);
        // A closed listener refuses connections. Behind a cut no node sees that, and its node may still hold leases.
        let refuses = !host.listeners.is_open(ListenerKind::Peer) && !is_cut;
        if host.process.power() == Power::Off || refuses {
            return Err(Self::gone());
        }
        tokio::time::sleep(Millis(2 * self.delay_ms).duration()).await;
        if host.process.power() == Power::Paused || is_cut || is_lost {
            tokio::time::sleep(timeout_ms.duration()).await;
            self.net.record.cover("probe unanswered");
            self.process.on().await;
            return Err(PeerError::TimedOut);
        }
        let shown = self.net.cards.lock().get(&there).filter(|(life, _)| *life == host.life).cloned();
        let shown = shown.and_then(|(_, routing)| routing.upgrade());
        let shown = shown.and_then(|routing| Some(Shown { card: routing.card()?, epoch: routing.epoch() }));
        self.process.on().await;
        shown.ok_or_else(Self::gone)
    }

    /// The request of a message, if the message is a forwarded request.
    fn ask_of(&self, message: &Bytes) -> Option<u32> {
        let Ok(Question::Ask(forwarded)) = decode_question(message) else { return None };
        let ask =
            forwarded.read(&self.hasher, &hopcache_cypher::verdict::Allowed::default(), sim_now()).ok()?;
        ask_of_trace(ask.traceparent.as_deref()?)
    }
}

#[async_trait]
impl Peers for PeersPort {
    async fn forward(&self, to: &NodeName, message: Bytes, timeout_ms: Millis) -> Result<Bytes, PeerError> {
        self.process.on().await;
        *self.net.forwards.lock() += 1;
        let host = self.net.host(to).ok_or_else(Self::gone)?;
        let hop = self.net.record.next_hop();
        let (ask, from) = (self.ask_of(&message), self.by.node);
        self.net.record.note(What::Hop { hop, ask, from, to: host.life.node });
        if host.process.power() == Power::Off || self.is_reset(from, host.life.node) {
            return Err(Self::gone());
        }
        let answer = tokio::select! {
            biased;
            answer = self.call(&host, hop, message) => answer,
            () = host.process.off() => Err(Self::gone()),
            () = tokio::time::sleep(timeout_ms.duration()) => Err(PeerError::TimedOut),
        };
        self.process.on().await;
        answer
    }

    async fn probe(&self, to: &NodeName, timeout_ms: Millis) -> Result<Incarnation, PeerError> {
        self.process.on().await;
        let host = self.net.host(to).ok_or_else(Self::gone)?;
        let (here, there) = (self.by.node, host.life.node);
        let is_cut = self.is_cut(&host, here, there) || self.is_cut(&host, there, here);
        let is_lost = self.net.dice.chance(self.net.weather().lost);
        let power = host.process.power();
        let is_silent = power == Power::Off && self.net.weather().dead_are_silent;
        if is_silent {
            self.net.record.cover("dead one silent");
        }
        let answer = match power {
            _ if self.net.is_reset(here, there) => Err(Self::gone()),
            Power::Off if !is_silent => Err(Self::gone()),
            Power::On if !is_cut && !is_lost => {
                host.engine.upgrade().map(|engine| engine.me().incarnation).ok_or_else(Self::gone)
            }
            _ => {
                tokio::time::sleep(timeout_ms.duration()).await;
                self.net.record.cover("probe unanswered");
                Err(PeerError::TimedOut)
            }
        };
        self.process.on().await;
        answer
    }
}
