//! Errors of the admin listener, as problem details (RFC 9457).

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::response::Response;
use bytes::Bytes;
use hopcache_core::limits::{ADMIN_BODY_BYTES_MAX, BODY_TIMEOUT_MS};
use hopcache_net::body::within;
use hopcache_net::refusal_response::UnservedReason;
use http::{HeaderValue, StatusCode, header};
use serde::de::DeserializeOwned;

/// The error, and the action to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    pub(super) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn into_response(self) -> Response {
        self.into_bytes().map(Body::from)
    }

    fn into_bytes(self) -> http::Response<Bytes> {
        let body = serde_json::json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut response = http::Response::new(Bytes::from(format!("{body}\n")));
        *response.status_mut() = self.status;
        let content_type = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        response
    }
}

/// This listener's response when no request was read. `None` when the client has sent nothing, or does not read.
#[must_use]
pub fn unserved(why: UnservedReason) -> Option<http::Response<Bytes>> {
    let (status, detail) = match why {
        UnservedReason::Silent
        | UnservedReason::ReaderTooSlow
        | UnservedReason::HandshakeTooSlow
        | UnservedReason::ProxyHeader
        | UnservedReason::HandshakeFailed => return None,
        UnservedReason::NotTls => {
            (StatusCode::BAD_REQUEST, "this listener has TLS (node.admin_tls): ask it with https://")
        }
        UnservedReason::Crowded => {
            (StatusCode::SERVICE_UNAVAILABLE, "too many connections to the admin listener")
        }
        UnservedReason::HeadTooSlow => {
            (StatusCode::REQUEST_TIMEOUT, "the request's head did not arrive in time")
        }
        UnservedReason::HeadTooLarge => {
            (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's head is too large")
        }
        UnservedReason::HeadUnreadable => {
            (StatusCode::BAD_REQUEST, "the request's head is not valid HTTP/1.1")
        }
    };
    Some(Problem::new(status, detail).into_bytes())
}

/// Reads a JSON body. The error message of serde names the wrong field.
pub(super) async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    let late = Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
    let limit = Duration::from_millis(BODY_TIMEOUT_MS);
    let read = within(limit, to_bytes(body, ADMIN_BODY_BYTES_MAX)).await.ok_or(late)?;
    let bytes = read.map_err(|_| {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is cut or over {ADMIN_BODY_BYTES_MAX} bytes"),
        )
    })?;
    serde_json::from_slice(&bytes).map_err(|error| Problem::bad(error.to_string()))
}
