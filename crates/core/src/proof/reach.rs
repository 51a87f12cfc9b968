//! How far past the last report a node can account for a database's transactions by itself.
//!
//! A write's client has its bookmark at once, and sends it with its next reads. A report that accounts for the write comes up to
//! an interval of the watcher later. Until then entries that the write did not touch would not answer these reads. So nodes
//! count their writes for each other, and each node goes on from its last report. Schedule:
//!
//!   settled is 40 · write A ends with bookmark 41, and node B hears of it · a read with bookmark 41 comes to B: the one
//!   transaction after 40 is known, and an entry that A did not touch answers the read.
//!
//!   settled is 40 · a foreign 41 · write A ends with bookmark 42 · a read with bookmark 42 comes to B: one transaction of two
//!   is known, and the read goes to Neo4j.
//!
//! **The rule counts, and never estimates.** Only a write that certainly took one id, and no more, is counted: each label, type and key
//! that it uses is known, and the counters of its summary prove a change, or it counted up the marker (EXACT section 1). Its id
//! lies after each id that its node knew when it was sent, and not after its bookmark. So of the ids after `settled` and up to
//! W, the counted writes that were sent after `settled` was known and have bookmarks up to W took one each. If they are W -
//! `settled`, they took all. Nothing foreign hides there, and no write of this cluster whose mark has not been heard. The account of
//! the watcher ([`super::Accounts`]) can wait for a write, and allows for what it may have taken. A node that is asked cannot wait.
//!
//! A node takes a write's marks before its count.
//!
//! **A count is heard once.** A telling is repeated when its answer was lost, and a write that counts twice would hide another
//! transaction. So counts have the name of their write: the life of its node, and its number.

use std::collections::BTreeMap;

use crate::bookmark::{DatabaseUuid, TransactionId};
use crate::limits::COUNTED_WRITES_MAX;
use crate::node::Holder;
use crate::write_position::{WriteEpoch, WritePosition};

/// A committed write that took exactly one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CountedWrite {
    /// Its number among the writes of its node's life, from 1.
    pub number: u64,
    /// Its bookmark: no earlier than its id.
    pub written: WritePosition,
    /// An id that its node knew when it sent the write, by the same numbering: earlier than the write's id.
    pub after: TransactionId,
}

/// The counted writes of one database that a node has heard of, its own too, as far as no report has settled them.
#[derive(Debug, Clone, Default)]
pub struct HeardWrites {
    /// The numbering of their ids.
    epoch: WriteEpoch,
    /// By their bookmarks and their names: the ids that they came after.
    writes: BTreeMap<(TransactionId, Holder, u64), TransactionId>,
}

impl HeardWrites {
    /// Hears of a write of this database, by this life of a node. Without room all are forgotten: the next report settles what is
    /// missing.
    pub fn hear(&mut self, by: &Holder, write: &CountedWrite) {
        let Some(position) = write.written.position() else { return };
        let epoch = write.written.epoch();
        if epoch > self.epoch {
            *self = Self { epoch, writes: BTreeMap::new() };
        }
        if epoch < self.epoch {
            return;
        }
        if self.writes.len() >= COUNTED_WRITES_MAX {
            self.writes.clear();
        }
        self.writes.insert((position.id, by.clone(), write.number), write.after);
    }

    /// Forgets writes up to an id that a report has settled. A repetition of one counts for nothing.
    pub fn forget_settled(&mut self, settled: TransactionId) {
        self.writes.retain(|(bookmark, ..), _| *bookmark > settled);
    }

    /// All ids after `settled` and up to this one were taken by writes whose marks this node has.
    #[must_use]
    pub fn reach(&self, epoch: WriteEpoch, settled: TransactionId) -> TransactionId {
        let mut reached = settled;
        if epoch != self.epoch {
            return reached;
        }
        let is_later =
            |(bookmark, after): &(TransactionId, TransactionId)| *bookmark > settled && *after >= settled;
        let bookmarks =
            self.writes.iter().map(|((bookmark, ..), after)| (*bookmark, *after)).filter(is_later);
        for (count, (bookmark, _)) in (1..).zip(bookmarks) {
            if count == bookmark.0 - settled.0 {
                reached = bookmark;
            }
        }
        reached
    }
}

/// The counted writes of all databases that reports tell of.
pub(super) type HeardByDatabase = BTreeMap<DatabaseUuid, HeardWrites>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bookmark::Position;
    use crate::node::{Incarnation, NodeName};

    const DATABASE: DatabaseUuid = DatabaseUuid([1; 16]);
    const EPOCH: WriteEpoch = WriteEpoch(2);

    fn node(name: &str) -> Holder {
        Holder { node: NodeName::new(name).unwrap(), incarnation: Incarnation(1) }
    }

    fn write(number: u64, (bookmark, after): (u64, u64)) -> CountedWrite {
        let position = Position { database: DATABASE, id: TransactionId(bookmark) };
        let written = WritePosition::at(EPOCH, position);
        CountedWrite { number, written, after: TransactionId(after) }
    }

    /// Writes with these bookmarks that were sent after these ids.
    fn heard(writes: &[(u64, u64)]) -> HeardWrites {
        let mut heard = HeardWrites::default();
        (1..).zip(writes).for_each(|(number, ids)| heard.hear(&node("a"), &write(number, *ids)));
        heard
    }

    fn reach_after(heard: &HeardWrites, settled: u64) -> u64 {
        heard.reach(EPOCH, TransactionId(settled)).0
    }

    fn reach(bookmarks: &[u64]) -> u64 {
        let writes: Vec<_> = bookmarks.iter().map(|bookmark| (*bookmark, 40)).collect();
        reach_after(&heard(&writes), 40)
    }

    /// The schedules at the top.
    #[test]
    fn own_writes_in_a_row_are_known_at_once_and_a_foreign_one_stops_it() {
        assert_eq!(reach(&[]), 40);
        assert_eq!(reach(&[41]), 41);
        assert_eq!(reach(&[41, 42, 43]), 43);
        assert_eq!(reach(&[42]), 40, "41 is foreign, or not heard of yet");
        assert_eq!(reach(&[41, 43]), 41);
        assert_eq!(reach(&[41, 43, 44]), 41, "later ones hide nothing before them");
        assert_eq!(reach(&[43, 43, 43]), 43, "three that report the latest");
        assert_eq!(reach(&[43, 43, 44]), 40);
    }

    /// Settled is 41 · write W was sent before that, and may be 41 itself, which counted as foreign · W ends with bookmark 42.
    #[test]
    fn a_write_that_was_sent_before_the_last_settled_id_counts_for_nothing() {
        assert_eq!(reach_after(&heard(&[(42, 40), (43, 41)]), 41), 41);
        assert_eq!(
            reach_after(&heard(&[(42, 40), (43, 41), (43, 41)]), 41),
            43,
            "the other two are 42 and 43"
        );
        assert_eq!(reach_after(&heard(&[(42, 40), (43, 41), (43, 41)]), 40), 43, "three of three");
    }

    #[test]
    fn a_repeated_count_counts_once() {
        let mut heard = heard(&[(42, 40)]);
        heard.hear(&node("a"), &write(1, (42, 40)));
        assert_eq!(reach_after(&heard, 40), 40);
        heard.hear(&node("b"), &write(1, (42, 40)));
        assert_eq!(reach_after(&heard, 40), 42, "another node's first write");
    }

    #[test]
    fn another_numbering_counts_for_nothing() {
        let mut heard = heard(&[(41, 40)]);
        assert_eq!(heard.reach(WriteEpoch(1), TransactionId(40)), TransactionId(40));
        let position = Position { database: DATABASE, id: TransactionId(42) };
        let in_epoch = |epoch| CountedWrite {
            written: WritePosition::at(WriteEpoch(epoch), position),
            ..write(9, (42, 40))
        };
        heard.hear(&node("b"), &in_epoch(1));
        assert_eq!(reach_after(&heard, 40), 41, "a late telling of the former numbering");
        heard.hear(&node("b"), &in_epoch(3));
        assert_eq!(
            heard.reach(WriteEpoch(3), TransactionId(41)),
            TransactionId(41),
            "sent before 41 was known"
        );
        assert_eq!(reach_after(&heard, 40), 40);
    }

    #[test]
    fn what_is_settled_is_forgotten_and_memory_is_bounded() {
        let mut heard = heard(&[(41, 40), (42, 41), (43, 42)]);
        heard.forget_settled(TransactionId(42));
        assert_eq!(heard.writes.len(), 1);
        assert_eq!(reach_after(&heard, 42), 43);
        heard.hear(&node("a"), &write(1, (41, 40)));
        assert_eq!(reach_after(&heard, 42), 43, "a repetition of what is settled");
        for number in 0..2 * COUNTED_WRITES_MAX as u64 {
            heard.hear(&node("c"), &write(number, (100, 50)));
        }
        assert!((1..=COUNTED_WRITES_MAX).contains(&heard.writes.len()));
    }

    /// Every history of six ids after 40, each of a counted write or of another transaction, with every bookmark that EXACT allows, and
    /// heard of or not: what is reached was taken by heard writes alone.
    #[test]
    fn it_never_reaches_past_an_id_that_nobody_has_heard_of() {
        const IDS: u64 = 5;
        for history in 0..4_u32.pow(u32::try_from(IDS).unwrap()) {
            // 0: somebody else's; 1: heard, with its own bookmark; 2: heard, with the newest one; 3: not heard of.
            let kind = |id: u64| (history >> (2 * (id - 41))) & 3;
            let bookmark = |id: u64| if kind(id) == 2 { 40 + IDS } else { id };
            let is_heard = |id: &u64| matches!(kind(*id), 1 | 2);
            let writes: Vec<_> = (41..=40 + IDS).filter(is_heard).map(|id| (bookmark(id), 40)).collect();
            let reached = reach_after(&heard(&writes), 40);
            let missed = (41..=reached).find(|id| !is_heard(id));
            assert_eq!(missed, None, "{history:b}, {reached}");
        }
    }
}
