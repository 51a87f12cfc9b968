//! Whether cores are busy, from counters of their time. It reads none: `hopcache_ops::cores` does.

use crate::limits::{CORES_BUSY_PERCENT, CORES_FREE_PERCENT, CORES_LOOKS};

/// What cores have done since some moment, in any unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreTime {
    /// Time in which they worked.
    pub busy: u64,
    /// All of their time.
    pub all: u64,
}

/// Whether cores are busy, as the times between readings show it.
#[derive(Debug, Default)]
pub struct BusyCores {
    last: Option<CoreTime>,
    are_busy: bool,
    /// Readings in a row that say the contrary.
    contrary: u32,
}

impl BusyCores {
    /// The counters show this now. Busy cores count as busy until clearly less is done: what stops because they are busy must not
    /// begin again because it has stopped. One reading changes nothing: a page or a backup may fill a second.
    pub fn count(&mut self, now: CoreTime) -> bool {
        let Some(last) = self.last.replace(now) else { return self.are_busy };
        let (busy, all) = (now.busy.saturating_sub(last.busy), now.all.saturating_sub(last.all));
        let percent_min = if self.are_busy { CORES_FREE_PERCENT } else { CORES_BUSY_PERCENT };
        let is_much = all > 0 && busy.saturating_mul(100) >= all.saturating_mul(percent_min);
        self.contrary = if is_much == self.are_busy { 0 } else { self.contrary + 1 };
        if self.contrary >= CORES_LOOKS {
            (self.are_busy, self.contrary) = (is_much, 0);
        }
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
        let shares = [89, 90, 89, 90, 90, 86, 84, 85, 84, 0, 89, 100];
        let found = shares.map(|busy| {
            sum = CoreTime { busy: sum.busy + busy, all: sum.all + 100 };
            u8::from(cores.count(sum))
        });
        assert_eq!(found, [0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn counters_that_stand_still_or_went_back_say_nothing() {
        let mut cores = BusyCores::default();
        let readings = [(10, 10), (20, 20), (20, 20), (5, 5), (9, 9), (20, 20)];
        let found = readings.map(|(busy, all)| cores.count(CoreTime { busy, all }));
        assert_eq!(found, [false, false, false, false, false, true]);
    }
}
