//! A node's own writes into one database, and what it tells the watcher of them.

use std::collections::{BTreeMap, VecDeque};

use crate::bookmark::{DatabaseUuid, TransactionId};
use crate::limits::{TALLY_UNCLEAR_MAX, TALLY_WRITES_MAX};
use crate::wire::at_most;
use crate::write_position::{WriteEpoch, WritePosition};

/// Ids that an account is about: later than `after`, up to `until`, by one numbering of one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct IdRange {
    /// The database.
    pub database: DatabaseUuid,
    /// The numbering of its ids.
    pub epoch: WriteEpoch,
    /// The last id that is accounted for.
    pub after: TransactionId,
    /// The newest id.
    pub until: TransactionId,
    /// The asked node's writes up to this number do not count: they may have taken ids up to `after`.
    pub doubted: u64,
    /// Whether all that is not certain is unclear ([`Accounts::settles`](super::Accounts::settles)): a write that is over counts for one id,
    /// and each write that may be under way counts, whatever name it uses.
    pub is_strict: bool,
}

/// What one life of a node has written into a database, as far as it concerns a range of ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Writes that it has begun. They are numbered from 1.
    pub begun: u64,
    /// Those that are over and have a bookmark in the range: the bookmarks in their order, and the ids that the writes with each
    /// of them may have taken at most. At most [`TALLY_WRITES_MAX`].
    #[serde(deserialize_with = "at_most::<_, _, TALLY_WRITES_MAX>")]
    pub over: Vec<(TransactionId, u64)>,
    /// Writes that are not over, and those with a later bookmark: each with its number, and the ids that it may take at most.
    /// `None`: nobody knows. In the order of numbers; the first [`TALLY_UNCLEAR_MAX`].
    #[serde(deserialize_with = "at_most::<_, _, TALLY_UNCLEAR_MAX>")]
    pub unclear: Vec<(u64, Option<u64>)>,
}

/// The writes of this node into one database.
#[derive(Debug, Clone, Default)]
pub struct OwnWrites {
    begun: u64,
    /// Those under way, by their numbers: the ids that each may take at most.
    open: BTreeMap<u64, Option<u64>>,
    /// The last ones that are over and had a bookmark, in the order of their ends.
    over: VecDeque<WriteOver>,
}

#[derive(Debug, Clone, Copy)]
struct WriteOver {
    number: u64,
    /// Its bookmark: no earlier than its ids.
    written: WritePosition,
    ids_max: u64,
}

impl Tally {
    /// A write may be under way of which nothing more is known.
    pub fn add_unclear(&mut self) {
        self.unclear.truncate(TALLY_UNCLEAR_MAX - 1);
        self.unclear.push((u64::MAX, None));
    }
}

impl OwnWrites {
    /// A write goes to Neo4j. `ids_max`: the ids that it takes at most, if that is known. Its number.
    pub fn begin(&mut self, ids_max: Option<u64>) -> u64 {
        self.begun += 1;
        self.open.insert(self.begun, ids_max);
        self.begun
    }

    /// The ids that a write under way takes at most; `None` if nobody knows.
    #[must_use]
    pub fn ids_max_of(&self, number: u64) -> Option<u64> {
        self.open.get(&number).copied().flatten()
    }

    /// A write has ended. `write_position`: its bookmark, if it was committed and can be counted. The ids of any other look foreign.
    pub fn end(&mut self, number: u64, written: Option<WritePosition>) {
        let (Some(Some(ids_max)), Some(written)) = (self.open.remove(&number), written) else { return };
        if self.over.len() >= TALLY_WRITES_MAX {
            self.over.pop_front();
        }
        self.over.push_back(WriteOver { number, written, ids_max });
    }

    /// Whether any write is under way.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// What the watcher has to know for this range.
    #[must_use]
    pub fn tally(&self, range: &IdRange) -> Tally {
        let (mut over, mut later) = (BTreeMap::new(), Vec::new());
        for write in &self.over {
            let Some(position) = write.written.position() else { continue };
            if position.database != range.database || write.written.epoch() != range.epoch {
                continue;
            }
            if position.id > range.until {
                later.push((write.number, Some(write.ids_max)));
            } else if position.id > range.after && write.number > range.doubted {
                *over.entry(position.id).or_default() += if range.is_strict { 1 } else { write.ids_max };
            }
        }
        let mut unclear: Vec<_> = self.open.iter().map(|(number, ids_max)| (*number, *ids_max)).collect();
        unclear.extend(later);
        unclear.sort_unstable();
        unclear.truncate(TALLY_UNCLEAR_MAX);
        Tally { begun: self.begun, over: over.into_iter().collect(), unclear }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bookmark::Position;

    const DATABASE: DatabaseUuid = DatabaseUuid([1; 16]);

    fn written(epoch: u64, id: u64) -> Option<WritePosition> {
        Some(WritePosition::at(WriteEpoch(epoch), Position { database: DATABASE, id: TransactionId(id) }))
    }

    fn range(epoch: u64, after: u64, until: u64) -> IdRange {
        let (after, until) = (TransactionId(after), TransactionId(until));
        IdRange { database: DATABASE, epoch: WriteEpoch(epoch), after, until, doubted: 0, is_strict: false }
    }

    fn over(own: &OwnWrites, range: &IdRange) -> Vec<(u64, u64)> {
        own.tally(range).over.into_iter().map(|(id, ids_max)| (id.0, ids_max)).collect()
    }

    #[test]
    fn a_write_counts_where_its_bookmark_is() {
        let mut own = OwnWrites::default();
        let [a, b, c, d] = [Some(1), Some(2), None, Some(1)].map(|ids| own.begin(ids));
        let all = vec![(1, Some(1)), (2, Some(2)), (3, None), (4, Some(1))];
        assert_eq!(own.tally(&range(0, 40, 43)), Tally { begun: 4, over: Vec::new(), unclear: all });
        own.end(b, written(0, 43));
        own.end(c, written(0, 43));
        own.end(d, written(0, 43));
        assert_eq!(own.tally(&range(0, 40, 43)).unclear, [(1, Some(1))]);
        assert_eq!(over(&own, &range(0, 40, 43)), [(43, 3)]);
        assert_eq!(own.tally(&range(0, 40, 42)).unclear, [(1, Some(1)), (2, Some(2)), (4, Some(1))], "later");
        assert_eq!(over(&own, &range(0, 40, 42)), []);
        assert_eq!(over(&own, &range(0, 43, 44)), []);
        assert_eq!(over(&own, &IdRange { doubted: 2, ..range(0, 40, 43) }), [(43, 1)]);
        assert_eq!(over(&own, &IdRange { is_strict: true, ..range(0, 40, 43) }), [(43, 2)], "one each");
        own.end(a, None);
        assert_eq!(over(&own, &range(0, 40, 50)), [(43, 3)], "it was rolled back, or nobody knows");
        own.end(a, written(0, 44));
        assert_eq!(over(&own, &range(0, 40, 50)), [(43, 3)], "it has ended already");
    }

    #[test]
    fn ids_of_another_numbering_account_for_nothing() {
        let mut own = OwnWrites::default();
        let write = own.begin(Some(1));
        own.end(write, written(0, 41));
        assert_eq!(over(&own, &range(1, 40, 41)), []);
        let elsewhere = IdRange { database: DatabaseUuid([2; 16]), ..range(0, 40, 41) };
        assert_eq!(over(&own, &elsewhere), []);
        assert_eq!(over(&own, &range(0, 40, 41)), [(41, 1)]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut own = OwnWrites::default();
        for id in 0..2 * TALLY_WRITES_MAX as u64 {
            let write = own.begin(Some(1));
            own.end(write, written(0, id));
        }
        assert_eq!(over(&own, &range(0, 0, u64::MAX)).len(), TALLY_WRITES_MAX);
        assert_eq!(own.tally(&range(0, 0, 0)).unclear.len(), TALLY_UNCLEAR_MAX);
    }
}
