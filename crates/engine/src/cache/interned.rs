//! What many copies have in common, in memory once: the transactions between which they were read, which change with each write
//! and not with each read, and what their statement depends on.
//!
//! It only shares. A value that is not found here is kept by its copy alone, so a lost place costs bytes and nothing else.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hopcache_core::bookmark::ReadRange;
use hopcache_core::limits::{SHARED_RANGES_MAX, SHARED_READS_MAX};

use crate::model::text_facts::{AnswerReads, Reads};

/// The values that copies share.
#[derive(Debug)]
pub(super) struct Interned {
    ranges: SharedValues<ReadRange>,
    reads: SharedValues<Reads>,
}

/// Values, each in the place of its hash. A new value replaces the old one there, which lives on in its copies.
#[derive(Debug)]
struct SharedValues<T> {
    places: Box<[ArcSwapOption<T>]>,
    // The same in every process, so that a simulated run can be repeated. Values that are chosen to share a place are not shared.
    hasher: BuildHasherDefault<DefaultHasher>,
}

impl Interned {
    pub(super) fn new() -> Self {
        Self { ranges: SharedValues::new(SHARED_RANGES_MAX), reads: SharedValues::new(SHARED_READS_MAX) }
    }

    pub(super) fn range(&self, range: &Arc<ReadRange>) -> Arc<ReadRange> {
        self.ranges.one_of(range)
    }

    pub(super) fn reads(&self, reads: AnswerReads) -> AnswerReads {
        AnswerReads { of_text: self.reads.one_of(&reads.of_text), ..reads }
    }
}

impl<T: Hash + Eq> SharedValues<T> {
    fn new(places: usize) -> Self {
        Self {
            places: (0..places).map(|_| ArcSwapOption::empty()).collect(),
            hasher: BuildHasherDefault::new(),
        }
    }

    /// The shared value that equals this one: an earlier one, or else this.
    fn one_of(&self, value: &Arc<T>) -> Arc<T> {
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let place = self.hasher.hash_one(value) as usize % self.places.len();
        let Some(place) = self.places.get(place) else { return Arc::clone(value) };
        if let Some(held) = &*place.load()
            && **held == **value
        {
            return Arc::clone(held);
        }
        place.store(Some(Arc::clone(value)));
        Arc::clone(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_kept_once_and_a_lost_place_costs_only_that() {
        let shared = SharedValues::new(1);
        let (first, second) = (Arc::new("a".to_owned()), Arc::new("a".to_owned()));
        assert!(Arc::ptr_eq(&shared.one_of(&first), &first));
        assert!(Arc::ptr_eq(&shared.one_of(&second), &first), "the earlier one");
        let other = Arc::new("b".to_owned());
        assert!(Arc::ptr_eq(&shared.one_of(&other), &other), "its own, in the only place");
        assert!(Arc::ptr_eq(&shared.one_of(&second), &second), "the place was lost");
        assert_eq!(Arc::strong_count(&first), 1, "nothing holds what nobody shares");
    }
}
