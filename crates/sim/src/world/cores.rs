//! The cores of a simulated machine: all free, until a scene says otherwise.

use std::sync::atomic::{AtomicBool, Ordering};

use hopcache_engine::ports::Cores;

/// The cores of one node.
#[derive(Debug, Default)]
pub struct SimCores(AtomicBool);

impl SimCores {
    /// From now on they are busy, or free.
    pub fn set_busy(&self, are_busy: bool) {
        self.0.store(are_busy, Ordering::Relaxed);
    }
}

impl Cores for SimCores {
    fn are_busy(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
