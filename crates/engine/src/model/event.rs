//! Events inside an engine, in closed lists: they define the counters.
//!
//! Nothing here counts. The observer port does.

use hopcache_core::proof::Finding;
use hopcache_core::time::Millis;
use hopcache_learning::gain::CandidateKind;

use crate::model::faults::{OriginFault, PeerError};
use crate::model::order::Skip;
use crate::model::outcome::Kept;

/// An event inside an engine, for metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// A run at the origin ended, well or not. A run that was never sent does not count.
    OriginRun {
        /// The purpose of the run.
        cause: Cause,
        /// How long it took.
        took_ms: Millis,
    },
    /// The origin failed a run, or the question about what a statement is.
    OriginFault(FaultWord),
    /// A result was offered to the store.
    Commit(Kept),
    /// The store granted a lease.
    LeaseGrant(hopcache_core::lease::GrantKind),
    /// The store answered that another node leads.
    LeaseBusy,
    /// A forward to another node ended.
    Forward(ForwardWord),
    /// A request joined a flight.
    Joined,
    /// A flight, or a shared forward that a run answered, landed.
    Landed {
        /// Followers, without its own leading request.
        followers: u32,
    },
    /// The store failed a command.
    StoreFault,
    /// The breaker of a peer changed to this state.
    PeerBreaker(hopcache_core::breaker::BreakerState),
    /// A retry was over the budget and refused.
    RetryRefused,
    /// A read was run directly, because its caching does not pay.
    RunDirectly,
    /// A run was never sent, because the origin had no place for it.
    Shed(hopcache_core::turns::RunClass),
    /// A flight, or a request's own read, ended without a run: its key is held back.
    HeldBack,
    /// A stale copy was served.
    StaleServed,
    /// An entry is served past its TTL for the first time, because it is proved.
    Revalidated,
    /// A key was read again, where TTLs follow from the changes of answers.
    ReadAnew {
        /// Whether its answer is another than before.
        has_changed: bool,
    },
    /// A watcher has found this about the transactions of its database.
    Watched(Finding),
    /// A background refresh began, ended well, or failed.
    Refresh(RefreshWord),
    /// A hot key is read anew because a write has ended its copy. It counts as a refresh too.
    ReadAfterWrite,
    /// A refresh ended, well or not, this long after it was triggered.
    RefreshTook(Millis),
    /// A request found a copy past its soft TTL for the first time, and was served it stale; or, soon after the copy's
    /// expiry, a run had to replace it. No refresh came in time.
    Late,
    /// A near copy of a key that another node owns was served.
    NearHit,
    /// A read of a transaction that may write was answered with an entry.
    WriteAccessHit,
    /// This node lexed the text of a client's statement.
    StatementLexed,
    /// Something was handed over, or not, when a key moved or a node left.
    Handover(HandoverWord),
    /// The server was asked for the degree of a graph node, well or not.
    DegreeAsked {
        /// Whether it answered with one.
        is_known: bool,
    },
    /// Observations of this fate, and their number.
    Observed(ObservationWord, u32),
    /// Parts of other nodes' lessons with this fate, and their number.
    Shared(ShareWord, u32),
    /// A prefetch began, ended, or was skipped.
    Prefetch(PrefetchWord),
    /// Entries were ended.
    Invalidation(InvalidationWord),
}

hopcache_core::words! {
    /// What ended entries.
    pub enum InvalidationWord {
        /// A write through this node.
        OwnWrite = "own_write",
        /// A write past all nodes, which somebody told, Neo4j's change data capture showed, or a watcher noticed. In the last
        /// case entries live on, and only their proofs end.
        ForeignWrite = "foreign_write",
        /// A purge that an operator has ordered at this node.
        Purge = "purge",
        /// Everything of a database, or of all, was emptied, as nobody knows what a write has changed: after a change of users or
        /// rights, a write that names its graph, a restore.
        Emptied = "emptied",
    }
}

/// The fate of a prefetch. Launched = used + late + wasted + pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetchWord {
    /// Its run began.
    Launched(CandidateKind),
    /// A demand request was answered with its copy.
    Used(CandidateKind),
    /// A demand request joined its flight.
    Late(CandidateKind),
    /// It ended otherwise.
    Wasted(CandidateKind),
    /// It was not launched.
    Skipped(Skip),
}

hopcache_core::words! {
    /// The purpose of a run.
    pub enum Cause {
        /// A miss.
        Miss = "miss",
        /// A refresh.
        Refresh = "refresh",
        /// A write.
        Write = "write",
        /// Another request that bypasses the cache.
        Bypass = "bypass",
        /// A prefetch.
        Prefetch = "prefetch",
    }
}

hopcache_core::words! {
    /// How a run failed.
    pub enum FaultWord {
        /// The server refused the statement.
        Failed = "failed",
        /// The server refused the credentials.
        Unauthorized = "unauthorized",
        /// A transient error according to the server.
        Transient = "transient",
        /// No connection.
        Unreachable = "unreachable",
        /// The connection broke.
        Cut = "cut",
        /// Too slow.
        TimedOut = "timed_out",
        /// No free slot, or no room for the result.
        Overloaded = "overloaded",
        /// Too large.
        TooLarge = "too_large",
        /// Over the principal's share of the queue.
        TooManyRuns = "too_many_runs",
    }
}

impl From<&OriginFault> for FaultWord {
    fn from(fault: &OriginFault) -> Self {
        match fault {
            OriginFault::Failed(_) => Self::Failed,
            OriginFault::Unauthorized(_) => Self::Unauthorized,
            OriginFault::Transient(_) => Self::Transient,
            OriginFault::Unreachable(_) => Self::Unreachable,
            OriginFault::Cut(_) => Self::Cut,
            OriginFault::TimedOut => Self::TimedOut,
            OriginFault::Overloaded => Self::Overloaded,
            OriginFault::TooLarge { .. } => Self::TooLarge,
            OriginFault::TooManyRuns => Self::TooManyRuns,
        }
    }
}

hopcache_core::words! {
    /// How a forward ended.
    pub enum ForwardWord {
        /// With an answer.
        Answered = "answered",
        /// Refused or reset.
        Gone = "gone",
        /// Without an answer in time.
        TimedOut = "timed_out",
        /// With a refusal.
        Refused = "refused",
        /// Not sent: the peer's breaker is open.
        LeftOut = "left_out",
    }
}

impl<T> From<&Result<T, PeerError>> for ForwardWord {
    fn from(answer: &Result<T, PeerError>) -> Self {
        match answer {
            Ok(_) => Self::Answered,
            Err(PeerError::Gone(_)) => Self::Gone,
            Err(PeerError::TimedOut) => Self::TimedOut,
            Err(PeerError::Refused(_)) => Self::Refused,
        }
    }
}

/// The handover of keys when the ring changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandoverWord {
    /// A key's new owner got the value from a former owner's memory, and ran nothing.
    Fetched,
    /// A former owner was asked and had no value.
    Absent,
    /// A former owner could not be asked.
    Unreached,
    /// A former owner gave a value from its memory.
    Given,
    /// A node gave new owners the facts (cost and rate) of this many keys.
    Notified(u32),
    /// A new owner took over the facts of this many keys.
    Learned(u32),
    /// A request that waited for a flight of a leaving node was sent to the key's new owner.
    HandedOn,
}

/// The course of a refresh. Triggered = completed + failed + under way (it waits for a worker, runs, or sleeps before
/// its next try). A retry is another try of the same refresh. A dropped one never began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshWord {
    /// It has a worker, or a place in the queue.
    Triggered,
    /// It brought a newer value.
    Completed,
    /// It brought no newer value, because of the origin, the store, an invalidation that came first, or a shutdown. The
    /// stale copy stays, unless the server refuses to give it now.
    Failed,
    /// A try failed, and the next try begins.
    Retried,
    /// The queue had no room for it. Refreshes that a shutdown refuses do not count.
    Dropped,
}

hopcache_core::words! {
    /// The fate of observations of answered requests, at their entry node or at the owner of their session.
    pub enum ObservationWord {
        /// Sent to the owner of their session, or this node is the owner.
        Sent = "sent",
        /// The entry node's queue was full.
        Dropped = "dropped",
        /// The query is too long to be learned.
        TooLong = "too_long",
        /// Its session asked more often than a client that waits for answers can.
        Crowded = "crowded",
        /// The owner of their session could not be reached.
        Unreached = "unreached",
        /// Taken by the owner of their session.
        Taken = "taken",
        /// The owner's queue was full.
        Refused = "refused",
        /// Came after another of their session, and were learned from.
        Learned = "learned",
        /// Taken, but not used for candidates: too many others waited for fields.
        Unconsidered = "unconsidered",
    }
}

hopcache_core::words! {
    /// The fate of lessons that nodes share.
    pub enum ShareWord {
        /// A piece was spread.
        Spread = "spread",
        /// A piece could not be spread; pulls transfer its content.
        Unspread = "unspread",
        /// A count or a definition was news.
        Merged = "merged",
        /// It was known already, or is out of date.
        Known = "known",
        /// It found no room here: of more patterns and followers than a node keeps, each node keeps some.
        Unkept = "unkept",
        /// A piece or a page was refused: unreadable, forged, or of a node whose clock cannot be right.
        Refused = "refused",
        /// A page was pulled from a node.
        Pulled = "pulled",
        /// A node that was asked for a page did not answer.
        Unreached = "unreached",
    }
}
