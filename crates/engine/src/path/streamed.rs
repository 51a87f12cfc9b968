//! Reads whose results no node holds: each client reads its own, as it comes.
//!
//! ```text
//! request_held   the owner has run it, and gave up at a bound, or knows of a run that did
//! stream         the entry node runs it for its client; beyond a small part the origin waits for that client
//! ```

use std::sync::Arc;

use hopcache_core::result::StatementKind;
use hopcache_core::time::MonoTime;
use hopcache_core::turns::RunClass;

use crate::fetch::Verdict;
use crate::model::ask::Ask;
use crate::model::outcome::{Answer, FailureKind, Outcome, Reason};
use crate::path::Path;
use crate::path::request::MemoryLookup;

/// The result of a read is larger than a node holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the result is too large to be held")]
pub struct TooLargeToHold;

impl Path {
    /// As [`Path::request`], for a front that passes on what nobody can hold: by [`Path::stream`].
    ///
    /// # Errors
    /// [`TooLargeToHold`]: the statement is a read, and the client has no answer yet.
    pub async fn request_held(
        self: &Arc<Self>,
        ask: &Ask,
        came: MonoTime,
    ) -> Result<Outcome, TooLargeToHold> {
        let (hit, lookup) = self.hit_or_lookup(ask);
        let outcome = match hit {
            Some(outcome) => outcome,
            None => Box::pin(self.held_answer(ask, lookup)).await?,
        };
        if is_too_large(&outcome) && Box::pin(self.is_read(ask)).await {
            // The next request for it does not look for the bound. A run for the cache has noted it at the owner.
            self.cache.uncacheable().remember(ask.query.key, self.context.now());
            if self.may_run_again(ask) {
                return Err(TooLargeToHold);
            }
        }
        self.note_answered(ask, &outcome, came);
        Ok(outcome)
    }

    async fn held_answer(
        self: &Arc<Self>,
        ask: &Ask,
        lookup: MemoryLookup,
    ) -> Result<Outcome, TooLargeToHold> {
        match self.cached_answer(ask, lookup).await {
            Ok(outcome) => Ok(outcome),
            Err(reason) if self.has_been_too_large(ask, reason) && self.is_read(ask).await => {
                Err(TooLargeToHold)
            }
            Err(reason) => Ok(self.bypass(ask, reason).await),
        }
    }

    /// Whether the owner knows it, or this node has seen it. A request that is itself too large for the cache has said nothing of its
    /// result.
    fn has_been_too_large(&self, ask: &Ask, reason: Reason) -> bool {
        (reason == Reason::TooLarge && ask.bypass.is_none())
            || self.cache.uncacheable().contains(&ask.query.key, self.context.now())
    }

    /// Whether the server calls the statement a read. Another node may have asked for it before. Also of a text that is never cached
    /// (`date()`, `USE`).
    async fn is_read(&self, ask: &Ask) -> bool {
        let classifier = self.fetch.classifier();
        match classifier.verdict(&ask.query) {
            Verdict::Read => true,
            Verdict::Bypass(Reason::Write) => false,
            // A procedure may have done something before its result met the bound: it never runs a second time (I6).
            Verdict::Bypass(_) if ask.query.facts().may_call_procedure() => false,
            Verdict::Bypass(_) | Verdict::Unasked => {
                let word = classifier.server_word_for(&ask.query, RunClass::Bypass).await;
                word.is_ok_and(|kind| kind == StatementKind::Read)
            }
        }
    }

    /// Whether a read that has met the bound, or was cut, may run a second time for the same request. A function that no list names may
    /// do something outside of the graph, as a procedure may: only the next request streams it, by its first run.
    pub(super) fn may_run_again(&self, ask: &Ask) -> bool {
        let is_for_cache = !matches!(self.fetch.classifier().verdict(&ask.query), Verdict::Bypass(_));
        is_for_cache || ask.query.facts().calls_known_functions()
    }

    /// Runs a read whose result nobody can hold, for the one client that takes its records as they come by `ask.live`. If the run
    /// has begun, the client has its answer there, and drops this future.
    pub async fn stream(self: &Arc<Self>, ask: &Ask) -> Outcome {
        self.bypass(ask, Reason::TooLarge).await
    }
}

fn is_too_large(outcome: &Outcome) -> bool {
    matches!(&outcome.answer, Answer::Failed(failure) if matches!(failure.kind, FailureKind::TooLarge { .. }))
}
