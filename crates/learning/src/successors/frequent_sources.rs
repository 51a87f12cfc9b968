//! The most frequent sources, searched in slices, so that a search does not hold the model for all of them at once.
//!
//! Decides the order; the caller decides which sources it wants.

use std::ops::Bound;

use hopcache_core::time::MonoTime;

use super::{SourceView, Successors};
use crate::SourceId;

/// The wanted sources of one slice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceSlice {
    /// Each with its sightings, decayed.
    pub wanted: Vec<(SourceId, f64)>,
    /// The source after which the next slice begins; `None` at the end.
    pub next: Option<SourceId>,
}

/// The most frequent sources of several slices.
#[derive(Debug)]
pub struct FrequentSources {
    max: usize,
    found: Vec<(SourceId, f64)>,
}

impl FrequentSources {
    /// Empty, for at most `max` sources.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self { max, found: Vec::new() }
    }

    /// Takes some more, and drops the excess.
    pub fn take(&mut self, some: impl IntoIterator<Item = (SourceId, f64)>) {
        self.found.extend(some);
        if self.found.len() > self.max {
            self.found.sort_unstable_by(Self::order);
            self.found.truncate(self.max);
        }
    }

    /// The sources, most frequent first.
    #[must_use]
    pub fn sources(mut self) -> Vec<SourceId> {
        self.found.sort_unstable_by(Self::order);
        self.found.into_iter().map(|(source, _)| source).collect()
    }

    fn order(a: &(SourceId, f64), b: &(SourceId, f64)) -> std::cmp::Ordering {
        b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
    }
}

impl Successors {
    /// All pattern sources, most frequent first, at most `max`.
    #[must_use]
    pub fn patterns(&self, max: usize, now: MonoTime) -> Vec<SourceView> {
        let mut most = FrequentSources::new(max);
        most.take(self.seen_slice(None, usize::MAX, now, |source, _| source.is_pattern()).wanted);
        most.sources().into_iter().filter_map(|source| self.view(source, now)).collect()
    }

    /// The wanted ones of the `count` sources after `from`, in the order of their ids. `is_wanted` gets each with its
    /// text, if it is a pattern's and known. Exact queries without successors are left out.
    pub fn seen_slice(
        &self,
        from: Option<SourceId>,
        count: usize,
        now: MonoTime,
        mut is_wanted: impl FnMut(SourceId, Option<&str>) -> bool,
    ) -> SourceSlice {
        let behind = (from.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let mut slice = SourceSlice::default();
        let mut looked_at = 0;
        for (source, held) in self.table.sources.range(behind).take(count) {
            looked_at += 1;
            slice.next = Some(*source);
            let text = match source {
                SourceId::Pattern(tag) => self.pattern(*tag),
                SourceId::Query(_) if held.forms.is_empty() => continue,
                SourceId::Query(_) => None,
            };
            if is_wanted(*source, text) {
                slice.wanted.push((*source, held.any.value(&self.table.lives, now).seen));
            }
        }
        slice.next = slice.next.filter(|_| looked_at == count);
        slice
    }
}
