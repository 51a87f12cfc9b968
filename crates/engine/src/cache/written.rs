//! How far each database has been written, as this node knows it. An entry whose run carried less is ended.
//!
//! Nodes hear of writes by tellings, by the store, and by forwarded requests. `writes` decides what is told. Each look
//! here is cheap: without any write it is one relaxed load.

use std::sync::atomic::{AtomicBool, Ordering};

use hopcache_core::bookmark::{DatabaseUuid, Position, ReadRange};
use hopcache_core::key::DatabaseTag;
use hopcache_core::tags::Tags;
use hopcache_core::written::{Change, Told, Written, WrittenRecord, WrittenTable};
use parking_lot::RwLock;

use crate::cache::copy::MemoryCopy;

/// The marks of this node.
#[derive(Default)]
pub(crate) struct WrittenMarks {
    /// Whether there is any mark. Relaxed is enough: a writer's telling is answered after this is set, and the answer
    /// travels through locks and sockets before a reader can know of it.
    is_any: AtomicBool,
    table: RwLock<WrittenTable>,
}

impl WrittenMarks {
    /// The mark of the database behind a name.
    pub(crate) fn of(&self, name: DatabaseTag) -> Option<Written> {
        if !self.is_any.load(Ordering::Relaxed) {
            return None;
        }
        self.table.read().of(name)
    }

    /// Whether a write has ended this copy.
    pub(crate) fn has_ended(&self, copy: &MemoryCopy) -> bool {
        self.ends(copy.tags(), copy.range().map(|range| &**range))
    }

    /// Whether a write has ended an entry with these tags, of a run of this range.
    pub(crate) fn ends(&self, tags: &Tags, range: Option<&ReadRange>) -> bool {
        self.is_any.load(Ordering::Relaxed) && self.table.read().ends(tags.database(), range)
    }

    /// The mark that a request with `asked` still needs.
    pub(crate) fn still_needed(&self, name: DatabaseTag, asked: Option<Written>) -> Option<Written> {
        asked?;
        self.table.read().still_needed(name, asked)
    }

    /// Takes a record.
    pub(crate) fn take(&self, record: WrittenRecord, told: Told) -> Change {
        let change = self.table.write().take(record, told);
        self.is_any.store(true, Ordering::Relaxed);
        change
    }

    /// Takes a mark that a request brought.
    pub(crate) fn take_mark(&self, written: Written) {
        self.table.write().take_mark(written);
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// Notes that a run by this name ended in this database.
    pub(crate) fn found(&self, name: DatabaseTag, database: DatabaseUuid) {
        if self.table.read().leads_to(name, database) {
            return;
        }
        let mut table = self.table.write();
        table.found(name, database);
        let is_any = !table.is_empty();
        drop(table);
        self.is_any.store(is_any, Ordering::Relaxed);
    }

    /// See [`WrittenTable::after_own_write`].
    pub(crate) fn after_own_write(&self, before: Option<Written>, own: Position) -> (Written, bool) {
        self.table.read().after_own_write(before, own)
    }

    /// See [`WrittenTable::after_asking`].
    pub(crate) fn after_asking(&self, before: Option<Written>, newest: Position) -> (Written, bool) {
        self.table.read().after_asking(before, newest)
    }

    /// See [`WrittenTable::in_doubt`].
    pub(crate) fn in_doubt(&self, name: DatabaseTag) -> Option<Written> {
        self.table.read().in_doubt(name)
    }

    /// Every name that is known to lead to a database.
    pub(crate) fn names(&self) -> Vec<DatabaseTag> {
        self.table.read().names()
    }

    /// The names of a database.
    pub(crate) fn names_of(&self, database: DatabaseUuid) -> Vec<DatabaseTag> {
        self.table.read().names_of(database)
    }

    /// Every record.
    pub(crate) fn records(&self) -> Vec<WrittenRecord> {
        self.table.read().records()
    }
}
