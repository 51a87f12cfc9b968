//! Bounds of what keeps entries fresh: refreshes and their plans, near copies, stale-if-error and how soon the origin is
//! known to be away, pauses, degrees.

use super::INVALIDATION_POLL_MS;
#[cfg(doc)]
use super::{LEASE_MS_MIN, STORE_COMMAND_MS_DEFAULT};

/// A hit is served if the invalidation log was read, or could not be, so long ago at the most: four polls. Longer
/// means that the process was stopped or starved and may have missed a purge, so the log is read first. Less would
/// make hits of a starved machine wait for the store; more is what a stopped one may serve of the past.
pub const PAUSE_MS: u64 = 2_000;
const _: () = assert!(PAUSE_MS >= 3 * INVALIDATION_POLL_MS);
/// For how long a request waits for that look: the reader may be in the middle of a command that began before the
/// pause, and then needs one more; each has [`STORE_COMMAND_MS_DEFAULT`]. A log of several pages takes longer.
pub const PAUSE_LOOK_MS_MAX: u64 = 500;
/// A probe of the origin (connect, TLS, handshake, HELLO) is answered within this time or counts as failed: a
/// server that pauses for garbage collection longer than that serves nobody meanwhile either.
pub const ORIGIN_PROBE_MS_MAX: u64 = 2_000;
/// A run, or a question about credentials, that goes on for so long raises a doubt, which a probe settles: a server that
/// falls silent behind connections that stand is known to be away after this and [`ORIGIN_PROBE_MS_MAX`], however long
/// `origin.timeout` is. A run that is merely slow costs a healthy server one small connection in as long.
pub const ORIGIN_DOUBT_MS: u64 = 1_000;
/// For how long a request that could be answered by stale-if-error waits for a run at the most, however slow its
/// pattern usually is: below it, three times the tail that leases are measured by. With what
/// [`LEASE_MS_MIN`] allows, between 1 and 5 s.
pub const STALE_FALLBACK_WAIT_MS_MAX: u64 = 5_000;
/// For how long after its deadline a request may wait for the store's word on a spare: a round trip of a store that
/// is well, many times over.
pub const STALE_FALLBACK_LATE_MS_MAX: u64 = 50;

/// Requests per second in the cluster from which on a key is hot. A near copy is asked for anew each
/// [`NEAR_MS_MAX`], so on ten nodes a key of this rate has each other answer of a node from its near copy; with less
/// most of them would end unused.
pub const NEAR_RATE_PER_S_MIN: f64 = 20.0;
/// Longest life of a near copy: for how long a purge that cannot reach its node may go unnoticed there beyond
/// what [`INVALIDATION_POLL_MS`] allows an owner's copy. A node that is cut from its peers and the store serves
/// it no longer than that.
pub const NEAR_MS_MAX: u64 = 2 * INVALIDATION_POLL_MS;
/// Shortest life of a near copy: less would end before the next request of a key of [`NEAR_RATE_PER_S_MIN`].
pub const NEAR_MS_MIN: u64 = 50;
/// For how long after its end a near copy stays in memory, for its unreported hits: the next request comes sooner
/// or the key is hot no more.
pub const NEAR_LINGER_MS: u64 = NEAR_MS_MAX;
/// Largest body of a near copy, in bytes: a hundred of them take 25 MiB of a node's memory.
pub const NEAR_BYTES_MAX: usize = 256 << 10;
/// Pause after a failed refresh of a stale copy before the next one, jittered by half: the stale copy
/// is served meanwhile, and an origin that is down is not asked for every hit.
pub const REFRESH_RETRY_MS: u64 = 1_000;
/// Longest pause before a failed refresh is tried again by itself, before jitter: whatever the factor, an origin that
/// is back is noticed within a minute and a half.
pub const REFRESH_RETRY_MS_MAX: u64 = 60_000;
/// Pause before a copy tries again for a refresh that found no room in the queue, jittered by half. Ten tries a
/// second of each copy are nothing; a try of each hit would be a lock of each hit.
pub const REFRESH_DROPPED_MS: u64 = 100;
/// What an origin may take beyond a refresh's deadline to say that it has passed, before the run is dropped.
pub const REFRESH_CUT_MS: u64 = 250;
/// Longest span after an entry's expiry in which a miss on its copy counts as a late refresh; at most half of its
/// TTL. For so long an expired copy is kept in memory where grace and stale-if-error are 0.
pub const LATE_MISS_MS_MAX: u64 = 10_000;
/// Times in a copy's life that its plan for an early refresh is made anew, about: at most a thirty-second of the TTL
/// passes before a change of its rate is seen.
pub const REFRESH_PLANS_MAX: u64 = 32;
/// Keys of which cost, rate and hints are remembered, about 200 bytes each: 10 MB.
pub const HISTORY_KEYS_MAX: usize = 50_000;
/// Early refresh: what a run is taken to last before the key, or its pattern, ran once (DESIGN "Early refresh").
pub const REFRESH_COST_MS_UNKNOWN: f64 = 50.0;
/// Shortest run that early refresh reckons with: what the clock of [`crate::time::Millis`] can tell.
pub const REFRESH_COST_MS_MIN: f64 = 1.0;
/// Longest run that early refresh reckons with. An entry made elsewhere may claim more; no deadline allows it.
pub const REFRESH_COST_MS_MAX: f64 = 600_000.0;
/// Largest 99th percentile of a run, as a multiple of its mean: that of cv 2.6. One more outlier in a short
/// history would move the refresh further ahead than all that are likely to come.
pub const REFRESH_TAIL_FACTOR_MAX: f64 = 10.0;
/// Smallest β that the mode `adaptive` chooses: below it the lead varies less than a run does.
pub const REFRESH_FITTED_BETA_MIN: f64 = 0.25;
/// Largest β that the mode `adaptive` chooses: above it the lead varies by more than 10 × the run.
pub const REFRESH_FITTED_BETA_MAX: f64 = 8.0;
/// Largest mean lead that the mode `adaptive` plans, as a share of the TTL: 25 % more origin runs at the most.
pub const REFRESH_LEAD_SHARE_MAX: f64 = 0.2;
/// ε: refreshes that the mode `adaptive` lets land after expiry, as a share of all. They are answered stale.
pub const REFRESH_LATE_SHARE: f64 = 1e-3;
/// A key without history may be as hot as this, in requests per second, when its mean lead is bounded.
pub const REFRESH_RATE_PER_S_UNKNOWN: f64 = 1_000.0;
/// Largest rate of one key that early refresh reckons with, in requests per second: more than a node serves.
pub const REFRESH_RATE_PER_S_MAX: f64 = 1e7;
/// Smallest σ: the hint's range (INTERFACE section 1), which an entry or a peer's message may leave.
pub const REFRESH_VOLATILITY_MIN: f64 = 0.01;
/// Largest σ, likewise.
pub const REFRESH_VOLATILITY_MAX: f64 = 100.0;
/// Largest β0 that a plan reckons with, so that it stays finite; the configuration allows 0.5 to 2.0.
pub const REFRESH_BETA_MAX: f64 = 100.0;
/// Hits of a copy before `topology_sensitive` asks for the degree of its query's anchor: what is asked less often would pay a run
/// for a better moment of a refresh that hardly comes.
pub const DEGREE_HITS_MIN: u32 = 16;
/// Degrees remembered, with the anchors of as many keys. Both together take about 200 bytes for each: 4 MiB.
pub const DEGREES_MAX: usize = 20_000;
/// For how long a degree is remembered. It enters the rule by its logarithm: one that doubled changes β by 0.7.
pub const DEGREE_TTL_MS: u64 = 600_000;
/// For how long it is remembered that a degree could not be learned: the node may come, the server may be well
/// again.
pub const DEGREE_UNKNOWN_TTL_MS: u64 = 60_000;
/// A degree question ends by then. With an index it takes about a millisecond; without one the server walks
/// through the nodes of the label, and at a million nodes a second this ends most of that.
pub const DEGREE_TIMEOUT_MS: u64 = 1_000;
/// For how long a label and key are left alone after a question timed out: an index is made by a person.
pub const DEGREE_SLOW_MS: u64 = 3_600_000;
const _: () = assert!(DEGREE_SLOW_MS > DEGREE_TTL_MS);
/// Pairs of label and key of which that is remembered. Forgetting one costs a question.
pub const DEGREE_SLOW_MAX: usize = 1_000;
/// Degree questions that wait on this node, one of which is asked at a time; more are forgotten, and asked for by
/// a later hit.
pub const DEGREE_QUEUE_MAX: usize = 16;
/// Result bytes of a degree question: one number.
pub const DEGREE_RESULT_BYTES_MAX: usize = 1 << 10;
/// Largest degree, as of a hint: the rule knows no difference above it.
pub const DEGREE_MAX: u64 = 1_000_000_000;
