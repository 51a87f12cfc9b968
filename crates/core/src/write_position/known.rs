//! Which database each name leads to at this node's own Neo4j: what belongs to another database is never served here.
//!
//! A database is named by the UUID that is in its bookmarks. Nodes that write the address of one Neo4j in different ways agree on it,
//! and another Neo4j has another one. Where Neo4j is silent, or tells no transactions, the address decides instead: a *stand-in*, made
//! of the address and the name.
//!
//! Only this node's Neo4j tells what holds here. What other nodes and the store have is of a database, and says nothing of names:
//! nodes with the same key may have another Neo4j. Schedule:
//!   a node is started with a copied configuration, before another Neo4j · it finds the other cluster's marks and entries in Redis ·
//!   it asks its own Neo4j once, and takes none of the entries.

use std::collections::BTreeMap;

use crate::bookmark::{DatabaseUuid, Position, TransactionId};
use crate::key::{DatabaseTag, ServerTag};
use crate::limits::WRITTEN_DATABASES_MAX;
use crate::time::MonoTime;

/// Plain data: the database behind a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownDatabase {
    /// Its UUID, or a stand-in.
    pub database: DatabaseUuid,
    /// Whether this node's Neo4j has said so, and not only the store, which remembers it of an earlier time.
    pub is_confirmed: bool,
    /// A transaction as late as all that had ended at this time.
    pub newest: Option<(TransactionId, MonoTime)>,
}

/// What is new when a name is found to lead to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameChange {
    /// Nothing.
    Nothing,
    /// The name was not known.
    Name,
    /// It led to another database. All other names are forgotten: the whole server may be another one.
    AnotherDatabase,
}

/// Plain data: whose data a node serves under a name. It travels with questions to other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataOwner {
    /// The node's Neo4j.
    pub server: ServerTag,
    /// The database; `None` if the node does not know it.
    pub database: Option<DatabaseUuid>,
}

/// The names that a node has learned.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownDatabases {
    server: ServerTag,
    names: BTreeMap<DatabaseTag, KnownDatabase>,
}

impl KnownDatabase {
    /// This node's Neo4j has answered a question of `asked`, or a run that began then.
    #[must_use]
    pub fn by_answer(position: Position, asked: MonoTime) -> Self {
        Self { database: position.database, is_confirmed: true, newest: Some((position.id, asked)) }
    }
}

impl DataOwner {
    /// Bytes of [`DataOwner::write`].
    pub const BYTES: usize = 8 + 1 + 16;

    /// Whether two nodes serve the same data: of one database, or, where one of them does not know it, of one address.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self.database, other.database) {
            (Some(own), Some(other)) => own == other,
            _ => self.server == other.server,
        }
    }

    /// Appends it in the form that the head of a question has.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.server.0.to_be_bytes());
        out.push(u8::from(self.database.is_some()));
        out.extend_from_slice(&self.database.map_or([0; 16], |database| database.0));
    }

    /// Reads [`DataOwner::write`]'s bytes off the front; `None` if these are none.
    #[must_use]
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (server, rest) = bytes.split_first_chunk::<8>()?;
        let (is_known, rest) = rest.split_first()?;
        let (database, rest) = rest.split_first_chunk::<16>()?;
        *bytes = rest;
        let database = match is_known {
            0 => None,
            1 => Some(DatabaseUuid(*database)),
            _ => return None,
        };
        Some(Self { server: ServerTag(u64::from_be_bytes(*server)), database })
    }
}

impl DatabaseUuid {
    /// Stands in for the UUID of the database that has this name at this address.
    #[must_use]
    pub fn standing_in(server: ServerTag, name: DatabaseTag) -> Self {
        Self((u128::from(server.0) << 64 | u128::from(name.0)).to_be_bytes())
    }
}

impl KnownDatabases {
    pub(super) fn at(server: ServerTag) -> Self {
        Self { server, names: BTreeMap::new() }
    }

    pub(super) fn of(&self, name: DatabaseTag) -> Option<&KnownDatabase> {
        self.names.get(&name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (DatabaseTag, DatabaseUuid)> {
        self.names.iter().map(|(name, known)| (*name, known.database))
    }

    pub(super) fn whose(&self, name: DatabaseTag) -> DataOwner {
        DataOwner { server: self.server, database: self.of(name).map(|known| known.database) }
    }

    /// What results of this name belong to, if their runs do not tell.
    pub(super) fn owner(&self, name: DatabaseTag) -> DatabaseUuid {
        self.of(name).map_or_else(|| DatabaseUuid::standing_in(self.server, name), |known| known.database)
    }

    pub(super) fn forget(&mut self, name: DatabaseTag) {
        self.names.remove(&name);
    }

    pub(super) fn learn(&mut self, name: DatabaseTag, found: KnownDatabase) -> NameChange {
        match self.names.get_mut(&name) {
            Some(known) if known.database == found.database => {
                known.is_confirmed |= found.is_confirmed;
                known.newest = found.newest.or(known.newest);
                NameChange::Nothing
            }
            // The store's word is of an earlier time.
            Some(known) if known.is_confirmed && !found.is_confirmed => NameChange::Nothing,
            Some(_) => {
                self.names = BTreeMap::from([(name, found)]);
                NameChange::AnotherDatabase
            }
            None => {
                if self.names.len() >= WRITTEN_DATABASES_MAX {
                    // It is asked about again when it is needed.
                    self.names.pop_first();
                }
                self.names.insert(name, found);
                NameChange::Name
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Change, WriteBoard, WriteEpoch, WritePosition, WritePositionTable, WriteRecord};
    use super::*;
    use crate::bookmark::{Bookmark, ReadRange};
    use crate::tags::{Depends, TagId};

    const NAME: DatabaseTag = DatabaseTag(7);

    fn at(database: u8, id: u64) -> Position {
        Position { database: DatabaseUuid([database; 16]), id: TransactionId(id) }
    }

    fn write_position(database: u8, epoch: u64, id: u64) -> WritePosition {
        WritePosition::at(WriteEpoch(epoch), at(database, id))
    }

    fn record(name: DatabaseTag, written: WritePosition) -> WriteRecord {
        WriteRecord::of_all(name, written)
    }

    fn range(database: u8, from: u64, to: u64) -> ReadRange {
        ReadRange::new(Bookmark::NONE.with(Some(at(database, from))), at(database, to)).unwrap()
    }

    /// What a node's own Neo4j says about a name.
    fn found(database: u8) -> KnownDatabase {
        KnownDatabase::by_answer(at(database, 30), MonoTime(7_000))
    }

    /// Nodes with one key and one store before two Neo4j servers: their marks stand side by side, at each node and in the store.
    #[test]
    fn marks_of_two_databases_by_one_name_stand_side_by_side() {
        let now = MonoTime(1_000_000);
        let both = [
            record(NAME, write_position(1, 0, 50)),
            WriteRecord { tag: Some(TagId(3)), ..record(NAME, write_position(1, 0, 60)) },
            record(NAME, write_position(2, 4, 9)),
        ];
        let (mut board, mut table) = (WriteBoard::default(), WritePositionTable::default());
        both.iter().for_each(|record| {
            table.take(*record, now);
        });
        let (_, anew) = board.tell(now, (&both, &[]));
        assert_eq!((board.records(), table.records()), (both.to_vec(), both.to_vec()));
        assert_eq!(anew, [], "the one's ids say nothing of the other's");
        assert_eq!(table.of(NAME), None, "nobody knows yet which of them is this node's");
        table.learn(NAME, found(2));
        assert_eq!(table.of(NAME), Some(write_position(2, 4, 9)));
        assert!(!table.ends(NAME, Depends::OnAnything, Some((&range(2, 9, 9), now))));
        // In a full board a name's other databases make room.
        let names = 10..10 + WRITTEN_DATABASES_MAX as u64 - 2;
        let all: Vec<_> = names.map(|name| record(DatabaseTag(name), write_position(1, 0, 5))).collect();
        board.tell(now, (&all, &[]));
        board.tell(now, (&[record(NAME, write_position(3, 0, 7))], &[]));
        let kept: Vec<_> = board.records().into_iter().filter(|kept| kept.name == NAME).collect();
        assert_eq!(kept, [record(NAME, write_position(3, 0, 7))]);
    }

    /// A full table takes no mark of one more database, whatever its name.
    #[test]
    fn a_full_table_keeps_no_marks_of_another_database() {
        let mut table = WritePositionTable::default();
        let database = |number: usize| DatabaseUuid((number as u128).to_be_bytes());
        assert!(table.keeps_marks_of(database(0)));
        for number in 0..=WRITTEN_DATABASES_MAX {
            let written = Position { database: database(number), id: TransactionId(5) };
            table.take(record(NAME, WritePosition::at(WriteEpoch(0), written)), MonoTime(0));
        }
        let is_kept = |number| table.keeps_marks_of(database(number));
        assert!(is_kept(0) && is_kept(WRITTEN_DATABASES_MAX - 1) && !is_kept(WRITTEN_DATABASES_MAX));
    }

    /// An alias has led to the database, and leads to another one now: its writes under way are no writes of the former one.
    #[test]
    fn a_name_that_leads_elsewhere_now_is_none_of_its_former_database() {
        let (now, alias) = (MonoTime(0), DatabaseTag(8));
        let mut table = WritePositionTable::default();
        table.take(record(NAME, write_position(1, 0, 5)), now);
        table.take(record(alias, write_position(1, 0, 6)), now);
        let [first, second] = [1, 2].map(|database| DatabaseUuid([database; 16]));
        assert_eq!(table.names_leading_to(first), [NAME, alias]);
        table.learn(alias, found(2));
        assert_eq!(table.names_of(first), [NAME, alias]);
        assert_eq!(
            (table.names_leading_to(first), table.names_leading_to(second)),
            (vec![NAME], vec![alias])
        );
    }

    /// The schedule at `WritePositionTable::take_with`: there is no place for another name, and the mark's database is here.
    #[test]
    fn a_mark_of_a_database_that_is_here_is_taken_whatever_its_name() {
        let (now, alias) = (MonoTime(0), DatabaseTag(8));
        let mut table = WritePositionTable::default();
        table.learn(alias, found(2));
        for name in 0..WRITTEN_DATABASES_MAX as u64 {
            table.take(record(DatabaseTag(100 + name), write_position(1, 0, 5)), now);
        }
        let names = table.names();
        let later = record(alias, write_position(1, 0, 9));
        assert!(table.is_anothers(&later));
        assert_eq!(table.take(later, now), Change::Later);
        assert_eq!(table.of_database(DatabaseUuid([1; 16])), Some(write_position(1, 0, 9)));
        assert_eq!((table.take(later, now), table.names()), (Change::Known, names));
        assert_eq!(
            table.take(record(DatabaseTag(9), write_position(1, 0, 9)), now),
            Change::Full { ends_others: false }
        );
    }

    /// The word of the store is of an earlier time. The word of this node's Neo4j is of now.
    #[test]
    fn the_stores_word_counts_until_neo4j_answers() {
        let stored = |database| KnownDatabase { is_confirmed: false, newest: None, ..found(database) };
        let mut table = WritePositionTable::at(ServerTag(5));
        assert_eq!(table.owner(NAME), DatabaseUuid::standing_in(ServerTag(5), NAME));
        assert_eq!(table.learn(NAME, stored(1)), NameChange::Name);
        assert_eq!(table.learn(NAME, found(1)), NameChange::Nothing);
        assert_eq!((table.known(NAME), table.owner(NAME)), (Some(found(1)), DatabaseUuid([1; 16])));
        assert_eq!(table.learn(NAME, stored(2)), NameChange::Nothing);
        assert_eq!(table.known(NAME), Some(found(1)));
        table.recheck(NAME);
        assert_eq!(table.known(NAME), None);
        assert_eq!(table.learn(NAME, stored(2)), NameChange::Name);
        assert_eq!(table.learn(NAME, found(1)), NameChange::AnotherDatabase);
    }

    /// Of all that had ended before Neo4j said 30, nothing can have seen 31, unless ids have gone back.
    #[test]
    fn a_transaction_that_neo4j_does_not_have_is_noticed() {
        let mut table = WritePositionTable::default();
        let may_be_lost =
            |table: &WritePositionTable, id, read| table.may_be_lost(NAME, &range(1, id, id), MonoTime(read));
        assert!(!may_be_lost(&table, 31, 6_000), "Neo4j has not been asked");
        table.learn(NAME, found(1));
        assert!(may_be_lost(&table, 31, 6_999));
        assert!(!may_be_lost(&table, 30, 6_999) && !may_be_lost(&table, 31, 7_000));
    }

    /// Two nodes serve the same data if they have one database; by their addresses only where one of them does not know its own.
    #[test]
    fn whose_data_is_decided_by_the_database_before_the_address() {
        let whose = |server, database: Option<u8>| DataOwner {
            server: ServerTag(server),
            database: database.map(|database| DatabaseUuid([database; 16])),
        };
        assert!(whose(1, Some(7)).is_same(&whose(2, Some(7))), "two ways to write one address");
        assert!(!whose(1, Some(7)).is_same(&whose(1, Some(8))), "one of them has not noticed yet");
        assert!(whose(1, None).is_same(&whose(1, Some(7))) && !whose(1, None).is_same(&whose(2, Some(7))));
        for whose in [whose(1, None), whose(u64::MAX, Some(7))] {
            let mut bytes = Vec::new();
            whose.write(&mut bytes);
            assert_eq!(bytes.len(), DataOwner::BYTES);
            assert_eq!(DataOwner::read(&mut &bytes[..]), Some(whose));
            assert!((0..bytes.len()).all(|len| DataOwner::read(&mut &bytes[..len]).is_none()));
        }
    }
}
