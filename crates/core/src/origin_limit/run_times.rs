//! How long runs of each pattern take: when Neo4j is quiet, and at present. Bounded; the least recently used pattern is
//! forgotten first. It decides nothing.
//!
//! Quiet times are compared as geometric means. Run times of a pattern differ by their parameters, with a long tail, and
//! a few samples must do: one slow run moves a mean of logarithms little, and an arithmetic mean much.

use std::collections::BTreeMap;

use crate::limits::{
    ORIGIN_IDLE_TIME_WRONG, ORIGIN_PATTERNS_MAX, ORIGIN_QUIET_CHANGED, ORIGIN_QUIET_RUNS,
    ORIGIN_QUIET_RUNS_DOUBTED, ORIGIN_QUIET_SMOOTHING, ORIGIN_TIME_OUTLIER, ORIGIN_TIME_SMOOTHING,
};
use crate::pattern::PatternId;

/// A moving mean: of all values while there are few, then of the last ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Mean {
    value: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64, smoothing: f64) {
        self.count += 1.0;
        self.value += (value - self.value) * (1.0 / self.count).max(smoothing);
    }

    /// A time far above the mean counts as an outlier of bounded size, so the mean follows a change all the same.
    fn add_bounded(&mut self, value: f64) {
        let most = if self.count > 0.0 { ORIGIN_TIME_OUTLIER * self.value } else { value };
        self.add(value.min(most), ORIGIN_TIME_SMOOTHING);
    }

    fn get(self) -> Option<f64> {
        (self.count > 0.0).then_some(self.value)
    }
}

/// When a run took place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RunPeriod {
    /// In the measuring part of a probe, alone on this node.
    Quiet,
    /// Beside other runs, of this node so many in the mean.
    Load(f64),
}

/// What a pattern's times are compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reference {
    pub(super) us: f64,
    /// Measured in probes. If not, it is of the runs beside the fewest others: a bound, and no quiet time.
    pub(super) is_quiet: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Times {
    /// Logarithms of times in probes.
    quiet: Mean,
    /// The same, of the latest runs alone.
    latest: Mean,
    /// The next runs in probes replace the quiet time, whatever they show.
    is_doubted: bool,
    /// Logarithms of times beside the fewest other runs.
    fewest: Mean,
    /// How many runs this node had under way during those.
    beside: f64,
    /// Logarithms of all times.
    all_ln: Mean,
    /// All times in microseconds.
    all_us: Mean,
    used: u64,
}

impl Times {
    fn add(&mut self, took_us: f64, during: RunPeriod) {
        let ln = took_us.ln();
        self.all_us.add_bounded(took_us);
        self.all_ln.add(ln, ORIGIN_QUIET_SMOOTHING);
        match during {
            RunPeriod::Quiet => self.add_quiet(ln),
            RunPeriod::Load(under_way) => self.add_beside(ln, under_way),
        }
        if self.all_ln.count >= ORIGIN_QUIET_RUNS {
            self.forget_slow_times();
        }
    }

    /// No run is faster beside others than alone: then the quiet time is of an earlier Neo4j.
    fn forget_slow_times(&mut self) {
        let most = self.all_ln.value + ORIGIN_IDLE_TIME_WRONG.ln();
        for mean in [&mut self.quiet, &mut self.fewest] {
            if mean.value > most {
                mean.value = self.all_ln.value;
            }
        }
    }

    /// Neo4j has changed if the latest quiet runs by themselves show another time: then the earlier ones do not count. Neither
    /// do doubted ones.
    fn add_quiet(&mut self, ln: f64) {
        self.latest.add(ln, 0.0);
        self.quiet.add(ln, ORIGIN_QUIET_SMOOTHING);
        let enough = if self.is_doubted { ORIGIN_QUIET_RUNS_DOUBTED } else { ORIGIN_QUIET_RUNS };
        if self.latest.count < enough {
            return;
        }
        if self.is_doubted || (self.latest.value - self.quiet.value).abs() > ORIGIN_QUIET_CHANGED.ln() {
            // It counts at once, as what it replaces did.
            let count = self.latest.count.max(ORIGIN_QUIET_RUNS / 2.0);
            (self.quiet, self.is_doubted) = (Mean { count, ..self.latest }, false);
        }
        self.latest = Mean::default();
    }

    /// A run beside clearly fewer others than before begins a new mean. A run beside clearly more does not count.
    fn add_beside(&mut self, ln: f64, under_way: f64) {
        let is_first = self.fewest.count < 1.0;
        if is_first || under_way * 1.5 < self.beside {
            (self.fewest, self.beside) = (Mean::default(), under_way);
        }
        if under_way <= self.beside * 1.1 {
            self.beside = self.beside.min(under_way);
            self.fewest.add(ln, ORIGIN_QUIET_SMOOTHING);
        }
    }

    fn reference(&self) -> Option<Reference> {
        let is_quiet = self.quiet.count >= ORIGIN_QUIET_RUNS / 2.0;
        let mean = if is_quiet { self.quiet } else { self.fewest };
        mean.get().map(|ln| Reference { us: ln.exp(), is_quiet })
    }
}

/// The times of the patterns seen last.
#[derive(Debug, Clone, Default)]
pub(super) struct RunTimes {
    patterns: BTreeMap<PatternId, Times>,
    /// By when they were used.
    by_use: BTreeMap<u64, PatternId>,
    uses: u64,
    all_us: Mean,
}

impl RunTimes {
    /// Notes a run.
    pub(super) fn note(&mut self, pattern: PatternId, took_us: f64, during: RunPeriod) {
        let took_us = took_us.max(1.0);
        self.all_us.add_bounded(took_us);
        self.used(pattern).add(took_us, during);
    }

    /// All quiet times may be those of an earlier Neo4j.
    pub(super) fn doubt(&mut self) {
        for times in self.patterns.values_mut() {
            (times.latest, times.is_doubted) = (Mean::default(), true);
        }
    }

    /// What a run of the pattern is compared with.
    pub(super) fn reference(&self, pattern: PatternId) -> Option<Reference> {
        self.patterns.get(&pattern)?.reference()
    }

    /// How long a run of the pattern takes at present; `None` before the first run of any.
    pub(super) fn expected_us(&self, pattern: PatternId) -> Option<f64> {
        let own = self.patterns.get(&pattern).and_then(|times| times.all_us.get());
        own.or_else(|| self.all_us.get())
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

    fn quiet_us(times: &RunTimes, pattern: u64) -> Option<f64> {
        times.reference(PatternId(pattern)).map(|reference| reference.us.round())
    }

    #[test]
    fn the_least_recently_used_pattern_is_forgotten_first() {
        let mut times = RunTimes::default();
        times.note(PatternId(0), 5_000.0, RunPeriod::Load(1.0));
        for pattern in 1..=ORIGIN_PATTERNS_MAX as u64 {
            times.note(PatternId(pattern), 1_000.0, RunPeriod::Load(1.0));
            times.note(PatternId(0), 5_000.0, RunPeriod::Load(1.0));
        }
        assert_eq!([0, 1, 2].map(|id| quiet_us(&times, id)), [Some(5_000.0), None, Some(1_000.0)]);
        assert_eq!((times.patterns.len(), times.by_use.len()), (ORIGIN_PATTERNS_MAX, ORIGIN_PATTERNS_MAX));
        assert!(times.expected_us(PatternId(1)).is_some(), "an unknown pattern takes as long as all do");
    }

    #[test]
    fn a_mean_follows_a_change_and_not_one_outlier() {
        let mut times = RunTimes::default();
        (0..50).for_each(|_| times.note(PatternId(1), 1_000.0, RunPeriod::Quiet));
        times.note(PatternId(1), 9e6, RunPeriod::Quiet);
        assert!(quiet_us(&times, 1).unwrap() < 1_300.0);
        assert!(times.expected_us(PatternId(1)).unwrap() < 1_400.0);
        for _ in 0..50 {
            times.note(PatternId(1), 50_000.0, RunPeriod::Quiet);
            (0..20).for_each(|_| times.note(PatternId(1), 80_000.0, RunPeriod::Load(2.0)));
        }
        assert!(quiet_us(&times, 1).unwrap() > 45_000.0, "some dozen runs replace what was before");
    }

    #[test]
    fn probes_are_the_measure_and_without_one_the_runs_beside_the_fewest_others() {
        let mut times = RunTimes::default();
        let mut after = |took_us, during| {
            times.note(PatternId(1), took_us, during);
            let reference = times.reference(PatternId(1)).unwrap();
            (reference.us.round(), reference.is_quiet)
        };
        let seen = [(8e3, 8.0), (4e3, 4.0), (9e3, 9.0), (2e3, 2.0), (4e3, 4.0)];
        let found = seen.map(|(took_us, beside)| after(took_us, RunPeriod::Load(beside)).0);
        assert_eq!(found, [8e3, 4e3, 4e3, 2e3, 2e3]);
        assert_eq!(after(1e3, RunPeriod::Quiet), (2e3, false), "one run shows little");
        let probed = (0..12).map(|_| after(1e3, RunPeriod::Quiet)).last();
        assert_eq!(probed, Some((1e3, true)));
        assert_eq!(after(4e3, RunPeriod::Load(1.0)), (1e3, true), "only probes count from then on");
    }

    #[test]
    fn a_quiet_time_above_that_of_all_runs_is_wrong() {
        let mut times = RunTimes::default();
        (0..20).for_each(|_| times.note(PatternId(1), 9_000.0, RunPeriod::Quiet));
        (0..200).for_each(|_| times.note(PatternId(1), 1_000.0, RunPeriod::Load(4.0)));
        assert!(quiet_us(&times, 1).unwrap() < 1_800.0);
    }
}
