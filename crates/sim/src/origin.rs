//! An origin with a version: every run takes its time and returns the version that stood when it
//! began, so a stale commit can be told from a fresh one.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::key::PrincipalScope;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{Neo4jFailure, Origin, OriginError, OriginFault, OriginRun};
use hopcache_packstream::{Value, Writer};
use parking_lot::Mutex;

use crate::switch::Switch;
use crate::world::sim_now;

/// The graph database of a simulated cluster.
pub struct ScriptedOrigin {
    state: Mutex<State>,
}

struct State {
    version: i64,
    delay_ms: u64,
    mood: Mood,
    runs: Vec<RunSeen>,
    kinds: u64,
}

/// A run as the origin saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSeen {
    /// What ran.
    pub statement: String,
    /// As whom.
    pub scope: PrincipalScope,
    /// When it began.
    pub began: MonoTime,
}

/// How runs end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mood {
    /// With the version that stood when they began.
    Well,
    /// With this fault.
    Fault(OriginFault),
    /// With a panic in the caller's task, so many times.
    Panic(u32),
    /// With a summary that shows an update.
    Update,
}

impl Default for ScriptedOrigin {
    fn default() -> Self {
        let state = State { version: 1, delay_ms: 100, mood: Mood::Well, runs: Vec::new(), kinds: 0 };
        Self { state: Mutex::new(state) }
    }
}

impl ScriptedOrigin {
    /// What runs from now on return.
    pub fn set_version(&self, version: i64) {
        self.state.lock().version = version;
    }

    /// How long runs take.
    pub fn set_delay_ms(&self, delay_ms: u64) {
        self.state.lock().delay_ms = delay_ms;
    }

    /// How runs end.
    pub fn set_mood(&self, mood: Mood) {
        self.state.lock().mood = mood;
    }

    /// Runs begun so far.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.state.lock().runs.len()
    }

    /// Every run so far.
    #[must_use]
    pub fn runs_seen(&self) -> Vec<RunSeen> {
        self.state.lock().runs.clone()
    }

    /// Times the server was asked what a statement is.
    #[must_use]
    pub fn kinds(&self) -> u64 {
        self.state.lock().kinds
    }

    fn begin(&self, run: &OriginRun) -> (i64, u64, Mood) {
        let mut state = self.state.lock();
        state.runs.push(RunSeen {
            statement: run.statement.to_string(),
            scope: run.identity.scope,
            began: sim_now(),
        });
        let mood = state.mood.clone();
        if let Mood::Panic(left) = &mut state.mood {
            *left -= 1;
            if *left == 0 {
                state.mood = Mood::Well;
            }
        }
        (state.version, state.delay_ms, mood)
    }
}

/// One node's way to the origin.
pub struct OriginPort {
    /// The origin.
    pub shared: Arc<ScriptedOrigin>,
    /// The node's process.
    pub switch: Switch,
}

#[async_trait]
impl Origin for OriginPort {
    async fn run(&self, run: &OriginRun) -> Result<ResultSet, OriginError> {
        self.switch.on().await;
        let (version, delay_ms, mood) = self.shared.begin(run);
        tokio::time::sleep(Millis(delay_ms).duration()).await;
        self.switch.on().await;
        match mood {
            Mood::Fault(fault) => Err(fault.into()),
            Mood::Panic(_) => seeded_panic(),
            Mood::Well => Ok(result(run, version, 0)),
            Mood::Update => Ok(result(run, version, 1)),
        }
    }

    /// `CREATE` hidden in a text that the lexer takes for a read is what `SLY` stands for.
    async fn kind(&self, run: &OriginRun) -> Result<StatementKind, OriginError> {
        self.switch.on().await;
        self.shared.state.lock().kinds += 1;
        if run.statement.contains("BROKEN") {
            let said = Neo4jFailure {
                code: "Neo.ClientError.Statement.SyntaxError".to_owned(),
                message: "it is broken".to_owned(),
            };
            return Err(OriginFault::Failed(said).into());
        }
        Ok(if run.statement.contains("SLY") { StatementKind::Write } else { StatementKind::Read })
    }

    async fn verify(&self, _: &Identity) -> Result<(), OriginError> {
        Ok(())
    }

    fn in_flight(&self) -> usize {
        0
    }
}

#[expect(clippy::panic, reason = "the fault that this simulates")]
fn seeded_panic() -> ! {
    panic!("seeded: the leader panics")
}

/// Version, principal and statement, so that an answer shows whose it is and how old.
fn result(run: &OriginRun, version: i64, created: i64) -> ResultSet {
    let mut record = Writer::new();
    record.list(3);
    record.int(version);
    record.int(i64::from(run.identity.scope.0[0]));
    record.string(&run.statement);
    let stats = Value::Map(vec![("nodes-created".to_owned(), Value::Int(created))]);
    let summary =
        if created == 0 { Value::Map(Vec::new()) } else { Value::Map(vec![("stats".to_owned(), stats)]) };
    ResultSet {
        fields: ["version", "principal", "statement"].map(str::to_owned).to_vec(),
        records: Bytes::from(record.into_bytes()),
        rows: 1,
        kind: Some(StatementKind::Read),
        summary,
        bookmark: None,
    }
}
