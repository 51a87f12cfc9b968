//! Nodes hear random writes in any order, with losses, repetitions, trimmed logs, restarts and restores. Whatever they hear, none of them
//! keeps what a write has ended.
//!
//! The truth is the definition of a conflict, applied to each write that a node has heard of in any form. A second model has the table's
//! rule without its bounds: where nothing is lost, the table says the same.

use std::collections::BTreeSet;

use hopcache_core::time::Millis;
use hopcache_core::write_position::{WriteBoard, WritePosition, WritePositionTable, WriteRecord};
use proptest::prelude::*;

use super::bookkeeping::Bookkeeping;
use super::history::{Event, NODES, Need, Touch, Write, any_history, any_need};
use super::{NAME, NOW, event, mark};

/// Writes that the store's log keeps.
const LOG_LEN: usize = 8;

/// A node, and what it has heard of.
#[derive(Default)]
struct Node {
    table: WritePositionTable,
    heard: BTreeSet<usize>,
    /// How many writes of each node have been told to it.
    told: [usize; NODES],
    /// The life of the store's log, and the place in it.
    log_at: (u64, usize),
    has_lost: bool,
}

#[derive(Default)]
struct World {
    writes: Vec<Write>,
    nodes: [Node; NODES],
    epoch: u64,
    last_id: u64,
    board: WriteBoard,
    log: Vec<usize>,
    life: u64,
    stored: [usize; NODES],
}

impl World {
    fn of(&self, by: usize) -> Vec<usize> {
        (0..self.writes.len()).filter(|which| self.writes[*which].by == by).collect()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Write { by, touches } => self.write(by, touches),
            Event::Restore { by } => {
                self.epoch += 1;
                self.last_id = self.last_id.saturating_sub(5);
                self.write(by, None);
            }
            Event::Tell { by, to, keeps } => self.tell(by, to, keeps),
            Event::Repeat { to, which } => {
                let known: BTreeSet<usize> = self.nodes.iter().flat_map(|node| node.heard.clone()).collect();
                if !known.is_empty() {
                    let known: Vec<usize> = known.into_iter().collect();
                    self.hear(to, *which.get(&known));
                }
            }
            Event::Store { by } => self.store(by),
            Event::Look { to } => self.look(to),
            Event::Restart { to } => {
                let told: [usize; NODES] = std::array::from_fn(|by| self.of(by).len());
                self.nodes[to] = Node { told, has_lost: true, log_at: (u64::MAX, 0), ..Node::default() };
                self.look(to);
            }
            Event::StoreEmptied => {
                self.board = WriteBoard::default();
                self.log.clear();
                self.life += 1;
            }
        }
    }

    fn write(&mut self, by: usize, touches: Option<Vec<Touch>>) {
        self.last_id += 1;
        self.writes.push(Write { written: mark(1, self.epoch, self.last_id), by, touches });
        self.hear(by, self.writes.len() - 1);
    }

    fn hear(&mut self, to: usize, which: usize) {
        let (node, write) = (&mut self.nodes[to], &self.writes[which]);
        match write.touched() {
            Some(touched) => node.table.take_event(&event(NAME, write.written, &touched), NOW),
            None => node.table.take(WriteRecord::of_all(NAME, write.written), NOW),
        };
        node.heard.insert(which);
    }

    /// A line's message: the writes since the last one, or some of them, and the sum of all.
    fn tell(&mut self, by: usize, to: usize, keeps: Option<u64>) {
        let news = self.of(by).split_off(self.nodes[to].told[by]);
        self.nodes[to].told[by] += news.len();
        let is_kept = |place: &usize| keeps.is_none_or(|keeps| keeps >> (place % 64) & 1 == 1);
        let kept: Vec<usize> = (0..news.len()).filter(is_kept).map(|place| news[place]).collect();
        for which in &kept {
            self.hear(to, *which);
        }
        let mut sum = WriteBoard::default();
        for which in &news {
            sum.tell(NOW, (&self.writes[*which].records(), &[]));
        }
        self.take_sum(to, &sum, (kept.len() < news.len()).then_some(None));
        self.nodes[to].heard.extend(news);
    }

    fn store(&mut self, by: usize) {
        let news = self.of(by).split_off(self.stored[by]);
        self.stored[by] += news.len();
        for which in &news {
            self.board.tell(NOW, (&self.writes[*which].records(), &[]));
        }
        self.log.extend(news);
    }

    /// The log first, then the marks.
    fn look(&mut self, to: usize) {
        let kept = self.log.len().saturating_sub(LOG_LEN);
        let (life, at) = self.nodes[to].log_at;
        let is_new = life == u64::MAX;
        let is_gap = !is_new && (life != self.life || at < kept);
        let news = self.log[if is_new || is_gap { kept } else { at }..].to_vec();
        for which in news {
            self.hear(to, which);
        }
        let dropped = self.log[..kept].iter().map(|which| self.writes[*which].written);
        let trimmed = dropped.max_by_key(|written| (written.epoch(), written.position().unwrap().id));
        let lacks = match trimmed {
            Some(_) if is_new => Some(trimmed),
            None if is_new && !self.log.is_empty() => None,
            _ if is_gap || is_new => Some(None),
            _ => None,
        };
        let board = self.board.clone();
        self.take_sum(to, &board, lacks);
        let node = &mut self.nodes[to];
        node.heard.extend(self.log.iter().copied());
        node.log_at = (self.life, self.log.len());
    }

    /// The sum of writes, of which some may lack: up to a mark, or to the newest one.
    fn take_sum(&mut self, to: usize, sum: &WriteBoard, lacks: Option<Option<WritePosition>>) {
        let node = &mut self.nodes[to];
        for record in sum.records() {
            node.table.take_beside(record, NOW + Millis(1));
        }
        if let Some(up_to) = lacks {
            node.has_lost = true;
            if let Some(up_to) = up_to.or_else(|| node.table.of(NAME)) {
                node.table.unrefine(up_to);
            }
        }
    }

    fn check(&self, need: &Need) -> Result<(), TestCaseError> {
        for node in &self.nodes {
            let Some(needed) = need.of(&node.table) else { continue };
            let heard = node.heard.iter().map(|which| &self.writes[*which]);
            let counted: Vec<&Write> =
                heard.filter(|write| write.written.epoch() == needed.epoch()).collect();
            let newest = node.heard.iter().map(|which| self.writes[*which].written.epoch()).max();
            prop_assert_eq!(Some(needed.epoch()), newest);
            let conflicting = counted.iter().filter(|write| write.conflicts_with(need));
            let exact = conflicting.map(|write| write.id()).max().unwrap_or_default();
            let needed = needed.position().unwrap().id;
            prop_assert!(needed >= exact, "{exact:?} has ended it, the table says {needed:?}");
            let is_whole = !node.has_lost && self.epoch == 0;
            if let Some(same) = Bookkeeping::of(&counted).needed(need).filter(|_| is_whole) {
                prop_assert_eq!(needed, same.max(exact), "nothing was lost");
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn no_node_keeps_what_a_write_has_ended(
        history in any_history(), needs in prop::collection::vec(any_need(), 6),
    ) {
        let mut world = World::default();
        for event in history {
            world.happen(event);
        }
        for need in &needs {
            world.check(need)?;
        }
    }
}
