//! The policies that are compared, each with a capacity in bytes.

use std::collections::HashMap;

use lru::LruCache;
use quick_cache::sync::DefaultLifecycle;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// A bounded cache of keys.
pub(super) trait Policy {
    /// Whether the key is there. This is a use of it.
    fn get(&mut self, key: u64) -> bool;
    /// Puts a key that is not there.
    fn put(&mut self, key: u64, weight: u32);
}

/// Every policy, with its name.
pub(super) fn all(capacity: u64) -> Vec<(&'static str, Box<dyn Policy>)> {
    vec![
        ("quick_cache as nodes use it", Box::new(Quick::new(capacity, 1_024))),
        ("quick_cache, twice the ghosts", Box::new(Quick::new(capacity, 512))),
        ("quick_cache, a quarter of the ghosts", Box::new(Quick::new(capacity, 4_096))),
        ("moka (TinyLFU)", Box::new(Moka::new(capacity))),
        ("SIEVE", Box::new(Sieve::new(capacity))),
        ("LRU", Box::new(Lru::new(capacity))),
    ]
}

/// Shards of a node's memory.
const SHARD_BYTES: u64 = 64 << 20;

#[derive(Clone)]
struct Weighed;

impl Weighter<u64, u32> for Weighed {
    fn weight(&self, _: &u64, weight: &u32) -> u64 {
        u64::from(*weight)
    }
}

struct Quick(quick_cache::sync::Cache<u64, u32, Weighed>);

impl Quick {
    /// With the options of a node's memory, but for the size that a copy usually has.
    fn new(capacity: u64, bytes_usual: u64) -> Self {
        let count = |number: u64| usize::try_from(number).unwrap_or(1);
        let options = OptionsBuilder::new()
            .shards(count(capacity / SHARD_BYTES).clamp(1, 64))
            .estimated_items_capacity(count(capacity / bytes_usual))
            .weight_capacity(capacity)
            .build();
        #[expect(clippy::expect_used, reason = "the two options without a default are given")]
        let options = options.expect("all options");
        let hasher = DefaultHashBuilder::default();
        Self(quick_cache::sync::Cache::with_options(options, Weighed, hasher, DefaultLifecycle::default()))
    }
}

impl Policy for Quick {
    fn get(&mut self, key: u64) -> bool {
        self.0.get(&key).is_some()
    }

    fn put(&mut self, key: u64, weight: u32) {
        self.0.insert(key, weight);
    }
}

struct Moka {
    cache: moka::sync::Cache<u64, u32>,
    puts: u32,
}

impl Moka {
    fn new(capacity: u64) -> Self {
        let cache = moka::sync::Cache::builder().max_capacity(capacity).weigher(|_, weight| *weight).build();
        Self { cache, puts: 0 }
    }
}

impl Policy for Moka {
    fn get(&mut self, key: u64) -> bool {
        self.cache.get(&key).is_some()
    }

    fn put(&mut self, key: u64, weight: u32) {
        self.cache.insert(key, weight);
        self.puts += 1;
        // It evicts in batches, from time to time. Here no time passes.
        if self.puts.is_multiple_of(16) {
            self.cache.run_pending_tasks();
        }
    }
}

struct Lru {
    keys: LruCache<u64, u32>,
    weight: u64,
    capacity: u64,
}

impl Lru {
    fn new(capacity: u64) -> Self {
        Self { keys: LruCache::unbounded(), weight: 0, capacity }
    }
}

impl Policy for Lru {
    fn get(&mut self, key: u64) -> bool {
        self.keys.get(&key).is_some()
    }

    fn put(&mut self, key: u64, weight: u32) {
        self.keys.put(key, weight);
        self.weight += u64::from(weight);
        while self.weight > self.capacity {
            let Some((_, weight)) = self.keys.pop_lru() else { return };
            self.weight -= u64::from(weight);
        }
    }
}

/// SIEVE (Zhang and others, NSDI 2024): a queue in the order of arrival, and a hand that walks from the oldest key to the newest. It
/// evicts the first key that was not used since it last passed.
struct Sieve {
    keys: HashMap<u64, Entry>,
    /// Newest and oldest.
    ends: Option<(u64, u64)>,
    hand: Option<u64>,
    weight: u64,
    capacity: u64,
}

struct Entry {
    weight: u32,
    is_used: bool,
    older: Option<u64>,
    newer: Option<u64>,
}

impl Sieve {
    fn new(capacity: u64) -> Self {
        Self { keys: HashMap::new(), ends: None, hand: None, weight: 0, capacity }
    }

    fn evict(&mut self) {
        let Some((_, oldest)) = self.ends else { return };
        let mut at = self.hand.unwrap_or(oldest);
        while let Some(entry) = self.keys.get_mut(&at).filter(|entry| entry.is_used) {
            entry.is_used = false;
            at = entry.newer.unwrap_or(oldest);
        }
        self.hand = self.keys.get(&at).and_then(|entry| entry.newer);
        self.remove(at);
    }

    fn remove(&mut self, key: u64) {
        let (Some(gone), Some((newest, oldest))) = (self.keys.remove(&key), self.ends) else { return };
        self.weight -= u64::from(gone.weight);
        if let Some(older) = gone.older.and_then(|older| self.keys.get_mut(&older)) {
            older.newer = gone.newer;
        }
        if let Some(newer) = gone.newer.and_then(|newer| self.keys.get_mut(&newer)) {
            newer.older = gone.older;
        }
        let newest = if newest == key { gone.older } else { Some(newest) };
        let oldest = if oldest == key { gone.newer } else { Some(oldest) };
        self.ends = newest.zip(oldest);
    }
}

impl Policy for Sieve {
    fn get(&mut self, key: u64) -> bool {
        let Some(entry) = self.keys.get_mut(&key) else { return false };
        entry.is_used = true;
        true
    }

    fn put(&mut self, key: u64, weight: u32) {
        while self.weight + u64::from(weight) > self.capacity && self.ends.is_some() {
            self.evict();
        }
        let older = self.ends.map(|(newest, _)| newest);
        if let Some(entry) = older.and_then(|older| self.keys.get_mut(&older)) {
            entry.newer = Some(key);
        }
        self.ends = Some((key, self.ends.map_or(key, |(_, oldest)| oldest)));
        self.keys.insert(key, Entry { weight, is_used: false, older, newer: None });
        self.weight += u64::from(weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Capacities are kept, keys that are used stay, and a full cache takes new ones.
    #[test]
    fn each_policy_keeps_what_is_used() {
        for (name, mut policy) in all(1 << 20) {
            let mut used = 0;
            for n in 0..20_000_u64 {
                let key = n + 100;
                if !policy.get(key) {
                    policy.put(key, 1_000);
                }
                let hot = n % 20;
                let is_hit = policy.get(hot);
                if !is_hit {
                    policy.put(hot, 1_000);
                }
                used += u32::from(is_hit && n >= 10_000);
            }
            assert!(used > 9_500, "{name}: {used}");
            let held = (0..20_100).filter(|key| policy.get(*key)).count();
            assert!((500..=1_100).contains(&held), "{name}: {held} keys");
        }
    }
}
