//! What a node knows: the marks of each database, and the database behind each name.

use std::collections::{BTreeMap, BTreeSet};

use super::known::{DataOwner, KnownDatabase, KnownDatabases, NameChange};
use super::names::{NameId, NameTable};
use super::tag_positions::TagPositions;
use super::{WriteEpoch, WriteEvent, WritePosition, WriteRecord};
use crate::bookmark::{DatabaseUuid, Position, ReadRange, TransactionId};
use crate::key::{DatabaseTag, ServerTag};
use crate::limits::{SKETCH_IDLE_MS, SKETCHES_MAX, WRITTEN_DATABASES_MAX};
use crate::tags::{Depends, Key, NeedsShape, TagId, Touched, TouchedTags};
use crate::time::{Millis, MonoTime};

/// What a node knows: the marks of each database, and the database behind each name.
///
/// Two names may lead to one database (an alias). A write through one name ends the entries that were read through the
/// other. A name may lead to another database than before (a server was replaced). Then the entries of the former one
/// are ended as well.
#[derive(Debug, Clone, Default)]
pub struct WritePositionTable {
    known: KnownDatabases,
    /// The databases that others have written, by the names that they used.
    told: BTreeSet<(DatabaseTag, DatabaseUuid)>,
    pub(super) positions: BTreeMap<DatabaseUuid, TagPositions>,
    pub(super) names: NameTable,
    /// How often this node has heard that rights have changed.
    pub(super) rights: u64,
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

impl Change {
    /// Whether the record's name has no mark in the table.
    #[must_use]
    pub fn is_full(self) -> bool {
        matches!(self, Self::Full { .. })
    }
}

impl WritePositionTable {
    /// The empty table of a node whose Neo4j has this address.
    #[must_use]
    pub fn at(server: ServerTag) -> Self {
        Self { known: KnownDatabases::at(server), ..Self::default() }
    }

    /// A table that knows of no write, and knows what this one knows of pairs of labels and of all transactions of this database. Of a
    /// write that it takes, it says what the write ends by itself.
    #[must_use]
    pub fn without_writes(&self, database: DatabaseUuid) -> Self {
        let of = self.positions.get(&database).map(|positions| (database, positions.without_writes()));
        Self { positions: of.into_iter().collect(), names: self.names.clone(), ..Self::default() }
    }

    /// The latest mark of the database behind a name; `None` if nothing was written, as far as is known.
    #[must_use]
    pub fn of(&self, name: DatabaseTag) -> Option<WritePosition> {
        self.positions_of(name).map(TagPositions::newest)
    }

    /// The latest mark of a database.
    #[must_use]
    pub fn of_database(&self, database: DatabaseUuid) -> Option<WritePosition> {
        self.positions.get(&database).map(TagPositions::newest)
    }

    /// The mark of the database behind a name, for a read that depends on these tags; of all tags if they are not known.
    #[must_use]
    pub fn needed(&self, name: DatabaseTag, reads: Option<&[TagId]>) -> Option<WritePosition> {
        self.needed_by(name, reads.into())
    }

    /// The mark of the database behind a name, for a read that depends on this. The last write that may have changed what the read needs
    /// is at this mark, or before it: a write that a [`Refinement`](crate::tags::Refinement) separates from each need has not.
    #[must_use]
    pub fn needed_by(&self, name: DatabaseTag, reads: Depends<'_>) -> Option<WritePosition> {
        self.positions_of(name).map(|positions| positions.needed(reads, &self.names))
    }

    /// The keys by which writes have found the nodes of what a read of this database needs, those of the latest writes first. A result that
    /// shows their values of its own nodes may be told apart from the next such write.
    #[must_use]
    pub fn covered_keys(&self, database: DatabaseUuid, shape: &NeedsShape) -> Vec<Key<Box<str>>> {
        let Some(positions) = self.positions.get(&database) else { return Vec::new() };
        let named = |key: Key<NameId>| {
            Some(match key {
                Key::Property(name) => Key::Property(Box::from(self.names.text(name)?)),
                Key::ElementId => Key::ElementId,
                Key::Id => Key::Id,
            })
        };
        positions.covered_keys(shape).into_iter().filter_map(named).collect()
    }

    /// Whether a foreign transaction may have touched what a run of this range read.
    #[must_use]
    pub fn is_foreign_to(&self, range: &ReadRange) -> bool {
        self.positions
            .get(&range.to().database)
            .is_some_and(|positions| !positions.foreign().is_seen_by(range))
    }

    /// Whether this node keeps the marks of each write to a database, whatever name the write used. Beyond the bound a mark finds no place, and
    /// at most what was read by the write's own name is forgotten.
    #[must_use]
    pub fn keeps_marks_of(&self, database: DatabaseUuid) -> bool {
        self.positions.len() < WRITTEN_DATABASES_MAX || self.positions.contains_key(&database)
    }

    /// The database behind a name. While this node's Neo4j has not told it: the only one that others have by this name, or the only
    /// written one, of which it may be another name. That of users and rights has no other name: its marks would end all entries of a
    /// database that this node, as it owns none of the keys, never asks about.
    #[must_use]
    pub fn database_of(&self, name: DatabaseTag) -> Option<DatabaseUuid> {
        if let Some(known) = self.known.of(name) {
            return Some(known.database);
        }
        let mut told = self.told.range((name, DatabaseUuid([0; 16]))..=(name, DatabaseUuid([0xff; 16])));
        match (told.next(), told.next()) {
            (Some((_, only)), None) => Some(*only),
            (None, _) => {
                let mut written = self.positions.keys().filter(|database| **database != DatabaseUuid::SYSTEM);
                written.next().copied().filter(|_| written.next().is_none())
            }
            _ => None,
        }
    }

    fn positions_of(&self, name: DatabaseTag) -> Option<&TagPositions> {
        self.positions.get(&self.database_of(name)?)
    }

    /// Whether a write has ended what a run by this name read. `read` is its range, and when it began. The range shows the database,
    /// also for a name that is not known yet. A name that leads elsewhere now has been given to another database.
    #[must_use]
    pub fn ends(&self, name: DatabaseTag, reads: Depends<'_>, read: Option<(&ReadRange, MonoTime)>) -> bool {
        let Some((range, read_started)) = read else {
            return self.positions.values().any(TagPositions::ends_any);
        };
        let database = range.to().database;
        let is_renamed = self.known.of(name).is_some_and(|now| now.database != database);
        let has_ended = |positions: &TagPositions| !positions.needed(reads, &self.names).is_seen_by(range);
        is_renamed
            || self.positions.get(&database).is_some_and(has_ended)
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
        self.positions
            .get(&database)
            .is_some_and(|positions| positions.is_of_earlier_epoch(ended, read_started))
    }

    /// The mark after a write by this name whose answer was lost; `None` if its database is not known.
    #[must_use]
    pub fn in_doubt(&self, name: DatabaseTag) -> Option<WritePosition> {
        let database = self.database_of(name)?;
        let now = self.positions.get(&database).map(TagPositions::newest);
        Some(now.unwrap_or(WritePosition::nothing(database)).in_doubt())
    }

    /// Each name with each database that it is known, or said, to lead to.
    fn named(&self) -> BTreeSet<(DatabaseTag, DatabaseUuid)> {
        self.told.iter().copied().chain(self.known.names()).collect()
    }

    /// Every name.
    #[must_use]
    pub fn names(&self) -> Vec<DatabaseTag> {
        let mut names: Vec<_> = self.named().into_iter().map(|(name, _)| name).collect();
        names.dedup();
        names
    }

    /// The databases that have this name, here or elsewhere.
    #[must_use]
    pub fn databases_of(&self, name: DatabaseTag) -> Vec<DatabaseUuid> {
        self.named().into_iter().filter(|(each, _)| *each == name).map(|(_, database)| database).collect()
    }

    /// The names that lead to a database.
    #[must_use]
    pub fn names_of(&self, database: DatabaseUuid) -> Vec<DatabaseTag> {
        self.named().into_iter().filter(|(_, of)| *of == database).map(|(name, _)| name).collect()
    }

    /// The names that lead to a database here: not those by which others have written it, where this node's Neo4j says something else.
    #[must_use]
    pub fn names_leading_to(&self, database: DatabaseUuid) -> Vec<DatabaseTag> {
        let mut names = self.names_of(database);
        names.retain(|name| self.database_of(*name) == Some(database));
        names
    }

    /// Every record.
    #[must_use]
    pub fn records(&self) -> Vec<WriteRecord> {
        let mut records = Vec::new();
        for (name, database) in self.named() {
            let Some(positions) = self.positions.get(&database) else { continue };
            records.push(WriteRecord::of_all(name, positions.all()));
            records.extend(positions.tags().map(|(tag, written)| WriteRecord {
                name,
                written,
                tag: Some(tag),
            }));
        }
        records.sort_unstable_by_key(WriteRecord::place);
        records
    }

    /// The mark for everything of a database, by this name.
    #[must_use]
    pub fn record_of_all(&self, name: DatabaseTag, database: DatabaseUuid) -> Option<WriteRecord> {
        self.positions.get(&database).map(|positions| WriteRecord::of_all(name, positions.all()))
    }

    /// A write that has left this mark, and has touched this. Where the ids are counted anew, or are not known, it has touched anything.
    ///
    /// `began`: the mark of its database when it was sent; `None` if that is not known.
    #[must_use]
    pub fn event_of(
        &self,
        name: DatabaseTag,
        (began, written): (Option<WritePosition>, WritePosition),
        touched: &Touched,
    ) -> WriteEvent {
        let is_counted = match self.positions.get(&written.database) {
            Some(positions) => positions.counts(written.epoch),
            None => written.epoch == WriteEpoch::default(),
        };
        let is_known = is_counted && !written.is_unsettled();
        let touched = if is_known || touched.is_nothing() { touched.clone() } else { Touched::Anything };
        let began = began.filter(|began| began.is_comparable(&written) && !began.is_unsettled());
        let since = began.map_or(TransactionId(0), |began| began.id.min(written.id));
        WriteEvent { name, written, since, touched }
    }

    /// Whether there is no mark.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The mark after Neo4j was asked for its newest transaction. `before` is the mark of the name from before the question.
    /// The second value says whether ids have gone back.
    #[must_use]
    pub fn after_asking(&self, before: Option<WritePosition>, newest: Position) -> (WritePosition, bool) {
        let positions = self.positions.get(&newest.database);
        let epoch_now = positions.map(|positions| positions.all().epoch);
        let Some(before) = before.filter(|before| before.database == newest.database) else {
            return (WritePosition::at(epoch_now.unwrap_or_default(), newest), false);
        };
        // A mark in doubt is later than every id, and hides a step back.
        let known = match positions {
            _ if !before.is_unsettled() => before.id,
            Some(positions) => positions.known_before(&before),
            None => TransactionId(0),
        };
        let is_back = newest.id < known;
        // Another one has noticed, if the epoch has begun since the question.
        let is_news = epoch_now.is_none_or(|epoch| epoch == before.epoch);
        let epoch = if is_back || before.is_unsettled() { before.next_epoch() } else { before.epoch };
        (WritePosition::at(epoch, newest), is_back && is_news)
    }

    /// The mark after a write of this node that ended with this position. `before` is the mark of the name from before the
    /// write was sent. The second value says whether ids have gone back.
    #[must_use]
    pub fn after_own_write(&self, before: Option<WritePosition>, own: Position) -> (WritePosition, bool) {
        let Some(now) = self.positions.get(&own.database).map(TagPositions::newest) else {
            return (WritePosition::at(WriteEpoch::default(), own), false);
        };
        if now.is_unsettled() {
            return (WritePosition { epoch: now.next_epoch(), ..now }, false);
        }
        let was_later = |before: &WritePosition| before.is_comparable(&now) && before.id > own.id;
        let is_back = before.as_ref().is_some_and(was_later);
        let epoch = if is_back { now.next_epoch() } else { now.epoch };
        (WritePosition::at(epoch, own), is_back)
    }

    /// Takes a record that this node hears at `now`. Of a record's write nothing more is known: it ends all that depends on the tag.
    pub fn take(&mut self, record: WriteRecord, now: MonoTime) -> Change {
        self.take_with(&record, |positions, _| positions.take(record.tag, record.written, now))
    }

    /// Takes a write that this node hears of at `now`, with what refines its tags. A tag that is not refined is taken as by
    /// [`WritePositionTable::take`]. Repetition and order change nothing: an earlier write is taken as well as a later one.
    pub fn take_event(&mut self, event: &WriteEvent, now: MonoTime) -> Change {
        let WriteEvent { name, written, since, touched } = event;
        let record = WriteRecord::of_all(*name, *written);
        let Touched::These(touched) = touched else { return self.take(record, now) };
        let has_anchors = touched.refinement().is_some_and(|refinement| !refinement.anchors().is_empty());
        if touched.tags().is_empty() {
            return Change::Known;
        }
        if has_anchors && !self.makes_room_for_anchors(written.database, now) {
            let loose = TouchedTags::new(touched.tags().iter().copied(), None);
            return self.take_with(&record, |positions, names| {
                positions.take_write((*written, *since), &loose, (now, names))
            });
        }
        self.take_with(&record, |positions, names| {
            positions.take_write((*written, *since), touched, (now, names))
        })
    }

    /// Takes a record that came beside the writes of which it is the sum. It changes nothing if a write to the tag is known that is as
    /// late.
    ///
    /// Each write that the record sums up has come by [`WritePositionTable::take_event`]. Where one may lack, as at a node's first look,
    /// [`WritePositionTable::unrefine`] follows before the node is in touch. Until then it proves nothing, and serves by age what it served
    /// before the look.
    pub fn take_beside(&mut self, record: WriteRecord, now: MonoTime) -> Change {
        let positions = self.positions.get(&record.written.database);
        match (positions, record.tag) {
            (Some(positions), Some(tag)) if positions.has_write_of(tag, record.written) => Change::Known,
            _ => self.take(record, now),
        }
    }

    /// The floor: writes to this database up to this mark may lack here, though their tags are known. So nothing more is known of any touch
    /// up to it, and each ends all that depends on its tag. Later writes stay refined. Returns whether that ends more than before.
    ///
    /// Schedule: write 50 sets `name` of the user 7 · write 51 sets that of the user 8 · this node hears of 51, and of the gap before it ·
    /// without a floor, what was read of the user 7 at 49 would be served.
    pub fn unrefine(&mut self, up_to: WritePosition) -> bool {
        self.positions.get_mut(&up_to.database).is_some_and(|positions| positions.unrefine(up_to))
    }

    /// Whether a database has a sketch of anchors, or may have one. The database that has had no anchor for longest gives its own away.
    fn makes_room_for_anchors(&mut self, database: DatabaseUuid, now: MonoTime) -> bool {
        if self.positions.get(&database).is_some_and(|positions| positions.anchored_at().is_some()) {
            return true;
        }
        let having =
            self.positions.values_mut().filter_map(|positions| Some((positions.anchored_at()?, positions)));
        let mut having: Vec<_> = having.collect();
        if having.len() < SKETCHES_MAX {
            return true;
        }
        match having.iter_mut().min_by_key(|(at, _)| *at) {
            Some((at, positions)) if now.since(*at) >= Millis(SKETCH_IDLE_MS) => {
                positions.forget_anchors();
                true
            }
            _ => false,
        }
    }

    fn take_with(
        &mut self,
        record: &WriteRecord,
        take: impl FnOnce(&mut TagPositions, &mut NameTable) -> bool,
    ) -> Change {
        let WriteRecord { name, written, .. } = *record;
        let place = (name, written.database);
        let is_new_name = !self.told.contains(&place);
        let is_new_position = !self.positions.contains_key(&written.database);
        let has_place = !is_new_name || self.told.len() < WRITTEN_DATABASES_MAX;
        let has_room = !is_new_position || self.positions.len() < WRITTEN_DATABASES_MAX;
        // Of a database by whose names this node reads nothing, no name needs a place. Its marks do: another name may lead to it. Schedule:
        //   B has places for no more names, and knows that the alias leads to E · the alias is given to D, and A writes by it · the telling to B is
        //   lost · B looks, and takes the mark of D, or it would serve by D's name `neo4j` what the write has ended.
        let is_anothers = self.is_anothers(record);
        if !has_room {
            return if is_anothers { Change::Known } else { Change::Full { ends_others: false } };
        }
        if has_place {
            self.told.insert(place);
        }
        let positions =
            self.positions.entry(written.database).or_insert_with(|| TagPositions::nothing(written.database));
        let is_later = take(positions, &mut self.names);
        if !has_place && !is_anothers {
            return Change::Full { ends_others: is_later };
        }
        let is_news = is_later || is_new_position || is_new_name && has_place;
        if is_news { Change::Later } else { Change::Known }
    }

    /// Whether a record is of a database that its name does not lead to at this node's Neo4j.
    #[must_use]
    pub fn is_anothers(&self, record: &WriteRecord) -> bool {
        self.known.of(record.name).is_some_and(|known| known.database != record.written.database)
    }

    /// What is known of the database behind a name.
    #[must_use]
    pub fn known(&self, name: DatabaseTag) -> Option<KnownDatabase> {
        self.known.of(name).copied()
    }

    /// Whose data this node serves under a name.
    #[must_use]
    pub fn whose(&self, name: DatabaseTag) -> DataOwner {
        self.known.whose(name)
    }

    /// The database that results of this name belong to here, if their runs do not tell.
    #[must_use]
    pub fn owner(&self, name: DatabaseTag) -> DatabaseUuid {
        self.known.owner(name)
    }

    /// Whether a run that began at `read_started` has seen a transaction that this node's Neo4j did not have later. Then ids have gone
    /// back: unless the run was still under way when Neo4j was asked.
    #[must_use]
    pub fn may_be_lost(&self, name: DatabaseTag, range: &ReadRange, read_started: MonoTime) -> bool {
        let newest = self.known.of(name).and_then(|known| known.newest);
        newest.is_some_and(|(id, at)| range.to().id > id && read_started < at)
    }

    /// Notes what this node's Neo4j, or the store, says about a name.
    pub fn learn(&mut self, name: DatabaseTag, found: KnownDatabase) -> NameChange {
        let learned = self.known.learn(name, found);
        if learned == NameChange::AnotherDatabase && self.positions.len() < WRITTEN_DATABASES_MAX {
            // Copies of the former database are not of this mark's, so they are ended.
            self.positions.entry(found.database).or_insert_with(|| TagPositions::nothing(found.database));
        }
        learned
    }

    /// A name may lead to another database by now: Neo4j has to be asked again.
    pub fn recheck(&mut self, name: DatabaseTag) {
        self.known.forget(name);
    }

    /// The mark that a request with `asked` still needs, which depends on these tags. A request keeps the mark of its arrival,
    /// since later writes do not concern it. If the ids are counted anew since then, only the mark of now has a meaning.
    #[must_use]
    pub fn still_needed(
        &self,
        name: DatabaseTag,
        reads: Depends<'_>,
        asked: Option<WritePosition>,
    ) -> Option<WritePosition> {
        let asked = asked?;
        let is_elsewhere = self.known.of(name).is_some_and(|now| now.database != asked.database);
        match self.needed_by(name, reads) {
            now if is_elsewhere => now,
            Some(now) if now.database == asked.database && now.epoch > asked.epoch => Some(now),
            _ => Some(asked),
        }
    }

    /// The mark that a forwarded request needs: the later one of the sender's (`told`) and of this node's own.
    #[must_use]
    pub fn needed_beside(
        &self,
        name: DatabaseTag,
        reads: Depends<'_>,
        told: Option<WritePosition>,
    ) -> Option<WritePosition> {
        Self::beside(self.needed_by(name, reads), told)
    }

    /// The same, where this node's own is known.
    #[must_use]
    pub fn beside(own: Option<WritePosition>, told: Option<WritePosition>) -> Option<WritePosition> {
        match (own, told) {
            (Some(own), Some(told)) if !own.is_at_or_after(&told) && own.database == told.database => {
                Some(told)
            }
            (own, told) => own.or(told),
        }
    }
}
