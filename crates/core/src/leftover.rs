//! Whether the origin has anything left over for runs that no client waits for: prefetches.
//!
//! A node whose line at the origin is empty at one instant may still be at its limit, because runs come and go. So waits
//! count: each wait in the line closes the door for [`ORIGIN_LEFTOVER_WAITS`] times its length, up to
//! [`ORIGIN_LEFTOVER_MS_MAX`], from its end. At a full origin some run always waits, and the door stays closed. A short
//! wait in a burst costs prefetch some hundred milliseconds, however many runs wait beside it: waits do not add up.
//!
//! It knows no clock and starts no run. Whoever has the line tells it of waits.

use crate::limits::{ORIGIN_LEFTOVER_MS_MAX, ORIGIN_LEFTOVER_WAITS};
use crate::time::{Millis, MonoTime};

/// Whether anything is left over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leftover {
    none_before: MonoTime,
}

impl Leftover {
    /// A run waited in the line from `since` until `now`, and got its slot or gave up.
    pub fn waited(&mut self, since: MonoTime, now: MonoTime) {
        let closed_ms = now.since(since).0.saturating_mul(ORIGIN_LEFTOVER_WAITS).min(ORIGIN_LEFTOVER_MS_MAX);
        self.none_before = self.none_before.max(now + Millis(closed_ms));
    }

    /// Whether something is left over, if no run waits now.
    #[must_use]
    pub fn is_some(&self, now: MonoTime) -> bool {
        now >= self.none_before
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(ms: u64) -> MonoTime {
        MonoTime(ms * 1_000)
    }

    /// Issue 18, point 3: the door stays closed while runs wait again and again, and opens soon after.
    #[test]
    fn a_line_that_is_never_empty_for_long_leaves_nothing_over() {
        let mut leftover = Leftover::default();
        assert!(leftover.is_some(at(0)));
        for run in 1..100 {
            leftover.waited(at(run * 50 - 40), at(run * 50));
            assert!(!leftover.is_some(at(run * 50 + 49)), "between two waits");
        }
        let end = 99 * 50 + 40 * ORIGIN_LEFTOVER_WAITS;
        assert!(!leftover.is_some(at(end - 1)) && leftover.is_some(at(end)));
        leftover.waited(at(0), at(end));
        let end = end + ORIGIN_LEFTOVER_MS_MAX;
        assert!(!leftover.is_some(at(end - 1)) && leftover.is_some(at(end)), "the longest time");
    }

    /// Issue 18, point 3: runs that wait at the same time close it for as long as the longest of them does.
    #[test]
    fn parallel_waits_do_not_add_up() {
        let mut leftover = Leftover::default();
        for run in 0..40 {
            leftover.waited(at(100 - run % 10), at(100));
        }
        let end = 100 + 9 * ORIGIN_LEFTOVER_WAITS;
        assert!(!leftover.is_some(at(end - 1)) && leftover.is_some(at(end)));
    }

    #[test]
    fn one_short_wait_closes_it_for_a_short_time() {
        let mut leftover = Leftover::default();
        leftover.waited(at(100), at(110));
        assert!(!leftover.is_some(at(110 + 10 * ORIGIN_LEFTOVER_WAITS - 1)));
        assert!(leftover.is_some(at(110 + 10 * ORIGIN_LEFTOVER_WAITS)));
    }

    proptest! {
        /// However long the waits, it opens again.
        #[test]
        fn it_never_stays_closed_for_longer_than_its_bound(waits in prop::collection::vec((0..1_000_000_u64, 0..1_000_000_u64), 0..50)) {
            let (mut leftover, mut now) = (Leftover::default(), 0);
            for (pause, wait) in waits {
                let since = now + pause;
                now = since + wait;
                leftover.waited(MonoTime(since), MonoTime(now));
            }
            prop_assert!(leftover.is_some(MonoTime(now) + Millis(ORIGIN_LEFTOVER_MS_MAX)));
        }
    }
}
