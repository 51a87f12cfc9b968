//! Whether the origin has anything left over for runs that no client waits for: prefetches.
//!
//! A node whose line at the origin is empty at one instant may still be at its limit, because runs come and go. So waits
//! count: each wait in the line closes the door for [`ORIGIN_LEFTOVER_WAITS`] times its length, up to
//! [`ORIGIN_LEFTOVER_MS_MAX`], from its end. A short wait in a burst costs prefetch some hundred milliseconds, however many
//! runs wait beside it: waits do not add up.
//!
//! At an origin that is nearly full, short waits leave short gaps. What is prefetched there gains nothing, and the search for it
//! costs. So the door has to have been open for most of the last seconds, too ([`ORIGIN_LEFTOVER_CLOSED_MAX`]).
//!
//! It knows no clock and starts no run. Whoever has the line tells it of waits.

use crate::limits::{
    ORIGIN_LEFTOVER_CLOSED_MAX, ORIGIN_LEFTOVER_MEAN_MS, ORIGIN_LEFTOVER_MS_MAX, ORIGIN_LEFTOVER_WAITS,
};
use crate::time::{Millis, MonoTime};

/// Whether anything is left over.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Leftover {
    none_before: MonoTime,
    /// The part of the time until `counted_to` in which the door was closed; older time counts exponentially less.
    closed: f64,
    counted_to: MonoTime,
}

impl Leftover {
    /// A run waited in the line from `since` until `now`, and got its slot or gave up.
    pub fn waited(&mut self, since: MonoTime, now: MonoTime) {
        self.count(since);
        self.none_before = self.none_before.max(now);
        self.count(now);
        let closed_ms = now.since(since).0.saturating_mul(ORIGIN_LEFTOVER_WAITS).min(ORIGIN_LEFTOVER_MS_MAX);
        self.none_before = self.none_before.max(now + Millis(closed_ms));
    }

    /// Whether something is left over, if no run waits now.
    #[must_use]
    pub fn is_some(&self, now: MonoTime) -> bool {
        let mut until_now = *self;
        until_now.count(now);
        now >= self.none_before && until_now.closed <= ORIGIN_LEFTOVER_CLOSED_MAX
    }

    /// Time has passed: the door was closed first, and then open.
    fn count(&mut self, to: MonoTime) {
        let closes = self.none_before.clamp(self.counted_to, to.max(self.counted_to));
        self.closed = 1.0 - (1.0 - self.closed) * kept_after(closes.0 - self.counted_to.0);
        self.counted_to = closes.max(to);
        self.closed *= kept_after(self.counted_to.0 - closes.0);
    }
}

/// How much earlier time still counts after so many microseconds.
fn kept_after(us: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "microseconds of some seconds")]
    let (us, mean_us) = (us as f64, (ORIGIN_LEFTOVER_MEAN_MS * 1_000) as f64);
    (-us / mean_us).exp()
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
        assert!(!leftover.is_some(at(end)), "it was closed for most of the last seconds");
        assert!(leftover.is_some(at(end + ORIGIN_LEFTOVER_MEAN_MS)));
    }

    #[test]
    fn a_long_wait_closes_it_for_the_longest_time() {
        let mut leftover = Leftover::default();
        leftover.waited(at(9_000), at(9_500));
        let end = 9_500 + ORIGIN_LEFTOVER_MS_MAX;
        assert!(!leftover.is_some(at(end - 1)) && leftover.is_some(at(end + ORIGIN_LEFTOVER_MEAN_MS)));
    }

    /// Issue 18, point 3: an origin whose line is empty now and then, for moments, leaves nothing over in them.
    #[test]
    fn gaps_of_a_nearly_full_origin_are_not_left_over() {
        let looks_with_room = |gap_ms: u64| {
            let mut leftover = Leftover::default();
            let (mut now, mut looks) = (0, 0);
            while now < 20_000 {
                // A wait of 10 ms closes the door for 80.
                leftover.waited(at(now), at(now + 10));
                now += 10 + 80 + gap_ms;
                looks += u32::from(now > 10_000 && leftover.is_some(at(now - 1)));
            }
            looks
        };
        assert_eq!(looks_with_room(40), 0);
        assert!(looks_with_room(400) > 15, "an origin with a wait twice a second has room");
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
            prop_assert!(leftover.is_some(MonoTime(now) + Millis(ORIGIN_LEFTOVER_MS_MAX + ORIGIN_LEFTOVER_MEAN_MS)));
        }
    }
}
