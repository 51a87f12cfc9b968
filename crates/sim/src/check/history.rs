//! What really happened to the data of the simulated database: its versions, and what each of them touches. A restored
//! database begins another epoch, in which the same numbers come again.

use std::collections::BTreeMap;

use hopcache_core::time::{Millis, MonoTime};

use super::RunView;
use crate::check::record::{Fact, ResultReport, What};
use crate::world::subject::Subject;
use crate::world::write_statement::Touches;

/// A write that takes fewer ids than its node allows for hides as many foreign ones in the same account
/// (`hopcache_core::proof`). Accounts are mostly settled each watch interval, of 200 ms at most. They are not while writes are
/// under way, and while the watcher, the store or the origin is away. Then nothing is proved for so long.
const HIDING: Millis = Millis(4_000);

/// After a write is answered, nodes that could not be told hear of it at the store.
const HEARD: Millis = Millis(1_500);

/// A version of the data.
#[derive(Debug, Clone, Copy)]
pub struct VersionView {
    /// When it was committed.
    pub at: MonoTime,
    /// In which epoch.
    pub epoch: u32,
    /// Its number.
    pub version: u32,
    /// Whether a client made it past all nodes.
    pub is_foreign: bool,
    /// When the client of a write through a node got its answer, if it did.
    pub answered: Option<MonoTime>,
    /// What it touches.
    pub touches: Touches,
}

/// The versions of the data, in order.
#[derive(Debug, Default)]
pub struct History {
    versions: Vec<VersionView>,
    restored: Vec<MonoTime>,
    /// When writes took fewer ids than their nodes allow for.
    spared: Vec<MonoTime>,
    /// The place of each client's write among the versions.
    wrote: BTreeMap<u32, usize>,
}

impl History {
    pub(super) fn learn(&mut self, fact: &Fact) {
        match &fact.what {
            What::Version { version, by, touches } => self.versions.push(VersionView {
                at: fact.at,
                epoch: self.epoch(),
                version: *version,
                is_foreign: by.is_none(),
                answered: None,
                touches: *touches,
            }),
            What::Wrote { write, .. } => {
                self.wrote.insert(*write, self.versions.len().saturating_sub(1));
            }
            What::WriteEnded { write, .. } => {
                let version = self.wrote.get(write).and_then(|place| self.versions.get_mut(*place));
                version.into_iter().for_each(|seen| seen.answered = Some(fact.at));
            }
            What::Restored { .. } => self.restored.push(fact.at),
            // A read that changes data counts as a write, and takes no id here.
            What::Spared { .. } | What::Drifted { .. } => self.spared.push(fact.at),
            _ => {}
        }
    }

    /// The epoch of now.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        u32::try_from(self.restored.len()).unwrap_or(u32::MAX)
    }

    /// When an epoch ended, if it has.
    #[must_use]
    pub fn end_of(&self, epoch: u32) -> Option<MonoTime> {
        self.restored.get(usize::try_from(epoch).ok()?).copied()
    }

    /// The versions after this one, in an epoch, that touch a subject's statement.
    pub fn touching_after(
        &self,
        subject: usize,
        (epoch, version): (u32, u32),
    ) -> impl Iterator<Item = &VersionView> + Clone {
        let statement = Subject::at(subject).statement;
        let is_later = move |seen: &&VersionView| seen.epoch == epoch && seen.version > version;
        self.versions.iter().filter(is_later).filter(move |seen| seen.touches.has(statement))
    }

    /// Whether a write without a foreign one's id may hide it: the one hole of proofs.
    #[must_use]
    pub fn may_be_hidden(&self, seen: &VersionView) -> bool {
        let is_near = |at: &MonoTime| at.since(seen.at).max(seen.at.since(*at)) <= HIDING;
        seen.is_foreign && self.spared.iter().any(is_near)
    }

    /// For how long a value had not been the database's at `now`, as far as every node had to know; zero if it still was. Until
    /// a write through a node is answered, its nodes may take a value from before it for the database's.
    #[must_use]
    pub fn outdated_for(&self, run: &RunView, report: &ResultReport, now: MonoTime) -> Millis {
        let touched = self.touching_after(report.subject, (run.epoch, report.version));
        let known = |seen: &VersionView| {
            let at = if seen.is_foreign { Some(seen.at) } else { seen.answered.map(|at| at + HEARD) };
            at.filter(|_| !self.may_be_hidden(seen))
        };
        let touched = touched.filter_map(known).min();
        let until = touched.into_iter().chain(self.end_of(run.epoch)).min();
        until.map_or(Millis::ZERO, |until| now.since(until))
    }
}
