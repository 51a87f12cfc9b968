//! The memory layer: quick_cache, weighed in bytes.
//!
//! quick_cache decides which copies to evict (a CLOCK-Pro whose hot part a scan does not reach). It knows no end of life:
//! [`CopyMemory::sweep`] removes what is over, and drops renderings that nobody asks for again. Eviction alone would let one
//! principal's flood of new keys evict the working set of other principals. So `principal_shares` makes such a flood evict the
//! principal's own copies (F37). The engine decides from a copy's times whether it is fresh or stale.

mod kept;
mod principal_shares;

use std::convert::Infallible;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    MEMORY_COPY_BYTES_USUAL, MEMORY_SHARD_BYTES, MEMORY_SHARDS_MAX, MEMORY_SWEEP_MS, RENDER_INLINE_BYTES_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::copy::{MemoryCopy, ScopeTag, SharedCopy};
use hopcache_engine::memory::Memory;
use hopcache_engine::worker::apart_if_large;
use parking_lot::Mutex;
use quick_cache::sync::{Cache, EntryAction};
use quick_cache::{Equivalent, Lifecycle, OptionsBuilder, Weighter};

use kept::{Counted, Kept};
use principal_shares::{GivesWay, KeyHead, PrincipalShares};

/// Copies, by their keys.
pub struct CopyMemory {
    copies: Cache<QueryKey, Kept, Weighed, KeyBits, Uncounted>,
    shares: Arc<Mutex<PrincipalShares>>,
    evictions: Arc<AtomicU64>,
    began: Instant,
}

/// What a sweep has found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// Copies whose life was over.
    pub ended: u64,
    /// Copies that lost their renderings.
    pub cooled: u64,
}

#[derive(Debug, Clone, Copy)]
struct Weighed;

impl Weighter<QueryKey, Kept> for Weighed {
    fn weight(&self, _: &QueryKey, kept: &Kept) -> u64 {
        kept.bytes.into()
    }
}

/// Takes copies that were evicted, replaced or not admitted off their principals' accounts.
#[derive(Clone)]
struct Uncounted {
    shares: Arc<Mutex<PrincipalShares>>,
    evictions: Arc<AtomicU64>,
}

impl Lifecycle<QueryKey, Kept> for Uncounted {
    /// Copies that are dropped when the request is over: a large one would hold up its shard.
    type RequestState = Vec<Kept>;

    // Not called for a copy that another one replaces.
    fn before_evict(&self, _: &mut Vec<Kept>, _: &QueryKey, _: &mut Kept) {
        self.evictions.fetch_add(1, Ordering::Relaxed);
    }

    fn on_evict(&self, gone: &mut Vec<Kept>, _: QueryKey, kept: Kept) {
        // Always in this order: a shard of the cache, then the accounts.
        self.shares.lock().remove(kept.copy.owner(), kept.serial(), kept.bytes.into());
        gone.push(kept);
    }
}

impl CopyMemory {
    /// A memory for `bytes_max` of copies, including renderings and overhead.
    ///
    /// # Panics
    /// Never: it gives quick_cache all that its options ask for.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        let shares = Arc::new(Mutex::new(PrincipalShares::new(bytes_max)));
        let options = OptionsBuilder::new()
            .shards(usize::try_from(bytes_max / MEMORY_SHARD_BYTES).unwrap_or(1).clamp(1, MEMORY_SHARDS_MAX))
            .estimated_items_capacity(usize::try_from(bytes_max).unwrap_or(0) / MEMORY_COPY_BYTES_USUAL)
            .weight_capacity(bytes_max)
            .build();
        #[expect(clippy::expect_used, reason = "the two options without a default are given")]
        let options = options.expect("all options");
        let hasher = KeyBits { secret: rand::random() };
        let evictions = Arc::new(AtomicU64::new(0));
        let uncounted = Uncounted { shares: Arc::clone(&shares), evictions: Arc::clone(&evictions) };
        let copies = Cache::with_options(options, Weighed, hasher, uncounted);
        Self { copies, shares, evictions, began: Instant::now() }
    }

    /// Whether it has a copy of this principal, or had one until a moment ago.
    #[must_use]
    pub fn has_copies_of(&self, whose: ScopeTag) -> bool {
        self.shares.lock().has(whose)
    }

    /// Copies so far that were evicted to make room, or were too large.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Removes copies whose life is over, and drops renderings that nobody has asked for since the last sweep. It takes some
    /// fifty nanoseconds for each copy, and never holds a lock for longer than one copy takes.
    pub fn sweep(&self) -> Swept {
        let (now, mut swept) = (self.now(), Swept::default());
        for (key, kept) in self.copies.iter() {
            if now >= kept.ends_at() {
                swept.ended +=
                    u64::from(self.remove_if(&key, |held| SharedCopy::ptr_eq(&held.copy, &kept.copy)));
            } else if kept.copy.cool() {
                self.count_again(key, &kept.copy, None);
                swept.cooled += 1;
            }
        }
        swept
    }

    fn now(&self) -> MonoTime {
        MonoTime(u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn remove_if<K>(&self, key: &K, is_meant: impl Fn(&Kept) -> bool) -> bool
    where
        K: Hash + Equivalent<QueryKey>,
    {
        let Some((_, kept)) = self.copies.remove_if(key, is_meant) else { return false };
        self.shares.lock().remove(kept.copy.owner(), kept.serial(), kept.bytes.into());
        true
    }

    /// Counts a copy by its present weight, if it is still held, and gives it another life if one is named.
    fn count_again(&self, key: QueryKey, copy: &SharedCopy, ends_at: Option<MonoTime>) {
        let bytes = u32::try_from(copy.weight_bytes()).unwrap_or(u32::MAX);
        let is_meant = |held: &Kept| SharedCopy::ptr_eq(&held.copy, copy) && held.own_bytes() != bytes;
        // A look first, so that a key without a copy gets no place.
        if !self.copies.peek(&key).is_some_and(|held| is_meant(&held)) {
            return;
        }
        let mut gives_way = None;
        let counted = self.copies.entry(&key, Some(Duration::ZERO), |_, held| {
            if is_meant(held) {
                let mut shares = self.shares.lock();
                let (counted, oldest) = count(&mut shares, &key, copy, bytes);
                shares.remove(copy.owner(), held.serial(), held.bytes.into());
                gives_way = oldest;
                *held = Kept::new(SharedCopy::clone(copy), ends_at.unwrap_or(held.ends_at()), counted);
            }
            EntryAction::Retain(())
        });
        drop(counted);
        // Only now, because the entry's shard was locked, and another key may share it.
        self.evict(gives_way);
    }

    /// Removes the copy that a principal gives up, unless it is replaced meanwhile.
    fn evict(&self, gives_way: Option<GivesWay>) {
        let Some(GivesWay { key, serial }) = gives_way else { return };
        self.remove_if(&key, |held| held.serial() == serial);
    }
}

impl Memory for CopyMemory {
    fn get(&self, key: &QueryKey) -> Option<SharedCopy> {
        let kept = self.copies.get(key)?;
        (self.now() < kept.ends_at()).then_some(kept.copy)
    }

    fn put(&self, key: QueryKey, copy: SharedCopy, life_ms: Millis) {
        let bytes = u32::try_from(copy.weight_bytes()).unwrap_or(u32::MAX);
        let (counted, gives_way) = count(&mut self.shares.lock(), &key, &copy, bytes);
        self.evict(gives_way);
        self.copies.insert(key, Kept::new(copy, self.now() + life_ms, counted));
    }

    fn weigh_again(&self, key: QueryKey, copy: &SharedCopy, life_ms: Millis) {
        self.count_again(key, copy, Some(self.now() + life_ms));
    }

    fn remove(&self, key: &QueryKey) -> bool {
        self.remove_if(key, |_| true)
    }

    fn remove_where(&self, covers: &dyn Fn(&QueryKey, &MemoryCopy) -> bool) -> u64 {
        let mut removed = 0;
        for (key, kept) in self.copies.iter() {
            removed += u64::from(covers(&key, &kept.copy) && self.remove(&key));
        }
        removed
    }

    fn size(&self) -> (u64, u64) {
        (self.copies.len() as u64, self.copies.weight())
    }
}

/// Counts a copy of this weight. Returns the copy that has to be evicted for it, if any.
fn count(
    shares: &mut PrincipalShares,
    key: &QueryKey,
    copy: &SharedCopy,
    bytes: u32,
) -> (Counted, Option<GivesWay>) {
    let account_bytes = shares.account_bytes(copy.owner());
    let all_bytes = u64::from(bytes.saturating_add(account_bytes));
    let (serial, gives_way) = shares.add(copy.owner(), key, all_bytes);
    (Counted { serial, bytes, account_bytes }, gives_way)
}

/// Sweeps the memory every [`MEMORY_SWEEP_MS`].
pub async fn sweep_for_ever(memory: Arc<CopyMemory>) -> Infallible {
    loop {
        tokio::time::sleep(Duration::from_millis(MEMORY_SWEEP_MS)).await;
        let (memory, (_, bytes)) = (Arc::clone(&memory), memory.size());
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // Many copies take longer than a task may hold a worker.
        apart_if_large(bytes, RENDER_INLINE_BYTES_MAX, move || memory.sweep()).await;
    }
}

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

/// It hashes as its key does.
impl Hash for KeyHead {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.get());
    }
}

impl Equivalent<QueryKey> for KeyHead {
    fn equivalent(&self, key: &QueryKey) -> bool {
        Self::of(key) == *self
    }
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

    fn write_u64(&mut self, head: u64) {
        self.bits ^= head;
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
        let hasher = KeyBits { secret: [3, 5] };
        assert!(aimed.iter().skip(1).all(|key| hasher.hash_one(KeyHead::of(key)) == hasher.hash_one(key)));
        assert_ne!(one, other);
    }
}

#[cfg(test)]
mod share_tests;
