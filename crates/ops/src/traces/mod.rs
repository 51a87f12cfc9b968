//! Traces of requests, by OpenTelemetry: which requests are traced, and how their steps become spans.
//!
//! Off unless `trace.otlp_endpoint` is set. A request is traced if its client traces it (the flag `sampled` of its
//! `traceparent`; W3C Trace Context, section 3.2), or else by chance (`trace.sample_ratio`). The engine begins steps by the
//! `traceparent` of a request, so a hop or a run of a request that is not traced costs a look at one flag. Nothing here waits:
//! spans go into a bounded queue, and `export` sends them. A span that finds no place is dropped.
//!
//! Statements and parameters are not in a span, unless `trace.statements` adds the statement.

mod export;
mod relayed;
mod request;

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use hopcache_config::TraceSection;
use hopcache_engine::event::ForwardWord;
use hopcache_engine::ports::Dice;
use hopcache_engine::trace::{Fact, LeaseWord, Span, Step, Tracer};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{
    Span as _, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span as SdkSpan};

use crate::clock::SystemDice;

pub use relayed::{RelayedSpans, end_step};
pub use request::{AnsweredRequest, RequestSpan};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The traces of one node.
pub struct Traces(Option<Exported>);

struct Exported {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    /// A request without a trace is traced if 64 random bits are below this.
    sampled_below: u64,
    shows_statements: bool,
}

impl Traces {
    /// Traces nothing.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// The traces that the configuration asks for. It must be called inside a tokio runtime, which sends the spans.
    ///
    /// # Errors
    /// When the endpoint is not usable.
    pub fn of(section: &TraceSection, node: &str) -> anyhow::Result<Self> {
        if section.otlp_endpoint.is_empty() {
            return Ok(Self::off());
        }
        let provider = export::provider(&section.otlp_endpoint, node).context("trace.otlp_endpoint")?;
        let tracer = provider.tracer("hopcache");
        let sampled_below = below(section.sample_ratio);
        Ok(Self(Some(Exported { provider, tracer, sampled_below, shows_statements: section.statements })))
    }

    /// Begins the span of a client's request, if the request is traced. `context` is read only if this node traces.
    pub fn request<'a>(
        &self,
        name: &'static str,
        began: Instant,
        context: impl FnOnce() -> TraceContext<'a>,
    ) -> Option<RequestSpan> {
        let exported = self.0.as_ref()?;
        let parent = match context().parent() {
            Some(parent) if !parent.is_sampled() => return None,
            Some(parent) => Context::new().with_remote_span_context(parent),
            None if SystemDice.u64() < exported.sampled_below => Context::new(),
            None => return None,
        };
        let began = SystemTime::now() - began.elapsed();
        let builder = exported.tracer.span_builder(name).with_kind(SpanKind::Server).with_start_time(began);
        let span = builder.start_with_context(&exported.tracer, &parent);
        Some(RequestSpan::new(span, exported.shows_statements))
    }

    /// Sends the spans that are still here, for this long at most.
    pub async fn end(&self, within: Duration) {
        let Some(exported) = &self.0 else { return };
        let provider = exported.provider.clone();
        // The provider blocks its thread until its exporter, a task of this runtime, has ended.
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(within));
        if let Ok(Err(error)) = ended.await {
            tracing::warn!(%error, "the last spans may be lost");
        }
    }
}

/// The number that a share `ratio` of all 64-bit numbers is below.
fn below(ratio: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the ratio is from 0 to 1, and the cast saturates"
    )]
    let below = (ratio * u64::MAX as f64) as u64;
    below
}

impl Tracer for Traces {
    fn begin(&self, parent: &str, step: Step) -> Option<Box<dyn Span>> {
        let exported = self.0.as_ref()?;
        let context = TraceContext { traceparent: Some(parent), tracestate: None };
        let parent = context.parent().filter(SpanContext::is_sampled)?;
        let (name, kind) = named(step);
        let builder = exported.tracer.span_builder(name).with_kind(kind);
        let span =
            builder.start_with_context(&exported.tracer, &Context::new().with_remote_span_context(parent));
        Some(Box::new(StepSpan(span)))
    }
}

/// Names by which an operator knows the steps, and their kinds (OpenTelemetry specification, Trace API, SpanKind).
const fn named(step: Step) -> (&'static str, SpanKind) {
    match step {
        Step::Forward => ("hop", SpanKind::Client),
        Step::Serve => ("owner", SpanKind::Server),
        Step::Lease => ("lease", SpanKind::Internal),
        Step::Explain => ("explain", SpanKind::Client),
        Step::Run => ("run", SpanKind::Client),
        Step::Commit => ("commit", SpanKind::Client),
    }
}

/// The span of one step.
struct StepSpan(SdkSpan);

impl Span for StepSpan {
    fn traceparent(&self) -> String {
        traceparent_of(self.0.span_context())
    }

    fn note(&mut self, fact: Fact<'_>) {
        let attribute = match fact {
            Fact::Peer(node) => KeyValue::new("hopcache.peer", node.as_str().to_owned()),
            Fact::Forwarded(word) => {
                if word != ForwardWord::Answered {
                    self.fail(word.as_str());
                }
                KeyValue::new("hopcache.hop", word.as_str())
            }
            Fact::Leased(word) => KeyValue::new("hopcache.lease", lease_label(word)),
            Fact::Cause(cause) => {
                self.0.set_attribute(KeyValue::new("db.system.name", "neo4j"));
                KeyValue::new("hopcache.cause", cause.as_str())
            }
            Fact::Waited(span) => {
                KeyValue::new("hopcache.waited_ms", i64::try_from(span.0).unwrap_or(i64::MAX))
            }
            Fact::Fault(fault) => {
                self.fail(fault.as_str());
                KeyValue::new("error.type", fault.as_str())
            }
        };
        self.0.set_attribute(attribute);
    }
}

impl StepSpan {
    fn fail(&mut self, why: &'static str) {
        self.0.set_status(Status::error(Cow::Borrowed(why)));
    }
}

const fn lease_label(word: LeaseWord) -> &'static str {
    match word {
        LeaseWord::Value => "value",
        LeaseWord::Granted => "granted",
        LeaseWord::Busy => "busy",
        LeaseWord::NoStore => "no_store",
    }
}

/// The W3C trace context that came with a request, as it was sent.
pub struct TraceContext<'a> {
    /// The header `traceparent` (W3C Trace Context).
    pub traceparent: Option<&'a str>,
    /// The header `tracestate`.
    pub tracestate: Option<&'a str>,
}

impl TraceContext<'_> {
    /// The span of the client, if the context has the form of W3C.
    fn parent(&self) -> Option<SpanContext> {
        self.traceparent?;
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), self);
        let span = context.span().span_context().clone();
        span.is_valid().then_some(span)
    }
}

impl Extractor for TraceContext<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACEPARENT => self.traceparent,
            TRACESTATE => self.tracestate,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}

/// W3C Trace Context, section 3.2.
fn traceparent_of(context: &SpanContext) -> String {
    format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags().to_u8())
}

#[cfg(test)]
mod tests;
