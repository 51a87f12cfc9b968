//! Translates errors of the Bolt client into faults of the engine's port. It decides whether the principal, the
//! statement, the server or the network is at fault, and does nothing else.

use hopcache_bolt::{Failure, OpenError, RunError, RunFault};
use hopcache_engine::ports::{Neo4jFailure, OriginError, OriginFault};
use hopcache_slots::NoSlot;

/// Codes about the credentials (Neo4j status codes, "Neo.ClientError.Security"). `Forbidden` is not among them, because it
/// refuses the statement.
const CREDENTIAL_CODES: [&str; 5] = [
    "Neo.ClientError.Security.Unauthorized",
    "Neo.ClientError.Security.AuthenticationRateLimit",
    "Neo.ClientError.Security.CredentialsExpired",
    "Neo.ClientError.Security.TokenExpired",
    "Neo.ClientError.Security.AuthorizationExpired",
];
/// The code for a user that is locked out after too many wrong passwords. Neo4j sends it before it looks at these
/// credentials. So it does not refuse them, and ends neither an acceptance nor connections that are logged on.
const RATE_LIMIT_CODE: &str = "Neo.ClientError.Security.AuthenticationRateLimit";
/// The code for statements of a user that has to change the password first. The password is right: Neo4j accepts the log-on,
/// and says so there (`credentials_expired`). So it does not refuse the credentials, and ends no connection.
const MUST_CHANGE_CODE: &str = "Neo.ClientError.Security.CredentialsExpired";
/// The end of our own `tx_timeout`, seen first there. `TransactionTimedOut` is the end of the server's own limit.
const OUR_TIME_CODE: &str = "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration";
/// What a member says that does not serve the database now. Drivers try again.
const UNAVAILABLE_CODE: &str = "Neo.TransientError.General.DatabaseUnavailable";
const TRANSIENT_CODE_START: &str = "Neo.TransientError.";

/// A run, or a check of credentials, that got no slot.
pub fn of_no_slot(why: NoSlot) -> OriginFault {
    match why {
        NoSlot::PrincipalFull => OriginFault::TooManyRuns,
        NoSlot::Full | NoSlot::Late => OriginFault::Overloaded,
    }
}

/// A connection that was not opened.
pub(super) fn of_open(error: OpenError) -> OriginFault {
    match error {
        OpenError::Refused(failure) => of_failure(failure),
        // A fault of this machine and not of the server, so it must not open the breaker.
        OpenError::OutOfDescriptors(_) => OriginFault::Overloaded,
        other => OriginFault::Unreachable(open_error_text(&other)),
    }
}

/// Why there is no connection, and the change to make if the configuration is wrong.
pub(super) fn open_error_text(error: &OpenError) -> String {
    match error {
        OpenError::Untrusted(_) => {
            format!("{error}; set origin.ca_file to the PEM file of the authority that signed it")
        }
        _ => error.to_string(),
    }
}

/// A run that has no result.
pub(super) fn of_run(error: RunError) -> OriginError {
    let was_sent = !matches!(error.fault, RunFault::BadParameters | RunFault::NotReady);
    let kind = match error.fault {
        RunFault::Failed(failure) => of_failure(failure),
        RunFault::Cut(reason) | RunFault::Protocol(reason) => OriginFault::Cut(reason),
        RunFault::TimedOut => OriginFault::TimedOut,
        RunFault::NoRoom => OriginFault::Overloaded,
        RunFault::TooLarge { limit_bytes } => OriginFault::TooLarge { limit_bytes },
        fault @ RunFault::BadParameters => OriginFault::Failed(Neo4jFailure {
            code: "Neo.ClientError.Request.Invalid".to_owned(),
            message: fault.to_string(),
            as_sent: Vec::new(),
        }),
        // What one connection met says nothing about the server.
        fault @ RunFault::NotReady => OriginFault::Cut(fault.to_string()),
    };
    OriginError { kind, fields: error.fields, records: error.records, was_sent, was_repeated: false }
}

/// A statement of an explicit transaction that has no result. Neo4j's own failure stays as it is, also that the time of
/// the transaction is over: the client has set that time.
pub fn of_transaction(error: RunError) -> OriginError {
    match error.fault {
        RunFault::Failed(Failure { code, message, as_sent }) => OriginError {
            kind: OriginFault::Failed(Neo4jFailure { code, message, as_sent: as_sent.into() }),
            fields: error.fields,
            records: error.records,
            was_sent: true,
            was_repeated: false,
        },
        _ => of_run(error),
    }
}

/// Whether Neo4j has looked at the credentials themselves and refused them.
pub fn is_credential_refusal(error: &Neo4jFailure) -> bool {
    CREDENTIAL_CODES.contains(&error.code.as_str())
        && ![RATE_LIMIT_CODE, MUST_CHANGE_CODE].contains(&&*error.code)
}

/// Whether the user has to change the password before Neo4j runs anything else.
pub fn must_change_password(error: &Neo4jFailure) -> bool {
    error.code == MUST_CHANGE_CODE
}

/// The same for a log-on: Neo4j accepts it, and refuses every statement but the change. No client sees the message.
pub(super) fn password_to_change() -> OriginFault {
    let message = "The password has to be changed.".to_owned();
    OriginFault::Unauthorized(Neo4jFailure {
        code: MUST_CHANGE_CODE.to_owned(),
        message,
        as_sent: Vec::new(),
    })
}

/// Like [`is_credential_refusal`], for a fault.
pub(super) fn ends_connections(fault: &OriginFault) -> bool {
    matches!(fault, OriginFault::Unauthorized(error) if is_credential_refusal(error))
}

/// How a member refuses a write that does not lead the database, and any member if the database is read-only.
pub const READ_ONLY_CODE: &str = "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase";

/// A leader that still has to apply what its cluster has committed.
pub(super) fn member_behind(database: &str) -> Neo4jFailure {
    let message = format!("The leader of database '{database}' is not up to date yet. Try again shortly.");
    Neo4jFailure { code: UNAVAILABLE_CODE.to_owned(), message, as_sent: Vec::new() }
}

/// No member has taken a statement in time, each for a reason of its own: `said` is the last one.
#[must_use]
pub fn no_leader(database: &str, said: &str) -> Neo4jFailure {
    let message =
        format!("No member of the cluster leads database '{database}' now ({said}). Try again shortly.");
    Neo4jFailure { code: UNAVAILABLE_CODE.to_owned(), message, as_sent: Vec::new() }
}

fn of_failure(failure: Failure) -> OriginFault {
    let Failure { code, message, as_sent } = failure;
    if code == OUR_TIME_CODE {
        return OriginFault::TimedOut;
    }
    let failure = Neo4jFailure { code, message, as_sent: as_sent.into() };
    if CREDENTIAL_CODES.contains(&failure.code.as_str()) {
        OriginFault::Unauthorized(failure)
    } else if failure.code.starts_with(TRANSIENT_CODE_START) {
        OriginFault::Transient(failure)
    } else {
        OriginFault::Failed(failure)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// I6: a write whose answer found no room may have been carried out. A write that was not sent was not.
    #[test]
    fn what_was_sent_is_said() {
        let run = |fault: RunFault| of_run(fault.into());
        let no_room = run(RunFault::NoRoom);
        assert_eq!((no_room.kind, no_room.was_sent), (OriginFault::Overloaded, true));
        assert!(run(RunFault::TimedOut).was_sent && run(RunFault::Cut(String::new())).was_sent);
        assert!(!run(RunFault::BadParameters).was_sent && !run(RunFault::NotReady).was_sent);
    }

    fn fault(code: &str) -> OriginFault {
        of_failure(Failure { code: code.to_owned(), message: String::new(), as_sent: Bytes::new() })
    }

    #[test]
    fn want_of_descriptors_here_is_no_fault_of_the_server() {
        let opened = OpenError::OutOfDescriptors("Too many open files (os error 24)".to_owned());
        assert_eq!(of_open(opened), OriginFault::Overloaded);
    }

    #[test]
    fn codes_are_told_apart() {
        assert!(matches!(fault("Neo.ClientError.Security.Unauthorized"), OriginFault::Unauthorized(_)));
        assert!(matches!(fault("Neo.ClientError.Security.TokenExpired"), OriginFault::Unauthorized(_)));
        assert!(matches!(fault("Neo.ClientError.Security.Forbidden"), OriginFault::Failed(_)));
        for (code, ends) in
            [("Unauthorized", true), ("AuthenticationRateLimit", false), ("CredentialsExpired", false)]
        {
            assert_eq!(ends_connections(&fault(&format!("Neo.ClientError.Security.{code}"))), ends, "{code}");
        }
        assert!(matches!(
            fault("Neo.TransientError.Transaction.DeadlockDetected"),
            OriginFault::Transient(_)
        ));
        assert!(matches!(fault("Neo.ClientError.Statement.SyntaxError"), OriginFault::Failed(_)));
        assert!(matches!(fault(""), OriginFault::Failed(_)));
        let late = "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration";
        assert_eq!(fault(late), OriginFault::TimedOut);
        let of_server = "Neo.ClientError.Transaction.TransactionTimedOut";
        assert!(matches!(fault(of_server), OriginFault::Failed(said) if said.code == of_server));
    }
}
