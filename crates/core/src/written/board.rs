//! What a store keeps for one cluster. The Lua scripts of the Redis store are the same in another language.

use std::collections::BTreeMap;

use super::{Written, WrittenRecord};
use crate::key::DatabaseTag;
use crate::limits::{WRITTEN_DATABASES_MAX, WRITTEN_LISTENERS_MAX, WRITTEN_RECORDS_MAX};
use crate::node::NodeName;
use crate::proof::{LookNumber, Report};
use crate::tags::TagId;
use crate::time::{Millis, MonoTime};

/// The marks, and the nodes that listen for them.
#[derive(Debug, Clone, Default)]
pub struct WrittenBoard {
    marks: BTreeMap<(DatabaseTag, Option<TagId>), Written>,
    /// Each with the end of its lease.
    listeners: BTreeMap<NodeName, MonoTime>,
    looks: LookNumber,
    reports: BTreeMap<DatabaseTag, Report>,
}

impl WrittenBoard {
    /// Keeps these records, or later ones that it has. Returns the nodes that listen, each with the rest of its lease; and where
    /// ids are counted anew since the records, the latest mark of each such name as one of everything.
    pub fn tell(
        &mut self,
        now: MonoTime,
        records: &[WrittenRecord],
    ) -> (Vec<(NodeName, Millis)>, Vec<WrittenRecord>) {
        records.iter().for_each(|record| self.keep(record));
        let left = |(node, ends): (&NodeName, &MonoTime)| (node.clone(), ends.since(now));
        let listeners = self.listeners.iter().filter(|(_, ends)| **ends > now).map(left).collect();
        let anew: BTreeMap<_, _> = records.iter().filter_map(|record| self.anew(record)).collect();
        (listeners, anew.into_iter().map(|(name, written)| WrittenRecord::of_all(name, written)).collect())
    }

    fn anew(&self, record: &WrittenRecord) -> Option<(DatabaseTag, Written)> {
        let latest = self.of(record.name).map(|(_, written)| *written).max_by_key(Written::rank)?;
        let is_anew = latest.database == record.written.database && latest.epoch > record.written.epoch;
        is_anew.then_some((record.name, latest))
    }

    fn keep(&mut self, record: &WrittenRecord) {
        let WrittenRecord { name, written, .. } = record;
        // Another database by the same name: the one that is written last has the place.
        let is_other = |known: &Written| known.database != written.database;
        if self.of(*name).any(|(_, known)| is_other(known)) {
            self.marks.retain(|(each, _), _| each != name);
        }
        if self.is_known(record) {
            return;
        }
        // Before anything is forgotten: a record without a place changes nothing.
        if self.of(*name).next().is_none() && self.names() >= WRITTEN_DATABASES_MAX {
            return;
        }
        if record.tag.is_none() {
            self.marks.retain(|(each, _), known| each != name || !written.is_at_or_after(known));
        }
        if !self.marks.contains_key(&record.place()) && self.marks.len() >= WRITTEN_RECORDS_MAX {
            self.forget_tags();
            // A tag's later mark may mark everything now.
            if self.is_known(record) {
                return;
            }
        }
        self.marks.insert(record.place(), *written);
    }

    /// Whether there is a mark at or after this one, of the same thing or of everything.
    fn is_known(&self, record: &WrittenRecord) -> bool {
        let places = [record.place(), (record.name, None)];
        places
            .iter()
            .any(|place| self.marks.get(place).is_some_and(|known| known.is_at_or_after(&record.written)))
    }

    /// There is no room for another record: the latest record of each name marks everything, and is the only one.
    fn forget_tags(&mut self) {
        let mut latest = BTreeMap::<DatabaseTag, Written>::new();
        for ((name, _), written) in &self.marks {
            let known = latest.entry(*name).or_insert(*written);
            if !known.is_at_or_after(written) {
                *known = *written;
            }
        }
        self.marks = latest.into_iter().map(|(name, written)| ((name, None), written)).collect();
    }

    fn of(&self, name: DatabaseTag) -> impl Iterator<Item = (&(DatabaseTag, Option<TagId>), &Written)> {
        self.marks.range((name, None)..).take_while(move |((each, _), _)| *each == name)
    }

    fn names(&self) -> usize {
        let mut names: Vec<DatabaseTag> = self.marks.keys().map(|(name, _)| *name).collect();
        names.dedup();
        names.len()
    }

    /// Every record.
    #[must_use]
    pub fn records(&self) -> Vec<WrittenRecord> {
        let record = |((name, tag), written): (&(DatabaseTag, Option<TagId>), &Written)| WrittenRecord {
            name: *name,
            written: *written,
            tag: *tag,
        };
        self.marks.iter().map(record).collect()
    }

    /// A look: the node listens from now on, for this time.
    pub fn hear(&mut self, now: MonoTime, node: &NodeName, lease_ms: Millis) -> Heard {
        self.listeners.retain(|_, ends| *ends > now);
        if self.listeners.len() < WRITTEN_LISTENERS_MAX || self.listeners.contains_key(node) {
            self.listeners.insert(node.clone(), now + lease_ms);
        }
        self.looks.0 += 1;
        Heard { records: self.records(), look: self.looks, reports: self.reports.values().cloned().collect() }
    }

    /// Keeps a watcher's report, unless there is one of a later look by the same name. A look that has not been yet was of
    /// another numbering: the content has been lost since.
    pub fn report(&mut self, report: &Report) {
        if report.looked > self.looks {
            return;
        }
        let known = self.reports.get(&report.name);
        let has_room = known.is_some() || self.reports.len() < WRITTEN_DATABASES_MAX;
        if has_room && known.is_none_or(|known| known.looked <= report.looked) {
            self.reports.insert(report.name, report.clone());
        }
    }

    /// The reports are forgotten, and looks have other numbers: the content is of another life.
    pub fn forget_reports(&mut self) {
        self.reports.clear();
        self.looks = LookNumber::default();
    }
}

/// Plain data: what a look at the store brings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// Every mark.
    pub records: Vec<WrittenRecord>,
    /// The number of this look.
    pub look: LookNumber,
    /// Every report.
    pub reports: Vec<Report>,
}
