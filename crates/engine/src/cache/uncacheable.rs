//! Keys whose last result was too large for an entry: for a while they bypass the cache.

use std::num::NonZeroUsize;

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{UNCACHEABLE_KEYS_MAX, UNCACHEABLE_TTL_MS};
use hopcache_core::time::{Millis, MonoTime};
use lru::LruCache;
use parking_lot::Mutex;

/// Keys, each with its end. The least recently used is forgotten first.
pub(crate) struct Uncacheable(Mutex<LruCache<QueryKey, MonoTime>>);

impl Uncacheable {
    pub(super) fn new() -> Self {
        let keys_max = NonZeroUsize::new(UNCACHEABLE_KEYS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self(Mutex::new(LruCache::new(keys_max)))
    }

    /// Notes that a run of this key has just brought too large a result.
    pub(crate) fn remember(&self, key: QueryKey, now: MonoTime) {
        self.0.lock().put(key, now + Millis(UNCACHEABLE_TTL_MS));
    }

    /// Whether the key bypasses the cache now.
    pub(crate) fn contains(&self, key: &QueryKey, now: MonoTime) -> bool {
        let mut keys = self.0.lock();
        match keys.get(key) {
            Some(until) if *until > now => true,
            Some(_) => {
                keys.pop(key);
                false
            }
            None => false,
        }
    }

    /// Keys remembered.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
