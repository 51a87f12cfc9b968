//! What a wrong answer is: a violation, or one of the cases that the contract leaves out (docs/known-limits.md,
//! docs/operating/freshness.md "Writes", `crates/sim/src/check/writes.rs`):
//!
//! - It is marked `stale-if-error`: Neo4j failed, or was silent for longer than a probe waits (a very busy machine).
//! - Its node, or the owner that answered, was out of touch a moment before: killed, stopped, or cut off from peers or Redis.
//!   Such a node serves by age.
//! - The write that it misses could not be told to the store, or the store lost its list of those who listen, within a lease.
//! - Neo4j itself showed a transaction in part. It isolates at "read committed": a statement that runs beside a commit may see some
//!   of its changes and not others (`isolation` shows this at Neo4j alone). Such an answer is of no version. It is excused only if
//!   it is of a run of this very request, which it did not join, a write of its cell was under way meanwhile, and each row is of
//!   one of these versions, or an aggregate. Their number has a bound ([`torn_max`]).
//!
//! An answer that is marked `proved` has no excuse, and neither has a hit that is of no version at all. Neither has what a
//! transaction has read that then wrote and committed (I14), but for what Neo4j itself showed in part.

use std::collections::BTreeMap;
use std::time::Duration;

use super::replay::Wrong;

/// What a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Killed,
    Stopped,
    CutFromPeers,
    CutFromStore,
    CutFromNeo4j,
    /// Redis was emptied, or has the content of before.
    StoreLost,
}

/// One fault.
#[derive(Debug, Clone)]
pub struct Fault {
    pub kind: Kind,
    /// The nodes that it hits; all, where it is the store's.
    pub nodes: Vec<usize>,
    pub from: Duration,
    pub to: Duration,
}

/// `freshness.lease`.
const LEASE: Duration = Duration::from_millis(500);
/// Until a node has looked at the store again: a command, and half a lease, as in the simulator, with another second for a
/// busy machine.
const LOOK: Duration = Duration::from_millis(2_500);

/// What became of a wrong answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    MarkedStale,
    OutOfTouch,
    NotTold,
    Torn,
    Violation,
}

/// Torn runs that are no surprise among this many reads. Of a million reads of 64 clients 2 were torn.
pub const fn torn_max(reads: usize) -> usize {
    1 + reads / 100_000
}

impl Fault {
    fn overlaps(&self, from: Duration, to: Duration) -> bool {
        self.from <= to && from <= self.to
    }

    fn hits(&self, node: usize) -> bool {
        self.kind == Kind::StoreLost || self.nodes.contains(&node)
    }
}

pub fn of(wrong: &Wrong, faults: &[Fault]) -> Verdict {
    let answer = &wrong.answer;
    if answer.is_proved() || (answer.is_relied_on && !is_torn(wrong)) {
        return Verdict::Violation;
    }
    // It may be of an earlier round.
    if answer.is_marked_stale() {
        return Verdict::MarkedStale;
    }
    let Some(found) = wrong.is_of else {
        return if is_torn(wrong) { Verdict::Torn } else { Verdict::Violation };
    };
    let mut nodes = nodes_in(&answer.status);
    nodes.push(answer.node);
    let asked = answer.asked.saturating_sub(LOOK);
    let is_out_of_touch = |fault: &Fault| {
        fault.kind != Kind::CutFromNeo4j
            && fault.overlaps(asked, answer.answered)
            && nodes.iter().any(|node| fault.hits(*node))
    };
    if faults.iter().any(is_out_of_touch) {
        return Verdict::OutOfTouch;
    }
    let missed = &wrong.steps[found..answer.lo.max(found)];
    let is_not_told = |fault: &Fault| {
        let is_store = matches!(fault.kind, Kind::StoreLost | Kind::CutFromStore);
        let at = |step: &&super::history::Step| {
            fault.hits(step.node) && fault.overlaps(step.began.saturating_sub(LEASE), step.ended)
        };
        is_store && missed.iter().any(|step| at(&step))
    };
    if faults.iter().any(is_not_told) { Verdict::NotTold } else { Verdict::Violation }
}

/// Whether Neo4j may have shown this answer, which is of no version, to a run beside a write.
fn is_torn(wrong: &Wrong) -> bool {
    let answer = &wrong.answer;
    let has = |word: &str| answer.status.contains(word);
    let is_of_own_run = has("; fwd=") && !has("; hit") && !has("collapsed");
    // Each of Neo4j's answers holds from its version to the next one's.
    let first = wrong.expected.iter().rposition(|(version, _)| *version <= answer.lo).unwrap_or(0);
    let versions = wrong.expected[first..].iter().take_while(|(version, _)| *version <= answer.hi);
    let known: Vec<&str> = versions.flat_map(|(_, rows)| rows.lines()).collect();
    let rows: Vec<&str> = answer.rows.lines().collect();
    let is_aggregate = ["count(", "sum(", "min(", "max(", "collect("]
        .iter()
        .any(|function| answer.read.text.statement.contains(function));
    let are_known = is_aggregate || rows.iter().all(|row| known.contains(row));
    is_of_own_run && answer.lo < answer.hi && are_known
}

/// The places of the nodes in `Cache-Status`.
fn nodes_in(status: &str) -> Vec<usize> {
    let names =
        status.split(", ").filter_map(|member| member.split(';').next()?.trim().strip_prefix("node-"));
    names.filter_map(|name| Some(usize::from(*name.as_bytes().first()? - b'a'))).collect()
}

/// Everything of one wrong answer, for people.
pub fn story(wrong: &Wrong, verdict: Verdict, faults: &[Fault]) -> String {
    let Wrong { answer, is_of, expected, steps } = wrong;
    let mut text = format!(
        "--- {verdict:?}: {} to node {} from {:?} to {:?}\nshape {} of cell {}: {} {}\nlo {} hi {}, the answer is of {is_of:?}\nCache-Status: {}\nanswer: {:?}\n",
        answer.front,
        answer.node,
        answer.asked,
        answer.answered,
        answer.read.shape,
        answer.cell,
        answer.read.text.statement,
        answer.read.text.parameters,
        answer.lo,
        answer.hi,
        answer.status,
        answer.rows
    );
    if is_of.is_some_and(|of| of >= answer.lo) {
        text +=
            "Neo4j's own answers to this read differ from one replay to the next: a fault of the oracle\n";
    }
    let first = is_of.unwrap_or(answer.lo).min(answer.lo);
    for (version, rows) in
        expected.iter().filter(|(version, _)| (first.saturating_sub(1)..=answer.hi + 1).contains(version))
    {
        text += &format!("expected from version {version}: {rows:?}\n");
    }
    for (place, step) in steps.iter().enumerate().take(answer.hi).skip(first) {
        let what: Vec<_> = step.statements.iter().map(|text| (&text.statement, &text.parameters)).collect();
        text += &format!(
            "version {} by node {} from {:?} to {:?}: {}\n    as {what:?}\n",
            place + 1,
            step.node,
            step.began,
            step.ended,
            step.story
        );
    }
    for fault in
        faults.iter().filter(|fault| fault.overlaps(answer.asked.saturating_sub(LOOK * 4), answer.answered))
    {
        text += &format!("fault {fault:?}\n");
    }
    text
}

/// Counts of a run.
#[derive(Debug, Default)]
pub struct Account {
    pub reads: usize,
    pub hits: usize,
    pub proved: usize,
    pub marked_stale: usize,
    pub bypassed: usize,
    /// Reads of transactions that have written and committed; of these, those from the cache.
    pub relied_on: usize,
    pub relied_on_hits: usize,
    pub writes: usize,
    pub rolled_back: usize,
    pub unacknowledged: usize,
    pub errors: usize,
    pub evaluated: usize,
    pub versions: usize,
    /// Answers that may be of a version whose write failed without a mark.
    pub unjudged: usize,
    /// Wrong answers.
    pub wrong: BTreeMap<Verdict, usize>,
    pub faults: BTreeMap<Kind, usize>,
    /// Of the violations, those that were marked proved, and those that a committed transaction had read.
    pub wrong_proved: usize,
    pub wrong_relied_on: usize,
}

impl Account {
    pub fn torn(&self) -> usize {
        self.wrong.get(&Verdict::Torn).copied().unwrap_or(0)
    }

    pub fn violations(&self) -> usize {
        self.wrong.get(&Verdict::Violation).copied().unwrap_or(0)
    }
}

impl std::fmt::Display for Account {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |verdict| self.wrong.get(&verdict).copied().unwrap_or(0);
        write!(
            out,
            "{} reads ({} hits, {} proved, {} marked stale, {} bypassed; {} read by transactions that wrote and committed, {} of these hits), {} writes ({} rolled back, {} unacknowledged), {} errors, {} answers not judged; {} versions, {} evaluations; old and excused: {} marked, {} out of touch, {} not told; {} shown in part by Neo4j; violations {} ({} of them proved, {} read by a committed transaction)",
            self.reads,
            self.hits,
            self.proved,
            self.marked_stale,
            self.bypassed,
            self.relied_on,
            self.relied_on_hits,
            self.writes,
            self.rolled_back,
            self.unacknowledged,
            self.errors,
            self.unjudged,
            self.versions,
            self.evaluated,
            of(Verdict::MarkedStale),
            of(Verdict::OutOfTouch),
            of(Verdict::NotTold),
            self.torn(),
            self.violations(),
            self.wrong_proved,
            self.wrong_relied_on
        )
    }
}

#[test]
fn what_a_committed_transaction_has_read_has_no_excuse() {
    use super::history::{Answer, Step};
    let read = super::reads::draw(&mut crate::support::dice::Dice::new(1), ("T", 3), 0, true);
    let (asked, answered) = (Duration::from_secs(9), Duration::from_secs(9));
    let step = Step { statements: vec![], story: String::new(), node: 0, began: asked, ended: asked };
    let answer = |status: &str, is_relied_on| Answer {
        cell: 0,
        read: read.clone(),
        lo: 1,
        hi: 1,
        node: 0,
        front: "bolt transaction",
        asked,
        answered,
        status: status.to_owned(),
        rows: "1".to_owned(),
        is_relied_on,
    };
    let cut = Fault { kind: Kind::CutFromPeers, nodes: vec![0], from: asked, to: answered };
    for (status, excuse) in
        [("node-a; hit; detail=stale-if-error", Verdict::MarkedStale), ("node-a; hit", Verdict::OutOfTouch)]
    {
        for (is_relied_on, expected) in [(false, excuse), (true, Verdict::Violation)] {
            let (expected_rows, steps) = (vec![(0, "1".to_owned()), (1, "2".to_owned())], vec![step.clone()]);
            let wrong = Wrong {
                answer: answer(status, is_relied_on),
                is_of: Some(0),
                expected: expected_rows,
                steps,
            };
            assert_eq!(
                of(&wrong, std::slice::from_ref(&cut)),
                expected,
                "{status}, relied on: {is_relied_on}"
            );
        }
    }
}
