//! The end of a run's lease at the store: with an entry, or without one. The store compares the token (I3).
//!
//! | the store | the result |
//! |---|---|
//! | has stored the entry, or has taken the lease back | is kept |
//! | refuses the token: another leader, or a purge | is not kept (I3, F2) |
//! | does not answer, and the lease lasts | is kept briefly: no token fences it (F7) |
//! | does not answer, and the lease has ended, or was to be given back | is not kept (F2) |

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use hopcache_core::lease::{SlotView, Token};
use hopcache_core::limits::COMMITS_PEEKED_AT_A_TIME;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::copy::SharedCopy;
use crate::fetch::commit_queue::CommitQueue;
use crate::model::ask::Query;
use crate::model::outcome::{Detail, Kept};
use crate::model::ports::{LeaseEnd, Store, StoreError};

/// What has become of a result, and why.
pub(super) type Ended = (Kept, Option<Detail>);

/// What a run under a lease offers to the store.
pub(super) enum StoreOffer {
    /// An entry.
    Entry(Bytes),
    /// Nothing: it would not fit into an entry.
    TooLarge,
    /// Nothing: it is not worth its room (`admission`), or an invalidation has covered it.
    Nothing,
}

/// A run whose lease ends.
pub(super) struct EndedRun {
    pub(super) query: Arc<Query>,
    pub(super) token: Token,
    /// `None` only where nothing is offered.
    pub(super) copy: Option<SharedCopy>,
    pub(super) offered: StoreOffer,
}

impl EndedRun {
    /// The command at this time. Age counts from the start of the read. So the run's time is already spent (I4), and so is the
    /// time for which a silent store delayed the second try.
    fn command(&self, now: MonoTime) -> LeaseEnd {
        let (key, token) = (self.query.key, self.token);
        let Some(copy) = &self.copy else { return LeaseEnd { key, token, entry: None } };
        debug_assert_eq!(copy.token(), Some(token), "I3: a copy is committed with the token of its run");
        let times = copy.times();
        // `entry::Head::read` requires this order of every entry.
        let is_in_order = times.soft_ms <= times.physical_ms && times.physical_ms <= times.total_ms;
        debug_assert!(is_in_order, "I4: {times:?}");
        let left_ms = times.total_ms.saturating_sub(now.since(times.read_started));
        let entry = match &self.offered {
            StoreOffer::Entry(bytes) if left_ms > Millis::ZERO => Some((bytes.clone(), left_ms)),
            StoreOffer::Entry(_) | StoreOffer::TooLarge | StoreOffer::Nothing => None,
        };
        LeaseEnd { key, token, entry }
    }

    /// What has become of its result when the store has taken the lease back; `is_stored`: together with an entry.
    fn well(&self, is_stored: bool) -> Ended {
        match self.offered {
            StoreOffer::Entry(_) if is_stored => (Kept::Stored, None),
            // Its life was over.
            StoreOffer::Entry(_) => (Kept::Skipped, None),
            StoreOffer::TooLarge => (Kept::Skipped, Some(Detail::TooLarge)),
            StoreOffer::Nothing => (Kept::InMemory, None),
        }
    }
}

impl CommitQueue {
    /// Ends leases together, and tells of each one as soon as its answer is in. An entry that meets silence is sent once more.
    pub(super) async fn end(&self, runs: &[EndedRun], mut tell: impl FnMut(usize, Ended)) {
        let now = self.context.now();
        let sent: Vec<LeaseEnd> = runs.iter().map(|run| run.command(now)).collect();
        let mut answers = self.store.end_leases(&sent).await;
        // One answer for each end, by the port's contract. An end without one is a silence.
        answers.resize(runs.len(), Err(StoreError::TimedOut));
        let mut silent = Vec::new();
        for (at, answer) in answers.into_iter().enumerate() {
            let has_entry = sent[at].entry.is_some();
            if has_entry && answer == Err(StoreError::TimedOut) {
                silent.push(at);
            } else {
                tell(at, ended_by(&runs[at], has_entry, answer));
            }
        }
        if !silent.is_empty() {
            self.end_again(runs, &silent, tell).await;
        }
    }

    async fn end_again(&self, runs: &[EndedRun], silent: &[usize], mut tell: impl FnMut(usize, Ended)) {
        let now = self.context.now();
        let sent: Vec<LeaseEnd> = silent.iter().map(|at| runs[*at].command(now)).collect();
        let mut answers = self.store.end_leases(&sent).await;
        answers.resize(silent.len(), Err(StoreError::TimedOut));
        let mut refused = Vec::new();
        for ((at, command), answer) in silent.iter().copied().zip(sent).zip(answers) {
            if answer == Ok(false) {
                refused.push(at);
            } else {
                tell(at, ended_by(&runs[at], command.entry.is_some(), answer));
            }
        }
        // Side by side: what waits in the queue waits for all of them.
        let asked = refused.into_iter().map(async |at| (at, self.whose_commit(&runs[at]).await));
        let mut asked = futures_util::stream::iter(asked).buffer_unordered(COMMITS_PEEKED_AT_A_TIME);
        while let Some((at, ended)) = asked.next().await {
            tell(at, ended);
        }
    }

    /// The second commit, after a silent first one, was refused. Either the first was carried out and ended the lease,
    /// or the lease was lost. The stored entry shows which.
    async fn whose_commit(&self, run: &EndedRun) -> Ended {
        let asked = self.context.now();
        match self.store.peek(&run.query.key).await {
            Ok(SlotView { entry: Some(stored), .. }) => {
                let copy = self.cache.decode(&run.query, &stored, asked, None).await;
                if copy.is_some_and(|copy| copy.token() == Some(run.token)) {
                    (Kept::Stored, None)
                } else {
                    (Kept::Fenced, Some(Detail::Fenced))
                }
            }
            Ok(_) => (Kept::Fenced, Some(Detail::Fenced)),
            Err(_) => (Kept::Skipped, Some(Detail::Degraded)),
        }
    }
}

/// What has become of a result by the store's answer.
fn ended_by(run: &EndedRun, has_entry: bool, answer: Result<bool, StoreError>) -> Ended {
    match answer {
        Ok(true) => run.well(has_entry),
        Ok(false) => (Kept::Fenced, Some(Detail::Fenced)),
        // Without an answer the result is not kept either:
        //   we read X · our lease is given back, and the answer is lost · another node gets the lease, reads Y and stores it.
        Err(_) if !has_entry => (Kept::Fenced, Some(Detail::Degraded)),
        Err(_) => (Kept::Skipped, Some(Detail::Degraded)),
    }
}

/// The store cannot tell whether there is a newer leader, and by this node's clock there may be one:
///   we read X · we are stopped or cut off past our lease · another node leads and reads Y · we go on without the store.
/// The waiters get X. If X were kept, it would answer later requests (F2).
pub(super) fn or_lapsed(ended: Ended, has_lapsed: bool) -> Ended {
    match ended {
        (_, Some(Detail::Degraded)) if has_lapsed => (Kept::Fenced, Some(Detail::Degraded)),
        ended => ended,
    }
}
