//! Answers before their commits (`fetch::commit_queue` of the engine).
//!
//! - I2: what a node has answered as stored is stored soon, or there is a cause: the node died or was stopped, the store was in
//!   trouble or did not answer that node, another node took the lease, or an invalidation came. A further run has one of these
//!   causes then.
//! - What replaces an entry in the store is stored before it is answered. Otherwise a client may see a newer value, and then
//!   the older one: the node dies before the commit.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_core::limits::{COMMIT_WAIT_MS_MAX, STORE_COMMAND_MS_DEFAULT};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::outcome::{Class, Kept};

use super::book::Book;
use super::{Check, StepView};
use crate::check::record::{Covers, Fact, KeyId, Life, ServedAnswer, What};

/// The wait in the queue, two tries, and another batch that is under way before it, with its two tries.
const SOON: Millis = Millis(COMMIT_WAIT_MS_MAX + 4 * STORE_COMMAND_MS_DEFAULT + 50);

/// A command that began before may end after its run began.
const BEFORE: Millis = Millis(2 * STORE_COMMAND_MS_DEFAULT);

#[derive(Default)]
pub(super) struct Commits {
    book: Book,
    /// The node and the key of each run, and when it began.
    runs: BTreeMap<u32, (Life, Option<KeyId>, MonoTime)>,
    /// Runs whose results were answered as stored, and when that was first.
    answered: BTreeMap<u32, MonoTime>,
    /// Those of them that have to be stored.
    open: BTreeMap<u32, MonoTime>,
    stored: BTreeSet<u32>,
    /// What can cost a commit: of one node, or of all.
    trouble: Vec<(MonoTime, Option<usize>)>,
    /// What ends a key's lease beside its holder's own command.
    ended: Vec<(MonoTime, Option<KeyId>)>,
    stopped: BTreeMap<usize, bool>,
}

impl Check for Commits {
    fn name(&self) -> &'static str {
        "commits"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            self.note(fact, seen);
            self.judge(fact)?;
            self.book.write(fact);
        }
        let due: Vec<u32> =
            self.open.iter().filter(|(_, at)| seen.now > **at + SOON).map(|(run, _)| *run).collect();
        for run in due {
            self.open.remove(&run);
            if !self.is_excused(run) {
                return Err(format!(
                    "I2: run {run} was answered as stored, and is not: {:?}",
                    self.runs.get(&run)
                ));
            }
        }
        Ok(())
    }
}

impl Commits {
    fn note(&mut self, fact: &Fact, seen: &StepView<'_>) {
        match &fact.what {
            What::RunBegan { run, by, subject, .. } => {
                let key = subject.and_then(|subject| {
                    seen.ground.subjects.iter().find(|(_, each)| **each == subject).map(|(key, _)| *key)
                });
                self.runs.insert(*run, (*by, key, fact.at));
            }
            What::StoreSaid { by, .. } => self.trouble.push((fact.at, Some(by.node))),
            // A node that leaves in order empties its queue.
            What::Power { node, power: power @ ("paused" | "killed" | "on" | "restarted") } => {
                self.trouble.push((fact.at, Some(*node)));
                self.stopped.insert(*node, matches!(*power, "paused" | "killed"));
            }
            What::Emptied { by, in_time: false, .. } => self.trouble.push((fact.at, Some(by.node))),
            What::Forgot { node } => self.trouble.push((fact.at, Some(*node))),
            What::StoreLost { .. }
            | What::StoreFellBack { .. }
            | What::StoreJumped { .. }
            | What::StoreIs { .. } => self.trouble.push((fact.at, None)),
            What::Invalidated { scope, .. } => {
                let key = if let Covers::Key(key) = scope { Some(*key) } else { None };
                self.ended.push((fact.at, key));
            }
            // It has lapsed, or was stolen; `i1_i2_runs` asks why. A lease that its holder has given back is in the book no more.
            What::Granted { key, .. } if self.book.lease(*key).is_some() => {
                self.ended.push((fact.at, Some(*key)));
            }
            _ => {}
        }
    }

    fn judge(&mut self, fact: &Fact) -> Result<(), String> {
        match &fact.what {
            What::Answered { served, .. } => {
                if let Some(report) = served.report.filter(|_| is_as_stored(served)) {
                    let is_new = !self.answered.contains_key(&report.run);
                    self.answered.entry(report.run).or_insert(fact.at);
                    if is_new && is_run_of_miss(served) && !self.stored.contains(&report.run) {
                        self.open.insert(report.run, fact.at);
                    }
                }
                Ok(())
            }
            What::Committed { key, stored: true, entry, store, .. } => {
                let Some(report) = entry.report else { return Ok(()) };
                self.open.remove(&report.run);
                self.stored.insert(report.run);
                let replaced = self.book.entry(*key, *store).and_then(|lies| lies.entry.report);
                let was_answered = self.answered.contains_key(&report.run);
                match replaced.filter(|replaced| replaced.run != report.run) {
                    Some(older) if was_answered && !self.is_excused(report.run) => Err(format!(
                        "the result of run {} was answered before it replaced that of run {}: {fact}",
                        report.run, older.run
                    )),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Whether something has happened to the run's node, to its lease or to the store since the run began.
    fn is_excused(&self, run: u32) -> bool {
        let Some((by, key, began)) = self.runs.get(&run).copied() else { return true };
        let from = began - BEFORE;
        let concerns = |node: &Option<usize>| node.is_none_or(|node| node == by.node);
        self.stopped.get(&by.node).copied().unwrap_or(false)
            || self.trouble.iter().any(|(at, node)| *at >= from && concerns(node))
            || self.ended.iter().any(|(at, ended)| *at > began && (ended.is_none() || *ended == key))
    }
}

/// Whether an answer says that its result is, or was, stored. One without a token says why not.
fn is_as_stored(served: &ServedAnswer) -> bool {
    match served.how.class {
        Class::Miss { kept, .. } => kept == Kept::Stored,
        Class::Hit => served.how.detail.is_none(),
        Class::Bypass(_) => false,
    }
}

fn is_run_of_miss(served: &ServedAnswer) -> bool {
    matches!(served.how.class, Class::Miss { kept: Kept::Stored, .. })
}
