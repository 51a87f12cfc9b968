//! I3: a result is stored only under the current lease, and never if it was read before an invalidation. The checker
//! uses two sources: the book of leases, and the time when the stored run began.

use super::book::Book;
use super::{Check, Ground, StepView};
use crate::check::record::{Fact, What};

#[derive(Default)]
pub(super) struct LateWrites {
    book: Book,
}

impl Check for LateWrites {
    fn name(&self) -> &'static str {
        "I3 late write"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            self.judge(fact, seen.ground)?;
            self.book.write(fact);
        }
        Ok(())
    }
}

impl LateWrites {
    fn judge(&self, fact: &Fact, ground: &Ground) -> Result<(), String> {
        match &fact.what {
            What::Committed { key, token, stored: true, entry, store, .. } => {
                let current = self.book.current(*key, *store);
                if current.is_none_or(|held| held.token != *token) {
                    return Err(format!("stored under {token:?}, while the lease is {current:?}: {fact}"));
                }
                let run = entry.report.and_then(|report| ground.runs.get(&report.run));
                // A store that went back has not undone them: it counts as empty (F43).
                let late = self.book.invalidated().iter().find(|(at, scope)| {
                    scope.has(*key, entry.database) && run.is_some_and(|run| run.began < *at)
                });
                late.map_or(Ok(()), |late| {
                    Err(format!("a result read before the invalidation {late:?} was stored: {fact}"))
                })
            }
            What::Released { key, token, done: true, store, .. }
                if self.book.current(*key, *store).is_none_or(|held| held.token != *token) =>
            {
                Err(format!("a release ended a lease that was not its own: {fact}"))
            }
            What::Renewed { key, token, done: true, store, .. }
                if self.book.current(*key, *store).is_none_or(|held| held.token != *token) =>
            {
                Err(format!("a lease that was over was renewed: {fact}"))
            }
            _ => Ok(()),
        }
    }
}
