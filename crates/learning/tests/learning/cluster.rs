//! Nodes that teach each other through a network that loses, repeats, delays and reorders, and that restart. In the end
//! all of them agree with each other and with a plain table of all counts.

use std::collections::BTreeMap;

use hopcache_core::limits::{DELTA_PIECE_BYTES_MAX, EPOCH_MS};
use hopcache_core::time::MonoTime;
use hopcache_learning::{FormId, SourceId, Successors};
use proptest::prelude::*;

use super::{MINUTE_MS, at, close, form, hear, node, pattern, pull, query};

const NODES: usize = 3;
const SOURCES: u64 = 4;
const FORMS: u64 = 3;
/// Older datagrams are not delivered: gossip's window is far shorter.
const DELAY_MS_MAX: u64 = 10 * MINUTE_MS;

#[derive(Debug, Clone)]
enum Step {
    Saw(usize, u64),
    Count(usize, u64, u64),
    Launched(usize, u64, u64),
    Used(usize, u64, u64),
    Minutes(u64),
    Tell(usize),
    /// A piece, by its index in the order of sending, reaches a node; it may do so again.
    Deliver(usize, usize),
    Pull(usize, usize),
    Restart(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (n, s, f) = (0..NODES, 0..SOURCES, 0..FORMS);
    let step = prop_oneof![
        6 => (n.clone(), s.clone()).prop_map(|(n, s)| Step::Saw(n, s)),
        6 => (n.clone(), s.clone(), f.clone()).prop_map(|(n, s, f)| Step::Count(n, s, f)),
        2 => (n.clone(), s.clone(), f.clone()).prop_map(|(n, s, f)| Step::Launched(n, s, f)),
        1 => (n.clone(), s, f).prop_map(|(n, s, f)| Step::Used(n, s, f)),
        3 => (1..9_u64).prop_map(Step::Minutes),
        4 => n.clone().prop_map(Step::Tell),
        6 => (0..64_usize, n.clone()).prop_map(|(piece, n)| Step::Deliver(piece, n)),
        1 => (n.clone(), n.clone()).prop_map(|(to, from)| Step::Pull(to, from)),
        1 => n.prop_map(Step::Restart),
    ];
    proptest::collection::vec(step, 1..120)
}

struct Peer {
    known: Successors,
    /// Its clock's reading when the test begins: hours apart.
    clock_ms: u64,
    life: u64,
    born_ms: u64,
}

/// (node, life, epoch, source, form) → seen, launched, used: the real counts.
type Truth = BTreeMap<(usize, u64, u64, SourceId, FormId), [u32; 3]>;

struct Cluster {
    peers: Vec<Peer>,
    /// Lives begin at whole minutes, and this is half a minute off them: no epoch ends within the seconds by which a
    /// departed life's clock is assumed to run slower.
    now_ms: u64,
    pieces: Vec<(u64, Vec<u8>)>,
    truth: Truth,
    born_ms: BTreeMap<(usize, u64), u64>,
    lives: u64,
}

fn source(of: u64) -> SourceId {
    if of.is_multiple_of(2) { pattern(of) } else { query(of) }
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self {
            peers: Vec::new(),
            now_ms: 0,
            pieces: Vec::new(),
            truth: Truth::new(),
            born_ms: BTreeMap::new(),
            lives: 0,
        };
        for n in 0..NODES {
            let clock_ms = 3_600_000 * n as u64;
            let peer = Peer { known: node(n as u64, 0, 16, at(clock_ms)), clock_ms, life: 0, born_ms: 0 };
            cluster.peers.push(peer);
            cluster.begin_life(n);
        }
        cluster.now_ms += MINUTE_MS / 2;
        cluster
    }

    fn begin_life(&mut self, n: usize) {
        self.lives += 1;
        let born_ms = self.now_ms / MINUTE_MS * MINUTE_MS;
        let peer = &mut self.peers[n];
        (peer.life, peer.born_ms) = (self.lives, born_ms);
        peer.known = node(n as u64, self.lives, 16, at(peer.clock_ms + born_ms));
        self.born_ms.insert((n, self.lives), born_ms);
    }

    fn clock(&self, n: usize) -> MonoTime {
        at(self.peers[n].clock_ms + self.now_ms)
    }

    fn count(&mut self, n: usize, of: u64, form: FormId, what: usize) {
        let now = self.clock(n);
        let peer = &mut self.peers[n];
        let source = source(of);
        match what {
            0 if form == FormId::ANY => peer.known.saw(source, now),
            0 => peer.known.count(source, form, now),
            1 => peer.known.launched(source, form, now),
            _ => peer.known.used(source, form, now),
        }
        let epoch = (self.now_ms - peer.born_ms) / EPOCH_MS;
        let key = (n, peer.life, epoch, source, form);
        self.truth.entry(key).or_default()[what] += 1;
    }

    fn pull(&mut self, to: usize, from: usize) -> usize {
        if to == from {
            return 0;
        }
        let (to_now, from_now) = (self.clock(to), self.clock(from));
        let [a, b] = self.peers.get_disjoint_mut([to, from]).unwrap();
        pull(&mut a.known, to_now, &mut b.known, from_now)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Saw(n, of) => self.count(n, of, FormId::ANY, 0),
            Step::Count(n, of, f) => self.count(n, of, form(f), 0),
            Step::Launched(n, of, f) => self.count(n, of, form(f), 1),
            Step::Used(n, of, f) => self.count(n, of, form(f), 2),
            Step::Minutes(minutes) => self.now_ms += minutes * MINUTE_MS,
            Step::Tell(n) => {
                let now = self.clock(n);
                let pieces = self.peers[n].known.next_pieces(2 * DELTA_PIECE_BYTES_MAX, now);
                assert!(pieces.iter().all(|piece| piece.len() <= DELTA_PIECE_BYTES_MAX));
                self.pieces.extend(pieces.into_iter().map(|piece| (self.now_ms, piece)));
            }
            Step::Deliver(piece, n) => {
                let now = self.clock(n);
                let count = self.pieces.len().max(1);
                let piece = self.pieces.get(piece % count);
                if let Some((_, piece)) = piece.filter(|(told_ms, _)| self.now_ms - told_ms <= DELAY_MS_MAX) {
                    let merged = hear(&mut self.peers[n].known, piece, now);
                    assert_eq!((merged.refused_future, merged.refused_bounds), (0, 0), "{merged:?}");
                }
            }
            Step::Pull(to, from) => {
                self.pull(to, from);
            }
            Step::Restart(n) => {
                // Unsent counts of a life are lost with it; here the others get all of them.
                for other in 0..NODES {
                    self.pull(other, n);
                }
                self.begin_life(n);
            }
        }
    }

    /// Everybody pulls from everybody until no node learns anything.
    fn heal(&mut self) {
        for _ in 0..8 {
            let mut taken = 0;
            for to in 0..NODES {
                for from in 0..NODES {
                    taken += self.pull(to, from);
                }
            }
            if taken == 0 {
                return;
            }
        }
        panic!("nodes that pull from each other never agree");
    }

    /// Seen, launched and used of a row by the plain table.
    fn value(&self, source: SourceId, form: FormId) -> [f64; 3] {
        let mut value = [0.0; 3];
        for ((n, life, epoch, of, followed), counts) in &self.truth {
            let age = (self.now_ms - self.born_ms[&(*n, *life)]) / EPOCH_MS - epoch;
            if *of == source && *followed == form && age < 6 {
                let weight = 0.5_f64.powi(i32::try_from(age).unwrap());
                counts.iter().zip(&mut value).for_each(|(count, value)| *value += weight * f64::from(*count));
            }
        }
        value
    }

    fn check(&self) {
        for of in 0..SOURCES {
            let source = source(of);
            let any = self.value(source, FormId::ANY)[0];
            let mut followed = 0;
            let mut precision = [0.0; 2];
            for f in 0..FORMS {
                let [seen, launched, used] = self.value(source, form(f));
                followed += usize::from(seen > 0.0);
                precision = [precision[0] + launched, precision[1] + used];
                for (n, peer) in self.peers.iter().enumerate() {
                    let predictions = peer.known.predictions(source, self.clock(n));
                    let found = predictions.iter().find(|prediction| prediction.form == form(f));
                    let (p, tally) = found.map_or((0.0, Default::default()), |found| (found.p, found.tally));
                    assert!(
                        close(tally.seen, seen),
                        "node {n}: {source:?} {f}: {} is not {seen}",
                        tally.seen
                    );
                    assert!(close(p, (seen / (any + 1.0)).min(1.0)), "node {n}: {source:?} {f}: p {p}");
                    let shares =
                        found.map_or(0.0, |found| found.taught_by.iter().map(|(_, seen)| seen).sum());
                    assert!(
                        close(shares, seen),
                        "node {n}: the shares of all nodes make up {shares} of {seen}"
                    );
                }
            }
            for (n, peer) in self.peers.iter().enumerate() {
                assert_eq!(peer.known.predictions(source, self.clock(n)).len(), followed);
                let found = peer.known.precision(source, self.clock(n));
                assert!(close(found.launched, precision[0]) && close(found.used, precision[1]), "{found:?}");
                assert!(close(found.seen, any), "node {n}: {source:?}: {} is not {any}", found.seen);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// THEORY "Learning": absolute counts merged by max. DESIGN section 4: gossip lost, repeated, reordered.
    #[test]
    fn loss_repetition_reordering_and_restarts_change_nothing_in_the_end(steps in steps()) {
        let mut cluster = Cluster::new();
        for step in &steps {
            cluster.step(step);
        }
        cluster.heal();
        cluster.check();
    }

    /// The same without any gossip, and with all of it: pulls alone are enough, and so is gossip for its content.
    #[test]
    fn clocks_hours_apart_change_nothing(steps in steps(), apart_h in 0..1_000_u64) {
        let mut cluster = Cluster::new();
        for n in 0..NODES {
            cluster.now_ms = 0;
            cluster.peers[n].clock_ms = apart_h * 3_600_000 * n as u64;
            cluster.begin_life(n);
        }
        cluster.now_ms = MINUTE_MS / 2;
        steps.iter().for_each(|step| cluster.step(step));
        cluster.heal();
        cluster.check();
    }
}
