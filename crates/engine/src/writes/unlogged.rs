//! Writes that this node has heard of, and that it has not found in the store's log yet. Pure.
//!
//! Whoever has told a write writes it to the log too, but may be unable to: then each node that has heard of it does. Schedule:
//!   node A writes 50, tells node B, and does not reach the store · A is killed · node C, which A did not reach, looks at the store ·
//!   without B's word in the log it would never hear of 50.

use std::collections::VecDeque;

use hopcache_core::limits::EVENTS_KEPT_MAX;
use hopcache_core::write_position::WriteEvent;

/// The writes that may lack in the log.
#[derive(Debug, Default)]
pub(super) struct UnloggedWrites {
    events: VecDeque<WriteEvent>,
    /// How many more there were than are kept. The marks stand for them.
    forgotten: u64,
    /// How many of these the marks in the log stand for.
    marked: u64,
}

impl UnloggedWrites {
    /// This node hears of a write.
    pub(super) fn push(&mut self, event: &WriteEvent) {
        if self.events.len() >= EVENTS_KEPT_MAX {
            self.events.pop_front();
            self.forgotten += 1;
        }
        self.events.push_back(event.clone());
    }

    /// The log shows these.
    pub(super) fn found(&mut self, logged: &[WriteEvent]) {
        self.events.retain(|own| !logged.contains(own));
    }

    /// Those that lack, and how many more were forgotten if the marks do not stand for them yet.
    pub(super) fn lacking(&self) -> (Vec<WriteEvent>, Option<u64>) {
        (self.events.iter().cloned().collect(), (self.forgotten > self.marked).then_some(self.forgotten))
    }

    /// These have been written to the log, and the marks of so many that were forgotten.
    pub(super) fn written(&mut self, events: &[WriteEvent], marked: Option<u64>) {
        self.found(events);
        self.marked = self.marked.max(marked.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use hopcache_core::bookmark::{DatabaseUuid, Position, TransactionId};
    use hopcache_core::key::DatabaseTag;
    use hopcache_core::tags::{TagId, Touched};
    use hopcache_core::write_position::{WriteEpoch, WritePosition};

    use super::*;

    fn event(id: u64) -> WriteEvent {
        let position = Position { database: DatabaseUuid([1; 16]), id: TransactionId(id) };
        WriteEvent {
            name: DatabaseTag(7),
            written: WritePosition::at(WriteEpoch(0), position),
            since: TransactionId(0),
            touched: Touched::tags([TagId(3)]),
        }
    }

    #[test]
    fn what_the_log_shows_does_not_lack() {
        let mut unlogged = UnloggedWrites::default();
        unlogged.push(&event(50));
        unlogged.push(&event(51));
        unlogged.found(&[event(51), event(40)]);
        assert_eq!(unlogged.lacking(), (vec![event(50)], None));
        unlogged.push(&event(52));
        unlogged.written(&[event(50)], None);
        assert_eq!(unlogged.lacking(), (vec![event(52)], None), "it came meanwhile");
    }

    #[test]
    fn where_more_lack_than_are_kept_the_marks_stand_for_them() {
        let mut unlogged = UnloggedWrites::default();
        (0..=EVENTS_KEPT_MAX as u64).for_each(|id| unlogged.push(&event(id)));
        let (lacking, forgotten) = unlogged.lacking();
        assert!(forgotten == Some(1) && lacking.len() == EVENTS_KEPT_MAX && lacking[0] == event(1));
        // One more is forgotten while the marks are written: these do not stand for it.
        unlogged.push(&event(9_000));
        unlogged.written(&lacking, forgotten);
        assert_eq!(unlogged.lacking(), (vec![event(9_000)], Some(2)));
        unlogged.written(&[event(9_000)], Some(2));
        assert_eq!(unlogged.lacking(), (Vec::new(), None));
    }
}
