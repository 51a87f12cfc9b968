//! Any gossip from a holder of the cluster key: the table stays bounded, sent datagrams fit, and no datagram goes to an
//! address that cannot be reached.

use std::net::SocketAddr;

use hopcache_core::limits::{GOSSIP_DATAGRAM_BYTES_MAX, GOSSIP_MEMBERS_MAX, GOSSIP_TIMERS_MAX};
use hopcache_core::membership::{Card, Phase};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::time::Millis;
use hopcache_gossip::{Effect, Gossip, Settings, Timers};

use crate::draw::Draw;

const HEAR: u8 = 0;
const WAIT: u8 = 1;

fn node(number: u16) -> Gossip {
    let addr = SocketAddr::from(([10, 0, 0, 1], 7_000 + number));
    let name = NodeName::new(&format!("node-{number}")).expect("a name");
    let card = Card::new(name, addr, Incarnation(u64::from(number)), Phase::Ready);
    Gossip::new(card, Settings::default(), u64::from(number))
}

struct World {
    gossip: Gossip,
    timers: Timers,
    now: Millis,
    sent: Vec<(SocketAddr, Vec<u8>)>,
}

impl World {
    fn new(number: u16) -> Self {
        Self { gossip: node(number), timers: Timers::default(), now: Millis(0), sent: Vec::new() }
    }

    fn act(&mut self, act: impl FnOnce(&mut Gossip, &mut Vec<Effect>)) {
        let mut out = Vec::new();
        act(&mut self.gossip, &mut out);
        for effect in out {
            match effect {
                Effect::Wake { after, timer } => self.timers.add(self.now, after, timer),
                Effect::Send { to, datagram } => {
                    assert!(datagram.len() <= GOSSIP_DATAGRAM_BYTES_MAX, "{} bytes", datagram.len());
                    assert!(to.port() != 0 && !to.ip().is_unspecified(), "sent to {to}");
                    self.sent.push((to, datagram.to_vec()));
                }
                Effect::Heard(card) | Effect::Down(card) | Effect::Left(card) => {
                    assert!(
                        !card.is_of(&self.gossip.me().name, self.gossip.me().life),
                        "a node's own card came back to it"
                    );
                }
                Effect::Spread(_) | Effect::Rejoined => {}
            }
        }
        assert!(self.gossip.table_len() <= GOSSIP_MEMBERS_MAX && self.timers.len() <= GOSSIP_TIMERS_MAX);
    }

    fn wait_ms(&mut self, ms: u64) {
        self.now = Millis(self.now.0 + ms);
        while let Some((timer, late)) = self.timers.pop(self.now) {
            self.act(|gossip, out| gossip.due(timer, late, out));
        }
    }
}

pub(crate) fn check(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let mut world = World::new(0);
    while !draw.0.is_empty() {
        match draw.byte() % 5 {
            HEAR => {
                let len = usize::from(draw.byte()) << 8 | usize::from(draw.byte());
                let (datagram, rest) = draw.0.split_at(len.min(draw.0.len()));
                draw.0 = rest;
                world.act(|gossip, out| {
                    let _ = gossip.heard(datagram, out);
                });
            }
            WAIT => world.wait_ms(u64::from(draw.byte()) * 10),
            2 => {
                let piece = draw.short();
                world.act(|gossip, out| {
                    let _ = gossip.spread(piece, out);
                });
            }
            3 => {
                let revision = u32::from(draw.byte());
                world.act(|gossip, out| gossip.say(Card { revision, ..gossip.me().clone() }, out));
            }
            _ => world.act(|gossip, out| gossip.announce(SocketAddr::from(([10, 0, 0, 1], 7_001)), out)),
        }
    }
}

/// Datagrams of two honest nodes to this one in two seconds: one seed for each datagram, and one with all of them in
/// order with pauses.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut worlds: Vec<World> = (0..3).map(World::new).collect();
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    let mut all = Vec::new();
    for world in &mut worlds[1..] {
        world.act(|gossip, out| gossip.announce(SocketAddr::from(([10, 0, 0, 1], 7_000)), out));
        world.act(|gossip, out| assert!(gossip.spread(b"a piece", out)));
    }
    for _ in 0..20 {
        let sent: Vec<_> = worlds.iter_mut().flat_map(|world| std::mem::take(&mut world.sent)).collect();
        for (to, datagram) in sent {
            let to = usize::from(to.port() - 7_000);
            if to == 0 {
                let len = u16::try_from(datagram.len()).expect("short").to_be_bytes();
                let hear = [&[HEAR], &len[..], &datagram].concat();
                all.extend_from_slice(&hear);
                seeds.push(hear);
            }
            worlds[to].act(|gossip, out| gossip.heard(&datagram, out).expect("an honest datagram"));
        }
        worlds.iter_mut().for_each(|world| world.wait_ms(100));
        all.extend_from_slice(&[WAIT, 10]);
    }
    seeds.push([&all[..], &[3, 1, 4, 2, 3, 1, 2, 3]].concat());
    seeds
}
