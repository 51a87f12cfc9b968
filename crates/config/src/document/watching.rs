//! What an operator sees of single requests: log lines and traces.

use hopcache_core::time::Millis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::duration;

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object for each line.
    Json,
}

/// Log lines on stderr.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogSection {
    /// Least severe level that is written, for all modules or by module: `info`, `warn,hopcache=debug`.
    #[serde(deserialize_with = "super::super::log_level::deserialize_level")]
    #[schemars(extend("x-allowed" = "error, warn, info, debug, trace or off, also by module: \"warn,hopcache=debug\""))]
    #[schemars(extend("x-reload" = true))]
    pub level: String,
    /// How a line is written.
    pub format: LogFormat,
    /// Whether the line of each answer, at level `debug`, shows the query text instead of `<hidden>`. Query texts may hold
    /// personal data. Parameters are never written.
    #[schemars(extend("x-reload" = true))]
    pub queries: bool,
    /// Requests and fetches that take longer have a line of their own, at level `info`: the pattern, how it was answered, and
    /// where the time went. 0 for no such lines.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text", extend("x-min" = "0", "x-max" = "1h"))]
    #[schemars(extend("x-reload" = true))]
    pub slow: Millis,
    /// Whether each answered request has a line, at level `info`.
    #[schemars(extend("x-reload" = true))]
    pub requests: bool,
}

impl Default for LogSection {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LogFormat::Text,
            queries: false,
            slow: Millis::ZERO,
            requests: false,
        }
    }
}

/// Traces of requests, for a collector of OpenTelemetry. A client's own traces (a `traceparent` with the flag `sampled`) are
/// always continued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TraceSection {
    /// Base URL of a collector that takes OTLP over HTTP (usually port 4318). Empty for no traces.
    #[serde(deserialize_with = "super::super::otlp_endpoint::deserialize_endpoint")]
    #[schemars(extend("x-allowed" = "a URL such as \"http://localhost:4318\", or \"\" for no traces"))]
    pub otlp_endpoint: String,
    /// Share of the requests without a trace of their client that are traced.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub sample_ratio: f64,
    /// Whether spans show the statement. Statements may hold personal data. Parameters are never in a span.
    pub statements: bool,
}

impl Default for TraceSection {
    fn default() -> Self {
        Self { otlp_endpoint: String::new(), sample_ratio: 0.01, statements: false }
    }
}
