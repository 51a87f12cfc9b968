//! When the limit is 1 for a short time, so that runs show their quiet times. All nodes probe at the same times.

use crate::limits::{
    ORIGIN_PROBE_DRAIN, ORIGIN_PROBE_EVERY, ORIGIN_PROBE_GOOD, ORIGIN_PROBE_LEVEL_START, ORIGIN_PROBE_LEVELS,
    ORIGIN_PROBE_MS, ORIGIN_PROBE_RUNS_KNOWN, ORIGIN_PROBE_RUNS_MIN, ORIGIN_PROBE_RUNS_PLENTY,
    ORIGIN_PROBE_SOONER,
};
use crate::time::{Millis, MonoTime};

/// When the next probe begins, and how far the present one is.
///
/// Length and period are powers of two of the shortest ones, and each begins at a multiple of its period by the wall
/// clock. So a node that probes seldom begins together with those that probe often. Nodes that share a Neo4j come to the same
/// length, or nearly: it depends on how many runs end in a probe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// Added to this node's clock, it gives a clock that all nodes share.
    shared_clock_us: u64,
    began: Option<MonoTime>,
    next: MonoTime,
    /// Whether a run had to wait since the last probe.
    is_wanted: bool,
    /// The length is so many times doubled.
    level: u32,
    /// Quiet times that the present probe has shown.
    measured: u32,
    /// Probes since the length changed that have shown enough.
    good: u32,
    /// Quiet times that probes have shown since the last doubt.
    known: u32,
    /// Whether those are enough to go by.
    is_known: bool,
    /// When the last one ended.
    ended: Option<MonoTime>,
}

impl Probe {
    pub(super) fn new(shared_clock_us: u64) -> Self {
        let next = MonoTime::default();
        let probe = Self {
            shared_clock_us,
            began: None,
            next,
            is_wanted: false,
            level: ORIGIN_PROBE_LEVEL_START,
            measured: 0,
            good: 0,
            known: 0,
            is_known: false,
            ended: None,
        };
        Self { next: probe.following(MonoTime::default()), ..probe }
    }

    pub(super) fn is_on(&self) -> bool {
        self.began.is_some()
    }

    /// A run had to wait: a limit matters.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Whether a run that began then, and ends now, was in the measuring part.
    pub(super) fn measures(&self, start: MonoTime) -> bool {
        self.began.is_some_and(|began| start >= began + Millis(self.length().0 / ORIGIN_PROBE_DRAIN))
    }

    /// Time has passed. Whether a probe has begun or ended.
    pub(super) fn pass(&mut self, now: MonoTime) -> bool {
        match self.began {
            Some(began) if now >= began + self.length() => {
                self.began = None;
                self.ended = Some(now);
                self.is_wanted = false;
                self.adapt_length();
                self.next = self.following(now);
                true
            }
            None if self.is_wanted && now >= self.next => {
                let is_late = now.since(self.next) >= Millis(self.length().0 / ORIGIN_PROBE_DRAIN);
                if is_late {
                    self.next = self.following(now);
                } else {
                    self.began = Some(self.next);
                }
                !is_late
            }
            _ => false,
        }
    }

    /// Runs take much longer than before: perhaps every run does, and no queue is the reason. The next probe comes soon, and
    /// is long enough to show it. Returns whether this is a new doubt.
    pub(super) fn doubt(&mut self, now: MonoTime) -> bool {
        let is_new = !self.is_on() && self.is_known;
        if is_new {
            (self.is_known, self.known, self.good) = (false, 0, 0);
            self.level = self.level.max(ORIGIN_PROBE_LEVEL_START);
            self.next = self.after(now, true);
        }
        is_new
    }

    /// Whether quiet times are known.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// A run has shown its quiet time.
    pub(super) fn has_measured(&mut self) {
        self.measured += 1;
    }

    /// A probe that measured little is followed by one of twice the length: runs under way did not end in time. One that
    /// measured plenty, or some good ones, are followed by one of half the length. So nodes do not stay at different lengths,
    /// where the longer one would measure beside the others' runs.
    fn adapt_length(&mut self) {
        let measured = std::mem::take(&mut self.measured);
        if measured < ORIGIN_PROBE_RUNS_MIN {
            (self.level, self.good) = ((self.level + 1).min(ORIGIN_PROBE_LEVELS), 0);
            return;
        }
        self.good += 1;
        self.known = self.known.saturating_add(measured);
        self.is_known |= self.known >= ORIGIN_PROBE_RUNS_KNOWN || self.good >= ORIGIN_PROBE_GOOD;
        if self.good >= ORIGIN_PROBE_GOOD || measured >= ORIGIN_PROBE_RUNS_PLENTY {
            (self.level, self.good) = (self.level.saturating_sub(1), 0);
        }
    }

    fn length(&self) -> Millis {
        Millis(ORIGIN_PROBE_MS << self.level)
    }

    /// Whether a probe was on since then.
    pub(super) fn was_on_since(&self, since: MonoTime) -> bool {
        self.is_on() || self.ended.is_some_and(|ended| ended >= since)
    }

    /// When the next probe begins: soon, while quiet times are unknown. Those of runs that are longer than the longest probe
    /// stay unknown.
    fn following(&self, now: MonoTime) -> MonoTime {
        self.after(now, !self.is_known && self.level < ORIGIN_PROBE_LEVELS)
    }

    /// The first multiple of the period, by the shared clock.
    fn after(&self, now: MonoTime, is_soon: bool) -> MonoTime {
        let level = if is_soon { ORIGIN_PROBE_LEVEL_START } else { self.level.max(ORIGIN_PROBE_LEVEL_START) };
        let every = if is_soon { ORIGIN_PROBE_EVERY / ORIGIN_PROBE_SOONER } else { ORIGIN_PROBE_EVERY };
        let every_us = 1_000 * (ORIGIN_PROBE_MS << level) * every;
        let shared = now.0.saturating_add(self.shared_clock_us);
        MonoTime((shared / every_us + 1).saturating_mul(every_us).saturating_sub(self.shared_clock_us))
    }
}
