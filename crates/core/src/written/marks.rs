//! The marks of one database: one for everything, one for each tag.
//!
//! Invariants: all marks have one epoch, that of the mark for everything; a tag's mark is later than it.
//!
//! The mark of foreign transactions ends nothing: it shows which entries are not proved (`proof`).

use std::collections::BTreeMap;

use super::{Written, WrittenEpoch};
use crate::bookmark::{DatabaseUuid, TransactionId};
use crate::limits::WRITTEN_TAGS_MAX;
use crate::tags::TagId;
use crate::time::MonoTime;

/// The marks of one database.
#[derive(Debug, Clone)]
pub(super) struct Marks {
    all: Written,
    /// The latest of all marks.
    newest: Written,
    /// The last foreign transaction, of the same epoch.
    foreign: TransactionId,
    /// The latest known id of this epoch.
    highest: TransactionId,
    /// The same as it was when the mark for everything became unsettled.
    before_doubt: TransactionId,
    /// When this node last heard that ids have gone back.
    gone_back_at: MonoTime,
    /// When this node heard of this epoch, and the mark that it began with.
    began: (MonoTime, TransactionId),
    tags: BTreeMap<TagId, TransactionId>,
}

impl Marks {
    pub(super) fn nothing(database: DatabaseUuid) -> Self {
        let nothing = Written::nothing(database);
        Self {
            all: nothing,
            newest: nothing,
            foreign: TransactionId(0),
            highest: TransactionId(0),
            before_doubt: TransactionId(0),
            gone_back_at: MonoTime(0),
            began: (MonoTime(0), TransactionId(0)),
            tags: BTreeMap::new(),
        }
    }

    /// The mark for everything.
    pub(super) fn all(&self) -> Written {
        self.all
    }

    /// The latest position that is known of: of a mark, or of a foreign transaction.
    pub(super) fn newest(&self) -> Written {
        Written { id: self.newest.id.max(self.foreign), ..self.newest }
    }

    /// The last foreign transaction.
    pub(super) fn foreign(&self) -> Written {
        Written { id: self.foreign, ..self.all }
    }

    /// Whether it ends anything.
    pub(super) fn ends_any(&self) -> bool {
        self.newest != Written::nothing(self.all.database)
    }

    /// Each tag with its mark.
    pub(super) fn tags(&self) -> impl Iterator<Item = (TagId, Written)> {
        let foreign = (self.foreign.0 > 0).then_some((TagId::FOREIGN, self.foreign));
        let tags = self.tags.iter().map(|(tag, id)| (*tag, *id)).chain(foreign);
        tags.map(|(tag, id)| (tag, Written { id, ..self.all }))
    }

    /// The latest mark of what a read depends on; of an unknown read the latest of all.
    pub(super) fn needed(&self, reads: Option<&[TagId]>) -> Written {
        let Some(reads) = reads else { return self.newest };
        if self.tags.is_empty() {
            return self.all;
        }
        let latest = reads.iter().filter_map(|tag| self.tags.get(tag)).max();
        Written { id: latest.map_or(self.all.id, |id| self.all.id.max(*id)), ..self.all }
    }

    /// Takes a mark of a tag, or of everything, that this node hears at `now`. Returns whether it ends more than before.
    pub(super) fn take(&mut self, tag: Option<TagId>, written: Written, now: MonoTime) -> bool {
        let (before, is_first) = (self.all, self.newest().is_nothing());
        let is_later = self.take_mark(tag, written);
        if self.all.is_unsettled() && !before.is_unsettled() {
            self.before_doubt = self.highest;
        }
        if self.all.epoch != before.epoch && !is_first {
            self.begin(written.id, now);
        }
        if self.all.epoch == written.epoch && !written.is_unsettled() {
            self.highest = self.highest.max(written.id);
        }
        is_later
    }

    fn begin(&mut self, first: TransactionId, now: MonoTime) {
        self.began = (now, first);
        if first < self.highest {
            (self.gone_back_at, self.highest) = (now, first);
        }
    }

    /// The latest id that was known when this doubt began. A node that asks Neo4j during the doubt hears an earlier id only if ids
    /// have gone back.
    pub(super) fn known_before(&self, doubt: &Written) -> TransactionId {
        if self.all == *doubt { self.before_doubt } else { TransactionId(0) }
    }

    /// Whether a run that began at `read_started` and ended at this id may be of an earlier epoch.
    pub(super) fn is_of_earlier_epoch(&self, ended: TransactionId, read_started: MonoTime) -> bool {
        let (began_at, first) = self.began;
        read_started < self.gone_back_at || (read_started < began_at && ended > first)
    }

    fn take_mark(&mut self, tag: Option<TagId>, written: Written) -> bool {
        match tag {
            Some(TagId::FOREIGN) if written.epoch == self.all.epoch => {
                let is_later = written.id > self.foreign;
                self.foreign = self.foreign.max(written.id);
                is_later
            }
            Some(tag) if written.epoch == self.all.epoch => self.take_tag(tag, written),
            // Ids are counted anew, and this node has not heard from where: all may be ended.
            Some(_) | None => self.take_all(written),
        }
    }

    fn take_all(&mut self, written: Written) -> bool {
        if self.all.is_at_or_after(&written) {
            return false;
        }
        if written.epoch != self.all.epoch {
            self.tags.clear();
            (self.newest, self.foreign) = (written, TransactionId(0));
        }
        self.all = written;
        self.tags.retain(|_, id| *id > written.id);
        if !self.newest.is_at_or_after(&written) {
            self.newest = written;
        }
        true
    }

    fn take_tag(&mut self, tag: TagId, written: Written) -> bool {
        if self.all.is_at_or_after(&written) || self.tags.get(&tag).is_some_and(|id| *id >= written.id) {
            return false;
        }
        self.tags.insert(tag, written.id);
        if !self.newest.is_at_or_after(&written) {
            self.newest = written;
        }
        if self.tags.len() > WRITTEN_TAGS_MAX {
            self.all = self.newest;
            self.tags.clear();
        }
        true
    }

    /// Whether a record of this epoch is of the ids that are counted now.
    pub(super) fn counts(&self, epoch: WrittenEpoch) -> bool {
        self.all.epoch == epoch
    }
}
