//! The write positions (*marks*) of one database: one for everything, one for each tag.
//!
//! Invariants: all marks have one epoch, that of the mark for everything; a tag's mark is later than it.
//!
//! The mark of foreign transactions ends nothing: it shows which entries are not proved (`proof`).
//!
//! A tag's mark is one of its last touch. What refines it says which reads that touch does not end ([`touches`](super::touches)).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::exclusions::Exclusions;
use super::names::{NameId, NameTable};
use super::sketch::AnchorSketch;
use super::touches::{Judge, TagMark};
use super::{Accounted, UNSETTLED, WriteEpoch, WritePosition};
use crate::bookmark::{DatabaseUuid, TransactionId};
use crate::limits::WRITTEN_TAGS_MAX;
use crate::tags::{Depends, Key, NeedClasses, NeedsShape, Refinement, TagId, TouchedTags, Viewer};
use crate::time::MonoTime;

/// The most keys that are named to whoever asks by which keys nodes were found: an application has as many at most.
const KEYS_ASKED_MAX: usize = 8;

/// The marks of one database.
#[derive(Debug, Clone)]
pub(super) struct TagPositions {
    all: WritePosition,
    /// The latest of all marks.
    newest: WritePosition,
    /// The last foreign transaction, of the same epoch.
    foreign: TransactionId,
    /// The latest known id of this epoch.
    highest: TransactionId,
    /// The same as it was when the mark for everything became unsettled.
    before_unsettled: TransactionId,
    /// When this node last heard that ids have gone back.
    gone_back_at: MonoTime,
    /// When this node heard of this epoch, and the mark that it began with.
    began: (MonoTime, TransactionId),
    tags: BTreeMap<TagId, TagMark>,
    /// The anchors of what refines the tags: made with the first one.
    anchors: Option<AnchorSketch>,
    /// When this node last heard of an anchor.
    anchored_at: MonoTime,
    pub(super) exclusions: Exclusions,
    /// Of this epoch.
    accounted: Accounted,
}

impl TagPositions {
    pub(super) fn nothing(database: DatabaseUuid) -> Self {
        let nothing = WritePosition::nothing(database);
        Self {
            all: nothing,
            newest: nothing,
            foreign: TransactionId(0),
            highest: TransactionId(0),
            before_unsettled: TransactionId(0),
            gone_back_at: MonoTime(0),
            began: (MonoTime(0), TransactionId(0)),
            tags: BTreeMap::new(),
            anchors: None,
            anchored_at: MonoTime(0),
            exclusions: Exclusions::default(),
            accounted: Accounted::default(),
        }
    }

    /// The same, without the writes.
    pub(super) fn without_writes(&self) -> Self {
        let nothing = WritePosition { id: TransactionId(0), ..self.all };
        let (exclusions, accounted) = (self.exclusions.clone(), self.accounted);
        Self { all: nothing, newest: nothing, exclusions, accounted, ..Self::nothing(nothing.database) }
    }

    /// The mark for everything.
    pub(super) fn all(&self) -> WritePosition {
        self.all
    }

    /// The latest position that is known of: of a mark, or of a foreign transaction.
    pub(super) fn newest(&self) -> WritePosition {
        WritePosition { id: self.newest.id.max(self.foreign), ..self.newest }
    }

    /// The last foreign transaction.
    pub(super) fn foreign(&self) -> WritePosition {
        WritePosition { id: self.foreign, ..self.all }
    }

    /// Whether it ends anything.
    pub(super) fn ends_any(&self) -> bool {
        self.newest != WritePosition::nothing(self.all.database)
    }

    /// The anchors of what refines the tags, if there are any.
    pub(super) fn sketch(&self) -> Option<&AnchorSketch> {
        self.anchors.as_ref()
    }

    /// How a tag was touched.
    pub(super) fn mark(&self, tag: TagId) -> Option<&TagMark> {
        self.tags.get(&tag)
    }

    /// The last transaction of which nobody knows what it changed.
    pub(super) fn last_foreign(&self) -> TransactionId {
        self.foreign
    }

    /// What this node knows of all transactions.
    pub(super) fn accounted(&self) -> Accounted {
        self.accounted
    }

    /// Takes word of that, by the numbering of this epoch. Returns whether it may end more than before.
    pub(super) fn account(&mut self, epoch: WriteEpoch, of: Accounted) -> bool {
        if !self.counts(epoch) {
            return false;
        }
        let Accounted { reached, foreign } = self.accounted;
        self.accounted = Accounted { reached: reached.max(of.reached), foreign: foreign.max(of.foreign) };
        of.foreign > foreign
    }

    /// Pairs of labels that would keep a read of this run, if no node had both.
    pub(super) fn wanted_pairs(
        &self,
        (shape, classes, viewer): (&NeedsShape, &NeedClasses, Viewer),
        names: &NameTable,
        carried: TransactionId,
    ) -> Vec<[Box<str>; 2]> {
        if self.all.id > carried {
            return Vec::new();
        }
        let judge = Judge::new((shape, classes, viewer), names, self);
        let later = shape.by_tag().iter().filter_map(|(tag, needs)| Some((self.tags.get(tag)?, needs)));
        let mut pairs = Vec::new();
        for (mark, needs) in later.filter(|(mark, _)| mark.last > carried) {
            mark.want_pairs(needs, &judge, (carried, &mut pairs));
        }
        pairs
    }

    /// The keys by which writes have found the nodes of these needs, those of the latest writes first.
    pub(super) fn covered_keys(&self, shape: &NeedsShape) -> Vec<Key<NameId>> {
        let mut found = Vec::new();
        let marks = shape.by_tag().iter().filter_map(|(tag, _)| self.tags.get(tag));
        marks.for_each(|mark| mark.add_covered_keys(&mut found));
        found.sort_unstable_by(|one, other| other.cmp(one));
        let mut keys = Vec::new();
        for (_, key) in found {
            if keys.len() < KEYS_ASKED_MAX && !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// Each tag with its mark.
    pub(super) fn tags(&self) -> impl Iterator<Item = (TagId, WritePosition)> {
        let foreign = (self.foreign.0 > 0).then_some((TagId::FOREIGN, self.foreign));
        let tags = self.tags.iter().map(|(tag, mark)| (*tag, mark.last)).chain(foreign);
        tags.map(|(tag, id)| (tag, WritePosition { id, ..self.all }))
    }

    /// The latest mark of what a read depends on; of an unknown read the latest of all.
    pub(super) fn needed(&self, reads: Depends<'_>, names: &NameTable) -> WritePosition {
        let id = match reads {
            Depends::OnAnything => return self.newest,
            _ if self.tags.is_empty() => self.all.id,
            Depends::OnTags(tags) => {
                let latest = tags.iter().filter_map(|tag| self.tags.get(tag)).map(|mark| mark.last).max();
                latest.map_or(self.all.id, |id| self.all.id.max(id))
            }
            Depends::OnNeeds(shape, classes, viewer) => {
                let judge = Judge::new((shape, classes, viewer), names, self);
                shape.by_tag().iter().fold(self.all.id, |latest, (tag, needs)| match self.tags.get(tag) {
                    Some(mark) if mark.last > latest => mark.needed(needs, &judge, latest),
                    _ => latest,
                })
            }
        };
        WritePosition { id, ..self.all }
    }

    /// Takes a mark of a tag, or of everything, that this node hears at `now`. Returns whether it ends more than before.
    pub(super) fn take(&mut self, tag: Option<TagId>, written: WritePosition, now: MonoTime) -> bool {
        self.take_with(written, now, |positions| positions.take_position(tag, written))
    }

    /// Takes a write that this node hears of at `now`. Where the ids are counted anew, or are not known, it has touched anything. Returns
    /// whether it may end more than before.
    pub(super) fn take_write(
        &mut self,
        (written, since): (WritePosition, TransactionId),
        touched: &TouchedTags,
        (now, names): (MonoTime, &mut NameTable),
    ) -> bool {
        if touched.tags().is_empty() {
            return false;
        }
        if written.is_unsettled() || !self.counts(written.epoch) {
            return self.take(None, written, now);
        }
        self.take_with(written, now, |positions| {
            positions.take_touched((written, since), touched, (now, names))
        })
    }

    fn take_with(
        &mut self,
        written: WritePosition,
        now: MonoTime,
        take: impl FnOnce(&mut Self) -> bool,
    ) -> bool {
        let (before, is_first) = (self.all, self.newest().is_nothing());
        let is_later = take(self);
        if self.all.is_unsettled() && !before.is_unsettled() {
            self.before_unsettled = self.highest;
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
    pub(super) fn known_before(&self, doubt: &WritePosition) -> TransactionId {
        if self.all == *doubt { self.before_unsettled } else { TransactionId(0) }
    }

    /// Whether a run that began at `read_started` and ended at this id may be of an earlier epoch.
    pub(super) fn is_of_earlier_epoch(&self, ended: TransactionId, read_started: MonoTime) -> bool {
        let (began_at, first) = self.began;
        read_started < self.gone_back_at || (read_started < began_at && ended > first)
    }

    fn take_position(&mut self, tag: Option<TagId>, written: WritePosition) -> bool {
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

    fn take_all(&mut self, written: WritePosition) -> bool {
        if self.all.is_at_or_after(&written) {
            return false;
        }
        if written.epoch != self.all.epoch {
            self.forget_tags();
            (self.newest, self.foreign) = (written, TransactionId(0));
            self.accounted = Accounted::default();
        }
        self.all = written;
        self.tags.retain(|_, mark| mark.last > written.id);
        if !self.newest.is_at_or_after(&written) {
            self.newest = written;
        }
        true
    }

    /// The anchors go with the tags, never before them.
    fn forget_tags(&mut self) {
        self.tags.clear();
        self.exclusions.forget();
        self.anchors = None;
    }

    fn take_tag(&mut self, tag: TagId, written: WritePosition) -> bool {
        if self.all.is_at_or_after(&written) || !self.tags.entry(tag).or_default().take_loose(written.id) {
            return false;
        }
        self.has_taken_tag(written);
        true
    }

    fn has_taken_tag(&mut self, written: WritePosition) {
        if !self.newest.is_at_or_after(&written) {
            self.newest = written;
        }
        if self.tags.len() > WRITTEN_TAGS_MAX {
            self.all = self.newest;
            self.forget_tags();
        }
    }

    fn take_touched(
        &mut self,
        (written, since): (WritePosition, TransactionId),
        touched: &TouchedTags,
        (now, names): (MonoTime, &mut NameTable),
    ) -> bool {
        let mut is_later = false;
        for tag in touched.tags().iter() {
            let refinement = touched
                .refinement()
                .filter(|refinement| *tag != TagId::FOREIGN && refinement.facts_of(*tag).next().is_some());
            is_later |= match refinement {
                Some(refinement) => self.take_refined(*tag, (written, since), refinement, names),
                None => self.take_position(Some(*tag), written),
            };
            if let Some(mark) = self.tags.get_mut(tag) {
                mark.told = mark.told.max(written.id);
            }
        }
        let anchors = touched.refinement().map_or(&[][..], |refinement| refinement.anchors());
        if !anchors.is_empty() && !self.all.is_at_or_after(&written) {
            self.anchored_at = now;
            let sketch = self.anchors.get_or_insert_with(AnchorSketch::new);
            for anchor in anchors {
                is_later |= sketch.raise(*anchor, written.id);
            }
        }
        is_later
    }

    fn take_refined(
        &mut self,
        tag: TagId,
        (written, since): (WritePosition, TransactionId),
        refinement: &Refinement,
        names: &mut NameTable,
    ) -> bool {
        if self.all.is_at_or_after(&written) {
            return false;
        }
        let mark = self.tags.entry(tag).or_default();
        let is_later = mark.take_refined(refinement, (tag, names), (written.id, since));
        self.has_taken_tag(written);
        is_later
    }

    /// Whether a mark of a tag came with a write that this node has taken, or a later one.
    pub(super) fn has_write_of(&self, tag: TagId, written: WritePosition) -> bool {
        self.counts(written.epoch) && self.tags.get(&tag).is_some_and(|mark| mark.told >= written.id)
    }

    /// Nothing more is known of the touches up to this one. Returns whether that ends more than before.
    pub(super) fn unrefine(&mut self, up_to: WritePosition) -> bool {
        let up_to = match up_to.epoch.cmp(&self.all.epoch) {
            // All that was written in an earlier epoch has ended with it.
            Ordering::Less => return false,
            Ordering::Equal => up_to.id,
            Ordering::Greater => UNSETTLED,
        };
        let mut is_later = false;
        for mark in self.tags.values_mut() {
            is_later |= mark.unrefine(up_to);
        }
        is_later
    }

    /// When this node last heard of an anchor; `None` if it keeps none.
    pub(super) fn anchored_at(&self) -> Option<MonoTime> {
        self.anchors.as_ref().map(|_| self.anchored_at)
    }

    /// Forgets the anchors, and with them what refines the tags.
    pub(super) fn forget_anchors(&mut self) {
        self.unrefine(WritePosition { id: UNSETTLED, ..self.all });
        self.anchors = None;
    }

    /// Whether a record of this epoch is of the ids that are counted now.
    pub(super) fn counts(&self, epoch: WriteEpoch) -> bool {
        self.all.epoch == epoch
    }
}
