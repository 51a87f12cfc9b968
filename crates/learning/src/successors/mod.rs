//! Successors of queries, as one node knows them: its own counts and those of all other nodes.
//!
//! Decides what is counted, how much is kept ([`Bounds`]) and when decayed counts are forgotten. The other files:
//! lessons are merged (`merge`), predicted from (`predict`), searched (`frequent_sources`), sent by gossip (`tell`) and sent to
//! pulls (`answer`). Reads no clock: `now` is the node's own.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use hopcache_core::limits::{
    DEFINITION_BYTES_MAX, DEFINITION_BYTES_MIN, DEFINITION_BYTES_PER_PATTERN, DELTA_QUERIES_FRESH_MAX,
    FORM_BYTES_MAX, FORMS_PER_PATTERN_MAX, FORMS_PER_QUERY_MAX, LEARNING_SWEEP_MS, LIVES_MAX,
    PATTERN_TEXT_BYTES_MAX, PATTERNS_MAX, QUERIES_LEARNED_MAX, QUERIES_PER_PATTERN, SLOTS_MAX,
    SLOTS_PER_SOURCE, SWEEP_EVERY_SIGHTINGS, SWEEP_SOURCES_OF_SIGHTINGS, SWEEP_SOURCES_PER_ROUND,
};
use hopcache_core::node::Incarnation;
use hopcache_core::time::MonoTime;

mod answer;
mod frequent_sources;
mod merge;
mod predict;
mod table;
mod tell;

pub use answer::Sum;
pub use frequent_sources::{FrequentSources, SourceSlice};
pub use merge::MergeOutcome;
pub use predict::{Outlook, Prediction, SourceView};

use crate::definitions::{DefinitionOutcome, Name};
use crate::epochs::Lives;
use crate::slots::Event;
use crate::{FormId, OriginTag, PatternTag, SourceId};
use table::Table;

/// A source: its struct, its places in the table, in the ranking (twice) and among the unsent, with the slack of
/// B-trees.
const SOURCE_BYTES: usize = 400;
/// A row of a form: its struct with the slack of a vector, its slots' allocation, and its name among definitions.
const ROW_BYTES: usize = 224;
/// A slot, with the slack of a vector that doubles.
const SLOT_BYTES: usize = 2 * size_of::<crate::slots::Slot>();
/// A life of a node.
const LIFE_BYTES: usize = 96;

/// Bounds of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Pattern sources (`prefetch.max_patterns`).
    pub patterns: usize,
    /// Exact queries with successors of their own.
    pub queries: usize,
    /// Slots in total.
    pub slots: usize,
    /// Bytes of definitions.
    pub definition_bytes: usize,
}

impl Bounds {
    /// The bounds for a value of `prefetch.max_patterns`.
    #[must_use]
    pub fn for_patterns(patterns: usize) -> Self {
        let patterns = patterns.clamp(1, PATTERNS_MAX);
        let queries = (patterns * QUERIES_PER_PATTERN).min(QUERIES_LEARNED_MAX);
        let definition_bytes = patterns * DEFINITION_BYTES_PER_PATTERN;
        Self {
            patterns,
            queries,
            slots: ((patterns + queries) * SLOTS_PER_SOURCE).min(SLOTS_MAX),
            definition_bytes: definition_bytes.clamp(DEFINITION_BYTES_MIN, DEFINITION_BYTES_MAX),
        }
    }

    /// The greatest number of bytes of a model with these bounds, whatever peers send.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        let sources = self.patterns + self.queries;
        let rows = self.patterns * FORMS_PER_PATTERN_MAX + self.queries * FORMS_PER_QUERY_MAX;
        sources * SOURCE_BYTES
            + rows.min(self.slots) * ROW_BYTES
            + self.slots * SLOT_BYTES
            + LIVES_MAX * LIFE_BYTES
            + self.definition_bytes
    }
}

/// For gauges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Pattern sources.
    pub patterns: usize,
    /// Exact sources.
    pub queries: usize,
    /// Slots.
    pub slots: usize,
    /// Lives of nodes.
    pub lives: usize,
    /// Definitions of forms.
    pub forms: usize,
    /// Bytes of definitions and texts.
    pub definition_bytes: usize,
    /// Sources with counts that were not sent yet.
    pub untold: usize,
    /// Bytes in total, as estimated from the counts above.
    pub bytes: usize,
}

/// Successors as one node knows them. Needs `&mut` for everything except looking: keep it behind one lock, held for
/// single calls.
#[derive(Debug)]
pub struct Successors {
    table: Table,
    /// Sources with slots to send.
    untold: BTreeSet<SourceId>,
    /// The exact queries among them that changed last.
    fresh: VecDeque<SourceId>,
    /// The last pattern and the last query examined in the last round.
    told_to: [Option<SourceId>; 2],
    /// The place where the next pull continues.
    pull_from: Option<SourceId>,
    wanted_from: u64,
    swept_at: MonoTime,
    sightings: u32,
    /// The node that counted the last named form without a definition here.
    lacking: Option<OriginTag>,
}

impl Successors {
    /// A model without lessons; `me` counts in life `life` from `now` on.
    #[must_use]
    pub fn new(me: OriginTag, life: Incarnation, bounds: Bounds, now: MonoTime) -> Self {
        Self {
            table: Table::new(bounds, Lives::new(me, life, now), now),
            untold: BTreeSet::new(),
            fresh: VecDeque::new(),
            told_to: [None; 2],
            pull_from: None,
            wanted_from: me.0,
            swept_at: now,
            sightings: 0,
            lacking: None,
        }
    }

    /// Names the present members: their lives do not give way to invented ones.
    pub fn members(&mut self, members: &[OriginTag]) {
        self.table.lives.set_members(members);
    }

    /// An observation of `source` has settled. Counts whether something followed or not.
    pub fn saw(&mut self, source: SourceId, now: MonoTime) {
        self.sightings = self.sightings.wrapping_add(1);
        if self.sightings.is_multiple_of(SWEEP_EVERY_SIGHTINGS) {
            self.table.sweep(SWEEP_SOURCES_OF_SIGHTINGS, now);
        }
        self.add(source, FormId::ANY, Event::Seen, now);
    }

    /// `form` followed `source`.
    pub fn count(&mut self, source: SourceId, form: FormId, now: MonoTime) {
        self.add(source, form, Event::Seen, now);
    }

    /// A prefetch of `form` that was launched because of `source` has ended; [`FormId::ANY`] if it has no form. It is
    /// not counted before its end: a pending one would count as unused, so launching would lower precision.
    pub fn launched(&mut self, source: SourceId, form: FormId, now: MonoTime) {
        self.add(source, form, Event::Launched, now);
    }

    /// Such a prefetch was used (or joined while it ran).
    pub fn used(&mut self, source: SourceId, form: FormId, now: MonoTime) {
        self.add(source, form, Event::Used, now);
    }

    fn add(&mut self, source: SourceId, form: FormId, event: Event, now: MonoTime) {
        let is_counted = self.table.count(source, form, event, now);
        if is_counted && self.untold.insert(source) && !source.is_pattern() {
            if self.fresh.len() >= DELTA_QUERIES_FRESH_MAX {
                self.fresh.pop_front();
            }
            self.fresh.push_back(source);
        }
        // Sources that gave way may still be among the unsent: at most as many as there are sources.
        if self.untold.len() > 2 * self.table.sources.len() + 1 {
            let sources = &self.table.sources;
            self.untold.retain(|source| sources.contains_key(source));
        }
    }

    /// Keeps the definition of a form that this node has learned. Returns whether it is kept: not if it is longer than
    /// [`FORM_BYTES_MAX`] or there is no room. Call it before or after [`Self::count`], any number of times.
    pub fn define_form(&mut self, id: FormId, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= FORM_BYTES_MAX && id != FormId::ANY;
        fits && self.table.definitions.define(Name::Form(id), bytes) != DefinitionOutcome::Refused
    }

    /// The definition of a form.
    #[must_use]
    pub fn form(&self, id: FormId) -> Option<Bytes> {
        self.table.definitions.get(Name::Form(id)).cloned()
    }

    /// Whether a referenced definition is missing.
    #[must_use]
    pub fn lacks_definitions(&self) -> bool {
        self.table.definitions.lacks_some()
    }

    /// The node that [`MergeOutcome::lacks`] named last, once.
    pub fn take_lacking(&mut self) -> Option<OriginTag> {
        self.lacking.take()
    }

    /// Keeps the text of a pattern, cut to [`PATTERN_TEXT_BYTES_MAX`].
    pub fn define_pattern(&mut self, tag: PatternTag, text: &str) {
        let text = text.get(..text.floor_char_boundary(PATTERN_TEXT_BYTES_MAX)).unwrap_or_default();
        self.table.definitions.define(Name::Pattern(tag), text.as_bytes());
    }

    /// The text of a pattern.
    #[must_use]
    pub fn pattern(&self, tag: PatternTag) -> Option<&str> {
        std::str::from_utf8(self.table.definitions.get(Name::Pattern(tag))?).ok()
    }

    /// Forgets some decayed counts, and sometimes unreferenced definitions.
    fn sweep(&mut self, now: MonoTime) {
        self.table.sweep(SWEEP_SOURCES_PER_ROUND, now);
        if now.since(self.swept_at).0 >= LEARNING_SWEEP_MS {
            self.swept_at = now;
            self.table.lives.sweep(now);
            self.table.definitions.sweep();
        }
    }

    /// For gauges.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let (patterns, queries) = self.table.counts();
        let (slots, lives) = (self.table.slots(), self.table.lives.len());
        let definition_bytes = self.table.definitions.bytes();
        let bytes = (patterns + queries) * SOURCE_BYTES
            + self.table.rows().saturating_sub(patterns + queries) * ROW_BYTES
            + slots * SLOT_BYTES
            + lives * LIFE_BYTES
            + definition_bytes;
        let forms = self.table.definitions.forms();
        Sizes { patterns, queries, slots, lives, forms, definition_bytes, untold: self.untold.len(), bytes }
    }
}
