//! Bounds of the adaptive number of runs at the origin ([`crate::origin_limit`]), and of the order in its line.

/// The lowest limit. With one run at a time a long statement would hold up all short ones.
pub const ORIGIN_LIMIT_MIN: usize = 2;
/// The highest adaptive limit of a node. Connections, and room for results, are sized by it. A Neo4j that has more cores
/// for each node needs a number in the configuration.
pub const ORIGIN_LIMIT_MAX: usize = 32;
/// The limit before Neo4j's times are known.
pub const ORIGIN_LIMIT_START: usize = 4;
/// Patterns whose times are remembered. The least recently used is forgotten first; at about 150 bytes each.
pub const ORIGIN_PATTERNS_MAX: usize = 1_024;
/// Weight of the newest run in the mean of a pattern's times: the last 20 or so count.
pub const ORIGIN_TIME_SMOOTHING: f64 = 0.05;
/// So many times the mean of all runs, an idle time is wrong: no run is faster beside others than alone.
pub const ORIGIN_IDLE_TIME_WRONG: f64 = 2.0;
/// Longest run beside the mean of its pattern that counts in full. One longer run says little about Neo4j's load.
pub const ORIGIN_TIME_OUTLIER: f64 = 8.0;
/// A run was alone enough to show its idle time when, over its life, this node had at most so many runs under way.
pub const ORIGIN_IDLE_RUNS_MAX: f64 = 1.5;
/// Slowdown that does not count as a queue: run times vary, and the last core is used only by some overlap.
pub const ORIGIN_SLOWDOWN_TOLERATED: f64 = 1.2;
/// Slowdown of all runs above which nothing is left over for prefetch.
pub const ORIGIN_SLOWDOWN_STRAINED: f64 = 2.0;
/// Runs of this node that queue inside Neo4j: below this the limit rises. Small, since every node keeps as many there.
pub const ORIGIN_QUEUED_MIN: f64 = 1.0;
/// Runs of this node that queue inside Neo4j: above this the limit falls.
pub const ORIGIN_QUEUED_MAX: f64 = 2.0;
/// Weight of the newest window in the slowdown.
pub const ORIGIN_SLOWDOWN_SMOOTHING: f64 = 0.5;
/// Shortest time between two decisions.
pub const ORIGIN_WINDOW_MS: u64 = 100;
/// Runs between two decisions, at least.
pub const ORIGIN_WINDOW_RUNS: u32 = 8;
/// After this time, [`ORIGIN_WINDOW_SLOW_RUNS`] runs are enough for a decision.
pub const ORIGIN_WINDOW_SLOW_MS: u64 = 1_000;
/// The same for runs so long that few end in a second.
pub const ORIGIN_WINDOW_SLOW_RUNS: u32 = 3;
/// Time between two probes for the idle times. Probes of all nodes begin at multiples of it by their wall clocks, so
/// that each finds Neo4j without the others' runs. Two in five seconds, so that a Neo4j that changed is followed within
/// that time.
pub const ORIGIN_PROBE_EVERY_MS: u64 = 2_500;
/// A probe ends so long after the first run that was alone: for short statements some dozens of runs.
pub const ORIGIN_PROBE_RUNS_MS: u64 = 60;
/// A probe ends after this time in any case: a long run may neither end nor leave another one alone.
pub const ORIGIN_PROBE_LONGEST_MS: u64 = 1_000;
/// After a probe, at least so many times its length pass until the next one: probes take at most 6 % of the time.
pub const ORIGIN_PROBE_PAUSE: u64 = 15;
/// Time between two looks whether a probe is over, or due, while no run begins or ends.
pub const ORIGIN_LIMIT_TICK_MS: u64 = 50;
const _: () = assert!(ORIGIN_LIMIT_TICK_MS < ORIGIN_PROBE_LONGEST_MS);

/// How many times its own expected work a run lets later runs of its queue go first. More helps short runs little: those
/// of a mix are tens of times shorter than the long ones.
pub const LINE_STRETCH: u64 = 4;
/// The longest expected time of a run that counts for its place, in microseconds: so a run lets at most 4 s of later
/// work go first, which is less than [`super::ORIGIN_WAIT_MS_MAX`].
pub const LINE_COST_US_MAX: u64 = 1_000_000;
const _: () = assert!(LINE_STRETCH * LINE_COST_US_MAX < super::ORIGIN_WAIT_MS_MAX * 1_000);
