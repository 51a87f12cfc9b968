//! Large futures, each in an allocation of its own.

use std::pin::Pin;

/// A future that is made in its box. `Box::pin` takes one that is made already, and kilobytes were copied three times on their way.
pub(super) fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}
