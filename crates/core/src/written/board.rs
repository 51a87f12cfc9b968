//! What a store keeps for one cluster. The Lua scripts of the Redis store are the same in another language.

use std::collections::BTreeMap;

use super::{Written, WrittenRecord};
use crate::key::DatabaseTag;
use crate::limits::{WRITTEN_DATABASES_MAX, WRITTEN_LISTENERS_MAX, WRITTEN_RECORDS_MAX};
use crate::node::NodeName;
use crate::tags::TagId;
use crate::time::{Millis, MonoTime};

/// The marks, and the nodes that listen for them.
#[derive(Debug, Clone, Default)]
pub struct WrittenBoard {
    marks: BTreeMap<(DatabaseTag, Option<TagId>), Written>,
    /// Each with the end of its lease.
    listeners: BTreeMap<NodeName, MonoTime>,
}

impl WrittenBoard {
    /// Keeps these records, or later ones that it has. Returns the nodes that listen, each with the rest of its lease.
    pub fn tell(&mut self, now: MonoTime, records: &[WrittenRecord]) -> Vec<(NodeName, Millis)> {
        records.iter().for_each(|record| self.keep(record));
        let left = |(node, ends): (&NodeName, &MonoTime)| (node.clone(), ends.since(now));
        self.listeners.iter().filter(|(_, ends)| **ends > now).map(left).collect()
    }

    fn keep(&mut self, record: &WrittenRecord) {
        let WrittenRecord { name, written, .. } = record;
        // Another database by the same name: the one that is written last has the place.
        let is_other = |known: &Written| known.database != written.database;
        if self.of(*name).any(|(_, known)| is_other(known)) {
            self.marks.retain(|(each, _), _| each != name);
        }
        if self.marks.get(&(*name, None)).is_some_and(|all| all.is_at_or_after(written)) {
            return;
        }
        if record.tag.is_none() {
            self.marks.retain(|(each, _), known| each != name || !written.is_at_or_after(known));
        }
        let known = self.marks.get(&record.place());
        if known.is_some_and(|known| known.is_at_or_after(written)) {
            return;
        }
        if known.is_none() && self.marks.len() >= WRITTEN_RECORDS_MAX {
            self.forget_tags();
        }
        if self.of(*name).next().is_some() || self.names() < WRITTEN_DATABASES_MAX {
            self.marks.insert(record.place(), *written);
        }
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

    /// Every record. The node listens from now on, for this time.
    pub fn hear(&mut self, now: MonoTime, node: &NodeName, lease_ms: Millis) -> Vec<WrittenRecord> {
        self.listeners.retain(|_, ends| *ends > now);
        if self.listeners.len() < WRITTEN_LISTENERS_MAX || self.listeners.contains_key(node) {
            self.listeners.insert(node.clone(), now + lease_ms);
        }
        self.records()
    }
}
