//! The end of a fetch, in one enum: the leader gives it to its followers.

use bytes::Bytes;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::time::Millis;
use hopcache_core::write_position::WritePosition;
use hopcache_cypher::forms::normal::NormalForm;

use crate::cache::copy::SharedCopy;
use crate::fetch::commit_queue::QueuedCommit;
use crate::fetch::leases::HeldLease;
use crate::model::ask::{Ask, Query};
use crate::model::job::FetchJob;
use crate::model::outcome::{Detail, Kept, Reason};
use crate::model::ports::{OriginError, OriginFault};
use crate::model::rendering::RenderingId;

/// The end of a flight, for its leader and its followers alike.
#[derive(Debug)]
pub(crate) struct FlightResult {
    whose: [u8; 32],
    /// The text that was to be run.
    text: NormalForm,
    /// The run time that the leader's client allowed.
    run_ms_max: Option<Millis>,
    /// What the leader's client had the run wait for.
    after: Bookmark,
    result: FetchResult,
}

impl FlightResult {
    /// The result of a flight that ran for this job.
    pub(crate) fn new(job: &FetchJob, result: FetchResult) -> Self {
        let after = job.bounds.after.clone();
        let (whose, text) = (job.query.identity.fingerprint, job.query.normal.clone());
        Self { whose, text, run_ms_max: job.run_ms_max, after, result }
    }

    /// The end of its fetch.
    pub(crate) fn result(&self) -> &FetchResult {
        &self.result
    }

    /// Whether the run ended at a limit that the leader's client had set while this request allows a run more time.
    /// Then the failure does not apply to this request.
    pub(crate) fn was_cut_short_for(&self, run_ms_max: Option<Millis>) -> bool {
        let is_late = matches!(
            &self.result,
            FetchResult::Failed(OriginError { kind: OriginFault::TimedOut | OriginFault::Overloaded, .. })
        );
        let allows_more = |cut: Millis| run_ms_max.is_none_or(|own| own > cut);
        is_late && self.run_ms_max.is_some_and(allows_more)
    }

    /// Whether it is a failure that does not apply to this request: of a run that waited for another client's bookmark, or of
    /// another spelling of its query.
    pub(crate) fn fails_for_other_than(&self, ask: &Ask) -> bool {
        self.waited_for_other_than(&ask.bookmarks) || self.fails_another_text(&ask.query)
    }

    /// Whether the run may have waited in vain for a bookmark of the leader's client that this request does not have. Then
    /// the failure does not apply to it.
    fn waited_for_other_than(&self, asked: &Bookmark) -> bool {
        let is_late = match &self.result {
            FetchResult::Failed(OriginError { kind, .. }) => {
                *kind == OriginFault::TimedOut || kind.is_bookmark_timeout()
            }
            _ => false,
        };
        is_late && !asked.covers(&self.after)
    }

    /// Whether Neo4j refused the statement in another spelling than this query's. Its message quotes that one.
    pub(crate) fn fails_another_text(&self, query: &Query) -> bool {
        let is_of_statement =
            matches!(&self.result, FetchResult::Failed(OriginError { kind: OriginFault::Failed(_), .. }));
        is_of_statement && self.text != query.normal
    }

    /// Whether its copy is of a run that did not carry all of these bookmarks, or that a write has ended.
    pub(crate) fn is_before(&self, asked: &Bookmark, written: Option<WritePosition>) -> bool {
        self.copy().is_some_and(|copy| !copy.covers(asked) || copy.is_ended_by(written))
    }

    /// Whether nothing is known of the transactions that its run saw: the next flight would not show them either.
    pub(crate) fn has_no_range(&self) -> bool {
        self.copy().is_some_and(|copy| copy.range().is_none())
    }

    pub(crate) fn copy(&self) -> Option<&SharedCopy> {
        match &self.result {
            FetchResult::Found(copy) | FetchResult::Stale(copy) | FetchResult::Ran { copy, .. } => Some(copy),
            FetchResult::NotARead(_) | FetchResult::Failed(_) | FetchResult::HeldBack { .. } => None,
        }
    }

    /// Whether Neo4j refused the leader's log-on, and this request has other credentials. Then the refusal does not
    /// apply to it.
    pub(crate) fn refuses_other_credentials(&self, fingerprint: &[u8; 32]) -> bool {
        let is_refusal = matches!(
            &self.result,
            FetchResult::Failed(OriginError { kind: OriginFault::Unauthorized(_), .. })
        );
        is_refusal && self.whose != *fingerprint
    }
}

/// The end of a fetch.
#[derive(Debug)]
pub(crate) enum FetchResult {
    /// The store, or a former owner, had a fresh value.
    Found(SharedCopy),
    /// The store had a stale value; a refresh goes on.
    Stale(SharedCopy),
    /// The origin ran.
    Ran {
        /// Its result.
        copy: SharedCopy,
        /// The body that all followers with the leader's rendering share, so that the copy need not keep it.
        live: Option<(RenderingId, Bytes)>,
        /// Whether it was stored.
        kept: Kept,
        /// Why it was not stored as usual.
        detail: Option<Detail>,
    },
    /// The server has not confirmed a read: each request runs for itself.
    NotARead(Reason),
    /// The run failed. With [`OriginFault::Failed`] it is the statement's own error.
    Failed(OriginError),
    /// Nothing was run: the key is held back, because its last runs brought no answer.
    HeldBack {
        /// The rest of the pause.
        left_ms: Millis,
    },
}

impl FetchResult {
    /// The same result, of which this has become.
    pub(super) fn kept(self, (kept, detail): (Kept, Option<Detail>)) -> Self {
        match self {
            Self::Ran { copy, live, .. } => Self::Ran { copy, live, kept, detail },
            other => other,
        }
    }

    /// Whether the server refuses to give an older value now.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Failed(error) if error.kind.refuses_statement())
    }

    /// Whether the fetch sent a statement to the origin.
    pub(crate) fn was_run(&self) -> bool {
        match self {
            Self::Ran { .. } => true,
            Self::Failed(error) => error.was_sent,
            Self::Found(_) | Self::Stale(_) | Self::NotARead(_) | Self::HeldBack { .. } => false,
        }
    }

    /// Whether a failure comes from the leader's circumstances, not from the statement.
    pub(crate) fn is_leaders_luck(&self) -> bool {
        let Self::Failed(error) = self else { return false };
        match error.kind {
            // All requests for a key are of one principal, so its full queue concerns all of them.
            OriginFault::Failed(_)
            | OriginFault::TooLarge { .. }
            | OriginFault::TimedOut
            | OriginFault::TooManyRuns
            // For other credentials see `refuses_other_credentials`.
            | OriginFault::Unauthorized(_) => false,
            OriginFault::Transient(_)
            | OriginFault::Unreachable(_)
            | OriginFault::Cut(_)
            | OriginFault::Overloaded => true,
        }
    }
}

/// Why nothing was fetched, by the terms of the fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FetchRefusal {
    /// Another node holds the lease, for longer than this fetch waits.
    Busy,
    /// The store did not answer.
    NoStore,
    /// The gate before the run was closed.
    Closed,
}

/// The end of a fetch, with the lease if one is left.
#[derive(Debug)]
pub(crate) struct FetchEnd {
    result: Result<FetchResult, FetchRefusal>,
    /// The lease that was won, for the refresh of a stale result.
    lease: Option<HeldLease>,
    /// The commit that waits until the result is kept.
    commit: Option<QueuedCommit>,
    is_leased: bool,
}

impl FetchEnd {
    pub(super) fn new(result: FetchResult) -> Self {
        Self { result: Ok(result), lease: None, commit: None, is_leased: true }
    }

    pub(super) fn unleased(result: FetchResult) -> Self {
        Self { is_leased: false, ..Self::new(result) }
    }

    pub(super) fn stale(copy: SharedCopy, lease: HeldLease) -> Self {
        Self { lease: Some(lease), ..Self::new(FetchResult::Stale(copy)) }
    }

    pub(super) fn nothing(why: FetchRefusal) -> Self {
        Self { result: Err(why), lease: None, commit: None, is_leased: why != FetchRefusal::NoStore }
    }

    pub(super) fn with_commit(self, commit: QueuedCommit) -> Self {
        Self { commit: Some(commit), ..self }
    }

    /// Takes the commit that waits until the result is kept, for [`Fetch::keep`](super::Fetch::keep).
    pub(crate) fn take_commit(&mut self) -> Option<QueuedCommit> {
        self.commit.take()
    }

    /// The copy that it brought, unless it is rendered already for those who wait.
    pub(super) fn copy_to_render(&self) -> Option<&SharedCopy> {
        match self.result.as_ref().ok()? {
            FetchResult::Ran { live: Some(_), .. } => None,
            FetchResult::Found(copy) | FetchResult::Stale(copy) | FetchResult::Ran { copy, .. } => Some(copy),
            FetchResult::NotARead(_) | FetchResult::Failed(_) | FetchResult::HeldBack { .. } => None,
        }
    }

    /// Whether the store decided which node may run.
    pub(crate) fn is_leased(&self) -> bool {
        self.is_leased
    }

    /// Takes the lease for the refresh of a stale value.
    pub(crate) fn take_lease(&mut self) -> Option<HeldLease> {
        self.lease.take()
    }

    /// The result, or why there is none. A lease that was not taken is given back, and so is that of a commit.
    pub(crate) fn result(self) -> Result<FetchResult, FetchRefusal> {
        self.result
    }

    /// The result for a waiting client: a lease that stays held elsewhere is an overload.
    pub(crate) fn result_for_client(self) -> FetchResult {
        self.result.unwrap_or_else(|_| FetchResult::Failed(OriginFault::Overloaded.into()))
    }
}
