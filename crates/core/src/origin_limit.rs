//! Decides how many runs this node has at Neo4j at a time, from how long its runs take.
//!
//! **Slowdown.** A run's time is compared with the time that runs of its own pattern take almost alone. So a mix of 1 ms
//! and 500 ms statements does not look like congestion. Over a window, the sum of the times over the sum of the idle
//! times is the slowdown S: each run weighs as much as it costs.
//!
//! **Queue.** Of N runs under way, N/S would do for the same throughput, and the other N × (1 − 1/S) only queue inside
//! Neo4j (TCP Vegas, Brakmo and Peterson 1995; Netflix' concurrency-limits uses it as its Vegas limit). The limit rises
//! while fewer than [`ORIGIN_QUEUED_MIN`] queue there and falls while more than [`ORIGIN_QUEUED_MAX`] do. Every node
//! keeps the same small number there, whatever its limit, so nodes that share one Neo4j end at equal parts. Clients' runs
//! wait in this node's own line instead, which knows principals, classes and costs.
//!
//! **Probe.** Under lasting load no run is alone, and the idle times would grow old. So now and then the limit is 1 for
//! some runs (the idea of BBR's `ProbeRTT`, Cardwell et al. 2016). A probe among the runs of other nodes would take
//! their queue for idle time. So all nodes probe at the same times by their wall clocks. Clocks that differ do no harm
//! beyond that: the limits end higher, since each node measures beside the others' runs.
//!
//! It reads no clock and starts no run: the caller tells it what begins and ends, and asks for [`OriginLimit::limit`]
//! after that.

mod run_times;

use self::run_times::RunTimes;
use crate::cypher::pattern::PatternId;
use crate::limits::{
    ORIGIN_IDLE_RUNS_MAX, ORIGIN_LIMIT_START, ORIGIN_PROBE_EVERY_MS, ORIGIN_PROBE_LONGEST_MS,
    ORIGIN_PROBE_PAUSE, ORIGIN_PROBE_RUNS_MS, ORIGIN_QUEUED_MAX, ORIGIN_QUEUED_MIN,
    ORIGIN_SLOWDOWN_SMOOTHING, ORIGIN_SLOWDOWN_STRAINED, ORIGIN_SLOWDOWN_TOLERATED, ORIGIN_TIME_OUTLIER,
    ORIGIN_WINDOW_MS, ORIGIN_WINDOW_RUNS, ORIGIN_WINDOW_SLOW_MS, ORIGIN_WINDOW_SLOW_RUNS,
};
use crate::time::{Millis, MonoTime};

/// Between which numbers the limit stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitBounds {
    /// The lowest; 0 counts as 1.
    pub min: usize,
    /// The highest; not below the lowest. Equal to the lowest, the limit is fixed and nothing probes.
    pub max: usize,
}

/// A run under way: when it began, and how much this node had under way until then.
#[derive(Debug, Clone, Copy)]
pub struct RunStart {
    at: MonoTime,
    area_us: u64,
}

/// The limit, and what it is learned from.
#[derive(Debug, Clone)]
pub struct OriginLimit {
    bounds: LimitBounds,
    limit: f64,
    in_flight: usize,
    /// The sum of all runs' times under way until `now`.
    area_us: u64,
    now: MonoTime,
    times: RunTimes,
    /// Smoothed; `None` before the first window.
    slowdown: Option<f64>,
    window: Window,
    /// Runs that began before this do not count: they ran under another limit.
    counted_from: MonoTime,
    probe: Probe,
}

/// What the runs since the last decision have shown.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    began: MonoTime,
    runs: u32,
    took_us: f64,
    idle_us: f64,
    /// The mean of the runs under way, weighed by `took_us`.
    under_way: f64,
    /// Whether a run had to wait for the limit.
    was_full: bool,
}

/// When the next probe begins, and how far the present one is.
#[derive(Debug, Clone, Copy)]
struct Probe {
    /// Added to this node's clock, it gives a clock that all nodes share.
    shared_clock_us: u64,
    began: Option<MonoTime>,
    /// When the first run ended that was alone.
    alone_since: Option<MonoTime>,
    next: MonoTime,
    /// Whether a run had to wait since the last probe.
    is_wanted: bool,
}

impl OriginLimit {
    /// No run is under way. `shared_clock_us`, added to this node's clock, gives the wall clock.
    #[must_use]
    pub fn new(bounds: LimitBounds, shared_clock_us: u64) -> Self {
        let min = bounds.min.max(1);
        let bounds = LimitBounds { min, max: bounds.max.max(min) };
        let probe = Probe {
            shared_clock_us,
            began: None,
            alone_since: None,
            next: MonoTime::default(),
            is_wanted: false,
        };
        let probe = Probe { next: probe.after(MonoTime::default(), Millis::ZERO), ..probe };
        Self {
            bounds,
            limit: as_float(ORIGIN_LIMIT_START.clamp(bounds.min, bounds.max)),
            in_flight: 0,
            area_us: 0,
            now: MonoTime::default(),
            times: RunTimes::default(),
            slowdown: None,
            window: Window::default(),
            counted_from: MonoTime::default(),
            probe,
        }
    }

    /// Runs that this node may have under way now.
    #[must_use]
    pub fn limit(&self) -> usize {
        if self.probe.began.is_some() { 1 } else { self.learned() }
    }

    /// The same without regard to a probe.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds")]
    pub fn learned(&self) -> usize {
        (self.limit as usize).clamp(self.bounds.min, self.bounds.max)
    }

    /// Whether runs take much longer than alone: nothing is left over.
    #[must_use]
    pub fn is_strained(&self) -> bool {
        self.slowdown.is_some_and(|slowdown| slowdown > ORIGIN_SLOWDOWN_STRAINED)
    }

    /// How long a run of this pattern is expected to take; `None` before the first run.
    #[must_use]
    pub fn expected_us(&self, pattern: PatternId) -> Option<f64> {
        self.times.expected_us(pattern)
    }

    /// Time has passed: a probe may begin or end.
    pub fn tick(&mut self, now: MonoTime) {
        let passed_us = now.0.saturating_sub(self.now.0);
        self.area_us = self.area_us.saturating_add(passed_us.saturating_mul(self.in_flight as u64));
        self.now = self.now.max(now);
        if self.is_fixed() {
            return;
        }
        match self.probe.began {
            Some(_) if self.probe.is_over(self.now) => self.end_probe(),
            None if self.probe.is_wanted && self.now >= self.probe.next => {
                self.probe.began = Some(self.now);
                self.probe.alone_since = None;
            }
            _ => {}
        }
    }

    /// A run had to wait for others.
    pub fn was_full(&mut self) {
        self.window.was_full = true;
        self.probe.is_wanted = true;
    }

    /// A run begins.
    pub fn begin(&mut self, now: MonoTime) -> RunStart {
        self.tick(now);
        self.in_flight += 1;
        RunStart { at: self.now, area_us: self.area_us }
    }

    /// A run has ended. Its time counts if there is a pattern: it was answered, or ran until its deadline.
    pub fn end(&mut self, now: MonoTime, start: RunStart, pattern: Option<PatternId>) {
        self.tick(now);
        self.in_flight = self.in_flight.saturating_sub(1);
        let Some(pattern) = pattern else { return };
        let took_us = as_float_us(self.now.0.saturating_sub(start.at.0)).max(1.0);
        let under_way = as_float_us(self.area_us.saturating_sub(start.area_us)) / took_us;
        self.times.note(pattern, took_us, under_way);
        if under_way <= ORIGIN_IDLE_RUNS_MAX {
            self.probe.alone_since.get_or_insert(self.now);
        }
        if self.is_fixed() {
            return;
        }
        if self.probe.began.is_some_and(|_| self.probe.is_over(self.now)) {
            self.end_probe();
        }
        let is_counted = self.probe.began.is_none() && start.at >= self.counted_from;
        if let (true, Some(idle_us)) = (is_counted, self.times.idle_us(pattern)) {
            self.window.add(took_us, idle_us, under_way);
            self.decide();
        }
    }

    fn is_fixed(&self) -> bool {
        self.bounds.min == self.bounds.max
    }

    fn end_probe(&mut self) {
        let Some(began) = self.probe.began.take() else { return };
        self.probe.next = self.probe.after(self.now, self.now.since(began));
        self.probe.is_wanted = false;
        if self.probe.alone_since.is_none() {
            // The runs under way did not end in time, so the idle times stay unknown or grow old: perhaps they are too
            // many. Statements that always run so long keep the limit at which they began.
            let least = as_float(ORIGIN_LIMIT_START).min(self.limit);
            self.set((self.limit / 2.0).max(least));
        }
        self.restart();
    }

    /// Only runs from now on count.
    fn restart(&mut self) {
        self.counted_from = self.now;
        self.window = Window { began: self.now, ..Window::default() };
    }

    fn decide(&mut self) {
        let window = self.window;
        if !window.is_complete(self.now) {
            return;
        }
        let latest = window.took_us / window.idle_us;
        let slowdown =
            self.slowdown.map_or(latest, |before| before + (latest - before) * ORIGIN_SLOWDOWN_SMOOTHING);
        self.slowdown = Some(slowdown);
        self.window = Window { began: self.now, ..Window::default() };
        let needed = window.under_way * (ORIGIN_SLOWDOWN_TOLERATED / slowdown).min(1.0);
        let queued = window.under_way - needed;
        if queued > ORIGIN_QUEUED_MAX {
            let target = needed + (ORIGIN_QUEUED_MIN + ORIGIN_QUEUED_MAX) / 2.0;
            if target < self.limit {
                self.set(self.limit - ((self.limit - target) / 2.0).max(1.0));
                self.restart();
            }
        } else if queued < ORIGIN_QUEUED_MIN && window.was_full {
            let is_free = slowdown <= ORIGIN_SLOWDOWN_TOLERATED;
            let rise = if is_free { self.limit.sqrt() } else { 1.0 };
            self.set(self.limit + rise);
        }
    }

    fn set(&mut self, limit: f64) {
        self.limit = limit.clamp(as_float(self.bounds.min), as_float(self.bounds.max));
    }
}

impl Window {
    fn add(&mut self, took_us: f64, idle_us: f64, under_way: f64) {
        let counted_us = took_us.min(ORIGIN_TIME_OUTLIER * idle_us);
        self.runs += 1;
        self.took_us += counted_us;
        self.idle_us += idle_us;
        self.under_way += (under_way - self.under_way) * counted_us / self.took_us;
    }

    fn is_complete(&self, now: MonoTime) -> bool {
        let lasted = now.since(self.began);
        lasted >= Millis(ORIGIN_WINDOW_MS) && self.runs >= ORIGIN_WINDOW_RUNS
            || lasted >= Millis(ORIGIN_WINDOW_SLOW_MS) && self.runs >= ORIGIN_WINDOW_SLOW_RUNS
    }
}

impl Probe {
    fn is_over(&self, now: MonoTime) -> bool {
        let lasted = self.began.map_or(Millis::ZERO, |began| now.since(began));
        let is_enough = |since: MonoTime| now.since(since) >= Millis(ORIGIN_PROBE_RUNS_MS);
        lasted >= Millis(ORIGIN_PROBE_LONGEST_MS) || self.alone_since.is_some_and(is_enough)
    }

    /// The first multiple of the period, by the shared clock. After a long probe the period is longer: by a power of two,
    /// so that these probes too begin when all others do.
    fn after(&self, now: MonoTime, lasted: Millis) -> MonoTime {
        let pause_ms = lasted.0.min(ORIGIN_PROBE_LONGEST_MS) * ORIGIN_PROBE_PAUSE;
        let periods = pause_ms.div_ceil(ORIGIN_PROBE_EVERY_MS).max(1).next_power_of_two();
        let every_us = periods * ORIGIN_PROBE_EVERY_MS * 1_000;
        let shared = now.0.saturating_add(self.shared_clock_us);
        MonoTime((shared / every_us + 1).saturating_mul(every_us).saturating_sub(self.shared_clock_us))
    }
}

#[expect(clippy::cast_precision_loss, reason = "runs are few")]
const fn as_float(runs: usize) -> f64 {
    runs as f64
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a run are far below 2^53")]
const fn as_float_us(us: u64) -> f64 {
    us as f64
}
