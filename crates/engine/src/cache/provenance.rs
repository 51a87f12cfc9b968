//! What a copy came from, where that matters to somebody: a prefetch wants to know whether its copy was used.
//!
//! The cache only passes the word on. Who implements this decides what it means.

use std::fmt::Debug;

use crate::model::inspection::PrefetchedView;

/// The origin of a copy. Dropped with its last copy, so that it learns of every end: eviction, purge, replacement.
pub(crate) trait Provenance: Debug + Send + Sync + 'static {
    /// A client's request is answered with the copy, or a new owner gets it for one.
    fn used(&self);
    /// A client's request had joined the flight that brought the copy.
    fn joined(&self);
    /// The copy is dropped unused; whether it was unused until now.
    fn flush(&self) -> bool;
    /// What there is to say of it.
    fn view(&self) -> PrefetchedView;
    /// Bytes that it takes.
    fn weight_bytes(&self) -> usize;
}
