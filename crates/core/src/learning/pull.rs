//! Digests: what a node has, summed up, so that another one can answer with what differs.
//!
//! Sources are divided into ranges by the first bits of their tags, patterns and exact queries apart. A digest has the
//! sum of the slots in each range, from where the last page ended on, and the definitions that are missing. Whoever
//! answers sends all slots of the ranges whose sums differ. Decides what a digest is; never what is in an answer.

use super::definitions::Name;
use super::delta::{put_source, read_source};
use super::wire::{Reader, put_number, put_tag};
use super::{FormId, PatternTag, SourceId};
use crate::limits::{PULL_BUCKETS_MAX, PULL_DIGEST_BYTES_MAX, PULL_WANTS_MAX};

/// Version of what is written here.
const VERSION: u8 = 1;
/// A range has so many sources on average, until there are too many ranges.
const SOURCES_PER_BUCKET: usize = 4;
/// Fewest bits that tell ranges apart, so that shifting by the others is always defined.
const BITS_MIN: u32 = 1;

/// What a node knows, summed up by ranges of sources, and the definitions that it lacks. Opaque to the caller: made by
/// `Successors::digest`, sent as bytes, answered by `Successors::answer_pull`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Where the last page ended: what is before was compared.
    pub(super) from: Option<SourceId>,
    /// How many bits of a tag tell ranges apart.
    bits: u32,
    /// Patterns' sums, then queries'.
    sums: Vec<u64>,
    pub(super) wants: Vec<Name>,
}

impl Digest {
    /// An empty one with ranges for so many sources of a kind.
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

    fn bucket(&self, source: SourceId) -> usize {
        let range = (source.tag() >> (64 - self.bits)) as usize;
        if source.is_pattern() { range } else { range + (1 << self.bits) }
    }

    /// Adds a source's sum to its range.
    pub(super) fn add(&mut self, source: SourceId, print: u64) {
        let bucket = self.bucket(source);
        if let Some(sum) = self.sums.get_mut(bucket) {
            *sum = sum.wrapping_add(print);
        }
    }

    /// Whether `other`, with the same ranges, has something else in the range of `source`.
    pub(super) fn differs(&self, other: &Self, source: SourceId) -> bool {
        let bucket = self.bucket(source);
        self.sums.get(bucket) != other.sums.get(bucket)
    }

    /// As bytes, at most [`PULL_DIGEST_BYTES_MAX`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_source(&mut out, self.from);
        put_number(&mut out, u64::from(self.bits));
        self.sums.iter().for_each(|sum| put_tag(&mut out, *sum));
        for want in &self.wants {
            let (kind, tag) = match want {
                Name::Form(id) => (0, id.0),
                Name::Pattern(tag) => (1, tag.0),
            };
            out.push(kind);
            put_tag(&mut out, tag);
        }
        out
    }

    /// Reads [`Self::encode`]; `None` for anything else, another version's as well.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > PULL_DIGEST_BYTES_MAX {
            return None;
        }
        let mut from = Reader(bytes);
        from.byte().filter(|version| *version == VERSION)?;
        let after = read_source(&mut from)?;
        let bits = from.up_to(PULL_BUCKETS_MAX.ilog2() as usize)? as u32;
        if bits < BITS_MIN {
            return None;
        }
        let sums = (0..2_usize << bits).map(|_| from.tag()).collect::<Option<Vec<_>>>()?;
        let mut wants = Vec::new();
        while !from.is_empty() {
            let kind = from.byte()?;
            let tag = from.tag()?;
            wants.push(match kind {
                0 => Name::Form(FormId(tag)),
                1 => Name::Pattern(PatternTag(tag)),
                _ => return None,
            });
        }
        (wants.len() <= PULL_WANTS_MAX).then_some(Self { from: after, bits, sums, wants })
    }
}
