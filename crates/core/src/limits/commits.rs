//! Bounds of the queue of commits: results that are answered, and that the store does not have yet.

use super::{LEASE_MS_MIN, STORE_COMMAND_MS_DEFAULT};

/// Commits in the queue of one node. Above it a lease is given back before the answer, and the result stays in memory.
pub const COMMITS_QUEUED_MAX: usize = 4_096;
/// Bytes of copies in the queue, as they come there. Above it a result is committed before its answer.
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
/// Once a queued commit is late by so much, because a batch under way is slow, results are committed before their answers: a
/// command of the store.
pub const COMMIT_LATE_MS: u64 = STORE_COMMAND_MS_DEFAULT;
/// In this time the store has a queued result: the wait, the batch under way, and two tries of a command.
pub const COMMIT_ENDED_MS_MAX: u64 = COMMIT_WAIT_MS_MAX + COMMIT_LATE_MS + 2 * STORE_COMMAND_MS_DEFAULT;
/// Commits of one batch whose second try was refused, and whose entries are looked at side by side.
pub const COMMITS_PEEKED_AT_A_TIME: usize = 64;
/// A run whose value must be newer than a queued one waits this long for that one's commit, at most.
pub const COMMIT_AWAITED_MS_MAX: u64 = 1_000;

// A commit waits only if half of its lease is left. The wait, a batch under way that is late, and the first try take less. What
// waits behind more than that may lose its lease: the store refuses it then, and the key is run again.
const _: () = assert!(LEASE_MS_MIN / 4 + COMMIT_LATE_MS + STORE_COMMAND_MS_DEFAULT <= LEASE_MS_MIN / 2);
