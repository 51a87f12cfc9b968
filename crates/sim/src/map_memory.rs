//! A node's memory in a simulated world: an ordered map that a test can empty or make panic.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hopcache_core::key::QueryKey;
use hopcache_core::time::Millis;
use hopcache_engine::copy::{MemoryCopy, SharedCopy};
use hopcache_engine::memory::Memory;
use parking_lot::Mutex;

use crate::origin::seeded_panic;

/// Copies in an ordered map.
#[derive(Default)]
pub struct MapMemory {
    copies: Mutex<BTreeMap<QueryKey, SharedCopy>>,
    panics_at_put: AtomicBool,
    looks: AtomicU64,
}

impl MapMemory {
    /// How often a key was looked up.
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Forgets everything, as a cache may at any time.
    pub fn forget_all(&self) {
        self.copies.lock().clear();
    }

    /// The next copy that is to be kept panics in the task that brings it.
    pub fn panic_at_next_put(&self) {
        self.panics_at_put.store(true, Ordering::Relaxed);
    }
}

impl Memory for MapMemory {
    fn get(&self, key: &QueryKey) -> Option<SharedCopy> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.copies.lock().get(key).cloned()
    }

    fn put(&self, key: QueryKey, copy: SharedCopy, _: Millis) {
        if self.panics_at_put.swap(false, Ordering::Relaxed) {
            seeded_panic();
        }
        self.copies.lock().insert(key, copy);
    }

    fn remove(&self, key: &QueryKey) -> bool {
        self.copies.lock().remove(key).is_some()
    }

    fn remove_where(&self, covers: &dyn Fn(&QueryKey, &MemoryCopy) -> bool) -> u64 {
        let mut copies = self.copies.lock();
        let before = copies.len();
        copies.retain(|key, copy| !covers(key, copy));
        (before - copies.len()) as u64
    }

    fn size(&self) -> (u64, u64) {
        (self.copies.lock().len() as u64, 0)
    }
}
