//! One auto-commit statement, and the result of a complete run.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use hopcache_packstream::Value;

/// Access mode that the server enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The server refuses statements that write, when it plans them.
    Read,
    /// The server accepts any statement.
    Write,
}

/// One statement to run in a transaction of its own.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Cypher text.
    pub statement: &'a str,
    /// Parameters: exactly one PackStream map, sent as it is.
    pub params: &'a [u8],
    /// Database; `None` is the user's home database.
    pub database: Option<&'a str>,
    /// Access mode.
    pub mode: Mode,
    /// Time from the first byte sent to the last byte read. This client does not wait for the server's own limit.
    pub timeout: Duration,
    /// The server's limit (`tx_timeout`), on which it may act up to half a second late. `None`: the server's default.
    pub server_timeout: Option<Duration>,
    /// Bookmarks to wait for.
    pub bookmarks: &'a [String],
    /// Transaction metadata (`tx_metadata`), for example a `traceparent`. Each name once.
    pub metadata: &'a [(String, Value)],
    /// User to act as (`imp_user`).
    pub impersonated: Option<&'a str>,
    /// Most bytes of records that are read.
    pub bytes_max: usize,
}

/// The last statement of a run's transaction. With one a run is an explicit transaction: BEGIN, the run's statement, this one if
/// it is due, COMMIT. It returns no records.
#[derive(Debug, Clone, Copy)]
pub struct ClosingStatement<'a> {
    /// Cypher text.
    pub statement: &'a str,
    /// Parameters: exactly one PackStream map.
    pub params: &'a [u8],
    /// Whether the run's statement may call a procedure.
    pub may_call: bool,
    /// Whether it is due after a run of this `type` and summary, which may have called a procedure.
    pub is_due: fn(Option<&str>, &Value, bool) -> bool,
}

/// The whole result of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeResult {
    /// Column names in the order of the statement.
    pub fields: Vec<String>,
    /// The records one behind the other, each a PackStream list with one value for each field, byte for
    /// byte as the server sent them; checked to be well-formed.
    pub records: Bytes,
    /// Number of records.
    pub rows: u64,
    /// Bolt's `type`: `r`, `rw`, `w` or `s`, if the server sent it.
    pub statement_type: Option<String>,
    /// Bookmark of the transaction, if the server sent one.
    pub bookmark: Option<String>,
    /// All other metadata of RUN and of the last PULL (`stats`, `notifications`, `plan`, `profile`, `db`,
    /// `t_first`, `t_last`, …), a map; where both have a name, the later one.
    pub summary: Value,
}

/// Room for records, requested as they come. It bounds the number of large results in memory.
pub trait Room: Send + Sync {
    /// Bytes to which records may grow without a request.
    fn free_bytes(&self) -> usize;
    /// Waits for room for more than `held_bytes`. Returns the number of bytes to which records may grow then, or
    /// `None` without room.
    fn widen(&self, held_bytes: usize) -> Pin<Box<dyn Future<Output = Option<usize>> + Send + '_>>;

    /// The place of a record over [`RECORD_BYTES_UNRESERVED`](crate::RECORD_BYTES_UNRESERVED) of a result whose rest the caller takes.
    fn record(&self) -> Box<dyn RecordPlace> {
        Box::new(Unbounded)
    }
}

/// The room that one large record takes from when it is read until nobody holds it.
pub trait RecordPlace: Send + Sync {
    /// Takes room for so many bytes in all. Returns whether there is so much. It never waits: who waits would hold what others need.
    fn grow(&mut self, bytes: usize) -> bool;
}

/// Unlimited room.
pub(crate) struct Unbounded;

impl RecordPlace for Unbounded {
    fn grow(&mut self, _: usize) -> bool {
        true
    }
}

impl Room for Unbounded {
    fn free_bytes(&self) -> usize {
        usize::MAX
    }

    fn widen(&self, _: usize) -> Pin<Box<dyn Future<Output = Option<usize>> + Send + '_>> {
        Box::pin(async { Some(usize::MAX) })
    }
}

/// Sees the records of a run as they come, before the result is whole.
pub trait RecordTap: Send {
    /// RUN has succeeded: the columns, and the other metadata of its answer.
    fn begin(&mut self, fields: &[String], metadata: &Value);
    /// The next record, as the bytes of one PackStream list.
    fn record(&mut self, list: &[u8]);
    /// No further record has arrived yet.
    fn pause(&mut self);
    /// Whether the caller takes a result over [`Run::bytes_max`] to its end
    /// ([`Connection::rest`](crate::Connection::rest)).
    fn takes_rest(&self) -> bool;
}

/// Sees nothing.
pub(crate) struct NoTap;

impl RecordTap for NoTap {
    fn begin(&mut self, _: &[String], _: &Value) {}

    fn record(&mut self, _: &[u8]) {}

    fn pause(&mut self) {}

    fn takes_rest(&self) -> bool {
        false
    }
}

/// The use of the records that are left of an open result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// They are read.
    Pulled,
    /// The server drops them.
    Discarded,
}

/// The end of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultEnd {
    /// Bolt's `type`.
    pub statement_type: Option<String>,
    /// Bookmark of the transaction.
    pub bookmark: Option<String>,
    /// All other metadata, a map.
    pub summary: Value,
}
