//! What is remembered of keys that were run or asked for lately: no allocation for each, and no list.
//!
//! It decides which keys are forgotten. A key has four slots, by its digest, in the order of their use. A new key takes the place
//! of the last one of its four. Two keys whose digests begin with the same 63 bits count as one: nothing here decides what is served.

use hopcache_core::key::QueryKey;

/// Slots of one set.
const WAYS: usize = 4;

/// Values by key.
#[derive(Debug)]
pub(super) struct KeyTable<V> {
    /// A power of two of them. It grows until it has the most.
    sets: Vec<[Slot<V>; WAYS]>,
    sets_max: usize,
    len: usize,
}

/// An empty one has the tag 0.
#[derive(Debug, Clone, Default)]
struct Slot<V> {
    tag: u64,
    value: V,
}

impl<V: Clone + Default> KeyTable<V> {
    /// An empty table, for `keys_max` keys, which is a power of two of at least four.
    pub(super) fn new(keys_max: usize) -> Self {
        Self { sets: vec![Self::empty()], sets_max: (keys_max / WAYS).max(1), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The value of a key. This is no use of it.
    pub(super) fn peek(&self, key: &QueryKey) -> Option<&V> {
        let tag = tag_of(key);
        self.sets[self.set_of(tag)].iter().find(|slot| slot.tag == tag).map(|slot| &slot.value)
    }

    /// The value of a key, a new one if there is none.
    pub(super) fn get_or_insert(&mut self, key: &QueryKey, new: impl FnOnce() -> V) -> &mut V {
        let tag = tag_of(key);
        if self.sets[self.set_of(tag)].iter().all(|slot| slot.tag != tag) {
            self.insert(Slot { tag, value: new() });
        }
        let at = self.set_of(tag);
        let set = &mut self.sets[at];
        let place = set.iter().position(|slot| slot.tag == tag).unwrap_or(0);
        set[..=place].rotate_right(1);
        &mut set[0].value
    }

    fn insert(&mut self, slot: Slot<V>) {
        while self.sets.len() < self.sets_max && self.is_full(slot.tag) {
            self.grow();
        }
        let at = self.set_of(slot.tag);
        let set = &mut self.sets[at];
        set.rotate_right(1);
        self.len += usize::from(set[0].tag == 0);
        set[0] = slot;
    }

    /// Whether a further key would make another one forgotten.
    fn is_full(&self, tag: u64) -> bool {
        self.sets[self.set_of(tag)].iter().all(|slot| slot.tag != 0)
    }

    /// Twice as many sets. Each key of a set goes to one of two, so nothing is forgotten.
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.sets);
        self.sets = vec![Self::empty(); old.len() * 2];
        self.len = 0;
        for set in old {
            // The last used one is put last, and is the first again.
            set.into_iter().rev().filter(|slot| slot.tag != 0).for_each(|slot| self.insert(slot));
        }
    }

    fn set_of(&self, tag: u64) -> usize {
        let bits = (tag >> 1) as usize;
        bits & (self.sets.len() - 1)
    }

    fn empty() -> [Slot<V>; WAYS] {
        std::array::from_fn(|_| Slot { tag: 0, value: V::default() })
    }
}

/// Never 0.
fn tag_of(key: &QueryKey) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = key.0;
    u64::from_le_bytes([a, b, c, d, e, f, g, h]) | 1
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
    fn nothing_is_forgotten_while_the_table_grows() {
        let mut table = KeyTable::new(1 << 16);
        (0..2_000).for_each(|n| *table.get_or_insert(&key(n), || 0) = n);
        assert!((0..2_000).all(|n| table.peek(&key(n)) == Some(&n)));
        assert_eq!(table.len(), 2_000);
        assert!(table.sets.len() <= 16 << 10);
    }
}
