//! Whether cores are busy, from counters of their time. It reads none: `hopcache_ops::cores` does.

use crate::limits::{CORES_BUSY_PERCENT, CORES_FREE_PERCENT};

/// What cores have done since some moment, in any unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreTime {
    /// Time in which they worked.
    pub busy: u64,
    /// All of their time.
    pub all: u64,
}

/// Whether cores are busy, as the times between two readings show it.
#[derive(Debug, Default)]
pub struct BusyCores {
    last: Option<CoreTime>,
    are_busy: bool,
}

impl BusyCores {
    /// The counters show this now. Busy cores count as busy until clearly less is done: what stops because they are busy must not
    /// begin again because it has stopped.
    pub fn count(&mut self, now: CoreTime) -> bool {
        let since = self.last.replace(now).map_or_else(CoreTime::default, |last| CoreTime {
            busy: now.busy.saturating_sub(last.busy),
            all: now.all.saturating_sub(last.all),
        });
        let percent_min = if self.are_busy { CORES_FREE_PERCENT } else { CORES_BUSY_PERCENT };
        let is_much = since.busy.saturating_mul(100) >= since.all.saturating_mul(percent_min);
        self.are_busy = since.all > 0 && is_much;
        self.are_busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_busy_from_a_share_on_until_clearly_below_it() {
        let mut cores = BusyCores::default();
        let mut sum = CoreTime { busy: 700, all: 1_000 };
        assert!(!cores.count(sum), "nothing is known before the second reading");
        let shares = [89, 90, 81, 80, 79, 89, 100, 0];
        let found = shares.map(|busy| {
            sum = CoreTime { busy: sum.busy + busy, all: sum.all + 100 };
            cores.count(sum)
        });
        assert_eq!(found, [false, true, true, true, false, false, true, false]);
    }

    #[test]
    fn counters_that_stand_still_or_went_back_say_nothing() {
        let mut cores = BusyCores::default();
        let readings = [(10, 10), (20, 20), (20, 20), (5, 5), (9, 9)];
        let found = readings.map(|(busy, all)| cores.count(CoreTime { busy, all }));
        assert_eq!(found, [false, true, false, false, true]);
    }
}
