//! What happens inside an engine, in words from closed lists: counters are defined by these words.
//!
//! Nothing here counts. The observer port does.

use hopcache_core::time::Millis;
use hopcache_learning::gain::CandidateKind;

use crate::model::faults::OriginFault;
use crate::model::order::Skip;
use crate::model::outcome::Kept;

/// Something that happened inside, for metrics. Counters are defined by these words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// A run at the origin ended, well or not. One that was never sent there is none.
    OriginRun {
        /// What for.
        cause: Cause,
        /// How long it took.
        took_ms: Millis,
    },
    /// The origin failed a run, or the question what a statement is.
    OriginFault(FaultWord),
    /// A result was offered to the store.
    Commit(Kept),
    /// The store granted a lease.
    LeaseGrant(hopcache_core::lease::GrantKind),
    /// The store said that somebody else leads.
    LeaseBusy,
    /// A forward to another node ended.
    Forward(ForwardWord),
    /// A request joined a flight.
    Joined,
    /// A flight, or a shared forward that a run answered, landed with so many followers.
    Landed {
        /// Followers, its own leading request not counted.
        followers: u32,
    },
    /// The store failed a command.
    StoreFault,
    /// The breaker of a peer came into a state.
    PeerBreaker(hopcache_core::breaker::BreakerState),
    /// A second try was over the budget and left out.
    RetryRefused,
    /// A run was never sent, for want of a place at the origin.
    Shed(hopcache_core::turns::RunClass),
    /// A flight, or a read of one request's own, ended without a run: its key is held back.
    HeldBack,
    /// A stale copy was served.
    StaleServed,
    /// A background refresh began, ended well, or failed.
    Refresh(RefreshWord),
    /// A refresh ended, well or not, so long after it was triggered.
    RefreshTook(Millis),
    /// A copy whose soft TTL was over was met for the first time, and served stale; or, soon after its expiry, a run
    /// had to take its place. No refresh came in time.
    Late,
    /// A near copy of a key that another node owns was served.
    NearHit,
    /// The text of a client's statement was walked over.
    StatementLexed,
    /// Something was handed over, or not, when a key moved or a node left.
    Handover(HandoverWord),
    /// The server was asked for the degree of a graph node, well or not.
    DegreeAsked {
        /// Whether it said one.
        is_known: bool,
    },
    /// So many observations.
    Observed(ObservationWord, u32),
    /// So many parts of what other nodes have learned.
    Shared(ShareWord, u32),
    /// A prefetch began, ended, or was left out.
    Prefetch(PrefetchWord),
}

/// What became of a prefetch. What was launched is what was used, late and wasted, and what is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetchWord {
    /// Its run began.
    Launched(CandidateKind),
    /// A demand request was answered with what it brought.
    Used(CandidateKind),
    /// A demand request joined its flight.
    Late(CandidateKind),
    /// It ended otherwise.
    Wasted(CandidateKind),
    /// It was not launched.
    Skipped(Skip),
}

/// What a run was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A miss.
    Miss,
    /// A refresh.
    Refresh,
    /// A write.
    Write,
    /// Another request that passes the cache by.
    Bypass,
    /// A prefetch.
    Prefetch,
}

/// How a run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultWord {
    /// The server refused the statement.
    Failed,
    /// The server refused the credentials.
    Unauthorized,
    /// A transient error by the server's word.
    Transient,
    /// No connection.
    Unreachable,
    /// The connection broke.
    Cut,
    /// Too slow.
    TimedOut,
    /// No free slot, or no room for the result.
    Overloaded,
    /// Too large.
    TooLarge,
    /// Over the principal's share of the queue.
    TooManyRuns,
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

/// How a forward ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardWord {
    /// With an answer.
    Answered,
    /// Refused or reset.
    Gone,
    /// Without an answer in time.
    TimedOut,
    /// With a refusal.
    Refused,
    /// Not at all: the peer is left out for now.
    LeftOut,
}

/// What was handed over when the ring changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandoverWord {
    /// A key's new owner got the value from a former owner's memory, and ran nothing.
    Fetched,
    /// A former owner was asked and had none.
    Absent,
    /// A former owner could not be asked.
    Unreached,
    /// A former owner gave a value from its memory.
    Given,
    /// A node told new owners what it knew of the cost and rate of so many keys.
    Notified(u32),
    /// A new owner took note of what it was told of so many keys.
    Learned(u32),
    /// A request that waited for a flight of a leaving node was sent to the key's new owner.
    HandedOn,
}

/// How a refresh went. What was triggered is what was completed, what failed, and what is under way (waits for a
/// worker, runs, or sleeps before its next try). A retry is another try of the same; what was dropped never began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshWord {
    /// It has a worker, or a place in the queue.
    Triggered,
    /// It brought a newer value.
    Completed,
    /// It did not, whether by the origin, the store, an invalidation that came first, or a shutdown. The stale copy
    /// stays, unless the server says that it would not give it any more.
    Failed,
    /// It failed, and now it is tried once more by itself.
    Retried,
    /// There was no room for it in the queue; not what a shutdown turns away.
    Dropped,
}

/// What became of observations of answered requests, at their entry node or at the owner of their session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservationWord {
    /// Told to the owner of their session, or this node is it.
    Sent,
    /// More waited at the entry node than may.
    Dropped,
    /// Of a query that is too long to be learned.
    TooLong,
    /// Of a session that asked more often than anybody who waits for answers.
    Crowded,
    /// The owner of their session could not be told.
    Unreached,
    /// Taken by the owner of their session.
    Taken,
    /// More waited at the owner of their session than may.
    Refused,
    /// Came after another of their session, and were learned.
    Learned,
    /// Taken, but nobody looked for what may follow: the fields of too many others were waited for.
    Unconsidered,
}

impl ObservationWord {
    /// As operators read them, each at its [`ObservationWord::place`].
    pub const NAMES: [&str; 9] = [
        "sent",
        "dropped",
        "too_long",
        "crowded",
        "unreached",
        "taken",
        "refused",
        "learned",
        "unconsidered",
    ];

    /// Its place in [`ObservationWord::NAMES`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }
}

/// What became of what nodes tell each other of what they have learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareWord {
    /// A piece was spread.
    Spread,
    /// A piece could not be spread; what it said is pulled.
    Unspread,
    /// A count or a definition was news.
    Merged,
    /// It was not, or not any more.
    Known,
    /// A piece or a page was refused: unreadable, of another version, or over a bound.
    Refused,
    /// A page was pulled from a node.
    Pulled,
    /// A node that was asked for a page did not answer.
    Unreached,
}

impl ShareWord {
    /// As operators read them, each at its [`ShareWord::place`].
    pub const NAMES: [&str; 7] = ["spread", "unspread", "merged", "known", "refused", "pulled", "unreached"];

    /// Its place in [`ShareWord::NAMES`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A label that moved would count something else under an old name.
    #[test]
    fn each_word_is_at_its_place() {
        for (word, name) in [
            (ObservationWord::Sent, "sent"),
            (ObservationWord::Dropped, "dropped"),
            (ObservationWord::TooLong, "too_long"),
            (ObservationWord::Crowded, "crowded"),
            (ObservationWord::Unreached, "unreached"),
            (ObservationWord::Taken, "taken"),
            (ObservationWord::Refused, "refused"),
            (ObservationWord::Learned, "learned"),
            (ObservationWord::Unconsidered, "unconsidered"),
        ] {
            assert_eq!(ObservationWord::NAMES[word.place()], name);
        }
        for (word, name) in [
            (ShareWord::Spread, "spread"),
            (ShareWord::Unspread, "unspread"),
            (ShareWord::Merged, "merged"),
            (ShareWord::Known, "known"),
            (ShareWord::Refused, "refused"),
            (ShareWord::Pulled, "pulled"),
            (ShareWord::Unreached, "unreached"),
        ] {
            assert_eq!(ShareWord::NAMES[word.place()], name);
        }
    }
}
