//! Faults, one after the other, drawn by a seed: a node killed and started again, a node stopped for longer than its lease,
//! nodes cut from each other, nodes cut from Redis or from Neo4j, Redis emptied, Redis restored from a snapshot.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::clients::Round;
use super::stage::{MEMBERS, Scene, Stage};
use super::verdict::{Fault, Kind};
use crate::support::dice::Dice;
use crate::support::tcp_proxy::{Mode, TcpProxy};

/// How long a fault lasts, and the pause after it.
const FAULT_MS: (usize, usize) = (200, 2_500);
const PAUSE_MS: (usize, usize) = (300, 2_000);

impl Stage {
    /// Causes the round's faults, and heals each.
    pub async fn cause_faults(&mut self, scene: &Scene, round: &Round, dice: &mut Dice) -> Vec<Fault> {
        let mut faults = Vec::new();
        while round.faults_over.load(Ordering::Relaxed) < round.faults {
            wait(dice, PAUSE_MS).await;
            let from = scene.now();
            let mut kinds = vec![self.begin(dice).await];
            if dice.percent(25) {
                kinds.push(self.begin(dice).await);
            }
            wait(dice, FAULT_MS).await;
            for (kind, nodes) in kinds {
                self.heal(kind, &nodes);
                faults.push(Fault { kind, nodes, from, to: scene.now() });
            }
            round.faults_over.fetch_add(1, Ordering::Relaxed);
        }
        for node in &self.nodes {
            node.wait_for_members(MEMBERS).await;
        }
        faults
    }

    async fn begin(&mut self, dice: &mut Dice) -> (Kind, Vec<usize>) {
        let node = dice.below(MEMBERS);
        let some = if dice.percent(50) { vec![node] } else { (0..MEMBERS).collect() };
        match dice.below(9) {
            0 if self.nodes[node].is_running() => {
                self.nodes[node].kill();
                (Kind::Killed, vec![node])
            }
            1 | 2 if self.nodes[node].is_running() => {
                self.nodes[node].signal("STOP");
                (Kind::Stopped, vec![node])
            }
            0..=3 => {
                for node in &some {
                    self.peers[*node].tcp.set(Mode::Refuse);
                    self.peers[*node].tcp.cut();
                    self.peers[*node].cut_udp(true);
                }
                (Kind::CutFromPeers, some)
            }
            4 => {
                cut_off(&self.stores, &some, dice);
                (Kind::CutFromStore, some)
            }
            7 | 8 => {
                cut_off(&self.origins, &some, dice);
                (Kind::CutFromNeo4j, some)
            }
            5 => {
                assert_eq!(self.redis.tell("FLUSHALL"), "+OK");
                (Kind::StoreLost, Vec::new())
            }
            _ => {
                // The snapshot of an earlier fault comes back; the next one gets that of now.
                let is_first = !self.has_snapshot;
                if is_first {
                    assert_eq!(self.redis.tell("SAVE"), "+OK");
                    wait(dice, FAULT_MS).await;
                }
                self.redis.kill();
                self.redis.restart().await;
                self.has_snapshot = !is_first || dice.percent(50);
                (Kind::StoreLost, Vec::new())
            }
        }
    }

    fn heal(&mut self, kind: Kind, nodes: &[usize]) {
        for node in nodes.iter().copied() {
            match kind {
                Kind::Killed => self.nodes[node].start(),
                // The second fault of a pair may have killed it.
                Kind::Stopped if self.nodes[node].is_running() => self.nodes[node].signal("CONT"),
                Kind::Stopped => {}
                Kind::CutFromPeers => {
                    self.peers[node].tcp.set(Mode::Pass);
                    self.peers[node].cut_udp(false);
                }
                Kind::CutFromStore | Kind::CutFromNeo4j => {
                    let proxies = if kind == Kind::CutFromStore { &self.stores } else { &self.origins };
                    proxies[node].set(Mode::Pass);
                    proxies[node].cut();
                }
                Kind::StoreLost => {}
            }
        }
    }
}

/// Lets these nodes' connections through the proxies fail, or be silent.
fn cut_off(proxies: &[TcpProxy], nodes: &[usize], dice: &mut Dice) {
    let mode = dice.of(&[Mode::Refuse, Mode::Silent]);
    for node in nodes {
        proxies[*node].set(mode);
        if mode == Mode::Refuse {
            proxies[*node].cut();
        }
    }
}

async fn wait(dice: &mut Dice, (least, most): (usize, usize)) {
    let pause = Duration::from_millis((least + dice.below(most - least)) as u64);
    // tidy: the simulated length of a fault
    tokio::time::sleep(pause).await;
}
