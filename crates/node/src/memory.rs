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
            .build_with_hasher(KeyBits { secret: rand::random() });
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

/// A query key is a digest, so its first bytes need no more than one multiplication with a secret of this
/// process. Without the secret, a node that has no cluster key could be sent keys whose digests were computed
/// beforehand to share a bucket (F35).
#[derive(Debug, Clone, Copy)]
struct KeyBits {
    secret: [u64; 2],
}

struct FirstBytes {
    secret: [u64; 2],
    bits: u64,
}

impl BuildHasher for KeyBits {
    type Hasher = FirstBytes;

    fn build_hasher(&self) -> FirstBytes {
        FirstBytes { secret: self.secret, bits: 0 }
    }
}

impl Hasher for FirstBytes {
    fn finish(&self) -> u64 {
        let product = u128::from(self.bits ^ self.secret[0]) * u128::from(self.secret[1] | 1);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
        let folded = (product >> 64) as u64 ^ product as u64;
        folded
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(head) = bytes.first_chunk::<8>()
            && bytes.len() == 32
        {
            self.bits ^= u64::from_ne_bytes(*head);
        } else {
            // The array's length prefix, and whatever else a future `Hash` of the key may add.
            for byte in bytes {
                self.bits = self.bits.rotate_left(5) ^ u64::from(*byte);
            }
        }
    }

    fn write_usize(&mut self, _: usize) {}
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// F35: keys that agree in every bit but a few are spread, and two processes spread them differently.
    #[test]
    fn aimed_keys_are_spread() {
        let aimed: Vec<_> = (0..4096_u64)
            .map(|at| {
                let mut key = [7; 32];
                key[..8].copy_from_slice(&(at << 32).to_le_bytes());
                QueryKey(key)
            })
            .collect();
        let low_bits =
            |hasher: &KeyBits| -> Vec<u64> { aimed.iter().map(|key| hasher.hash_one(key) & 4095).collect() };
        let one = low_bits(&KeyBits { secret: [0x1234_5678_9abc_def1, 0x9e37_79b9_7f4a_7c15] });
        let other = low_bits(&KeyBits { secret: [0x0fed_cba9_8765_4321, 0xc2b2_ae3d_27d4_eb4f] });
        assert!(one.iter().collect::<HashSet<_>>().len() > 2_000);
        assert_ne!(one, other);
    }
}
