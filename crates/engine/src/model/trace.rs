//! What is told of the steps of a request while it goes on: spans of traced requests, and where the time of a fetch went.
//!
//! A span ends when it is dropped, so a future that is dropped at an await ends its steps too. Nothing here decides which
//! requests are traced. The front decides that, and from then on the `traceparent` of a request says so (W3C Trace Context,
//! section 3.2: the flag `sampled`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;

use crate::model::event::{Cause, FaultWord, ForwardWord};
use crate::model::faults::OriginError;

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

/// Where the time of one fetch went. All its parts share it.
#[derive(Debug, Clone, Default)]
pub struct FetchTimes(Arc<Parts>);

#[derive(Debug, Default)]
struct Parts {
    lease_ms: AtomicU64,
    explain_ms: AtomicU64,
    waited_ms: AtomicU64,
    run_ms: AtomicU64,
}

impl FetchTimes {
    /// The competition for the lease took this long.
    pub(crate) fn leased(&self, took_ms: Millis) {
        self.0.lease_ms.store(took_ms.0, Ordering::Relaxed);
    }

    /// The question for the kind of the statement took this long.
    pub(crate) fn explained(&self, took_ms: Millis) {
        self.0.explain_ms.store(took_ms.0, Ordering::Relaxed);
    }

    /// A run waited this long for a place at the origin. The origin says so.
    pub fn waited(&self, waited_ms: Millis) {
        self.0.waited_ms.store(waited_ms.0, Ordering::Relaxed);
    }

    /// A run took this long, with its wait for a place.
    pub(crate) fn ran(&self, took_ms: Millis) {
        self.0.run_ms.store(took_ms.0, Ordering::Relaxed);
    }

    /// How long the competition for the lease took.
    #[must_use]
    pub fn lease_ms(&self) -> Millis {
        Millis(self.0.lease_ms.load(Ordering::Relaxed))
    }

    /// How long the question for the kind of the statement took; zero if it was known.
    #[must_use]
    pub fn explain_ms(&self) -> Millis {
        Millis(self.0.explain_ms.load(Ordering::Relaxed))
    }

    /// How long the run waited for a place.
    #[must_use]
    pub fn waited_ms(&self) -> Millis {
        Millis(self.0.waited_ms.load(Ordering::Relaxed))
    }

    /// How long the run took at the origin, once it had a place.
    #[must_use]
    pub fn run_ms(&self) -> Millis {
        Millis(self.0.run_ms.load(Ordering::Relaxed).saturating_sub(self.waited_ms().0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_place_is_no_part_of_the_run() {
        let times = FetchTimes::default();
        times.clone().waited(Millis(30));
        times.ran(Millis(100));
        assert_eq!((times.waited_ms(), times.run_ms()), (Millis(30), Millis(70)));
    }

    #[test]
    fn what_an_untraced_step_causes_has_the_parent_of_the_step() {
        assert_eq!(traceparent_below(None, Some("00-1-2-00")).as_deref(), Some("00-1-2-00"));
        assert_eq!(traceparent_below(None, None), None);
    }
}
