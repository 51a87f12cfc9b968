//! Failures as the client sees them: status and body. A failure behind the first record is not decided here: it is
//! part of `errors` in a body of status 202 ([`crate::render::ResultView::errors`]).

use crate::render;

/// Status of a success, and of a failure that came after the column names were known.
pub const ACCEPTED: u16 = 202;

/// Code of a request that is refused for its form, and of a value that the answer's media type does not have.
pub const CODE_INVALID: &str = "Neo.ClientError.Request.Invalid";

/// The message about a type that a media type does not have.
#[must_use]
pub fn unsupported_type(name: &str) -> String {
    format!("Type {name} is not supported.")
}

/// The body `{"errors":[{"code":…,"message":…}]}`.
#[must_use]
pub fn body(code: &str, message: &str) -> Vec<u8> {
    let mut out = b"{\"errors\":".to_vec();
    render::errors(&mut out, &[(code.to_owned(), message.to_owned())]);
    out.push(b'}');
    out
}

/// Codes with a status of their own: those of the server's filter for credentials, and that of an unknown database.
/// The server was asked for each of them except 429, which needs a locked account.
const OWN: [(&str, u16); 5] = [
    ("Neo.ClientError.Security.Unauthorized", 401),
    ("Neo.ClientError.Security.TokenExpired", 401),
    ("Neo.ClientError.Security.AuthorizationExpired", 401),
    ("Neo.ClientError.Security.AuthenticationRateLimit", 429),
    ("Neo.ClientError.Database.DatabaseNotFound", 404),
];

/// HTTP status for a code of Neo4j: its own, else 400 for client and transient errors, else 500. Neo4j maps transient
/// errors to 400 (its `Neo4jExceptionMapper`).
#[must_use]
pub fn status(code: &str) -> u16 {
    if let Some((_, status)) = OWN.iter().find(|(known, _)| *known == code) {
        return *status;
    }
    // "N/A" is the code of the driver's own refusals (an integer beyond 64 bits).
    let asked_wrong = code.starts_with("Neo.ClientError.") || code.starts_with("Neo.TransientError.");
    if asked_wrong || code == "N/A" { 400 } else { 500 }
}

#[cfg(test)]
mod tests {
    #[test]
    fn codes_have_the_servers_status() {
        let table = [
            ("Neo.ClientError.Statement.SyntaxError", 400),
            ("Neo.ClientError.Security.Unauthorized", 401),
            ("Neo.ClientError.Database.DatabaseNotFound", 404),
            ("Neo.TransientError.Transaction.DeadlockDetected", 400),
            ("Neo.DatabaseError.General.UnknownError", 500),
            ("N/A", 400),
        ];
        for (code, status) in table {
            assert_eq!(super::status(code), status, "{code}");
        }
        assert_eq!(super::body("a", "b\"c"), br#"{"errors":[{"code":"a","message":"b\"c"}]}"#);
    }
}
