//! The places of the queue of commits: how many are taken, and with how many bytes (I9).

use hopcache_core::limits::{COMMITS_QUEUED_BYTES_MAX, COMMITS_QUEUED_MAX};

/// Places taken: of commits that wait or are under way, and of results that are about to be kept.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: usize,
    bytes: usize,
    /// From now on nothing waits.
    pub(super) is_closed: bool,
}

impl Places {
    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Takes a place for a copy of so many bytes; `None` for a place without one.
    pub(super) fn take(&mut self, bytes: Option<usize>) -> Result<(), NoPlace> {
        if self.is_closed {
            return Err(NoPlace::Closed);
        }
        if self.taken >= COMMITS_QUEUED_MAX {
            return Err(NoPlace::Full);
        }
        let room = COMMITS_QUEUED_BYTES_MAX.saturating_sub(self.bytes);
        if bytes.is_some_and(|bytes| bytes > room) {
            return Err(NoPlace::NoRoom);
        }
        self.taken += 1;
        self.bytes += bytes.unwrap_or(0);
        Ok(())
    }

    /// Counts a copy anew, as soon as it is there with what it was rendered to. Returns whether there is room for it.
    pub(super) fn weigh(&mut self, before: usize, now: usize) -> bool {
        let others = self.bytes - before;
        let has_room = others + now <= COMMITS_QUEUED_BYTES_MAX;
        if has_room {
            self.bytes = others + now;
        }
        has_room
    }

    /// Frees a place. Returns whether it was the last one.
    pub(super) fn free(&mut self, bytes: Option<usize>) -> bool {
        self.taken -= 1;
        self.bytes -= bytes.unwrap_or(0);
        self.taken == 0
    }
}

/// Why a result gets no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The queue is full.
    Full,
    /// There is no room for the copy.
    NoRoom,
    /// What waits is late already.
    Late,
    /// This node leaves.
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I9: above the bounds of places and of bytes nothing is queued.
    #[test]
    fn a_full_queue_takes_no_more() {
        let mut places = Places::default();
        let half = COMMITS_QUEUED_BYTES_MAX / 2;
        assert_eq!([places.take(Some(half)), places.take(Some(half))], [Ok(()); 2]);
        assert_eq!([places.take(Some(1)), places.take(None)], [Err(NoPlace::NoRoom), Ok(())]);
        assert!(!places.free(Some(half)));
        assert_eq!(places.take(Some(1)), Ok(()));
        assert!(places.weigh(1, half) && !places.weigh(half, half + 1), "with its rendering it has no room");
        assert_eq!(places.bytes, COMMITS_QUEUED_BYTES_MAX);
        while places.taken < COMMITS_QUEUED_MAX {
            assert_eq!(places.take(None), Ok(()));
        }
        assert_eq!([places.take(Some(1)), places.take(None)], [Err(NoPlace::Full); 2]);
        assert!(!places.free(None));
        assert_eq!(places.take(None), Ok(()));
    }

    #[test]
    fn a_closed_queue_takes_nothing_and_empties() {
        let mut places = Places::default();
        assert_eq!(places.take(Some(7)), Ok(()));
        places.is_closed = true;
        assert_eq!(places.take(None), Err(NoPlace::Closed));
        assert!(places.free(Some(7)));
        assert_eq!((places.taken, places.bytes), (0, 0));
    }
}
