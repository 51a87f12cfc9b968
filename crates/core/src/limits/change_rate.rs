//! Bounds of TTLs that are learned ([`crate::change_rate`]).

/// Largest setting of the share of answers that may be stale.
pub const STALE_TARGET_MAX: f64 = 0.5;
/// The shortest learned TTL, as a part of the operator's. So a mistake costs at most ten times the runs.
pub const TTL_LEARNED_FACTOR_MIN: f64 = 0.1;
/// The longest learned TTL, in operator's TTLs. So an answer that changes after a long rest is stale for that long at most.
pub const TTL_LEARNED_FACTOR_MAX: f64 = 20.0;
/// Changes that a pattern seems to have had before its first run. One is the least that keeps an estimate finite; it is forgotten
/// after a few intervals.
pub const CHANGES_PRIOR_PATTERN: f64 = 1.0;
/// Changes that a key seems to have had, at its pattern's rate. With two, a key needs about as many of its own changes to be
/// judged by itself.
pub const CHANGES_PRIOR_KEY: f64 = 2.0;
/// Intervals of a key after which an old one weighs e⁻¹. A key whose answer changes faster from now on has its new TTL after some
/// twenty runs.
pub const CHANGE_INTERVALS_KEY: f64 = 64.0;
/// The same for a pattern. It sees the runs of all its keys, and is only the prior of new ones.
pub const CHANGE_INTERVALS_PATTERN: f64 = 1_024.0;
