//! The port to this node's memory of copies.

use hopcache_core::key::QueryKey;
use hopcache_core::time::Millis;

use crate::cache::copy::{MemoryCopy, SharedCopy};

/// Copies in this node's memory, bounded in bytes. A cache: it may forget at any time.
pub trait Memory: Send + Sync + 'static {
    /// The copy under a key.
    fn get(&self, key: &QueryKey) -> Option<SharedCopy>;
    /// Keeps a copy, until it is dead at the latest.
    fn put(&self, key: QueryKey, copy: SharedCopy, life_ms: Millis);
    /// Weighs a copy again that a rendering made heavier. A copy that is no longer held is not put back, because a
    /// purge may have come since the look.
    fn weigh_again(&self, key: QueryKey, copy: &SharedCopy, life_ms: Millis) {
        if self.get(&key).is_some_and(|held| SharedCopy::ptr_eq(&held, copy)) {
            self.put(key, SharedCopy::clone(copy), life_ms);
        }
    }
    /// Forgets one copy. Returns whether there was one.
    fn remove(&self, key: &QueryKey) -> bool;
    /// Forgets every copy that `covers` selects. Returns how many.
    fn remove_where(&self, covers: &dyn Fn(&QueryKey, &MemoryCopy) -> bool) -> u64;
    /// Shows every copy.
    fn look_at(&self, look: &dyn Fn(&QueryKey, &MemoryCopy)) {
        self.remove_where(&|key, copy| {
            look(key, copy);
            false
        });
    }
    /// Copies and bytes held, approximately.
    fn size(&self) -> (u64, u64);
}
