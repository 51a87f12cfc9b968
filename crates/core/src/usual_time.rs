//! How long runs of each pattern usually take, and how much longer they take now. It decides nothing, and serves no request:
//! operators read it.
//!
//! Each run is compared with the usual time of its pattern. The median of these ratios over the last minute says how many times
//! slower the database answers. A median of ratios is blind to what is asked: when an application begins to ask slow queries,
//! each of them is as slow as usual.
//!
//! Times are compared as logarithms: run times have a long tail, and one slow run moves a mean of logarithms little.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use lru::LruCache;

use crate::pattern::PatternId;
use crate::time::{Millis, MonoTime};

/// Patterns whose usual time is known; the least recently run is forgotten first. About 200 KB.
pub const USUAL_TIMES_MAX: usize = 4_096;
/// Ratios that are kept of the last minute; of more runs the latest count.
pub const USUAL_RATIOS_MAX: usize = 1_024;
/// A pattern has a usual time after so many runs.
pub const USUAL_RUNS_MIN: u32 = 20;
/// After so many runs only time changes the usual time.
const LEARNING_RUNS: u32 = 200;
/// With fewer runs in a minute nothing is said about the present.
pub const PRESENT_RUNS_MIN: usize = 8;
/// The present.
pub const PRESENT_MS: u64 = 60_000;
/// After so long without enough runs, nobody knows whether it is still slow.
pub const SILENCE_MS_MAX: u64 = 300_000;
/// The usual time follows a lasting change in hours. While runs are slow it follows four times as slowly, so that a bad night
/// does not become the measure of the next.
const USUAL_MS: f64 = 6.0 * 3_600_000.0;
/// From this factor on the database is slow.
pub const SLOW_FACTOR: f64 = 4.0;
/// Below this factor it is slow no more. The gap keeps a value at the border from being told again and again.
pub const SLOW_OVER_FACTOR: f64 = 2.0;
/// Shorter runs count as this long: they are measured in whole milliseconds.
const SHORTEST_MS: u64 = 1;

#[derive(Debug, Clone, Copy)]
struct Usual {
    ln_ms: f64,
    runs: u32,
    last: MonoTime,
}

/// Plain data: how slow the database is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowness {
    /// The median of run time ÷ usual time of the pattern, over the last minute.
    pub factor: f64,
    /// Since when it has been slow; `None` if it is not.
    pub since: Option<MonoTime>,
}

/// The usual time of each pattern, and the runs of the last minute.
#[derive(Debug)]
pub struct UsualTimes {
    patterns: LruCache<PatternId, Usual>,
    present: VecDeque<(MonoTime, f64)>,
    slow_since: Option<MonoTime>,
    /// When enough runs said how slow it is.
    judged: Option<MonoTime>,
}

impl Default for UsualTimes {
    fn default() -> Self {
        Self {
            patterns: LruCache::new(NonZeroUsize::new(USUAL_TIMES_MAX).unwrap_or(NonZeroUsize::MIN)),
            present: VecDeque::new(),
            slow_since: None,
            judged: None,
        }
    }
}

impl UsualTimes {
    /// A run of this pattern has ended. `took` is its time at the database, without its wait for a place there.
    pub fn ran(&mut self, pattern: PatternId, took: Millis, now: MonoTime) {
        #[expect(clippy::cast_precision_loss, reason = "a run of 2^53 ms lasts longer than this program")]
        let ln_ms = (took.0.max(SHORTEST_MS) as f64).ln();
        let is_slow = self.slow_since.is_some();
        let usual = self.patterns.get_or_insert_mut(pattern, || Usual { ln_ms, runs: 0, last: now });
        let ratio = ln_ms - usual.ln_ms;
        if usual.runs >= USUAL_RUNS_MIN {
            if self.present.len() == USUAL_RATIOS_MAX {
                self.present.pop_front();
            }
            self.present.push_back((now, ratio));
        }
        #[expect(clippy::cast_precision_loss, reason = "as above")]
        let spent_ms = now.since(usual.last).0.min(PRESENT_MS) as f64;
        let follows_ms = if is_slow { 4.0 * USUAL_MS } else { USUAL_MS };
        let by_time = 1.0 - (-spent_ms / follows_ms).exp();
        usual.runs = usual.runs.saturating_add(1);
        // The first runs count equally, but for one that is slow already. After that a slow hour must not pull at the mean by
        // the number of its runs.
        let counts_equally = usual.runs <= USUAL_RUNS_MIN
            || usual.runs <= LEARNING_RUNS && ratio < SLOW_FACTOR.ln() && !is_slow;
        let weight = if counts_equally { 1.0 / f64::from(usual.runs) } else { by_time };
        usual.ln_ms += ratio * weight;
        usual.last = now;
    }

    /// How slow the database is; `None` with too few runs in the last minute. What was slow stays slow until enough runs show
    /// that it is over.
    pub fn now(&mut self, now: MonoTime) -> Option<Slowness> {
        while self.present.front().is_some_and(|(at, _)| now.since(*at).0 > PRESENT_MS) {
            self.present.pop_front();
        }
        if self.present.len() < PRESENT_RUNS_MIN {
            // Nothing is known of the time since: what comes after it is judged anew.
            if self.judged.is_none_or(|at| now.since(at).0 > SILENCE_MS_MAX) {
                self.slow_since = None;
            }
            return None;
        }
        self.judged = Some(now);
        let mut ratios: Vec<f64> = self.present.iter().map(|(_, ratio)| *ratio).collect();
        let middle = ratios.len() / 2;
        let (_, median, _) = ratios.select_nth_unstable_by(middle, f64::total_cmp);
        let factor = median.exp();
        if factor >= SLOW_FACTOR {
            // The first run that was slow, not the moment at which half of the minute was.
            let first = self.present.iter().find(|(_, ratio)| ratio.exp() >= SLOW_FACTOR).map(|(at, _)| *at);
            self.slow_since.get_or_insert(first.unwrap_or(now));
        } else if factor < SLOW_OVER_FACTOR {
            self.slow_since = None;
        }
        Some(Slowness { factor, since: self.slow_since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: MonoTime = MonoTime(3_600_000_000);

    /// `runs` runs of two patterns, one a second: 10 ms and 200 ms, times `factor`.
    fn run(times: &mut UsualTimes, from: MonoTime, runs: u64, factor: u64) -> MonoTime {
        for at in 0..runs {
            let now = from + Millis(at * 1_000);
            times.ran(PatternId(1), Millis(10 * factor), now);
            times.ran(PatternId(2), Millis(200 * factor), now);
        }
        from + Millis(runs * 1_000)
    }

    #[test]
    fn runs_nine_times_slower_than_usual_say_so_and_since_when() {
        let mut times = UsualTimes::default();
        let slow_at = run(&mut times, START, 120, 1);
        let usual = times.now(slow_at).unwrap();
        assert!((usual.factor - 1.0).abs() < 0.01 && usual.since.is_none(), "{usual:?}");
        let later = run(&mut times, slow_at, 60, 9);
        let slow = times.now(later).unwrap();
        assert!((8.5..9.1).contains(&slow.factor), "{slow:?}");
        assert_eq!(slow.since, Some(slow_at));
        // An hour at nine times moves the usual time little, and `since` stays.
        let hour = run(&mut times, later, 3_600, 9);
        let slow = times.now(hour).unwrap();
        assert!(slow.factor > 7.0, "{slow:?}");
        assert_eq!(slow.since, Some(slow_at));
        let over = run(&mut times, hour, 120, 1);
        assert_eq!(times.now(over).unwrap().since, None);
    }

    /// A pattern that nobody asked for half a day keeps its usual time, and what was slow before is not told as slow since then.
    #[test]
    fn a_pause_moves_no_usual_time_and_ends_what_was_slow() {
        let mut times = UsualTimes::default();
        let before = run(&mut times, START, 200, 1);
        let slow = run(&mut times, before, 60, 9);
        assert!(times.now(slow).unwrap().since.is_some());
        let later = slow + Millis(12 * 3_600_000);
        assert_eq!(times.now(later), None);
        let again = run(&mut times, later, 60, 9);
        let seen = times.now(again).unwrap();
        assert!(seen.factor > 8.0, "{seen:?}");
        assert_eq!(seen.since, Some(later));
    }

    /// An application that begins to ask slow queries does not make the database slow.
    #[test]
    fn another_mix_of_queries_is_not_slowness() {
        let mut times = UsualTimes::default();
        let later = run(&mut times, START, 120, 1);
        let mut now = later;
        for at in 0..120 {
            now = later + Millis(at * 500);
            times.ran(PatternId(2), Millis(200), now);
        }
        let seen = times.now(now).unwrap();
        assert!(seen.factor < 1.1 && seen.since.is_none(), "{seen:?}");
    }

    #[test]
    fn few_runs_and_new_patterns_say_nothing() {
        let mut times = UsualTimes::default();
        for at in 0..u64::from(USUAL_RUNS_MIN) {
            times.ran(PatternId(at), Millis(1_000), START);
        }
        assert_eq!(times.now(START), None, "no pattern has a usual time yet");
        let later = run(&mut times, START, 120, 1);
        assert_eq!(times.now(later + Millis(PRESENT_MS)), None, "nothing ran in the last minute");
    }

    #[test]
    fn its_tables_are_bounded() {
        let mut times = UsualTimes::default();
        for at in 0..3 * USUAL_TIMES_MAX as u64 {
            times.ran(PatternId(at), Millis(1), START);
            times.ran(PatternId(7), Millis(1), START);
        }
        assert_eq!((times.patterns.len(), times.present.len()), (USUAL_TIMES_MAX, USUAL_RATIOS_MAX));
    }
}
