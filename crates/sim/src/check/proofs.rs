//! Proofs hold. An answer that is marked proved is
//!
//! - no older than a write through a node that was answered before the request began: also not where the write failed, its
//!   client was told so, and it was committed all the same;
//! - no older than a foreign write by more than the stated bound ([`bound`]), unless a write of the cluster hides it
//!   ([`super::history::History::may_be_hidden`]);
//! - not of before a restore, after the same bound, unless the store's clock was set back meanwhile.
//!
//! A write that could not be told as the protocol wants it counts as foreign: after the bound it is seen. There are two kinds.
//!
//! 1. Its node could not tell the store. Schedule: node 0 is cut off from the store and from node 1 · a write through node 0
//!    is answered after a whole lease · node 1 is in touch with the store, and has not heard of it. A watcher finds the id, or
//!    a third node brings the mark to the store with its next look.
//! 2. The store has just lost its content, or its clock has jumped. Schedule: the store loses the list of those who listen ·
//!    node 0 is cut off from node 1, writes, and finds nobody to wait for · node 1 has the rest of its lease.

use std::collections::BTreeMap;

use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::Policy;

use super::broadcasts::Broadcasts;
use super::{Check, Ground, StepView};
use crate::check::record::{Fact, ServedAnswer, Want, What};
use crate::world::subject::{Subject, USUAL};
use crate::world::write_statement::Touches;

/// Times are cut to whole milliseconds, a few times on their way.
const ROUNDING: Millis = Millis(3);

#[derive(Default)]
pub(super) struct Proofs {
    /// Writes under way: their node, and when they began.
    under_way: BTreeMap<u32, (usize, MonoTime)>,
    /// The version of each write that was committed.
    wrote: BTreeMap<u32, (u32, Touches)>,
    /// For each usual statement the newest version in this epoch that a proved answer must have.
    answered: [u32; USUAL],
    /// The same as it was when a request came, for requests under way.
    needed: BTreeMap<u32, u32>,
    broadcasts: Broadcasts,
}

/// For how long after a foreign write an entry from before it may be served as proved: `ProofSettings::report_ms_max`.
/// `None` where nobody looks for foreign writes.
pub(super) fn bound(policy: &Policy) -> Option<Millis> {
    let watch_ms = policy.proofs?.watch_ms;
    let lease_ms = policy.freshness_lease_ms?;
    (watch_ms > Millis::ZERO).then_some(Millis(2 * lease_ms.0 + 2 * watch_ms.0 + ROUNDING.0))
}

impl Check for Proofs {
    fn name(&self) -> &'static str {
        "proofs hold"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        if seen.ground.policy.proofs.is_none() {
            return Ok(());
        }
        for fact in seen.facts {
            self.broadcasts.learn(fact);
            match &fact.what {
                What::WriteBegan { write, node } => {
                    self.under_way.insert(*write, (*node, fact.at));
                }
                What::Wrote { write, version, touches } => {
                    self.wrote.insert(*write, (*version, *touches));
                }
                What::WriteEnded { write, is_told, .. } => self.ended(*write, *is_told),
                What::Restored { .. } => {
                    self.answered = [0; USUAL];
                    self.wrote.clear();
                }
                What::Asked { ask, subject, .. } => {
                    let needed = self.answered.get(Subject::at(*subject).statement);
                    self.needed.insert(*ask, needed.copied().unwrap_or(0));
                }
                What::Left { ask } => {
                    self.needed.remove(ask);
                }
                What::Answered { ask, served } => self.judge(fact, seen.ground, *ask, served)?,
                _ => {}
            }
        }
        Ok(())
    }
}

impl Proofs {
    fn ended(&mut self, write: u32, is_told: bool) {
        let (Some(began), Some((version, touches))) =
            (self.under_way.remove(&write), self.wrote.remove(&write))
        else {
            return;
        };
        if !is_told || !self.broadcasts.is_held(began) {
            return;
        }
        for (statement, answered) in self.answered.iter_mut().enumerate() {
            if touches.has(statement) {
                *answered = version.max(*answered);
            }
        }
    }

    fn judge(
        &mut self,
        fact: &Fact,
        ground: &Ground,
        number: u32,
        served: &ServedAnswer,
    ) -> Result<(), String> {
        let Some(needed) = self.needed.remove(&number) else { return Ok(()) };
        let (Some(ask), Some(report)) = (ground.asks.get(&number), served.report) else { return Ok(()) };
        let Some(run) = ground.runs.get(&report.run) else { return Ok(()) };
        if !served.how.is_proved || !Subject::at(ask.subject).is_usual() {
            return Ok(());
        }
        if run.epoch == ask.epoch && report.version < needed {
            return Err(format!(
                "proved, and version {needed} was answered before the request began: {fact}"
            ));
        }
        let touched = ground.history.touching_after(ask.subject, (run.epoch, report.version));
        if let Want::After(asked) = ask.want
            && run.epoch == ask.epoch
            && let Some(missed) =
                touched.clone().find(|seen| seen.version <= asked && !ground.history.may_be_hidden(seen))
        {
            return Err(format!("proved for bookmark {asked}, and has not seen {missed:?}: {fact}"));
        }
        let Some(bound) = bound(&ground.policy) else { return Ok(()) };
        let is_over = |at: MonoTime| at + bound < ask.at;
        // A store whose clock was set back takes an entry for younger than a purge that came after it (F24). So the purge that
        // a restore begins spares it.
        let may_be_spared = ground.set_back_since(run.began) > Millis::ZERO;
        if let Some(restored) = ground.history.end_of(run.epoch).filter(|at| is_over(*at) && !may_be_spared) {
            return Err(format!("proved, and of before the restore at {restored:?}: {fact}"));
        }
        let mut missed = touched.filter(|seen| is_over(seen.at) && !ground.history.may_be_hidden(seen));
        match missed.next() {
            Some(missed) => Err(format!("proved, and more than {bound:?} older than {missed:?}: {fact}")),
            None => Ok(()),
        }
    }
}
