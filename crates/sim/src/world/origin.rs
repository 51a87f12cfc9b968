//! A simulated origin with a version of its data. Every run takes some time. A run returns the version at its begin,
//! the principal and the query, so an answer shows its age and its owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use hopcache_core::bookmark::Bookmark;
use hopcache_core::key::PrincipalScope;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use hopcache_engine::ports::{AccessMode, Neo4jFailure, OriginError, OriginFault, OriginRun};
use hopcache_packstream::{Value, Writer};
use parking_lot::Mutex;

mod behavior;
mod capture;
mod faults;
mod labels;
mod port;
mod queue;
mod results;
mod transactions;
mod writes;

use self::faults::failed;
pub(crate) use self::faults::seeded_panic;
use self::labels::BothQuestions;

use behavior::Fate;
pub use behavior::{DegreeBehavior, OriginBehavior, Trouble};
use capture::Captured;
pub use port::OriginPort;
pub use queue::{NodeQueue, WAITING_PER_SLOT};
pub use results::{BIG_BYTES, report_in};
use transactions::Transactions;
pub use transactions::{DATABASE, bookmark};
pub use writes::WriteFate;

use crate::check::record::{Life, Record, What};
use crate::world::clock::sim_now;
use crate::world::dice::SimDice;
use crate::world::subject::{Subject, ask_of_trace};

/// The graph database of a simulated cluster.
pub struct ScriptedOrigin {
    state: Mutex<State>,
    record: Arc<Record>,
    dice: SimDice,
}

struct State {
    version: i64,
    delay_ms: u64,
    word_delay_ms: u64,
    word_ahead: Option<(u64, OriginFault)>,
    slow: Option<(String, u64)>,
    behavior: OriginBehavior,
    trouble: Trouble,
    runs: Vec<OriginRunView>,
    kinds: u64,
    under_way: usize,
    slots: Option<usize>,
    line_slots: Option<usize>,
    has_spare: bool,
    degree: DegreeBehavior,
    degrees_asked: Vec<OriginRunView>,
    transactions: Transactions,
    captured: Captured,
    /// From which versions on a node has both labels of tagged worlds, or none has.
    both: BTreeMap<i64, bool>,
    both_questions: BothQuestions,
    write_fate: WriteFate,
    is_away: bool,
    is_late: bool,
    cut_off: Option<usize>,
}

impl State {
    /// Whether some node had both labels at this version.
    fn has_both(&self, version: i64) -> bool {
        self.both.range(..=version).next_back().is_some_and(|(_, is_both)| *is_both)
    }

    /// How what this node sends ends.
    fn behavior_for(&self, by: Life) -> OriginBehavior {
        if self.cut_off == Some(by.node) {
            return OriginBehavior::Fault(OriginFault::Unreachable("cut off".to_owned()));
        }
        self.behavior.clone()
    }
}

/// A run as the origin saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginRunView {
    /// The query of the run.
    pub statement: String,
    /// The principal of the run.
    pub scope: PrincipalScope,
    /// Its access mode.
    pub mode: AccessMode,
    /// Whether an adapter may send it again.
    pub may_be_repeated: bool,
    /// When it began.
    pub began: MonoTime,
    /// The bookmarks that it carried.
    pub carried: Bookmark,
}

impl Default for ScriptedOrigin {
    fn default() -> Self {
        Self::new(Arc::default(), 0)
    }
}

impl ScriptedOrigin {
    /// An origin at version 1, which records its runs.
    #[must_use]
    pub fn new(record: Arc<Record>, seed: u64) -> Self {
        let state = State {
            version: 1,
            delay_ms: 100,
            word_delay_ms: 0,
            word_ahead: None,
            slow: None,
            behavior: OriginBehavior::Well,
            trouble: Trouble::default(),
            runs: Vec::new(),
            kinds: 0,
            under_way: 0,
            slots: None,
            line_slots: None,
            has_spare: true,
            degree: DegreeBehavior::NoNode,
            degrees_asked: Vec::new(),
            transactions: Transactions::default(),
            captured: Captured::default(),
            both: BTreeMap::new(),
            both_questions: BothQuestions::default(),
            write_fate: WriteFate::Well,
            is_away: false,
            is_late: false,
            cut_off: None,
        };
        Self { state: Mutex::new(state), record, dice: SimDice::new(seed) }
    }

    /// Sets the behavior of later runs.
    pub fn set_version(&self, version: i64) {
        self.state.lock().version = version;
    }

    /// It tells transactions from now on: each version has the number of one. A run that carries no bookmark may miss the
    /// last `lag` of them.
    pub fn tell_transactions(&self, lag: i64) {
        let mut state = self.state.lock();
        (state.transactions.tells, state.transactions.lag) = (true, lag);
    }

    /// How long the server takes to classify a statement.
    pub fn set_word_delay_ms(&self, delay_ms: u64) {
        self.state.lock().word_delay_ms = delay_ms;
    }

    /// The fault for a prefetch that asks for the classification, after this delay or when the prefetch's own time is
    /// over.
    pub fn set_word_ahead(&self, delay_ms: u64, fault: OriginFault) {
        self.state.lock().word_ahead = Some((delay_ms, fault));
    }

    /// How long runs take.
    pub fn set_delay_ms(&self, delay_ms: u64) {
        self.state.lock().delay_ms = delay_ms;
    }

    /// How long runs of statements take that contain `part`.
    pub fn set_slow(&self, part: &str, delay_ms: u64) {
        self.state.lock().slow = Some((part.to_owned(), delay_ms));
    }

    /// How runs end.
    pub fn set_behavior(&self, behavior: OriginBehavior) {
        self.record.note(What::OriginIs { behavior: format!("{behavior:?}") });
        self.state.lock().behavior = behavior;
    }

    /// Whether nodes know that it is away. It answers all the same.
    pub fn set_away(&self, is_away: bool) {
        let before = std::mem::replace(&mut self.state.lock().is_away, is_away);
        if before != is_away {
            self.record.note(What::OriginAway { is_away });
        }
    }

    /// Whether it is late with its answers to probes, which have not failed.
    pub fn set_late(&self, is_late: bool) {
        self.state.lock().is_late = is_late;
    }

    /// This node alone cannot reach it, and knows that.
    pub fn cut_off(&self, node: Option<usize>) {
        self.state.lock().cut_off = node;
    }

    /// Sets the fates of single runs.
    pub fn set_trouble(&self, trouble: Trouble) {
        self.state.lock().trouble = trouble;
    }

    /// Runs begun so far.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.state.lock().runs.len()
    }

    /// Every run so far.
    #[must_use]
    pub fn runs_seen(&self) -> Vec<OriginRunView> {
        self.state.lock().runs.clone()
    }

    /// How often a node asked for the kind of a statement.
    #[must_use]
    pub fn kinds(&self) -> u64 {
        self.state.lock().kinds
    }

    /// Sets the answers about degrees.
    pub fn set_degree(&self, degree: DegreeBehavior) {
        self.state.lock().degree = degree;
    }

    /// Whether anything is left over for runs that no client waits for.
    pub fn set_spare(&self, has_spare: bool) {
        self.state.lock().has_spare = has_spare;
    }

    /// How many runs the origin takes at a time, as its ports report it.
    pub fn set_slots(&self, slots: usize) {
        self.state.lock().slots = Some(slots);
    }

    /// From now on each new node has so many slots at most, and a line before them.
    pub fn set_line(&self, slots_max: usize) {
        self.state.lock().line_slots = Some(slots_max);
    }

    /// A new node's line, if nodes have one.
    pub(crate) fn line(&self) -> Option<Arc<NodeQueue>> {
        self.state.lock().line_slots.map(|slots_max| Arc::new(NodeQueue::of(slots_max)))
    }

    /// Every question for a degree so far.
    #[must_use]
    pub fn degrees_asked(&self) -> Vec<OriginRunView> {
        self.state.lock().degrees_asked.clone()
    }

    async fn tell_degree(&self, run: &OriginRun) -> Result<ResultSet, OriginError> {
        let degree = {
            let mut state = self.state.lock();
            state.under_way += 1;
            state.degrees_asked.push(seen(run, Bookmark::NONE));
            state.degree
        };
        let _under_way = UnderWay(self);
        let mut record = Writer::new();
        let rows = match degree {
            DegreeBehavior::Panic => seeded_panic(),
            DegreeBehavior::NoNode => 0,
            DegreeBehavior::Says(number, took_ms) => {
                tokio::time::sleep(Millis(took_ms.min(run.timeout_ms.0)).duration()).await;
                if took_ms > run.timeout_ms.0 {
                    return Err(OriginError::of_sent(OriginFault::TimedOut));
                }
                record.list(1);
                record.int(number);
                1
            }
        };
        Ok(ResultSet {
            fields: vec!["degree".to_owned()],
            records: record.into_bytes().into(),
            rows,
            kind: Some(StatementKind::Read),
            summary: Value::Map(Vec::new()),
            bookmark: None,
            range: None,
            marked: None,
        })
    }

    /// Runs under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.state.lock().under_way
    }

    fn begin(&self, by: Life, run: &OriginRun) -> Fate {
        let mut state = self.state.lock();
        let newest = u64::try_from(state.version).unwrap_or(0);
        let carried = state.transactions.carried(by, run, newest);
        let version = state.transactions.visible(state.version, &carried);
        state.runs.push(seen(run, carried.clone()));
        state.under_way += 1;
        let number = u32::try_from(state.runs.len()).unwrap_or(u32::MAX);
        let behavior = match version {
            Some(_) => self.behavior_of(&state, (by, run)),
            None => OriginBehavior::Fault(bookmark_timeout()),
        };
        if let OriginBehavior::Panic(left) = &mut state.behavior {
            *left -= 1;
            if *left == 0 {
                state.behavior = OriginBehavior::Well;
            }
        }
        let stalls = self.dice.chance(state.trouble.stall);
        if stalls {
            self.record.cover("run stalled");
        }
        let stall_ms = if stalls { self.dice.between(500, 4_000) } else { 0 };
        let spread_ms = state.trouble.spread_ms;
        let slow = state.slow.as_ref().filter(|(part, _)| run.statement.contains(part.as_str()));
        let usual_ms = slow.map_or(state.delay_ms, |(_, delay_ms)| *delay_ms);
        let delay_ms = usual_ms + stall_ms + if spread_ms > 0 { self.dice.below(spread_ms) } else { 0 };
        let (version, restored) = (version.unwrap_or(state.version), state.transactions.restored);
        let fate = Fate { run: number, version, delay_ms, behavior, carried, restored };
        drop(state);
        let subject = Subject::of_run(run).map(Subject::place);
        let ask = run.traceparent.as_deref().and_then(ask_of_trace);
        let is_ahead = run.class == RunClass::Prefetch;
        self.record.note(What::RunBegan { run: number, by, subject, ask, is_ahead });
        fate
    }

    fn with_range(&self, by: Life, result: ResultSet, carried: Bookmark) -> ResultSet {
        let mut state = self.state.lock();
        let version = state.version;
        state.transactions.saw(by, version);
        let (bookmark, range) = state.transactions.end(version, carried);
        ResultSet { bookmark, range, ..result }
    }

    fn behavior_of(&self, state: &State, (by, run): (Life, &OriginRun)) -> OriginBehavior {
        let behavior = state.behavior_for(by);
        if behavior != OriginBehavior::Well {
            return behavior;
        }
        if run.statement.contains("FAILS") || run.statement.contains("BROKEN") {
            return OriginBehavior::Fault(OriginFault::Failed(said_of(run)));
        }
        if run.statement.contains("HUGE") {
            return OriginBehavior::Fault(OriginFault::TooLarge { limit_bytes: run.bytes_max });
        }
        if run.statement.contains("DRIFTS") {
            return OriginBehavior::Update;
        }
        let Trouble { cut, transient, panic, refusal, type_error, .. } = state.trouble;
        if run.class == RunClass::Prefetch && self.dice.chance(type_error) {
            self.record.cover("run of wrong type");
            let code = "Neo.ClientError.Statement.TypeError".to_owned();
            return OriginBehavior::Fault(OriginFault::Failed(Neo4jFailure { code, ..said_of(run) }));
        }
        if self.dice.chance(cut) {
            OriginBehavior::Fault(OriginFault::Cut("seeded: in mid-stream".to_owned()))
        } else if self.dice.chance(transient) {
            let code = "Neo.TransientError.General.MemoryPoolOutOfMemoryError".to_owned();
            OriginBehavior::Fault(OriginFault::Transient(Neo4jFailure {
                code,
                message: "seeded".to_owned(),
                as_sent: Vec::new(),
            }))
        } else if self.dice.chance(panic) {
            OriginBehavior::Panic(1)
        } else if self.dice.chance(refusal) {
            let refused = [OriginFault::Overloaded, OriginFault::TooManyRuns, refused_login()];
            OriginBehavior::Fault(refused[self.dice.index(refused.len())].clone())
        } else {
            OriginBehavior::Well
        }
    }
}

fn seen(run: &OriginRun, carried: Bookmark) -> OriginRunView {
    OriginRunView {
        statement: run.statement.to_string(),
        scope: run.identity.scope,
        mode: run.mode,
        may_be_repeated: run.may_be_repeated,
        began: sim_now(),
        carried,
    }
}

fn bookmark_timeout() -> OriginFault {
    let code = "Neo.TransientError.Transaction.BookmarkTimeout".to_owned();
    OriginFault::Transient(Neo4jFailure {
        code,
        message: "the database is behind the bookmark".to_owned(),
        as_sent: Vec::new(),
    })
}

fn refused_login() -> OriginFault {
    let code = "Neo.ClientError.Security.Unauthorized".to_owned();
    OriginFault::Unauthorized(Neo4jFailure { code, message: "seeded".to_owned(), as_sent: Vec::new() })
}

/// The failure of a statement that fails. It names its principal, so that a checker can see whose it is (I5).
fn said_of(run: &OriginRun) -> Neo4jFailure {
    let place = Subject::of_run(run).map_or(usize::MAX, Subject::place);
    Neo4jFailure {
        code: "Neo.ClientError.Statement.ArithmeticError".to_owned(),
        message: format!("subject={place};"),
        as_sent: Vec::new(),
    }
}

/// Records the end of a run, also if the caller is gone.
struct UnderWay<'a>(&'a ScriptedOrigin);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state.lock().under_way -= 1;
    }
}
