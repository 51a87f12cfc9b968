//! How a request ended, in closed lists. One place of the node makes status codes, headers and metrics from this;
//! nothing here knows any of them.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::ReadRange;
use hopcache_core::key::QueryKey;
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_core::wire::piece;
use hopcache_core::words::Word;
use hopcache_cypher::verdict::{BypassReason, TextVerdict};

use crate::model::faults::{Neo4jFailure, OriginError, OriginFault};
use crate::model::rendering::RenderError;

/// The end of one request at its entry node.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The client's answer.
    pub answer: Answer,
    /// The reasons.
    pub how: How,
    /// The node that found it, if that was not the entry node.
    pub answered_by: Option<AnsweredBy>,
    /// The query's key.
    pub key: QueryKey,
    /// Between which transactions the answer was read, where that is known: a front makes the client's next bookmark of it.
    pub range: Option<Arc<ReadRange>>,
}

/// Another node that answered the entry node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredBy {
    /// Its name.
    pub node: NodeName,
    /// From the question to it until its answer: the way there and back, and its work.
    pub hop_ms: Millis,
}

/// The client's answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A whole result, rendered.
    Body(Bytes),
    /// No result, and the reason.
    Failed(Failure),
}

/// The source of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct How {
    /// Hit, miss or bypass: each request is exactly one of them.
    pub class: Class,
    /// Age of what is served.
    pub age_ms: Option<Millis>,
    /// Freshness left; negative for a stale answer.
    pub ttl_ms: Option<i64>,
    /// Further detail.
    pub detail: Option<Detail>,
    /// Whether what is served is proved: no transaction since its run has touched it.
    pub is_proved: bool,
}

/// Each request is counted as one of these, at its entry node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Class {
    /// Served from memory or store.
    Hit,
    /// Served from an origin run, this request's or one that it joined.
    Miss {
        /// What became of the result.
        kept: Kept,
        /// Whether this request led the run or joined it.
        role: Role,
    },
    /// Not cacheable.
    Bypass(Reason),
}

hopcache_core::words! {
    /// What became of a result.
    #[derive(serde::Serialize, serde::Deserialize)]
    pub enum Kept {
        /// The store took it.
        Stored = "stored",
        /// The store refused the token: there is a newer leader (I3). Or the store could not be asked, and the lease had
        /// ended by this node's own clock, or nothing was offered to it: there may be a newer leader (F2).
        Fenced = "fenced",
        /// It lives in this node's memory only: its key was not run before, and there is no room in the store for such keys
        /// (`hopcache_core::admission`).
        InMemory = "in_memory",
        /// It was not offered: the store is unreachable, the result is too large, the TTL is 0, its caching does not pay, or the run
        /// failed.
        Skipped = "skipped",
    }
}

impl Kept {
    /// Whether later requests are answered from the result.
    #[must_use]
    pub const fn is_kept(self) -> bool {
        matches!(self, Self::Stored | Self::InMemory)
    }
}

/// A request's part in a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Role {
    /// Its arrival began the flight.
    Led,
    /// It found one under way.
    Joined,
}

/// Why a request bypassed the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Reason {
    /// The text itself decides it.
    Text(BypassReason),
    /// The lexer or the server says that it writes.
    Write,
    /// Neo4j refused to explain the text, but ran it: treated as a write (I6).
    Unknown,
    /// `Cache-Control: no-store`.
    NoStore,
    /// The request has bookmarks that this node cannot parse.
    Bookmarks,
    /// Its result is known to be too large to store, or its parameters are.
    TooLarge,
    /// It runs in a transaction that Neo4j has begun: its own writes decide what it reads.
    Transaction,
    /// Its parameters have date-times in a form that only Bolt 4 has.
    OldBolt,
    /// It was refused before it became a query (malformed, unauthorised, over a limit).
    Rejected,
}

impl Reason {
    /// Why a text goes past the cache, if it does so whatever the server says of it.
    #[must_use]
    pub const fn of_text(lexed: TextVerdict) -> Option<Self> {
        match lexed {
            TextVerdict::Write => Some(Self::Write),
            TextVerdict::Bypass(reason) => Some(Self::Text(reason)),
            TextVerdict::PerhapsRead | TextVerdict::PerhapsReadOfParams => None,
        }
    }
}

impl Word for Reason {
    const ALL: &'static [Self] = &[
        Self::Write,
        Self::Unknown,
        Self::NoStore,
        Self::Bookmarks,
        Self::TooLarge,
        Self::Transaction,
        Self::OldBolt,
        Self::Rejected,
        Self::Text(BypassReason::Schema),
        Self::Text(BypassReason::Administration),
        Self::Text(BypassReason::Plan),
        Self::Text(BypassReason::Prefix),
        Self::Text(BypassReason::Use),
        Self::Text(BypassReason::LoadCsv),
        Self::Text(BypassReason::InTransactions),
        Self::Text(BypassReason::VolatileFunction),
        Self::Text(BypassReason::UnknownFunction),
        Self::Text(BypassReason::Procedure),
        Self::Text(BypassReason::Unterminated),
        Self::Text(BypassReason::UnicodeEscape),
        Self::Text(BypassReason::Unreadable),
        Self::Text(BypassReason::ManyStatements),
        Self::Text(BypassReason::UnknownStart),
    ];

    /// The label of `cache_bypass_total`, the `Cache-Status` detail of the bypass, and the `reason` of `explain`.
    fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Unknown => "unknown",
            Self::NoStore => "no-store",
            Self::Bookmarks => "bookmarks",
            Self::TooLarge => "too-large",
            Self::Transaction => "transaction",
            Self::OldBolt => "old-bolt",
            Self::Rejected => "rejected",
            Self::Text(reason) => reason.as_str(),
        }
    }
}

hopcache_core::words! {
    /// More about an answer, for `Cache-Status`' `detail`.
    #[derive(serde::Serialize, serde::Deserialize)]
    pub enum Detail {
        /// Past the soft TTL, within grace; a refresh is under way.
        Stale = "stale",
        /// Past the soft TTL, perhaps past grace, and the origin failed or took too long.
        StaleIfError = "stale-if-error",
        /// The store cannot be reached: one run per node that leads, kept briefly in memory only.
        Degraded = "degraded",
        /// The result is larger than an entry may be.
        TooLarge = "too-large",
        /// The store refused the result's token.
        Fenced = "fenced",
        /// The summary shows that the statement was no read.
        Updates = "updates",
        /// Caching is off (TTL 0).
        Off = "off",
        /// `only-if-cached`, and there is no entry.
        NotCached = "not-cached",
        /// The run failed.
        Failed = "failed",
        /// Another run of this key holds the lease. So this result is not stored: it is answered, and kept briefly in
        /// memory only.
        Busy = "busy",
        /// The caching of such reads does not pay: this node ran it without hop, lease and store.
        Direct = "direct",
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// Column names, if the server had named them before it failed.
    pub fields: Option<Vec<String>>,
    /// Records that came before the failure, one behind the other, for the client to see beside it.
    #[serde(with = "piece")]
    pub records: Bytes,
    /// Whether the run sent the statement to Neo4j. Nodes do not send this to each other: a question between nodes is
    /// harmless to repeat.
    #[serde(skip)]
    pub was_sent: bool,
}

/// The kinds of failure.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum FailureKind {
    /// Neo4j's own error for the statement, the database or the credentials.
    Neo4j(Neo4jFailure),
    /// Neo4j cannot be reached.
    OriginUnreachable,
    /// The connection to Neo4j broke during the run.
    OriginCut,
    /// The run's deadline passed.
    OriginTimedOut,
    /// No place for another run, flight, follower or large result.
    Overloaded,
    /// This principal already has the greatest number of waiting runs.
    TooManyRuns,
    /// The request's own deadline passed while it waited.
    DeadlinePassed,
    /// The result is over the pass-through limit.
    TooLarge {
        /// That limit.
        limit_bytes: usize,
    },
    /// A value of the result nests deeper than the client's format is written.
    TooDeep,
    /// `only-if-cached`, and there is no entry.
    NotCached,
    /// The origin's bytes were not a result.
    BadResult,
    /// The last runs of this query brought no answer, so it is held back.
    HeldBack {
        /// The rest of the pause.
        left_ms: Millis,
    },
    /// This node is leaving, and ends before the answer can come.
    Leaving,
}

impl FailureKind {
    /// Whether all requests for the same query get this failure, whoever asks and however long they wait.
    #[must_use]
    pub fn is_of_statement(&self) -> bool {
        match self {
            Self::Neo4j(said) => said.is_everybodys(),
            Self::TooLarge { .. } | Self::TooDeep | Self::BadResult => true,
            Self::OriginUnreachable
            | Self::OriginCut
            | Self::OriginTimedOut
            | Self::Overloaded
            | Self::TooManyRuns
            | Self::DeadlinePassed
            | Self::NotCached
            | Self::HeldBack { .. }
            | Self::Leaving => false,
        }
    }

    /// Whether the failure concerns the key's runs, so that all waiters get it, because another try would be held back.
    /// All requests for a key are of one principal, so its full queue is among these failures.
    #[must_use]
    pub const fn is_of_key(&self) -> bool {
        matches!(self, Self::OriginTimedOut | Self::HeldBack { .. } | Self::TooManyRuns)
    }
}

impl From<FailureKind> for Failure {
    fn from(kind: FailureKind) -> Self {
        Self { kind, fields: None, records: Bytes::new(), was_sent: false }
    }
}

impl From<RenderError> for FailureKind {
    fn from(error: RenderError) -> Self {
        match error {
            RenderError::TooLarge { limit_bytes } => Self::TooLarge { limit_bytes },
            RenderError::TooDeep => Self::TooDeep,
            RenderError::BadRecords | RenderError::Unknown(_) => Self::BadResult,
        }
    }
}

impl From<OriginFault> for FailureKind {
    fn from(fault: OriginFault) -> Self {
        match fault {
            OriginFault::Failed(said) | OriginFault::Unauthorized(said) | OriginFault::Transient(said) => {
                Self::Neo4j(said)
            }
            OriginFault::Unreachable(_) => Self::OriginUnreachable,
            OriginFault::Cut(_) => Self::OriginCut,
            OriginFault::TimedOut => Self::OriginTimedOut,
            OriginFault::Overloaded => Self::Overloaded,
            OriginFault::TooManyRuns => Self::TooManyRuns,
            OriginFault::TooLarge { limit_bytes } => Self::TooLarge { limit_bytes },
        }
    }
}

impl From<OriginError> for Failure {
    fn from(error: OriginError) -> Self {
        let kind = FailureKind::from(error.kind);
        Self { kind, fields: error.fields, records: error.records, was_sent: error.was_sent }
    }
}

impl How {
    /// Whether the answer may be older than its request: an entry that is not proved.
    #[must_use]
    pub const fn may_be_old(&self) -> bool {
        matches!(self.class, Class::Hit) && !self.is_proved
    }

    /// A miss that produced nothing to keep.
    #[must_use]
    pub const fn failed(role: Role) -> Self {
        Self::miss(Kept::Skipped, role, Some(Detail::Failed))
    }

    /// A miss.
    #[must_use]
    pub const fn miss(kept: Kept, role: Role, detail: Option<Detail>) -> Self {
        Self { class: Class::Miss { kept, role }, age_ms: None, ttl_ms: None, detail, is_proved: false }
    }

    /// A bypass.
    #[must_use]
    pub const fn bypass(reason: Reason) -> Self {
        Self { class: Class::Bypass(reason), age_ms: None, ttl_ms: None, detail: None, is_proved: false }
    }
}
