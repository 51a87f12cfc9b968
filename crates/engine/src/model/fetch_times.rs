//! Where the time of one fetch went, for the line of a slow one. It decides nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hopcache_core::time::Millis;

/// Where the time of one fetch went. All its parts share it.
#[derive(Debug, Clone, Default)]
pub struct FetchTimes(Arc<Parts>);

#[derive(Debug, Default)]
struct Parts {
    lease_ms: AtomicU64,
    explain_ms: AtomicU64,
    waited_ms: AtomicU64,
    run_ms: AtomicU64,
    was_run: AtomicBool,
}

impl FetchTimes {
    /// The competition for the lease took this long.
    pub(crate) fn leased(&self, took_ms: Millis) {
        self.0.lease_ms.store(took_ms.0, Ordering::Relaxed);
    }

    /// The question for the kind of the statement took this long.
    pub(crate) fn explained(&self, took_ms: Millis) {
        self.0.explain_ms.store(took_ms.0, Ordering::Relaxed);
    }

    /// A run waited this long for a place at the origin. The origin says so.
    pub fn waited(&self, waited_ms: Millis) {
        self.0.waited_ms.store(waited_ms.0, Ordering::Relaxed);
    }

    /// A run took this long, with its wait for a place.
    pub(crate) fn ran(&self, took_ms: Millis) {
        self.0.run_ms.store(took_ms.0, Ordering::Relaxed);
        self.0.was_run.store(true, Ordering::Relaxed);
    }

    /// Whether there was a run. One of less than a millisecond took none.
    #[must_use]
    pub fn was_run(&self) -> bool {
        self.0.was_run.load(Ordering::Relaxed)
    }

    /// How long the competition for the lease took.
    #[must_use]
    pub fn lease_ms(&self) -> Millis {
        Millis(self.0.lease_ms.load(Ordering::Relaxed))
    }

    /// How long the question for the kind of the statement took; zero if it was known.
    #[must_use]
    pub fn explain_ms(&self) -> Millis {
        Millis(self.0.explain_ms.load(Ordering::Relaxed))
    }

    /// How long the run waited for a place.
    #[must_use]
    pub fn waited_ms(&self) -> Millis {
        Millis(self.0.waited_ms.load(Ordering::Relaxed))
    }

    /// How long the run took at the origin, once it had a place.
    #[must_use]
    pub fn run_ms(&self) -> Millis {
        Millis(self.0.run_ms.load(Ordering::Relaxed).saturating_sub(self.waited_ms().0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_place_is_no_part_of_the_run() {
        let times = FetchTimes::default();
        times.clone().waited(Millis(30));
        times.ran(Millis(100));
        assert!(times.was_run() && !FetchTimes::default().was_run());
        assert_eq!((times.waited_ms(), times.run_ms()), (Millis(30), Millis(70)));
    }
}
