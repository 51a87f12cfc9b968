//! Bounds of the CPU time that one client's bytes take before other requests have a turn (F45).

use super::BODY_BYTES_UNRESERVED;

/// Request bodies up to this size are read on the async worker that took them: JSON, typed values, lexing the statement
/// and the key take about a millisecond for this much. Larger ones are read on other threads, in turns by principal.
pub const PARSE_INLINE_BYTES_MAX: usize = 32 << 10;
/// Large request bodies that are read at a time, at most one for every two cores. A hit of another principal needs a
/// core within milliseconds, and four readers handle about 100 MiB a second.
pub const PARSES_MAX: usize = 4;
/// Large request bodies of one principal that wait to be read; the next one gets 429. A service that logs in as one
/// user is one principal: a burst of a hundred batches is served. [`BODY_ROOM_BYTES`](super::BODY_ROOM_BYTES) bounds
/// their bytes.
pub const PARSES_WAITING_PER_PRINCIPAL_MAX: usize = 128;
/// Large request bodies that wait to be read, in total: eight principals with their full number.
pub const PARSES_WAITING_MAX: usize = 1_024;
/// How long a large request waits for its turn to be read.
pub const PARSE_WAIT_MS_MAX: u64 = 5_000;
const _: () = assert!(PARSE_INLINE_BYTES_MAX <= BODY_BYTES_UNRESERVED);
/// Results up to this size are rendered, and their entries packed and unpacked, on the async worker that needs them:
/// JSON for this much takes about a millisecond. Threads of their own do the same for larger ones.
pub const RENDER_INLINE_BYTES_MAX: usize = 128 << 10;
/// Bytes that an async worker copies without a pause, for example from a result into a message: 128 KiB take 30 µs, in
/// new memory 100 µs. A copy of 8 MiB in new memory takes 3 to 5 ms.
pub const COPY_INLINE_BYTES_MAX: usize = 128 << 10;
/// Threads of one process for large work (`engine::worker`), at most one for every two cores: hits need the other
/// half. One thread renders and packs some 100 MiB a second.
pub const LARGE_WORKS_MAX: usize = 4;
