//! The terms of a fetch: the differences between a miss, a `no-cache` request, a refresh and a prefetch. Everything
//! else is the same for all of them.
//!
//! | | waits for another's lease | without a lease | back-off | former owner | sheds early | answers before the commit |
//! |---|---|---|---|---|---|---|
//! | miss | a run and a lease long | runs if the store is silent | answers from the store | asked | yes | yes |
//! | `no-cache` | no | runs | answers from the store | no | no | no |
//! | refresh | until its deadline | gives up | stops | no | no | no |
//! | refresh with a lease | – | – | not asked | no | no | no |
//! | prefetch | no | gives up | the caller has looked | no: its value would be taken for used | no | yes |

use std::sync::Arc;

use hopcache_core::time::MonoTime;

use crate::cache::Provenance;
use crate::fetch::leases::HeldLease;

/// The terms of one fetch.
pub(crate) struct Terms<'a> {
    pub(super) lease: LeaseTerms,
    pub(super) without_lease: WithoutLease,
    pub(super) back_off: BackOffTerms,
    pub(super) asks_former_owner: bool,
    pub(super) sheds_early: bool,
    /// Whether the commit may wait (`fetch::commit_queue`).
    pub(super) commits_later: bool,
    pub(super) gate: Option<&'a dyn Gate>,
}

/// How the fetch gets its lease.
#[derive(Debug)]
pub(super) enum LeaseTerms {
    /// Competes, and waits for the holder until this time.
    WaitUntil(MonoTime),
    /// Asks the store, and does not wait for another holder.
    Once,
    /// It holds the lease already.
    Held(HeldLease),
}

/// The action when the store grants no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WithoutLease {
    /// Runs if the store is silent; gives up if another node holds the lease.
    RunIfStoreIsSilent,
    /// Runs anyway; the result is answered and not stored.
    Run,
    /// Runs nothing.
    GiveUp,
}

/// The action when the key's failed runs hold it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackOffTerms {
    /// Answers from the store if its entry qualifies.
    AnswerFromStore,
    /// Ends without a run.
    Stop,
    /// Goes on: the caller has looked, or holds the lease already.
    Ignore,
}

/// The last decision before a run under a lease.
pub(crate) trait Gate: Sync {
    /// Returns the provenance of the copy if the gate opens: the run begins now. `None` keeps it closed: the lease is
    /// given back.
    fn open(&self) -> Option<Arc<dyn Provenance>>;
}

impl<'a> Terms<'a> {
    /// A miss waits for another node's run, and for its lease to lapse.
    pub(crate) fn miss(give_up_at: MonoTime) -> Self {
        Self {
            lease: LeaseTerms::WaitUntil(give_up_at),
            without_lease: WithoutLease::RunIfStoreIsSilent,
            back_off: BackOffTerms::AnswerFromStore,
            asks_former_owner: true,
            sheds_early: true,
            commits_later: true,
            gate: None,
        }
    }

    /// `no-cache`: a read that begins after the request came.
    pub(crate) fn no_cache() -> Self {
        Self {
            lease: LeaseTerms::Once,
            without_lease: WithoutLease::Run,
            asks_former_owner: false,
            sheds_early: false,
            commits_later: false,
            ..Self::miss(MonoTime::default())
        }
    }

    /// A refresh without a lease yet.
    pub(crate) fn refresh(until: MonoTime) -> Self {
        Self {
            lease: LeaseTerms::WaitUntil(until),
            without_lease: WithoutLease::GiveUp,
            back_off: BackOffTerms::Stop,
            asks_former_owner: false,
            sheds_early: false,
            commits_later: false,
            gate: None,
        }
    }

    /// A refresh with the lease that a flight won.
    pub(crate) fn refresh_with(lease: HeldLease) -> Self {
        Self {
            lease: LeaseTerms::Held(lease),
            back_off: BackOffTerms::Ignore,
            ..Self::refresh(MonoTime::default())
        }
    }

    /// A prefetch: launched when the gate opens.
    pub(crate) fn prefetch(gate: &'a dyn Gate) -> Self {
        Self {
            lease: LeaseTerms::Once,
            back_off: BackOffTerms::Ignore,
            commits_later: true,
            gate: Some(gate),
            ..Self::refresh(MonoTime::default())
        }
    }
}
