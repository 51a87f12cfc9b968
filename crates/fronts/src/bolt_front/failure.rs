//! A failure as a driver sees it: Neo4j's code and message if Neo4j failed, or else Hopcache's own.
//!
//! A driver tries a managed transaction again when its code begins with `Neo.TransientError`. So Hopcache's own codes
//! have Neo4j's form over Bolt: `Neo.TransientError.Hopcache.Overloaded` for `Hopcache.TransientError.Overloaded`.
//! The failure of a statement that may have written is never called transient (I6): [`own_failure`] sees to it.

use bytes::Bytes;
use hopcache_bolt::failure_code;
use hopcache_bolt::server::{BadRequest, Version, frame, reply};
use hopcache_engine::outcome::{Class, Failure, FailureKind};
use hopcache_engine::ports::{Neo4jFailure, OriginFault};
use hopcache_net::crowding::{CrowdedBy, CrowdedOut};

use crate::front::answer::{fate, own_failure};

/// Neo4j's code for a message that is wrong.
pub(super) const INVALID: &str = "Neo.ClientError.Request.Invalid";
const DATABASE_NOT_FOUND: &str = "Neo.ClientError.Database.DatabaseNotFound";
const UNKNOWN: &str = "Neo.DatabaseError.General.UnknownError";

/// Code and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoltFailure {
    pub(super) code: String,
    pub(super) message: String,
    /// Neo4j's own message, with its GQL status, its causes and its diagnostics; empty if it has sent none.
    as_sent: Bytes,
}

impl BoltFailure {
    /// Appends FAILURE: Neo4j's own where it has the form of the version.
    pub(super) fn append(&self, out: &mut Vec<u8>, version: Version) {
        let metadata = || hopcache_bolt::metadata(&self.as_sent).ok();
        let has_status = || metadata().is_some_and(|metadata| metadata.get("gql_status").is_some());
        if version.has_gql_failures() && !self.as_sent.is_empty() && has_status() {
            frame(out, &self.as_sent);
        } else {
            reply::failure(out, version, &self.code, &self.message);
        }
    }
}

/// The code of a FAILURE of Neo4j. Empty if it has none.
pub(super) fn code_of(message: &[u8]) -> String {
    let metadata = hopcache_bolt::metadata(message).ok();
    metadata.as_ref().and_then(failure_code).unwrap_or_default().to_owned()
}

/// The status that a failure with this code would have over HTTP, for counters.
pub(super) fn status_of(code: &str) -> u16 {
    match code.rsplit('.').next() {
        Some("TooManyRequests") => 429,
        Some("OriginTimedOut") => 504,
        _ if code.starts_with("Neo.TransientError.") => 503,
        _ => hopcache_queryapi::failure::status(code),
    }
}

impl BoltFailure {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), as_sent: Bytes::new() }
    }

    /// What a RESET has interrupted, in Neo4j's words.
    pub(super) fn terminated() -> Self {
        Self::new(
            "Neo.ClientError.Transaction.Terminated",
            "The transaction has been terminated. Retry your operation in a new transaction, and you should see a successful result. \
             Explicitly terminated by the user. ",
        )
    }

    /// A message that no driver sends.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(INVALID, message)
    }

    /// An error in a part of a request that only Hopcache reads.
    pub(super) fn own(title: &str, message: impl Into<String>) -> Self {
        Self::new(&format!("Neo.ClientError.Hopcache.{title}"), message)
    }

    /// A large request that was not taken.
    pub(super) fn crowded_out(why: CrowdedOut) -> Self {
        let title = match why.by {
            CrowdedBy::Own => "TooManyRequests",
            CrowdedBy::All => "Overloaded",
        };
        Self::new(&format!("Neo.TransientError.Hopcache.{title}"), why.to_string())
    }

    pub(super) fn of_bad_request(error: &BadRequest) -> Self {
        Self::invalid(error.to_string())
    }

    /// The failure of a statement that the engine answered.
    pub(super) fn of_failure(failure: &Failure, class: &Class) -> Self {
        match &failure.kind {
            FailureKind::Neo4j(failure) => Self::of_neo4j(failure),
            _ => {
                let fate = fate(class);
                let own = own_failure(failure, fate);
                Self::new(&code_over_bolt(own.code), own.message)
            }
        }
    }

    /// A failure before any byte was sent: of a log-on, or of a connection for a statement.
    pub(super) fn of_fault(fault: &OriginFault) -> Self {
        let (title, message) = match fault {
            OriginFault::Failed(failure)
            | OriginFault::Unauthorized(failure)
            | OriginFault::Transient(failure) => {
                return Self::of_neo4j(failure);
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

    /// A failure of ROUTE. This node asks Neo4j with a statement whether a database exists, and Neo4j words its answer to
    /// a statement differently.
    pub(super) fn of_routing(fault: &OriginFault, database: &str) -> Self {
        let failure = Self::of_fault(fault);
        if failure.code != DATABASE_NOT_FOUND {
            return failure;
        }
        let message = format!(
            "Unable to get a routing table for database '{database}' because this database does not exist"
        );
        Self::new(&failure.code, message)
    }

    fn of_neo4j(failure: &Neo4jFailure) -> Self {
        let as_sent = Bytes::copy_from_slice(&failure.as_sent);
        Self { code: failure.code.clone(), message: failure.message.clone(), as_sent }
    }
}

fn code_over_bolt(code: &str) -> String {
    if code.starts_with("Neo.") {
        return code.to_owned();
    }
    let mut parts = code.split('.').skip(1);
    match (parts.next(), parts.next()) {
        (Some(class), Some(title)) => format!("Neo.{class}.Hopcache.{title}"),
        _ => UNKNOWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use hopcache_engine::outcome::{Kept, Reason, Role};
    use hopcache_packstream::Value;

    use super::*;

    /// I6: a driver repeats a transaction after a transient failure.
    #[test]
    fn what_may_have_written_is_not_called_transient() {
        let cut = Failure { was_sent: true, ..Failure::from(FailureKind::OriginCut) };
        let read = Class::Miss { kept: Kept::Skipped, role: Role::Led };
        let code = |class| BoltFailure::of_failure(&cut, &class).code;
        assert_eq!(code(read), "Neo.TransientError.Hopcache.OriginConnectionLost");
        assert_eq!(code(Class::Bypass(Reason::Write)), UNKNOWN);
    }

    /// D7: the status is the server's own, where the client's version has one.
    #[test]
    fn a_failure_of_neo4j_keeps_its_status() {
        let text = |name: &str, value: &str| (name.to_owned(), Value::from(value));
        let code = "Neo.ClientError.Security.Unauthorized";
        let metadata =
            Value::Map(vec![text("neo4j_code", code), text("message", "no"), text("gql_status", "42NFF")]);
        let mut writer = hopcache_packstream::Writer::new();
        writer.structure(0x7F, 1);
        writer.value(&metadata);
        let as_sent = writer.into_bytes();
        let of = |as_sent: &[u8]| {
            let said =
                Neo4jFailure { code: code.to_owned(), message: "no".to_owned(), as_sent: as_sent.to_vec() };
            BoltFailure::of_fault(&OriginFault::Unauthorized(said))
        };
        let sent = |failure: &BoltFailure, version| {
            let mut out = Vec::new();
            failure.append(&mut out, version);
            out
        };
        let mut framed = Vec::new();
        frame(&mut framed, &as_sent);
        for version in [Version::new(5, 7), Version::new(6, 1)] {
            assert_eq!(sent(&of(&as_sent), version), framed);
        }
        let (old, mut plain) = (Version::new(5, 6), Vec::new());
        reply::failure(&mut plain, old, code, "no");
        assert_eq!(sent(&of(&as_sent), old), plain);
        // Of a node that was told by another, and of a server that sends none, it is the general one.
        let old_server = [0xB1, 0x7F, 0xA1, 0x84, b'c', b'o', b'd', b'e', 0x80];
        let mut general = Vec::new();
        reply::failure(&mut general, Version::NEWEST, code, "no");
        for as_sent in [&[][..], &old_server, &[0xFF]] {
            assert_eq!(sent(&of(as_sent), Version::NEWEST), general);
        }
    }

    #[test]
    fn a_missing_database_is_told_in_the_words_of_routing() {
        let fault = |code: &str| {
            OriginFault::Failed(Neo4jFailure {
                code: code.to_owned(),
                message: "Neo4j's".to_owned(),
                as_sent: Vec::new(),
            })
        };
        let missing = BoltFailure::of_routing(&fault(DATABASE_NOT_FOUND), "films");
        assert!(missing.message.contains("routing table for database 'films'"), "{missing:?}");
        let other = BoltFailure::of_routing(&fault("Neo.ClientError.Security.Forbidden"), "films");
        assert_eq!(other.message, "Neo4j's");
    }

    #[test]
    fn refusals_are_counted_by_the_status_of_http() {
        for (code, status) in [
            ("Neo.ClientError.Security.Unauthorized", 401),
            ("Neo.ClientError.Security.CredentialsExpired", 400),
            (DATABASE_NOT_FOUND, 404),
            (INVALID, 400),
            ("Neo.TransientError.Hopcache.OriginUnreachable", 503),
            ("Neo.ClientError.Hopcache.OriginTimedOut", 504),
            ("Neo.TransientError.Hopcache.TooManyRequests", 429),
            ("", 500),
        ] {
            assert_eq!(status_of(code), status, "{code}");
        }
    }

    /// G3: a driver repeats what is called transient. To repeat what has used up its time, or what the request itself rules
    /// out, cannot help.
    #[test]
    fn only_what_can_be_repeated_is_transient() {
        let read = Class::Miss { kept: Kept::Skipped, role: Role::Led };
        let code = |kind: FailureKind| BoltFailure::of_failure(&kind.into(), &read).code;
        for kind in [FailureKind::OriginTimedOut, FailureKind::NotCached, FailureKind::TooDeep] {
            let code = code(kind);
            assert!(code.starts_with("Neo.ClientError."), "{code}");
        }
        for kind in [FailureKind::OriginCut, FailureKind::Overloaded, FailureKind::OriginUnreachable] {
            let code = code(kind);
            assert!(code.starts_with("Neo.TransientError.Hopcache."), "{code}");
        }
    }

    /// Drivers split a code at its dots and expect four parts.
    #[test]
    fn own_codes_have_the_form_of_neo4js() {
        for kind in [FailureKind::Overloaded, FailureKind::TooManyRuns, FailureKind::NotCached] {
            let failure = BoltFailure::of_failure(&kind.into(), &Class::Hit);
            assert_eq!(failure.code.split('.').count(), 4, "{}", failure.code);
            assert!(failure.code.starts_with("Neo."), "{}", failure.code);
        }
    }
}
