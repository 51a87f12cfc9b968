//! The counters of prefetches: attempts = hits + late + waste + pending, which is a gauge.

use hopcache_engine::event::PrefetchWord;
use hopcache_learning::gain::CandidateKind;
use metrics::Counter;

use super::definitions as defined;
use super::family::Family;
use crate::labels;

pub(super) struct Prefetches {
    launched: Counter,
    used: Counter,
    late: Counter,
    wasted: Counter,
    skipped: Family<{ labels::SKIPS.len() }>,
    /// By [`CandidateKind::place`] and [`labels::PREFETCH_ENDS`].
    kinds: [[Counter; labels::PREFETCH_ENDS.len()]; CandidateKind::ALL.len()],
}

impl Prefetches {
    pub(super) fn register() -> Self {
        Self {
            launched: defined::PREFETCHES.counter(),
            used: defined::PREFETCHES_USED.counter(),
            late: defined::PREFETCHES_LATE.counter(),
            wasted: defined::PREFETCHES_WASTED.counter(),
            skipped: Family::new(defined::PREFETCHES_SKIPPED, "reason", &labels::SKIPS),
            kinds: CandidateKind::ALL.map(|kind| {
                labels::PREFETCH_ENDS.map(|end| {
                    defined::PREFETCH_KINDS.counter_of_labels([("kind", kind.as_str()), ("outcome", end)])
                })
            }),
        }
    }

    pub(super) fn count(&self, word: PrefetchWord) {
        let (counter, kind, end) = match word {
            PrefetchWord::Launched(kind) => (&self.launched, kind, 0),
            PrefetchWord::Used(kind) => (&self.used, kind, 1),
            PrefetchWord::Late(kind) => (&self.late, kind, 2),
            PrefetchWord::Wasted(kind) => (&self.wasted, kind, 3),
            PrefetchWord::Skipped(skip) => return self.skipped.add(skip.place()),
        };
        counter.increment(1);
        self.kinds[kind.place()][end].increment(1);
    }
}
