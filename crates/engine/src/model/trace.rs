//! What is told of the steps of a request while it goes on: the spans of traced requests.
//!
//! A span ends when it is dropped, so a future that is dropped at an await ends its steps too. Nothing here decides which
//! requests are traced. The front decides that, and from then on the `traceparent` of a request says so (W3C Trace Context,
//! section 3.2: the flag `sampled`).

use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;

use crate::model::event::{Cause, FaultWord, ForwardWord};
use crate::model::faults::OriginError;
use crate::model::fetch_times::FetchTimes;

/// A step of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This node asks another one.
    Forward,
    /// This node answers another one, by more than a look at its memory.
    Serve,
    /// This node competes for the lease of the key.
    Lease,
    /// The origin says what kind of statement it is (`EXPLAIN`), once for each statement and node.
    Explain,
    /// The origin runs the statement. It contains the wait for a place.
    Run,
    /// The origin commits a transaction of a client.
    Commit,
}

/// What is known of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fact<'a> {
    /// The node that is asked.
    Peer(&'a NodeName),
    /// How a forward ended.
    Forwarded(ForwardWord),
    /// How the competition for a lease ended.
    Leased(LeaseWord),
    /// The purpose of a run.
    Cause(Cause),
    /// How long a run waited for a place.
    Waited(Millis),
    /// Why a run failed.
    Fault(FaultWord),
}

/// How the competition for a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseWord {
    /// The store had a value.
    Value,
    /// This node got the lease.
    Granted,
    /// Another holder runs.
    Busy,
    /// The store cannot be reached.
    NoStore,
}

/// Records the steps of traced requests.
pub trait Tracer: Send + Sync + 'static {
    /// Begins a step under `parent`, a W3C `traceparent`. `None` if its trace is not recorded. Never blocks.
    fn begin(&self, parent: &str, step: Step) -> Option<Box<dyn Span>>;
}

/// A step that goes on. Dropping it ends it.
pub trait Span: Send + Sync {
    /// The `traceparent` for what this step causes.
    fn traceparent(&self) -> String;
    /// Adds a fact.
    fn note(&mut self, fact: Fact<'_>);
}

/// Traces nothing.
pub struct NoTracer;

impl Tracer for NoTracer {
    fn begin(&self, _: &str, _: Step) -> Option<Box<dyn Span>> {
        None
    }
}

/// The `traceparent` for what a step causes: the span's, or `parent` if the step is not traced.
pub(crate) fn traceparent_below(span: Option<&dyn Span>, parent: Option<&str>) -> Option<String> {
    span.map(Span::traceparent).or_else(|| parent.map(str::to_owned))
}

/// Ends the span of a run with what is known of it.
pub(crate) fn end_run<T>(
    span: Option<Box<dyn Span>>,
    (cause, times): (Cause, &FetchTimes),
    ended: &Result<T, OriginError>,
) {
    let Some(mut span) = span else { return };
    span.note(Fact::Cause(cause));
    span.note(Fact::Waited(times.waited_ms()));
    if let Err(error) = ended {
        span.note(Fact::Fault(FaultWord::from(&error.kind)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_untraced_step_causes_has_the_parent_of_the_step() {
        assert_eq!(traceparent_below(None, Some("00-1-2-00")).as_deref(), Some("00-1-2-00"));
        assert_eq!(traceparent_below(None, None), None);
    }
}
