//! Bounds and costs behind the decision which cheap patterns are run directly ([`crate::pattern_worth`]).
//!
//! The costs are microseconds of CPU that a read takes the nodes and Redis, without Neo4j's own work. They were measured at
//! 7f50938f with 16 connections over HTTP beside a Neo4j 5.26 on two shared cores. They are constants on purpose: a node that
//! measured itself would judge by the load of the moment.

/// A read that this node's memory answers.
pub const WORTH_HIT_US: f64 = 11.0;
/// A read that the memory of another node answers: the hop comes on top.
pub const WORTH_HOP_HIT_US: f64 = 75.0;
/// A read that is run directly.
pub const WORTH_DIRECT_US: f64 = 76.0;
/// A miss at the owner of its key: 118 of the node, 50 of Redis.
pub const WORTH_MISS_US: f64 = 168.0;
/// A miss that is forwarded: 236 of both nodes, 50 of Redis.
pub const WORTH_HOP_MISS_US: f64 = 286.0;
const _: () = assert!(WORTH_DIRECT_US < WORTH_MISS_US && WORTH_MISS_US < WORTH_HOP_MISS_US);

/// Patterns whose usual run takes this long or longer are never run directly.
pub const WORTH_RUN_US_MAX: f64 = 2_000.0;
/// Nor are patterns whose runs take this long in the mean: some of their runs are costly.
pub const WORTH_MEAN_US_MAX: f64 = 5.0 * WORTH_RUN_US_MAX;
/// Runs before a pattern has a usual run. The estimate comes from a slow first run to the usual one within about fifty.
pub const WORTH_RUNS_MIN: u32 = 48;
/// Reads in the window before a pattern is run directly: the share of hits is known within a tenth then.
pub const WORTH_READS_MIN: f64 = 64.0;
/// For this long after its first read, and after each change, a pattern stays as it is. A cache that has just started has few hits
/// at first, and says nothing about a pattern.
pub const WORTH_HOLD_MS: u64 = 5_000;
/// A read of so long ago weighs e⁻¹. So a pattern with five reads a second has enough of them.
pub const WORTH_WINDOW_MS: u64 = 15_000;
/// Reads in the window; then all of them together weigh half of this, but not twice within [`WORTH_HALVES_MS`]. So a busy pattern is
/// judged by its last seconds, and not by the burst of a moment.
pub const WORTH_WINDOW_READS: f64 = 256.0;
/// See [`WORTH_WINDOW_READS`].
pub const WORTH_HALVES_MS: u64 = 1_000;
/// One key in so many takes the whole way, whatever is known of its pattern: the share of hits of these keys is what the pattern
/// would have if it were cached.
pub const WORTH_SAMPLE_ONE_IN: u8 = 32;
/// Reads of such keys in their window, before they say something.
pub const WORTH_SAMPLED_MIN: f64 = 12.0;
/// As [`WORTH_WINDOW_READS`], for reads of such keys. With so few a pattern of 100 reads a second is noticed within seconds,
/// and the share is known within a tenth.
pub const WORTH_SAMPLED_READS: f64 = 32.0;
/// As [`WORTH_WINDOW_MS`], for reads of such keys, which are few.
pub const WORTH_SAMPLED_WINDOW_MS: u64 = 60_000;
/// For so long after a pattern is cached again, its keys are still on their way into the cache, and only the sampled ones show how often
/// they return. After that all reads do.
pub const WORTH_FILLS_MS: u64 = 30_000;
/// A pattern begins to be run directly when its share of hits is below this part of the one from which caching pays, and ceases at
/// that one. Near it both cost the same, so a mistake costs nothing.
pub const WORTH_BEGINS_AT: f64 = 0.75;
/// Patterns that are counted. The least recently read gives way; a pattern without a place is cached.
pub const WORTH_PATTERNS_MAX: usize = 1_024;
/// A pattern without a read for so long gives its place to another.
pub const WORTH_FORGETS_MS: u64 = 60_000;
/// For so long, and up to twice as long, a node knows a key that it ran directly: the next read takes the whole way. It knows
/// 2 × [`ADMISSION_SEEN_KEYS_MAX`](super::ADMISSION_SEEN_KEYS_MAX) keys at most.
pub const WORTH_SEEN_MS: u64 = 30_000;
