//! The table of sources, rows and slots: which of them find room and which give way.
//!
//! Decides which sources and forms are kept (Space-Saving: the least decayed weight gives way). The bounds are a number
//! of sources, of forms for each, of slots for each form and of slots in total. This node's own counts give way to
//! other nodes' only until half of its places are left (F14). Never decides what is true or sent.

use std::collections::BTreeMap;

use hopcache_core::limits::{EPOCH_MS, FORMS_PER_PATTERN_MAX, FORMS_PER_QUERY_MAX, SLOTS_PER_FORM_MAX};
use hopcache_core::time::{Millis, MonoTime};

use super::Bounds;
use crate::definitions::{Definitions, Name};
use crate::epochs::{LifeId, Lives};
use crate::pull::Prints;
use crate::slots::{Event, Row, Slot, Tally, weight};
use crate::space_saving::{OfferOutcome, SpaceSaving};
use crate::{FormId, SourceId};

/// After this many epochs the weights are scaled down: 2^512 is well within a double.
const SCALE_EPOCHS: u64 = 512;
/// Sources that may have to give way for one slot: usually the first of them already has several.
const EVICTIONS_PER_SLOT: usize = 4;

/// One source with its rows.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) any: Row,
    pub(super) forms: Vec<Row>,
    /// Sum over its slots for digests; `None` after a change ([`Prints`]).
    pub(super) print: Option<u64>,
}

impl Source {
    const fn new() -> Self {
        Self { any: Row::new(FormId::ANY), forms: Vec::new(), print: None }
    }

    pub(super) fn row(&self, form: FormId) -> Option<&Row> {
        if form == FormId::ANY { Some(&self.any) } else { self.forms.iter().find(|row| row.form == form) }
    }

    pub(super) fn row_mut(&mut self, form: FormId) -> Option<&mut Row> {
        if form == FormId::ANY {
            return Some(&mut self.any);
        }
        self.forms.iter_mut().find(|row| row.form == form)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        std::iter::once(&self.any).chain(&self.forms)
    }

    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        std::iter::once(&mut self.any).chain(&mut self.forms)
    }

    fn slots(&self) -> usize {
        self.rows().map(|row| row.slots.len()).sum()
    }
}

/// The result of merging a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// It had this much more of `frequent_sources` (and maybe more of the others).
    Taken(u32),
    Known,
    NoRoom,
}

/// A slot from a message: its life, age and counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotReport {
    pub(super) life: LifeId,
    pub(super) epoch: u32,
    pub(super) age: u32,
    pub(super) tally: Tally,
}

#[derive(Debug)]
pub(super) struct Table {
    bounds: Bounds,
    pub(super) lives: Lives,
    pub(super) sources: BTreeMap<SourceId, Source>,
    patterns: SpaceSaving<SourceId>,
    queries: SpaceSaving<SourceId>,
    pub(super) definitions: Definitions,
    pub(super) prints: Prints,
    slots: usize,
    rows: usize,
    /// The time at which one sighting weighs 1.
    base: MonoTime,
    swept: Option<SourceId>,
}

impl Table {
    pub(super) fn new(bounds: Bounds, lives: Lives, now: MonoTime) -> Self {
        Self {
            bounds,
            lives,
            sources: BTreeMap::new(),
            patterns: SpaceSaving::new(bounds.patterns),
            queries: SpaceSaving::new(bounds.queries),
            definitions: Definitions::new(bounds.definition_bytes),
            prints: Prints::new(),
            slots: 0,
            rows: 0,
            base: now,
            swept: None,
        }
    }

    pub(super) const fn slots(&self) -> usize {
        self.slots
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn counts(&self) -> (usize, usize) {
        (self.patterns.len(), self.queries.len())
    }

    const fn ranks(&mut self, source: SourceId) -> &mut SpaceSaving<SourceId> {
        if source.is_pattern() { &mut self.patterns } else { &mut self.queries }
    }

    /// The present weight of one sighting: it doubles with every epoch, so that older ones weigh less by comparison and
    /// nothing has to be decayed (forward decay: Cormode et al., ICDE 2009, doi 10.1109/ICDE.2009.65).
    pub(super) fn amount(&mut self, now: MonoTime) -> f64 {
        while now.since(self.base).0 >= SCALE_EPOCHS * EPOCH_MS {
            self.base = self.base + Millis(SCALE_EPOCHS * EPOCH_MS);
            let factor = f64::exp2(-(SCALE_EPOCHS as f64));
            self.patterns.scale(factor);
            self.queries.scale(factor);
            let rows = self.sources.values_mut().flat_map(|source| &mut source.forms);
            rows.for_each(|row| row.rank *= factor);
        }
        f64::exp2(now.since(self.base).0 as f64 / EPOCH_MS as f64)
    }

    /// Counts an event that this node itself saw. Returns whether there was room: launches and uses of an unknown
    /// source take no place.
    pub(super) fn count(&mut self, source: SourceId, form: FormId, event: Event, now: MonoTime) -> bool {
        let amount = self.amount(now);
        let sighting = if form == FormId::ANY && event == Event::Seen { amount } else { 0.0 };
        let is_known = self.sources.contains_key(&source);
        if !is_known && event != Event::Seen && !self.ranks(source).has_room() {
            return false;
        }
        // `saw` ranks sources; a successor's count only keeps its source's rank.
        if !is_known || sighting > 0.0 {
            let offered = self.ranks(source).see(source, sighting);
            self.settle(source, offered);
        }
        let seen = if event == Event::Seen { amount } else { 0.0 };
        let epoch = self.lives.epoch(Lives::ME, now);
        if self.add_to(source, form, event, epoch, seen) {
            return true;
        }
        self.own_row(source, form, seen, event)
            && self.own_slot(source, form, epoch, now)
            && self.add_to(source, form, event, epoch, 0.0)
    }

    /// Counts in an existing slot. Returns whether it exists.
    fn add_to(&mut self, source: SourceId, form: FormId, event: Event, epoch: u32, amount: f64) -> bool {
        let Some(held) = self.sources.get_mut(&source) else { return false };
        self.prints.changed(source, &mut held.print);
        let Some(row) = held.row_mut(form) else { return false };
        let Some(slot) = row.slot_mut(Lives::ME, epoch) else { return false };
        slot.tally.add(event);
        slot.untold = true;
        row.rank += amount;
        row.is_own = true;
        true
    }

    /// Applies the ranking's decision to the table.
    fn settle(&mut self, source: SourceId, offered: OfferOutcome<SourceId>) -> bool {
        match offered {
            OfferOutcome::Kept => return true,
            OfferOutcome::Refused => return false,
            OfferOutcome::Replaced(least) => self.drop_source(least),
            OfferOutcome::Added => {}
        }
        if let SourceId::Pattern(tag) = source {
            self.definitions.refer(Name::Pattern(tag));
        }
        self.rows += 1;
        self.sources.insert(source, Source::new());
        self.prints.is_stale(source);
        true
    }

    fn drop_source(&mut self, source: SourceId) {
        let Some(held) = self.sources.remove(&source) else { return };
        self.prints.gone(source, held.print);
        self.slots = self.slots.saturating_sub(held.slots());
        self.rows = self.rows.saturating_sub(1 + held.forms.len());
        held.rows().flat_map(|row| &row.slots).for_each(|slot| self.lives.dropped(slot.life));
        held.forms.iter().for_each(|row| self.definitions.release(Name::Form(row.form)));
        if let SourceId::Pattern(tag) = source {
            self.definitions.release(Name::Pattern(tag));
        }
    }

    fn own_row(&mut self, source: SourceId, form: FormId, amount: f64, event: Event) -> bool {
        let Some(held) = self.sources.get_mut(&source) else { return false };
        if let Some(row) = held.row_mut(form) {
            row.rank += amount;
            row.is_own = true;
            return true;
        }
        let mut row = Row { rank: amount, is_own: true, ..Row::new(form) };
        if held.forms.len() >= forms_max(source) {
            if event != Event::Seen {
                return false;
            }
            let Some(least) = least_row(held, source, true) else { return false };
            row.rank += self.drop_row(source, least);
        }
        self.add_row(source, row);
        true
    }

    fn own_slot(&mut self, source: SourceId, form: FormId, epoch: u32, now: MonoTime) -> bool {
        self.has_slot_room(source, true)
            && self.add_slot(source, form, Slot::new(Lives::ME, epoch, Tally::default()), now)
    }

    /// Room for a source from another node. `worth` is its reported sightings, decayed.
    pub(super) fn admit_heard(&mut self, source: SourceId, worth: f64, now: MonoTime) -> bool {
        let amount = self.amount(now) * worth;
        let offered = self.ranks(source).hear(source, amount);
        self.settle(source, offered)
    }

    /// Room for a form from another node.
    pub(super) fn admit_heard_row(
        &mut self,
        source: SourceId,
        form: FormId,
        worth: f64,
        now: MonoTime,
    ) -> bool {
        let rank = self.amount(now) * worth;
        let Some(held) = self.sources.get(&source) else { return false };
        if held.forms.len() >= forms_max(source) {
            let least = least_row(held, source, false);
            let least = least.filter(|least| held.row(*least).is_some_and(|row| row.rank < rank));
            let Some(least) = least else { return false };
            self.drop_row(source, least);
        }
        self.add_row(source, Row { rank, ..Row::new(form) });
        true
    }

    /// Merges a slot into an admitted row.
    pub(super) fn put(&mut self, source: SourceId, form: FormId, heard: SlotReport, now: MonoTime) -> Put {
        let Some(held) = self.sources.get_mut(&source) else { return Put::NoRoom };
        let Some(row) = held.row_mut(form) else { return Put::NoRoom };
        let more = if let Some(slot) = row.slot_mut(heard.life, heard.epoch) {
            let merged = merged(slot.tally, &heard);
            if merged == slot.tally {
                return Put::Known;
            }
            let more = merged.seen - slot.tally.seen;
            slot.tally = merged;
            self.prints.changed(source, &mut held.print);
            more
        } else {
            let has_room = self.has_slot_room(source, false);
            if !has_room || !self.add_slot(source, form, Slot::new(heard.life, heard.epoch, heard.tally), now)
            {
                return Put::NoRoom;
            }
            heard.tally.seen
        };
        self.lives.news(heard.life, now);
        Put::Taken(more)
    }

    /// Adds other nodes' sightings to the weight of a kept source or form.
    pub(super) fn weigh(&mut self, source: SourceId, form: FormId, worth: f64, now: MonoTime) {
        let amount = self.amount(now) * worth;
        if form == FormId::ANY {
            let is_kept = self.sources.contains_key(&source);
            let _kept = is_kept.then(|| self.ranks(source).hear(source, amount));
        } else if let Some(row) = self.sources.get_mut(&source).and_then(|held| held.row_mut(form)) {
            row.rank += amount;
        }
    }

    fn add_row(&mut self, source: SourceId, row: Row) {
        let Some(held) = self.sources.get_mut(&source) else { return };
        self.definitions.refer(Name::Form(row.form));
        self.rows += 1;
        held.forms.push(row);
    }

    /// Forgets a row. Returns its weight.
    fn drop_row(&mut self, source: SourceId, form: FormId) -> f64 {
        let Some(held) = self.sources.get_mut(&source) else { return 0.0 };
        let Some(at) = held.forms.iter().position(|row| row.form == form) else { return 0.0 };
        let row = held.forms.swap_remove(at);
        self.prints.changed(source, &mut held.print);
        self.rows = self.rows.saturating_sub(1);
        self.slots = self.slots.saturating_sub(row.slots.len());
        row.slots.iter().for_each(|slot| self.lives.dropped(slot.life));
        self.definitions.release(Name::Form(form));
        row.rank
    }

    /// Adds a slot to a row. In a full row the least slot gives way, if it is worth less.
    fn add_slot(&mut self, source: SourceId, form: FormId, slot: Slot, now: MonoTime) -> bool {
        let Some(held) = self.sources.get_mut(&source) else { return false };
        let Some(row) = held.row_mut(form) else { return false };
        if row.slots.len() >= SLOTS_PER_FORM_MAX {
            let lives = &self.lives;
            let worth = |slot: &Slot| {
                let age = lives.age(slot.life, slot.epoch, now);
                age.map_or(-1.0, |age| {
                    weight(age) * (f64::from(slot.tally.seen) + f64::from(slot.tally.launched))
                })
            };
            let others = row.slots.iter().enumerate().filter(|(_, slot)| slot.life != Lives::ME);
            let least = others.map(|(at, slot)| (at, worth(slot))).min_by(|a, b| a.1.total_cmp(&b.1));
            let Some((at, least)) = least else { return false };
            if slot.life != Lives::ME && least >= worth(&slot) {
                return false;
            }
            let gone = row.slots.swap_remove(at);
            self.lives.dropped(gone.life);
            self.slots = self.slots.saturating_sub(1);
        }
        row.slots.push(slot);
        self.prints.changed(source, &mut held.print);
        self.slots += 1;
        self.lives.kept(slot.life);
        true
    }

    /// Whether a slot of `source` may be added, after the least sources gave way.
    fn has_slot_room(&mut self, source: SourceId, is_own: bool) -> bool {
        for _ in 0..EVICTIONS_PER_SLOT {
            if self.slots < self.bounds.slots {
                return true;
            }
            let ranks = [&self.queries, &self.patterns];
            let least = ranks.into_iter().filter_map(|ranks| ranks.least_but(Some(source), is_own));
            let Some((_, least)) = least.min_by(|a, b| a.0.total_cmp(&b.0)) else { return false };
            self.ranks(least).forget(least);
            self.drop_source(least);
        }
        self.slots < self.bounds.slots
    }

    /// Examines the next `count` sources and forgets their decayed slots, which no longer counted.
    pub(super) fn sweep(&mut self, count: usize, now: MonoTime) {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = self.swept.map_or(Unbounded, Excluded);
        let next: Vec<_> = self.sources.range((from, Unbounded)).take(count).map(|(id, _)| *id).collect();
        self.swept = if next.len() < count { None } else { next.last().copied() };
        next.into_iter().for_each(|source| self.sweep_source(source, now));
    }

    fn sweep_source(&mut self, source: SourceId, now: MonoTime) {
        let Some(held) = self.sources.get_mut(&source) else { return };
        let before = held.slots();
        let lives = &mut self.lives;
        for row in held.rows_mut() {
            row.slots.retain(|slot| {
                let counts = lives.age(slot.life, slot.epoch, now).is_some();
                if !counts {
                    lives.dropped(slot.life);
                }
                counts
            });
        }
        let after = held.slots();
        if after == before
            && held.rows().all(|row| row.form == FormId::ANY || !row.slots.is_empty())
            && after > 0
        {
            return;
        }
        self.prints.changed(source, &mut held.print);
        self.slots = self.slots.saturating_sub(before - after);
        let empty: Vec<_> =
            held.forms.iter().filter(|row| row.slots.is_empty()).map(|row| row.form).collect();
        for form in empty {
            self.drop_row(source, form);
        }
        if after == 0 {
            self.ranks(source).forget(source);
            self.drop_source(source);
        }
    }
}

fn merged(held: Tally, heard: &SlotReport) -> Tally {
    held.max(heard.tally)
}

const fn forms_max(source: SourceId) -> usize {
    if source.is_pattern() { FORMS_PER_PATTERN_MAX } else { FORMS_PER_QUERY_MAX }
}

/// The next form to go, as [`SpaceSaving::least`] of sources.
fn least_row(held: &Source, source: SourceId, for_own: bool) -> Option<FormId> {
    let own = held.forms.iter().filter(|row| row.is_own).count();
    let own_may_go = for_own || own > forms_max(source) / 2;
    let rows = held.forms.iter().filter(|row| own_may_go || !row.is_own);
    rows.min_by(|a, b| a.rank.total_cmp(&b.rank).then(a.form.cmp(&b.form))).map(|row| row.form)
}
