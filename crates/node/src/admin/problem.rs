//! Errors of the admin listener, as problem details (RFC 9457).

use axum::body::{Body, to_bytes};
use axum::response::Response;
use hopcache_core::limits::ADMIN_BODY_BYTES_MAX;
use http::{HeaderValue, StatusCode, header};
use serde::de::DeserializeOwned;

/// What went wrong, and what to do.
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
        let body = serde_json::json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut response = Response::new(Body::from(format!("{body}\n")));
        *response.status_mut() = self.status;
        let content_type = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        response
    }
}

/// Reads a JSON body; serde's message names the field that is wrong.
pub(super) async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    let bytes = to_bytes(body, ADMIN_BODY_BYTES_MAX).await.map_err(|_| {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is cut or over {ADMIN_BODY_BYTES_MAX} bytes"),
        )
    })?;
    serde_json::from_slice(&bytes).map_err(|error| Problem::bad(error.to_string()))
}
