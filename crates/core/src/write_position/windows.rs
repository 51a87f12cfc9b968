//! How long writes were under way: in that time another write may have changed the values by which they had found their nodes.
//!
//! Neo4j reads committed data and takes no lock for what it reads. Schedule:
//!   a matches `(j:Job {status: 'new'})`, and waits for the lock of j · b sets the status of j to 'running', and is committed as 51 · a sets
//!   `j.owner`, and is committed as 52 · a says that it has touched a node of the status 'new', and j has the status 'running'.
//!
//! So a key does not separate a touch from a read, if a node may have got the read's value of the key while the write was under way. A read
//! that carried less than that change is ended by the change itself. So only reads between the change and the touch are concerned, and
//! these are no more ids apart than the write was long.

use arrayvec::ArrayVec;

use crate::bookmark::TransactionId;

/// How long the touches of one entry were under way. Of two windows the one with the later last touch is the narrower one: a window that is
/// both earlier and narrower than another says nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Windows(ArrayVec<Window, WINDOWS_MAX>);

#[derive(Debug, Clone, Copy)]
struct Window {
    last: TransactionId,
    /// The most transactions between the last one that a write had seen for certain and its own.
    width: u64,
}

/// With one more, the two earliest become one.
const WINDOWS_MAX: usize = 4;

impl Windows {
    /// A touch of a write that had seen all up to `since` when it began.
    pub(super) fn of(id: TransactionId, since: TransactionId) -> Self {
        Self([Window { last: id, width: id.0.saturating_sub(since.0) }].into_iter().collect())
    }

    pub(super) fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|window| self.put(*window));
    }

    fn put(&mut self, new: Window) {
        if self.0.iter().any(|own| own.last >= new.last && own.width >= new.width) {
            return;
        }
        self.0.retain(|own| own.last > new.last || own.width > new.width);
        if self.0.is_full() {
            let earliest = self.0.remove(0);
            if let Some(next) = self.0.first_mut() {
                next.width = next.width.max(earliest.width);
            }
        }
        let place = self.0.iter().take_while(|own| own.last < new.last).count();
        self.0.insert(place, new);
    }

    /// The last of these touches that may have been of a node whose value was changed by the transaction `changed`, or a later one.
    pub(super) fn last_beside(&self, changed: TransactionId) -> TransactionId {
        let of = |window: &Window| {
            let before = changed.0.saturating_add(window.width).saturating_sub(1);
            window.last.min(TransactionId(before))
        };
        let is_changed = changed > TransactionId(0);
        self.0.iter().filter(|_| is_changed).map(of).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(windows: &Windows, changed: u64) -> u64 {
        windows.last_beside(TransactionId(changed)).0
    }

    #[test]
    fn only_a_change_while_a_write_was_under_way_counts() {
        let windows = Windows::of(TransactionId(52), TransactionId(49));
        assert_eq!(beside(&windows, 0), 0, "nobody got the value");
        assert_eq!(beside(&windows, 49), 51, "a read that carried 51 or more has seen what the write found");
        assert_eq!((beside(&windows, 50), beside(&windows, 51)), (52, 52));
        assert_eq!(
            beside(&Windows::of(TransactionId(52), TransactionId(0)), 1),
            52,
            "it is not known when it began"
        );
    }

    /// One long transaction does not count for what was read after it.
    #[test]
    fn a_long_write_is_forgotten_for_reads_of_after_it() {
        let mut windows = Windows::of(TransactionId(1_000), TransactionId(10));
        for id in 1_001..1_200 {
            windows.join(&Windows::of(TransactionId(id), TransactionId(id - 1)));
        }
        assert_eq!(
            (beside(&windows, 5), beside(&windows, 500), beside(&windows, 1_150)),
            (994, 1_000, 1_150)
        );
        // Of more windows than have a place none is lost.
        let mut windows = Windows::default();
        for (id, width) in [(10, 9), (20, 8), (30, 7), (40, 6), (50, 5), (60, 4)] {
            windows.join(&Windows::of(TransactionId(id), TransactionId(id - width)));
        }
        assert_eq!((beside(&windows, 2), beside(&windows, 23), beside(&windows, 57)), (10, 30, 60));
    }
}
