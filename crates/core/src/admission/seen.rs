//! Which keys were run lately, in two generations of a Bloom filter (Bloom 1970): a key is forgotten after one to two lives.
//!
//! A key that was run is always known. One in a thousand others is taken for known.

use crate::key::QueryKey;
use crate::limits::{ADMISSION_SEEN_BITS, ADMISSION_SEEN_KEYS_MAX, ADMISSION_SEEN_PROBES};
use crate::time::{Millis, MonoTime};

const WORD_BITS: usize = u64::BITS as usize;

/// The keys of the present generation, and of the one before.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// Empty until its first key.
    young: Vec<u64>,
    old: Vec<u64>,
    young_keys: u32,
    began: MonoTime,
}

impl Seen {
    pub(super) const fn none(now: MonoTime) -> Self {
        Self { young: Vec::new(), old: Vec::new(), young_keys: 0, began: now }
    }

    /// Notes a key. Returns whether it was known.
    pub(super) fn see(&mut self, key: &QueryKey, life_ms: Millis, now: MonoTime) -> bool {
        if self.young_keys >= ADMISSION_SEEN_KEYS_MAX || now.since(self.began) >= life_ms {
            self.turn(life_ms, now);
        }
        if self.young.is_empty() {
            self.young.resize(ADMISSION_SEEN_BITS / WORD_BITS, 0);
        }
        let was_known = has(&self.old, key);
        let is_new = mark(&mut self.young, key);
        self.young_keys += u32::from(is_new);
        was_known || !is_new
    }

    /// The present generation becomes the old one. After two lives without a key, both are over.
    fn turn(&mut self, life_ms: Millis, now: MonoTime) {
        let is_over = now.since(self.began) >= Millis(life_ms.0.saturating_mul(2));
        std::mem::swap(&mut self.young, &mut self.old);
        self.young.fill(0);
        if is_over {
            self.old.fill(0);
        }
        (self.young_keys, self.began) = (0, now);
    }
}

/// The word and the bit of each probe. A key is a digest, so its own bytes are as good as further hashes.
fn probes(key: &QueryKey) -> impl Iterator<Item = (usize, u64)> {
    let (parts, _) = key.0.as_chunks::<4>();
    parts.iter().take(ADMISSION_SEEN_PROBES).map(|part| {
        let bit = u32::from_le_bytes(*part) as usize % ADMISSION_SEEN_BITS;
        (bit / WORD_BITS, 1 << (bit % WORD_BITS))
    })
}

fn has(words: &[u64], key: &QueryKey) -> bool {
    probes(key).all(|(word, bit)| words.get(word).is_some_and(|word| word & bit != 0))
}

/// Returns whether the key was not there.
fn mark(words: &mut [u64], key: &QueryKey) -> bool {
    let mut is_new = false;
    for (word, bit) in probes(key) {
        if let Some(word) = words.get_mut(word) {
            is_new |= *word & bit == 0;
            *word |= bit;
        }
    }
    is_new
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
            let mut seen = Seen::none(at(0));
            assert!(!seen.see(&key, LIFE, at(0)));
            assert_eq!(seen.see(&key, LIFE, at(again_ms)), is_known, "{again_ms}");
        }
    }

    #[test]
    fn a_generation_that_is_full_ends_early() {
        let mut seen = Seen::none(at(0));
        let first = QueryKey([9; 32]);
        assert!(!seen.see(&first, LIFE, at(0)));
        seen.young_keys = ADMISSION_SEEN_KEYS_MAX;
        assert!(seen.see(&first, LIFE, at(1)), "it is in the generation before");
        assert_eq!(seen.young_keys, 1);
    }
}
