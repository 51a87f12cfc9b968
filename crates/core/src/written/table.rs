//! What a node knows: the marks of each database, and the database behind each name.

use std::collections::BTreeMap;

use super::marks::Marks;
use super::{Written, WrittenEpoch, WrittenRecord};
use crate::bookmark::{DatabaseUuid, Position, ReadRange, TransactionId};
use crate::key::DatabaseTag;
use crate::limits::WRITTEN_DATABASES_MAX;
use crate::tags::{TagId, Touched};
use crate::time::MonoTime;

/// What a node knows: the marks of each database, and the database behind each name.
///
/// Two names may lead to one database (an alias). A write through one name ends the entries that were read through the
/// other. A name may lead to another database than before (a server was replaced). Then the entries of the former one
/// are ended as well.
#[derive(Debug, Clone, Default)]
pub struct WrittenTable {
    names: BTreeMap<DatabaseTag, DatabaseUuid>,
    marks: BTreeMap<DatabaseUuid, Marks>,
}

/// What a record changed in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing: the table has it, or a later one.
    Known,
    /// It ends more entries than before.
    Later,
    /// The table is full: the record was not kept, or not by its name.
    Full {
        /// Whether entries by other names of its database are ended.
        ends_others: bool,
    },
}

/// The origin of a record, which decides whether its name counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// By a write that has just ended: the name leads to this database now.
    Now,
    /// Some time ago: what this node has found out itself may be newer.
    Before,
}

impl Change {
    /// Whether the record's name has no mark in the table.
    #[must_use]
    pub fn is_full(self) -> bool {
        matches!(self, Self::Full { .. })
    }
}

impl WrittenTable {
    /// The latest mark of the database behind a name; `None` if nothing was written, as far as is known.
    #[must_use]
    pub fn of(&self, name: DatabaseTag) -> Option<Written> {
        self.marks_of(name).map(Marks::newest)
    }

    /// The latest mark of a database.
    #[must_use]
    pub fn of_database(&self, database: DatabaseUuid) -> Option<Written> {
        self.marks.get(&database).map(Marks::newest)
    }

    /// The mark of the database behind a name, for a read that depends on these tags; of all tags if they are not known.
    #[must_use]
    pub fn needed(&self, name: DatabaseTag, reads: Option<&[TagId]>) -> Option<Written> {
        self.marks_of(name).map(|marks| marks.needed(reads))
    }

    /// Whether a foreign transaction may have touched what a run of this range read.
    #[must_use]
    pub fn is_foreign_to(&self, range: &ReadRange) -> bool {
        self.marks.get(&range.to().database).is_some_and(|marks| !marks.foreign().is_seen_by(range))
    }

    /// A name that is not known yet may be another one of a written database. If there is one such database, it is taken for
    /// that until a run shows the right one.
    fn marks_of(&self, name: DatabaseTag) -> Option<&Marks> {
        match self.names.get(&name) {
            Some(database) => self.marks.get(database),
            None if self.marks.len() == 1 => self.marks.values().next(),
            None => None,
        }
    }

    /// Whether a write has ended what a run by this name read. `read` is its range, and when it began. The range shows the database,
    /// also for a name that is not known yet. A name that leads elsewhere now has been given to another database.
    #[must_use]
    pub fn ends(
        &self,
        name: DatabaseTag,
        reads: Option<&[TagId]>,
        read: Option<(&ReadRange, MonoTime)>,
    ) -> bool {
        let Some((range, read_started)) = read else { return self.marks.values().any(Marks::ends_any) };
        let database = range.to().database;
        let is_renamed =
            self.names.get(&name).is_some_and(|now| *now != database && self.marks.contains_key(now));
        let has_ended = |marks: &Marks| !marks.needed(reads).is_seen_by(range);
        is_renamed
            || self.marks.get(&database).is_some_and(has_ended)
            || self.is_of_earlier_epoch(range, read_started)
    }

    /// Whether the ids of a run may be of an earlier epoch. Then the marks of this epoch do not say what has ended its result.
    /// Schedule:
    ///   a run carries 102 · a write is 104, and ends it · Neo4j is restored to 72 · another node tells (1, 72) · 102 is
    ///   later than 72, and what 104 has ended would be served again.
    ///
    /// A run that began after this node heard of the epoch is of the epoch. A run that began earlier is of an earlier epoch if ids
    /// have gone back. Where this node knows no later id than the epoch's first one, the epoch may only settle a write in doubt:
    /// then the run is of an earlier epoch if it ended later than that.
    #[must_use]
    pub fn is_of_earlier_epoch(&self, range: &ReadRange, read_started: MonoTime) -> bool {
        let database = range.to().database;
        let ended = range.to().id;
        self.marks.get(&database).is_some_and(|marks| marks.is_of_earlier_epoch(ended, read_started))
    }

    /// The mark after a write by this name whose answer was lost; `None` if its database is not known.
    #[must_use]
    pub fn in_doubt(&self, name: DatabaseTag) -> Option<Written> {
        let database = *self.names.get(&name)?;
        let now = self.marks.get(&database).map(Marks::newest);
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
        let mut records = Vec::new();
        for (name, database) in &self.names {
            let Some(marks) = self.marks.get(database) else { continue };
            records.push(WrittenRecord::of_all(*name, marks.all()));
            records.extend(marks.tags().map(|(tag, written)| WrittenRecord {
                name: *name,
                written,
                tag: Some(tag),
            }));
        }
        records.sort_unstable_by_key(WrittenRecord::place);
        records
    }

    /// The mark for everything by this name.
    #[must_use]
    pub fn record_of_all(&self, name: DatabaseTag) -> Option<WrittenRecord> {
        self.marks_of(name).map(|marks| WrittenRecord::of_all(name, marks.all()))
    }

    /// The records of a write that has left this mark, and has touched this. Where the ids are counted anew, or are not known,
    /// it has touched anything.
    #[must_use]
    pub fn records_of(&self, name: DatabaseTag, written: Written, touched: &Touched) -> Vec<WrittenRecord> {
        let is_counted = match self.marks.get(&written.database) {
            Some(marks) => marks.counts(written.epoch),
            None => written.epoch == WrittenEpoch::default(),
        };
        match touched {
            Touched::These(tags) if is_counted && !written.is_unsettled() => {
                tags.iter().map(|tag| WrittenRecord { name, written, tag: Some(*tag) }).collect()
            }
            Touched::These(_) | Touched::Anything => vec![WrittenRecord::of_all(name, written)],
        }
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
        let marks = self.marks.get(&newest.database);
        let epoch_now = marks.map(|marks| marks.all().epoch);
        let Some(before) = before.filter(|before| before.database == newest.database) else {
            return (Written::at(epoch_now.unwrap_or_default(), newest), false);
        };
        // A mark in doubt is later than every id, and hides a step back.
        let known = match marks {
            _ if !before.is_unsettled() => before.id,
            Some(marks) => marks.known_before(&before),
            None => TransactionId(0),
        };
        let is_back = newest.id < known;
        // Another one has noticed, if the epoch has begun since the question.
        let is_news = epoch_now.is_none_or(|epoch| epoch == before.epoch);
        let epoch = if is_back || before.is_unsettled() { before.next_epoch() } else { before.epoch };
        (Written::at(epoch, newest), is_back && is_news)
    }

    /// The mark after a write of this node that ended with this position. `before` is the mark of the name from before the
    /// write was sent. The second value says whether ids have gone back.
    #[must_use]
    pub fn after_own_write(&self, before: Option<Written>, own: Position) -> (Written, bool) {
        let Some(now) = self.marks.get(&own.database).map(Marks::newest) else {
            return (Written::at(WrittenEpoch::default(), own), false);
        };
        if now.is_unsettled() {
            return (Written { epoch: now.next_epoch(), ..now }, false);
        }
        let was_later = |before: &Written| before.is_comparable(&now) && before.id > own.id;
        let is_back = before.as_ref().is_some_and(was_later);
        let epoch = if is_back { now.next_epoch() } else { now.epoch };
        (Written::at(epoch, own), is_back)
    }

    /// Takes a record that this node hears at `now`.
    pub fn take(&mut self, record: WrittenRecord, told: Told, now: MonoTime) -> Change {
        let WrittenRecord { name, written, tag } = record;
        let is_new_name = !self.names.contains_key(&name);
        let is_new_mark = !self.marks.contains_key(&written.database);
        if is_new_mark && self.marks.len() >= WRITTEN_DATABASES_MAX {
            return Change::Full { ends_others: false };
        }
        let has_place = !is_new_name || self.names.len() < WRITTEN_DATABASES_MAX;
        let before = self.names.get(&name).copied();
        if has_place && (is_new_name || told == Told::Now) {
            self.names.insert(name, written.database);
        }
        let marks = self.marks.entry(written.database).or_insert_with(|| Marks::nothing(written.database));
        let is_later = marks.take(tag, written, now);
        if !has_place {
            return Change::Full { ends_others: is_later };
        }
        let is_renamed = before != self.names.get(&name).copied();
        if is_later || is_new_mark || is_renamed { Change::Later } else { Change::Known }
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
            self.marks.entry(database).or_insert_with(|| Marks::nothing(database));
        }
        before.is_some()
    }

    /// The mark that a request with `asked` still needs, which depends on these tags. A request keeps the mark of its arrival,
    /// since later writes do not concern it. If the ids are counted anew since then, only the mark of now has a meaning.
    #[must_use]
    pub fn still_needed(
        &self,
        name: DatabaseTag,
        reads: Option<&[TagId]>,
        asked: Option<Written>,
    ) -> Option<Written> {
        let asked = asked?;
        let is_elsewhere = self.names.get(&name).is_some_and(|now| *now != asked.database);
        match self.needed(name, reads) {
            now if is_elsewhere => now,
            Some(now) if now.database == asked.database && now.epoch > asked.epoch => Some(now),
            _ => Some(asked),
        }
    }

    /// The mark that a request needs which another node has sent on with `told`: that, or a later one that this node knows.
    #[must_use]
    pub fn needed_beside(
        &self,
        name: DatabaseTag,
        reads: Option<&[TagId]>,
        told: Option<Written>,
    ) -> Option<Written> {
        match (self.needed(name, reads), told) {
            (Some(own), Some(told)) if !own.is_at_or_after(&told) && own.database == told.database => {
                Some(told)
            }
            (own, told) => own.or(told),
        }
    }
}
