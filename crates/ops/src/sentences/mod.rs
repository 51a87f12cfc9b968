//! Sentences for people: what happens to a query and why, and what to do about it. One place makes them, from facts
//! alone, for `explain`, for `hopcache query` and for the console.
//!
//! | file | sentences about |
//! |---|---|
//! | `reasons` | why a request bypasses the cache: one row for each label of `cache_bypass_total` |
//! | `details` | the other values of `detail` in `Cache-Status` |
//! | `explained` | a query as `explain` finds it: its copy, its run, its user |
//! | `parts` | parts of a node that are degraded |
//!
//! Nothing here asks anything or reads a clock.

pub mod details;
pub mod explained;
pub mod parts;
pub mod reasons;

/// A sentence, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// What happens, and why.
    pub summary: String,
    /// The action to take. `None` if there is nothing to do.
    pub remedy: Option<String>,
}

impl Sentence {
    fn new(summary: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { summary: summary.into(), remedy: Some(remedy.into()) }
    }

    fn alone(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), remedy: None }
    }
}

/// A span of time for people, rounded.
#[must_use]
pub fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 if ms.is_multiple_of(1_000) => format!("{} s", ms / 1_000),
        1_000..10_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        10_000..120_000 => format!("{} s", ms / 1_000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_to_what_people_read() {
        let rows = [
            (40, "40 ms"),
            (1_450, "1.4 s"),
            (2_000, "2 s"),
            (9_999, "9.9 s"),
            (12_345, "12 s"),
            (119_000, "119 s"),
            (130_000, "2 min"),
            (86_400_000, "24 h"),
        ];
        for (ms, text) in rows {
            assert_eq!(span(ms), text, "{ms}");
        }
    }
}
