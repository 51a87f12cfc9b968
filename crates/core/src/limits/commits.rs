//! Bounds of the queue of commits: results that are answered, and that the store does not have yet.

use super::{LEASE_MS_MIN, STORE_COMMAND_MS_DEFAULT};

/// Commits in the queue of one node. Above it a lease is given back before the answer, and the result stays in memory.
pub const COMMITS_QUEUED_MAX: usize = 4_096;
/// Bytes of copies in the queue. Above it a lease is given back in the commit's place, and the result stays in memory.
pub const COMMITS_QUEUED_BYTES_MAX: usize = 16 << 20;
/// Commits that are sent to the store together. Redis takes about 6 µs for each, and other commands wait behind them.
pub const COMMIT_BATCH_LEN_MAX: usize = 256;
/// Bytes of copies that are sent to the store together, besides the first. To seal them takes a worker about a millisecond.
pub const COMMIT_BATCH_BYTES_MAX: usize = 256 << 10;
/// A result that comes so soon after the one before it, in ms, is part of a load: its commit waits for no poll of the store.
pub const COMMIT_LOAD_GAP_MS: u64 = 2;
/// How long a commit waits for others under load.
pub const COMMIT_LOAD_WAIT_MS: u64 = 5;
/// How long a commit waits for the node's next poll of the store, at most. A quarter of its lease may be less.
pub const COMMIT_WAIT_MS_MAX: u64 = 250;
/// In this time the store has a queued result: the wait, and two tries of a command.
pub const COMMIT_ENDED_MS_MAX: u64 = COMMIT_WAIT_MS_MAX + 2 * STORE_COMMAND_MS_DEFAULT;
/// A run whose value must be newer than a queued one waits this long for that one's commit, at most.
pub const COMMIT_AWAITED_MS_MAX: u64 = 1_000;

// At the end of a run two thirds of its lease are left. The wait, and two tries of a command, take less.
const _: () = assert!(LEASE_MS_MIN / 4 + 2 * STORE_COMMAND_MS_DEFAULT <= LEASE_MS_MIN / 2);
