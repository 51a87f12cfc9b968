//! What a world records, and the checkers that judge it: one file for each promise. All run after every simulated step.
//!
//! They judge by the record and never by the engine's own reports, except for sizes. Each exception of a checker has
//! its reason beside it.

mod book;
mod broadcasts;
mod commits;
mod counters;
pub mod coverage;
mod direct_runs;
mod history;
mod i10_i11_stored;
mod i12_hits;
mod i12_rings;
mod i14_transactions;
mod i1_i2_runs;
mod i3_late_write;
mod i4_age;
mod i5_identity;
mod i8_hops;
mod i9_sizes;
mod learning;
mod leaving;
mod liveness;
mod prefetch;
mod proofs;
mod purges;
pub mod record;
pub(crate) mod seed_counters;
mod writes;

use std::collections::BTreeMap;

use hopcache_core::membership::MemberInfo;
use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::Policy;
use hopcache_engine::sizes::Sizes;
use hopcache_learning::Sum;

pub use history::History;

use crate::check::record::{Fact, KeyId, Life, Want, What};
use crate::world::event_log::Noted;
use crate::world::process::Power;
use crate::world::subject::Subject;

/// A promise that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The checker that failed.
    pub check: &'static str,
    /// Its message.
    pub what: String,
}

/// The input of a checker.
pub struct StepView<'a> {
    /// Facts since its last look.
    pub facts: &'a [Fact],
    /// The nodes as they are now.
    pub nodes: &'a [NodeView],
    /// Now.
    pub now: MonoTime,
    /// A node's state at a check.
    pub ground: &'a Ground,
    /// Whether everything has healed, ended, and been given the time that it needs.
    pub is_quiet: bool,
    /// The nodes that have had the time to find each other: their rings must agree now.
    pub members: Option<Vec<NodeName>>,
}

/// One node at a step.
pub struct NodeView {
    /// Which life of it.
    pub life: Life,
    /// Its process.
    pub power: Power,
    /// The contents of the node's engine.
    pub sizes: Sizes,
    /// The nodes that the node routes to.
    pub ring: Vec<NodeName>,
    /// Members that it knows, dead ones included; empty where a test sets its ring.
    pub members: Vec<MemberInfo>,
    /// Refreshes that it noted as begun and as ended, and those that it says are under way.
    pub refreshes: (u64, u64, u64),
    /// Sums of the node's events.
    pub noted: Noted,
    /// Launches that the node counts as neither used nor unused yet.
    pub pending: u64,
    /// A summary of what the node has learned.
    pub learned: Sum,
    /// Keys with a flight at the node.
    pub flights: Vec<KeyId>,
    /// Its slots in use, and the runs that wait for one.
    pub line: (usize, usize),
}

/// Knowledge of a world that all checkers share.
pub struct Ground {
    /// The operator's settings.
    pub policy: Policy,
    /// Whether the world has no faults at all.
    pub is_faultless: bool,
    /// Whether nothing is ever wrong with the store or the way to it.
    pub is_store_well: bool,
    /// The requests, by number.
    pub asks: BTreeMap<u32, AskView>,
    /// Runs, by number.
    pub runs: BTreeMap<u32, RunView>,
    /// The subject of each key, from the first request with the key.
    pub subjects: BTreeMap<KeyId, usize>,
    /// Purged databases, by their tag.
    pub databases: Vec<hopcache_core::key::DatabaseTag>,
    /// Backward jumps of the store's clock.
    pub jumps: Vec<(MonoTime, Millis)>,
    /// Forward ones.
    pub jumps_ahead: Vec<(MonoTime, Millis)>,
    /// The versions of the data.
    pub history: History,
    /// When nodes knew that the origin could not be reached: from, and until.
    pub away: Vec<(MonoTime, Option<MonoTime>)>,
}

/// An ask.
#[derive(Debug, Clone, Copy)]
pub struct AskView {
    /// When it reached its node.
    pub at: MonoTime,
    /// Which.
    pub node: usize,
    /// The subject that the client asked.
    pub subject: usize,
    /// How fresh.
    pub want: Want,
    /// For how long its client waits.
    pub wait_max: Millis,
    /// How often the origin had been restored.
    pub epoch: u32,
}

/// A run.
#[derive(Debug, Clone, Copy)]
pub struct RunView {
    /// When it began.
    pub began: MonoTime,
    /// The request that the node got.
    pub subject: Option<usize>,
    /// How it ended, if it did.
    pub end: Option<crate::check::record::RunEnd>,
    /// Soft, physical and total life that it was offered to the store with, if it was.
    pub lives: Option<(Millis, Millis, Millis)>,
    /// For how long its commit was on the way.
    pub late: Millis,
    /// How often the origin had been restored.
    pub epoch: u32,
}

impl Ground {
    /// Updates the shared knowledge from new facts, before the checkers run.
    pub fn learn(&mut self, facts: &[Fact]) {
        for fact in facts {
            self.history.learn(fact);
            let epoch = self.history.epoch();
            match &fact.what {
                What::Asked { ask, node, subject, key, want, wait_max } => {
                    let seen = AskView {
                        at: fact.at,
                        node: *node,
                        subject: *subject,
                        want: *want,
                        wait_max: *wait_max,
                        epoch,
                    };
                    self.asks.insert(*ask, seen);
                    self.subjects.entry(*key).or_insert(*subject);
                }
                What::RunBegan { run, subject, .. } => {
                    let (end, lives, late) = (None, None, Millis::ZERO);
                    let seen = RunView { began: fact.at, subject: *subject, end, lives, late, epoch };
                    self.runs.insert(*run, seen);
                }
                What::RunEnded { run, end } => {
                    if let Some(seen) = self.runs.get_mut(run) {
                        seen.end = Some(*end);
                    }
                }
                What::Committed { entry, .. } => {
                    if let Some(seen) = entry.report.and_then(|report| self.runs.get_mut(&report.run)) {
                        seen.lives = Some((entry.soft, entry.physical, entry.total));
                        seen.late = seen.late.max(fact.at.since(entry.offered));
                    }
                }
                What::OriginAway { is_away: true } => self.away.push((fact.at, None)),
                What::OriginAway { is_away: false } => {
                    self.away.last_mut().into_iter().for_each(|(_, until)| *until = Some(fact.at));
                }
                What::StoreJumped { by_ms, .. } if *by_ms < 0 => {
                    self.jumps.push((fact.at, Millis(by_ms.unsigned_abs())));
                }
                What::StoreJumped { by_ms, .. } => {
                    self.jumps_ahead.push((fact.at, Millis(by_ms.unsigned_abs())));
                }
                _ => {}
            }
        }
    }

    /// By how much the store's clock was set back since `from`. An entry from before seems younger by this time (F24:
    /// staleness up to the jump).
    #[must_use]
    pub fn set_back_since(&self, from: MonoTime) -> Millis {
        Millis(self.jumps.iter().filter(|(at, _)| *at >= from).map(|(_, by)| by.0).sum())
    }

    /// By how much the store's clock was set ahead since `from`. An entry from before seems older by this time.
    #[must_use]
    pub fn set_ahead_since(&self, from: MonoTime) -> Millis {
        Millis(self.jumps_ahead.iter().filter(|(at, _)| *at >= from).map(|(_, by)| by.0).sum())
    }

    /// Whether nodes knew that the origin could not be reached, at this time or later.
    #[must_use]
    pub fn was_away_since(&self, from: MonoTime) -> bool {
        self.away.last().is_some_and(|(_, until)| until.is_none_or(|until| until >= from))
    }

    /// The database of a subject, as entries and purges name it.
    #[must_use]
    pub fn tag_of(&self, subject: usize) -> Option<hopcache_core::key::DatabaseTag> {
        self.databases.get(Subject::at(subject).database).copied()
    }
}

trait Check {
    fn name(&self) -> &'static str;
    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String>;
}

/// All checkers.
pub struct Checks {
    all: Vec<Box<dyn Check>>,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            all: vec![
                Box::new(i3_late_write::LateWrites::default()),
                Box::new(i1_i2_runs::Runs::default()),
                Box::new(commits::Commits::default()),
                Box::new(i4_age::Ages::default()),
                Box::new(i5_identity::Identities::default()),
                Box::new(prefetch::Prefetches::default()),
                Box::new(i8_hops::Hops::default()),
                Box::new(i9_sizes::SizesHold),
                Box::new(i10_i11_stored::Stored),
                Box::new(i12_rings::Rings::default()),
                Box::new(i12_hits::Hits::default()),
                Box::new(i14_transactions::Transactions::default()),
                Box::new(counters::Identities),
                Box::new(leaving::Leaving::default()),
                Box::new(learning::Convergence::default()),
                Box::new(purges::Purges::default()),
                Box::new(proofs::Proofs::default()),
                Box::new(writes::Writes::default()),
                Box::new(liveness::Liveness::default()),
            ],
        }
    }
}

impl Checks {
    /// Asks all of them.
    ///
    /// # Errors
    /// The first promise that did not hold.
    pub fn look(&mut self, seen: &StepView<'_>) -> Result<(), Violation> {
        for check in &mut self.all {
            check.look(seen).map_err(|what| Violation { check: check.name(), what })?;
        }
        Ok(())
    }
}
