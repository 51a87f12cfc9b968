//! A run that passed a proxy, with the times that the proxy saw. Decides nothing.

use std::time::Instant;

/// A statement that a client sent with RUN.
#[derive(Debug, Clone)]
pub struct ProxiedRun {
    /// Its text.
    pub statement: String,
    /// Its text and its parameters: equal for two runs of one key.
    pub query: String,
    /// When all of it had arrived.
    pub arrived: Instant,
    /// When the last bytes of the server's answer passed so far.
    pub answered: Option<Instant>,
    /// Number of the connection that it came by.
    pub connection: usize,
}

impl ProxiedRun {
    pub(super) fn is_explain(&self) -> bool {
        is_explain(&self.statement)
    }
}

pub(super) fn is_explain(statement: &str) -> bool {
    statement.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("EXPLAIN"))
}
