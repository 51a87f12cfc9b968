//! The memory layer: moka, weighed in bytes, each copy with its own end of life.
//!
//! moka decides what to evict (W-TinyLFU) and when a copy has outlived itself on its own clock; what
//! is fresh or stale is decided by the engine from the copy's times.

use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

use hopcache_core::key::QueryKey;
use hopcache_core::time::Millis;
use hopcache_engine::copy::{MemoryCopy, SharedCopy};
use hopcache_engine::ports::Memory;
use moka::Expiry;
use moka::sync::Cache;

/// Copies in moka.
pub struct MokaMemory {
    copies: Cache<QueryKey, Kept, KeyBits>,
}

#[derive(Clone)]
struct Kept {
    copy: SharedCopy,
    life_ms: Millis,
}

impl MokaMemory {
    /// Room for `bytes_max` of copies, renderings included.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        let copies = Cache::builder()
            .max_capacity(bytes_max)
            .weigher(|_: &QueryKey, kept: &Kept| u32::try_from(kept.copy.weight_bytes()).unwrap_or(u32::MAX))
            .expire_after(EndOfLife)
            .build_with_hasher(KeyBits);
        Self { copies }
    }
}

impl Memory for MokaMemory {
    fn get(&self, key: &QueryKey) -> Option<SharedCopy> {
        self.copies.get(key).map(|kept| kept.copy)
    }

    fn put(&self, key: QueryKey, copy: SharedCopy, life_ms: Millis) {
        self.copies.insert(key, Kept { copy, life_ms });
    }

    fn remove(&self, key: &QueryKey) -> bool {
        self.copies.remove(key).is_some()
    }

    fn remove_where(&self, covers: &dyn Fn(&QueryKey, &MemoryCopy) -> bool) -> u64 {
        let mut removed = 0;
        for (key, kept) in &self.copies {
            if covers(&key, &kept.copy) && self.copies.remove(&*key).is_some() {
                removed += 1;
            }
        }
        removed
    }

    fn size(&self) -> (u64, u64) {
        self.copies.run_pending_tasks();
        (self.copies.entry_count(), self.copies.weighted_size())
    }
}

struct EndOfLife;

impl Expiry<QueryKey, Kept> for EndOfLife {
    fn expire_after_create(&self, _: &QueryKey, kept: &Kept, _: Instant) -> Option<Duration> {
        Some(kept.life_ms.min(LIFE_MAX).duration())
    }

    fn expire_after_update(
        &self,
        _: &QueryKey,
        kept: &Kept,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(kept.life_ms.min(LIFE_MAX).duration())
    }
}

/// moka refuses lives of more than 1,000 years; a century is for ever here.
const LIFE_MAX: Millis = Millis(100 * 365 * 24 * 3_600 * 1_000);

/// A query key is a keyed cryptographic digest: its first bytes are as good a hash as any, and nobody
/// outside can aim them at one bucket (F35).
#[derive(Debug, Clone, Copy, Default)]
struct KeyBits;

struct FirstBytes(u64);

impl BuildHasher for KeyBits {
    type Hasher = FirstBytes;

    fn build_hasher(&self) -> FirstBytes {
        FirstBytes(0)
    }
}

impl Hasher for FirstBytes {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(head) = bytes.first_chunk::<8>()
            && bytes.len() == 32
        {
            self.0 ^= u64::from_ne_bytes(*head);
        } else {
            // The array's length prefix, and whatever else a future `Hash` of the key may add.
            for byte in bytes {
                self.0 = self.0.rotate_left(5) ^ u64::from(*byte);
            }
        }
    }

    fn write_usize(&mut self, _: usize) {}
}
