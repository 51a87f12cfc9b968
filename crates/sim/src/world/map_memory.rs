//! A node's memory in a simulated world: an ordered map that a test can empty or make panic.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hopcache_core::key::QueryKey;
use hopcache_core::time::Millis;
use hopcache_engine::copy::{MemoryCopy, SharedCopy};
use hopcache_engine::memory::Memory;
use parking_lot::Mutex;

use crate::check::record::{Record, What};
use crate::world::origin::seeded_panic;

/// Copies in an ordered map.
pub struct MapMemory {
    record: Arc<Record>,
    node: usize,
    copies: Mutex<BTreeMap<QueryKey, SharedCopy>>,
    panics_at_put: AtomicBool,
    looks: AtomicU64,
}

impl MapMemory {
    pub(crate) fn new(record: Arc<Record>, node: usize) -> Self {
        Self {
            record,
            node,
            copies: Mutex::default(),
            panics_at_put: AtomicBool::default(),
            looks: AtomicU64::default(),
        }
    }

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
        let forgotten = before - copies.len();
        drop(copies);
        self.record.note(What::Removed { node: self.node });
        forgotten as u64
    }

    fn look_at(&self, look: &dyn Fn(&QueryKey, &MemoryCopy)) {
        self.copies.lock().iter().for_each(|(key, copy)| look(key, copy));
    }

    fn size(&self) -> (u64, u64) {
        (self.copies.lock().len() as u64, 0)
    }
}
