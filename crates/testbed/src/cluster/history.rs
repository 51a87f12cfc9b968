//! The history of a run, for a later judgement: every request, every origin run, every purge, every fault. This module
//! records and decides nothing. Times are microseconds from the history's beginning.

use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::fault::Fault;

/// One request of a client, from its intended time to the end of its answer.
#[derive(Debug, Clone, Serialize)]
pub struct RequestRecord {
    /// Place of the node that was asked.
    pub node: usize,
    /// The principal of the request.
    pub user: String,
    /// Of the register, or the id of a write.
    pub key: i64,
    /// Whether it writes.
    pub is_write: bool,
    /// Intended time.
    pub sent_us: u64,
    /// End of the answer.
    pub ended_us: u64,
    /// 0: the connection broke or could not be made.
    pub status: u16,
    /// `Cache-Status`, whole.
    pub cache_status: String,
    /// `Age`.
    pub age_s: Option<u64>,
    /// Of an answer with a row.
    pub row: Option<Row>,
    /// The body of an answer other than 202, or the reason why there is no answer.
    pub error: String,
    /// The connection had been kept and was closed before a byte of the answer: a read was asked again on a new
    /// one, a write was not.
    pub was_closed_idle: bool,
}

/// The report of an answer's row about the run that it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The principal of the run.
    pub who: String,
    /// Which register.
    pub key: i64,
    /// The register's version when the run began.
    pub version: u64,
    /// Number of the run.
    pub run: u64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Ending {
    /// All of its answer was written.
    Answered,
    /// The run ended with an error of the server.
    Failed,
    /// Its connection ended first.
    Broken,
}

/// One run at the origin.
#[derive(Debug, Clone, Serialize)]
pub struct RunRecord {
    /// In the order of beginnings.
    pub number: u64,
    /// Which register, or the id of a write.
    pub key: i64,
    /// The principal of the connection.
    pub user: String,
    /// The register's version when the run began.
    pub version: u64,
    /// Whether it writes.
    pub is_write: bool,
    /// Whether a client's request caused the run. Otherwise a node ran it of its own accord, for example as a prefetch.
    pub is_demand: bool,
    /// When the origin took it.
    pub began_us: u64,
    /// `None`: the run has not ended.
    pub ended_us: Option<u64>,
    /// `None`: the purge has not ended.
    pub ending: Option<Ending>,
}

impl RunRecord {
    /// A demanded run that begins.
    pub fn begin(number: u64, key: i64, user: &str, version: u64, is_write: bool) -> Self {
        Self {
            number,
            key,
            user: user.to_owned(),
            version,
            is_write,
            is_demand: true,
            began_us: 0,
            ended_us: None,
            ending: None,
        }
    }
}

/// One purge of a key, after its register moved.
#[derive(Debug, Clone, Serialize)]
pub struct PurgeRecord {
    /// Which register.
    pub key: i64,
    /// The entry's principal and key.
    pub user: String,
    /// The register's version after the purge.
    pub version: u64,
    /// Before the first of it was asked for.
    pub asked_us: u64,
    /// When it was answered.
    pub ended_us: u64,
    /// 200, and no node unreached.
    pub is_whole: bool,
}

/// One fault, from the moment before it to the moment after its end.
#[derive(Debug, Clone, Serialize)]
pub struct FaultRecord {
    /// The kind of the fault.
    pub fault: Fault,
    /// Nodes that it is about.
    pub nodes: Vec<usize>,
    /// Before it.
    pub began_us: u64,
    /// When the thing itself happened, such as the kill.
    pub struck_us: u64,
    /// After its end.
    pub ended_us: u64,
    /// The evidence that the fault happened.
    pub evidence: String,
}

/// All of it.
#[derive(Debug, Default, Clone)]
pub struct History {
    /// By intended time.
    pub requests: Vec<RequestRecord>,
    /// By number.
    pub runs: Vec<RunRecord>,
    /// By the time they were asked for.
    pub purges: Vec<PurgeRecord>,
    /// By beginning.
    pub faults: Vec<FaultRecord>,
}

/// Where it is kept while it happens.
pub struct Recorder {
    start: Instant,
    history: Mutex<History>,
}

impl Recorder {
    /// An empty history. Its time begins now.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now(), history: Mutex::default() }
    }

    /// Now.
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a request that has ended.
    pub fn request(&self, request: RequestRecord) {
        self.history().requests.push(request);
    }

    /// Keeps a purge that has ended.
    pub fn purge(&self, purge: PurgeRecord) {
        self.history().purges.push(purge);
    }

    /// Keeps a fault that has ended.
    pub fn fault(&self, fault: FaultRecord) {
        self.history().faults.push(fault);
    }

    /// Runs have numbers in the order in which they come, so a number is nearly an index.
    pub(super) fn run_began(&self, run: RunRecord) {
        let began_us = self.now_us();
        self.history().runs.push(RunRecord { began_us, ..run });
    }

    pub(super) fn run_ended(&self, number: u64, ending: Ending) {
        let now_us = self.now_us();
        let mut history = self.history();
        if let Some(run) = history.runs.iter_mut().rev().find(|run| run.number == number) {
            (run.ended_us, run.ending) = (Some(now_us), Some(ending));
        }
    }

    /// A copy of the history so far. Each list is sorted by beginnings.
    pub fn so_far(&self) -> History {
        let mut history = self.history().clone();
        history.requests.sort_by_key(|request| request.sent_us);
        history.runs.sort_by_key(|run| run.number);
        history.purges.sort_by_key(|purged| purged.asked_us);
        history.faults.sort_by_key(|fault| fault.began_us);
        history
    }
}

impl History {
    /// As JSON lines, one object for each thing, under its kind.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        let mut lines =
            |kind: &str, values: Vec<serde_json::Result<serde_json::Value>>| -> anyhow::Result<()> {
                for value in values {
                    writeln!(file, "{}", serde_json::json!({ kind: value? }))?;
                }
                Ok(())
            };
        lines("request", self.requests.iter().map(serde_json::to_value).collect())?;
        lines("run", self.runs.iter().map(serde_json::to_value).collect())?;
        lines("purge", self.purges.iter().map(serde_json::to_value).collect())?;
        lines("fault", self.faults.iter().map(serde_json::to_value).collect())?;
        Ok(file.flush()?)
    }
}
