//! Which keys and patterns are asked most, from a sample of the requests.
//!
//! [`SampleRate`] decides which requests are looked at: every n-th, so that a busy node looks at about
//! [`HOT_SAMPLES_PER_S`] of them a second, and a quiet node at all. [`HotTable`] counts each sample as the n requests that
//! it stands for. Counts decay, so a rate is that of about the last half minute. Both are bounded, and both are estimates:
//! they decide nothing about an answer.

use std::collections::BTreeMap;

use crate::limits::{HOT_DECAY_S, HOT_SAMPLES_PER_S};
use crate::time::{Millis, MonoTime};

/// Which requests are looked at.
#[derive(Debug, Clone, Copy)]
pub struct SampleRate {
    every: u32,
    since: MonoTime,
    taken: u32,
}

impl SampleRate {
    /// Every request, at first.
    #[must_use]
    pub const fn new(now: MonoTime) -> Self {
        Self { every: 1, since: now, taken: 0 }
    }

    /// A sample stands for this many requests.
    #[must_use]
    pub const fn every(&self) -> u32 {
        self.every
    }

    /// One more sample was taken. Too many in one second double the distance at once.
    pub fn took_one(&mut self, now: MonoTime) {
        self.taken += 1;
        if self.taken >= HOT_SAMPLES_PER_S {
            self.every = self.every.saturating_mul(2);
            (self.since, self.taken) = (now, 0);
        } else {
            self.relax(now);
        }
    }

    /// After a second with few samples the distance shrinks to what the traffic allows.
    pub fn relax(&mut self, now: MonoTime) {
        let elapsed_ms = now.since(self.since).0;
        if elapsed_ms < 1_000 {
            return;
        }
        let per_s = u64::from(self.taken) * 1_000 / elapsed_ms;
        if per_s < u64::from(HOT_SAMPLES_PER_S / 4) {
            let fitting = u64::from(self.every) * (2 * per_s + 1) / u64::from(HOT_SAMPLES_PER_S);
            self.every = u32::try_from(fitting).unwrap_or(u32::MAX).max(1);
        }
        (self.since, self.taken) = (now, 0);
    }
}

/// How a sampled request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// From the cache.
    Hit,
    /// By a run, in this time.
    Miss(Millis),
    /// Past the cache.
    Bypass,
}

/// Requests of one key or pattern, as far as the sample shows them. Counts decay.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HotCounts {
    /// Answered from the cache.
    pub hits: f64,
    /// Answered by a run.
    pub misses: f64,
    /// Past the cache.
    pub bypasses: f64,
    /// The time of the misses together, in milliseconds.
    pub miss_ms: f64,
}

impl HotCounts {
    /// Requests of all kinds.
    #[must_use]
    pub fn requests(&self) -> f64 {
        self.hits + self.misses + self.bypasses
    }

    /// Requests per second.
    #[must_use]
    pub fn rate_per_s(&self) -> f64 {
        self.requests() / HOT_DECAY_S
    }

    /// The share of reads that were hits; `None` without a read.
    #[must_use]
    pub fn hit_ratio(&self) -> Option<f64> {
        let reads = self.hits + self.misses;
        (reads > 0.0).then(|| self.hits / reads)
    }

    /// The mean time of a miss, in milliseconds.
    #[must_use]
    pub fn miss_mean_ms(&self) -> Option<f64> {
        (self.misses > 0.0).then(|| self.miss_ms / self.misses)
    }

    fn scaled(&self, by: f64) -> Self {
        Self {
            hits: self.hits * by,
            misses: self.misses * by,
            bypasses: self.bypasses * by,
            miss_ms: self.miss_ms * by,
        }
    }
}

#[derive(Debug)]
struct Row<V> {
    about: V,
    counts: HotCounts,
    at: MonoTime,
    /// The logarithm of the requests as they would have to be at time zero. All rows decay alike, so it orders them at any time.
    warmth: f64,
}

impl<V> Row<V> {
    fn counts(&self, now: MonoTime) -> HotCounts {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let elapsed_s = now.since(self.at).0 as f64 / 1_000.0;
        self.counts.scaled((-elapsed_s / HOT_DECAY_S).exp())
    }

    fn counted(&mut self) {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let at_s = self.at.0 as f64 / 1_000_000.0;
        self.warmth = self.counts.requests().ln() + at_s / HOT_DECAY_S;
    }
}

/// The hottest of all things that were asked for: at most `rows_max`.
#[derive(Debug)]
pub struct HotTable<K, V> {
    rows: BTreeMap<K, Row<V>>,
    rows_max: usize,
}

impl<K: Ord + Clone, V> HotTable<K, V> {
    /// An empty table.
    #[must_use]
    pub fn new(rows_max: usize) -> Self {
        Self { rows: BTreeMap::new(), rows_max }
    }

    /// Counts a sample that stands for `requests`. A new row takes the place of the coldest one when the table is full.
    /// Returns the row's own data.
    pub fn count(
        &mut self,
        key: &K,
        (answered, requests): (AnswerKind, u32),
        now: MonoTime,
        about: impl FnOnce() -> V,
    ) -> &mut V {
        if !self.rows.contains_key(key) && self.rows.len() >= self.rows_max {
            self.forget_coldest();
        }
        let new = || Row { about: about(), counts: HotCounts::default(), at: now, warmth: 0.0 };
        let row = self.rows.entry(key.clone()).or_insert_with(new);
        row.counts = row.counts(now);
        row.at = now;
        let requests = f64::from(requests);
        match answered {
            AnswerKind::Hit => row.counts.hits += requests,
            AnswerKind::Miss(took) => {
                row.counts.misses += requests;
                #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                let took_ms = took.0 as f64;
                row.counts.miss_ms += requests * took_ms;
            }
            AnswerKind::Bypass => row.counts.bypasses += requests,
        }
        row.counted();
        &mut row.about
    }

    /// The hottest rows, the hottest first, at most `limit`. Rows that nobody asks for any more are left out.
    #[must_use]
    pub fn hottest(&self, limit: usize, now: MonoTime) -> Vec<(&K, &V, HotCounts)> {
        let counted = self.rows.iter().map(|(key, row)| (key, &row.about, row.counts(now)));
        let mut rows: Vec<_> = counted.filter(|(_, _, counts)| counts.requests() >= COLD).collect();
        rows.sort_by(|one, other| other.2.requests().total_cmp(&one.2.requests()));
        rows.truncate(limit);
        rows
    }

    fn forget_coldest(&mut self) {
        let coldest = self.rows.iter().min_by(|one, other| one.1.warmth.total_cmp(&other.1.warmth));
        if let Some(coldest) = coldest.map(|(key, _)| key.clone()) {
            self.rows.remove(&coldest);
        }
    }
}

/// Fewer requests than this, decayed, are not shown: one request three minutes ago.
const COLD: f64 = 0.003;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> MonoTime {
        MonoTime(0) + Millis(millis)
    }

    /// 10,000 requests a second: few are looked at. Then ten a second: all are looked at again.
    #[test]
    fn a_busy_node_looks_at_few_and_a_quiet_one_at_all() {
        let mut rate = SampleRate::new(at(0));
        let mut looked_at = 0;
        for request in 0..100_000_u32 {
            if request % rate.every() == 0 {
                rate.took_one(at(u64::from(request / 10)));
                looked_at += 1;
            }
        }
        assert!((64..=512).contains(&rate.every()), "{rate:?}");
        assert!((2 * HOT_SAMPLES_PER_S..16 * HOT_SAMPLES_PER_S).contains(&looked_at), "{looked_at}");
        for second in 0..3 {
            rate.relax(at(12_000 + 1_000 * second));
        }
        assert_eq!(rate.every(), 1);
    }

    #[test]
    fn a_rate_is_that_of_the_last_half_minute() {
        let mut table = HotTable::new(4);
        for millis in (0..120_000_u64).step_by(500) {
            table.count(&"a", (AnswerKind::Hit, 10), at(millis), || ());
        }
        table.count(&"a", (AnswerKind::Miss(Millis(40)), 10), at(120_000), || ());
        let (_, (), counts) = table.hottest(1, at(120_000))[0];
        assert!((counts.rate_per_s() - 20.0).abs() < 2.0, "{counts:?}");
        assert!(counts.hit_ratio().is_some_and(|ratio| ratio > 0.95 && ratio < 1.0));
        assert!(counts.miss_mean_ms().is_some_and(|mean| (mean - 40.0).abs() < 1e-9));
        assert!(table.hottest(1, at(900_000)).is_empty(), "nobody asks any more");
    }

    /// I9: any number of keys takes a bounded number of rows, and the hot ones stay.
    #[test]
    fn the_coldest_makes_room() {
        let mut table = HotTable::new(3);
        for key in 0..1_000_u64 {
            table.count(&0, (AnswerKind::Hit, 1), at(key), || "hot");
            table.count(&(key + 1), (AnswerKind::Bypass, 1), at(key), || "once");
            assert!(table.rows.len() <= 3);
        }
        let hottest = table.hottest(10, at(1_000));
        assert_eq!((hottest.len(), *hottest[0].0, *hottest[0].1), (3, 0, "hot"));
    }
}
