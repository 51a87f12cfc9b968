//! Every request ends by its deadline under any fault. After a complete heal it ends with an answer, and no request is
//! left waiting.

use std::collections::BTreeMap;

use hopcache_core::time::{Millis, MonoTime};

use super::{AskView, Check, StepView};
use crate::check::record::{Fact, Want, What};
use crate::drive::profile::WAIT_MS_MAX;
use crate::world::subject::Subject;

#[derive(Default)]
pub(super) struct Liveness {
    open: BTreeMap<u32, AskView>,
    /// When a node's process was last stopped, killed or resumed, and whether it runs.
    touched: BTreeMap<usize, (MonoTime, bool)>,
    healed: Option<MonoTime>,
}

/// An answer is made and on its way within this of the deadline.
const LATE_MS: u64 = 150;

/// Leases of before, back-offs and probes are over by then: the longest lease, and a run.
const SETTLED_MS: u64 = 16_000;

/// A request may join a forward whose message was lost before the heal. It waits until the forward's leader gives up:
/// at the leader's deadline, plus half a second for the answer's way (`FORWARD_MARGIN_MS` in
/// `crates/engine/src/path/forward.rs`). Only a request with that much time has to be answered.
const LOST_MS: u64 = WAIT_MS_MAX + 500;

impl Check for Liveness {
    fn name(&self) -> &'static str {
        "liveness"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            match &fact.what {
                What::Asked { ask, .. } => {
                    if let Some(asked) = seen.ground.asks.get(ask) {
                        self.open.insert(*ask, *asked);
                    }
                }
                What::Left { ask } => {
                    self.open.remove(ask);
                }
                What::Answered { ask, .. } => {
                    if let Some(asked) = self.open.remove(ask) {
                        self.in_time(fact.at, *ask, &asked)?;
                        self.with_answer(fact, &asked, seen.ground.history.epoch() > 0)?;
                    }
                }
                What::Power { node, power } => {
                    self.touched.insert(*node, (fact.at, *power != "paused"));
                }
                What::Healed => self.healed = Some(fact.at),
                _ => {}
            }
        }
        for (ask, asked) in &self.open {
            self.in_time(seen.now, *ask, asked)?;
        }
        if seen.is_quiet { self.at_rest() } else { Ok(()) }
    }
}

impl Liveness {
    fn in_time(&self, now: MonoTime, ask: u32, asked: &AskView) -> Result<(), String> {
        // A stopped process answers nobody. Its clients' time continues when the process does.
        let (touched, runs) = self.touched.get(&asked.node).copied().unwrap_or((asked.at, true));
        if !runs || now.since(touched.max(asked.at)) <= Millis(asked.wait_max.0 + LATE_MS) {
            return Ok(());
        }
        Err(format!(
            "ask {ask} has waited {} ms, its wait_max was {}",
            now.since(asked.at).0,
            asked.wait_max.0
        ))
    }

    /// A bookmark of before a restore is not reached for a long time, at Neo4j neither.
    fn with_answer(&self, fact: &Fact, asked: &AskView, is_restored: bool) -> Result<(), String> {
        let What::Answered { served, .. } = &fact.what else { return Ok(()) };
        let is_settled = self.healed.is_some_and(|healed| {
            asked.at > healed + Millis(SETTLED_MS) && asked.at + asked.wait_max > healed + Millis(LOST_MS)
        });
        let may_fail = Subject::at(asked.subject).fails() || asked.want == Want::OnlyCached;
        let may_fail = may_fail || (is_restored && matches!(asked.want, Want::After(_)));
        if is_settled && !served.is_body && !may_fail {
            return Err(format!("everything is well, and there is no answer: {fact}"));
        }
        Ok(())
    }

    fn at_rest(&self) -> Result<(), String> {
        if let Some(ask) = self.open.keys().next() {
            return Err(format!("ask {ask} was never answered"));
        }
        Ok(())
    }
}
