//! How fast Neo4j answers, compared with what is usual: measured from the runs of this node, said in the log when it begins and
//! when it is over, and read by `status`, the console and the metrics.

use std::time::Duration;

use hopcache_core::time::MonoTime;
use hopcache_core::usual_time::{Slowness, UsualTimes};
use hopcache_engine::ports::{Clock as _, EndedFetch};
use parking_lot::Mutex;

use crate::clock::{SystemClock, since_1970};
use crate::sentences::parts::slow_origin;

/// The pace of Neo4j.
pub struct OriginPace {
    clock: SystemClock,
    times: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    times: UsualTimes,
    is_told: bool,
}

impl OriginPace {
    /// Nothing has run yet.
    #[must_use]
    pub fn new(clock: SystemClock) -> Self {
        Self { clock, times: Mutex::default() }
    }

    /// A fetch has ended. One without a run says nothing about Neo4j.
    pub fn fetched(&self, fetch: &EndedFetch<'_>) {
        if fetch.times.was_run() {
            self.times.lock().times.ran(fetch.query.pattern, fetch.times.run_ms(), self.clock.now());
        }
    }

    /// How slow Neo4j is now; `None` with too few runs.
    #[must_use]
    pub fn now(&self) -> Option<Slowness> {
        self.times.lock().times.now(self.clock.now())
    }

    /// The sentence for people while Neo4j is slow.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let slowness = self.now()?;
        Some(slow_origin(slowness.factor, self.time_of(slowness.since?)))
    }

    /// Since when Neo4j has been slow, in time since 1970; `None` while it is not.
    #[must_use]
    pub fn slow_since(&self) -> Option<Duration> {
        Some(self.time_of(self.now()?.since?))
    }

    /// Writes a line when Neo4j has become slow, and one when it is as usual again. Called every few seconds.
    pub fn tell(&self) {
        let now = self.clock.now();
        let mut seen = self.times.lock();
        let Some(Slowness { factor, since }) = seen.times.now(now) else { return };
        match since {
            Some(since) if !seen.is_told => {
                seen.is_told = true;
                tracing::warn!(factor, "{}", slow_origin(factor, self.time_of(since)));
            }
            None if seen.is_told => {
                seen.is_told = false;
                tracing::info!(factor, "Neo4j answers as fast as usual again");
            }
            _ => {}
        }
    }

    /// A moment as the time of a clock on the wall.
    fn time_of(&self, at: MonoTime) -> Duration {
        let ago = self.clock.now().since(at).duration();
        since_1970().saturating_sub(ago)
    }
}
