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
    pub user: String,
    pub at: Instant,
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
    /// Users whose every run is refused for lack of rights.
    powerless: Vec<String>,
    half: Option<u64>,
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

    /// From now on half of the runs, drawn from this seed, fail with a transient error or are cut.
    pub fn fail_half(&self, seed: u64) {
        self.state().half = Some(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    }

    /// This user's runs are refused for want of rights.
    pub fn take_rights(&self, user: &str) {
        self.state().powerless.push(user.to_owned());
    }

    /// No run fails any more.
    pub fn heal(&self) {
        let mut state = self.state();
        state.due.clear();
        state.powerless.clear();
        state.half = None;
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

    /// Most runs that were under way at a time, of those that came at or after `since`.
    pub fn most_at_a_time(&self, since: Instant) -> usize {
        let state = self.state();
        let runs: Vec<_> = state.came.iter().filter(|run| run.at >= since).collect();
        let under_way = |at: Instant| {
            runs.iter().filter(|run| run.at <= at && run.ended.is_none_or(|ended| ended > at)).count()
        };
        runs.iter().map(|run| under_way(run.at)).max().unwrap_or(0)
    }

    pub(super) fn arrived(&self, statement: &str, user: &str, timeout_ms: Option<i64>) -> Arrived {
        let mut state = self.state();
        let fate = state.fate_of(statement, user);
        let arrived = Arrived {
            place: state.came.len(),
            statement: statement.to_owned(),
            user: user.to_owned(),
            at: Instant::now(),
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
    fn fate_of(&mut self, statement: &str, user: &str) -> Fate {
        if self.powerless.iter().any(|other| other == user) {
            return Fate::Fail("Neo.ClientError.Security.Forbidden");
        }
        if let Some(due) = self.due.iter_mut().find(|due| due.left > 0 && statement.contains(&due.part)) {
            due.left -= 1;
            return due.fate.clone();
        }
        match self.draw() {
            Some(0) => Fate::Cut,
            Some(1) => Fate::Fail("Neo.TransientError.General.DatabaseUnavailable"),
            _ => Fate::Answer,
        }
    }

    /// One of 0 to 3 (xorshift64*).
    fn draw(&mut self) -> Option<u64> {
        let half = self.half.as_mut()?;
        *half ^= *half >> 12;
        *half ^= *half << 25;
        *half ^= *half >> 27;
        Some(half.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 62)
    }
}
