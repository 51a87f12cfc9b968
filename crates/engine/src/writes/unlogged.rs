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
    /// Whether there were more than are kept. Then the marks stand for them.
    is_over: bool,
}

impl UnloggedWrites {
    /// This node hears of a write.
    pub(super) fn push(&mut self, event: &WriteEvent) {
        if self.events.len() >= EVENTS_KEPT_MAX {
            self.events.pop_front();
            self.is_over = true;
        }
        self.events.push_back(event.clone());
    }

    /// The log shows these.
    pub(super) fn found(&mut self, logged: &[WriteEvent]) {
        self.events.retain(|own| !logged.contains(own));
    }

    /// Those that lack, and whether there are more of them.
    pub(super) fn lacking(&self) -> (Vec<WriteEvent>, bool) {
        (self.events.iter().cloned().collect(), self.is_over)
    }

    /// These have been written to the log, and with `are_all` the marks of all others.
    pub(super) fn written(&mut self, events: &[WriteEvent], are_all: bool) {
        self.found(events);
        self.is_over &= !are_all;
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
            touched: Touched::tags([TagId(3)]),
        }
    }

    #[test]
    fn what_the_log_shows_does_not_lack() {
        let mut unlogged = UnloggedWrites::default();
        unlogged.push(&event(50));
        unlogged.push(&event(51));
        unlogged.found(&[event(51), event(40)]);
        assert_eq!(unlogged.lacking(), (vec![event(50)], false));
        unlogged.push(&event(52));
        unlogged.written(&[event(50)], false);
        assert_eq!(unlogged.lacking(), (vec![event(52)], false), "it came meanwhile");
    }

    #[test]
    fn where_more_lack_than_are_kept_the_marks_stand_for_them() {
        let mut unlogged = UnloggedWrites::default();
        (0..=EVENTS_KEPT_MAX as u64).for_each(|id| unlogged.push(&event(id)));
        let (lacking, is_over) = unlogged.lacking();
        assert!(is_over && lacking.len() == EVENTS_KEPT_MAX && lacking[0] == event(1));
        unlogged.written(&lacking, false);
        assert_eq!(unlogged.lacking(), (Vec::new(), true));
        unlogged.written(&[], true);
        assert_eq!(unlogged.lacking(), (Vec::new(), false));
    }
}
