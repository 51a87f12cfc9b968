//! How far each database has been written through this cluster. It decides which entries a write has ended.
//!
//! A write's bookmark names a transaction that is as late as the write, or later. So an entry whose run carried that
//! transaction has seen the write. An entry whose run carried less may be older: the write has ended it.
//!
//! Nodes tell each other these marks, and the store keeps them. A mark is a state, not an event: two of one database
//! merge to the later one. So loss, repetition and order of messages change nothing.
//!
//! Ids of transactions go back when a database is restored (measured on 5.26: the same UUID, and the next writes use the same numbers again). A mark therefore has an epoch
//! before its id. The node that sees ids go back begins the next epoch, and purges the database. Example: the mark is
//! (0, 90) · Neo4j is restored to 40 · a node asks Neo4j and hears 41 · it tells (1, 41), which is later than (0, 90).
//!
//! A write whose answer was lost has an id that nobody knows yet. Until somebody asks Neo4j, the mark is *unsettled*:
//! later than every id, so that no entry is served. It is settled by the next epoch. Settling never undoes another
//! write, which shows in this schedule:
//!   the mark is (0, unsettled) · node A asks Neo4j and hears 50 · node B's write is 51, and B tells (1, unsettled) ·
//!   A tells (1, 50), which is earlier and changes nothing · the next to ask hears 51 or more, and tells (2, 51).

use std::collections::BTreeMap;

use crate::bookmark::{DatabaseUuid, Position, ReadRange, TransactionId};
use crate::key::DatabaseTag;
use crate::limits::{WRITTEN_DATABASES_MAX, WRITTEN_LISTENERS_MAX};
use crate::node::NodeName;
use crate::time::{Millis, MonoTime};

/// Which of its numberings a database's ids belong to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WrittenEpoch(pub u64);

/// How far one database has been written. Entries whose run carried less are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Written {
    database: DatabaseUuid,
    epoch: WrittenEpoch,
    id: TransactionId,
}

/// Plain data: the mark of a database under one of its names. Nodes and the store pass these on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WrittenRecord {
    /// The name.
    pub name: DatabaseTag,
    /// The mark.
    pub written: Written,
}

/// Later than every id.
const UNSETTLED: TransactionId = TransactionId(u64::MAX);

impl Written {
    /// Bytes of [`Written::write`].
    pub const BYTES: usize = 32;

    /// The mark of a write at this position, or before it.
    #[must_use]
    pub fn at(epoch: WrittenEpoch, position: Position) -> Self {
        Self { database: position.database, epoch, id: position.id }
    }

    /// A mark that ends nothing.
    #[must_use]
    pub fn nothing(database: DatabaseUuid) -> Self {
        Self { database, epoch: WrittenEpoch(0), id: TransactionId(0) }
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> DatabaseUuid {
        self.database
    }

    /// The numbering of its id.
    #[must_use]
    pub fn epoch(&self) -> WrittenEpoch {
        self.epoch
    }

    /// The transaction that a run has to carry; `None` while nobody knows it.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        (self.id != UNSETTLED).then_some(Position { database: self.database, id: self.id })
    }

    /// Whether some write's id is not known yet.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        self.id == UNSETTLED
    }

    /// Whether a run of this range has seen everything up to the mark.
    #[must_use]
    pub fn is_seen_by(&self, range: &ReadRange) -> bool {
        let carried = range.from().in_database(self.database).map_or(TransactionId(0), |own| own.id);
        range.to().database == self.database && carried >= self.id
    }

    /// Whether both count the same ids of the same database.
    #[must_use]
    pub fn is_comparable(&self, other: &Self) -> bool {
        self.database == other.database && self.epoch == other.epoch
    }

    /// Whether it ends all that `other` ends, in the same database.
    #[must_use]
    pub fn is_at_or_after(&self, other: &Self) -> bool {
        self.database == other.database && self.rank() >= other.rank()
    }

    fn in_doubt(self) -> Self {
        Self { id: UNSETTLED, ..self }
    }

    /// Appends it in the form that nodes use.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.database.0);
        out.extend_from_slice(&self.epoch.0.to_be_bytes());
        out.extend_from_slice(&self.id.0.to_be_bytes());
    }

    /// Reads [`Written::write`]'s bytes off the front; `None` if these are none.
    #[must_use]
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (database, rest) = bytes.split_first_chunk::<16>()?;
        let (epoch, rest) = rest.split_first_chunk::<8>()?;
        let (id, rest) = rest.split_first_chunk::<8>()?;
        *bytes = rest;
        Some(Self {
            database: DatabaseUuid(*database),
            epoch: WrittenEpoch(u64::from_be_bytes(*epoch)),
            id: TransactionId(u64::from_be_bytes(*id)),
        })
    }

    fn rank(&self) -> (WrittenEpoch, TransactionId) {
        (self.epoch, self.id)
    }

    fn next_epoch(&self) -> WrittenEpoch {
        WrittenEpoch(self.epoch.0.saturating_add(1))
    }
}

impl WrittenRecord {
    /// Bytes of [`WrittenRecord::write`].
    pub const BYTES: usize = 8 + Written::BYTES;

    /// Appends it in the form that nodes use.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name.0.to_be_bytes());
        self.written.write(out);
    }

    /// Reads [`WrittenRecord::write`]'s bytes off the front; `None` if these are none.
    #[must_use]
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (name, rest) = bytes.split_first_chunk::<8>()?;
        *bytes = rest;
        Some(Self { name: DatabaseTag(u64::from_be_bytes(*name)), written: Written::read(bytes)? })
    }

    /// As the store keeps it: the name, the database, and the epoch before the id, in hexadecimal digits of fixed length. The
    /// last part of two records is compared as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Written { database, epoch, id } = self.written;
        format!("{:016x} {:032x} {:016x}{:016x}", self.name.0, u128::from_be_bytes(database.0), epoch.0, id.0)
    }

    /// Reads [`WrittenRecord::to_text`]; `None` if the text is none.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let mut parts = text.split(' ');
        let (name, database, rank) = (parts.next()?, parts.next()?, parts.next()?);
        let is_one = name.len() == 16 && database.len() == 32 && rank.len() == 32 && parts.next().is_none();
        if !is_one || !text.is_ascii() {
            return None;
        }
        let database = DatabaseUuid(u128::from_str_radix(database, 16).ok()?.to_be_bytes());
        let (epoch, id) = (WrittenEpoch(hex(&rank[..16])?), TransactionId(hex(&rank[16..])?));
        Some(Self { name: DatabaseTag(hex(name)?), written: Written { database, epoch, id } })
    }
}

/// What a node knows: the mark of each database, and the database behind each name.
///
/// Two names may lead to one database (an alias). A write through one name ends the entries that were read through the
/// other. A name may lead to another database than before (a server was replaced). Then the entries of the former one
/// are ended as well.
#[derive(Debug, Clone, Default)]
pub struct WrittenTable {
    names: BTreeMap<DatabaseTag, DatabaseUuid>,
    marks: BTreeMap<DatabaseUuid, Written>,
}

/// What a record changed in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing: the table has it, or a later one.
    Known,
    /// It ends more entries than before.
    Later,
    /// The table is full, so the record was not kept.
    Full,
}

/// The origin of a record, which decides whether its name counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// By a write that has just ended: the name leads to this database now.
    Now,
    /// Some time ago: what this node has found out itself may be newer.
    Before,
}

impl WrittenTable {
    /// The mark of the database behind a name; `None` if nothing was written, as far as is known.
    ///
    /// A name that is not known yet may be another one of a written database. If there is one such database, it is taken for
    /// that until a run shows the right one.
    #[must_use]
    pub fn of(&self, name: DatabaseTag) -> Option<Written> {
        match self.names.get(&name) {
            Some(database) => self.marks.get(database).copied(),
            None if self.marks.len() == 1 => self.marks.values().next().copied(),
            None => None,
        }
    }

    /// Whether a write has ended what a run by this name read. Its own range shows the database, also for a name that is not
    /// known yet. A name that leads elsewhere now has been given to another database.
    #[must_use]
    pub fn ends(&self, name: DatabaseTag, range: Option<&ReadRange>) -> bool {
        let Some(range) = range else { return !self.marks.is_empty() };
        let database = range.to().database;
        let is_renamed =
            self.names.get(&name).is_some_and(|now| *now != database && self.marks.contains_key(now));
        is_renamed || self.marks.get(&database).is_some_and(|mark| !mark.is_seen_by(range))
    }

    /// The mark after a write by this name whose answer was lost; `None` if its database is not known.
    #[must_use]
    pub fn in_doubt(&self, name: DatabaseTag) -> Option<Written> {
        let database = *self.names.get(&name)?;
        let now = self.marks.get(&database).copied();
        Some(now.unwrap_or(Written::nothing(database)).in_doubt())
    }

    /// Every name.
    #[must_use]
    pub fn names(&self) -> Vec<DatabaseTag> {
        self.names.keys().copied().collect()
    }

    /// The names that lead to a database.
    #[must_use]
    pub fn names_of(&self, database: DatabaseUuid) -> Vec<DatabaseTag> {
        let mut names: Vec<_> =
            self.names.iter().filter(|(_, known)| **known == database).map(|(name, _)| *name).collect();
        names.sort_unstable();
        names
    }

    /// Every record.
    #[must_use]
    pub fn records(&self) -> Vec<WrittenRecord> {
        let record = |(name, database): (&DatabaseTag, &DatabaseUuid)| {
            Some(WrittenRecord { name: *name, written: *self.marks.get(database)? })
        };
        let mut records: Vec<_> = self.names.iter().filter_map(record).collect();
        records.sort_unstable_by_key(|record| record.name);
        records
    }

    /// Whether there is no mark.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// The mark after Neo4j was asked for its newest transaction. `before` is the mark of the name from before the question.
    /// The second value says whether ids have gone back.
    #[must_use]
    pub fn after_asking(&self, before: Option<Written>, newest: Position) -> (Written, bool) {
        let now = self.marks.get(&newest.database);
        let Some(before) = before.filter(|before| before.database == newest.database) else {
            return (Written::at(now.map(Written::epoch).unwrap_or_default(), newest), false);
        };
        let is_back = !before.is_unsettled() && newest.id < before.id;
        let epoch = if is_back || before.is_unsettled() { before.next_epoch() } else { before.epoch };
        (Written::at(epoch, newest), is_back)
    }

    /// The mark after a write of this node that ended with this position. `before` is the mark of the name from before the
    /// write was sent. The second value says whether ids have gone back.
    #[must_use]
    pub fn after_own_write(&self, before: Option<Written>, own: Position) -> (Written, bool) {
        let Some(now) = self.marks.get(&own.database) else {
            return (Written::at(WrittenEpoch::default(), own), false);
        };
        if now.is_unsettled() {
            return (Written { epoch: now.next_epoch(), ..*now }, false);
        }
        let was_later = |before: &Written| before.is_comparable(now) && before.id > own.id;
        let is_back = before.as_ref().is_some_and(was_later);
        let epoch = if is_back { now.next_epoch() } else { now.epoch };
        (Written::at(epoch, own), is_back)
    }

    /// Takes a record.
    pub fn take(&mut self, record: WrittenRecord, told: Told) -> Change {
        let WrittenRecord { name, written } = record;
        let is_new_name = !self.names.contains_key(&name);
        let is_new_mark = !self.marks.contains_key(&written.database);
        if (is_new_name && self.names.len() >= WRITTEN_DATABASES_MAX)
            || (is_new_mark && self.marks.len() >= WRITTEN_DATABASES_MAX)
        {
            return Change::Full;
        }
        let before = self.names.get(&name).copied();
        if is_new_name || told == Told::Now {
            self.names.insert(name, written.database);
        }
        let known = self.marks.entry(written.database).or_insert(written);
        if !known.is_at_or_after(&written) {
            *known = written;
            return Change::Later;
        }
        if is_new_mark || before != self.names.get(&name).copied() { Change::Later } else { Change::Known }
    }

    /// Takes a mark that a request brought. Its name may be a guess of the sender ([`WrittenTable::of`]), so it is not taken.
    pub fn take_mark(&mut self, written: Written) {
        let has_room = self.marks.len() < WRITTEN_DATABASES_MAX;
        match self.marks.get_mut(&written.database) {
            Some(known) if !known.is_at_or_after(&written) => *known = written,
            None if has_room => {
                self.marks.insert(written.database, written);
            }
            Some(_) | None => {}
        }
    }

    /// Whether a name is known to lead to this database.
    #[must_use]
    pub fn leads_to(&self, name: DatabaseTag, database: DatabaseUuid) -> bool {
        self.names.get(&name) == Some(&database)
    }

    /// Notes that a run by this name ended in this database. Returns whether the name led to another one before.
    pub fn found(&mut self, name: DatabaseTag, database: DatabaseUuid) -> bool {
        let before = self.names.get(&name).copied();
        if before == Some(database) || (before.is_none() && self.names.len() >= WRITTEN_DATABASES_MAX) {
            return false;
        }
        self.names.insert(name, database);
        // Copies of the former database are not of this mark's, so they are ended.
        if before.is_some() && self.marks.len() < WRITTEN_DATABASES_MAX {
            self.marks.entry(database).or_insert(Written::nothing(database));
        }
        before.is_some()
    }

    /// The mark that a request with `asked` still needs. A request keeps the mark of its arrival, since later writes do
    /// not concern it. If the ids are counted anew since then, only the mark of now has a meaning.
    #[must_use]
    pub fn still_needed(&self, name: DatabaseTag, asked: Option<Written>) -> Option<Written> {
        let asked = asked?;
        let is_elsewhere = self.names.get(&name).is_some_and(|now| *now != asked.database);
        match self.of(name) {
            now if is_elsewhere => now,
            Some(now) if !now.is_comparable(&asked) => Some(now),
            _ => Some(asked),
        }
    }
}

/// What a store keeps for one cluster: the marks, and the nodes that listen for them. The Lua scripts of the Redis store are
/// the same in another language.
#[derive(Debug, Clone, Default)]
pub struct WrittenBoard {
    marks: BTreeMap<DatabaseTag, Written>,
    /// Each with the end of its lease.
    listeners: BTreeMap<NodeName, MonoTime>,
}

impl WrittenBoard {
    /// Keeps these records, or later ones that it has. Returns the nodes that listen, each with the rest of its lease.
    pub fn tell(&mut self, now: MonoTime, records: &[WrittenRecord]) -> Vec<(NodeName, Millis)> {
        for WrittenRecord { name, written } in records {
            let known = self.marks.get(name);
            let has_room = known.is_some() || self.marks.len() < WRITTEN_DATABASES_MAX;
            if has_room && !known.is_some_and(|known| known.is_at_or_after(written)) {
                self.marks.insert(*name, *written);
            }
        }
        let left = |(node, ends): (&NodeName, &MonoTime)| (node.clone(), ends.since(now));
        self.listeners.iter().filter(|(_, ends)| **ends > now).map(left).collect()
    }

    /// Every record.
    #[must_use]
    pub fn records(&self) -> Vec<WrittenRecord> {
        self.marks.iter().map(|(name, written)| WrittenRecord { name: *name, written: *written }).collect()
    }

    /// Every record. The node listens from now on, for this time.
    pub fn hear(&mut self, now: MonoTime, node: &NodeName, lease_ms: Millis) -> Vec<WrittenRecord> {
        self.listeners.retain(|_, ends| *ends > now);
        if self.listeners.len() < WRITTEN_LISTENERS_MAX || self.listeners.contains_key(node) {
            self.listeners.insert(node.clone(), now + lease_ms);
        }
        self.records()
    }
}
