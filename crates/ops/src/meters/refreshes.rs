//! The counters of refreshes: triggered = completed + failed + under way, which is a gauge.

use hopcache_engine::event::RefreshWord;
use metrics::Counter;

use super::counters::BusyCounter;
use super::definitions as defined;

pub(super) struct Refreshes {
    pub(super) stale_served: BusyCounter,
    triggered: Counter,
    completed: Counter,
    failed: Counter,
    retried: Counter,
    dropped: Counter,
    pub(super) late: Counter,
    pub(super) on_write: Counter,
}

impl Refreshes {
    pub(super) fn register() -> Self {
        Self {
            stale_served: BusyCounter::new(defined::STALE_SERVED.counter()),
            triggered: defined::TRIGGERED.counter(),
            completed: defined::COMPLETED.counter(),
            failed: defined::FAILED.counter(),
            retried: defined::RETRIED.counter(),
            dropped: defined::DROPPED.counter(),
            late: defined::LATE.counter(),
            on_write: defined::ON_WRITE.counter(),
        }
    }

    pub(super) fn count(&self, word: RefreshWord) {
        match word {
            RefreshWord::Triggered => self.triggered.increment(1),
            RefreshWord::Completed => self.completed.increment(1),
            RefreshWord::Failed => self.failed.increment(1),
            RefreshWord::Retried => self.retried.increment(1),
            RefreshWord::Dropped => self.dropped.increment(1),
        }
    }
}
