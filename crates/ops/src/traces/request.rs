//! The span of a client's request.

use std::time::Duration;

use hopcache_cypher::checks::rights::may_change_rights;
use hopcache_engine::ask::Query;
use hopcache_engine::outcome::{Answer, How, Outcome};
use hopcache_engine::trouble::Trouble;
use opentelemetry::trace::{Span as _, Status};
use opentelemetry::{KeyValue, TraceId};
use opentelemetry_sdk::trace::Span;

use super::traceparent_of;
use crate::labels::{self, Front};

/// Longest statement in a span, in bytes; the rest is cut. With it, spans that wait take 8 MiB at most.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The span of a client's request. Dropping it ends it.
pub struct RequestSpan {
    /// In a box, so that the future of a hit does not grow.
    span: Box<Span>,
    shows_statements: bool,
}

/// A request that became a query, and its answer.
pub struct AnsweredRequest<'a> {
    /// The client's protocol.
    pub front: Front,
    /// The statement.
    pub query: &'a Query,
    /// How it was answered.
    pub outcome: &'a Outcome,
    /// The status of the response; over Bolt, the one that HTTP would have.
    pub status: u16,
    /// How long it took.
    pub took: Duration,
    /// Its trace context.
    pub traceparent: Option<&'a str>,
}

impl RequestSpan {
    pub(super) fn new(span: Span, shows_statements: bool) -> Self {
        Self { span: Box::new(span), shows_statements }
    }

    /// The trace that the span belongs to.
    pub fn trace(&self) -> TraceId {
        self.span.span_context().trace_id()
    }

    /// The `traceparent` for what the request causes.
    pub fn traceparent(&self) -> String {
        traceparent_of(self.span.span_context())
    }

    /// A request was answered. The names are those of OpenTelemetry's semantic conventions for HTTP and databases, and our own.
    pub fn answered(&mut self, request: &AnsweredRequest<'_>) {
        let AnsweredRequest { front, query, outcome, status, .. } = *request;
        self.note_how(&outcome.how);
        self.note_database(&query.database);
        self.note_statement(&query.statement);
        self.note_status((front == Front::Http).then_some(status));
        self.span.set_attribute(KeyValue::new("hopcache.pattern", format!("{:016x}", query.pattern.0)));
        if let Some(by) = &outcome.answered_by {
            self.span.set_attribute(KeyValue::new("hopcache.answered_by", by.node.as_str().to_owned()));
        }
        // An error of the client is none of the server's (OpenTelemetry semantic conventions, HTTP spans, status).
        if matches!(&outcome.answer, Answer::Failed(failure) if Trouble::is_behind(&failure.kind)) {
            self.span.set_status(Status::error("the request failed"));
        }
    }

    /// The class of an answer, its detail, and whether it was proved.
    pub fn note_how(&mut self, how: &How) {
        self.span.set_attribute(KeyValue::new("db.system.name", "neo4j"));
        self.span.set_attribute(KeyValue::new("hopcache.class", labels::answered(&how.class).as_str()));
        self.span.set_attribute(KeyValue::new("hopcache.proved", how.is_proved));
        if let Some(detail) = labels::detail_of(how) {
            self.span.set_attribute(KeyValue::new("hopcache.detail", detail));
        }
    }

    /// The database of a request.
    pub fn note_database(&mut self, name: &str) {
        self.span.set_attribute(KeyValue::new("db.namespace", name.to_owned()));
    }

    /// The statement of a request, if the operator wants statements. One about users and rights may have a password in it.
    pub fn note_statement(&mut self, text: &str) {
        if self.shows_statements && !may_change_rights(text) {
            let end = text.floor_char_boundary(TEXT_BYTES_MAX);
            self.span.set_attribute(KeyValue::new("db.query.text", text[..end].to_owned()));
        }
    }

    /// The status of a response over HTTP.
    pub fn note_status(&mut self, status: Option<u16>) {
        let status = status.map(i64::from);
        self.span.set_attributes(status.map(|status| KeyValue::new("http.response.status_code", status)));
    }

    /// A request that did not become a query was refused.
    pub fn refused(&mut self, status: u16) {
        self.note_status(Some(status));
        if status >= 500 {
            self.span.set_status(Status::error("the request was refused"));
        }
    }
}
