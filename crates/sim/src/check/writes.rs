//! Writes are seen: a request that began after a write was answered gets nothing from before it, on any node in touch, if
//! the write has touched what it reads.
//! Answers that are marked `stale-if-error` may be older while the origin cannot be reached: a run of the same subject, or the
//! question for the statement's kind, found no connection, a back-off before the request at most; or nodes knew that it could not be
//! reached. A slow origin, and a run that failed, are no reason.
//!
//! Out of touch is a node whose last look at the store failed, and which heard nothing since. Such a node serves by age.
//! [`Broadcasts`] says which writes are held against nobody.
//!
//! Nor is it held against a node that comes back, or joins, just after the store lost its marks. Seed 4837:
//!   node 0 is stopped · a write ends, and its mark is in the store and at the other nodes · the store loses everything ·
//!   node 0 goes on, and its look finds no mark · 95 ms later another node's look puts the mark back.

use std::collections::BTreeMap;

use hopcache_core::limits::{BACKOFF_MS_MAX, FRESHNESS_LEASE_MS_DEFAULT};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::outcome::Detail;

use super::broadcasts::Broadcasts;
use super::i4_age::text_of;
use super::{Check, StepView};
use crate::check::record::{Fact, RunEnd, ServedAnswer, Want, What};
use crate::world::subject::{Subject, USUAL};
use crate::world::write_statement::Touches;

#[derive(Default)]
pub(super) struct Writes {
    /// When no connection was made for a run of a subject.
    away: BTreeMap<usize, MonoTime>,
    /// When no connection was made to ask for a statement's kind in a database.
    wordless: BTreeMap<(usize, usize), MonoTime>,
    /// Writes under way: their node, and when they began.
    under_way: BTreeMap<u32, (usize, MonoTime)>,
    /// The newest version that a write's answer has told, as far as it is held against anybody: of the writes that touch each
    /// usual statement.
    answered: [u32; USUAL],
    /// What requests under way have to see.
    needed: BTreeMap<u32, u32>,
    /// When a look of a node last failed.
    look_failed: BTreeMap<usize, MonoTime>,
    broadcasts: Broadcasts,
    /// When each node last went on, or began.
    came_back: BTreeMap<usize, MonoTime>,
    /// When the store last lost something.
    store_lost: Option<MonoTime>,
}

/// A look is under way for as long as a command lasts, and the next comes after half a lease. After a pause a node waits so
/// long for a look before it serves by age.
const LOOK_MS: u64 = 2 * FRESHNESS_LEASE_MS_DEFAULT + 500;

impl Check for Writes {
    fn name(&self) -> &'static str {
        "writes are seen"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            self.broadcasts.learn(fact);
            match &fact.what {
                What::WriteBegan { write, node } => {
                    self.under_way.insert(*write, (*node, fact.at));
                }
                What::WriteEnded { write, version, touches, .. } => {
                    let began = self.under_way.remove(write);
                    if let (Some(began), Some(version)) = (began, version)
                        && self.broadcasts.is_held(began)
                    {
                        self.note_answered(*version, *touches);
                    }
                }
                // The same numbers come again. Entries of before are served until somebody asks (`check::proofs` bounds that).
                What::Restored { .. } => {
                    self.answered = [0; USUAL];
                    self.needed.clear();
                    // Their numbers are of before.
                    self.under_way.clear();
                }
                What::Asked { ask, subject, .. } => {
                    // What is not usual has no entry, so that nothing is needed of it.
                    let needed = self.answered.get(Subject::at(*subject).statement);
                    self.needed.insert(*ask, needed.copied().unwrap_or(0));
                }
                What::Left { ask } => {
                    self.needed.remove(ask);
                }
                What::StoreSaid { by, word: "hear_written", .. } => {
                    self.look_failed.insert(by.node, fact.at);
                }
                What::Power { node, power: "on" | "joined" | "restarted" } => {
                    self.came_back.insert(*node, fact.at);
                }
                What::StoreLost { .. } | What::StoreFellBack { .. } => self.store_lost = Some(fact.at),
                What::RunEnded { run, end: RunEnd::Away } => {
                    if let Some(subject) = seen.ground.runs.get(run).and_then(|run| run.subject) {
                        self.away.insert(subject, fact.at);
                    }
                }
                What::Wordless { subject: Some(place) } => {
                    self.wordless.insert(text_of(*place), fact.at);
                }
                What::Answered { ask, served } => self.judge(fact, seen, *ask, served)?,
                _ => {}
            }
        }
        Ok(())
    }
}

impl Writes {
    /// Whether the origin could not be reached for a subject since `then`, or so shortly before that an answer of then may be
    /// on its way.
    fn was_away(&self, subject: usize, then: MonoTime) -> bool {
        let away = [self.away.get(&subject), self.wordless.get(&text_of(subject))];
        away.into_iter().flatten().any(|at| *at + Millis(BACKOFF_MS_MAX) >= then)
    }

    fn note_answered(&mut self, version: u32, touches: Touches) {
        for (statement, answered) in self.answered.iter_mut().enumerate() {
            if touches.has(statement) {
                *answered = version.max(*answered);
            }
        }
    }

    /// Whether a node may have looked at a store that had lost its marks, before another node's look put them back.
    fn came_back_to_nothing(&self, node: usize, now: MonoTime) -> bool {
        let was_away = |lost: &MonoTime| self.came_back.get(&node).is_some_and(|back| back >= lost);
        self.store_lost.filter(was_away).is_some_and(|lost| now <= lost + Millis(LOOK_MS))
    }

    fn judge(
        &mut self,
        fact: &Fact,
        seen: &StepView<'_>,
        number: u32,
        served: &ServedAnswer,
    ) -> Result<(), String> {
        let Some(needed) = self.needed.remove(&number) else { return Ok(()) };
        let Some(ask) = seen.ground.asks.get(&number) else { return Ok(()) };
        let run = served.report.and_then(|report| seen.ground.runs.get(&report.run));
        if run.is_some_and(|run| run.epoch != ask.epoch) {
            return Ok(());
        }
        let (Some(report), Some(_)) = (served.report, seen.ground.policy.freshness_lease_ms) else {
            return Ok(());
        };
        let is_marked = served.how.detail == Some(Detail::StaleIfError);
        let is_away = self.was_away(ask.subject, ask.at) || seen.ground.was_away_since(ask.at);
        let is_allowed = is_marked && is_away;
        // Runs that bypass the cache carry what their client sent.
        let is_cached = Subject::at(ask.subject).is_usual() && ask.want != Want::Bypass;
        let was_in_touch = self.look_failed.get(&ask.node).is_none_or(|at| *at + Millis(LOOK_MS) < ask.at);
        let is_unheard = self.came_back_to_nothing(ask.node, ask.at);
        if report.version >= needed || is_allowed || !is_cached || !was_in_touch || is_unheard {
            return Ok(());
        }
        Err(format!("version {needed} was written and answered before the request began: {fact}"))
    }
}
