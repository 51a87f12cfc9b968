//! What happened, to be judged afterwards: every request, every origin run, every purge, every fault. It
//! records and decides nothing. Times are microseconds from the history's beginning.

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::fault::Fault;

/// One request of a client, from its intended time to the end of its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) node: usize,
    pub(crate) user: String,
    pub(crate) key: i64,
    pub(crate) is_write: bool,
    pub(crate) sent_us: u64,
    pub(crate) ended_us: u64,
    /// 0: the connection broke or could not be made.
    pub(crate) status: u16,
    /// `Cache-Status`, whole.
    pub(crate) told: String,
    pub(crate) age_s: Option<u64>,
    /// Of an answer with a row.
    pub(crate) row: Option<Row>,
    /// The body of one that is no 202, or why there is none.
    pub(crate) error: String,
    /// The connection had been kept and was closed before a byte of the answer: a read was asked again on a new
    /// one, a write was not.
    #[serde(default)]
    pub(crate) was_closed_idle: bool,
}

/// What a row says of the run that it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) who: String,
    pub(crate) key: i64,
    pub(crate) version: u64,
    pub(crate) run: u64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// All of its answer was written.
    Answered,
    /// With an error that the server said.
    Failed,
    /// Its connection ended first.
    Broken,
}

/// One run at the origin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunSeen {
    pub(crate) number: u64,
    pub(crate) key: i64,
    pub(crate) user: String,
    pub(crate) version: u64,
    pub(crate) is_write: bool,
    pub(crate) began_us: u64,
    pub(crate) ended_us: Option<u64>,
    pub(crate) ending: Option<Ending>,
}

impl RunSeen {
    pub(crate) fn begin(number: u64, key: i64, user: &str, version: u64, is_write: bool) -> Self {
        Self {
            number,
            key,
            user: user.to_owned(),
            version,
            is_write,
            began_us: 0,
            ended_us: None,
            ending: None,
        }
    }
}

/// One purge of a key, after its register moved.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Purged {
    pub(crate) key: i64,
    pub(crate) user: String,
    /// What the register holds since.
    pub(crate) version: u64,
    /// Before the first of it was asked for.
    pub(crate) asked_us: u64,
    /// When it was answered.
    pub(crate) ended_us: u64,
    /// 200, and no node unreached.
    pub(crate) is_whole: bool,
}

/// One fault, from the moment before it to the moment after its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FaultSeen {
    pub(crate) fault: Fault,
    /// Nodes that it is about.
    pub(crate) nodes: Vec<usize>,
    pub(crate) began_us: u64,
    /// When the thing itself happened, such as the kill.
    pub(crate) struck_us: u64,
    pub(crate) ended_us: u64,
    pub(crate) evidence: String,
}

/// All of it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Told {
    pub(crate) asked: Vec<Asked>,
    pub(crate) runs: Vec<RunSeen>,
    pub(crate) purges: Vec<Purged>,
    pub(crate) faults: Vec<FaultSeen>,
}

/// One line of a history that was written.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Request(Asked),
    Run(RunSeen),
    Purge(Purged),
    Fault(FaultSeen),
}

/// Where it is kept while it happens.
pub(crate) struct History {
    start: Instant,
    told: Mutex<Told>,
}

impl History {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), told: Mutex::default() }
    }

    pub(crate) fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn asked(&self, asked: Asked) {
        self.told().asked.push(asked);
    }

    pub(crate) fn purged(&self, purged: Purged) {
        self.told().purges.push(purged);
    }

    pub(crate) fn fault(&self, fault: FaultSeen) {
        self.told().faults.push(fault);
    }

    /// Runs are numbered as they come, so a number is nearly a place.
    pub(super) fn run_began(&self, run: RunSeen) {
        let began_us = self.now_us();
        self.told().runs.push(RunSeen { began_us, ..run });
    }

    pub(super) fn run_ended(&self, number: u64, ending: Ending) {
        let now_us = self.now_us();
        let mut told = self.told();
        if let Some(run) = told.runs.iter_mut().rev().find(|run| run.number == number) {
            (run.ended_us, run.ending) = (Some(now_us), Some(ending));
        }
    }

    /// A copy of what there is, each list in the order of its beginnings.
    pub(crate) fn so_far(&self) -> Told {
        let mut told = self.told().clone();
        told.asked.sort_by_key(|asked| asked.sent_us);
        told.runs.sort_by_key(|run| run.number);
        told.purges.sort_by_key(|purged| purged.asked_us);
        told.faults.sort_by_key(|fault| fault.began_us);
        told
    }
}

impl Told {
    /// What [`Told::write`] wrote.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let mut told = Self::default();
        for line in std::io::BufReader::new(std::fs::File::open(path)?).lines() {
            match serde_json::from_str(&line?)? {
                Line::Request(asked) => told.asked.push(asked),
                Line::Run(run) => told.runs.push(run),
                Line::Purge(purge) => told.purges.push(purge),
                Line::Fault(fault) => told.faults.push(fault),
            }
        }
        Ok(told)
    }

    /// As JSON lines, one object for each thing, under its kind.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
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
        lines("request", self.asked.iter().map(serde_json::to_value).collect())?;
        lines("run", self.runs.iter().map(serde_json::to_value).collect())?;
        lines("purge", self.purges.iter().map(serde_json::to_value).collect())?;
        lines("fault", self.faults.iter().map(serde_json::to_value).collect())?;
        Ok(file.flush()?)
    }
}
