//! The two forms of `/metrics`: Prometheus' text, and OpenMetrics for a reader that asks for it. Only OpenMetrics has exemplars.
//!
//! Names, labels and bounds are the same in both, so a reader that changes its form changes no series.

use hopcache_queryapi::headers::media::{WEIGHT_MAX, weighed_ranges};

/// Media type of OpenMetrics (OpenMetrics 1.0, "Protocol negotiation").
const OPEN_METRICS: &str = "application/openmetrics-text";

/// A form of the exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' text format, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Exposition {
    /// The form that `Accept` prefers (RFC 9110, section 12.5.1). A reader that does not name OpenMetrics gets Prometheus'
    /// text. A weight that is no number counts as the largest.
    #[must_use]
    pub fn asked_for(accept: &str) -> Self {
        let weight_of = |names: &[&str]| {
            let is_named = |kind: &str| names.iter().any(|known| known.eq_ignore_ascii_case(kind));
            let fitting = weighed_ranges(accept).filter(|(kind, _)| is_named(kind));
            fitting.map(|(_, weight)| weight.unwrap_or(WEIGHT_MAX)).max().unwrap_or(0)
        };
        let open = weight_of(&[OPEN_METRICS]);
        if open > 0 && open >= weight_of(&["text/plain", "text/*"]) {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// Its `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Turns Prometheus' text into this form. OpenMetrics has no empty lines, a counter's family is called without
    /// `_total`, and an end is marked.
    pub(super) fn complete(self, text: String) -> String {
        if self == Self::Prometheus {
            return text;
        }
        let mut open = String::with_capacity(text.len());
        for line in text.lines().filter(|line| !line.is_empty()) {
            match described(line) {
                Some((word, family, rest)) => {
                    let kind = if word == TYPE { "counter" } else { rest };
                    open.extend([word, family, " ", kind, "\n"]);
                }
                None => open.extend([line, "\n"]),
            }
        }
        open.push_str("# EOF\n");
        open
    }
}

const HELP: &str = "# HELP ";
const TYPE: &str = "# TYPE ";

/// The parts of a line that describes a counter: its first word, the family's name, and the rest.
fn described(line: &str) -> Option<(&'static str, &str, &str)> {
    let (word, described) = [HELP, TYPE]
        .into_iter()
        .find_map(|word| line.strip_prefix(word).map(|described| (word, described)))?;
    let (name, rest) = described.split_once(' ')?;
    Some((word, name.strip_suffix("_total")?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_who_prefers_it() {
        let table = [
            // Prometheus 2.x and 3.x as they come.
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Exposition::OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 text/plain;version=0.0.4;q=0.4,*/*;q=0.1",
                Exposition::OpenMetrics,
            ),
            ("text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.1", Exposition::Prometheus),
            ("application/openmetrics-text;q=0", Exposition::Prometheus),
            ("*/*", Exposition::Prometheus),
            ("", Exposition::Prometheus),
        ];
        for (accept, form) in table {
            assert_eq!(Exposition::asked_for(accept), form, "{accept}");
        }
    }

    #[test]
    fn a_counters_family_is_called_without_its_suffix() {
        let text = "# HELP a_total What.\n# TYPE a_total counter\na_total 3\n\n# HELP b Some_total.\n# TYPE b gauge\nb 1\n";
        let open =
            "# HELP a What.\n# TYPE a counter\na_total 3\n# HELP b Some_total.\n# TYPE b gauge\nb 1\n# EOF\n";
        assert_eq!(Exposition::OpenMetrics.complete(text.to_owned()), open);
        assert_eq!(Exposition::Prometheus.complete(text.to_owned()), text);
    }
}
