//! A history by the second, and sums over spans of it.

use std::collections::BTreeMap;

use hopcache_testbed::cluster::history::{History, RequestRecord};

/// One second, or a longer span.
#[derive(Debug, Clone, Default)]
pub(crate) struct Span {
    pub(crate) requests: u64,
    pub(crate) hits: u64,
    pub(crate) errors: u64,
    pub(crate) runs: u64,
    took_us: Vec<u64>,
}

/// Everything between two times.
pub(crate) fn between(history: &History, from_us: u64, to_us: u64) -> Span {
    let is_in = |at_us: u64| (from_us..to_us).contains(&at_us);
    let mut span = Span::default();
    for asked in history.requests.iter().filter(|asked| is_in(asked.sent_us)) {
        span.requests += 1;
        span.errors += u64::from(asked.status != 202);
        span.hits += u64::from(is_hit(asked));
        span.took_us.push(asked.ended_us - asked.sent_us);
    }
    span.took_us.sort_unstable();
    span.runs = history.runs.iter().filter(|run| is_in(run.began_us)).count() as u64;
    span
}

impl Span {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    pub(crate) fn hit_ratio(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.hits as f64 / self.requests as f64 }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    pub(crate) fn runs_beside(&self, other: &Self) -> f64 {
        self.runs as f64 / (other.runs.max(1)) as f64
    }

    /// P99 and the longest, in ms.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub(crate) fn times_ms(&self) -> (f64, f64) {
        let at = |place: usize| self.took_us.get(place).map_or(0.0, |us| *us as f64 / 1e3);
        (at(self.took_us.len() * 99 / 100), at(self.took_us.len().saturating_sub(1)))
    }

    /// A row of a table.
    pub(crate) fn row(&self, name: &str) -> String {
        let (p99, most) = self.times_ms();
        format!(
            "| {name} | {} | {} | {:.1} % | {} | {p99:.1} | {most:.1} |",
            self.requests,
            self.errors,
            self.hit_ratio() * 100.0,
            self.runs
        )
    }
}

/// Head of a table of [`Span::row`]s.
pub(crate) const HEAD: &str =
    "| span | requests | errors | hits | origin runs | P99 ms | max ms |\n|---|---|---|---|---|---|---|";

/// The errors, and how often each occurred.
pub(crate) fn errors(history: &History, from_us: u64) -> BTreeMap<String, usize> {
    let mut errors = BTreeMap::new();
    for asked in history.requests.iter().filter(|asked| asked.sent_us >= from_us && asked.status != 202) {
        let text: String = asked.error.chars().take(120).collect();
        *errors.entry(format!("{} {text}", asked.status)).or_default() += 1;
    }
    errors
}

/// Answered without a run for it.
fn is_hit(asked: &RequestRecord) -> bool {
    asked.cache_status.split(", ").any(|member| member.contains("; hit"))
}
