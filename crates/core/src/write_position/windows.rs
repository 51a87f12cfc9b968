//! How long writes were under way: in that time another write may have changed the values by which they had found their nodes.
//!
//! Neo4j reads committed data and takes no lock for what it reads. Schedule:
//!   a matches `(j:Job {status: 'new'})`, and waits for the lock of j · b sets the status of j to 'running', and is committed as 51 · a sets
//!   `j.owner`, and is committed as 52 · a says that it has touched a node of the status 'new', and j has the status 'running'.
//!
//! So a key does not separate a touch from a read, if a node may have got the read's value of the key while the write was under way. A read
//! that carried less than that change is ended by the change itself. So only reads between the change and the touch are concerned, and
//! these are no more ids apart than the write was long.
//!
//! The same holds for a label that nodes may have lost (`exclusions`): what has touched a node before that may have been of it.
//!
//! The length of a write alone says too little of a change in a [`Pause`], in which no write of the entry was under way. Schedule:
//!   40 is carried by a read · 50 is the change · 52 is the first touch, of a write that had seen 51 · so 50 was over when it began, and the
//!   touch may be of any transaction up to 50 by its length · it is of 52, and there was none before it, so the read stays.

use arrayvec::ArrayVec;

use crate::bookmark::TransactionId;

/// How long the touches of one entry were under way. Of two windows the one with the later last touch is the narrower one: a window that is
/// both earlier and narrower than another says nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Windows {
    windows: ArrayVec<Window, WINDOWS_MAX>,
    pause: Pause,
}

/// Invariant: of the writes that began before `until` none has an id after `last`.
#[derive(Debug, Clone, Copy, Default)]
struct Pause {
    last: TransactionId,
    /// A write that began then had seen all up to this one.
    until: TransactionId,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    last: TransactionId,
    /// The most transactions between the last one that a write had seen for certain and its own.
    width: u64,
}

/// How many transactions a pause counts at most. In a busy database these are some seconds, and a load is over.
const PAUSE_KEPT_MAX: u64 = 4_096;

/// With one more, the two earliest become one.
const WINDOWS_MAX: usize = 4;

impl Windows {
    /// A touch of a write that had seen all up to `since` when it began.
    pub(super) fn of(id: TransactionId, since: TransactionId) -> Self {
        let window = Window { last: id, width: id.0.saturating_sub(since.0) };
        let pause = Pause { last: TransactionId(0), until: since };
        Self { windows: [window].into_iter().collect(), pause }
    }

    pub(super) fn join(&mut self, other: &Self) {
        let own = Pause { last: self.pause.last.max(other.last_beside(self.pause.until)), ..self.pause };
        let new = Pause { last: other.pause.last.max(self.last_beside(other.pause.until)), ..other.pause };
        other.windows.iter().for_each(|window| self.put(*window));
        let newest = self.windows.last().map_or(TransactionId(0), |window| window.last);
        self.pause = if own.is_worth_more(new, newest) { own } else { new };
    }

    fn put(&mut self, new: Window) {
        if self.windows.iter().any(|own| own.last >= new.last && own.width >= new.width) {
            return;
        }
        self.windows.retain(|own| own.last > new.last || own.width > new.width);
        if self.windows.is_full() {
            let earliest = self.windows.remove(0);
            if let Some(next) = self.windows.first_mut() {
                next.width = next.width.max(earliest.width);
            }
        }
        let place = self.windows.iter().take_while(|own| own.last < new.last).count();
        self.windows.insert(place, new);
    }

    /// The last of these touches that may have been of a node whose value was changed by the transaction `changed`, or a later one.
    pub(super) fn last_beside(&self, changed: TransactionId) -> TransactionId {
        let of = |window: &Window| {
            let before = changed.0.saturating_add(window.width).saturating_sub(1);
            window.last.min(TransactionId(before))
        };
        if changed == TransactionId(0) {
            return changed;
        }
        let last = self.windows.iter().map(of).max().unwrap_or_default();
        if changed <= self.pause.until { last.min(self.pause.last) } else { last }
    }
}

impl Pause {
    fn ids(self) -> u64 {
        self.until.0.saturating_sub(self.last.0)
    }

    /// A pause is of use for results from before it, until they are read anew. So it is kept for as many transactions as it was long, at most
    /// [`PAUSE_KEPT_MAX`], or until a longer one comes.
    fn is_worth_more(self, new: Self, newest: TransactionId) -> bool {
        let ids = self.ids().min(PAUSE_KEPT_MAX);
        ids > new.ids() && newest.0.saturating_sub(self.until.0) <= ids
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
        assert_eq!(
            beside(&windows, 49),
            0,
            "it was over when the write began, and there is no earlier touch"
        );
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

    fn touch(id: u64, since: u64) -> Windows {
        Windows::of(TransactionId(id), TransactionId(since))
    }

    /// The schedule of a [`Pause`]: a load begins, some transactions after the change, and has many parts.
    #[test]
    fn a_change_in_a_pause_counts_for_no_later_touch() {
        let mut windows = touch(30, 29);
        for part in 0..40 {
            windows.join(&touch(510 + 10 * part, 503 + 9 * part));
        }
        assert_eq!((beside(&windows, 31), beside(&windows, 503)), (30, 30));
        assert!(beside(&windows, 504) >= 510);
        // A pause that was short makes room for a later one.
        windows.join(&touch(2_010, 2_000));
        assert_eq!(beside(&windows, 1_500), 900);
    }

    /// However touches come, and are joined, none is forgotten that began before the change.
    #[test]
    fn no_touch_is_forgotten() {
        let mut dice = 1_u64;
        let mut below = |bound: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % bound
        };
        for _ in 0..2_000 {
            let mut joined = [Windows::default(), Windows::default()];
            let mut touches = Vec::new();
            for _ in 0..=below(12) {
                let id = 1 + below(60);
                let since = id - 1 - below(id.min(8));
                touches.push((id, since));
                joined[usize::try_from(below(2)).unwrap()].join(&touch(id, since));
            }
            let [mut windows, other] = joined;
            windows.join(&other);
            for changed in 1..70 {
                let began_before = touches.iter().filter(|(_, since)| *since < changed);
                let last = began_before.map(|(id, _)| *id).max().unwrap_or(0);
                assert!(beside(&windows, changed) >= last, "{changed}: {touches:?} {windows:?}");
            }
        }
    }
}
