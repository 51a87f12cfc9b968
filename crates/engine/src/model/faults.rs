//! The failures of the store, the origin and peers, in closed lists.

use bytes::Bytes;

/// Why the store did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Not reachable, refused, reset, or its breaker is open.
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    /// No answer within the command's deadline, or the connection broke before an answer. The command may have been
    /// carried out.
    #[error("the store did not answer")]
    TimedOut,
    /// It answered, and refused to write: full, read-only, or not permitted.
    #[error("the store refused: {0}")]
    Refused(String),
}

const BOOKMARK_CODE: &str = "Neo.TransientError.Transaction.BookmarkTimeout";
/// As Neo4j 5.26 says it.
const CLIENTS_TIME_CODE: &str = "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration";
/// As Neo4j 5.26 says it, with the blank at its end.
const CLIENTS_TIME_TEXT: &str = "The transaction has been terminated. Retry your operation in a new transaction, and you should see a successful result. The transaction has not completed within the timeout specified at its start by the client. You may want to retry with a longer timeout. ";

/// A failure as Neo4j reports it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Neo4jFailure {
    /// For example `Neo.ClientError.Statement.SyntaxError`.
    pub code: String,
    /// As the server wrote it.
    pub message: String,
    /// The whole Bolt message, which has its GQL status and causes; empty if there is none.
    pub as_sent: Vec<u8>,
}

impl Neo4jFailure {
    /// Whether every later run of this statement as this principal would fail in the same way, so that an earlier value
    /// is not given any more. True for `Neo.ClientError.Statement.*`, `.Schema.*`, `.Procedure.*` and
    /// `.Security.Forbidden`. False for errors about an absent or recreated database, a transaction that could not
    /// begin, the cluster, the request or the credentials. Such an error is returned as it is: no older value hides it,
    /// and it ends none.
    #[must_use]
    pub fn refuses_statement(&self) -> bool {
        match self.class_and_category() {
            (Some("ClientError"), Some("Statement" | "Schema" | "Procedure")) => true,
            _ => self.code == "Neo.ClientError.Security.Forbidden",
        }
    }

    /// Whether the failure is the client's to correct, whoever the client is. Errors about credentials or rights are
    /// not.
    #[must_use]
    pub fn is_everybodys(&self) -> bool {
        let (class, category) = self.class_and_category();
        class == Some("ClientError") && category != Some("Security")
    }

    /// Whether the transaction was ended from outside of it: by a limit of the server's own, or by an operator
    /// (`TERMINATE TRANSACTIONS`). Neo4j calls both client errors, so that drivers do not repeat what was ended.
    #[must_use]
    pub fn was_ended_from_outside(&self) -> bool {
        matches!(
            self.code.strip_prefix("Neo.ClientError.Transaction."),
            Some("Terminated" | "TransactionTimedOut" | "TransactionTimedOutClientConfiguration")
        )
    }

    /// Whether a limit of the server's own has ended the transaction: the next run would cost as much.
    #[must_use]
    pub fn is_over_servers_time(&self) -> bool {
        self.code == "Neo.ClientError.Transaction.TransactionTimedOut"
    }

    /// The failure of a run that waited in vain for a bookmark, in Neo4j's words: which id it asked, and the newest one.
    #[must_use]
    pub fn bookmark_timeout(database: &str, (asked, newest): (u64, u64)) -> Self {
        let message = format!(
            "Database '{database}' not up to the requested version: {asked}. Latest database version is {newest}"
        );
        Self { code: BOOKMARK_CODE.to_owned(), message, as_sent: Vec::new() }
    }

    /// The failure of a statement whose client has set it a limit of time, in Neo4j's words.
    #[must_use]
    pub fn clients_time_is_over() -> Self {
        Self {
            code: CLIENTS_TIME_CODE.to_owned(),
            message: CLIENTS_TIME_TEXT.to_owned(),
            as_sent: Vec::new(),
        }
    }

    /// Whether the server has not reached a bookmark of the run in time: the trouble of a client that brought one of
    /// another server, or of before the database was restored.
    #[must_use]
    pub fn is_bookmark_timeout(&self) -> bool {
        self.code == BOOKMARK_CODE
    }

    /// Whether the server has no such database.
    #[must_use]
    pub fn is_unknown_database(&self) -> bool {
        self.code == "Neo.ClientError.Database.DatabaseNotFound"
    }

    /// `Neo.<class>.<category>.<title>`.
    pub(super) fn class_and_category(&self) -> (Option<&str>, Option<&str>) {
        let mut parts = self.code.split('.').skip(1);
        (parts.next(), parts.next())
    }
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq)]
pub struct OriginError {
    /// The kind of failure.
    pub kind: OriginFault,
    /// The column names, if the server had named them before the failure. The Query API then answers 202 with the error
    /// in the body.
    pub fields: Option<Vec<String>>,
    /// The records that came before the server's failure. The Query API shows them beside the error. They are never a
    /// result and never stored (I10).
    pub records: Bytes,
    /// Whether the statement was sent to the server. Then it was a run, and a write may have been carried out.
    pub was_sent: bool,
    /// Whether it was run on a second connection, after the first was cut. Nobody repeats it again.
    pub was_repeated: bool,
}

/// The kinds of failure of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginFault {
    /// The server refused this statement, its parameters or its database.
    Failed(Neo4jFailure),
    /// The server refused these credentials.
    Unauthorized(Neo4jFailure),
    /// The server reported that trying again may help.
    Transient(Neo4jFailure),
    /// No connection could be made.
    Unreachable(String),
    /// The connection broke during the run; a write may have been carried out.
    Cut(String),
    /// The run's deadline passed.
    TimedOut,
    /// No run slot or connection became free in time, or there was no room for a result under way.
    Overloaded,
    /// This principal already has the greatest number of runs that may wait for a slot (F37).
    TooManyRuns,
    /// The result is larger than `bytes_max`.
    TooLarge {
        /// The exceeded bound, in bytes.
        limit_bytes: usize,
    },
}

impl OriginFault {
    /// As [`Neo4jFailure::refuses_statement`].
    #[must_use]
    pub fn refuses_statement(&self) -> bool {
        matches!(self, Self::Failed(said) if said.refuses_statement())
    }

    /// Whether the server refuses the identity, or what it may do.
    #[must_use]
    pub fn is_about_rights(&self) -> bool {
        match self {
            Self::Unauthorized(_) => true,
            Self::Failed(said) => said.code.starts_with("Neo.ClientError.Security."),
            _ => false,
        }
    }

    /// As [`Neo4jFailure::is_bookmark_timeout`].
    #[must_use]
    pub fn is_bookmark_timeout(&self) -> bool {
        matches!(self, Self::Failed(said) | Self::Transient(said) if said.is_bookmark_timeout())
    }

    /// As [`Neo4jFailure::is_unknown_database`].
    #[must_use]
    pub fn is_unknown_database(&self) -> bool {
        matches!(self, Self::Failed(said) | Self::Transient(said) if said.is_unknown_database())
    }
}

/// A fault from before the statement was sent.
impl From<OriginFault> for OriginError {
    fn from(kind: OriginFault) -> Self {
        Self { kind, fields: None, records: Bytes::new(), was_sent: false, was_repeated: false }
    }
}

impl OriginError {
    /// The same fault, for a statement that was sent.
    #[must_use]
    pub fn of_sent(kind: OriginFault) -> Self {
        Self { was_sent: true, ..Self::from(kind) }
    }
}

/// Why a peer did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Refused, or broken and not restored: the peer is dead.
    #[error("the peer cannot be reached: {0}")]
    Gone(String),
    /// No answer in time: the peer may be alive.
    #[error("the peer did not answer in time")]
    TimedOut,
    /// The peer refused (wrong key, wrong cluster, too old a view, overload).
    #[error("the peer refused: {0}")]
    Refused(String),
}
