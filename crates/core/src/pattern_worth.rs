//! Whether the caching of a pattern pays: whether what its hits save is more than what its misses cost.
//!
//! A miss that is cached costs the nodes a hop, a lease, a store and the work around them. That is nothing beside a run of 50 ms,
//! and more than the run itself where Neo4j answers in 0.2 ms. If hardly any key of such a pattern is asked twice, its reads are
//! run directly: by the node that the client asked, without hop, lease and store.
//!
//! **The price.** With the share of hits h, caching pays if h × (what a hit saves) is at least (1 − h) × (what a miss costs more
//! than a direct run). A hit saves the run and the work around it. What reads cost the nodes are constants
//! ([`crate::limits::WORTH_MISS_US`] and its neighbours); the time of a run is measured.
//!
//! **The time of a run** is its tenth percentile: what it takes when it does not wait behind others. A pattern is cheap if that is
//! below 2 ms, and the mean below 10 ms: a pattern with some costly runs is costly.
//!
//! **The share of hits.** While a pattern is cached, it is counted. While its reads are run directly, nothing is stored that they
//! could hit. So one key in 32, chosen by its digest, always takes the whole way: the share of hits of these keys is what all keys
//! would have, with all that writes and TTLs do to them. The hits of all reads count as well: a key that comes back takes the whole
//! way too, and one hot key may make up for thousands of cold ones.
//!
//! It reads no clock and has no dice: the caller says what was read, and when.

use crate::key::QueryKey;
use crate::limits::{
    WORTH_BEGINS_AT, WORTH_DIRECT_US, WORTH_FILLS_MS, WORTH_HALVES_MS, WORTH_HIT_US, WORTH_HOLD_MS,
    WORTH_HOP_HIT_US, WORTH_HOP_MISS_US, WORTH_MEAN_US_MAX, WORTH_MISS_US, WORTH_READS_MIN, WORTH_RUN_US_MAX,
    WORTH_RUNS_MIN, WORTH_SAMPLE_ONE_IN, WORTH_SAMPLED_MIN, WORTH_SAMPLED_READS, WORTH_SAMPLED_WINDOW_MS,
    WORTH_WINDOW_MS, WORTH_WINDOW_READS,
};
use crate::time::{Millis, MonoTime};

/// Whether this key takes the whole way, whatever is known of its pattern. All nodes choose the same keys.
#[must_use]
pub const fn is_sampled(key: &QueryKey) -> bool {
    key.0[31].is_multiple_of(WORTH_SAMPLE_ONE_IN)
}

/// The share of hits from which the caching of a pattern pays: `run_us` is the time of its runs, `nodes` the size of the ring.
#[must_use]
pub fn paying_share(run_us: f64, nodes: usize) -> f64 {
    // Even placement: a node owns one key in `nodes`.
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let own = 1.0 / nodes.max(1) as f64;
    let mean = |here: f64, there: f64| own.mul_add(here, (1.0 - own) * there);
    let extra = mean(WORTH_MISS_US, WORTH_HOP_MISS_US) - WORTH_DIRECT_US;
    let saved = (run_us + WORTH_DIRECT_US - mean(WORTH_HIT_US, WORTH_HOP_HIT_US)).max(1.0);
    extra / (extra + saved)
}

/// Plain data: reads of one pattern, of clients of one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// All reads that were hits or misses.
    pub reads: u64,
    /// The hits among them.
    pub hits: u64,
    /// The reads of keys that [`is_sampled`] chooses.
    pub sampled: u64,
    /// The hits among those.
    pub sampled_hits: u64,
}

/// Plain data: what a node knows of a pattern, for people.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorthView {
    /// Reads in the window. Older ones weigh less.
    pub reads: f64,
    /// The hits among them.
    pub hits: f64,
    /// The usual time of a run, in microseconds; `None` before the first runs.
    pub run_us: Option<f64>,
    /// The share of hits from which caching pays.
    pub paying_share: Option<f64>,
    /// Whether its reads are run directly at present.
    pub is_direct: bool,
}

/// What a node knows of one pattern, and whether its reads are run directly.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternWorth {
    all: Share,
    sampled: Share,
    runs: RunTimes,
    is_direct: bool,
    /// The first read, or the last change.
    since: MonoTime,
    last: MonoTime,
}

impl PatternWorth {
    /// Nothing is known: the pattern is cached.
    #[must_use]
    pub fn new(now: MonoTime) -> Self {
        Self {
            all: Share::default(),
            sampled: Share::default(),
            runs: RunTimes::default(),
            is_direct: false,
            since: now,
            last: now,
        }
    }

    /// Counts reads, and decides anew.
    pub fn read(&mut self, counts: ReadCounts, nodes: usize, now: MonoTime) {
        let spent_us = now.0.saturating_sub(self.last.0);
        self.last = self.last.max(now);
        self.all.fade(spent_us, WORTH_WINDOW_MS);
        self.sampled.fade(spent_us, WORTH_SAMPLED_WINDOW_MS);
        self.all.add((counts.reads, counts.hits), WORTH_WINDOW_READS, now);
        self.sampled.add((counts.sampled, counts.sampled_hits), WORTH_SAMPLED_READS, now);
        self.decide(nodes, now);
    }

    /// Counts a run, which took this long at Neo4j.
    pub fn ran(&mut self, took_us: u64) {
        self.runs.ran(took_us);
        if self.is_direct && !self.runs.is_cheap() {
            self.change(self.last);
        }
    }

    /// Whether its reads are run directly.
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// When it was read last.
    #[must_use]
    pub const fn last_read(&self) -> MonoTime {
        self.last
    }

    /// What is known of it.
    #[must_use]
    pub fn view(&self, nodes: usize) -> WorthView {
        let run_us = self.runs.usual_us();
        WorthView {
            reads: self.all.reads,
            hits: self.all.hits,
            run_us,
            paying_share: run_us.map(|run_us| paying_share(run_us, nodes)),
            is_direct: self.is_direct,
        }
    }

    fn decide(&mut self, nodes: usize, now: MonoTime) {
        if now.since(self.since) < Millis(WORTH_HOLD_MS) {
            return;
        }
        let Some(run_us) = self.runs.usual_us() else { return };
        let pays_from = paying_share(run_us, nodes);
        let is_filled = !self.is_direct && now.since(self.since) >= Millis(WORTH_FILLS_MS);
        let is_sample_enough = self.sampled.reads >= WORTH_SAMPLED_MIN && !is_filled;
        let is_at_least =
            |from: f64| self.all.is_at_least(from) || is_sample_enough && self.sampled.is_at_least(from);
        // Of so few reads nobody knows what they would gain.
        let are_few =
            now.since(self.since) >= Millis(WORTH_FILLS_MS) && self.all.reads < WORTH_READS_MIN / 2.0;
        let changes = if self.is_direct {
            is_at_least(pays_from) || are_few
        } else {
            let is_known = self.all.reads >= WORTH_READS_MIN;
            is_known && self.runs.is_cheap() && !is_at_least(WORTH_BEGINS_AT * pays_from)
        };
        if changes {
            self.change(now);
        }
    }

    /// What was counted before says nothing about all reads from now on. Sampled keys are cached before and after; but those that were
    /// sampled when keys still returned speak for that time.
    fn change(&mut self, now: MonoTime) {
        self.is_direct = !self.is_direct;
        self.all = Share::default();
        if self.is_direct {
            self.sampled = Share::default();
        }
        self.since = now;
    }
}

/// Reads, and the hits among them. Old ones weigh less.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Share {
    reads: f64,
    hits: f64,
    /// When they last lost weight because there were enough of them.
    halved: MonoTime,
}

impl Share {
    fn fade(&mut self, spent_us: u64, window_ms: u64) {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let kept = (-(spent_us as f64) / (window_ms as f64 * 1_000.0)).exp();
        self.scale(kept);
    }

    /// Adds reads. With more than `most` of them, all together weigh half of that.
    fn add(&mut self, (reads, hits): (u64, u64), most: f64, now: MonoTime) {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let (reads, hits) = (reads as f64, hits.min(reads) as f64);
        self.reads += reads;
        self.hits += hits;
        if self.reads > most && now.since(self.halved) >= Millis(WORTH_HALVES_MS) {
            self.halved = now;
            self.scale(most / 2.0 / self.reads);
        }
    }

    fn scale(&mut self, by: f64) {
        self.reads *= by;
        self.hits *= by;
    }

    fn is_at_least(self, share: f64) -> bool {
        self.reads > 0.0 && self.hits >= share * self.reads
    }
}

/// The part of the runs that is shorter than the usual one.
const USUAL_PART: f64 = 0.1;
/// How far one run moves the logarithm of the usual time, at most.
const USUAL_STEP: f64 = 0.1;
/// Runs in the moving mean.
const MEAN_RUNS: f64 = 32.0;
/// A longer run counts as this: after one of them a pattern is cheap again within about forty runs.
const RUN_US_MAX: f64 = 100.0 * WORTH_MEAN_US_MAX;
/// The shortest time that a run is taken for.
const RUN_US_MIN: f64 = 20.0;

/// The times of a pattern's runs, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct RunTimes {
    /// The logarithm of the tenth percentile, moved a step up or down by each run.
    ln_usual_us: f64,
    mean_us: f64,
    runs: u32,
}

impl RunTimes {
    fn ran(&mut self, took_us: u64) {
        #[expect(clippy::cast_precision_loss, reason = "within the bounds")]
        let took_us = (took_us as f64).clamp(RUN_US_MIN, RUN_US_MAX);
        let ln_us = took_us.ln();
        if self.runs == 0 {
            (self.ln_usual_us, self.mean_us) = (ln_us, took_us);
        }
        self.runs = self.runs.saturating_add(1);
        let step = if ln_us < self.ln_usual_us { USUAL_PART - 1.0 } else { USUAL_PART };
        // It never goes past the run itself.
        let to = USUAL_STEP.mul_add(step, self.ln_usual_us);
        self.ln_usual_us = if step < 0.0 { to.max(ln_us) } else { to.min(ln_us) };
        self.mean_us += (took_us - self.mean_us) / f64::from(self.runs).min(MEAN_RUNS);
    }

    fn usual_us(&self) -> Option<f64> {
        (self.runs >= WORTH_RUNS_MIN).then(|| self.ln_usual_us.exp())
    }

    fn is_cheap(&self) -> bool {
        self.usual_us().is_some_and(|us| us < WORTH_RUN_US_MAX) && self.mean_us < WORTH_MEAN_US_MAX
    }
}

#[cfg(test)]
mod tests;
