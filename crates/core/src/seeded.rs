//! Bugs that are built in on purpose, to prove that the simulator's checkers catch them.
//!
//! The module exists only under `--cfg hopcache_seeded`, and so does every line that asks it: nothing of it is in
//! a usual build. One bug at a time is chosen for the calling thread; a simulated cluster lives in one.

use std::cell::Cell;

/// A bug of FAULTS.md's list ("Bugs to seed").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bug {
    /// The store's release looks first and deletes later, whoever's lease is there by then.
    ReleaseGetThenDel,
    /// The store's commit takes a token whose counter is not below the current one.
    FenceByOrder,
    /// The store's commit looks at the lease first and writes later.
    FenceNotAtomic,
    /// An invalidation removes the entry and leaves the lease.
    InvalidationLeavesLease,
    /// A lease's age is read off the asking node's clock.
    LeaseByNodeClock,
    /// A leader is cancelled with the client that began it.
    LeaderOfItsClient,
    /// Who has waited for the lease for long runs without it.
    UnlockedAfterWait,
    /// Who lost its leader runs without a lease.
    UnlockedAfterLoss,
    /// A forwarded request joins what waits on a forward.
    ForwardedJoinsForward,
    /// A forwarded request is forwarded again.
    NoHopLimit,
    /// An entry's life in the store counts from its commit, not from the read.
    LifeFromCommit,
    /// A failed run is kept as an empty result.
    ErrorStored,
    /// The key leaves out who asks.
    KeyWithoutPrincipal,
    /// The key leaves out the database.
    KeyWithoutDatabase,
    /// What came before the connection broke is kept as the result.
    TruncatedStored,
    /// Refused connections do not take a member out of the ring.
    DeadMemberKept,
    /// A refresh runs without asking for a lease.
    RefreshWithoutLease,
    /// A near copy is answered with for as long as one may live, whatever its entry has left.
    NearCopyOutlivesEntry,
    /// The key depends on the order in which the parameters came.
    KeyByParamsOrder,
    /// A refresh that is tried again is counted as one more that was triggered.
    RetryCountedAgain,
    /// A member that drains owns keys for as long as it answers.
    DrainingMemberKept,
    /// Who was only heard of by gossip is routed to.
    GossipAdmits,
    /// A holder whose connections broke is taken for alive while probes of its address meet silence. Shown by a schedule of its
    /// own: seeds seldom kill a holder whose lease is long enough for anybody to wait, and what they check is not how long.
    SilentHolderAwaited,
    /// A holder whose address is silent is taken for dead.
    SilentHolderRobbed,
    /// What a former owner gave is committed under the new owner's lease.
    FetchedCommitted,
    /// A node that leaves keeps its leases.
    LeasesKeptAtLeave,
    /// Gossip about successors tells what came since the last message, not what was counted so far.
    IncrementsGossiped,
    /// A node that started again counts successors in the same life as before.
    LifeReused,
    /// What one principal's sessions teach is found by another's.
    PrefetchCrossesPrincipals,
    /// A prefetch is observed like a request, and brings about another one.
    PrefetchRecursive,
}

impl Bug {
    /// All that seeds show.
    pub const ALL: [Self; 29] = [
        Self::ReleaseGetThenDel,
        Self::FenceByOrder,
        Self::FenceNotAtomic,
        Self::InvalidationLeavesLease,
        Self::LeaseByNodeClock,
        Self::LeaderOfItsClient,
        Self::UnlockedAfterWait,
        Self::UnlockedAfterLoss,
        Self::ForwardedJoinsForward,
        Self::NoHopLimit,
        Self::LifeFromCommit,
        Self::ErrorStored,
        Self::KeyWithoutPrincipal,
        Self::KeyWithoutDatabase,
        Self::TruncatedStored,
        Self::DeadMemberKept,
        Self::RefreshWithoutLease,
        Self::NearCopyOutlivesEntry,
        Self::KeyByParamsOrder,
        Self::RetryCountedAgain,
        Self::DrainingMemberKept,
        Self::GossipAdmits,
        Self::SilentHolderRobbed,
        Self::FetchedCommitted,
        Self::LeasesKeptAtLeave,
        Self::IncrementsGossiped,
        Self::LifeReused,
        Self::PrefetchCrossesPrincipals,
        Self::PrefetchRecursive,
    ];
}

thread_local! {
    static CHOSEN: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Chooses the bug that this thread's code has from now on.
pub fn choose(bug: Option<Bug>) {
    CHOSEN.set(bug);
    hopcache_packstream::seeded::keep_order(bug == Some(Bug::KeyByParamsOrder));
}

/// Whether this thread's code has this bug.
#[must_use]
pub fn has(bug: Bug) -> bool {
    CHOSEN.get() == Some(bug)
}
