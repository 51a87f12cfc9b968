//! The port to this node's memory of copies.

use std::sync::Arc;

use hopcache_core::key::QueryKey;
use hopcache_core::time::Millis;

use crate::cache::copy::{MemoryCopy, SharedCopy};

/// Copies in this node's memory, bounded in bytes. A cache: it may forget at any time.
pub trait Memory: Send + Sync + 'static {
    /// The copy under a key.
    fn get(&self, key: &QueryKey) -> Option<SharedCopy>;
    /// Keeps a copy until it is dead at the latest.
    fn put(&self, key: QueryKey, copy: SharedCopy, life_ms: Millis);
    /// A copy has become heavier by a rendering. Where it is not held any more it is not put back: a
    /// purge may have come between the look and this.
    fn weigh_again(&self, key: QueryKey, copy: &SharedCopy, life_ms: Millis) {
        if self.get(&key).is_some_and(|held| Arc::ptr_eq(&held, copy)) {
            self.put(key, Arc::clone(copy), life_ms);
        }
    }
    /// Forgets one copy; whether there was one.
    fn remove(&self, key: &QueryKey) -> bool;
    /// Forgets every copy that `covers` says; how many.
    fn remove_where(&self, covers: &dyn Fn(&QueryKey, &MemoryCopy) -> bool) -> u64;
    /// Shows every copy.
    fn look_at(&self, look: &dyn Fn(&QueryKey, &MemoryCopy)) {
        self.remove_where(&|key, copy| {
            look(key, copy);
            false
        });
    }
    /// Copies and bytes held, about.
    fn size(&self) -> (u64, u64);
}
