//! Bounds for fresh entries: refreshes and their plans, near copies, stale-if-error and the detection of an absent
//! origin, pauses, degrees.

use super::{INVALIDATION_POLL_MS, STORE_BREAKER_APART_MS};
#[cfg(doc)]
use super::{LEASE_MS_MIN, STORE_COMMAND_MS_DEFAULT};

/// A hit is served if the reader of the invalidation log was at work within this time: four polls. After a longer
/// time the process was stopped or starved and may have missed a purge, so the log is read first. With less, hits of a
/// starved machine would wait for the store. With more, a stopped process would serve purged copies for longer.
pub const PAUSE_MS: u64 = 2_000;
const _: () = assert!(PAUSE_MS >= 3 * INVALIDATION_POLL_MS);
/// For how long after a pause was noticed requests wait for that look. The reader may be in a command that began before
/// the pause, and then needs one more; each has [`STORE_COMMAND_MS_DEFAULT`]. A log of several pages takes longer, and so
/// does a store that is away: requests are misses then.
pub const PAUSE_POLL_MS_MAX: u64 = 500;
/// The pause after such a look failed, while requests wait for it. The store's connection is not opened again sooner
/// ([`STORE_BREAKER_APART_MS`]).
pub const PAUSE_POLL_RETRY_MS: u64 = 50;
const _: () = assert!(PAUSE_POLL_RETRY_MS >= STORE_BREAKER_APART_MS);
/// The longest time for a probe of the origin (connect, TLS, handshake, HELLO) before it counts as failed. A server
/// that pauses longer for garbage collection serves nobody meanwhile either.
pub const ORIGIN_PROBE_MS_MAX: u64 = 2_000;
/// By how much a probe may exceed what probes of this Neo4j usually take. Then Neo4j counts as silent until it has answered: stored
/// answers stand in, also those that a write has ended. A Neo4j nearby answers a probe in some milliseconds: after a doubt and this
/// time it has answered nothing for more than half a second, and a reader waits for less than a second in all.
pub const ORIGIN_PROBE_LATE_MS: u64 = 300;
const _: () = assert!(ORIGIN_PROBE_LATE_MS < ORIGIN_PROBE_MS_MAX);
/// A run, a question, a check of credentials or a forward that lasts this long raises a doubt, which a probe settles. A server that falls
/// silent behind open connections counts as silent after this and [`ORIGIN_PROBE_LATE_MS`], and as away after this and
/// [`ORIGIN_PROBE_MS_MAX`], for any `origin.timeout`. Runs that are only slow cost a healthy server one small connection in
/// half a second.
pub const ORIGIN_DOUBT_MS: u64 = 300;
/// The longest wait for a run of a request that stale-if-error could answer, even if its pattern is usually slower.
/// Below it the wait is three times the tail by which leases are measured. With [`LEASE_MS_MIN`] that gives 1 to 5 s.
pub const STALE_FALLBACK_WAIT_MS_MAX: u64 = 5_000;
/// How often a waiting request looks whether Neo4j is known to be away. A look at memory costs a microsecond.
pub const STALE_FALLBACK_LOOK_MS: u64 = 100;
/// How long past its deadline a request may wait for the store to return a fallback: many round trips of a healthy
/// store.
pub const STALE_FALLBACK_LATE_MS_MAX: u64 = 50;

/// Requests for one copy between two looks at how hot its key is. A power of two, so that a hit divides by shifting. At
/// [`HOT_RATE_PER_S_MIN`] a look comes every half a minute, and within [`HOT_KEY_SEEN_MS`].
pub const HEAT_SAMPLE_ARRIVALS: u64 = 64;
const _: () = assert!(HEAT_SAMPLE_ARRIVALS.is_power_of_two());
/// Keys that a node reads anew by itself when a write has ended them: its hottest ones. Each holds a query of
/// [`BODY_BYTES_UNRESERVED`](super::BODY_BYTES_UNRESERVED) at most, so 4 MiB in all. A look at all of them after a write
/// takes some microseconds.
pub const HOT_KEYS_MAX: usize = 64;
/// The rate from which a key may be one of them. A slower one waits for its next reader: that reader's run costs Neo4j the
/// same, and may never be needed.
pub const HOT_RATE_PER_S_MIN: f64 = 2.0;
/// A hot key is forgotten if nothing was seen of it for so long.
pub const HOT_KEY_SEEN_MS: u64 = 60_000;
/// The pause between two looks for hot keys that writes have ended: writes that come faster share a look.
pub const HOT_LOOK_PAUSE_MS: u64 = 50;

/// The rate, in requests per second in the cluster, from which a key is hot. Nodes fetch a near copy anew each
/// [`NEAR_MS_MAX`]. So on ten nodes a key of this rate gets every second answer of a node from its near copy; with less
/// most near copies would end unused.
pub const NEAR_RATE_PER_S_MIN: f64 = 20.0;
/// Longest life of a near copy: how much longer a purge that cannot reach its node may go unnoticed there than
/// [`INVALIDATION_POLL_MS`] allows an owner's copy. A node that is cut from its peers and the store serves the near
/// copy no longer than that.
pub const NEAR_MS_MAX: u64 = 2 * INVALIDATION_POLL_MS;
/// Shortest life of a near copy: a shorter one would end before the next request of a key of [`NEAR_RATE_PER_S_MIN`].
pub const NEAR_MS_MIN: u64 = 50;
/// For how long after its end a near copy stays in memory, for its unreported hits. The next request comes sooner, or
/// the key is no longer hot.
pub const NEAR_LINGER_MS: u64 = NEAR_MS_MAX;
/// Largest body of a near copy, in bytes: a hundred of them take 25 MiB of a node's memory.
pub const NEAR_BYTES_MAX: usize = 256 << 10;
/// Pause after a failed refresh of a stale copy before the next one, jittered by half. The stale copy is served
/// meanwhile, and an origin that is down is not asked for every hit.
pub const REFRESH_RETRY_MS: u64 = 1_000;
/// Longest pause before the retry of a failed refresh, before jitter: for any factor, a recovered origin is noticed
/// within a minute and a half.
pub const REFRESH_RETRY_MS_MAX: u64 = 60_000;
/// Pause before a copy tries again for a refresh that found no room in the queue, jittered by half. Ten tries a second
/// of each copy cost nothing; a try for each hit would take a lock for each hit.
pub const REFRESH_DROPPED_MS: u64 = 100;
/// How much later than a refresh's deadline an origin may report that it has passed, before the run is dropped.
pub const REFRESH_CUT_MS: u64 = 250;
/// Longest time after an entry's expiry in which a miss on its copy counts as a late refresh; at most half of its TTL.
/// An expired copy is kept in memory for this time where grace and stale-if-error are 0.
pub const LATE_MISS_MS_MAX: u64 = 10_000;
/// How often, about, the plan for an early refresh is made anew in a copy's life: a change of its rate is seen after a
/// thirty-second of the TTL at most.
pub const REFRESH_PLANS_MAX: u64 = 32;
/// Keys with remembered cost and rate, about 40 bytes each: 2.6 MB. A hint, or a learned TTL, takes 80 more: 7.9 MB if all have one,
/// and with learned TTLs the texts that were run last.
pub const HISTORY_KEYS_MAX: usize = 65_536;
/// Keys that the hand passes by for one new key, once there are so many. A new key then replaces the last of them.
pub const HISTORY_HAND_PLACES: usize = 64;
/// Early refresh: the assumed time of a run before the key, or its pattern, ran once (DESIGN "Early refresh").
pub const REFRESH_COST_MS_UNKNOWN: f64 = 50.0;
/// Shortest run that early refresh assumes: the resolution of [`crate::time::Millis`].
pub const REFRESH_COST_MS_MIN: f64 = 1.0;
/// Longest run that early refresh assumes. An entry from another node may claim more; no deadline allows it.
pub const REFRESH_COST_MS_MAX: f64 = 600_000.0;
/// Largest 99th percentile of a run, as a multiple of its mean: that of cv 2.6. With more, one outlier in a short
/// history would move the refresh further ahead than all likely outliers need.
pub const REFRESH_TAIL_FACTOR_MAX: f64 = 10.0;
/// Smallest β that the mode `adaptive` chooses: below it the lead varies less than a run does.
pub const REFRESH_FITTED_BETA_MIN: f64 = 0.25;
/// Largest β that the mode `adaptive` chooses: above it the lead varies by more than 10 × the run.
pub const REFRESH_FITTED_BETA_MAX: f64 = 8.0;
/// Largest mean lead that the mode `adaptive` plans, as a share of the TTL: at most 25 % more origin runs.
pub const REFRESH_LEAD_SHARE_MAX: f64 = 0.2;
/// ε: the share of refreshes that the mode `adaptive` lets land after expiry. Their requests get a stale answer.
pub const REFRESH_LATE_SHARE: f64 = 1e-3;
/// The assumed rate of a key without history, in requests per second, when its mean lead is bounded.
pub const REFRESH_RATE_PER_S_UNKNOWN: f64 = 1_000.0;
/// Largest rate of one key that early refresh assumes, in requests per second: more than a node serves.
pub const REFRESH_RATE_PER_S_MAX: f64 = 1e7;
/// Smallest σ: the hint's range (INTERFACE section 1), which an entry or a peer's message may exceed.
pub const REFRESH_VOLATILITY_MIN: f64 = 0.01;
/// Largest σ, likewise.
pub const REFRESH_VOLATILITY_MAX: f64 = 100.0;
/// Largest β0 that a plan uses, so that the plan stays finite; the configuration allows 0.5 to 2.0.
pub const REFRESH_BETA_MAX: f64 = 100.0;
/// Hits of a copy before `topology_sensitive` asks for the degree of its query's anchor. For rarer queries, a run would
/// pay for a better moment of a refresh that hardly ever comes.
pub const DEGREE_HITS_MIN: u32 = 16;
/// Degrees remembered, with the anchors of as many keys. Both together take about 200 bytes for each: 4 MiB.
pub const DEGREES_MAX: usize = 20_000;
/// For how long a degree is remembered. The rule uses its logarithm: a doubled degree changes β by 0.7.
pub const DEGREE_TTL_MS: u64 = 600_000;
/// For how long it is remembered that a degree could not be learned: the node may appear, or the server may recover.
pub const DEGREE_UNKNOWN_TTL_MS: u64 = 60_000;
/// The longest degree question. With an index it takes about a millisecond. Without one the server scans the nodes of
/// the label; at a million nodes a second this ends most of the scan.
pub const DEGREE_TIMEOUT_MS: u64 = 1_000;
/// For how long a label and key are not asked about after a question timed out: a person has to create the index.
pub const DEGREE_SLOW_MS: u64 = 3_600_000;
const _: () = assert!(DEGREE_SLOW_MS > DEGREE_TTL_MS);
/// Pairs of label and key that are remembered so. Forgetting one costs a question.
pub const DEGREE_SLOW_MAX: usize = 1_000;
/// Degree questions that wait on this node; one is asked at a time. Further ones are forgotten, and a later hit asks
/// them again.
pub const DEGREE_QUEUE_MAX: usize = 16;
/// Result bytes of a degree question: one number.
pub const DEGREE_RESULT_BYTES_MAX: usize = 1 << 10;
/// Largest degree, as for a hint: the rule makes no difference above it.
pub const DEGREE_MAX: u64 = 1_000_000_000;
