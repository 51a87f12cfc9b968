//! The span of a client's request.

use hopcache_core::cypher::rights::may_change_rights;
use hopcache_engine::ask::Ask;
use hopcache_engine::outcome::{Answer, Outcome, Reason};
use opentelemetry::trace::{Span as _, Status};
use opentelemetry::{KeyValue, TraceId};
use opentelemetry_sdk::trace::Span;

use super::traceparent_of;
use crate::labels;

/// Longest statement in a span, in bytes; the rest is cut. With it, spans that wait take 8 MiB at most.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The span of a client's request. Dropping it ends it.
pub(crate) struct RequestSpan {
    /// In a box, so that the future of a hit does not grow.
    span: Box<Span>,
    shows_statements: bool,
}

/// What a request was, and how it was answered.
pub(crate) struct About<'a> {
    pub(crate) ask: &'a Ask,
    pub(crate) outcome: &'a Outcome,
    /// The status of the response; `None` over Bolt.
    pub(crate) status: Option<u16>,
}

impl RequestSpan {
    pub(super) fn new(span: Span, shows_statements: bool) -> Self {
        Self { span: Box::new(span), shows_statements }
    }

    /// The trace that the span belongs to.
    pub(crate) fn trace(&self) -> TraceId {
        self.span.span_context().trace_id()
    }

    /// The `traceparent` for what the request causes.
    pub(crate) fn traceparent(&self) -> String {
        traceparent_of(self.span.span_context())
    }

    /// Ends the span of a request that was answered. The names are those of OpenTelemetry's semantic conventions for HTTP and
    /// databases, and our own.
    pub(crate) fn answered(mut self, about: &About<'_>) {
        let About { ask, outcome, status } = *about;
        let mut attributes = vec![
            KeyValue::new("db.system.name", "neo4j"),
            KeyValue::new("db.namespace", ask.query.database.to_string()),
            KeyValue::new("hopcache.class", labels::CLASSES[labels::class_place(&outcome.how.class)]),
            KeyValue::new("hopcache.pattern", format!("{:016x}", ask.query.pattern.0)),
            KeyValue::new("hopcache.proved", outcome.how.is_proved),
        ];
        attributes.extend(status.map(|status| KeyValue::new("http.response.status_code", i64::from(status))));
        attributes
            .extend(labels::detail_of(&outcome.how).map(|detail| KeyValue::new("hopcache.detail", detail)));
        let owner = outcome.answered_by.as_ref();
        attributes.extend(owner.map(|node| KeyValue::new("hopcache.answered_by", node.as_str().to_owned())));
        // Such a statement may have a password in it.
        if self.shows_statements && !may_change_rights(&ask.query.statement) {
            let text = &*ask.query.statement;
            let end = text.floor_char_boundary(TEXT_BYTES_MAX);
            attributes.push(KeyValue::new("db.query.text", text[..end].to_owned()));
        }
        self.span.set_attributes(attributes);
        // An error of the client is none of the server's (OpenTelemetry semantic conventions, HTTP spans, status).
        if matches!(&outcome.answer, Answer::Failed(failure) if failure.kind.is_outage()) {
            self.span.set_status(Status::error("the request failed"));
        }
    }

    /// Ends the span of a statement that Neo4j answers itself, past the cache.
    pub(crate) fn relayed(mut self, reason: Reason) {
        self.span.set_attribute(KeyValue::new("hopcache.class", "bypass"));
        self.span.set_attribute(KeyValue::new("hopcache.detail", labels::reason_label(reason)));
    }

    /// Ends the span of a request that did not become a query.
    pub(crate) fn refused(mut self, status: u16) {
        self.span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
        if status >= 500 {
            self.span.set_status(Status::error("the request was refused"));
        }
    }
}
