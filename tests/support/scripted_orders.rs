//! A test's orders for the runs of a scripted Neo4j: hold them, fail them, cut their connections. Also lists the runs
//! that came. It does not decide their rows.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

/// The fate of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is answered.
    Answer,
    /// It fails with this code.
    Fail(&'static str),
    /// Its connection is closed in place of an answer.
    Cut,
}

/// A run that came, EXPLAINs apart.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// Place among all that came.
    pub place: usize,
    pub statement: String,
    /// When it was answered, or its connection cut.
    pub ended: Option<Instant>,
    pub fate: Fate,
    /// The client's `tx_timeout`.
    pub timeout_ms: Option<i64>,
}

#[derive(Debug)]
struct Due {
    part: String,
    fate: Fate,
    left: usize,
}

#[derive(Default)]
struct State {
    came: Vec<Arrived>,
    due: Vec<Due>,
    version: u64,
}

/// Orders of a test, and the list of runs.
#[derive(Default)]
pub struct Orders {
    state: Mutex<State>,
    /// Parts of statements whose runs are held.
    held: watch::Sender<Vec<String>>,
}

impl Orders {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds runs whose text contains `part` until they are released.
    pub fn hold(&self, part: &str) {
        self.held.send_modify(|held| held.push(part.to_owned()));
    }

    /// Releases all held runs.
    pub fn release(&self) {
        self.held.send_modify(Vec::clear);
    }

    /// The next `times` runs whose text contains `part` have this fate.
    pub fn doom(&self, part: &str, fate: Fate, times: usize) {
        self.state().due.push(Due { part: part.to_owned(), fate, left: times });
    }

    /// Sets the version that statements with `VERSION` return from now on.
    pub fn set_version(&self, version: u64) {
        self.state().version = version;
    }

    pub fn version(&self) -> String {
        self.state().version.to_string()
    }

    /// The runs whose text contains `part`.
    pub fn came(&self, part: &str) -> Vec<Arrived> {
        self.state().came.iter().filter(|run| run.statement.contains(part)).cloned().collect()
    }

    /// How many of them.
    pub fn count(&self, part: &str) -> usize {
        self.state().came.iter().filter(|run| run.statement.contains(part)).count()
    }

    pub(super) fn arrived(&self, statement: &str, timeout_ms: Option<i64>) -> Arrived {
        let mut state = self.state();
        let fate = state.fate_of(statement);
        let arrived = Arrived {
            place: state.came.len(),
            statement: statement.to_owned(),
            ended: None,
            fate,
            timeout_ms,
        };
        state.came.push(arrived.clone());
        arrived
    }

    pub(super) async fn release_of(&self, run: &Arrived) {
        let is_free = |held: &Vec<String>| !held.iter().any(|part| run.statement.contains(part));
        let _ = self.held.subscribe().wait_for(is_free).await;
    }

    pub(super) fn ended(&self, run: &Arrived) {
        self.state().came[run.place].ended = Some(Instant::now());
    }
}

impl State {
    fn fate_of(&mut self, statement: &str) -> Fate {
        let due = self.due.iter_mut().find(|due| due.left > 0 && statement.contains(&due.part));
        due.map_or(Fate::Answer, |due| {
            due.left -= 1;
            due.fate.clone()
        })
    }
}
