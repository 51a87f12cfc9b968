//! Bounds of the CPU that one client's bytes take before anybody else's request has a turn (F45).

use super::BODY_BYTES_UNRESERVED;

/// Request bodies up to this many bytes are read on the async worker that took them: JSON, typed values, the walk over the
/// statement and the key take about a millisecond for so much. Larger ones are read apart, in turns by principal.
pub const PARSE_INLINE_BYTES_MAX: usize = 32 << 10;
/// Large request bodies that are read at a time, and no more than half the cores have: a hit of another principal needs a
/// core within milliseconds, and four read about 100 MiB a second.
pub const PARSES_MAX: usize = 4;
/// Large request bodies of one principal that wait to be read; the next one is told to slow down (429). A service that
/// logs in as one user is one principal: a burst of a hundred batches is served. Their bytes are bounded by
/// [`BODY_ROOM_BYTES`](super::BODY_ROOM_BYTES).
pub const PARSES_WAITING_PER_PRINCIPAL_MAX: usize = 128;
/// Large request bodies that wait to be read altogether: eight principals with all that they may have.
pub const PARSES_WAITING_MAX: usize = 1_024;
/// How long a large request waits for its turn to be read.
pub const PARSE_WAIT_MS_MAX: u64 = 5_000;
const _: () = assert!(PARSE_INLINE_BYTES_MAX <= BODY_BYTES_UNRESERVED);
/// Results up to this many bytes are rendered, and their entries packed and unpacked, on the async worker that needs them:
/// JSON for so much takes about a millisecond. For larger ones the worker's other tasks move to another one first.
pub const RENDER_INLINE_BYTES_MAX: usize = 128 << 10;
