//! Bounds of the embedded sample graph.

/// Statements that the embedded graph runs at a time.
pub const EMBEDDED_WORKERS_MAX: usize = 16;
/// Threads of the embedded graph that may be busy with an abandoned statement. Its library cannot be interrupted, so
/// such a thread is replaced. Above this number it is not, and fewer statements run at a time until some of them end.
pub const EMBEDDED_ABANDONED_MAX: usize = 8;
/// How long a statement waits for a free worker of the embedded graph.
pub const EMBEDDED_QUEUE_WAIT_MS: u64 = 5_000;
/// Rows that one statement of the embedded graph may return or hold between two steps.
pub const EMBEDDED_ROWS_MAX: usize = 100_000;
/// Bytes that one statement of the embedded graph may hold, as its library estimates them.
pub const EMBEDDED_STATEMENT_BYTES_MAX: u64 = 64 << 20;
/// Relationships that one pattern of variable length may visit in the embedded graph. Each path found is kept until the
/// pattern is done, and the byte budget does not count it.
pub const EMBEDDED_TRAVERSAL_MAX: u64 = 100_000;
/// Longest pattern of variable length in the embedded graph, in hops.
pub const EMBEDDED_HOPS_MAX: u32 = 32;
/// Size of the embedded graph's file above which it takes no more writes, in bytes.
pub const EMBEDDED_FILE_BYTES_MAX: u64 = 256 << 20;
