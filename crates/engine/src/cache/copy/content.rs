//! The source of a copy's renderings, in as few bytes as it needs.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytes::Bytes;
use hopcache_core::limits::SMALL_FORM_BYTES_MAX;
use hopcache_core::result::ResultSet;

use crate::cache::provenance::Provenance;

/// The source of a copy's renderings.
#[derive(Debug)]
pub(super) enum Content {
    /// The stored form ([`ResultSet::to_bytes`]) in an allocation of its own size. As a tree of names and summary, a small result
    /// takes half as much again. It is copied for whoever needs it as [`Bytes`]: a count of references would take 48 bytes more.
    Small(Box<[u8]>),
    /// Anything else. The box keeps the first variant at two words: it is that of most copies.
    Other(Box<OtherContent>),
}

/// What few copies have. A copy with something beside its stored form has that here too.
#[derive(Debug)]
pub(super) struct OtherContent {
    source: Source,
    /// What fetched it, if that follows the copy's use.
    provenance: Option<Arc<dyn Provenance>>,
}

#[derive(Debug)]
enum Source {
    /// As [`Content::Small`], of a copy that has something beside it.
    Small(Box<[u8]>),
    /// The stored form, shared by all who need it.
    Large(Bytes),
    /// As the origin sent it, for the waiters only and never kept: a large result is not copied for them.
    Passing(Box<ResultSet>),
    /// None: another node's rendering of one form, and how often it was served since its last report to that node.
    Near(AtomicU32),
}

/// The source, wherever it lies.
enum ContentSource<'a> {
    Small(&'a [u8]),
    Large(&'a Bytes),
    Passing(&'a ResultSet),
    Near(&'a AtomicU32),
}

impl Content {
    pub(super) fn stored(form: Vec<u8>) -> Self {
        if form.len() > SMALL_FORM_BYTES_MAX {
            return Self::other(Source::Large(exact(form)));
        }
        Self::Small(boxed(form))
    }

    /// The stored form in an entry. A small one is copied out of the message that it came in.
    pub(super) fn stored_in(form: &Bytes) -> Self {
        if form.len() > SMALL_FORM_BYTES_MAX {
            return Self::other(Source::Large(form.clone()));
        }
        Self::Small(Box::from(&form[..]))
    }

    pub(super) fn passing(result: ResultSet) -> Self {
        Self::other(Source::Passing(Box::new(result)))
    }

    pub(super) fn near() -> Self {
        Self::other(Source::Near(AtomicU32::new(0)))
    }

    fn other(source: Source) -> Self {
        Self::Other(Box::new(OtherContent { source, provenance: None }))
    }

    /// The same content, fetched by this.
    pub(super) fn fetched_by(self, provenance: Option<Arc<dyn Provenance>>) -> Self {
        match (self, provenance) {
            (Self::Small(form), None) => Self::Small(form),
            (Self::Small(form), provenance) => {
                let source = Source::Small(form);
                Self::Other(Box::new(OtherContent { source, provenance }))
            }
            (Self::Other(mut other), provenance) => {
                other.provenance = provenance;
                Self::Other(other)
            }
        }
    }

    /// What fetched it, if that follows the copy's use.
    pub(super) fn provenance(&self) -> Option<&Arc<dyn Provenance>> {
        match self {
            Self::Small(_) => None,
            Self::Other(other) => other.provenance.as_ref(),
        }
    }

    /// The same content, fetched by the same. A near copy has not been served yet.
    pub(super) fn again(&self) -> Self {
        let content = match self.source() {
            ContentSource::Small(form) => Self::Small(Box::from(form)),
            ContentSource::Large(form) => Self::other(Source::Large(form.clone())),
            ContentSource::Passing(result) => Self::passing(result.clone()),
            ContentSource::Near(_) => Self::near(),
        };
        content.fetched_by(self.provenance().cloned())
    }

    /// The stored form, if it has one.
    pub(super) fn stored_form(&self) -> Option<Bytes> {
        match self.source() {
            ContentSource::Small(form) => Some(Bytes::copy_from_slice(form)),
            ContentSource::Large(form) => Some(form.clone()),
            ContentSource::Passing(_) | ContentSource::Near(_) => None,
        }
    }

    pub(super) fn is_small(&self) -> bool {
        matches!(self.source(), ContentSource::Small(_))
    }

    pub(super) fn is_stored(&self) -> bool {
        matches!(self.source(), ContentSource::Small(_) | ContentSource::Large(_))
    }

    pub(super) fn as_passing(&self) -> Option<&ResultSet> {
        match self.source() {
            ContentSource::Passing(result) => Some(result),
            ContentSource::Small(_) | ContentSource::Large(_) | ContentSource::Near(_) => None,
        }
    }

    pub(super) fn near_hits(&self) -> Option<&AtomicU32> {
        match self.source() {
            ContentSource::Near(hits) => Some(hits),
            ContentSource::Small(_) | ContentSource::Large(_) | ContentSource::Passing(_) => None,
        }
    }

    /// Bytes kept alive, with what an allocation of so many takes, and with a reference count.
    pub(super) fn weight_bytes(
        &self,
        alone: impl Fn(usize) -> usize,
        counted: impl Fn(usize) -> usize,
    ) -> usize {
        let source = match self.source() {
            ContentSource::Small(form) => alone(form.len()),
            ContentSource::Large(form) => counted(form.len()),
            ContentSource::Passing(result) => counted(result.weight_bytes()),
            ContentSource::Near(_) => 0,
        };
        match self {
            Self::Small(_) => source,
            Self::Other(_) => source + alone(size_of::<OtherContent>()),
        }
    }

    fn source(&self) -> ContentSource<'_> {
        match self {
            Self::Small(form) => ContentSource::Small(form),
            Self::Other(other) => match &other.source {
                Source::Small(form) => ContentSource::Small(form),
                Source::Large(form) => ContentSource::Large(form),
                Source::Passing(result) => ContentSource::Passing(result),
                Source::Near(hits) => ContentSource::Near(hits),
            },
        }
    }
}

/// Bytes without a vector's spare room, which would stay as long as the copy.
pub(super) fn exact(bytes: Vec<u8>) -> Bytes {
    boxed(bytes).into()
}

/// The allocator leaves a block as it is when it is made smaller by less than half. So the bytes are copied, unless their block is of
/// the size that they need.
fn boxed(bytes: Vec<u8>) -> Box<[u8]> {
    if rounded_bytes(bytes.capacity()) > rounded_bytes(bytes.len()) {
        return Box::from(bytes.as_slice());
    }
    bytes.into_boxed_slice()
}

/// The memory of one allocation, with the allocator's rounding: up to 64 bytes to a multiple of 16, above that up to the next of four
/// steps between powers of two.
pub(super) const fn rounded_bytes(len: usize) -> usize {
    match len {
        0..=8 => len.next_multiple_of(8),
        9..=64 => len.next_multiple_of(16),
        _ => len.next_multiple_of(1 << ((len - 1).ilog2() - 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of mimalloc's blocks (`_mi_bin`).
    #[test]
    fn an_allocation_is_rounded_as_the_allocator_does() {
        let sizes = [0, 1, 8, 9, 16, 33, 40, 49, 64, 65, 80, 129, 1_024, 1_025];
        let blocks = [0, 8, 8, 16, 16, 48, 48, 64, 64, 80, 80, 160, 1_024, 1_280];
        assert_eq!(sizes.map(rounded_bytes), blocks);
    }

    /// What a copy is weighed with is the block where its bytes are.
    #[test]
    fn bytes_stay_in_no_larger_block_than_they_need() {
        for (len, capacity) in [(95, 100), (1_000, 1_100), (1_024, 1_025)] {
            let mut bytes = Vec::with_capacity(capacity);
            bytes.resize(len, 7_u8);
            let block = bytes.as_ptr();
            let boxed = boxed(bytes);
            assert!(boxed.as_ptr() != block && boxed.len() == len, "{len} bytes in a block for {capacity}");
        }
    }
}
