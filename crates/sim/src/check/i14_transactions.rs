//! I14: whatever a transaction that wrote and committed has read was current at some moment between its BEGIN and its COMMIT. It is
//! judged when the origin commits its write, by the origin's own history of versions.
//!
//! What a run has read that began after BEGIN is Neo4j's own answer. What is of an earlier run was still current when the
//! transaction began, unless a version that touches it came before that, and
//!
//! - it was a write through a node that was told as the protocol wants it ([`Broadcasts`]), and its client had its answer; or
//! - it is any other one, and older than the bound of proofs ([`bound`]): a write past all nodes, one whose client got no answer, or
//!   one that could not be told. It may be hidden by a write of the cluster ([`super::history::History::may_be_hidden`]).
//!
//! Where nobody looks for writes past all nodes there are none, and the others are not judged. Where nothing is proved, every read is
//! a run of its own, so there is no bound.

use std::collections::BTreeMap;

use hopcache_core::time::{Millis, MonoTime};

use super::broadcasts::Broadcasts;
use super::history::VersionView;
use super::proofs::bound;
use super::{Check, Ground, StepView};
use crate::check::record::{Fact, ResultReport, What};

#[derive(Default)]
pub(super) struct Transactions {
    /// When each transaction began.
    began: BTreeMap<u32, MonoTime>,
    /// The transaction of each write.
    of_write: BTreeMap<u32, u32>,
    /// The transaction of each request.
    of_ask: BTreeMap<u32, u32>,
    /// What each has read.
    read: BTreeMap<u32, Vec<ResultReport>>,
    /// Writes under way: their node, and when they began.
    under_way: BTreeMap<u32, (usize, MonoTime)>,
    /// The version of each write that was committed.
    wrote: BTreeMap<u32, u32>,
    /// When the clients of writes got their answers, by the version, as far as the writes are held against nodes.
    answered: BTreeMap<u32, MonoTime>,
    broadcasts: Broadcasts,
}

impl Check for Transactions {
    fn name(&self) -> &'static str {
        "I14 transactions"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            self.broadcasts.learn(fact);
            match &fact.what {
                What::TransactionBegan { transaction, write, .. } => {
                    self.began.insert(*transaction, fact.at);
                    self.of_write.insert(*write, *transaction);
                }
                What::TransactionAsks { transaction, ask } => {
                    self.of_ask.insert(*ask, *transaction);
                }
                What::Answered { ask, served } => {
                    if let (Some(transaction), Some(report)) = (self.of_ask.remove(ask), served.report) {
                        self.read.entry(transaction).or_default().push(report);
                    }
                }
                What::WriteBegan { write, node } => {
                    self.under_way.insert(*write, (*node, fact.at));
                }
                What::Wrote { write, version, .. } => {
                    self.wrote.insert(*write, *version);
                    self.committed(fact, seen.ground, *write)?;
                }
                What::WriteEnded { write, is_told, .. } => {
                    if let (Some(began), Some(version)) =
                        (self.under_way.remove(write), self.wrote.remove(write))
                        && *is_told
                        && self.broadcasts.is_held(began)
                    {
                        self.answered.insert(version, fact.at);
                    }
                }
                // The same numbers come again.
                What::Restored { .. } => {
                    self.answered.clear();
                    self.wrote.clear();
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Transactions {
    fn committed(&mut self, fact: &Fact, ground: &Ground, write: u32) -> Result<(), String> {
        let Some(transaction) = self.of_write.remove(&write) else { return Ok(()) };
        let Some(began) = self.began.remove(&transaction) else { return Ok(()) };
        for report in self.read.remove(&transaction).unwrap_or_default() {
            if let Some(missed) = self.missed(ground, &report, began) {
                return Err(format!(
                    "transaction {transaction} began at {began:?}, read {report:?}, and has missed {missed}: {fact}"
                ));
            }
        }
        Ok(())
    }

    /// What was there before the transaction began, and is not in what it has read.
    fn missed(&self, ground: &Ground, report: &ResultReport, began: MonoTime) -> Option<String> {
        let run = ground.runs.get(&report.run).filter(|run| run.began < began)?;
        let bound = match ground.policy.proofs {
            Some(_) => bound(&ground.policy),
            None => Some(Millis::ZERO),
        };
        let is_over = |at: MonoTime| bound.is_some_and(|bound| at + bound < began);
        // A store whose clock was set back takes an entry for younger than a purge that came after it (F24).
        let may_be_spared = ground.set_back_since(run.began) > Millis::ZERO;
        if let Some(at) = ground.history.end_of(run.epoch) {
            return (is_over(at) && !may_be_spared).then(|| format!("the restore at {at:?}"));
        }
        let is_missed = |seen: &&VersionView| match self.answered.get(&seen.version) {
            Some(answered) => *answered < began,
            None => is_over(seen.at) && !ground.history.may_be_hidden(seen),
        };
        let mut touched = ground.history.touching_after(report.subject, (run.epoch, report.version));
        touched.find(is_missed).map(|missed| format!("{missed:?}"))
    }
}
