//! The records of a run as they are read: how many, how many bytes, and the room that was granted for them.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::copying::append;
use crate::error::{RunError, RunFault};
use crate::run::{RecordTap, Room};

/// Largest metadata (of RUN, or of the end of PULL, with a plan) that is read. As a tree it takes up to 64 times as
/// much.
pub(crate) const METADATA_BYTES_MAX: usize = 2 << 20;
/// Largest record of a result whose rest the caller takes: as large as one that a relay passes on.
pub const RECORD_BYTES_MAX: usize = 64 << 20;
/// A record of such a result up to this size needs no room of its own.
pub const RECORD_BYTES_UNRESERVED: usize = 1 << 20;
/// From this size on, the first record of a result or of a piece is not copied: its message becomes the records.
pub(crate) const MOVED_BYTES_MIN: usize = 64 << 10;
/// The bytes that a RECORD message adds to its list: marker and signature.
const RECORD_OVERHEAD_BYTES: usize = 2;
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// From the start of a run to when its caller takes the rest: between two messages nothing is lost, at the deadline a
/// part of a message may be.
fn time_to_rest(timeout: Duration) -> Duration {
    timeout - (timeout / 10).min(Duration::from_secs(1))
}

/// Records read so far.
pub(crate) struct Records<'a> {
    bytes: Vec<u8>,
    /// Bytes before the first record: the head of its message, if that was not copied.
    head_len: usize,
    rows: u64,
    pub(crate) columns: usize,
    bytes_max: usize,
    /// The size up to which the granted room is enough.
    allowed_bytes: usize,
    /// From when on the caller takes the rest of a result, if it does so at all.
    rest_from: Instant,
    tap: &'a mut dyn RecordTap,
}

impl<'a> Records<'a> {
    /// None yet. At most `bytes_max` bytes of them are kept. The run has `timeout` from now on.
    pub(crate) fn new(
        bytes_max: usize,
        room: &dyn Room,
        timeout: Duration,
        tap: &'a mut dyn RecordTap,
    ) -> Self {
        Self {
            bytes: Vec::new(),
            head_len: 0,
            rows: 0,
            columns: 0,
            bytes_max,
            allowed_bytes: room.free_bytes(),
            rest_from: Instant::now() + time_to_rest(timeout.min(DAY)),
            tap,
        }
    }

    /// Whether the next record needs more room than was granted.
    pub(crate) fn need_room(&self) -> bool {
        self.len() > self.allowed_bytes
    }

    /// Waits until there is room for the next record.
    pub(crate) async fn widen(&mut self, room: &dyn Room) -> Result<(), RunFault> {
        self.tap.pause();
        self.allowed_bytes = room.widen(self.len()).await.ok_or(RunFault::NoRoom)?;
        Ok(())
    }

    /// The fault of a record that has no room.
    pub(crate) fn too_large(&self) -> RunFault {
        RunFault::TooLarge { limit_bytes: self.bytes_max }
    }

    /// The error of a result that has ended too early. The server's own failure shows the records before it.
    pub(crate) fn failed(mut self, fault: RunFault, fields: Option<Vec<String>>) -> RunError {
        let is_servers = matches!(fault, RunFault::Failed(_));
        let records = if is_servers { self.take_all() } else { Bytes::new() };
        RunError { fault, fields, records }
    }

    /// All of them, one behind the other, without spare capacity, which would be kept as long as they are.
    pub(crate) fn take_all(&mut self) -> Bytes {
        let bytes = std::mem::take(&mut self.bytes).into_boxed_slice();
        Bytes::from(bytes).slice(std::mem::take(&mut self.head_len)..)
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn tap(&mut self) -> &mut dyn RecordTap {
        self.tap
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.head_len
    }

    /// The largest next message: the room that is left for records, or metadata.
    pub(crate) fn message_bytes_max(&self) -> usize {
        let left = self.bytes_max.saturating_sub(self.len());
        left.saturating_add(RECORD_OVERHEAD_BYTES).max(METADATA_BYTES_MAX)
    }

    /// Whether a result is still coming, and the run's time is nearly over.
    pub(crate) fn is_nearly_late(&self) -> bool {
        self.rows > 0 && self.tap.takes_rest() && Instant::now() >= self.rest_from
    }

    /// Whether a record of so many bytes is left to who takes the rest: it has no room here, and copies of it cost much.
    pub(crate) fn leaves_to_rest(&self, bytes: usize) -> bool {
        let has_room = bytes <= self.bytes_max.saturating_sub(self.len());
        bytes >= MOVED_BYTES_MIN && !has_room && self.tap.takes_rest()
    }

    /// Takes a record. Returns whether there was room for it.
    pub(crate) async fn push(&mut self, list: &[u8], values: usize) -> Result<bool, RunFault> {
        self.count(list, values)?;
        if list.len() > self.bytes_max.saturating_sub(self.len()) {
            return Ok(false);
        }
        if list.len() < MOVED_BYTES_MIN && self.bytes.capacity() - self.bytes.len() >= list.len() {
            self.bytes.extend_from_slice(list);
        } else {
            append(&mut self.bytes, list).await;
        }
        Ok(true)
    }

    /// As [`Records::push`], with the whole message of the record.
    pub(crate) async fn take(&mut self, message: Vec<u8>, values: usize) -> Result<bool, RunFault> {
        let list = &message[RECORD_OVERHEAD_BYTES..];
        if !self.bytes.is_empty() || list.len() < MOVED_BYTES_MIN || list.len() > self.bytes_max {
            return self.push(list, values).await;
        }
        self.count(list, values)?;
        (self.bytes, self.head_len) = (message, RECORD_OVERHEAD_BYTES);
        Ok(true)
    }

    fn count(&mut self, list: &[u8], values: usize) -> Result<(), RunFault> {
        if values != self.columns {
            let columns = self.columns;
            return Err(RunFault::Protocol(format!("a record of {values} values for {columns} columns")));
        }
        self.tap.record(list);
        self.rows += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{NoTap, Unbounded};

    const HEAD: [u8; 2] = [0xB1, 0x71];

    fn of(bytes_max: usize, tap: &mut NoTap) -> Records<'_> {
        Records { columns: 1, ..Records::new(bytes_max, &Unbounded, DAY, tap) }
    }

    /// The head of a message is no part of the records, whether the message was moved or copied, and does not count.
    #[tokio::test]
    async fn a_long_first_record_is_moved_and_others_are_behind_it() {
        let (long, short) = (vec![7; MOVED_BYTES_MIN], vec![8; 3]);
        let message = |list: &[u8]| [&HEAD[..], list].concat();
        for (first, second) in [(&long, &short), (&short, &long), (&long, &long)] {
            let mut tap = NoTap;
            let mut records = of(first.len() + second.len(), &mut tap);
            assert_eq!(records.take(message(first), 1).await, Ok(true));
            assert_eq!(records.take(message(second), 1).await, Ok(true));
            assert_eq!(records.take(message(&[9]), 1).await, Ok(false), "no room for one byte more");
            assert_eq!(records.rows(), 3);
            assert_eq!(records.take_all(), [&first[..], second].concat());
        }
        let mut tap = NoTap;
        let mut records = of(long.len() - 1, &mut tap);
        assert_eq!(records.take(message(&long), 1).await, Ok(false), "longer than all room");
        assert!(records.take(message(&long), 2).await.is_err(), "another number of values");
        assert_eq!(records.take_all(), "");
    }
}
