//! Keys of the last moment, in a table without a lock: each hit of a node asks it once.
//!
//! Each key has two places side by side, by its digest, and is in one of them. A place holds another part of the digest,
//! and a time. A key that has no place takes the older one, and the key that was there is new again. So of three keys
//! that are asked all the time and have the same places, each may be new at each hit: whoever asks this table still has
//! to bound what it does for new keys. A hit of a key that is there reads two numbers and writes nothing.

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
        // The first part decides the key's place on the ring: a node that owns it owns its neighbours.
        let [_, print, place, _] = key_parts(key);
        // The low half holds 49 days. After that time an old key may count as recent once.
        let (print, now_ms) = ((print & PRINT).max(1), (now.0 / 1_000) & TIME);
        let ways = self.ways(place).map(|place| (place, place.load(Ordering::Relaxed)));
        let is_same = |held: u64| held >> 32 == print;
        if ways.iter().any(|(_, held)| is_same(*held) && self.age_ms(*held, now_ms) < self.kept_ms.0) {
            return false;
        }
        // Its own place, or the older one; a free one is the oldest.
        let rank = |held: u64| if is_same(held) { u64::MAX } else { self.age_ms(held, now_ms) };
        let [(first, held_first), (second, held_second)] = ways;
        let (place, held) =
            if rank(held_first) >= rank(held_second) { (first, held_first) } else { (second, held_second) };
        match place.compare_exchange(held, (print << 32) | now_ms, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            // Another request came in between: of this key, or of one with the same place.
            Err(held) => !is_same(held),
        }
    }

    /// A key's places: the same one twice in a table of one.
    fn ways(&self, place: u64) -> [&AtomicU64; 2] {
        let count = self.places.len();
        let place = usize::try_from(place % count as u64).unwrap_or_default();
        [place, (place + 1) % count].map(|place| &self.places[place])
    }

    /// How long ago a place was taken. A time a little ahead is another thread's, which looked at the clock later.
    fn age_ms(&self, held: u64, now_ms: u64) -> u64 {
        if held == 0 {
            return TIME;
        }
        let age_ms = now_ms.wrapping_sub(held & TIME) & TIME;
        if age_ms > TIME - self.kept_ms.0 { 0 } else { age_ms }
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
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        bytes[16..24].copy_from_slice(&(number % 7).to_le_bytes());
        QueryKey(bytes)
    }

    const fn at(ms: u64) -> MonoTime {
        MonoTime(ms * 1_000)
    }

    #[test]
    fn a_key_is_first_once_in_a_while() {
        // Also around the wrap of the milliseconds.
        for start in [0, 5, (1 << 32) - 500, 1 << 40] {
            let recent = RecentKeys::new(64, KEPT);
            assert!(recent.is_first(&key(3), at(start)), "{start}");
            assert!(!recent.is_first(&key(3), at(start)));
            assert!(!recent.is_first(&key(3), at(start + 999)));
            assert!(recent.is_first(&key(3), at(start + 1_000)));
            assert_eq!(recent.len(), 1, "in its own place");
        }
    }

    /// Two threads look at the clock in one order and at the table in the other.
    #[test]
    fn a_time_a_little_ahead_is_recent() {
        let recent = RecentKeys::new(64, KEPT);
        assert!(recent.is_first(&key(3), at(5_001)));
        assert!(!recent.is_first(&key(3), at(5_000)));
        // And the key does not give way as the older one.
        assert!(recent.is_first(&key(10), at(4_999)) && recent.is_first(&key(17), at(5_000)));
        assert!(!recent.is_first(&key(3), at(5_000)));
    }

    /// Two keys with the same places that are asked in turns are both there.
    #[test]
    fn two_keys_of_one_place_do_not_push_each_other_out() {
        for places in [2, 4, 63] {
            let recent = RecentKeys::new(places, KEPT);
            assert!(recent.is_first(&key(1), at(1)) && recent.is_first(&key(8), at(2)), "{places}");
            for ms in 3..900 {
                assert!(!recent.is_first(&key(1), at(ms)) && !recent.is_first(&key(8), at(ms)), "{places}");
            }
            assert!(recent.is_first(&key(15), at(900)), "a third one takes the place of the older");
            assert!(!recent.is_first(&key(8), at(901)));
            assert!(recent.is_first(&key(1), at(901)));
        }
    }

    #[test]
    fn any_number_of_keys_stays_bounded() {
        for places in [0, 1, 4] {
            let recent = RecentKeys::new(places, KEPT);
            for number in 0..100 {
                recent.is_first(&key(number), at(2));
            }
            assert!(recent.len() <= places.max(1));
        }
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
