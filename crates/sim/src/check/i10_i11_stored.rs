//! I10, I11, I6: every stored or served value is the whole result of a successful run of a read. An error is never a
//! value.

use hopcache_core::time::Millis;
use hopcache_engine::outcome::Class;

use super::{Check, Ground, StepView};
use crate::check::record::{Fact, ResultReport, RunEnd, What};
use crate::world::subject::Subject;

pub(super) struct Stored;

impl Check for Stored {
    fn name(&self) -> &'static str {
        "I10/I11 stored"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            match &fact.what {
                // A life of zero: this commit removes the entry and stores nothing (after a refusal by the server).
                What::Committed { entry, .. } if entry.left == Millis::ZERO => {}
                What::Committed { entry, .. } => {
                    let subject = subject_of_commit(fact, seen.ground);
                    is_result(fact, seen.ground, entry.report, false)?;
                    if subject.is_some_and(|subject| Subject::at(subject).is_write()) {
                        return Err(format!("I6: the result of a write was offered to the store: {fact}"));
                    }
                }
                What::Answered { served, .. } => {
                    let is_hit = served.how.class == Class::Hit;
                    if served.is_body {
                        is_result(fact, seen.ground, served.report, !is_hit)?;
                    } else if is_hit {
                        return Err(format!("I11: a hit is a failure: {fact}"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn subject_of_commit(fact: &Fact, ground: &Ground) -> Option<usize> {
    let What::Committed { key, .. } = &fact.what else { return None };
    ground.subjects.get(key).copied()
}

fn is_result(
    fact: &Fact,
    ground: &Ground,
    report: Option<ResultReport>,
    may_update: bool,
) -> Result<(), String> {
    let Some(report) = report else { return Err(format!("no result of any run: {fact}")) };
    if !report.whole {
        return Err(format!("I10: a part of a result: {fact}"));
    }
    match ground.runs.get(&report.run).and_then(|run| run.end) {
        Some(RunEnd::Whole) => Ok(()),
        Some(RunEnd::Updates) if may_update => Ok(()),
        end => Err(format!("of a run that ended {end:?}: {fact}")),
    }
}
