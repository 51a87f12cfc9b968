//! A node's own writes into one database, and what it tells the watcher of them.

use std::collections::{BTreeMap, VecDeque};

use crate::bookmark::{DatabaseUuid, TransactionId};
use crate::limits::{TALLY_UNCLEAR_MAX, TALLY_WRITES_MAX};
use crate::node::Incarnation;
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
    /// Which of the asked node's writes do not count.
    pub doubted: Doubted,
    /// Whether all that is not certain is unclear ([`Accounts::settles`](super::Accounts::settles)): a write that is over counts for one id,
    /// and each write that may be under way counts, whatever name it uses.
    pub is_strict: bool,
}

/// Which writes of a node do not count for a range of ids: they may have taken ids of before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Doubted {
    /// None.
    Nothing,
    /// Those of this life up to this number. Another life of the node has a numbering of its own.
    UpTo(Incarnation, u64),
    /// All that it has begun so far: it has not said how many these are.
    All,
}

/// What one life of a node has written into a database, by whatever name, as far as it concerns a range of ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Writes that it has begun, in all databases. They are numbered from 1.
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

/// The writes of this node by one name of a database. All of a node's writes have one numbering.
#[derive(Debug, Clone, Default)]
pub struct OwnWrites {
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
    /// What the watcher has to know for this range, of a life of a node that has begun so many writes: of its `own` writes by the name of the
    /// account, and of those by other names (`others`) that lead to the same database.
    ///
    /// The bookmark of a write tells its database, so a write accounts for ids whatever name it used. By another name it counts for one: a
    /// label that is new to that name may be known by this one, and whoever allows for it may hide a foreign id. A write under way by
    /// another name may be in another database by now: it is waited for, and accounts for nothing.
    #[must_use]
    pub fn of<'a>(
        (life, begun): (Incarnation, u64),
        own: Option<&OwnWrites>,
        others: impl IntoIterator<Item = &'a OwnWrites>,
        range: &IdRange,
    ) -> Self {
        let (mut over, mut unclear) = (BTreeMap::new(), Vec::new());
        let doubted = range.doubted.up_to(life);
        if let Some(own) = own {
            let ids_max = if range.is_strict { 1 } else { u64::MAX };
            own.add((range, doubted), ids_max, &mut over, &mut unclear);
        }
        others.into_iter().for_each(|other| other.add((range, doubted), 1, &mut over, &mut unclear));
        // Where there is no room, the earliest ids look foreign.
        while over.len() > TALLY_WRITES_MAX {
            over.pop_first();
        }
        unclear.sort_unstable();
        unclear.truncate(TALLY_UNCLEAR_MAX);
        Self { begun, over: over.into_iter().collect(), unclear }
    }

    /// A write may be under way of which nothing more is known.
    pub fn add_unclear(&mut self) {
        self.unclear.truncate(TALLY_UNCLEAR_MAX - 1);
        self.unclear.push((u64::MAX, None));
    }
}

impl Doubted {
    /// The last doubted number of this life of the node; zero: none is doubted.
    #[must_use]
    pub fn up_to(&self, life: Incarnation) -> u64 {
        match self {
            Self::UpTo(of, number) if *of == life => *number,
            Self::Nothing | Self::UpTo(..) => 0,
            Self::All => u64::MAX,
        }
    }
}

impl OwnWrites {
    /// A write with this number goes to Neo4j. `ids_max`: the ids that it takes at most, if that is known.
    pub fn begin(&mut self, number: u64, ids_max: Option<u64>) {
        self.open.insert(number, ids_max);
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

    /// Adds those whose bookmarks are in the range to `over`, and those that may have taken ids of it, and may not, to `unclear`. A write that
    /// is over counts for `ids_max` ids at most.
    fn add(
        &self,
        (range, doubted): (&IdRange, u64),
        ids_max: u64,
        over: &mut BTreeMap<TransactionId, u64>,
        unclear: &mut Vec<(u64, Option<u64>)>,
    ) {
        for write in &self.over {
            let Some(position) = write.written.position() else { continue };
            if position.database != range.database || write.written.epoch() != range.epoch {
                continue;
            }
            if position.id > range.until {
                unclear.push((write.number, Some(write.ids_max)));
            } else if position.id > range.after && write.number > doubted {
                *over.entry(position.id).or_default() += write.ids_max.min(ids_max);
            }
        }
        unclear.extend(self.open.iter().map(|(number, ids_max)| (*number, *ids_max)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bookmark::Position;

    const DATABASE: DatabaseUuid = DatabaseUuid([1; 16]);
    const LIFE: Incarnation = Incarnation(8);

    fn written(epoch: u64, id: u64) -> Option<WritePosition> {
        Some(WritePosition::at(WriteEpoch(epoch), Position { database: DATABASE, id: TransactionId(id) }))
    }

    fn range(epoch: u64, after: u64, until: u64) -> IdRange {
        let (after, until) = (TransactionId(after), TransactionId(until));
        IdRange {
            database: DATABASE,
            epoch: WriteEpoch(epoch),
            after,
            until,
            doubted: Doubted::Nothing,
            is_strict: false,
        }
    }

    fn tally(own: &OwnWrites, range: &IdRange) -> Tally {
        Tally::of((LIFE, 4), Some(own), [], range)
    }

    fn over(own: &OwnWrites, range: &IdRange) -> Vec<(u64, u64)> {
        tally(own, range).over.into_iter().map(|(id, ids_max)| (id.0, ids_max)).collect()
    }

    #[test]
    fn a_write_counts_where_its_bookmark_is() {
        let mut own = OwnWrites::default();
        let [a, b, c, d] = [1, 2, 3, 4];
        for (number, ids_max) in [(a, Some(1)), (b, Some(2)), (c, None), (d, Some(1))] {
            own.begin(number, ids_max);
        }
        let all = vec![(1, Some(1)), (2, Some(2)), (3, None), (4, Some(1))];
        assert_eq!(tally(&own, &range(0, 40, 43)), Tally { begun: 4, over: Vec::new(), unclear: all });
        own.end(b, written(0, 43));
        own.end(c, written(0, 43));
        own.end(d, written(0, 43));
        assert_eq!(tally(&own, &range(0, 40, 43)).unclear, [(1, Some(1))]);
        assert_eq!(over(&own, &range(0, 40, 43)), [(43, 3)]);
        assert_eq!(
            tally(&own, &range(0, 40, 42)).unclear,
            [(1, Some(1)), (2, Some(2)), (4, Some(1))],
            "later"
        );
        assert_eq!(over(&own, &range(0, 40, 42)), []);
        assert_eq!(over(&own, &range(0, 43, 44)), []);
        for (doubted, counted) in [
            (Doubted::UpTo(LIFE, 2), vec![(43, 1)]),
            (Doubted::UpTo(Incarnation(7), 2), vec![(43, 3)]),
            (Doubted::All, Vec::new()),
        ] {
            assert_eq!(over(&own, &IdRange { doubted, ..range(0, 40, 43) }), counted, "{doubted:?}");
        }
        assert_eq!(over(&own, &IdRange { is_strict: true, ..range(0, 40, 43) }), [(43, 2)], "one each");
        own.end(a, None);
        assert_eq!(over(&own, &range(0, 40, 50)), [(43, 3)], "it was rolled back, or nobody knows");
        own.end(a, written(0, 44));
        assert_eq!(over(&own, &range(0, 40, 50)), [(43, 3)], "it has ended already");
    }

    /// A write by another name of the database accounts for one id, and one that is under way for none.
    #[test]
    fn writes_by_all_names_of_a_database_count() {
        let (mut own, mut other) = (OwnWrites::default(), OwnWrites::default());
        own.begin(1, Some(2));
        other.begin(2, Some(2));
        other.begin(3, Some(1));
        own.end(1, written(0, 42));
        other.end(2, written(0, 43));
        let both = Tally::of((LIFE, 3), Some(&own), [&other], &range(0, 40, 43));
        let over = vec![(TransactionId(42), 2), (TransactionId(43), 1)];
        assert_eq!(both, Tally { begun: 3, over, unclear: vec![(3, Some(1))] });
        let elsewhere = IdRange { database: DatabaseUuid([2; 16]), ..range(0, 40, 43) };
        assert_eq!(Tally::of((LIFE, 3), None, [&other], &elsewhere).over, []);
    }

    #[test]
    fn ids_of_another_numbering_account_for_nothing() {
        let mut own = OwnWrites::default();
        own.begin(1, Some(1));
        own.end(1, written(0, 41));
        assert_eq!(over(&own, &range(1, 40, 41)), []);
        let elsewhere = IdRange { database: DatabaseUuid([2; 16]), ..range(0, 40, 41) };
        assert_eq!(over(&own, &elsewhere), []);
        assert_eq!(over(&own, &range(0, 40, 41)), [(41, 1)]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut own = OwnWrites::default();
        let mut other = OwnWrites::default();
        for id in 0..2 * TALLY_WRITES_MAX as u64 {
            own.begin(id, Some(1));
            own.end(id, written(0, id));
            other.begin(id, Some(1));
            other.end(id, written(0, 10 * id));
        }
        let both = Tally::of((LIFE, 4), Some(&own), [&other], &range(0, 0, u64::MAX));
        assert_eq!(both.over.len(), TALLY_WRITES_MAX, "as many as a message holds");
        assert_eq!(over(&own, &range(0, 0, u64::MAX)).len(), TALLY_WRITES_MAX);
        assert_eq!(tally(&own, &range(0, 0, 0)).unclear.len(), TALLY_UNCLEAR_MAX);
    }
}
