//! The events that one simulated node has noted, in order, and their sums.

use std::sync::Arc;

use hopcache_core::time::MonoTime;
use hopcache_engine::event::ObservationWord;
use hopcache_engine::event::{Cause, Event, InvalidationWord, PrefetchWord, RefreshWord};
use hopcache_engine::ports::Observer;
use parking_lot::Mutex;

use crate::check::record::{Record, What};
use crate::world::clock::sim_now;

/// Events in their order.
pub struct EventLog {
    events: Mutex<Vec<Event>>,
    noted: Mutex<Noted>,
    record: Arc<Record>,
    node: usize,
}

/// Sums of a node's events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Noted {
    /// Refreshes triggered.
    pub refreshes_begun: u64,
    /// Those completed or failed.
    pub refreshes_ended: u64,
    /// Runs for requests that missed.
    pub misses: u64,
    /// Prefetches launched.
    pub launched: u64,
    /// Those used in time.
    pub used: u64,
    /// Those joined while they ran.
    pub late: u64,
    /// Prefetches that expired unused.
    pub wasted: u64,
    /// Requests observed at this node, with any end of the observation.
    pub observed: u64,
    /// Observations taken for the sessions that it owns.
    pub taken: u64,
    /// When something was last taken that counts are made of.
    pub taught_at: MonoTime,
}

impl Noted {
    fn count(&mut self, event: &Event) {
        let (count, more) = match event {
            Event::Refresh(RefreshWord::Triggered) => (&mut self.refreshes_begun, 1),
            Event::Refresh(RefreshWord::Completed | RefreshWord::Failed) => (&mut self.refreshes_ended, 1),
            Event::OriginRun { cause: Cause::Miss, .. } => (&mut self.misses, 1),
            Event::Observed(ObservationWord::Taken, count) => {
                self.taught_at = sim_now();
                (&mut self.taken, u64::from(*count))
            }
            Event::Observed(word, count) if is_first_word(*word) => (&mut self.observed, u64::from(*count)),
            Event::Prefetch(word) => {
                let count = match word {
                    PrefetchWord::Launched(_) => &mut self.launched,
                    PrefetchWord::Used(_) => &mut self.used,
                    PrefetchWord::Late(_) => &mut self.late,
                    PrefetchWord::Wasted(_) => &mut self.wasted,
                    PrefetchWord::Skipped(_) => return,
                };
                self.taught_at = sim_now();
                (count, 1)
            }
            _ => return,
        };
        *count += more;
    }
}

/// Whether an observation ends at its entry node with this word, which each does with one.
const fn is_first_word(word: ObservationWord) -> bool {
    use ObservationWord::{
        Crowded, Dropped, Learned, Refused, Sent, Taken, TooLong, Unconsidered, Unreached,
    };
    match word {
        Sent | Dropped | TooLong | Crowded | Unreached => true,
        Taken | Refused | Learned | Unconsidered => false,
    }
}

impl EventLog {
    pub(crate) fn new(record: Arc<Record>, node: usize) -> Self {
        Self { events: Mutex::default(), noted: Mutex::default(), record, node }
    }

    /// The sums.
    #[must_use]
    pub fn noted(&self) -> Noted {
        *self.noted.lock()
    }

    /// Shows each of them, in order.
    pub fn each(&self, show: impl FnMut(&Event)) {
        self.events.lock().iter().for_each(show);
    }

    /// How many of them are such.
    #[must_use]
    pub fn count(&self, such: impl Fn(&Event) -> bool) -> usize {
        self.events.lock().iter().filter(|event| such(event)).count()
    }
}

impl Observer for EventLog {
    fn note(&self, event: Event) {
        self.record.cover_with(|coverage| coverage.event(&event));
        if matches!(event, Event::Invalidation(InvalidationWord::Purge | InvalidationWord::Emptied)) {
            self.record.note(What::Purges { node: self.node });
        }
        self.noted.lock().count(&event);
        self.events.lock().push(event);
    }
}
