//! The invalidation log of a store, as a pure state machine: the records that a reader still has to read, and the loss
//! of its place.
//!
//! The embedded store runs on it; the Lua scripts of the Redis store are the same in another language. It knows no
//! scopes: the content of a record is opaque.
//!
//! A place in the log is a life, a number and a **random tag**. All three must match, or the reader meets a *gap*: an
//! invalidation of its copies may be lost, so it forgets all of them. A number alone is not a place (F44). Schedule:
//!   a reader reads record 7 · the store falls back to before record 7 · another invalidation becomes record 7 · the
//!   reader, which "has read 7", would never see it.
//! The new record 7 has another tag. The life shows that the store went back even if the reader's record is still
//! there: a record after it, which the reader had not read yet, may be lost ([`StoreLife`]).

use std::collections::VecDeque;

use super::life::StoreLife;
use crate::limits::{INVALIDATION_LOG_LEN_MAX, INVALIDATION_PAGE_LEN_MAX};

/// A place in a store's invalidation log: the last record that was read. The default means no place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogCursor {
    /// The life of the store in which it was read.
    pub life: StoreLife,
    /// Number of the record.
    pub sequence: u64,
    /// The record's random tag: another record of the same number has another one.
    pub tag: u64,
}

/// A short name of a [`LogCursor`], to compare two nodes' places. The default means that a node has read nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CursorDigest(pub u64);

impl LogCursor {
    /// Its short name. Two places have the same one with a probability of 2⁻⁶³, since tags are random.
    #[must_use]
    pub fn digest(&self) -> CursorDigest {
        if *self == Self::default() {
            return CursorDigest::default();
        }
        // The lowest bit distinguishes it from the default's.
        CursorDigest((self.tag ^ self.life.0.rotate_left(32)).wrapping_add(self.sequence << 1) | 1)
    }
}

/// A part of the invalidation log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage<S> {
    /// The invalidated scopes, oldest first.
    pub scopes: Vec<S>,
    /// The place to continue from.
    pub next: LogCursor,
    /// The log does not know the reader's place: all of the reader's copies may be invalid.
    pub gap: bool,
}

/// A log that keeps its newest [`INVALIDATION_LOG_LEN_MAX`] records.
#[derive(Debug, Clone)]
pub struct InvalidationLog<S> {
    /// The record before the oldest kept one: a reader's place may be there.
    before: (u64, u64),
    /// Tags and scopes.
    records: VecDeque<(u64, S)>,
}

impl<S> Default for InvalidationLog<S> {
    fn default() -> Self {
        Self { before: (0, 0), records: VecDeque::new() }
    }
}

impl<S: Clone> InvalidationLog<S> {
    /// Appends a record with a tag that no other record has.
    pub fn append(&mut self, tag: u64, scope: S) {
        self.records.push_back((tag, scope));
        if self.records.len() > INVALIDATION_LOG_LEN_MAX
            && let Some((tag, _)) = self.records.pop_front()
        {
            self.before = (self.before.0 + 1, tag);
        }
    }

    /// The records that a reader at `cursor` has not read, in this life of the store; at most
    /// [`INVALIDATION_PAGE_LEN_MAX`].
    #[must_use]
    pub fn since(&self, life: StoreLife, cursor: LogCursor) -> LogPage<S> {
        let known = if cursor.life == life { self.read_until(cursor) } else { None };
        let Some(read) = known else {
            return LogPage { scopes: Vec::new(), next: self.place(life, self.records.len()), gap: true };
        };
        let unread = self.records.iter().skip(read).take(INVALIDATION_PAGE_LEN_MAX);
        let scopes: Vec<S> = unread.map(|(_, scope)| scope.clone()).collect();
        let next = self.place(life, read + scopes.len());
        LogPage { scopes, next, gap: false }
    }

    /// The number of kept records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the log is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// How many of the kept records a reader at `cursor` has read; `None` if its record is not here, or no longer.
    fn read_until(&self, cursor: LogCursor) -> Option<usize> {
        let read = usize::try_from(cursor.sequence.checked_sub(self.before.0)?).ok()?;
        let tag = if read == 0 { self.before.1 } else { self.records.get(read - 1)?.0 };
        (tag == cursor.tag).then_some(read)
    }

    /// The place of a reader that has read `read` of the kept records.
    fn place(&self, life: StoreLife, read: usize) -> LogCursor {
        let tag =
            read.checked_sub(1).and_then(|last| self.records.get(last)).map_or(self.before.1, |it| it.0);
        LogCursor { life, sequence: self.before.0 + read as u64, tag }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: StoreLife = StoreLife(1);

    #[test]
    fn a_reader_reads_each_record_once() {
        let mut log = InvalidationLog::default();
        let start = log.since(LIFE, LogCursor::default());
        assert!(
            start.gap && start.scopes.is_empty(),
            "a reader that has never read must not trust its copies"
        );
        log.append(11, 'a');
        log.append(12, 'b');
        let page = log.since(LIFE, start.next);
        assert_eq!((page.gap, page.scopes.as_slice()), (false, &['a', 'b'][..]));
        let quiet = log.since(LIFE, page.next);
        assert_eq!((quiet.gap, quiet.scopes.len(), quiet.next), (false, 0, page.next));
    }

    /// F44: the log loses its last record, and another one takes its number.
    #[test]
    fn a_record_with_the_number_of_a_lost_one_is_a_gap() {
        let mut log = InvalidationLog::default();
        log.append(11, 'a');
        let mut fallen_back = log.clone();
        log.append(12, 'b');
        let place = log.since(LIFE, LogCursor::default()).next;
        assert!(fallen_back.since(LIFE, place).gap, "a place that this log has not reached");
        fallen_back.append(13, 'c');
        let page = fallen_back.since(LIFE, place);
        assert!(page.gap, "'c' has the number of 'b', and would have been skipped");
        assert_eq!(page.next, LogCursor { life: LIFE, sequence: 2, tag: 13 });
    }

    /// F43: a record after the reader's may be lost, and the log cannot show it.
    #[test]
    fn another_life_is_a_gap_even_where_the_record_is_there() {
        let mut log = InvalidationLog::default();
        log.append(11, 'a');
        let place = log.since(LIFE, LogCursor::default()).next;
        assert!(!log.since(LIFE, place).gap);
        let page = log.since(StoreLife(2), place);
        assert!(page.gap);
        assert!(!log.since(StoreLife(2), page.next).gap, "once");
    }

    #[test]
    fn a_reader_may_be_as_far_behind_as_the_log_is_long() {
        let mut log = InvalidationLog::default();
        log.append(7, 0);
        let start = log.since(LIFE, LogCursor::default()).next;
        for record in 0..INVALIDATION_LOG_LEN_MAX as u64 {
            log.append(100 + record, record);
        }
        let page = log.since(LIFE, start);
        assert_eq!(
            (page.gap, page.scopes.first(), page.scopes.len()),
            (false, Some(&0), INVALIDATION_PAGE_LEN_MAX)
        );
        log.append(8, 1);
        assert!(log.since(LIFE, start).gap);
        assert!(!log.since(LIFE, page.next).gap);
        assert_eq!(log.len(), INVALIDATION_LOG_LEN_MAX);
    }

    #[test]
    fn marks_tell_places_apart() {
        let place = LogCursor { life: LIFE, sequence: 3, tag: 0x5555 };
        assert_eq!(LogCursor::default().digest(), CursorDigest::default());
        let others = [
            LogCursor::default(),
            LogCursor { life: StoreLife(2), ..place },
            LogCursor { sequence: 4, ..place },
            LogCursor { tag: 0x5155, ..place },
        ];
        assert!(others.iter().all(|other| other.digest() != place.digest()), "{others:?}");
    }
}
