//! What is remembered of keys that were run or asked for lately: no allocation for each, and no list. It grows with their number.
//!
//! It decides which keys are forgotten. When it is full, a hand goes around over the keys, and a new one takes the place of the
//! first that was not used since the hand last came by (the clock algorithm: Corbató, "A Paging Experiment with the Multics System",
//! 1969). Two keys whose digests agree in 63 bits count as one: nothing here decides what is served.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::HISTORY_HAND_PLACES;

/// Slots that are taken at once.
const CHUNK_SLOTS: usize = 1 << 10;
/// The bit of a slot's tag that says whether it was used since the hand last came by.
const USED: u64 = 1;

/// Values by key.
pub(super) struct KeyTable<V> {
    /// Numbers of slots, by tag.
    numbers: HashTable<u32>,
    /// Full ones, and the last one.
    chunks: Vec<Vec<Slot<V>>>,
    keys_max: usize,
    /// The number of the slot that the hand comes to next.
    hand: u32,
    /// Of this process, so that no client can aim keys at one place (F35).
    secret: [u64; 2],
}

struct Slot<V> {
    tag: u64,
    value: V,
}

impl<V> KeyTable<V> {
    /// An empty table, for `keys_max` keys.
    pub(super) fn new(keys_max: usize) -> Self {
        let secret = [0_u8, 1].map(|part| RandomState::new().hash_one(part));
        Self { numbers: HashTable::new(), chunks: Vec::new(), keys_max, hand: 0, secret }
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The value of a key. This is no use of it.
    pub(super) fn peek(&self, key: &QueryKey) -> Option<&V> {
        let number = self.find(tag_of(key))?;
        self.chunks.get(chunk_of(number))?.get(place_of(number)).map(|slot| &slot.value)
    }

    /// The value of a key, a new one if there is none. A new key counts as used when it comes again.
    pub(super) fn get_or_insert(&mut self, key: &QueryKey, new: impl FnOnce() -> V) -> &mut V {
        let tag = tag_of(key);
        let number = match self.find(tag) {
            Some(number) => {
                self.chunks[chunk_of(number)][place_of(number)].tag |= USED;
                number
            }
            None => self.insert(Slot { tag, value: new() }),
        };
        &mut self.chunks[chunk_of(number)][place_of(number)].value
    }

    fn find(&self, tag: u64) -> Option<u32> {
        let is_meant = |number: &u32| self.chunks[chunk_of(*number)][place_of(*number)].tag & !USED == tag;
        self.numbers.find(hash_of(self.secret, tag), is_meant).copied()
    }

    fn insert(&mut self, slot: Slot<V>) -> u32 {
        let (secret, tag) = (self.secret, slot.tag);
        let number = if self.len() < self.keys_max { self.push(slot) } else { self.replace(slot) };
        let chunks = &self.chunks;
        let hash = |number: &u32| hash_of(secret, chunks[chunk_of(*number)][place_of(*number)].tag & !USED);
        self.numbers.insert_unique(hash_of(secret, tag), number, hash);
        number
    }

    fn push(&mut self, slot: Slot<V>) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_SLOTS) {
            self.chunks.push(Vec::with_capacity(CHUNK_SLOTS.min(self.keys_max)));
        }
        let number = self.len();
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(slot);
        }
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    /// Puts a slot in the place of another key. After so many keys that were all used, the next one has to go.
    fn replace(&mut self, slot: Slot<V>) -> u32 {
        let mut number = self.hand;
        for _ in 0..HISTORY_HAND_PLACES {
            number = self.hand;
            self.hand = if number as usize + 1 < self.len() { number + 1 } else { 0 };
            let held = &mut self.chunks[chunk_of(number)][place_of(number)];
            if held.tag & USED == 0 {
                break;
            }
            held.tag &= !USED;
        }
        let held = std::mem::replace(&mut self.chunks[chunk_of(number)][place_of(number)], slot);
        let gone = self.numbers.find_entry(hash_of(self.secret, held.tag & !USED), |held| *held == number);
        if let Ok(gone) = gone {
            gone.remove();
        }
        number
    }
}

const fn chunk_of(number: u32) -> usize {
    number as usize / CHUNK_SLOTS
}

const fn place_of(number: u32) -> usize {
    number as usize % CHUNK_SLOTS
}

fn tag_of(key: &QueryKey) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = key.0;
    u64::from_le_bytes([a, b, c, d, e, f, g, h]) & !USED
}

/// The tag is of a digest, so one multiplication is enough.
fn hash_of(secret: [u64; 2], tag: u64) -> u64 {
    let product = u128::from(tag ^ secret[0]) * u128::from(secret[1] | 1);
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    let folded = (product >> 64) as u64 ^ product as u64;
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> QueryKey {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17).to_le_bytes());
        QueryKey(key)
    }

    #[test]
    fn keys_are_remembered_up_to_the_bound_and_what_is_used_stays() {
        let mut table = KeyTable::new(1 << 10);
        for n in 0..100_000 {
            *table.get_or_insert(&key(7), || 0) += 1;
            *table.get_or_insert(&key(n + 100), || n) += 1;
            assert!(table.len() <= 1 << 10);
        }
        assert_eq!(table.peek(&key(7)), Some(&100_000), "it was used all the time");
        assert_eq!(table.peek(&key(100_099)), Some(&100_000));
        assert_eq!(table.peek(&key(100)), None, "it was used once, long ago");
        assert_eq!(table.len(), 1 << 10);
    }

    #[test]
    fn where_all_are_used_a_new_key_still_finds_a_place() {
        let mut table = KeyTable::new(1 << 10);
        for _ in 0..2 {
            (0..1 << 10).for_each(|n| *table.get_or_insert(&key(n), || 0) = n);
        }
        (5_000..5_100).for_each(|n| *table.get_or_insert(&key(n), || 0) = n);
        assert!((5_000..5_100).filter(|n| table.peek(&key(*n)) == Some(n)).count() >= 50);
        assert_eq!(table.len(), 1 << 10);
    }

    #[test]
    fn nothing_is_forgotten_while_the_table_grows_and_it_grows_with_its_keys() {
        let mut table = KeyTable::new(1 << 16);
        (0..2_000).for_each(|n| *table.get_or_insert(&key(n), || 0) = n);
        assert!((0..2_000).all(|n| table.peek(&key(n)) == Some(&n)));
        assert_eq!(table.len(), 2_000);
        let slots: usize = table.chunks.iter().map(Vec::capacity).sum();
        assert!(slots < 2_000 + CHUNK_SLOTS, "{slots} slots");
    }
}
