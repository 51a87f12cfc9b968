//! Lines about single requests: all of them (`log.requests`), and those that were slow (`log.slow`).
//!
//! A slow request has a line at its entry node; `hop_ms` is how long the node that it asked took. A slow fetch has a line at the
//! node that fetched, with the parts of its time: the lease, `EXPLAIN`, the wait for a place at Neo4j, the run. A statement that
//! goes to Neo4j past the cache over Bolt has the line of a request ([`PassedLine`]). All name the pattern, and the trace if there
//! is one. Statements and parameters are in none: a pattern has no literals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hopcache_config::LogSection;
use hopcache_core::limits::PATTERN_TEXT_BYTES_MAX;
use hopcache_core::time::Millis;
use hopcache_core::words::Word;
use hopcache_cypher::forms::pattern::shown_pattern;
use hopcache_engine::event::Event;
use hopcache_engine::outcome::{Answer, AnsweredBy, Reason};
use hopcache_engine::ports::{EndedFetch, Observer};

use crate::labels::{self, AnswerClass, Front};
use crate::meters::Meters;
use crate::origin_pace::OriginPace;
use crate::traces::AnsweredRequest;

/// Which requests have lines.
#[derive(Debug, Clone, Copy)]
pub struct RequestLog {
    slow: Option<Duration>,
    has_all: bool,
}

impl RequestLog {
    /// The lines that the configuration asks for.
    pub fn of(section: &LogSection) -> Self {
        let slow = (section.slow > Millis::ZERO).then(|| section.slow.duration());
        Self { slow, has_all: section.requests }
    }

    /// Writes the line of an answered request, if it has one.
    pub fn answered(self, request: &AnsweredRequest<'_>) {
        let AnsweredRequest { front, query, outcome, status, took, traceparent } = *request;
        if !self.has_line(took) {
            return;
        }
        let bytes = match &outcome.answer {
            Answer::Body(body) => body.len(),
            Answer::Failed(_) => 0,
        };
        let by = outcome.answered_by.as_ref();
        tracing::info!(
            front = front.as_str(),
            database = &*query.database,
            pattern = shown(&query.statement),
            class = labels::answered(&outcome.how.class).as_str(),
            detail = labels::detail_of(&outcome.how),
            status,
            took_ms = millis(took),
            hop_ms = by.map(|by| hop_ms(by, took)),
            bytes,
            owner = by.map(|by| by.node.to_string()),
            trace = traceparent.and_then(trace_id),
            "{}",
            self.title(took)
        );
    }

    /// The line of a statement that goes to Neo4j past the cache, if it may get one.
    pub fn passing(
        self,
        statement: &str,
        (database, reason): (Option<&str>, Reason),
        traceparent: Option<&str>,
    ) -> Option<PassedLine> {
        let has_any = self.has_all || self.slow.is_some();
        has_any.then(|| PassedLine {
            log: self,
            pattern: shown(statement),
            database: database.map(ToOwned::to_owned),
            reason,
            trace: traceparent.and_then(trace_id).map(ToOwned::to_owned),
        })
    }

    fn has_line(self, took: Duration) -> bool {
        self.has_all || self.is_slow(took)
    }

    fn title(self, took: Duration) -> &'static str {
        if self.is_slow(took) { "slow request" } else { "request" }
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
            cause = fetch.cause.as_str(),
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

/// The line of a statement over Bolt that goes to Neo4j past the cache, until Neo4j has answered it.
pub struct PassedLine {
    log: RequestLog,
    pattern: String,
    /// As the client named it: nothing asks for the name of a home database here.
    database: Option<String>,
    reason: Reason,
    trace: Option<String>,
}

impl PassedLine {
    /// Neo4j has answered with the last record, or with a failure. `took` is the time since RUN came, so it contains the client's
    /// pauses between its PULLs.
    pub fn write(self, is_success: bool, took: Duration) {
        if !self.log.has_line(took) {
            return;
        }
        tracing::info!(
            front = Front::Bolt.as_str(),
            database = self.database,
            pattern = self.pattern,
            class = AnswerClass::Bypass.as_str(),
            detail = self.reason.word(),
            status = labels::status_of_passed(is_success),
            took_ms = millis(took),
            trace = self.trace,
            "{}",
            self.log.title(took)
        );
    }
}

/// The lines that are wanted now: a reload of the configuration changes them.
#[derive(Debug)]
pub struct RequestLogInForce {
    /// 0 for no lines of slow requests.
    slow_ms: AtomicU64,
    has_all: AtomicBool,
}

impl RequestLogInForce {
    /// The lines that the configuration asks for at the start.
    #[must_use]
    pub fn of(section: &LogSection) -> Arc<Self> {
        let (slow_ms, has_all) = (AtomicU64::new(section.slow.0), AtomicBool::new(section.requests));
        Arc::new(Self { slow_ms, has_all })
    }

    /// From now on these lines are wanted.
    pub fn set(&self, section: &LogSection) {
        self.slow_ms.store(section.slow.0, Ordering::Relaxed);
        self.has_all.store(section.requests, Ordering::Relaxed);
    }

    /// The lines that are wanted at this moment.
    #[must_use]
    pub fn now(&self) -> RequestLog {
        let slow_ms = Some(self.slow_ms.load(Ordering::Relaxed)).filter(|slow_ms| *slow_ms > 0);
        let has_all = self.has_all.load(Ordering::Relaxed);
        RequestLog { slow: slow_ms.map(Duration::from_millis), has_all }
    }
}

/// Counts events, learns the pace of Neo4j, and writes the lines of slow fetches.
pub struct EventObserver {
    /// The metrics that count it.
    pub meters: Arc<Meters>,
    /// The log that writes a line for it.
    pub log: Arc<RequestLogInForce>,
    /// What it says about the pace of Neo4j.
    pub pace: Arc<OriginPace>,
}

impl Observer for EventObserver {
    fn note(&self, event: Event) {
        self.meters.note(event);
    }

    fn fetched(&self, fetch: &EndedFetch<'_>) {
        self.pace.fetched(fetch);
        self.log.now().fetched(fetch);
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

/// How long the node that was asked took. A request that joined another's question waited for less.
fn hop_ms(by: &AnsweredBy, took: Duration) -> f64 {
    millis(by.hop_ms.duration().min(took))
}

/// The trace's id in a `traceparent` (W3C Trace Context, section 3.2.2).
fn trace_id(traceparent: &str) -> Option<&str> {
    traceparent.split('-').nth(1)
}

#[cfg(test)]
mod tests {
    use hopcache_core::node::NodeName;

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

    /// A request that joined a question half way has not waited for all of it.
    #[test]
    fn a_hop_is_no_longer_than_its_request() {
        let by = AnsweredBy { node: NodeName::new("node-b").unwrap(), hop_ms: Millis(400) };
        assert!((hop_ms(&by, Duration::from_millis(450)) - 400.0).abs() < f64::EPSILON);
        assert!((hop_ms(&by, Duration::from_millis(100)) - 100.0).abs() < f64::EPSILON);
    }

    #[test]
    fn what_passes_the_cache_has_a_line_only_if_a_line_is_asked_for() {
        let passing = |section| {
            RequestLog::of(&section).passing("CREATE (n {name: 'Ann'})", (None, Reason::Write), None)
        };
        let slow = LogSection { slow: Millis(100), ..LogSection::default() };
        let line = passing(slow).unwrap();
        assert_eq!(line.pattern, "CREATE ( n { name : ? } )");
        assert!(
            line.log.has_line(Duration::from_millis(100)) && !line.log.has_line(Duration::from_millis(99))
        );
        let all = passing(LogSection { requests: true, ..LogSection::default() }).unwrap();
        assert!(all.log.has_line(Duration::ZERO));
        assert!(passing(LogSection::default()).is_none());
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
