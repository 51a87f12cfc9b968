//! The memory layer: moka, weighed in bytes. Each copy has its own end of life.
//!
//! moka decides which copies to evict (W-TinyLFU), and when a copy has expired on moka's clock. moka alone lets one
//! principal's flood of new keys evict the working set of other principals. So `principal_shares` makes such a flood
//! evict the principal's own copies (F37). The engine decides from a copy's times whether it is fresh or stale.

mod principal_shares;

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hopcache_core::key::QueryKey;
use hopcache_core::time::Millis;
use hopcache_engine::copy::{MemoryCopy, ScopeTag, SharedCopy};
use hopcache_engine::memory::Memory;
use moka::Expiry;
use moka::ops::compute::{CompResult, Op};
use moka::sync::Cache;
use parking_lot::Mutex;

use principal_shares::{PrincipalShares, Serial};

/// Copies in moka.
pub struct MokaMemory {
    copies: Cache<QueryKey, Kept, KeyBits>,
    shares: Arc<Mutex<PrincipalShares>>,
}

#[derive(Clone)]
struct Kept {
    copy: SharedCopy,
    life_ms: Millis,
    /// Its weight when it was put here. Renderings that were made since then count when the copy is put again.
    bytes: u32,
    serial: Serial,
}

impl MokaMemory {
    /// A memory for `bytes_max` of copies, including renderings and overhead.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        let shares = Arc::new(Mutex::new(PrincipalShares::new(bytes_max)));
        let counted = Arc::clone(&shares);
        let copies = Cache::builder()
            .max_capacity(bytes_max)
            .weigher(|_: &QueryKey, kept: &Kept| kept.bytes)
            .expire_after(EndOfLife)
            // moka calls this once for every copy: when it is replaced, expired, removed, or not admitted.
            .eviction_listener(move |_, kept: Kept, _| {
                counted.lock().remove(kept.copy.owner(), kept.serial, kept.bytes.into());
            })
            .build_with_hasher(KeyBits { secret: rand::random() });
        Self { copies, shares }
    }

    /// Whether it has a copy of this principal.
    #[must_use]
    pub fn has_copies_of(&self, whose: ScopeTag) -> bool {
        // moka counts expired copies until it has swept.
        self.copies.run_pending_tasks();
        self.shares.lock().has(whose)
    }
}

impl Memory for MokaMemory {
    fn get(&self, key: &QueryKey) -> Option<SharedCopy> {
        self.copies.get(key).map(|kept| kept.copy)
    }

    fn put(&self, key: QueryKey, copy: SharedCopy, life_ms: Millis) {
        let bytes = u32::try_from(copy.weight_bytes()).unwrap_or(u32::MAX);
        let (serial, gives_way) = self.shares.lock().add(copy.owner(), key, bytes.into());
        // Outside the lock, because moka may call the listener from here.
        if let Some(oldest) = gives_way {
            self.copies.invalidate(&oldest);
        }
        self.copies.insert(key, Kept { copy, life_ms, bytes, serial });
    }

    fn weigh_again(&self, key: QueryKey, copy: &SharedCopy, life_ms: Millis) {
        let bytes = u32::try_from(copy.weight_bytes()).unwrap_or(u32::MAX);
        let mut counted = None;
        let replaced =
            self.copies.entry(key).and_compute_with(|held| match held.map(moka::Entry::into_value) {
                Some(held) if Arc::ptr_eq(&held.copy, copy) && held.bytes != bytes => {
                    let (serial, gives_way) = self.shares.lock().add(copy.owner(), key, bytes.into());
                    counted = Some((serial, gives_way));
                    Op::Put(Kept { copy: Arc::clone(copy), life_ms, bytes, serial })
                }
                _ => Op::Nop,
            });
        let Some((serial, gives_way)) = counted else { return };
        if !matches!(replaced, CompResult::ReplacedWith(_) | CompResult::Inserted(_)) {
            self.shares.lock().remove(copy.owner(), serial, bytes.into());
        }
        // Only now, because during the computation moka holds a lock that another key may share.
        if let Some(oldest) = gives_way {
            self.copies.invalidate(&oldest);
        }
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

/// moka refuses lifetimes of more than 1,000 years. A century is long enough.
const LIFE_MAX: Millis = Millis(100 * 365 * 24 * 3_600 * 1_000);

/// Hashes a query key. The key is a digest, so one multiplication of its first bytes with a secret of this process is
/// enough. Without the secret, a client could send a node without a cluster key many queries whose digests were chosen to
/// share a bucket (F35).
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
            // The length prefix of the array, and anything that a future `Hash` of the key may add.
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

#[cfg(test)]
mod share_tests;
