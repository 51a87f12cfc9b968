//! One node's way to the simulated origin.

use std::sync::Arc;

use async_trait::async_trait;
use hopcache_core::bookmark::Position;
use hopcache_core::key::PrincipalScope;
use hopcache_core::proof::ServerRun;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::Millis;
use hopcache_core::turns::RunClass;
use hopcache_cypher::forms::pattern::pattern_id;
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{
    AccessMode, Neo4jFailure, Origin, OriginError, OriginFault, OriginRun, WriteOf,
};
use hopcache_slots::Slot;

use super::behavior::OriginBehavior;
use super::faults::{failed, seeded_panic};
use super::queue::NodeQueue;
use super::results::{cut, result};
use super::{ScriptedOrigin, UnderWay, capture, writes};
use crate::check::record::{Life, RunEnd, What};
use crate::world::clock::sim_now;
use crate::world::process::Process;
use crate::world::subject::Subject;
use crate::world::write_statement::WriteStatement;

/// One node's way to the origin.
pub struct OriginPort {
    /// The origin.
    pub shared: Arc<ScriptedOrigin>,
    /// The node's process.
    pub process: Process,
    /// The principal of the failure.
    pub by: Life,
    /// The node's slots, and the line before them.
    pub line: Option<Arc<NodeQueue>>,
}

impl OriginPort {
    /// A slot for a run, if the node has a line. The wait counts as time of the run, as the engine measures it; a run that is
    /// refused counts as one that failed.
    async fn slot(&self, run: &OriginRun) -> Result<Option<Slot<'_, PrincipalScope>>, OriginFault> {
        let Some(line) = &self.line else { return Ok(None) };
        let asked = sim_now();
        let slot = line.take(run).await;
        let record = &self.shared.record;
        match &slot {
            Ok(_) if sim_now() > asked => record.cover("run waited in line"),
            Ok(_) => {}
            Err(_) => record.cover("run refused in line"),
        }
        slot.map(Some)
    }
}

#[async_trait]
impl Origin for OriginPort {
    async fn run(&self, run: &OriginRun) -> Result<ResultSet, OriginError> {
        self.process.on().await;
        if run.statement.ends_with("AS degree") {
            return self.shared.tell_degree(run).await;
        }
        if run.statement.ends_with("AS both LIMIT 1") {
            return self.shared.tell_both(self.by, run).await;
        }
        if capture::is_question(run) {
            let told = self.shared.tell_changes(run);
            tokio::time::sleep(Millis(1).duration()).await;
            self.process.on().await;
            return told;
        }
        if let Some(write) = writes::write_of(run)
            && self.shared.state.lock().transactions.tells
        {
            let ended = self.shared.write(self.by, run, write).await;
            self.process.on().await;
            return ended;
        }
        if run.mode == AccessMode::Read && run.statement.contains("SLY") {
            return Err(OriginError::of_sent(OriginFault::Failed(Neo4jFailure {
                code: "Neo.ClientError.Statement.AccessMode".to_owned(),
                message: "writing in read access mode".to_owned(),
                as_sent: Vec::new(),
            })));
        }
        let fate = self.shared.begin(self.by, run);
        let _under_way = UnderWay(&self.shared);
        let slot = self.slot(run).await;
        self.process.on().await;
        let slot = match slot {
            Ok(slot) => slot,
            Err(refused) => {
                self.shared.record.note(What::RunEnded { run: fate.run, end: RunEnd::Failed });
                return Err(failed(refused));
            }
        };
        let is_deaf = fate.behavior == OriginBehavior::Deaf;
        let took_ms = if is_deaf { fate.delay_ms } else { fate.delay_ms.min(run.timeout_ms.0) };
        tokio::time::sleep(Millis(took_ms).duration()).await;
        self.process.on().await;
        let number = fate.run;
        let (ended, end) = match fate.behavior.clone() {
            _ if took_ms < fate.delay_ms => {
                (Err(OriginError::of_sent(OriginFault::TimedOut)), RunEnd::Failed)
            }
            _ if self.shared.state.lock().transactions.restored != fate.restored => {
                (Err(cut(run, &fate, "the database is restored".to_owned())), RunEnd::Cut)
            }
            OriginBehavior::Fault(OriginFault::Cut(why)) => (Err(cut(run, &fate, why)), RunEnd::Cut),
            OriginBehavior::Fault(fault @ OriginFault::Unreachable(_)) => (Err(failed(fault)), RunEnd::Away),
            OriginBehavior::Fault(fault) => (Err(failed(fault)), RunEnd::Failed),
            OriginBehavior::Panic(_) => {
                self.shared.record.note(What::RunEnded { run: number, end: RunEnd::Panic });
                seeded_panic()
            }
            OriginBehavior::Well | OriginBehavior::Deaf => (Ok(result(run, &fate, 0)), RunEnd::Whole),
            OriginBehavior::Update => (Ok(result(run, &fate, 1)), RunEnd::Updates),
        };
        let ended = ended.map(|result| self.shared.with_range(self.by, result, fate.carried));
        let is_late = ended.as_ref().is_err_and(|error| error.kind == OriginFault::TimedOut);
        if let Some(slot) = slot.filter(|_| ended.is_ok() || is_late) {
            slot.ended_as(pattern_id(&run.statement));
        }
        self.shared.record.note(What::RunEnded { run: number, end });
        if end == RunEnd::Updates && run.mode == AccessMode::Write {
            self.shared.record.note(What::Drifted { by: self.by });
        }
        ended
    }

    /// The statement `SLY` stands for a `CREATE` that the lexer takes for a read.
    async fn kind(&self, run: &OriginRun) -> Result<StatementKind, OriginError> {
        self.process.on().await;
        let (word_delay_ms, word_ahead) = {
            let mut state = self.shared.state.lock();
            state.kinds += 1;
            let version = state.version;
            state.transactions.saw(self.by, version);
            (state.word_delay_ms, state.word_ahead.clone().filter(|_| run.class == RunClass::Prefetch))
        };
        if let Some((delay_ms, fault)) = word_ahead {
            tokio::time::sleep(Millis(delay_ms.min(run.timeout_ms.0)).duration()).await;
            return Err(OriginError::of_sent(fault));
        }
        let wordless = match self.shared.state.lock().trouble.wordless {
            1.. if run.class == RunClass::Prefetch => 500,
            usual => usual,
        };
        if word_delay_ms > 0 {
            tokio::time::sleep(Millis(word_delay_ms).duration()).await;
        }
        if self.shared.dice.chance(wordless) {
            // A run that a prefetch did not get explains no client's answer, so the checkers do not see it.
            if run.class == RunClass::Prefetch {
                self.shared.record.cover("no word for a prefetch");
            } else {
                let subject = Subject::of_run(run).map(Subject::place);
                self.shared.record.note(What::Wordless { subject });
            }
            return Err(OriginFault::Unreachable("seeded".to_owned()).into());
        }
        if run.statement.contains("BROKEN") || run.statement.contains("ODD") {
            let failure = Neo4jFailure {
                code: "Neo.ClientError.Statement.SyntaxError".to_owned(),
                message: "it is broken".to_owned(),
                as_sent: Vec::new(),
            };
            return Err(OriginFault::Failed(failure).into());
        }
        if run.statement.contains("nope") {
            let code = "Neo.ClientError.Procedure.ProcedureNotFound".to_owned();
            let failure = Neo4jFailure { code, message: "there is none".to_owned(), as_sent: Vec::new() };
            return Err(OriginFault::Failed(failure).into());
        }
        let is_write = run.statement.contains("SLY") || WriteStatement::of_text(&run.statement).is_some();
        Ok(if is_write { StatementKind::Write } else { StatementKind::Read })
    }

    async fn newest(&self, of: &WriteOf, timeout_ms: Millis) -> Result<Option<Position>, OriginError> {
        Ok(self.newest_and_run(of, timeout_ms).await?.map(|(newest, _)| newest))
    }

    async fn newest_and_run(
        &self,
        of: &WriteOf,
        _: Millis,
    ) -> Result<Option<(Position, Option<ServerRun>)>, OriginError> {
        self.process.on().await;
        if self.shared.is_silent_about(&of.database) {
            return std::future::pending().await;
        }
        let told = self.shared.tell_newest(self.by, &of.database);
        let run = self.shared.server_run();
        tokio::time::sleep(Millis(1).duration()).await;
        self.process.on().await;
        told.map(|newest| Some((newest?, Some(run))))
    }

    async fn verify(&self, _: &Identity) -> Result<(), OriginError> {
        Ok(())
    }

    fn would_shed(&self, identity: &Identity, class: RunClass, timeout_ms: Millis) -> Option<OriginFault> {
        self.line.as_ref()?.would_shed(identity, class, timeout_ms.duration())
    }

    fn in_flight(&self) -> usize {
        self.line.as_ref().map_or_else(|| self.shared.under_way(), |line| line.running_and_waiting().0)
    }

    fn is_reachable(&self) -> bool {
        let state = self.shared.state.lock();
        !state.is_away && !state.is_late && state.cut_off != Some(self.by.node)
    }

    fn is_away(&self) -> bool {
        let state = self.shared.state.lock();
        state.is_away || state.cut_off == Some(self.by.node)
    }

    fn has_spare(&self) -> bool {
        let line_has = self.line.as_ref().is_none_or(|line| line.has_spare());
        line_has && self.shared.state.lock().has_spare
    }

    fn slots(&self) -> Option<usize> {
        self.line.as_ref().map(|line| line.limit()).or_else(|| self.shared.state.lock().slots)
    }
}
