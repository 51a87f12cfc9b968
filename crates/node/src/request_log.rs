//! Lines about single requests: all of them (`log.requests`), and those that were slow (`log.slow`).
//!
//! A slow request has a line at its entry node, with the hop's part of the time in it. A slow fetch has a line at the node that
//! fetched, with the parts of its time: the lease, `EXPLAIN`, the wait for a place at Neo4j, the run. Both name the pattern, and the trace
//! if there is one. Statements and parameters are in neither: a pattern has no literals.

use std::sync::Arc;
use std::time::Duration;

use hopcache_core::cypher::pattern::shown_pattern;
use hopcache_core::limits::PATTERN_TEXT_BYTES_MAX;
use hopcache_core::time::Millis;
use hopcache_engine::ask::Ask;
use hopcache_engine::event::Event;
use hopcache_engine::outcome::{Answer, Outcome};
use hopcache_engine::ports::{EndedFetch, Observer};

use crate::config::LogSection;
use crate::labels::{self, Front};
use crate::meters::Meters;

/// Which requests have lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestLog {
    slow: Option<Duration>,
    has_all: bool,
}

impl RequestLog {
    /// The lines that the configuration asks for.
    pub(crate) fn of(section: &LogSection) -> Self {
        let slow = (section.slow > Millis::ZERO).then(|| section.slow.duration());
        Self { slow, has_all: section.requests }
    }

    /// Writes the line of an answered request, if it has one.
    pub(crate) fn answered(
        self,
        front: Front,
        ask: &Ask,
        (outcome, status): (&Outcome, u16),
        took: Duration,
    ) {
        let is_slow = self.is_slow(took);
        if !is_slow && !self.has_all {
            return;
        }
        let bytes = match &outcome.answer {
            Answer::Body(body) => body.len(),
            Answer::Failed(_) => 0,
        };
        tracing::info!(
            front = labels::FRONTS[front as usize],
            database = &*ask.query.database,
            pattern = shown(&ask.query.statement),
            class = labels::CLASSES[labels::class_place(&outcome.how.class)],
            detail = labels::detail_of(&outcome.how),
            status,
            took_ms = millis(took),
            bytes,
            owner = outcome.answered_by.as_ref().map(ToString::to_string),
            trace = ask.traceparent.as_deref().and_then(trace_id),
            "{}",
            if is_slow { "slow request" } else { "request" }
        );
    }

    fn is_slow(self, took: Duration) -> bool {
        self.slow.is_some_and(|slow| took >= slow)
    }

    fn fetched(self, fetch: &EndedFetch<'_>) {
        if !self.is_slow(fetch.took_ms.duration()) {
            return;
        }
        let times = fetch.times;
        tracing::info!(
            database = &*fetch.query.database,
            pattern = shown(&fetch.query.statement),
            cause = labels::CAUSES[labels::cause_place(fetch.cause)],
            took_ms = fetch.took_ms.0,
            lease_ms = times.lease_ms().0,
            explain_ms = times.explain_ms().0,
            queue_ms = times.waited_ms().0,
            run_ms = times.run_ms().0,
            trace = fetch.traceparent.and_then(trace_id),
            "slow fetch"
        );
    }
}

/// Counts events, and writes the lines of slow fetches.
pub(crate) struct Observing {
    pub(crate) meters: Arc<Meters>,
    pub(crate) log: RequestLog,
}

impl Observer for Observing {
    fn note(&self, event: Event) {
        self.meters.note(event);
    }

    fn fetched(&self, fetch: &EndedFetch<'_>) {
        self.log.fetched(fetch);
    }
}

/// The pattern of a statement, or its beginning.
fn shown(statement: &str) -> String {
    let Some(mut text) = shown_pattern(statement) else { return "an unreadable statement".to_owned() };
    if text.len() > PATTERN_TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(PATTERN_TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

/// Milliseconds with microseconds behind the point: a hit takes less than one.
fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}

/// The trace's id in a `traceparent` (W3C Trace Context, section 3.2.2).
fn trace_id(traceparent: &str) -> Option<&str> {
    traceparent.split('-').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_no_literals_and_a_bound() {
        assert_eq!(
            shown("MATCH (p {name: 'Ann'}) RETURN p LIMIT 5"),
            "MATCH ( p { name : ? } ) RETURN p LIMIT ?"
        );
        for secret in
            [r"CREATE USER a SET PASSWORD 'pa\u0027ss'", "RETURN 'secret", "RETURN 4111111111111111x"]
        {
            assert_eq!(shown(secret), "an unreadable statement");
        }
        let long = shown(&format!("RETURN {}", "ä".repeat(PATTERN_TEXT_BYTES_MAX)));
        assert!(long.len() <= PATTERN_TEXT_BYTES_MAX + '…'.len_utf8(), "{}", long.len());
    }

    #[test]
    fn the_trace_is_named_by_its_id() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(trace_id(parent), Some("0af7651916cd43dd8448eb211c80319c"));
        assert_eq!(trace_id("garbage"), None);
    }

    #[test]
    fn a_request_is_slow_from_the_configured_time_on() {
        let log = RequestLog::of(&LogSection { slow: Millis(100), ..LogSection::default() });
        assert!(log.is_slow(Duration::from_millis(100)) && !log.is_slow(Duration::from_millis(99)));
        assert!(
            !RequestLog::of(&LogSection::default()).is_slow(Duration::from_secs(3_600)),
            "off by default"
        );
    }
}
