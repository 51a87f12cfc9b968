//! Which keys were run lately, in two generations of Bloom filters (Bloom 1970): a key is forgotten after one to two lives.
//!
//! A generation begins with a small filter. When that has its number of keys, a larger one comes beside it (Almeida and others,
//! "Scalable Bloom Filters", 2007). So a node that runs few keys pays for few.
//!
//! A key that was run is always known. One in a thousand others is taken for known.

use crate::key::QueryKey;
use crate::limits::{
    ADMISSION_SEEN_BITS_PER_KEY, ADMISSION_SEEN_FILTER_KEYS, ADMISSION_SEEN_KEYS_MAX, ADMISSION_SEEN_PROBES,
};
use crate::time::{Millis, MonoTime};

const WORD_BITS: usize = u64::BITS as usize;

/// The keys of the present generation, and of the one before.
#[derive(Debug, Clone)]
pub struct RecentKeys {
    young: Generation,
    old: Generation,
    began: MonoTime,
}

/// The keys of one generation. Only the last filter takes new ones.
#[derive(Debug, Clone, Default)]
struct Generation {
    filters: Vec<Filter>,
    keys: u32,
}

#[derive(Debug, Clone)]
struct Filter {
    words: Box<[u64]>,
    /// How many more keys it takes.
    room: u32,
}

impl RecentKeys {
    /// No key was run.
    #[must_use]
    pub fn none(now: MonoTime) -> Self {
        Self { young: Generation::default(), old: Generation::default(), began: now }
    }

    /// Notes a key. Returns whether it was known.
    pub fn see(&mut self, key: &QueryKey, life_ms: Millis, now: MonoTime) -> bool {
        if self.young.keys >= ADMISSION_SEEN_KEYS_MAX || now.since(self.began) >= life_ms {
            self.turn(life_ms, now);
        }
        let was_known = self.old.has(key);
        let is_new = self.young.note(key);
        was_known || !is_new
    }

    /// The present generation becomes the old one. After two lives without a key, both are over.
    fn turn(&mut self, life_ms: Millis, now: MonoTime) {
        let is_over = now.since(self.began) >= Millis(life_ms.0.saturating_mul(2));
        let young = std::mem::take(&mut self.young);
        self.old = if is_over { Generation::default() } else { young };
        self.began = now;
    }
}

impl Generation {
    fn has(&self, key: &QueryKey) -> bool {
        self.filters.iter().any(|filter| filter.has(key))
    }

    /// Returns whether the key was not there.
    fn note(&mut self, key: &QueryKey) -> bool {
        if self.has(key) {
            return false;
        }
        if self.filters.last().is_none_or(|filter| filter.room == 0) {
            self.filters.push(Filter::after(self.filters.len()));
        }
        if let Some(last) = self.filters.last_mut() {
            last.mark(key);
        }
        self.keys += 1;
        true
    }
}

impl Filter {
    /// The filter after so many others. The last size comes again.
    fn after(others: usize) -> Self {
        let sizes = ADMISSION_SEEN_FILTER_KEYS;
        let room = sizes[others.min(sizes.len() - 1)];
        let words = (room as usize * ADMISSION_SEEN_BITS_PER_KEY).div_ceil(WORD_BITS);
        Self { words: vec![0; words].into(), room }
    }

    /// The word and the bit of each probe. A key is a digest, so its own bytes are as good as further hashes.
    fn probes<'a>(&self, key: &'a QueryKey) -> impl Iterator<Item = (usize, u64)> + use<'a> {
        let (parts, _) = key.0.as_chunks::<4>();
        let bits = self.words.len() * WORD_BITS;
        parts.iter().take(ADMISSION_SEEN_PROBES).map(move |part| {
            let bit = u32::from_le_bytes(*part) as usize % bits;
            (bit / WORD_BITS, 1 << (bit % WORD_BITS))
        })
    }

    fn has(&self, key: &QueryKey) -> bool {
        self.probes(key).all(|(word, bit)| self.words[word] & bit != 0)
    }

    fn mark(&mut self, key: &QueryKey) {
        for (word, bit) in self.probes(key) {
            self.words[word] |= bit;
        }
        self.room = self.room.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Millis = Millis(1_000);

    fn at(ms: u64) -> MonoTime {
        MonoTime::default() + Millis(ms)
    }

    #[test]
    fn a_key_is_known_for_a_life_and_forgotten_after_two() {
        let key = QueryKey([7; 32]);
        for (again_ms, is_known) in [(0, true), (999, true), (1_000, true), (1_999, true), (2_000, false)] {
            let mut seen = RecentKeys::none(at(0));
            assert!(!seen.see(&key, LIFE, at(0)));
            assert_eq!(seen.see(&key, LIFE, at(again_ms)), is_known, "{again_ms}");
        }
    }

    #[test]
    fn a_generation_that_is_full_ends_early() {
        let mut seen = RecentKeys::none(at(0));
        let first = QueryKey([9; 32]);
        assert!(!seen.see(&first, LIFE, at(0)));
        seen.young.keys = ADMISSION_SEEN_KEYS_MAX;
        assert!(seen.see(&first, LIFE, at(1)), "it is in the generation before");
        assert_eq!(seen.young.keys, 1);
    }

    fn digest(n: u32) -> QueryKey {
        QueryKey(*blake3::hash(&n.to_le_bytes()).as_bytes())
    }

    #[test]
    fn filters_grow_with_the_keys_and_lose_none() {
        let mut seen = RecentKeys::none(at(0));
        let keys = 2 * ADMISSION_SEEN_FILTER_KEYS[0] + ADMISSION_SEEN_FILTER_KEYS[1];
        let wrong = (0..keys).filter(|n| seen.see(&digest(*n), LIFE, at(0))).count();
        assert!(wrong <= keys as usize / 1_000, "{wrong} of {keys} were taken for known");
        assert!((0..keys).all(|n| seen.see(&digest(n), LIFE, at(0))));
        assert_eq!(seen.young.filters.len(), 3);
        let bytes: usize = seen.young.filters.iter().map(|filter| filter.words.len() * 8).sum();
        assert!(bytes < 1 << 18, "{bytes} bytes for {keys} keys");
    }

    #[test]
    fn a_full_generation_takes_few_others_for_known() {
        let mut seen = RecentKeys::none(at(0));
        for n in 0..ADMISSION_SEEN_KEYS_MAX - 1_000 {
            seen.see(&digest(n), LIFE, at(0));
        }
        let others = ADMISSION_SEEN_KEYS_MAX..ADMISSION_SEEN_KEYS_MAX + 20_000;
        let wrong = others.filter(|n| seen.young.has(&digest(*n))).count();
        assert!(wrong <= 20, "{wrong} of 20,000");
    }
}
