//! Definitions of ids: forms' bytes and patterns' texts, as long as anything refers to them.
//!
//! Decides which definitions are kept within a number of bytes, which are missing and which are to be sent. This node's
//! own definitions have priority over others'. Never reads a definition.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{FormId, PatternTag};

/// The memory of a definition beside its bytes: its place in three maps, and the allocator's rounding.
const OVERHEAD_BYTES: usize = 192;

/// The name of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(super) enum Name {
    Form(FormId),
    Pattern(PatternTag),
}

#[derive(Debug, Default)]
struct Entry {
    /// Rows of the form, or the pattern as a source.
    refs: u32,
    bytes: Option<Bytes>,
    is_own: bool,
    /// Whether nothing referred to it at the last sweep.
    was_idle: bool,
}

impl Entry {
    fn cost(&self) -> usize {
        self.bytes.as_ref().map_or(0, |bytes| bytes.len() + OVERHEAD_BYTES)
    }
}

/// The result of offering a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefinitionOutcome {
    New,
    Known,
    Refused,
}

/// All definitions of one node.
#[derive(Debug)]
pub(super) struct Definitions {
    bytes_max: usize,
    bytes: usize,
    /// Bytes of definitions that nothing refers to.
    idle_bytes: usize,
    /// Forms whose bytes are known.
    forms: usize,
    entries: BTreeMap<Name, Entry>,
    missing: BTreeSet<Name>,
    heard: BTreeSet<Name>,
    idle: BTreeSet<Name>,
    untold: BTreeSet<Name>,
}

impl Definitions {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            idle_bytes: 0,
            forms: 0,
            entries: BTreeMap::new(),
            missing: BTreeSet::new(),
            heard: BTreeSet::new(),
            idle: BTreeSet::new(),
            untold: BTreeSet::new(),
        }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn forms(&self) -> usize {
        self.forms
    }

    pub(super) fn get(&self, name: Name) -> Option<&Bytes> {
        self.entries.get(&name)?.bytes.as_ref()
    }

    /// Counts one more reference to `name`.
    pub(super) fn refer(&mut self, name: Name) {
        let entry = self.entries.entry(name).or_default();
        entry.refs = entry.refs.saturating_add(1);
        if entry.bytes.is_none() {
            self.missing.insert(name);
        } else if self.idle.remove(&name) {
            self.idle_bytes = self.idle_bytes.saturating_sub(entry.cost());
        }
    }

    /// Counts one reference to `name` less.
    pub(super) fn release(&mut self, name: Name) {
        let Some(entry) = self.entries.get_mut(&name) else { return };
        entry.refs = entry.refs.saturating_sub(1);
        if entry.refs > 0 {
            return;
        }
        if entry.bytes.is_none() {
            self.entries.remove(&name);
            self.missing.remove(&name);
        } else if self.idle.insert(name) {
            entry.was_idle = false;
            self.idle_bytes += entry.cost();
        }
    }

    /// This node's own definition. Others' definitions give way.
    pub(super) fn define(&mut self, name: Name, bytes: &[u8]) -> DefinitionOutcome {
        if let Some(entry) = self.entries.get_mut(&name)
            && entry.bytes.is_some()
        {
            entry.is_own = true;
            entry.was_idle = false;
            self.heard.remove(&name);
            return DefinitionOutcome::Known;
        }
        while !self.has_room(bytes.len()) {
            let Some(gives_way) = self.idle.first().or_else(|| self.heard.first()).copied() else {
                return DefinitionOutcome::Refused;
            };
            self.forget(gives_way);
        }
        self.keep(name, Bytes::copy_from_slice(bytes), true);
        self.untold.insert(name);
        DefinitionOutcome::New
    }

    /// Another node's definition, already checked. It may come before its first reference, so some unreferenced ones
    /// are kept too.
    pub(super) fn hear(&mut self, name: Name, bytes: &Bytes) -> DefinitionOutcome {
        let entry = self.entries.get(&name);
        if entry.is_some_and(|entry| entry.bytes.is_some()) {
            return DefinitionOutcome::Known;
        }
        let is_referred = entry.is_some_and(|entry| entry.refs > 0);
        let may_idle = self.idle_bytes + bytes.len() + OVERHEAD_BYTES <= self.bytes_max / 8;
        if !self.has_room(bytes.len()) || !(is_referred || may_idle) {
            return DefinitionOutcome::Refused;
        }
        // A copy: it is a slice of a page of 64 KiB.
        self.keep(name, Bytes::copy_from_slice(bytes), false);
        self.heard.insert(name);
        DefinitionOutcome::New
    }

    fn has_room(&self, len: usize) -> bool {
        self.bytes + len + OVERHEAD_BYTES <= self.bytes_max
    }

    fn keep(&mut self, name: Name, bytes: Bytes, is_own: bool) {
        let entry = self.entries.entry(name).or_default();
        (entry.bytes, entry.is_own, entry.was_idle) = (Some(bytes), is_own, false);
        let (cost, refs) = (entry.cost(), entry.refs);
        self.bytes += cost;
        self.forms += usize::from(matches!(name, Name::Form(_)));
        self.missing.remove(&name);
        if refs == 0 {
            self.idle.insert(name);
            self.idle_bytes += cost;
        }
    }

    fn forget(&mut self, name: Name) {
        let Some(entry) = self.entries.get_mut(&name) else { return };
        let cost = entry.cost();
        entry.bytes = None;
        self.bytes = self.bytes.saturating_sub(cost);
        self.forms = self.forms.saturating_sub(usize::from(matches!(name, Name::Form(_))));
        self.heard.remove(&name);
        self.untold.remove(&name);
        if self.idle.remove(&name) {
            self.idle_bytes = self.idle_bytes.saturating_sub(cost);
            self.entries.remove(&name);
        } else {
            self.missing.insert(name);
        }
    }

    /// Forgets definitions without a reference since the last sweep.
    pub(super) fn sweep(&mut self) {
        let mut gone = Vec::new();
        for name in &self.idle {
            match self.entries.get_mut(name) {
                Some(entry) if !entry.was_idle => entry.was_idle = true,
                _ => gone.push(*name),
            }
        }
        gone.into_iter().for_each(|name| self.forget(name));
    }

    /// Whether a referenced definition is missing.
    pub(super) fn lacks_some(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Referenced and missing definitions, at most `max`, beginning at another place each time; none while there is no
    /// room for them.
    pub(super) fn missing(&self, max: usize, after: u64) -> Vec<Name> {
        if !self.has_room(hopcache_core::limits::FORM_BYTES_MAX) {
            return Vec::new();
        }
        let from = Name::Form(FormId(after));
        let wrapped = self.missing.range(from..).chain(self.missing.range(..from));
        wrapped.take(max).copied().collect()
    }

    /// Whether the definition is this node's own and has not been sent.
    pub(super) fn is_untold(&self, name: Name) -> bool {
        self.untold.contains(&name)
    }

    /// It has been sent, or is too long for that.
    pub(super) fn told(&mut self, name: Name) {
        self.untold.remove(&name);
    }

    /// Definitions to send, forms first, at most `max`.
    pub(super) fn untold(&self, max: usize) -> Vec<Name> {
        self.untold.iter().take(max).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Refer,
        Release,
        Define(usize),
        Hear(usize),
        Sweep,
    }

    fn step() -> impl Strategy<Value = Step> {
        let len = || 1..400_usize;
        prop_oneof![
            Just(Step::Refer),
            Just(Step::Release),
            len().prop_map(Step::Define),
            len().prop_map(Step::Hear),
            Just(Step::Sweep),
        ]
    }

    proptest! {
        /// I9: the counters for gauges equal the result of walking through all entries.
        #[test]
        fn counts_are_what_a_walk_finds(steps in proptest::collection::vec((step(), 0..6_u64, any::<bool>()), 0..120)) {
            // Room for about five of them: they give way, and are refused.
            let mut all = Definitions::new(1_600);
            for (step, tag, is_form) in steps {
                let name = if is_form { Name::Form(FormId(tag)) } else { Name::Pattern(PatternTag(tag)) };
                match step {
                    Step::Refer => all.refer(name),
                    Step::Release => all.release(name),
                    Step::Define(len) => drop(all.define(name, &vec![1; len])),
                    Step::Hear(len) => drop(all.hear(name, &vec![1; len].into())),
                    Step::Sweep => all.sweep(),
                }
                let kept = || all.entries.iter().filter(|(_, entry)| entry.bytes.is_some());
                prop_assert_eq!(all.forms(), kept().filter(|(name, _)| matches!(name, Name::Form(_))).count());
                prop_assert_eq!(all.bytes(), kept().map(|(_, entry)| entry.cost()).sum::<usize>());
                let idle = kept().filter(|(_, entry)| entry.refs == 0).map(|(_, entry)| entry.cost());
                prop_assert_eq!(all.idle_bytes, idle.sum::<usize>());
            }
        }
    }
}
