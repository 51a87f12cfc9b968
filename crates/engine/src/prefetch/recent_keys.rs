//! Keys of the last moment, in a table without a lock: each hit of a node asks it once.
//!
//! Each key has one place, by its digest. The place holds another part of the digest, and a time. A key that takes the
//! place of another one makes that one new again: its successors are considered once more, which is harmless. A hit of
//! a key that is there reads one number and writes nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::key::QueryKey;
use hopcache_core::time::{Millis, MonoTime};

/// A key's place as a number: part of its digest in the upper half, milliseconds in the lower. 0 is free.
pub(super) struct RecentKeys {
    places: Box<[AtomicU64]>,
    kept_ms: Millis,
}

impl RecentKeys {
    /// Room for about `most` keys, each remembered for `kept_ms`.
    pub(super) fn new(most: usize, kept_ms: Millis) -> Self {
        let places = (0..most.max(1)).map(|_| AtomicU64::new(0)).collect();
        Self { places, kept_ms }
    }

    /// Whether the key did not come in the last moment. If so, it has come now.
    pub(super) fn is_first(&self, key: &QueryKey, now: MonoTime) -> bool {
        let [place, print, ..] = key_parts(key);
        let count = self.places.len() as u64;
        let Some(place) = usize::try_from(place % count).ok().and_then(|place| self.places.get(place)) else {
            return true;
        };
        // The low half holds 49 days. After that time an old key may count as recent once.
        let (print, now_ms) = ((print & PRINT).max(1), (now.0 / 1_000) & TIME);
        let held = place.load(Ordering::Relaxed);
        let is_same = |held: u64| held >> 32 == print;
        let age_ms = now_ms.wrapping_sub(held & TIME) & TIME;
        if is_same(held) && age_ms < self.kept_ms.0 {
            return false;
        }
        match place.compare_exchange(held, (print << 32) | now_ms, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            // Another request came in between: of this key, or of one with the same place.
            Err(held) => !is_same(held),
        }
    }

    /// Places that are taken.
    pub(super) fn len(&self) -> usize {
        self.places.iter().filter(|place| place.load(Ordering::Relaxed) != 0).count()
    }
}

const PRINT: u64 = u32::MAX as u64;
const TIME: u64 = u32::MAX as u64;

/// The parts of a digest, each evenly spread.
fn key_parts(key: &QueryKey) -> [u64; 4] {
    let (parts, _) = key.0.as_chunks::<8>();
    std::array::from_fn(|part| parts.get(part).copied().map_or(0, u64::from_le_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Millis = Millis(1_000);

    fn key(number: u64) -> QueryKey {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(number % 7).to_le_bytes());
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        QueryKey(bytes)
    }

    const fn at(ms: u64) -> MonoTime {
        MonoTime(ms * 1_000)
    }

    #[test]
    fn a_key_is_first_once_in_a_while() {
        let recent = RecentKeys::new(64, KEPT);
        // Also around the wrap of the milliseconds.
        for start in [0, 5, (1 << 32) - 500, 1 << 40] {
            assert!(recent.is_first(&key(3), at(start)), "{start}");
            assert!(!recent.is_first(&key(3), at(start)));
            assert!(!recent.is_first(&key(3), at(start + 999)));
            assert!(recent.is_first(&key(3), at(start + 1_000)));
            recent.is_first(&key(10), at(start + 1_000));
        }
    }

    #[test]
    fn keys_of_one_place_push_each_other_out_and_stay_bounded() {
        let recent = RecentKeys::new(4, KEPT);
        assert!(recent.is_first(&key(1), at(1)));
        assert!(recent.is_first(&key(8), at(1)), "the same place");
        assert!(recent.is_first(&key(1), at(1)), "it was pushed out");
        for number in 0..100 {
            recent.is_first(&key(number), at(2));
        }
        assert!(recent.len() <= 4);
    }

    /// Issue 18: hits of one key on all threads at once ask for it without a lock, and one of them is the first.
    #[test]
    fn of_many_threads_one_is_first() {
        let recent = RecentKeys::new(64, KEPT);
        for round in 0..200 {
            let firsts = std::sync::atomic::AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        if recent.is_first(&key(5), at(round * 1_000)) {
                            firsts.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            assert_eq!(firsts.into_inner(), 1, "round {round}");
        }
    }
}
