//! Datagrams between simulated nodes. They can be late, lost, repeated or overtaken, cut in one direction or both, wait
//! in the socket of a stopped process, and be dropped if the socket is full. Gossip decides their content.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::time::Millis;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::check::record::{Life, Record, What};
use crate::world::dice::SimDice;

/// The weather of datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UdpWeather {
    /// Longest way beyond the usual, in ms.
    pub delay_ms_max: u64,
    /// Datagrams in a thousand that are lost.
    pub lost: u64,
    /// Datagrams in a thousand that come twice.
    pub doubled: u64,
}

/// Datagrams that wait in a socket: Linux' default buffer holds about as many small ones (`net.core.rmem_default`).
const SOCKET_LEN_MAX: usize = 256;

/// One direction, in fair weather.
const DELAY_MS: u64 = 1;

/// A datagram on its way or in a socket.
#[derive(Debug)]
pub(crate) struct Datagram {
    /// The sender.
    pub(crate) from: usize,
    /// The content.
    pub(crate) bytes: Bytes,
    number: u64,
}

/// The sockets, and the ways between them.
pub struct Udp {
    state: Mutex<State>,
    dice: SimDice,
    record: Arc<Record>,
}

#[derive(Default)]
struct State {
    sockets: BTreeMap<usize, (Life, mpsc::Sender<Datagram>)>,
    weather: UdpWeather,
    cut_ways: BTreeSet<(usize, usize)>,
    sent: u64,
    /// The latest that arrived on each way.
    arrived: BTreeMap<(usize, usize), u64>,
}

impl Udp {
    pub(crate) fn new(record: Arc<Record>, seed: u64) -> Self {
        Self { state: Mutex::default(), dice: SimDice::new(seed), record }
    }

    /// Opens the socket of a node's life; the one of an earlier life is closed.
    pub(crate) fn open(&self, life: Life) -> mpsc::Receiver<Datagram> {
        let (socket, datagrams) = mpsc::channel(SOCKET_LEN_MAX);
        self.state.lock().sockets.insert(life.node, (life, socket));
        datagrams
    }

    /// Sets the weather of datagrams.
    pub fn set_weather(&self, weather: UdpWeather) {
        self.state.lock().weather = weather;
    }

    /// Cuts gossip from one node to another, or heals it. All other traffic arrives.
    pub fn set_way_cut(&self, from: usize, to: usize, is_cut: bool) {
        let mut state = self.state.lock();
        let changed =
            if is_cut { state.cut_ways.insert((from, to)) } else { state.cut_ways.remove(&(from, to)) };
        drop(state);
        if changed {
            self.record.note(What::GossipLink { from, to, is_cut });
        }
    }

    /// Sends a datagram. `is_cut` is whether the whole way is.
    pub(crate) fn send(self: &Arc<Self>, from: usize, to: usize, bytes: &Bytes, is_cut: bool) {
        let (weather, number) = {
            let mut state = self.state.lock();
            state.sent += 1;
            if is_cut || state.cut_ways.contains(&(from, to)) {
                self.record.cover("datagram cut off");
                return;
            }
            (state.weather, state.sent)
        };
        if self.dice.chance(weather.lost) {
            return self.record.cover("datagram lost");
        }
        let copies = if self.dice.chance(weather.doubled) { 2 } else { 1 };
        for copy in 0..copies {
            let late_ms =
                if weather.delay_ms_max > 0 { self.dice.below(weather.delay_ms_max + 1) } else { 0 };
            for word in [(late_ms > 0, "datagram late"), (copy > 0, "datagram twice")] {
                if word.0 {
                    self.record.cover(word.1);
                }
            }
            let (udp, datagram) = (Arc::clone(self), Datagram { from, bytes: bytes.clone(), number });
            tokio::spawn(async move {
                tokio::time::sleep(Millis(DELAY_MS + late_ms).duration()).await;
                udp.arrive(to, datagram);
            });
        }
    }

    /// Whether the weather loses a datagram that is sent now.
    pub(crate) fn loses(&self) -> bool {
        let weather = self.state.lock().weather;
        self.dice.chance(weather.lost)
    }

    /// How many copies of a datagram that is sent now arrive.
    pub(crate) fn copies(&self) -> usize {
        let weather = self.state.lock().weather;
        1 + usize::from(self.dice.chance(weather.doubled))
    }

    /// How long a datagram that is sent now takes; at most `usual_ms` in fair weather.
    pub(crate) fn late_ms(&self, usual_ms: u64) -> u64 {
        let weather = self.state.lock().weather;
        DELAY_MS + self.dice.below(usual_ms + weather.delay_ms_max + 1)
    }

    fn arrive(&self, to: usize, datagram: Datagram) {
        let mut state = self.state.lock();
        let latest = state.arrived.entry((datagram.from, to)).or_default();
        let is_overtaken = datagram.number < *latest;
        *latest = (*latest).max(datagram.number);
        if is_overtaken {
            self.record.cover("datagram overtaken");
        }
        if let Some((_, socket)) = state.sockets.get(&to) {
            // Without a receiver, or without room in its socket, the datagram is lost, as in UDP.
            let _ = socket.try_send(datagram);
        }
    }

    /// Datagrams sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.state.lock().sent
    }
}
