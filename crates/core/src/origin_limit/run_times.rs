//! How long runs of each pattern take: when this node has little else under way, and at present. Bounded; the least
//! recently used pattern is forgotten first. It decides nothing.

use std::collections::BTreeMap;

use crate::cypher::pattern::PatternId;
use crate::limits::{
    ORIGIN_IDLE_RUNS_MAX, ORIGIN_IDLE_TIME_WRONG, ORIGIN_PATTERNS_MAX, ORIGIN_TIME_OUTLIER,
    ORIGIN_TIME_SMOOTHING,
};

/// A moving mean: of all runs while there are few, then of the last ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Mean {
    us: f64,
    runs: f64,
}

impl Mean {
    /// A time far above the mean counts as an outlier of bounded size, so the mean follows a change all the same.
    fn add(&mut self, took_us: f64) {
        self.runs += 1.0;
        let took_us = if self.runs > 1.0 { took_us.min(ORIGIN_TIME_OUTLIER * self.us) } else { took_us };
        self.us += (took_us - self.us) * (1.0 / self.runs).max(ORIGIN_TIME_SMOOTHING);
    }

    fn get(self) -> Option<f64> {
        (self.runs > 0.0).then_some(self.us)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Times {
    idle: Idle,
    /// Of all runs.
    all: Mean,
    used: u64,
}

/// The time of runs beside the fewest others. Runs so long that none was ever alone still have a time to compare with.
#[derive(Debug, Clone, Copy)]
struct Idle {
    mean: Mean,
    /// How many runs this node had under way meanwhile.
    beside: f64,
}

impl Default for Idle {
    fn default() -> Self {
        Self { mean: Mean::default(), beside: f64::INFINITY }
    }
}

impl Idle {
    /// A run beside clearly fewer others than before begins a new mean. A run beside clearly more does not count.
    fn add(&mut self, took_us: f64, under_way: f64) {
        let beside = under_way.max(ORIGIN_IDLE_RUNS_MAX);
        if beside * 1.5 < self.beside {
            *self = Self { mean: Mean::default(), beside };
        }
        if beside <= self.beside * 1.1 {
            self.beside = self.beside.min(beside);
            self.mean.add(took_us);
        }
    }
}

/// The times of the patterns seen last.
#[derive(Debug, Clone, Default)]
pub(super) struct RunTimes {
    patterns: BTreeMap<PatternId, Times>,
    /// By when they were used.
    by_use: BTreeMap<u64, PatternId>,
    uses: u64,
    all: Mean,
}

impl RunTimes {
    /// Notes a run, and how many runs this node had under way meanwhile.
    pub(super) fn note(&mut self, pattern: PatternId, took_us: f64, under_way: f64) {
        let took_us = took_us.max(1.0);
        self.all.add(took_us);
        let times = self.used(pattern);
        times.all.add(took_us);
        times.idle.add(took_us, under_way);
        if times.idle.mean.us > ORIGIN_IDLE_TIME_WRONG * times.all.us {
            times.idle.mean.us = times.all.us;
        }
    }

    /// How long a run of the pattern takes beside the fewest others.
    pub(super) fn idle_us(&self, pattern: PatternId) -> Option<f64> {
        self.patterns.get(&pattern)?.idle.mean.get()
    }

    /// How long a run of the pattern takes at present; `None` before the first run of any.
    pub(super) fn expected_us(&self, pattern: PatternId) -> Option<f64> {
        let own = self.patterns.get(&pattern).and_then(|times| times.all.get());
        own.or_else(|| self.all.get())
    }

    fn used(&mut self, pattern: PatternId) -> &mut Times {
        self.uses += 1;
        if let Some(known) = self.patterns.get(&pattern) {
            self.by_use.remove(&known.used);
        } else if self.patterns.len() >= ORIGIN_PATTERNS_MAX
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.patterns.remove(&oldest);
        }
        self.by_use.insert(self.uses, pattern);
        let times = self.patterns.entry(pattern).or_default();
        times.used = self.uses;
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_pattern_is_forgotten_first() {
        let mut times = RunTimes::default();
        (0..2).for_each(|_| times.note(PatternId(0), 5_000.0, 1.0));
        for pattern in 1..=ORIGIN_PATTERNS_MAX as u64 {
            times.note(PatternId(pattern), 1_000.0, 1.0);
            times.note(PatternId(0), 5_000.0, 1.0);
        }
        assert_eq!(times.idle_us(PatternId(0)), Some(5_000.0));
        assert_eq!((times.idle_us(PatternId(1)), times.idle_us(PatternId(2))), (None, Some(1_000.0)));
        assert_eq!((times.patterns.len(), times.by_use.len()), (ORIGIN_PATTERNS_MAX, ORIGIN_PATTERNS_MAX));
        assert!(times.expected_us(PatternId(1)).is_some(), "an unknown pattern takes as long as all do");
    }

    #[test]
    fn a_mean_follows_a_change_and_not_one_outlier() {
        let mut times = RunTimes::default();
        (0..50).for_each(|_| times.note(PatternId(1), 1_000.0, 1.0));
        times.note(PatternId(1), 9e9, 1.0);
        assert!(times.idle_us(PatternId(1)).unwrap() < 1_400.0);
        (0..100).for_each(|_| times.note(PatternId(1), 50_000.0, 1.0));
        assert!(times.idle_us(PatternId(1)).unwrap() > 45_000.0);
    }

    #[test]
    fn the_runs_beside_the_fewest_others_are_the_measure() {
        let mut times = RunTimes::default();
        let mut idle_after = |took_us, under_way| {
            times.note(PatternId(1), took_us, under_way);
            times.idle_us(PatternId(1)).unwrap()
        };
        let seen =
            [(8_000.0, 8.0), (4_000.0, 4.0), (9_000.0, 9.0), (1_000.0, 1.0), (1_000.0, 1.4), (4_000.0, 4.0)];
        assert_eq!(seen.map(|(took_us, beside)| idle_after(took_us, beside)), [8e3, 4e3, 4e3, 1e3, 1e3, 1e3]);
    }
}
