//! The provenance of a copy: a prefetch learns whether its copy was used.
//!
//! The cache only passes events on. The implementation decides their meaning.

use std::fmt::Debug;

use crate::model::inspection::PrefetchedView;

/// The provenance of a copy. It is dropped with its last copy, so that it learns of every end: eviction, purge,
/// replacement.
pub(crate) trait Provenance: Debug + Send + Sync + 'static {
    /// The copy answers a client's request, or a new owner gets it for one.
    fn used(&self);
    /// A client's request joined the flight that brought the copy.
    fn joined(&self);
    /// The copy is dropped. Returns whether it was unused until now.
    fn flush(&self) -> bool;
    /// Its view for `explain`.
    fn view(&self) -> PrefetchedView;
    /// Bytes that it takes.
    fn weight_bytes(&self) -> usize;
}
