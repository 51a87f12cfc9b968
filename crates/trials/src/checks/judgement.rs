//! The parts of a judgement: bounds, violations, counts, and the questions about faults that all checks ask. This
//! module judges nothing by itself.

use std::collections::BTreeMap;

use hopcache_testbed::cluster::fault::Fault;
use hopcache_testbed::cluster::history::{FaultRecord, History, RequestRecord};

/// Times, in µs, that a history is judged by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) ttl_us: u64,
    /// Longest time that a node works on a request.
    pub(crate) deadline_us: u64,
    /// Longest run of the origin where nothing is wrong with it.
    pub(crate) run_us: u64,
    pub(crate) nodes: u64,
    /// Delay that scheduling on a busy machine may add to any step.
    pub(crate) slack_us: u64,
}

/// A fault has effects for this time after its end: breakers, `DEGRADED_TTL_MS`, a reconnect, a poll of the
/// invalidation log, and an unnoticed pause under 2 s (docs/known-limits.md).
pub(super) const AFTER_US: u64 = 5_000_000;
/// `entry.ttl_jitter` shortens or lengthens a life by this share.
pub(super) const JITTER: f64 = 0.1;

/// One broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) promise: &'static str,
    pub(crate) at_us: u64,
    pub(crate) what: String,
}

/// All violations, and all counts.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) violations: Vec<Violation>,
    /// Runs within another's TTL that a fault or purge explains: by that fault.
    pub(crate) extra_runs: BTreeMap<Fault, u64>,
    /// Answers older than a purge, hidden by a fault: by that fault.
    pub(crate) late_hearings: BTreeMap<Fault, u64>,
    /// Behind kills that I7 judges: the longest answer of each, µs.
    pub(crate) next_values_us: Vec<u64>,
    /// How many things each promise was judged by, that could have broken it.
    pub(crate) judged: BTreeMap<&'static str, u64>,
    /// When the first fault began. Counts start then.
    pub(super) from_us: u64,
}

/// All that is judged, in the order of the report.
pub(crate) const PROMISES: [&str; 10] =
    ["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "deadline", "answered"];

impl Judgement {
    pub(super) fn broken(&mut self, promise: &'static str, at_us: u64, what: String) {
        self.violations.push(Violation { promise, at_us, what });
    }

    pub(super) fn counts(&mut self, promise: &'static str, at_us: u64) {
        if at_us >= self.from_us {
            *self.judged.entry(promise).or_default() += 1;
        }
    }

    /// Promises that this history could not have shown broken.
    pub(crate) fn unjudged(&self) -> Vec<&'static str> {
        PROMISES.into_iter().filter(|promise| !self.judged.contains_key(promise)).collect()
    }
}

pub(super) fn name_of(node: usize) -> String {
    format!("node-{node}")
}

/// Faults that can be felt in a span of time, with their places.
pub(super) fn near(
    history: &History,
    from_us: u64,
    to_us: u64,
) -> impl Iterator<Item = (usize, &FaultRecord)> {
    let felt = move |fault: &FaultRecord| fault.began_us <= to_us && fault.ended_us + AFTER_US >= from_us;
    history.faults.iter().enumerate().filter(move |(_, fault)| felt(fault))
}

/// Nodes that `Cache-Status` names: its members' first words.
pub(super) fn chain(request: &RequestRecord) -> Vec<&str> {
    let members = request.cache_status.split(", ").filter(|member| !member.is_empty());
    members.map(|member| member.split(';').next().unwrap_or_default().trim()).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "times far below 2^53 µs"
)]
pub(super) fn scaled(us: u64, by: f64) -> u64 {
    (us as f64 * by) as u64
}
