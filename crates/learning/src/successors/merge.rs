//! Merges lessons from other nodes: slots by maximum, definitions after their check.
//!
//! Decides which parts of a lesson are news, which are refused, and why. Neither the order of lessons nor repetition
//! matters.

use hopcache_core::limits::{PULL_DEFINED_MANY, PULL_NEWS_PART};
use hopcache_core::time::MonoTime;

use super::Successors;
use super::table::{Put, SlotReport};
use crate::definitions::{DefinitionOutcome, Name};
use crate::delta::{RowCounts, SlotCounts};
use crate::epochs::{Disbelief, LifeId};
use crate::slots::weight;
use crate::{Definition, FormId, OriginTag, SourceId, TransitionCounts};

/// The results of a lesson's slots and definitions; each is counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergeOutcome {
    /// Slots with more than was known.
    pub taken: usize,
    /// Slots with nothing new.
    pub known: usize,
    /// Slots of epochs that no longer count.
    pub refused_old: usize,
    /// Slots of lives that claim an impossible uptime.
    pub refused_future: usize,
    /// Slots without room, or with impossible counts.
    pub refused_bounds: usize,
    /// Definitions that were missing.
    pub defined: usize,
    /// Definitions that failed the check.
    pub refused_forged: usize,
    /// Definitions without room.
    pub refused_definitions: usize,
    /// For an answer to a pull that brought something: the sender had more differences, or may have missing
    /// definitions. [`MergeOutcome::is_worth_another`] decides whether to pull again at once.
    pub more: bool,
    /// A node that has counted a form without a definition here, if a slot of this lesson is the first mention of it.
    /// That node sent the definition in another piece, or never will if it is too long for gossip. So soon after, ask
    /// [`Successors::lacks_definitions`], and pull from it.
    pub lacks: Option<OriginTag>,
}

impl MergeOutcome {
    /// Whether an answer to a pull had enough news to ask for the next page at once.
    #[must_use]
    pub fn is_worth_another(&self) -> bool {
        let slots = self.taken + self.known + self.refused_old + self.refused_future + self.refused_bounds;
        self.more
            && (self.taken > 0 && self.taken * PULL_NEWS_PART >= slots || self.defined >= PULL_DEFINED_MANY)
    }
}

/// A life of a lesson, once one of its slots was examined.
type Belief = Option<Result<LifeId, Disbelief>>;

impl Successors {
    /// Merges another node's lesson. `is_true` is called for each unknown definition: it checks that a form's id is the
    /// digest of its bytes and that they parse. A pattern's tag cannot be recomputed without its principal, so accept
    /// every text that is fit for display.
    pub fn merge(
        &mut self,
        counts: &TransitionCounts,
        now: MonoTime,
        mut is_true: impl FnMut(&Definition) -> bool,
    ) -> MergeOutcome {
        let mut merged = MergeOutcome { more: counts.next.is_some(), ..MergeOutcome::default() };
        if counts.is_page {
            self.table.lives.refresh(&counts.lives, now);
        }
        let mut beliefs: Vec<Belief> = vec![None; counts.lives.len()];
        for rows in counts.rows.chunk_by(|a, b| a.source == b.source) {
            self.merge_source(counts, rows, &mut beliefs, now, &mut merged);
        }
        for definition in &counts.definitions {
            self.merge_definition(definition, &mut is_true, &mut merged);
        }
        if counts.is_page {
            self.pull_from = counts.next;
            let has_news = merged.taken + merged.defined > 0;
            merged.more |= has_news && self.table.definitions.lacks_some();
        }
        self.lacking = merged.lacks.or(self.lacking);
        merged
    }

    /// As [`Self::merge`], for the answer to a [`Successors::digest_of_wants`]: the next digest goes on where the last page of
    /// rows ended.
    pub fn merge_definitions(
        &mut self,
        counts: &TransitionCounts,
        now: MonoTime,
        is_true: impl FnMut(&Definition) -> bool,
    ) -> MergeOutcome {
        let pull_from = self.pull_from;
        let merged = self.merge(counts, now, is_true);
        self.pull_from = pull_from;
        merged
    }

    fn merge_source(
        &mut self,
        counts: &TransitionCounts,
        rows: &[RowCounts],
        beliefs: &mut [Belief],
        now: MonoTime,
        merged: &mut MergeOutcome,
    ) {
        let Some(source) = rows.first().map(|row| row.source) else { return };
        let mut heard: Vec<(FormId, SlotReport)> = Vec::with_capacity(rows.len());
        for (row, slot) in rows.iter().flat_map(|row| row.slots.iter().map(move |slot| (row, slot))) {
            heard.extend(self.hear(counts, slot, beliefs, now, merged).map(|slot| (row.form, slot)));
        }
        let of_rows = || heard.chunk_by(|a, b| a.0 == b.0);
        // A source ranks by its own row. If the lesson lacks that, it ranks by its largest successor.
        let own = of_rows().find(|slots| slots.first().is_some_and(|slot| slot.0 == FormId::ANY));
        let rank = own.map_or_else(|| of_rows().map(worth).fold(0.0, f64::max), worth);
        let is_new = !self.table.sources.contains_key(&source);
        for slots in of_rows() {
            let Some((form, _)) = slots.first() else { continue };
            let has_room =
                self.table.sources.contains_key(&source) || self.table.admit_heard(source, rank, now);
            if !has_room {
                merged.refused_bounds += slots.len();
                continue;
            }
            let ranks_already = is_new && *form == FormId::ANY;
            self.merge_row((source, *form), slots, ranks_already, now, merged);
        }
    }

    /// A slot of a lesson, if its life is accepted and its epoch counts.
    fn hear(
        &mut self,
        counts: &TransitionCounts,
        slot: &SlotCounts,
        beliefs: &mut [Belief],
        now: MonoTime,
        merged: &mut MergeOutcome,
    ) -> Option<SlotReport> {
        let (claim, belief) = (counts.lives.get(slot.life)?, beliefs.get_mut(slot.life)?);
        if !slot.tally.is_possible() {
            merged.refused_bounds += 1;
            return None;
        }
        let life = match *belief.get_or_insert_with(|| self.table.lives.believe(claim, now)) {
            Ok(life) => life,
            Err(Disbelief::Future) => {
                merged.refused_future += 1;
                return None;
            }
            Err(Disbelief::Full) => {
                merged.refused_bounds += 1;
                return None;
            }
        };
        let epoch = claim.epoch().checked_sub(slot.age)?;
        let Some(age) = self.table.lives.age(life, epoch, now) else {
            merged.refused_old += 1;
            return None;
        };
        Some(SlotReport { life, epoch, age, tally: slot.tally })
    }

    fn merge_row(
        &mut self,
        (source, form): (SourceId, FormId),
        slots: &[(FormId, SlotReport)],
        ranks_already: bool,
        now: MonoTime,
        merged: &mut MergeOutcome,
    ) {
        let is_known = self.table.sources.get(&source).is_some_and(|held| held.row(form).is_some());
        if !is_known && !self.table.admit_heard_row(source, form, worth(slots), now) {
            merged.refused_bounds += slots.len();
            return;
        }
        let mut more = 0.0;
        for (_, slot) in slots {
            match self.table.put(source, form, *slot, now) {
                Put::Taken(seen) => {
                    merged.taken += 1;
                    if !is_known
                        && merged.lacks.is_none()
                        && self.table.definitions.get(Name::Form(form)).is_none()
                    {
                        merged.lacks = self.table.lives.origin(slot.life).filter(|_| form != FormId::ANY);
                    }
                    more += weight(slot.age) * f64::from(seen);
                }
                Put::Known => merged.known += 1,
                Put::NoRoom => merged.refused_bounds += 1,
            }
        }
        if is_known && !ranks_already {
            self.table.weigh(source, form, more, now);
        }
    }

    fn merge_definition(
        &mut self,
        definition: &Definition,
        is_true: &mut impl FnMut(&Definition) -> bool,
        merged: &mut MergeOutcome,
    ) {
        let (name, bytes) = match definition {
            Definition::Form { id, bytes } => (Name::Form(*id), bytes.clone()),
            Definition::Pattern { tag, text } => {
                (Name::Pattern(*tag), bytes::Bytes::copy_from_slice(text.as_bytes()))
            }
        };
        if self.table.definitions.get(name).is_some() {
            return;
        }
        if !is_true(definition) {
            merged.refused_forged += 1;
            return;
        }
        match self.table.definitions.hear(name, &bytes) {
            DefinitionOutcome::New => merged.defined += 1,
            DefinitionOutcome::Known => {}
            DefinitionOutcome::Refused => merged.refused_definitions += 1,
        }
    }
}

/// The sightings of a row, decayed.
fn worth(slots: &[(FormId, SlotReport)]) -> f64 {
    slots.iter().map(|(_, slot)| weight(slot.age) * f64::from(slot.tally.seen)).sum()
}
