//! How many connections one listener may have at a time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of one listener's connections.
#[derive(Debug, Clone)]
pub struct ConnectionSlots {
    free: Arc<Semaphore>,
    places: usize,
}

impl ConnectionSlots {
    /// As many slots as `places`.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(places)), places }
    }

    /// Takes a slot until the permit is dropped; `None` if all are taken.
    #[must_use]
    pub fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// Whether less than an eighth of the slots is free.
    pub(crate) fn is_crowded(&self) -> bool {
        self.free.available_permits() < self.places.div_ceil(8)
    }
}
