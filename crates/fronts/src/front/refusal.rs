//! Why a request did not become a query. Each refusal gets its status where it is made; nothing here reads a request.

use hopcache_engine::identity::Credentials;
use hopcache_engine::ports::OriginFault;
use hopcache_queryapi::headers::authorization::AuthorizationError;
use hopcache_queryapi::headers::media::MediaError;
use hopcache_queryapi::render::Encoding;
use hopcache_queryapi::request::RequestError;
use http::header::HOST;
use http::{HeaderName, HeaderValue, StatusCode};

use super::answer::{
    CODE_INVALID, CODE_LEAVING, JSON, JSON_UTF8, Reply, content_type, error, leaving_unread,
};
use super::auth_errors;
use hopcache_state::host_check::HostFault;

/// Why a request did not become a query.
#[derive(Debug)]
pub enum Refusal {
    /// With a code and a message.
    Response {
        /// Status.
        status: StatusCode,
        /// Code in the body.
        code: String,
        /// Message in the body.
        message: String,
        /// Type of the body.
        content_type: HeaderValue,
    },
    /// Its sender was not accepted, or could not be checked.
    Credentials(OriginFault, Credentials),
}

impl Refusal {
    /// A refusal of Hopcache's own.
    #[must_use]
    pub fn own(status: StatusCode, code: &str, message: String) -> Self {
        Self::Response { status, code: code.to_owned(), message, content_type: JSON }
    }

    /// The node ends before it has read the request.
    #[must_use]
    pub fn leaving() -> Self {
        Self::own(StatusCode::SERVICE_UNAVAILABLE, CODE_LEAVING, leaving_unread())
    }

    /// A header that cannot be understood.
    #[must_use]
    pub fn header(name: &HeaderName, problem: &str) -> Self {
        Self::own(StatusCode::BAD_REQUEST, "Hopcache.ClientError.BadHeader", format!("{name}: {problem}."))
    }

    /// A header that cannot be understood. The message names it and its member.
    #[must_use]
    pub fn invalid_header(problem: &str) -> Self {
        Self::own(StatusCode::BAD_REQUEST, "Hopcache.ClientError.BadHeader", format!("{problem}."))
    }

    /// `impersonatedUser` if all statements run as one service user.
    #[must_use]
    pub fn no_impersonation() -> Self {
        Self::own(
            StatusCode::BAD_REQUEST,
            "Hopcache.ClientError.NoImpersonation",
            "impersonatedUser: this cache runs every statement as its own service user; remove it."
                .to_owned(),
        )
    }

    /// A request that names no host or two hosts (RFC 9112, 3.2), or a host that is not this node's.
    #[must_use]
    pub(crate) fn host(fault: HostFault) -> Self {
        match fault {
            HostFault::NotOne => Self::header(&HOST, "exactly one is needed"),
            HostFault::Foreign | HostFault::ForeignPage => {
                Self::own(StatusCode::FORBIDDEN, "Hopcache.ClientError.ForeignHost", format!("{fault}."))
            }
        }
    }

    /// Refuses media types as the server does.
    #[must_use]
    pub fn media(error: MediaError) -> Self {
        Self::server(error.status(), CODE_INVALID, &error.to_string(), JSON)
    }

    /// Refuses a body as the server does. A body that it could not read at all is refused before it looks at
    /// `Accept`. A body that it could read is refused in the encoding of its answer.
    #[must_use]
    pub fn request(error: &RequestError, encoding: Encoding) -> Self {
        let was_read = matches!(error, RequestError::NoStatement) || error.code() != CODE_INVALID;
        let content_type = if was_read { content_type(encoding) } else { JSON };
        Self::server(error.status(), error.code(), error.message(), content_type)
    }

    /// As [`Refusal::request`] of Neo4j 2026: always in the type that the client accepts.
    pub(crate) fn request_in(error: &RequestError, encoding: Encoding) -> Self {
        Self::server(error.status(), error.code(), error.message(), content_type(encoding))
    }

    /// Refuses an `Authorization` header as the server does.
    #[must_use]
    pub fn authorization(error: AuthorizationError) -> Self {
        Self::server(error.status(), error.code(), &error.to_string(), JSON_UTF8)
    }

    fn server(status: u16, code: &str, message: &str, content_type: HeaderValue) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        Self::Response { status, code: code.to_owned(), message: message.to_owned(), content_type }
    }

    /// The response.
    #[must_use]
    pub fn into_response(self) -> Reply {
        match self {
            Self::Response { status, code, message, content_type } => {
                error(status, &code, &message, content_type)
            }
            Self::Credentials(OriginFault::Unauthorized(_), Credentials::None) => {
                Self::authorization(AuthorizationError::Missing).into_response()
            }
            Self::Credentials(fault, presented) => auth_errors::of(&fault, &presented),
        }
    }
}
