//! A node's digest, and its answer to a pull: the slots that differ and the definitions that are missing.
//!
//! Decides the sums of a digest and the content of a page of at most [`PULL_PAGE_BYTES_MAX`] bytes. A page ends when it
//! is full, and names its end; the next digest begins there.

use hopcache_core::limits::{
    PULL_DEFINITIONS_PERCENT, PULL_PAGE_BYTES_MAX, PULL_PRINTS_PER_CALL, PULL_WANTS_MAX,
};
use hopcache_core::time::MonoTime;
use xxhash_rust::xxh3::xxh3_64;

use super::Successors;
use super::table::Source;
use crate::definitions::Name;
use crate::delta::Writer;
use crate::epochs::Lives;
use crate::slots::Row;
use crate::{Digest, SourceId};

/// Everything that a node knows of successors, summed up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    /// Over every count, and the node that counted it: equal for equal knowledge.
    pub print: u64,
    /// How often patterns were seen, decayed.
    pub seen: f64,
}

impl Successors {
    /// This node's digest, to be sent with a pull.
    #[must_use]
    pub fn digest(&mut self, now: MonoTime) -> Digest {
        self.sweep(now);
        let (patterns, queries) = self.table.counts();
        let mut digest = self.summed(Digest::sized(patterns.max(queries)), now);
        digest.from = self.pull_from;
        digest.wants = self.wants();
        digest
    }

    /// A digest that asks for missing definitions only: its page was read to the last source. `None` if there is no room for
    /// one. Merge the answer with [`Successors::merge_definitions`].
    #[must_use]
    pub fn digest_of_wants(&mut self) -> Option<Digest> {
        let mut digest = Digest::sized(0);
        digest.from = Some(SourceId::LAST);
        digest.wants = self.wants();
        (!digest.wants.is_empty()).then_some(digest)
    }

    fn wants(&mut self) -> Vec<Name> {
        // Another beginning each time: perhaps no node ever has the first ones.
        self.wanted_from = self.wanted_from.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.table.definitions.missing(PULL_WANTS_MAX, self.wanted_from)
    }

    /// Everything known, summed up.
    #[must_use]
    pub fn sum(&self, now: MonoTime) -> Sum {
        let lives = &self.table.lives;
        let mut sum = Sum::default();
        for (source, held) in &self.table.sources {
            sum.print =
                sum.print.wrapping_add(held.print.unwrap_or_else(|| print(*source, held, lives, now)));
            if source.is_pattern() {
                sum.seen += held.any.value(lives, now).seen;
            }
        }
        sum
    }

    fn summed(&mut self, mut digest: Digest, now: MonoTime) -> Digest {
        self.sum_up_changed(now);
        digest.sum_up(&self.table.prints);
        digest
    }

    /// Sums up some of the changed sources.
    pub(super) fn sum_up_changed(&mut self, now: MonoTime) {
        let table = &mut self.table;
        for _ in 0..PULL_PRINTS_PER_CALL {
            let Some(source) = table.prints.next_stale() else { break };
            let Some(held) = table.sources.get_mut(&source) else { continue };
            let print = print(source, held, &table.lives, now);
            held.print = Some(print);
            table.prints.add(source, print);
        }
    }

    /// The answer to a pull: slots that differ and definitions that are missing, at most
    /// [`PULL_PAGE_BYTES_MAX`] bytes. Read it with [`crate::TransitionCounts::decode`].
    #[must_use]
    pub fn answer_pull(&mut self, digest: &Digest, now: MonoTime) -> Vec<u8> {
        self.sweep(now);
        let mut page = Writer::new(PULL_PAGE_BYTES_MAX, true);
        self.table.lives.claims(now).for_each(|claim| page.claim(&claim));
        for name in &digest.wants {
            if page.len() * 100 >= PULL_PAGE_BYTES_MAX * PULL_DEFINITIONS_PERCENT {
                break;
            }
            let Some(bytes) = self.table.definitions.get(*name) else { continue };
            match name {
                Name::Form(id) => page.form(*id, bytes),
                Name::Pattern(tag) => page.text(*tag, bytes),
            };
        }
        if digest.from == Some(SourceId::LAST) {
            return page.finish(None);
        }
        let mine = self.summed(digest.like(), now);
        let rest = mine.differing(digest, &self.table.prints).filter_map(|range| {
            let (first, last) = range.into_inner();
            let first = digest.from.map_or(first, |from| first.max(from));
            (first <= last).then_some(first..=last)
        });
        let mut any_went_in = false;
        for (source, held) in rest.flat_map(|range| self.table.sources.range(range)) {
            let went_in = held.rows().all(|row| put_row(&mut page, *source, row, &self.table.lives, now));
            // A source that is too much for a whole page is sent in part, so that the next page makes progress.
            if !went_in && any_went_in {
                return page.finish(Some(*source));
            }
            any_went_in = true;
        }
        page.finish(None)
    }
}

fn put_row(page: &mut Writer, source: SourceId, row: &Row, lives: &Lives, now: MonoTime) -> bool {
    let slots = row.live(lives, now).filter_map(|(slot, _)| {
        // The age according to the claim that is sent with it: the reader counts from that.
        let claim = lives.claim(slot.life, now)?;
        Some((claim, claim.epoch().saturating_sub(slot.epoch), slot.tally))
    });
    let slots: Vec<_> = slots.collect();
    slots.is_empty() || page.row(source, row.form, slots.into_iter())
}

/// The input of a slot's sum: four tags and five numbers.
const PRINT_BYTES: usize = 4 * 8 + 5 * 4;

/// The sum of a source's slots, in any order: equal for equal knowledge.
fn print(source: SourceId, held: &Source, lives: &Lives, now: MonoTime) -> u64 {
    let mut sum = 0_u64;
    for row in held.rows() {
        for (slot, _) in row.live(lives, now) {
            let Some(claim) = lives.claim(slot.life, now) else { continue };
            let tally = slot.tally;
            let counts = [u32::from(source.is_pattern()), slot.epoch, tally.seen, tally.launched, tally.used];
            let mut bytes = [0; PRINT_BYTES];
            let tags = [source.tag(), row.form.0, claim.origin.0, claim.life.0].map(u64::to_le_bytes);
            let parts =
                tags.iter().flatten().copied().chain(counts.map(u32::to_le_bytes).into_iter().flatten());
            bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = part);
            sum = sum.wrapping_add(xxh3_64(&bytes));
        }
    }
    sum
}
