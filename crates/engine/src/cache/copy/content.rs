//! The source of a copy's renderings, in as few bytes as it needs.

use std::sync::atomic::AtomicU32;

use bytes::Bytes;
use hopcache_core::limits::SMALL_FORM_BYTES_MAX;
use hopcache_core::result::ResultSet;

/// The source of a copy's renderings.
#[derive(Debug)]
pub(super) enum Content {
    /// The stored form ([`ResultSet::to_bytes`]) in an allocation of its own size. As a tree of names and summary, a small result
    /// takes half as much again. It is copied for whoever needs it as [`Bytes`]: a count of references would take 48 bytes more.
    Small(Box<[u8]>),
    /// Anything else. The box keeps the first variant at two words: it is that of most copies.
    Other(Box<OtherContent>),
}

#[derive(Debug)]
pub(super) enum OtherContent {
    /// The stored form, shared by all who need it.
    Large(Bytes),
    /// As the origin sent it, for the waiters only and never kept: a large result is not copied for them.
    Passing(ResultSet),
    /// None: another node's rendering of one form, and how often it was served since its last report to that node.
    Near(AtomicU32),
}

impl Content {
    pub(super) fn stored(form: Vec<u8>) -> Self {
        if form.len() > SMALL_FORM_BYTES_MAX {
            return Self::other(OtherContent::Large(exact(form)));
        }
        Self::Small(boxed(form))
    }

    /// The stored form in an entry. A small one is copied out of the message that it came in.
    pub(super) fn stored_in(form: &Bytes) -> Self {
        if form.len() > SMALL_FORM_BYTES_MAX {
            return Self::other(OtherContent::Large(form.clone()));
        }
        Self::Small(Box::from(&form[..]))
    }

    pub(super) fn passing(result: ResultSet) -> Self {
        Self::other(OtherContent::Passing(result))
    }

    pub(super) fn near() -> Self {
        Self::other(OtherContent::Near(AtomicU32::new(0)))
    }

    fn other(other: OtherContent) -> Self {
        Self::Other(Box::new(other))
    }

    /// The same content. A near copy has not been served yet.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::Small(form) => Self::Small(form.clone()),
            Self::Other(other) => Self::other(match &**other {
                OtherContent::Large(form) => OtherContent::Large(form.clone()),
                OtherContent::Passing(result) => OtherContent::Passing(result.clone()),
                OtherContent::Near(_) => OtherContent::Near(AtomicU32::new(0)),
            }),
        }
    }

    /// The stored form, if it has one.
    pub(super) fn stored_form(&self) -> Option<Bytes> {
        match self {
            Self::Small(form) => Some(Bytes::copy_from_slice(form)),
            Self::Other(other) => match &**other {
                OtherContent::Large(form) => Some(form.clone()),
                OtherContent::Passing(_) | OtherContent::Near(_) => None,
            },
        }
    }

    pub(super) fn is_small(&self) -> bool {
        matches!(self, Self::Small(_))
    }

    pub(super) fn is_stored(&self) -> bool {
        match self {
            Self::Small(_) => true,
            Self::Other(other) => matches!(**other, OtherContent::Large(_)),
        }
    }

    pub(super) fn as_passing(&self) -> Option<&ResultSet> {
        match self {
            Self::Other(other) => match &**other {
                OtherContent::Passing(result) => Some(result),
                OtherContent::Large(_) | OtherContent::Near(_) => None,
            },
            Self::Small(_) => None,
        }
    }

    pub(super) fn near_hits(&self) -> Option<&AtomicU32> {
        match self {
            Self::Other(other) => match &**other {
                OtherContent::Near(hits) => Some(hits),
                OtherContent::Large(_) | OtherContent::Passing(_) => None,
            },
            Self::Small(_) => None,
        }
    }

    /// Bytes kept alive, with what an allocation of so many takes, and with a reference count.
    pub(super) fn weight_bytes(
        &self,
        alone: impl Fn(usize) -> usize,
        counted: impl Fn(usize) -> usize,
    ) -> usize {
        match self {
            Self::Small(form) => alone(form.len()),
            Self::Other(other) => match &**other {
                OtherContent::Large(form) => counted(form.len()),
                OtherContent::Passing(result) => counted(result.weight_bytes()),
                OtherContent::Near(_) => 0,
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
