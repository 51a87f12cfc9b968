//! Which failures are an outage: the one rule about them. It decides for which failures a stale answer stands in
//! (RFC 5861, section 4), and which stale answer.
//!
//! | trouble | examples | stands in |
//! |---|---|---|
//! | [`Trouble::Away`] | any of the last row, while the origin's gate says that Neo4j cannot be reached | any stale copy, also one that a write has ended |
//! | [`Trouble::Late`] | the same, while a probe is late and has not failed: Neo4j may collect garbage | a copy that only its age has ended, at once |
//! | [`Trouble::OfRun`] | a time-out, a memory limit of Neo4j, a connection that was cut or not opened, no place for a run | a copy that only its age has ended |
//! | none | an error of the statement, lost rights, a limit that this client alone meets | nothing: the failure is the answer |
//!
//! A run that fails says nothing about a write that was answered: its writer would read the value from before the write.

use crate::model::faults::{Neo4jFailure, OriginFault};
use crate::model::outcome::FailureKind;

/// Why a request gets a stale answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Neo4j cannot be reached at all.
    Away,
    /// Neo4j is late with its answer to a probe. It may be back before the probe has failed, with all that it has answered.
    Late,
    /// One run brought no answer, or found no place. Neo4j may be well.
    OfRun,
}

impl Trouble {
    /// Whether there is trouble behind a failure. If not, the failure is the client's answer, whatever is cached. Which trouble it is,
    /// the origin's gate knows: a connection that was not opened in time says nothing about Neo4j, since this process may have had no
    /// CPU to open it.
    #[must_use]
    pub fn is_behind(failure: &FailureKind) -> bool {
        match failure {
            FailureKind::Neo4j(said) => is_of_server(said),
            FailureKind::OriginUnreachable
            | FailureKind::OriginCut
            | FailureKind::OriginTimedOut
            | FailureKind::Overloaded
            | FailureKind::DeadlinePassed
            | FailureKind::HeldBack { .. }
            | FailureKind::Leaving => true,
            // The error alone makes this client slow down, or ask for something else.
            FailureKind::TooManyRuns
            | FailureKind::TooLarge { .. }
            | FailureKind::TooDeep
            | FailureKind::NotCached
            | FailureKind::BadResult => false,
        }
    }

    /// As [`Trouble::is_behind`], for the failure of a run.
    #[must_use]
    pub fn is_behind_fault(fault: &OriginFault) -> bool {
        Self::is_behind(&FailureKind::from(fault.clone()))
    }
}

/// Whether the server is in trouble with the run, whatever the statement: `Neo.TransientError.*`, those
/// `Neo.DatabaseError.*` that are not about a statement or the schema (a database that does not start, a log that cannot
/// be written, an unknown error), and a transaction that was ended from outside. Never an error about rights, nor one
/// about a client's bookmark.
fn is_of_server(said: &Neo4jFailure) -> bool {
    match said.class_and_category() {
        _ if said.is_bookmark_timeout() => false,
        (_, Some("Security")) => false,
        (Some("TransientError"), _) => true,
        (Some("DatabaseError"), part) => !matches!(part, Some("Statement" | "Schema" | "Procedure")),
        _ => said.was_ended_from_outside(),
    }
}

#[cfg(test)]
mod tests {
    use hopcache_core::time::Millis;

    use super::*;

    fn said(code: &str) -> FailureKind {
        FailureKind::Neo4j(Neo4jFailure {
            code: code.to_owned(),
            message: String::new(),
            as_sent: Vec::new(),
        })
    }

    #[test]
    fn a_failure_of_the_server_is_trouble_and_one_of_the_statement_is_the_answer() {
        let of_runs = [
            FailureKind::OriginUnreachable,
            FailureKind::OriginCut,
            FailureKind::OriginTimedOut,
            FailureKind::Overloaded,
            FailureKind::DeadlinePassed,
            FailureKind::HeldBack { left_ms: Millis(1) },
            FailureKind::Leaving,
            said("Neo.TransientError.General.MemoryPoolOutOfMemoryError"),
            said("Neo.TransientError.Transaction.DeadlockDetected"),
            said("Neo.TransientError.General.DatabaseUnavailable"),
            said("Neo.DatabaseError.General.UnknownError"),
            said("Neo.ClientError.Transaction.Terminated"),
            said("Neo.ClientError.Transaction.TransactionTimedOut"),
        ];
        for failure in of_runs {
            assert!(Trouble::is_behind(&failure), "{failure:?}");
        }
        let answers = [
            FailureKind::TooManyRuns,
            FailureKind::TooLarge { limit_bytes: 1 },
            FailureKind::TooDeep,
            FailureKind::NotCached,
            FailureKind::BadResult,
            said("Neo.ClientError.Statement.ArithmeticError"),
            said("Neo.DatabaseError.Statement.ExecutionFailed"),
            said("Neo.TransientError.Security.ModifiedConcurrently"),
            said("Neo.TransientError.Transaction.BookmarkTimeout"),
        ];
        for failure in answers {
            assert!(!Trouble::is_behind(&failure), "{failure:?}");
        }
    }
}
