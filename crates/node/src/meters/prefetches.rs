//! The counters of prefetches: attempts = hits + late + waste + pending, which is a gauge.

use hopcache_engine::outcome::PrefetchWord;
use metrics::Counter;

use super::{Family, defined};
use crate::words;

pub(super) struct Prefetches {
    launched: Counter,
    used: Counter,
    late: Counter,
    wasted: Counter,
    skipped: Family<{ words::SKIPS.len() }>,
}

impl Prefetches {
    pub(super) fn register() -> Self {
        Self {
            launched: defined::PREFETCHES.counter(),
            used: defined::PREFETCHES_USED.counter(),
            late: defined::PREFETCHES_LATE.counter(),
            wasted: defined::PREFETCHES_WASTED.counter(),
            skipped: Family::new(defined::PREFETCHES_SKIPPED, "reason", &words::SKIPS),
        }
    }

    pub(super) fn count(&self, word: PrefetchWord) {
        match word {
            PrefetchWord::Launched => self.launched.increment(1),
            PrefetchWord::Used => self.used.increment(1),
            PrefetchWord::Late => self.late.increment(1),
            PrefetchWord::Wasted => self.wasted.increment(1),
            PrefetchWord::Skipped(skip) => self.skipped.add(skip.place()),
        }
    }
}
