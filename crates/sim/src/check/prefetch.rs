//! Prefetch: never a write, never for a principal and database without an earlier answer to the same query, never over
//! the budget, and never caused by another prefetch. On each node, launched = used + late + wasted + pending (issue 7).
//!
//! The origin's record shows the runs, and the clients' record shows the requests. The checker compares a node's own
//! counts with both and with each other.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_engine::outcome::Class;

use super::{Check, NodeView, StepView};
use crate::check::record::{Fact, Life, RunEnd, What};
use crate::world::process::Power;
use crate::world::subject::Subject;

#[derive(Default)]
pub(super) struct Prefetches {
    /// Answers with a body, by principal and database: all that nodes can learn from.
    taught: BTreeSet<usize>,
    /// Requests that the present life of each node has to observe.
    answered: BTreeMap<usize, u64>,
    /// Runs ahead of requests.
    runs: BTreeMap<Life, u64>,
    /// The principal and database of each run.
    ran: BTreeMap<u32, Life>,
    /// Statements that changed data, by database and principal.
    changed: BTreeSet<(Life, usize, usize)>,
}

impl Check for Prefetches {
    fn name(&self) -> &'static str {
        "prefetch"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            self.judge(fact, seen)?;
        }
        for node in seen.nodes.iter().filter(|node| node.power != Power::Off) {
            self.adds_up(node)?;
        }
        Ok(())
    }
}

impl Prefetches {
    fn judge(&mut self, fact: &Fact, seen: &StepView<'_>) -> Result<(), String> {
        if let What::RunBegan { run, by, .. } = &fact.what {
            self.ran.insert(*run, *by);
        }
        match &fact.what {
            What::Answered { ask, served }
                if served.is_body && matches!(served.how.class, Class::Hit | Class::Miss { .. }) =>
            {
                if let Some(ask) = seen.ground.asks.get(ask) {
                    self.taught.insert(ask.subject);
                    *self.answered.entry(ask.node).or_default() += 1;
                }
            }
            What::Power { node, power: "restarted" } => {
                self.answered.remove(node);
            }
            What::RunBegan { is_ahead: true, by, subject, .. } => {
                *self.runs.entry(*by).or_default() += 1;
                let subject = subject.ok_or_else(|| format!("a prefetch of no subject: {fact}"))?;
                self.may_run(fact, *by, subject)?;
            }
            What::RunEnded { run, end: RunEnd::Updates } => self.saw_change(*run, seen),
            _ => {}
        }
        Ok(())
    }

    fn may_run(&self, fact: &Fact, by: Life, place: usize) -> Result<(), String> {
        let subject = Subject::at(place);
        if !self.taught.contains(&place) {
            return Err(format!("I5: a prefetch of what its principal was never answered there: {fact}"));
        }
        if subject.is_write() && !subject.drifts() {
            return Err(format!("I6: a prefetch of a write: {fact}"));
        }
        if self.changed.contains(&(by, subject.statement, subject.database)) {
            return Err(format!("I6: a prefetch of a statement that is known to change data: {fact}"));
        }
        Ok(())
    }

    fn saw_change(&mut self, run: u32, seen: &StepView<'_>) {
        let by = self.ran.get(&run).copied();
        let subject = seen.ground.runs.get(&run).and_then(|run| run.subject).map(Subject::at);
        if let (Some(by), Some(subject)) = (by, subject) {
            self.changed.insert((by, subject.statement, subject.database));
        }
    }

    fn adds_up(&self, node: &NodeView) -> Result<(), String> {
        let (noted, life) = (node.noted, node.life);
        let ended = noted.used + noted.late + noted.wasted;
        if noted.launched != ended + node.pending {
            return Err(format!(
                "{life:?}: launched is not used + late + wasted + {}: {noted:?}",
                node.pending
            ));
        }
        let runs = self.runs.get(&life).copied().unwrap_or(0);
        if runs > noted.launched {
            return Err(format!("{life:?}: {runs} runs ahead of requests: {noted:?}"));
        }
        // A used launch replaces the miss whose run it saved (`learning/src/budget.rs`).
        let misses = noted.misses + noted.used + noted.late;
        if 4 * (noted.wasted + node.pending) > misses {
            return Err(format!(
                "{life:?}: more than a quarter of {misses} misses, {} pending: {noted:?}",
                node.pending
            ));
        }
        let answered = self.answered.get(&life.node).copied().unwrap_or(0);
        if noted.observed > answered {
            return Err(format!("{life:?}: {} observations of {answered} requests", noted.observed));
        }
        Ok(())
    }
}
