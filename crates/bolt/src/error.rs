//! Errors, distinguished by the action that a caller takes.

use bytes::Bytes;

/// A failure with the server's code and message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Failure {
    /// For example `Neo.ClientError.Statement.SyntaxError`.
    pub code: String,
    /// The message as the server wrote it.
    pub message: String,
    /// The whole FAILURE message, for a client that is to see it as it came. Empty outside of a run.
    pub as_sent: Bytes,
}

/// Why no connection was opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Name lookup or TCP connect failed, or the connection broke before it was usable.
    #[error("cannot connect to {address}: {reason}")]
    Unreachable {
        /// The server's address.
        address: String,
        /// The operating system's message.
        reason: String,
    },
    /// This process or this machine has no file descriptor left. This says nothing about the server.
    #[error("no socket for the Bolt server: {0}")]
    OutOfDescriptors(String),
    /// The TLS handshake failed: check certificate and scheme (`bolt+s`, `bolt+ssc`).
    #[error("no TLS with the Bolt server: {0}")]
    Tls(String),
    /// The server's certificate is not trusted.
    #[error("the Bolt server's certificate is refused: {0}")]
    Untrusted(String),
    /// The address does not answer as a Bolt server of these versions.
    #[error("no Bolt 6.1, 6.0 or 5.8 to 5.0 at this address: {0}")]
    NotBolt(String),
    /// The server refused HELLO or LOGON.
    #[error("the server refused to log on: {0}")]
    Refused(Failure),
    /// The time limit has passed.
    #[error("the Bolt server did not complete the exchange in time")]
    TimedOut,
    /// The server broke the protocol.
    #[error("the Bolt server broke the protocol: {0}")]
    Protocol(String),
}

/// Why a run has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct RunError {
    /// What happened.
    pub fault: RunFault,
    /// The column names, if the server had sent them before.
    pub fields: Option<Vec<String>>,
    /// The records before the server's own failure, concatenated. Empty for every other fault. They are not a result,
    /// but a direct client of the server would have seen them.
    pub records: Bytes,
}

impl From<RunFault> for RunError {
    fn from(fault: RunFault) -> Self {
        Self { fault, fields: None, records: Bytes::new() }
    }
}

/// What happened to a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunFault {
    /// The server refused. The connection was reset and can be used again if it is ready.
    #[error("{0}")]
    Failed(Failure),
    /// The connection broke; the statement may have been carried out.
    #[error("the connection to the Bolt server broke: {0}")]
    Cut(String),
    /// The run's time was over; the statement may have been carried out.
    #[error("the run did not end in time")]
    TimedOut,
    /// The records are larger than the caller takes.
    #[error("the result is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The bound, in bytes.
        limit_bytes: usize,
    },
    /// No room for the records came free; the statement may have been carried out.
    #[error("no room for a result of this size")]
    NoRoom,
    /// The server broke the protocol; the statement may have been carried out.
    #[error("the Bolt server broke the protocol: {0}")]
    Protocol(String),
    /// The parameters are not one PackStream map; nothing was sent.
    #[error("the parameters are not one PackStream map")]
    BadParameters,
    /// An earlier exchange on this connection has not ended; nothing was sent. Open another connection.
    #[error("the connection cannot be used any more")]
    NotReady,
}
