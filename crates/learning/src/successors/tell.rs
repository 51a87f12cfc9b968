//! Lessons that this node sends by gossip: its own changed slots and new definitions, the largest change of probability
//! first.
//!
//! Decides the content of a round's pieces. They have only this node's own counts, because gossip itself passes on
//! other nodes' pieces. Each change is sent once; gossip repeats it, and pulls repair losses.

use std::collections::BTreeSet;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

use hopcache_core::limits::{
    DELTA_DEFINITIONS_PERCENT, DELTA_PATTERNS_CONSIDERED_MAX, DELTA_PIECE_BYTES_MAX,
    DELTA_QUERIES_CONSIDERED_MAX, EPOCHS_KEPT, PULL_PRINTS_WAITING,
};
use hopcache_core::time::MonoTime;

use super::Successors;
use super::predict::probability;
use super::table::Source;
use crate::definitions::Name;
use crate::delta::Writer;
use crate::epochs::{Claim, Lives};
use crate::slots::{Row, Slot, Tally};
use crate::{PatternTag, QueryTag, SourceId};

/// Pieces of one round.
struct Pieces {
    done: Vec<Vec<u8>>,
    open: Writer,
    left_bytes: usize,
    left: usize,
}

impl Pieces {
    fn new(budget_bytes: usize) -> Self {
        // No more pieces than full ones: each takes a place of gossip's.
        let left = budget_bytes.div_ceil(DELTA_PIECE_BYTES_MAX);
        Self { done: Vec::new(), open: piece(budget_bytes), left_bytes: budget_bytes, left }
    }

    /// Puts a part into the open piece, or into a new one. Returns whether it fitted.
    fn put(&mut self, part: impl Fn(&mut Writer) -> bool) -> bool {
        if part(&mut self.open) {
            return true;
        }
        if self.open.is_empty() {
            return false;
        }
        self.close();
        part(&mut self.open)
    }

    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        self.left = self.left.saturating_sub(1);
        let left_bytes = if self.left == 0 { 0 } else { self.left_bytes.saturating_sub(self.open.len()) };
        let full = std::mem::replace(&mut self.open, piece(left_bytes));
        self.left_bytes = left_bytes;
        self.done.push(full.finish(None));
    }

    fn spent(&self, budget_bytes: usize) -> usize {
        budget_bytes.saturating_sub(self.left_bytes) + self.open.len()
    }
}

fn piece(left_bytes: usize) -> Writer {
    Writer::new(left_bytes.min(DELTA_PIECE_BYTES_MAX), false)
}

impl Successors {
    /// This node's unsent counts and definitions, as pieces of at most [`DELTA_PIECE_BYTES_MAX`] bytes, together at
    /// most `budget_bytes`; the largest change of probability first. Each change is sent once: gossip repeats it, pulls
    /// repair losses.
    pub fn next_pieces(&mut self, budget_bytes: usize, now: MonoTime) -> Vec<Vec<u8>> {
        self.sweep(now);
        if self.table.prints.stale() > PULL_PRINTS_WAITING {
            self.sum_up_changed(now);
        }
        let mut pieces = Pieces::new(budget_bytes);
        // Those whose rows were sent in earlier rounds.
        for name in self.table.definitions.untold(budget_bytes / DEFINITION_BYTES_SMALL) {
            if pieces.spent(budget_bytes) * 100 >= budget_bytes * DELTA_DEFINITIONS_PERCENT {
                break;
            }
            if matches!(name, Name::Form(_)) {
                self.tell_definition(name, &mut pieces);
            }
        }
        for (source, _) in self.changes(now) {
            if !self.tell_source(source, &mut pieces, now) {
                break;
            }
        }
        for name in self.table.definitions.untold(budget_bytes / DEFINITION_BYTES_SMALL) {
            self.tell_definition(name, &mut pieces);
        }
        pieces.close();
        pieces.done
    }

    /// Changed sources, the largest change of probability first. Of many, some patterns and some queries: patterns are
    /// few and predict most, so queries never crowd them out. Of queries, those that changed last have half of the places
    /// at most, and those that wait the rest; the next round goes on where this one ended.
    fn changes(&mut self, now: MonoTime) -> Vec<(SourceId, f64)> {
        let first_query = SourceId::Query(QueryTag(0));
        let first_pattern = SourceId::Pattern(PatternTag(0));
        let [from_pattern, from_query] = self.told_to;
        let all_patterns = (Included(first_pattern), Excluded(first_query));
        let patterns = self.some_untold(all_patterns, from_pattern, DELTA_PATTERNS_CONSIDERED_MAX);
        let all_queries = (Included(first_query), Unbounded);
        let fresh: BTreeSet<SourceId> =
            self.fresh.drain(..).filter(|source| self.untold.contains(source)).collect();
        let mut waiting =
            self.some_untold(all_queries, from_query, DELTA_QUERIES_CONSIDERED_MAX - fresh.len());
        self.told_to = [patterns.last().copied(), waiting.last().copied().or(from_query)];
        waiting.retain(|source| !fresh.contains(source));
        let mut changes = Vec::new();
        for source in patterns.into_iter().chain(fresh).chain(waiting) {
            match self.table.sources.get(&source) {
                // A source without successors predicts nothing. Its count is sent with its first form, and goes with
                // pulls anyway.
                Some(held) if held.forms.is_empty() => drop(self.untold.remove(&source)),
                Some(held) => changes.push((source, self.change(held, now))),
                None => drop(self.untold.remove(&source)),
            }
        }
        changes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        changes
    }

    /// At most `most` changed sources of a kind: those after `from`, then those before it.
    fn some_untold(
        &self,
        kind: (Bound<SourceId>, Bound<SourceId>),
        from: Option<SourceId>,
        most: usize,
    ) -> Vec<SourceId> {
        let all = || self.untold.range(kind).copied();
        let Some(from) = from else { return all().take(most).collect() };
        let after = self.untold.range((Excluded(from), kind.1)).copied();
        let before = all().take_while(|source| *source <= from);
        after.chain(before).take(most).collect()
    }

    /// The largest change of the probability of a source's form since it was sent.
    fn change(&self, held: &Source, now: MonoTime) -> f64 {
        let any = held.any.value(&self.table.lives, now).seen;
        let any_change = if held.any.has_untold() { 1.0 / (any + 1.0) } else { 0.0 };
        let change = |row: &Row| {
            let p = probability(row.value(&self.table.lives, now).seen, any);
            if row.has_untold() { (p - f64::from(row.told_p)).abs() } else { p * any_change }
        };
        held.forms.iter().map(change).fold(0.0, f64::max)
    }

    /// Sends a source's changed rows. Returns whether all of them fitted.
    fn tell_source(&mut self, source: SourceId, pieces: &mut Pieces, now: MonoTime) -> bool {
        let Some(claim) = self.table.lives.claim(Lives::ME, now) else { return false };
        let Some(held) = self.table.sources.get_mut(&source) else { return true };
        let any = held.any.value(&self.table.lives, now).seen;
        let mut told = Vec::new();
        for row in held.rows_mut().filter(|row| row.has_untold()) {
            let slots = slots_to_tell(row, &claim);
            if !slots.is_empty() && !pieces.put(|piece| piece.row(source, row.form, slots.iter().copied())) {
                return false;
            }
            row.told_p = probability(row.value(&self.table.lives, now).seen, any) as f32;
            row.slots.iter_mut().for_each(told_slot);
            told.push(Name::Form(row.form));
        }
        self.untold.remove(&source);
        told.into_iter().for_each(|name| self.tell_definition(name, pieces));
        true
    }

    fn tell_definition(&mut self, name: Name, pieces: &mut Pieces) {
        let definitions = &mut self.table.definitions;
        if !definitions.is_untold(name) {
            return;
        }
        let Some(bytes) = definitions.get(name).cloned() else { return definitions.told(name) };
        let is_told = bytes.len() > DEFINITION_BYTES_TOLD_MAX
            || match name {
                Name::Form(id) => pieces.put(|piece| piece.form(id, &bytes)),
                Name::Pattern(tag) => pieces.put(|piece| piece.text(tag, &bytes)),
            };
        if is_told {
            definitions.told(name);
        }
    }
}

/// Bytes of a definition beside its own: kind, id, length; and the head of its piece.
const DEFINITION_HEAD_BYTES: usize = 1 + 8 + 2 + 13;
/// Longer ones go by pulls only.
const DEFINITION_BYTES_TOLD_MAX: usize = DELTA_PIECE_BYTES_MAX - DEFINITION_HEAD_BYTES;
/// Few definitions are shorter: at most the budget divided by this are examined.
const DEFINITION_BYTES_SMALL: usize = 16;

/// This node's slots of a row that changed since they were sent.
fn slots_to_tell(row: &Row, claim: &Claim) -> Vec<(Claim, u32, Tally)> {
    let untold = row.slots.iter().filter(|slot| slot.untold);
    let aged = untold.filter_map(|slot| {
        let age = claim.epoch().checked_sub(slot.epoch).filter(|age| *age < EPOCHS_KEPT)?;
        Some((*claim, age, tally_to_tell(slot)))
    });
    aged.collect()
}

fn tally_to_tell(slot: &Slot) -> Tally {
    slot.tally
}

fn told_slot(slot: &mut Slot) {
    slot.untold = false;
}
