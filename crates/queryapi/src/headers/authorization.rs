//! A request's `Authorization`: HTTP Basic and Bearer. The origin judges the credentials.

use base64::Engine as _;
use base64::engine::general_purpose::GeneralPurpose;
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Credentials as sent. Has no `Debug`, so that no log can show them.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// User name and password.
    Basic {
        /// Name.
        user: String,
        /// Password.
        password: String,
    },
    /// A token of an identity provider.
    Bearer(String),
}

/// Why there are no credentials. The text holds nothing of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizationError {
    /// No header.
    #[error("No authentication header supplied.")]
    Missing,
    /// Another scheme, or a value that does not have the form of its scheme.
    #[error("Invalid authentication header.")]
    Invalid,
}

impl AuthorizationError {
    /// The server's HTTP status for this.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Missing => 401,
            Self::Invalid => 400,
        }
    }

    /// The server's code for this. The message is the error's text.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Missing => "Neo.ClientError.Security.Unauthorized",
            Self::Invalid => "Neo.ClientError.Request.InvalidFormat",
        }
    }
}

/// The `WWW-Authenticate` value of every 401.
pub const CHALLENGE: &str = "Basic realm=\"Neo4j\", Bearer realm=\"Neo4j\"";

/// Reads the header's value.
///
/// # Errors
/// [`AuthorizationError`].
pub fn parse(value: Option<&[u8]>) -> Result<Credentials, AuthorizationError> {
    let value = value.ok_or(AuthorizationError::Missing)?;
    let text = std::str::from_utf8(value).map_err(|_| AuthorizationError::Invalid)?.trim();
    let (scheme, rest) = text.split_once(' ').ok_or(AuthorizationError::Invalid)?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") && !rest.is_empty() {
        return Ok(Credentials::Bearer(rest.to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(AuthorizationError::Invalid);
    }
    let decoded = BASE64.decode(rest).map_err(|_| AuthorizationError::Invalid)?;
    let decoded = String::from_utf8(decoded).map_err(|_| AuthorizationError::Invalid)?;
    let (user, password) = decoded.split_once(':').ok_or(AuthorizationError::Invalid)?;
    Ok(Credentials::Basic { user: user.to_owned(), password: password.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_the_server_does() {
        let basic = |user: &str, password: &str| {
            Ok(Credentials::Basic { user: user.to_owned(), password: password.to_owned() })
        };
        type Row = (Option<&'static [u8]>, Result<Credentials, AuthorizationError>);
        let table: [Row; 9] = [
            (Some(b"Basic bmVvNGo6YmFk"), basic("neo4j", "bad")),
            (Some(b"basic  bmVvNGo6YTpi"), basic("neo4j", "a:b")),
            (Some(b"Bearer abc"), Ok(Credentials::Bearer("abc".to_owned()))),
            (Some(b"Basic bmVvNGo="), Err(AuthorizationError::Invalid)),
            (Some(b"Basic xx"), Err(AuthorizationError::Invalid)),
            (Some(b"Basic"), Err(AuthorizationError::Invalid)),
            (Some(b"Digest x"), Err(AuthorizationError::Invalid)),
            (Some(b"\xFF"), Err(AuthorizationError::Invalid)),
            (None, Err(AuthorizationError::Missing)),
        ];
        for (value, credentials) in table {
            assert!(parse(value) == credentials, "{value:?}");
        }
    }
}
