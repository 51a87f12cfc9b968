//! A failure in words for a driver: Neo4j's code and message where they are Neo4j's, else Hopcache's.
//!
//! A driver tries a managed transaction again when its code says `Neo.TransientError`. So Hopcache's own codes have
//! Neo4j's form over Bolt: `Neo.TransientError.Hopcache.Overloaded` for `Hopcache.TransientError.Overloaded`. What may
//! have written is never called transient (I6).

use hopcache_bolt::server::BadRequest;
use hopcache_engine::outcome::{Class, Failure, FailureKind};
use hopcache_engine::ports::{Neo4jFailure, OriginFault};

use crate::front::answer::{Fate, fate, own_words};

/// Neo4j's code for a message that is wrong.
pub(super) const INVALID: &str = "Neo.ClientError.Request.Invalid";
const UNKNOWN: &str = "Neo.DatabaseError.General.UnknownError";

/// Code and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) code: String,
    pub(super) message: String,
}

impl Said {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }

    /// A message that no driver sends.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(INVALID, message)
    }

    /// Something in a request that only Hopcache reads.
    pub(super) fn own(title: &str, message: impl Into<String>) -> Self {
        Self::new(&format!("Neo.ClientError.Hopcache.{title}"), message)
    }

    pub(super) fn of_bad_request(error: &BadRequest) -> Self {
        Self::invalid(error.to_string())
    }

    /// The failure of a statement that the engine answered.
    pub(super) fn of_failure(failure: &Failure, class: &Class) -> Self {
        match &failure.kind {
            FailureKind::Neo4j(said) => Self::of_neo4j(said),
            _ => {
                let fate = fate(class);
                let words = own_words(failure, fate);
                Self { code: code_over_bolt(words.code, fate), message: words.message }
            }
        }
    }

    /// A failure before anything was sent: of a log-on, or of a connection for a statement.
    pub(super) fn of_fault(fault: &OriginFault) -> Self {
        let (title, message) = match fault {
            OriginFault::Failed(said) | OriginFault::Unauthorized(said) | OriginFault::Transient(said) => {
                return Self::of_neo4j(said);
            }
            OriginFault::Unreachable(_) => {
                ("OriginUnreachable", "Neo4j cannot be reached. Try again shortly.")
            }
            OriginFault::Cut(_) => {
                ("OriginConnectionLost", "The connection to Neo4j broke. Try again shortly.")
            }
            OriginFault::TimedOut => ("OriginTimedOut", "Neo4j did not answer in time. Try again shortly."),
            OriginFault::TooManyRuns => {
                ("TooManyRequests", "Too many statements of this user are under way. Try again shortly.")
            }
            OriginFault::Overloaded | OriginFault::TooLarge { .. } => {
                ("Overloaded", "Too many statements and transactions are under way. Try again shortly.")
            }
        };
        Self::new(&format!("Neo.TransientError.Hopcache.{title}"), message)
    }

    fn of_neo4j(said: &Neo4jFailure) -> Self {
        Self { code: said.code.clone(), message: said.message.clone() }
    }
}

fn code_over_bolt(code: &str, fate: Fate) -> String {
    let mut parts = code.split('.').skip(1);
    match (parts.next(), parts.next()) {
        (Some("TransientError"), Some(_)) if fate == Fate::InDoubt => UNKNOWN.to_owned(),
        (Some(class), Some(title)) => format!("Neo.{class}.Hopcache.{title}"),
        _ => UNKNOWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use hopcache_engine::outcome::{Kept, Reason, Role};

    use super::*;

    /// I6: a driver repeats what is called transient.
    #[test]
    fn what_may_have_written_is_not_called_transient() {
        let cut = Failure::from(FailureKind::OriginCut);
        let read = Class::Miss { kept: Kept::Skipped, role: Role::Led };
        let code = |class| Said::of_failure(&cut, &class).code;
        assert_eq!(code(read), "Neo.TransientError.Hopcache.OriginConnectionLost");
        assert_eq!(code(Class::Bypass(Reason::Write)), UNKNOWN);
    }

    /// Drivers split a code at its dots and expect four parts.
    #[test]
    fn own_codes_have_the_form_of_neo4js() {
        for kind in [FailureKind::Overloaded, FailureKind::TooManyRuns, FailureKind::NotCached] {
            let said = Said::of_failure(&kind.into(), &Class::Hit);
            assert_eq!(said.code.split('.').count(), 4, "{}", said.code);
            assert!(said.code.starts_with("Neo."), "{}", said.code);
        }
    }
}
