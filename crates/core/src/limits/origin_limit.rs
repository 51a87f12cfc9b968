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
/// So many times the mean of all runs, a quiet time is wrong: no run is faster beside others than alone.
pub const ORIGIN_IDLE_TIME_WRONG: f64 = 1.5;
/// Weight of the newest run in the geometric means that slowdowns are reckoned from: the last 100 or so count. Times of a
/// pattern with a long tail vary by a factor of e, so the mean is then right to 7 %.
pub const ORIGIN_QUIET_SMOOTHING: f64 = 0.01;
/// A probe whose own mean is so many times the quiet time, or one of so many, replaces it.
pub const ORIGIN_QUIET_CHANGED: f64 = 2.0;
/// Runs of a pattern in probes, at least, before their mean is its quiet time, and in one probe for such a change.
pub const ORIGIN_QUIET_RUNS: f64 = 24.0;
/// The same where the quiet time is doubted: a rough one soon is better than a wrong one.
pub const ORIGIN_QUIET_RUNS_DOUBTED: f64 = 6.0;
/// Longest run beside the mean of its pattern that counts in full for the expected time.
pub const ORIGIN_TIME_OUTLIER: f64 = 8.0;
/// A run in a probe was alone when, over its life, this node had at most so many runs under way.
pub const ORIGIN_IDLE_RUNS_MAX: f64 = 1.5;
/// Slowdown that does not count as a queue: run times vary, and the last core is used only by some overlap.
pub const ORIGIN_SLOWDOWN_TOLERATED: f64 = 1.2;
/// Slowdown of all runs above which nothing is left over for prefetch. Where even the lowest limit fills Neo4j, it is about that.
pub const ORIGIN_SLOWDOWN_STRAINED: f64 = 2.0;
/// Runs of this node that queue inside Neo4j. Small, since every node keeps as many there.
pub const ORIGIN_QUEUED: f64 = 0.7;
/// Weight of the newest window in the slowdown.
pub const ORIGIN_SLOWDOWN_SMOOTHING: f64 = 0.5;
/// A slowdown that is so many times the usual one brings the next probe soon: perhaps every run takes longer than before, and
/// no queue is the reason. Single windows vary by a factor of two.
pub const ORIGIN_SLOWDOWN_SUSPECT: f64 = 2.0;
/// A limit below this part of the usual one also brings the next probe soon, if that is more than one run less.
pub const ORIGIN_FALL_SUSPECT: f64 = 0.6;
/// Weight of the newest window in the usual slowdown and limit: those of the last seconds.
pub const ORIGIN_USUAL_SMOOTHING: f64 = 0.05;
/// After the limit has fallen, it does not rise for so long.
pub const ORIGIN_RISE_AGAIN_MS: u64 = 1_000;
/// All slots taken, and no run began or ended for this long: the limit rises. From 4 to 32 that takes 8 s.
pub const ORIGIN_STALLED_MS: u64 = 1_000;
/// The same in mean times of the last runs, if that is longer: at a full Neo4j long runs end now and then.
pub const ORIGIN_STALLED_RUNS: f64 = 4.0;
/// Shortest time between two decisions, with [`ORIGIN_WINDOW_RUNS`].
pub const ORIGIN_WINDOW_MS: u64 = 100;
/// Runs between two decisions: their mean is then right to about 15 %.
pub const ORIGIN_WINDOW_RUNS: u32 = 32;
/// After this time, [`ORIGIN_WINDOW_SOME_RUNS`] are enough.
pub const ORIGIN_WINDOW_SOME_MS: u64 = 500;
/// See [`ORIGIN_WINDOW_SOME_MS`].
pub const ORIGIN_WINDOW_SOME_RUNS: u32 = 8;
/// The same for runs so long that few end in a second.
pub const ORIGIN_WINDOW_SLOW_MS: u64 = 2_000;
/// See [`ORIGIN_WINDOW_SLOW_MS`].
pub const ORIGIN_WINDOW_SLOW_RUNS: u32 = 3;
/// A wait in the line leaves nothing over for prefetch for so many times its length ([`crate::leftover`]).
pub const ORIGIN_LEFTOVER_WAITS: u64 = 8;
/// It leaves nothing over for no longer than this.
pub const ORIGIN_LEFTOVER_MS_MAX: u64 = 2_000;
/// Part of the last seconds in which waits may have left nothing over. Launches begin again within 0.7 of
/// [`ORIGIN_LEFTOVER_MEAN_MS`] after the last wait of a full origin has left nothing over (e^-0.7 is a half).
pub const ORIGIN_LEFTOVER_CLOSED_MAX: f64 = 0.5;
/// Time after which earlier time counts e times less for that part.
pub const ORIGIN_LEFTOVER_MEAN_MS: u64 = 2_000;
/// Length of the shortest probe. Such probes take 0.8 % of the time, so the 99th percentile of waits hardly shows them. Clocks of nodes
/// may differ by [`ORIGIN_PROBE_DRAIN`]'s part of it.
pub const ORIGIN_PROBE_MS: u64 = 80;
/// The first part of a probe, one of so many, lets the runs from before end.
pub const ORIGIN_PROBE_DRAIN: u64 = 3;
/// The length is so many times doubled at first, and when Neo4j seems to have changed: 320 ms, the first length.
pub const ORIGIN_PROBE_LEVEL_START: u32 = 2;
/// A probe of the first length, or a longer one, begins after so many times its length; a shorter one as seldom as one of the
/// first length: every 10.2 s. So probes take 0.8, 1.6 or 3.1 % of the time, and four times
/// as much while no quiet times are known ([`ORIGIN_PROBE_SOONER`]).
pub const ORIGIN_PROBE_EVERY: u64 = 32;
/// So many times as often as one of the first length, so every 2.6 s, while no quiet times are known.
pub const ORIGIN_PROBE_SOONER: u64 = 4;
/// A probe that has measured fewer runs is followed by one of twice the length.
pub const ORIGIN_PROBE_RUNS_MIN: u32 = 4;
/// A probe that has measured so many runs is followed by one of half the length.
pub const ORIGIN_PROBE_RUNS_PLENTY: u32 = 16;
/// So many runs in probes since the last doubt, or [`ORIGIN_PROBE_GOOD`] good probes, and quiet times are known.
pub const ORIGIN_PROBE_RUNS_KNOWN: u32 = 96;
/// So many probes of one length that have measured enough are followed by one of half the length.
pub const ORIGIN_PROBE_GOOD: u32 = 4;
/// The length is doubled at most so often: 1.3 s, every 41 s.
pub const ORIGIN_PROBE_LEVELS: u32 = 4;
/// Time between two looks whether a probe is over, or due, while no run begins or ends.
pub const ORIGIN_LIMIT_TICK_MS: u64 = 20;
const _: () = assert!(ORIGIN_LIMIT_TICK_MS < ORIGIN_PROBE_MS / ORIGIN_PROBE_DRAIN);

/// How many times its own expected work a run lets later runs of its queue go first. At 4, short runs waited 98 % as long as
/// in the order of arrival while the work was 1.5 times what the slots can do (`tests/line.rs`).
pub const QUEUE_STRETCH: u64 = 80;
/// The most later work that a run lets go first, in microseconds of slot time; principals that wait share it. So no run
/// waits for more than this beyond the order of arrival, which is less than [`super::ORIGIN_WAIT_MS_MAX`]. With several
/// slots the work takes less time.
pub const QUEUE_EXTRA_US_MAX: u64 = 8_000_000;
/// The longest expected time that counts as work before later runs.
pub const QUEUE_WORK_US_MAX: u64 = 1_000_000;
const _: () = assert!(QUEUE_EXTRA_US_MAX < super::ORIGIN_WAIT_MS_MAX * 1_000);
/// How often a node looks which of its parts do not work, and whether Neo4j has become slow or is as usual again, for the log.
pub const PARTS_LOOK_MS: u64 = 1_000;
