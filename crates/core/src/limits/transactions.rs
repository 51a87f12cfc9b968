//! Bounds of explicit transactions over HTTP.

use super::{IDLE_TIMEOUT_MS, RELAYS_MAX, RELAYS_PER_PRINCIPAL_MAX};

/// Open transactions of HTTP clients on one node. Each may need a relay, and no more could reach Neo4j.
pub const HTTP_TRANSACTIONS_MAX: usize = RELAYS_MAX;
/// The same for one principal: another principal always finds room.
pub const HTTP_TRANSACTIONS_PER_PRINCIPAL_MAX: usize = RELAYS_PER_PRINCIPAL_MAX;
/// How long a transaction stays open that no request uses: Neo4j's default
/// (`server.queryapi.transaction_idle_timeout`, 30 s).
pub const HTTP_TRANSACTION_IDLE_MS: u64 = 30_000;
/// How often expired transactions are looked for: at most so much longer a forgotten transaction holds its locks. Neo4j
/// looks every 5 s. A look at [`HTTP_TRANSACTIONS_MAX`] places takes microseconds.
pub const HTTP_TRANSACTIONS_SWEEP_MS: u64 = 1_000;
/// Requests of other nodes about transactions that are remembered. A request may come a second time after a broken
/// connection, at most one connection timeout later, and must not be carried out twice (I6). A node's clients would
/// need more than 10,000 such requests a second to push one out before.
pub const HOLDER_REQUESTS_SEEN_MAX: usize = 65_536;
/// Between two looks whether a holder that was asked still lives, while its answer is awaited.
pub const HOLDER_LOOK_EVERY_MS: u64 = 2_000;
/// Looks in a row without an answer after which its answer is no longer awaited. A holder that is only slow answers a
/// look from memory; one that is stopped costs its clients 8 s, and not the longest time of a request.
pub const HOLDER_SILENT_LOOKS_MAX: u32 = 3;
/// Longest path of a request about a transaction that is sent to another node, in bytes: a database and a name.
pub const HOLDER_PATH_BYTES_MAX: usize = 2 << 10;
const _: () = assert!(HTTP_TRANSACTIONS_SWEEP_MS * 5 <= HTTP_TRANSACTION_IDLE_MS);
const _: () = assert!(HTTP_TRANSACTION_IDLE_MS < IDLE_TIMEOUT_MS);
