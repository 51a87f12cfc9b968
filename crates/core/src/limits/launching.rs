//! Bounds of what is prefetched: how many runs, how many at a time, how many are remembered, and what they have to bring.

/// Launches allowed for each demand miss, in quarters of a launch: prefetch adds a quarter to the origin's load at the most
/// (DESIGN "Prefetch").
pub const PREFETCH_QUARTERS_PER_MISS: i64 = 1;
/// Launches that quiet hours may save up: one burst of eight requests with four candidates each.
pub const PREFETCH_TOKENS_MAX: i64 = 32;
/// Runs of prefetches at a time, in percent of the origin's slots, but one at the least (F40).
pub const PREFETCH_SLOTS_PERCENT: usize = 10;
/// The same where the origin has no slots (the embedded graph): as of 32, the default of `origin.max_concurrent`.
pub const PREFETCH_RUNS_UNSLOTTED: usize = 3;
/// Launched entries that wait to be used, of one node: at 0.2 launches for each of 200 misses a second and a life of
/// 90 s (TTL 60 s, grace 0.5) 3,600. Each is about 300 bytes beside its copy, 1.2 MiB. Beyond it nothing is launched.
pub const PREFETCH_TICKETS_MAX: usize = 4_096;
/// An entry about to expire is one with no more than this percentage of its TTL left; with more, another read of it would
/// bring nothing.
pub const PREFETCH_OVERLAP_LEFT_PERCENT: u64 = 20;
/// Wait for another node's word on a launch: it decides at once.
pub const PREFETCH_TELL_MS: u64 = 500;
/// Resolved launches after which a pattern's number of launches is thought over: with fewer one lucky one decides.
pub const PREFETCH_WINDOW: u32 = 16;
/// Accuracy above which prefetching is made more aggressive, in percent (feedback-directed prefetching, section 4).
pub const PREFETCH_ACCURACY_HIGH_PERCENT: u32 = 75;
/// Accuracy below which it is made less so (the same).
pub const PREFETCH_ACCURACY_LOW_PERCENT: u32 = 40;
/// Of candidates that only bad experience refuses, each so many-th is launched all the same: otherwise what was turned off
/// once would never be seen to have become predictable. 1.6 % of requests with one such candidate each.
pub const PREFETCH_TRIAL_EVERY: u32 = 64;
/// Launches over which a kind's calibration forgets: half of what is remembered is of the last 44.
pub const PREFETCH_CALIBRATION_LAUNCHES: f64 = 64.0;
/// Launches that a kind's calibration is believed to have been right for before the first: six sure ones in a row that are
/// wasted bring it below the threshold of an idle origin.
pub const PREFETCH_CALIBRATION_PRIOR: f64 = 2.0;
