//! What of its database a copy depends on, and up to which marks no write has ended it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use hopcache_core::tags::TagId;

use super::MemoryCopy;
use crate::model::ask::Query;

/// What a copy depends on. It is not known of a copy that came from another node, until a request brings the query.
#[derive(Debug, Default)]
pub(super) struct Dependence {
    reads: OnceLock<Arc<[TagId]>>,
    /// The version of this node's marks by which no write has ended it; zero: it was not judged.
    judged: AtomicU64,
}

impl Dependence {
    /// The bytes of its tags.
    pub(super) fn weight_bytes(&self) -> Option<usize> {
        self.reads.get().map(|reads| size_of_val(&**reads))
    }
}

impl Clone for Dependence {
    fn clone(&self) -> Self {
        Self { reads: self.reads.clone(), judged: AtomicU64::new(0) }
    }
}

impl MemoryCopy {
    /// The same copy, which depends on what its query reads.
    #[must_use]
    pub(crate) fn of_query(self, query: &Query) -> Self {
        self.know_reads(query);
        self
    }

    /// Notes what it depends on, if that is not known.
    pub(crate) fn know_reads(&self, query: &Query) {
        if self.dependence.reads.get().is_none() {
            let _ = self.dependence.reads.set(Arc::clone(query.reads()));
        }
    }

    /// The tags that it depends on; `None` if they are not known.
    pub(crate) fn reads(&self) -> Option<&[TagId]> {
        self.dependence.reads.get().map(|reads| &**reads)
    }

    /// Whether no write has ended it by the marks of this version.
    pub(crate) fn is_judged_at(&self, version: u64) -> bool {
        self.dependence.judged.load(Ordering::Relaxed) == version
    }

    /// No write has ended it by the marks of this version.
    pub(crate) fn judged_at(&self, version: u64) {
        self.dependence.judged.store(version, Ordering::Relaxed);
    }
}
