//! Bounds of silence on accepted connections of clients.

/// Silence on an accepted connection after which the kernel asks the client whether it is still there. Drivers and
/// balancers keep idle connections for minutes, and one answer of the client's kernel costs nothing.
pub const CLIENT_KEEPALIVE_AFTER_S: u64 = 60;
/// Between two such questions without an answer.
pub const CLIENT_KEEPALIVE_EVERY_S: u64 = 15;
/// Questions without an answer after which the connection is closed, and its transaction is rolled back: a client that
/// vanished is noticed after two minutes. A short outage of the network costs no connection.
pub const CLIENT_KEEPALIVE_PROBES: u32 = 4;
/// After how long a client that has closed its side is asked whether it waits for its answer; the pause then doubles. Most
/// answers come sooner. A client that has gone is noticed at the second question.
pub const HALF_CLOSED_PROBE_MS: u64 = 250;
const _: () = assert!(CLIENT_KEEPALIVE_EVERY_S * CLIENT_KEEPALIVE_PROBES as u64 <= 60);
