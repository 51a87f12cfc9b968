//! Decides how many runs this node has at Neo4j at a time, from how long its runs take.
//!
//! **Slowdown.** A run's time is compared with the quiet time of its own pattern. So a mix of 1 ms and 500 ms statements
//! does not look like congestion. Over a window, the slowdown S is the geometric mean of these ratios, each weighed by its
//! quiet time.
//!
//! **Limit.** Of N runs under way, N/S would do for the same throughput, and the other N × (1 − 1/S) only queue inside
//! Neo4j (TCP Vegas, Brakmo and Peterson 1995; Netflix' concurrency-limits uses it as its Vegas limit). The limit becomes
//! N/S × [`ORIGIN_SLOWDOWN_TOLERATED`] + [`ORIGIN_QUEUED`], as in Netflix' Gradient2, so less than one run of this node
//! queues there. Every node keeps as many there, whatever its limit, so nodes that share one Neo4j end at equal parts.
//! Clients' runs wait in this node's own line instead, which knows principals, classes and costs.
//!
//! **Probe.** Under lasting load no run is alone. So for a short time the limit is 1, again and again (the idea of BBR's
//! `ProbeRTT`, Cardwell et al. 2016). A probe among the runs of other nodes would take their queue for quiet time. So all
//! nodes probe at the same times by their wall clocks, and measure only in the later part. Clocks that differ do no harm
//! beyond that: the limits end higher, since each node measures beside the others' runs. With more nodes than cores even a
//! probe queues. Then one run of each node already fills Neo4j, and the ratio to the probe is what counts: two runs of a
//! node take twice as long as one, so the limit is the lowest. Requests wait in a probe, so a node that measures plenty in
//! one takes shorter ones: with short runs down to 0.8 % of the time, which the 99th percentile of waits does not show; with
//! long runs up to 3.1 %, and 12.5 % while quiet times are not known.
//!
//! **Doubt.** Runs that suddenly take longer queue, or Neo4j has changed. Without a new quiet time a changed Neo4j would
//! bring the limit to the lowest. So the next probe comes soon where the slowdown is far above the usual one, or the limit
//! far below.
//!
//! **Stall.** Nothing is learned while no run ends. When all slots are held by runs that take much longer than runs did of late,
//! the limit rises step by step, so that four long reports do not hold up all short reads of the node. The runs that end then
//! bring it down again.
//!
//! Example: three nodes on two cores. In probes S is 1 by definition. With four runs of each node S is about 4, and the
//! limit becomes 4/4 × 1.2 + 0.7 = 1.9, so [`ORIGIN_LIMIT_MIN`](crate::limits::ORIGIN_LIMIT_MIN).
//!
//! It reads no clock and starts no run: the caller tells it what begins and ends, and asks for [`OriginLimit::limit`]
//! after that.

mod probe;
mod run_times;
mod window;

use self::probe::Probe;
use self::run_times::{RunPeriod, RunTimes};
use self::window::Window;
use crate::limits::{
    ORIGIN_FALL_SUSPECT, ORIGIN_IDLE_RUNS_MAX, ORIGIN_LIMIT_START, ORIGIN_QUEUED, ORIGIN_RISE_AGAIN_MS,
    ORIGIN_SLOWDOWN_SMOOTHING, ORIGIN_SLOWDOWN_STRAINED, ORIGIN_SLOWDOWN_SUSPECT, ORIGIN_SLOWDOWN_TOLERATED,
    ORIGIN_STALLED_MS, ORIGIN_STALLED_RUNS, ORIGIN_TIME_SMOOTHING, ORIGIN_USUAL_SMOOTHING,
};
use crate::pattern::PatternId;
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

/// Means over some seconds.
#[derive(Debug, Clone, Copy)]
struct Usual {
    slowdown: f64,
    limit: f64,
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
    /// Of windows in which a run had to wait. `None` after a doubt, and until quiet times are known.
    usual: Option<Usual>,
    window: Window,
    /// Runs that began before this do not count: they ran under another limit.
    counted_from: MonoTime,
    probe: Probe,
    /// The limit does not rise before this: it has just been too high.
    rises_from: MonoTime,
    /// When a run last began or ended.
    moved_at: MonoTime,
    /// Mean time of the last runs, in microseconds.
    mean_us: f64,
}

impl OriginLimit {
    /// No run is under way. `shared_clock_us`, added to this node's clock, gives the wall clock.
    #[must_use]
    pub fn new(bounds: LimitBounds, shared_clock_us: u64) -> Self {
        let min = bounds.min.max(1);
        let bounds = LimitBounds { min, max: bounds.max.max(min) };
        Self {
            bounds,
            limit: as_float(ORIGIN_LIMIT_START.clamp(bounds.min, bounds.max)),
            in_flight: 0,
            area_us: 0,
            now: MonoTime::default(),
            times: RunTimes::default(),
            slowdown: None,
            usual: None,
            window: Window::default(),
            counted_from: MonoTime::default(),
            probe: Probe::new(shared_clock_us),
            rises_from: MonoTime::default(),
            moved_at: MonoTime::default(),
            mean_us: 0.0,
        }
    }

    /// Runs that this node may have under way now.
    #[must_use]
    pub fn limit(&self) -> usize {
        if self.probe.is_on() { 1 } else { self.learned() }
    }

    /// The same without regard to a probe.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds")]
    pub fn learned(&self) -> usize {
        (self.limit as usize).clamp(self.bounds.min, self.bounds.max)
    }

    /// Whether a probe is on.
    #[must_use]
    pub fn is_probing(&self) -> bool {
        self.probe.is_on()
    }

    /// Whether a probe was on since then: runs waited because of it, not because Neo4j is full.
    #[must_use]
    pub fn was_probing_since(&self, since: MonoTime) -> bool {
        self.probe.was_on_since(since)
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
        let was_known = self.probe.is_known();
        if self.probe.pass(self.now) {
            // The runs from before, and of the probe, were under other limits.
            self.restart();
            if !was_known {
                // What is usual beside these quiet times is not known yet.
                self.usual = None;
            }
        }
        if self.is_stalled() {
            self.moved_at = self.now;
            self.rise(0.0);
        }
    }

    /// Whether all slots are taken, and no run has begun or ended for much longer than runs took of late.
    fn is_stalled(&self) -> bool {
        let span_us = as_float_us(self.now.0.saturating_sub(self.moved_at.0));
        let least_us = as_float_us(ORIGIN_STALLED_MS * 1_000);
        !self.probe.is_on()
            && self.in_flight >= self.learned()
            && span_us >= least_us.max(self.mean_us * ORIGIN_STALLED_RUNS)
    }

    /// A run had to wait for others.
    pub fn was_full(&mut self) {
        self.window.was_full = true;
        self.probe.want();
    }

    /// A run begins.
    pub fn begin(&mut self, now: MonoTime) -> RunStart {
        self.tick(now);
        self.in_flight += 1;
        self.moved_at = self.now;
        RunStart { at: self.now, area_us: self.area_us }
    }

    /// A run has ended. Its time counts if there is a pattern: it was answered, or ran until its deadline.
    pub fn end(&mut self, now: MonoTime, start: RunStart, pattern: Option<PatternId>) {
        self.tick(now);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.moved_at = self.now;
        let Some(pattern) = pattern else { return };
        let took_us = as_float_us(self.now.0.saturating_sub(start.at.0)).max(1.0);
        self.mean_us += (took_us - self.mean_us) * ORIGIN_TIME_SMOOTHING;
        let under_way = as_float_us(self.area_us.saturating_sub(start.area_us)) / took_us;
        let is_quiet = under_way <= ORIGIN_IDLE_RUNS_MAX && self.probe.measures(start.at);
        let during = if is_quiet { RunPeriod::Quiet } else { RunPeriod::Load(under_way) };
        self.times.note(pattern, took_us, during);
        if is_quiet {
            self.probe.has_measured();
        }
        if self.is_fixed() || self.probe.is_on() || start.at < self.counted_from {
            return;
        }
        if let Some(reference) = self.times.reference(pattern) {
            self.window.add(took_us, reference, under_way);
            self.decide();
        }
    }

    fn is_fixed(&self) -> bool {
        self.bounds.min == self.bounds.max
    }

    /// Only runs from now on count.
    fn restart(&mut self) {
        self.counted_from = self.now;
        self.window = Window::from(self.now);
    }

    fn decide(&mut self) {
        let Some(found) = self.window.result(self.now) else { return };
        let slowdown = self
            .slowdown
            .map_or(found.slowdown, |before| before + (found.slowdown - before) * ORIGIN_SLOWDOWN_SMOOTHING);
        self.slowdown = Some(slowdown);
        self.window = Window::from(self.now);
        let free = (ORIGIN_SLOWDOWN_TOLERATED / slowdown).min(1.0);
        let target = found.under_way * free + ORIGIN_QUEUED;
        if free < 1.0 && target < self.limit {
            let (before, limit) = (self.learned(), self.limit);
            self.set(target);
            self.rises_from = self.now + Millis(ORIGIN_RISE_AGAIN_MS);
            if self.learned() < before {
                // As many times fewer runs at a full Neo4j take as many times less.
                self.slowdown = Some((slowdown * self.limit / limit).max(1.0));
                self.restart();
            }
        } else if found.was_full && (free >= 1.0 || target > self.limit) && self.now >= self.rises_from {
            self.rise(target);
        }
        if found.was_full {
            self.doubt_unusual();
        }
    }

    /// Runs that take much longer than usual, or a limit that has fallen far: perhaps every run takes longer than before, and
    /// no queue is the reason.
    fn doubt_unusual(&mut self) {
        let slowdown = self.slowdown.unwrap_or(1.0);
        let usual = self.usual.get_or_insert(Usual { slowdown, limit: self.limit });
        let fell = self.limit < usual.limit * ORIGIN_FALL_SUSPECT && self.limit + 1.0 < usual.limit;
        if fell || slowdown > usual.slowdown * ORIGIN_SLOWDOWN_SUSPECT {
            if self.probe.doubt(self.now) {
                self.times.doubt();
            }
            self.usual = None;
        } else {
            usual.slowdown += (slowdown - usual.slowdown) * ORIGIN_USUAL_SMOOTHING;
            usual.limit += (self.limit - usual.limit) * ORIGIN_USUAL_SMOOTHING;
        }
    }

    fn rise(&mut self, target: f64) {
        let before = self.learned();
        self.set((self.limit + self.limit.sqrt()).max(target));
        if self.learned() > before {
            self.restart();
        }
    }

    fn set(&mut self, limit: f64) {
        self.limit = limit.clamp(as_float(self.bounds.min), as_float(self.bounds.max));
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
