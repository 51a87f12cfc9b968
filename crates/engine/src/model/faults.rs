//! How the store, the origin and a peer fail, in words from closed lists.

use bytes::Bytes;

/// Why the store did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Not reachable, refused, reset, or its breaker is open.
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    /// No answer within the command's deadline, or its connection broke before. The command may have been
    /// carried out.
    #[error("the store did not answer")]
    TimedOut,
    /// It answered, and refused to write: full, read-only, or not permitted.
    #[error("the store refused: {0}")]
    Refused(String),
}

/// A failure in Neo4j's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neo4jFailure {
    /// For example `Neo.ClientError.Statement.SyntaxError`.
    pub code: String,
    /// As the server wrote it.
    pub message: String,
}

impl Neo4jFailure {
    /// Whether every later run of this statement as this principal would hear the same: what an earlier one brought
    /// is not given any more (Neo4j status codes: `Neo.ClientError.Statement.*`, `.Schema.*`, `.Procedure.*` and
    /// `.Security.Forbidden`). Not what is said of a database that is away or made anew, of a transaction that could not
    /// begin, of the cluster, of the request or of the credentials: that is shown as it is, neither hidden behind an
    /// older value nor the end of one.
    #[must_use]
    pub fn refuses_statement(&self) -> bool {
        match self.class_and_category() {
            (Some("ClientError"), Some("Statement" | "Schema" | "Procedure")) => true,
            _ => self.code == "Neo.ClientError.Security.Forbidden",
        }
    }

    /// Whether it is the client's to mend, whoever the client is: not a word on credentials or rights.
    #[must_use]
    pub fn is_everybodys(&self) -> bool {
        let (class, category) = self.class_and_category();
        class == Some("ClientError") && category != Some("Security")
    }

    /// Whether the server is in trouble, whatever it is asked: `Neo.TransientError.*`, and of `Neo.DatabaseError.*`
    /// what is not about a statement or the schema (a database that does not start, a log that cannot be
    /// written, an unknown error). Never what is said of rights.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self.class_and_category() {
            _ if self.is_bookmark_timeout() => false,
            (_, Some("Security")) => false,
            (Some("TransientError"), _) => true,
            (Some("DatabaseError"), part) => !matches!(part, Some("Statement" | "Schema" | "Procedure")),
            _ => false,
        }
    }

    /// Whether the server has not reached a bookmark of the run in time: the trouble of a client that brought one of
    /// another server, or of before the database was restored.
    #[must_use]
    pub fn is_bookmark_timeout(&self) -> bool {
        self.code == "Neo.TransientError.Transaction.BookmarkTimeout"
    }

    /// `Neo.<class>.<category>.<title>`.
    fn class_and_category(&self) -> (Option<&str>, Option<&str>) {
        let mut parts = self.code.split('.').skip(1);
        (parts.next(), parts.next())
    }
}

/// Why a run did not end well.
#[derive(Debug, Clone, PartialEq)]
pub struct OriginError {
    /// What happened.
    pub kind: OriginFault,
    /// The column names, where the failure came after the server had named them: the Query API then
    /// answers 202 with the error in the body.
    pub fields: Option<Vec<String>>,
    /// The records that came before the server's failure: the Query API shows them beside the error.
    /// Never a result, never stored (I10).
    pub records: Bytes,
    /// Whether the statement went to the server: then it was a run, and a write may have been carried out.
    pub was_sent: bool,
}

/// What happened to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginFault {
    /// The server said no to this statement, its parameters or its database.
    Failed(Neo4jFailure),
    /// The server said no to these credentials.
    Unauthorized(Neo4jFailure),
    /// The server said that trying again may help.
    Transient(Neo4jFailure),
    /// No connection could be made.
    Unreachable(String),
    /// The connection broke in the middle; a write may have been carried out.
    Cut(String),
    /// The run's deadline passed.
    TimedOut,
    /// No run slot or connection became free in time, or no room for a result that was under way.
    Overloaded,
    /// As many runs of this principal wait for a slot as may (F37).
    TooManyRuns,
    /// The result is larger than `bytes_max`.
    TooLarge {
        /// The bound that it went over, in bytes.
        limit_bytes: usize,
    },
}

impl OriginFault {
    /// As [`Neo4jFailure::refuses_statement`].
    #[must_use]
    pub fn refuses_statement(&self) -> bool {
        matches!(self, Self::Failed(said) if said.refuses_statement())
    }

    /// As [`Neo4jFailure::is_bookmark_timeout`].
    #[must_use]
    pub fn is_bookmark_timeout(&self) -> bool {
        matches!(self, Self::Failed(said) | Self::Transient(said) if said.is_bookmark_timeout())
    }

    /// As [`FailureKind::is_outage`](crate::model::outcome::FailureKind::is_outage).
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Failed(said) | Self::Transient(said) => said.is_outage(),
            Self::Unreachable(_) | Self::Cut(_) | Self::TimedOut | Self::Overloaded => true,
            Self::Unauthorized(_) | Self::TooManyRuns | Self::TooLarge { .. } => false,
        }
    }
}

/// A fault that came before the statement was sent.
impl From<OriginFault> for OriginError {
    fn from(kind: OriginFault) -> Self {
        Self { kind, fields: None, records: Bytes::new(), was_sent: false }
    }
}

impl OriginError {
    /// The same fault of a statement that was sent.
    #[must_use]
    pub fn of_sent(kind: OriginFault) -> Self {
        Self { was_sent: true, ..Self::from(kind) }
    }
}

/// Why a peer did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Refused, or broken and not made again: nobody lives there.
    #[error("the peer cannot be reached: {0}")]
    Gone(String),
    /// No answer in time: it may live.
    #[error("the peer did not answer in time")]
    TimedOut,
    /// It answered that it will not (wrong key, wrong cluster, too old a view, overload).
    #[error("the peer refused: {0}")]
    Refused(String),
}
