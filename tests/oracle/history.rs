//! Cells: parts of the graph whose writes come one after the other, so that each has versions. Version 0 is the first graph,
//! version v the graph after v transactions. A reader notes `lo`, the versions that were acknowledged when it asked, and
//! `hi`, those that had begun when it was answered. Its answer is right if it is that of a version from `lo` to `hi`.
//!
//! A write whose answer never came was not acknowledged to anybody. It is like a write past Hopcache: entries from before it
//! may be served by age. So its cell is not written for a while, and its readers keep the `lo` of before.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::reads::Read;
use super::texts::Text;

/// Cells, each with [`NODES`] nodes at first.
pub const CELLS: usize = 100;
/// Nodes of a cell.
pub const NODES: usize = 20;

/// One transaction of a cell.
#[derive(Debug, Clone)]
pub struct Step {
    /// Empty: it has changed nothing.
    pub statements: Vec<Text>,
    /// The write's kind, front and node, for people.
    pub story: String,
    /// The node that it went to.
    pub node: usize,
    /// From its beginning to its end, since the run's beginning.
    pub began: Duration,
    pub ended: Duration,
}

/// What the cell's writer knows.
#[derive(Debug, Default)]
pub struct Log {
    pub steps: Vec<Step>,
    /// The version of the cell's mark in Neo4j.
    pub mark: i64,
    /// Nobody knows what came of this version's write, and the cell is not written any more in this round.
    pub unknown_from: Option<usize>,
    /// Until then an unacknowledged write is waited for.
    pub quiet_until: Option<Instant>,
}

/// The versions of a cell.
#[derive(Debug, Default)]
pub struct Cell {
    pub log: Mutex<Log>,
    pub begun: AtomicUsize,
    pub acknowledged: AtomicUsize,
}

impl Cell {
    pub fn lo(&self) -> usize {
        self.acknowledged.load(Ordering::SeqCst)
    }

    pub fn hi(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// So many further transactions may be seen from now on.
    pub fn begin(&self, steps: usize) {
        self.begun.fetch_add(steps, Ordering::SeqCst);
    }

    /// All that has begun has to be seen from now on.
    pub fn acknowledge(&self) {
        self.acknowledged.store(self.hi(), Ordering::SeqCst);
    }
}

/// One answer to a read.
#[derive(Debug, Clone)]
pub struct Answer {
    pub cell: usize,
    pub read: Read,
    pub lo: usize,
    pub hi: usize,
    pub node: usize,
    pub front: &'static str,
    /// Since the run's beginning.
    pub asked: Duration,
    pub answered: Duration,
    /// The text of `Cache-Status`.
    pub status: String,
    pub rows: String,
    /// Of a transaction that has written and committed: what it wrote may depend on this answer.
    pub is_relied_on: bool,
}

impl Answer {
    pub fn is_hit(&self) -> bool {
        self.status.contains("; hit")
    }

    pub fn is_proved(&self) -> bool {
        self.status.contains("; proved")
    }

    /// The origin failed, as the answer says: it may be old.
    pub fn is_marked_stale(&self) -> bool {
        self.status.contains("stale-if-error")
    }
}

/// Rows so that equal answers are equal texts: sorted unless their order counts, and so are lists in them, since `collect`,
/// `keys` and `labels` have no order.
pub fn canonical(rows: &[serde_json::Value], is_ordered: bool) -> String {
    let mut rows: Vec<String> = rows
        .iter()
        .map(|row| {
            let values = row.as_array().map(Vec::as_slice).unwrap_or_default();
            values.iter().map(canonical_value).collect::<Vec<_>>().join("|")
        })
        .collect();
    if !is_ordered {
        rows.sort_unstable();
    }
    rows.join("\n")
}

fn canonical_value(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Array(values) => {
            let mut texts: Vec<String> = values.iter().map(canonical_value).collect();
            texts.sort_unstable();
            format!("[{}]", texts.join(", "))
        }
        Value::Object(pairs) => {
            let mut texts: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{key}: {}", canonical_value(value))).collect();
            texts.sort_unstable();
            format!("{{{}}}", texts.join(", "))
        }
        Value::Number(number) if number.is_f64() => format!("{:.3}", number.as_f64().unwrap()),
        other => other.to_string(),
    }
}

#[test]
fn an_order_that_does_not_count_is_forgotten() {
    let rows = |text: &str| serde_json::from_str::<Vec<serde_json::Value>>(text).unwrap();
    let (one, other) = (rows(r#"[[1, ["b", "a"]], [0, []]]"#), rows(r#"[[0, []], [1, ["a", "b"]]]"#));
    assert_eq!(canonical(&one, false), canonical(&other, false));
    assert_ne!(canonical(&one, true), canonical(&other, true));
    assert_ne!(canonical(&rows("[[1]]"), false), canonical(&rows("[[1], [1]]"), false));
}
