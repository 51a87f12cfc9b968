//! Digests: a summary of a node's lessons, so that another node can answer with the differences.
//!
//! Sources are divided into ranges by the first bits of their tags, patterns and exact queries apart. A digest has the
//! sum of the slots in each range, from the end of the last page on, and the definitions that are missing. The
//! answering node sends all slots of the ranges whose sums differ. Decides what a digest is; never what is in an
//! answer.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use hopcache_core::limits::{PULL_BUCKETS_MAX, PULL_WANTS_MAX};
use hopcache_core::wire::{at_most, from_bytes, to_bytes};

use crate::definitions::Name;
use crate::{PatternTag, QueryTag, SourceId};

/// The average number of sources in a range, until there are too many ranges.
const SOURCES_PER_BUCKET: usize = 4;
/// Fewest bits that distinguish ranges, so that shifting by the others is always defined.
const BITS_MIN: u32 = 1;

/// Bits that distinguish the finest ranges.
const BITS_MAX: u32 = PULL_BUCKETS_MAX.ilog2();
const _: () = assert!(1 << BITS_MAX == PULL_BUCKETS_MAX);

/// The sums of the finest ranges, kept up to date source by source, and the sources whose slots have changed since. A
/// bounded number of those is summed up again at a time, so that no answer takes long. Until then their ranges count as
/// different from others', and some known slots are sent.
#[derive(Debug)]
pub(super) struct Prints {
    /// Patterns', then queries'.
    sums: Vec<u64>,
    stale: BTreeSet<SourceId>,
    /// How many of them are in each range.
    stale_in: Vec<u32>,
}

impl Prints {
    pub(super) fn new() -> Self {
        let ranges = 2 * PULL_BUCKETS_MAX;
        Self { sums: vec![0; ranges], stale: BTreeSet::new(), stale_in: vec![0; ranges] }
    }

    fn range_of(source: SourceId) -> usize {
        let range = (source.tag() >> (64 - BITS_MAX)) as usize;
        if source.is_pattern() { range } else { range + PULL_BUCKETS_MAX }
    }

    fn sum(&mut self, source: SourceId) -> Option<&mut u64> {
        self.sums.get_mut(Self::range_of(source))
    }

    /// Marks a source that is new, or no longer in its sum.
    pub(super) fn is_stale(&mut self, source: SourceId) {
        if self.stale.insert(source)
            && let Some(count) = self.stale_in.get_mut(Self::range_of(source))
        {
            *count += 1;
        }
    }

    /// Sources that have to be summed up again.
    pub(super) fn stale(&self) -> usize {
        self.stale.len()
    }

    /// The next source to sum up.
    pub(super) fn next_stale(&mut self) -> Option<SourceId> {
        let source = self.stale.first().copied()?;
        self.was_stale(source);
        Some(source)
    }

    fn was_stale(&mut self, source: SourceId) {
        if self.stale.remove(&source)
            && let Some(count) = self.stale_in.get_mut(Self::range_of(source))
        {
            *count = count.saturating_sub(1);
        }
    }

    /// A source's slots are about to change, or have changed; `print` is its part of the sum.
    pub(super) fn changed(&mut self, source: SourceId, print: &mut Option<u64>) {
        if let Some(print) = print.take() {
            self.take(source, print);
            self.is_stale(source);
        }
    }

    /// A source is gone.
    pub(super) fn gone(&mut self, source: SourceId, print: Option<u64>) {
        match print {
            Some(print) => self.take(source, print),
            None => self.was_stale(source),
        }
    }

    pub(super) fn add(&mut self, source: SourceId, print: u64) {
        if let Some(sum) = self.sum(source) {
            *sum = sum.wrapping_add(print);
        }
    }

    fn take(&mut self, source: SourceId, print: u64) {
        if let Some(sum) = self.sum(source) {
            *sum = sum.wrapping_sub(print);
        }
    }
}

/// A node's lessons, summed up by ranges of sources, and the definitions that it lacks. Opaque to the caller: made by
/// `Successors::digest`, sent as bytes, answered by `Successors::answer_pull`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Digest {
    /// The end of the last page: sources before it were compared.
    pub(super) from: Option<SourceId>,
    /// How many bits of a tag distinguish ranges.
    bits: u32,
    /// Patterns' sums, then queries'.
    #[serde(deserialize_with = "at_most::<_, _, { 2 * PULL_BUCKETS_MAX }>")]
    sums: Vec<u64>,
    #[serde(deserialize_with = "at_most::<_, _, PULL_WANTS_MAX>")]
    pub(super) wants: Vec<Name>,
}

impl Digest {
    /// An empty one with ranges for `sources` sources of a kind.
    pub(super) fn sized(sources: usize) -> Self {
        let buckets = (sources / SOURCES_PER_BUCKET).next_power_of_two().min(PULL_BUCKETS_MAX);
        Self::with_bits(buckets.trailing_zeros().max(BITS_MIN))
    }

    fn with_bits(bits: u32) -> Self {
        Self { from: None, bits, sums: vec![0; 2 << bits], wants: Vec::new() }
    }

    /// An empty one with the same ranges.
    pub(super) fn like(&self) -> Self {
        Self::with_bits(self.bits)
    }

    /// Takes over the sums of the finest ranges.
    pub(super) fn sum_up(&mut self, prints: &Prints) {
        let finer = BITS_MAX - self.bits;
        self.sums.fill(0);
        for (range, sum) in prints.sums.iter().enumerate() {
            if let Some(mine) = self.sums.get_mut(range >> finer) {
                *mine = mine.wrapping_add(*sum);
            }
        }
    }

    /// The sources of the ranges in which `other`, with the same ranges, may differ, in their order.
    pub(super) fn differing<'a>(
        &'a self,
        other: &'a Self,
        prints: &Prints,
    ) -> impl Iterator<Item = RangeInclusive<SourceId>> + 'a {
        let mut are_stale = vec![false; self.sums.len()];
        for (range, _) in prints.stale_in.iter().enumerate().filter(|(_, count)| **count > 0) {
            if let Some(is_stale) = are_stale.get_mut(range >> (BITS_MAX - self.bits)) {
                *is_stale = true;
            }
        }
        let sums = self.sums.iter().zip(&other.sums).zip(are_stale).enumerate();
        sums.filter(|(_, ((mine, theirs), is_stale))| mine != theirs || *is_stale).map(|(range, _)| {
            let first = ((range % (1 << self.bits)) as u64) << (64 - self.bits);
            let last = first | (u64::MAX >> self.bits);
            if range < 1 << self.bits {
                SourceId::Pattern(PatternTag(first))..=SourceId::Pattern(PatternTag(last))
            } else {
                SourceId::Query(QueryTag(first))..=SourceId::Query(QueryTag(last))
            }
        })
    }

    /// As bytes, at most [`hopcache_core::limits::PULL_DIGEST_BYTES_MAX`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// Reads [`Self::encode`]; `None` for anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let digest: Self = from_bytes(bytes).ok()?;
        let is_sized = (BITS_MIN..=BITS_MAX).contains(&digest.bits) && digest.sums.len() == 2 << digest.bits;
        is_sized.then_some(digest)
    }
}
