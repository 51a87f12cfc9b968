//! The text of `trace.otlp_endpoint`: the base URL of a collector, or nothing.

use http::Uri;
use serde::{Deserialize, Deserializer};

/// Reads `trace.otlp_endpoint`. It refuses what is no URL of HTTP, and a password in it, because settings are shown.
pub(super) fn deserialize_endpoint<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    let text = String::deserialize(input)?;
    let text = text.trim();
    if text.is_empty() {
        return Ok(String::new());
    }
    let uri: Uri = text.parse().map_err(serde::de::Error::custom)?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    if !is_http || authority.is_empty() || uri.query().is_some() {
        return Err(serde::de::Error::custom("not the URL of a collector"));
    }
    if authority.contains('@') {
        let why = "it has a user: give the collector its token by OTEL_EXPORTER_OTLP_HEADERS";
        return Err(serde::de::Error::custom(why));
    }
    Ok(text.to_owned())
}
