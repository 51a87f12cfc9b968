//! Whether other queries may follow the answers of a text, as its last considered answers have shown.
//!
//! Most texts of an application that asks at random lead to nothing. To consider each of their answers costs more than the answer.

use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::limits::{
    CONSIDER_SAMPLE_EVERY_MS, CONSIDER_SAMPLE_MS, CONSIDERED_AGAIN_MS, CONSIDERED_IN_VAIN_MIN,
};
use hopcache_core::time::MonoTime;

/// How many answers in a row were considered in vain, in the low bits; above them the millisecond of the last one since then.
#[derive(Debug, Default)]
pub struct ConsideredInVain(AtomicU64);

const COUNT_BITS: u32 = 16;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

impl ConsideredInVain {
    /// Whether an answer of now is considered: each one, until many were considered in vain. Then samples are, and the first answer
    /// after a pause.
    #[must_use]
    pub fn is_due(&self, now: MonoTime) -> bool {
        let packed = self.0.load(Ordering::Relaxed);
        let count = packed & COUNT_MASK;
        if count < u64::from(CONSIDERED_IN_VAIN_MIN) {
            return true;
        }
        let now_ms = now.0 / 1_000;
        if now_ms % CONSIDER_SAMPLE_EVERY_MS < CONSIDER_SAMPLE_MS {
            return true;
        }
        let is_late = now_ms.saturating_sub(packed >> COUNT_BITS) >= CONSIDERED_AGAIN_MS;
        let again = now_ms << COUNT_BITS | count;
        is_late && self.0.compare_exchange(packed, again, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// An answer was considered. `may_follow`: another query may follow it.
    pub fn note(&self, may_follow: bool) {
        let next = |packed: u64| {
            if may_follow {
                return (packed != 0).then_some(0);
            }
            (packed & COUNT_MASK < u64::from(CONSIDERED_IN_VAIN_MIN)).then_some(packed + 1)
        };
        // `Err`: nothing changes.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> MonoTime {
        MonoTime(ms * 1_000)
    }

    fn in_vain() -> ConsideredInVain {
        let in_vain = ConsideredInVain::default();
        for _ in 0..CONSIDERED_IN_VAIN_MIN {
            assert!(in_vain.is_due(at(100)));
            in_vain.note(false);
        }
        in_vain
    }

    #[test]
    fn a_text_that_nothing_follows_is_sampled() {
        let in_vain = in_vain();
        let first = 40 * CONSIDER_SAMPLE_EVERY_MS;
        assert!(in_vain.is_due(at(first + 50)), "the first one after a pause");
        let due = |ms: &u64| in_vain.is_due(at(first + ms));
        assert_eq!((51..900).filter(due).count(), 3 * usize::try_from(CONSIDER_SAMPLE_MS).unwrap());
        assert!(in_vain.is_due(at(first + 50 + CONSIDERED_AGAIN_MS)));
    }

    #[test]
    fn once_something_may_follow_all_are_considered() {
        let in_vain = in_vain();
        assert!((100..110).filter(|ms| in_vain.is_due(at(*ms))).count() <= 1);
        in_vain.note(true);
        assert!((100..110).all(|ms| in_vain.is_due(at(ms))));
        in_vain.note(false);
        assert!(in_vain.is_due(at(120)), "as often in vain as before");
    }
}
