//! How far each database has been written, as this node knows it. An entry whose run carried less is ended, if it depends
//! on what was written.
//!
//! Nodes hear of writes by tellings and by the store. `writes` decides what is told. Each look here is cheap: of a copy that
//! was judged since the last write it is two relaxed loads.

use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::bookmark::{DatabaseUuid, Position, ReadRange};
use hopcache_core::key::{DatabaseTag, ServerTag};
use hopcache_core::tags::{Touched, Viewer};
use hopcache_core::time::MonoTime;
use hopcache_core::write_position::{
    Accounted, Change, DataOwner, ExclusionsAsked, KnownDatabase, LabelPair, NameChange, WriteEpoch,
    WriteEvent, WritePosition, WritePositionTable, WriteRecord,
};
use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::cache::copy::MemoryCopy;
use crate::model::ask::Query;

/// The marks of this node.
#[derive(Default)]
pub(crate) struct WritePositions {
    /// Changes with every change of the table, after it; zero while there is no mark. Relaxed is enough: a writer's telling is
    /// answered after this is set, and the answer travels through locks and sockets before a reader can know of it.
    version: AtomicU64,
    /// How often a name was forgotten, which may lead to another database now.
    rechecks: AtomicU64,
    table: RwLock<WritePositionTable>,
    /// Wakes the one task that waits for a later mark.
    news: Notify,
    /// Whether values are compared, and not tags alone.
    compares_values: bool,
}

impl WritePositions {
    /// No marks, at a node whose Neo4j has this address.
    pub(crate) fn at(server: ServerTag, compares_values: bool) -> Self {
        Self { table: RwLock::new(WritePositionTable::at(server)), compares_values, ..Self::default() }
    }

    /// Whether values are compared, and not tags alone.
    pub(crate) fn compares_values(&self) -> bool {
        self.compares_values
    }

    fn is_empty(&self) -> bool {
        self.version.load(Ordering::Relaxed) == 0
    }

    /// The version of the marks.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The table has changed. To be called under its lock: whoever hears of the change finds no judgement of before it.
    fn changed(&self, _table: &mut WritePositionTable) {
        self.version.fetch_add(1, Ordering::Relaxed);
        self.news.notify_one();
    }

    /// See [`WritePositionTable::without_writes`].
    pub(crate) fn without_writes(&self, database: DatabaseUuid) -> WritePositionTable {
        self.table.read().without_writes(database)
    }

    /// Completes when a mark was taken since the last call. For one task.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// The latest mark of the database behind a name.
    pub(crate) fn of(&self, name: DatabaseTag) -> Option<WritePosition> {
        if self.is_empty() {
            return None;
        }
        self.table.read().of(name)
    }

    /// The latest mark of a database.
    pub(crate) fn of_database(&self, database: DatabaseUuid) -> Option<WritePosition> {
        self.table.read().of_database(database)
    }

    /// The mark that a query's result has to have seen; that or `told`, which another node has sent with it.
    pub(crate) fn needed(&self, query: &Query, told: Option<WritePosition>) -> Option<WritePosition> {
        // Before the look into the table: what is found there may be newer than this version, and never older.
        let version = self.version.load(Ordering::Relaxed);
        if version == 0 {
            return told;
        }
        let find = || {
            let reads = query.reads().depends(self.compares_values);
            self.table.read().needed_by(query.tags.database(), reads)
        };
        // A miss asks when it comes and when it is fetched.
        let at = version + self.rechecks.load(Ordering::Relaxed);
        let own = query.needed_at(at).unwrap_or_else(|| query.note_needed(at, find()));
        WritePositionTable::beside(own, told)
    }

    /// Whether a write has ended this copy.
    ///
    /// Schedule: version 5 is read · a write is taken, and the version is 6 · the copy is judged with the write, and noted as
    /// judged at 5 · the next look judges it again.
    pub(crate) fn has_ended(&self, copy: &MemoryCopy) -> bool {
        let version = self.version.load(Ordering::Relaxed);
        if version == 0 || copy.is_judged_at(version) {
            return false;
        }
        let has_ended = self.ends_copy(copy) && (!self.learn_shown(copy, version) || self.ends_copy(copy));
        if !has_ended {
            copy.judged_at(version);
        }
        has_ended
    }

    fn ends_copy(&self, copy: &MemoryCopy) -> bool {
        let read = copy.range().map(|range| (&**range, copy.read_started()));
        self.table.read().ends(copy.tags().database(), copy.depends(self.compares_values), read)
    }

    /// Finds out which nodes the copy shows, without the lock of the table. Returns whether that may say more than its text and its
    /// parameters.
    fn learn_shown(&self, copy: &MemoryCopy, version: u64) -> bool {
        let Some(range) = copy.range().filter(|_| self.compares_values) else { return false };
        let database = range.to().database;
        copy.learn_shown(version, |shape| self.table.read().covered_keys(database, shape))
    }

    /// See [`WritePositionTable::accounts_for`].
    pub(crate) fn accounts_for(&self, written: WritePosition) -> bool {
        self.table.read().accounts_for(written)
    }

    /// As [`WritePositions::has_ended`], for a request for this query: a copy that came from another node does not know what it
    /// depends on.
    pub(crate) fn has_ended_for(&self, query: &Query, copy: &MemoryCopy) -> bool {
        if !self.is_empty() {
            copy.know_reads(query);
        }
        self.has_ended(copy)
    }

    /// Whether a write has ended a result of this query: of a run of this range, and when it began.
    pub(crate) fn ends(&self, query: &Query, read: Option<(&ReadRange, MonoTime)>) -> bool {
        !self.is_empty()
            && self.table.read().ends(
                query.tags.database(),
                query.reads().depends(self.compares_values),
                read,
            )
    }

    /// Whether the ids of a copy's run may be of an earlier epoch. See [`WritePositionTable::is_of_earlier_epoch`].
    pub(crate) fn is_of_earlier_epoch(&self, copy: &MemoryCopy) -> bool {
        let is_earlier =
            |range: &ReadRange| self.table.read().is_of_earlier_epoch(range, copy.read_started());
        !self.is_empty() && copy.range().is_some_and(|range| is_earlier(range))
    }

    /// See [`WritePositionTable::wanted_pairs`].
    pub(crate) fn wanted_pairs(&self, query: &Query, range: &ReadRange) -> Vec<[Box<str>; 2]> {
        self.table.read().wanted_pairs(query.reads().depends(self.compares_values), range)
    }

    /// See [`WritePositionTable::are_apart`].
    pub(crate) fn are_apart(&self, of: (DatabaseUuid, Viewer), labels: &[Box<str>; 2]) -> bool {
        self.table.read().are_apart(of, labels)
    }

    /// See [`WritePositionTable::exclusions_asked`].
    pub(crate) fn exclusions_asked(&self, database: DatabaseUuid) -> ExclusionsAsked {
        self.table.read().exclusions_asked(database)
    }

    /// See [`WritePositionTable::exclude`]. It ends nothing more.
    pub(crate) fn exclude(&self, pair: (Viewer, LabelPair), read: (ExclusionsAsked, &ReadRange)) {
        self.table.write().exclude(pair, read);
    }

    /// See [`WritePositionTable::forget_exclusions`].
    pub(crate) fn forget_exclusions(&self) {
        let mut table = self.table.write();
        if table.forget_exclusions() {
            self.changed(&mut table);
        }
    }

    /// See [`WritePositionTable::account`]. It may end results that a pair of labels has kept.
    pub(crate) fn account(&self, of_all: impl Fn() -> Vec<(DatabaseUuid, (WriteEpoch, Accounted))>) {
        if self.is_empty() {
            return;
        }
        let of_all = of_all();
        let lacks_any = {
            let table = self.table.read();
            of_all.iter().any(|(database, of)| table.lacks(*database, *of))
        };
        if lacks_any {
            let mut table = self.table.write();
            let mut ends_more = false;
            for (database, of) in of_all {
                ends_more |= table.account(database, of);
            }
            if ends_more {
                self.changed(&mut table);
            }
        }
    }

    /// Whether a foreign transaction may have touched a result of a run of this range, as nodes have told.
    pub(crate) fn is_foreign_to(&self, range: &ReadRange) -> bool {
        !self.is_empty() && self.table.read().is_foreign_to(range)
    }

    /// See [`WritePositionTable::keeps_marks_of`].
    pub(crate) fn keeps_marks_of(&self, database: DatabaseUuid) -> bool {
        self.table.read().keeps_marks_of(database)
    }

    /// The mark that a request with `asked` still needs.
    pub(crate) fn still_needed(&self, query: &Query, asked: Option<WritePosition>) -> Option<WritePosition> {
        asked?;
        self.table.read().still_needed(
            query.tags.database(),
            query.reads().depends(self.compares_values),
            asked,
        )
    }

    /// Takes a record that this node hears at `now`.
    pub(crate) fn take(&self, record: WriteRecord, now: MonoTime) -> Change {
        self.take_with(|table| table.take(record, now))
    }

    /// See [`WritePositionTable::take_beside`].
    pub(crate) fn take_beside(&self, record: WriteRecord, now: MonoTime) -> Change {
        self.take_with(|table| table.take_beside(record, now))
    }

    /// See [`WritePositionTable::take_event`].
    pub(crate) fn take_event(&self, event: &WriteEvent, now: MonoTime) -> Change {
        self.take_with(|table| table.take_event(event, now))
    }

    /// See [`WritePositionTable::unrefine`].
    pub(crate) fn unrefine(&self, up_to: WritePosition) {
        let mut table = self.table.write();
        if table.unrefine(up_to) {
            self.changed(&mut table);
        }
    }

    fn take_with(&self, take: impl FnOnce(&mut WritePositionTable) -> Change) -> Change {
        let mut table = self.table.write();
        let change = take(&mut table);
        if matches!(change, Change::Later | Change::Full { ends_others: true }) {
            self.changed(&mut table);
        }
        change
    }

    /// Notes what this node's Neo4j, or the store, says about a name.
    pub(super) fn learn(&self, name: DatabaseTag, found: KnownDatabase) -> NameChange {
        let mut table = self.table.write();
        let learned = table.learn(name, found);
        if learned != NameChange::Nothing && !table.is_empty() {
            self.changed(&mut table);
        }
        learned
    }

    /// A name may lead to another database by now.
    pub(super) fn recheck(&self, name: DatabaseTag) {
        let mut table = self.table.write();
        table.recheck(name);
        self.rechecks.fetch_add(1, Ordering::Relaxed);
    }

    /// What is known of the database behind a name.
    pub(crate) fn known(&self, name: DatabaseTag) -> Option<KnownDatabase> {
        self.table.read().known(name)
    }

    /// See [`WritePositionTable::database_of`].
    pub(crate) fn database_of(&self, name: DatabaseTag) -> Option<DatabaseUuid> {
        self.table.read().database_of(name)
    }

    /// Whose data this node serves under a name.
    pub(crate) fn whose(&self, name: DatabaseTag) -> DataOwner {
        self.table.read().whose(name)
    }

    /// See [`WritePositionTable::owner`].
    pub(crate) fn owner(&self, name: DatabaseTag) -> DatabaseUuid {
        self.table.read().owner(name)
    }

    /// See [`WritePositionTable::is_anothers`].
    pub(crate) fn is_anothers(&self, record: &WriteRecord) -> bool {
        self.table.read().is_anothers(record)
    }

    /// See [`WritePositionTable::may_be_lost`].
    pub(crate) fn may_be_lost(&self, name: DatabaseTag, range: &ReadRange, read_started: MonoTime) -> bool {
        self.table.read().may_be_lost(name, range, read_started)
    }

    /// See [`WritePositionTable::after_own_write`].
    pub(crate) fn after_own_write(
        &self,
        before: Option<WritePosition>,
        own: Position,
    ) -> (WritePosition, bool) {
        self.table.read().after_own_write(before, own)
    }

    /// See [`WritePositionTable::after_asking`].
    pub(crate) fn after_asking(
        &self,
        before: Option<WritePosition>,
        newest: Position,
    ) -> (WritePosition, bool) {
        self.table.read().after_asking(before, newest)
    }

    /// See [`WritePositionTable::in_doubt`].
    pub(crate) fn in_doubt(&self, name: DatabaseTag) -> Option<WritePosition> {
        self.table.read().in_doubt(name)
    }

    /// See [`WritePositionTable::event_of`].
    pub(crate) fn event_of(
        &self,
        name: DatabaseTag,
        written: (Option<WritePosition>, WritePosition),
        touched: &Touched,
    ) -> WriteEvent {
        self.table.read().event_of(name, written, touched)
    }

    /// See [`WritePositionTable::record_of_all`].
    pub(crate) fn record_of_all(&self, name: DatabaseTag, database: DatabaseUuid) -> Option<WriteRecord> {
        self.table.read().record_of_all(name, database)
    }

    /// See [`WritePositionTable::databases_of`].
    pub(crate) fn databases_of(&self, name: DatabaseTag) -> Vec<DatabaseUuid> {
        self.table.read().databases_of(name)
    }

    /// Every name that is known to lead to a database.
    pub(crate) fn names(&self) -> Vec<DatabaseTag> {
        self.table.read().names()
    }

    /// The names of a database.
    pub(crate) fn names_of(&self, database: DatabaseUuid) -> Vec<DatabaseTag> {
        self.table.read().names_of(database)
    }

    /// See [`WritePositionTable::names_leading_to`].
    pub(crate) fn names_leading_to(&self, database: DatabaseUuid) -> Vec<DatabaseTag> {
        self.table.read().names_leading_to(database)
    }

    /// Every record.
    pub(crate) fn records(&self) -> Vec<WriteRecord> {
        self.table.read().records()
    }
}
