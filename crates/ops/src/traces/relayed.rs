//! The spans of what Neo4j answers itself, past the cache: the client's request, and this node's request to Neo4j in it.
//!
//! Both end when this is dropped, the inner one first. So a client that goes away, or a RESET, ends them too.

use hopcache_engine::event::{Cause, FaultWord};
use hopcache_engine::trace::{Fact, Span, Step, Tracer as _};

use super::{RequestSpan, Traces};

/// The spans of one request that goes to Neo4j. The fields are dropped in this order.
pub struct RelayedSpans {
    /// What Neo4j does; `None` once it has answered.
    step: Option<Box<dyn Span>>,
    cause: Cause,
    /// What this node does around it: it waits for a connection, and tells other nodes of a write.
    _request: RequestSpan,
}

impl RelayedSpans {
    /// The request goes to Neo4j now.
    pub fn begin(traces: &Traces, request: RequestSpan, (step, cause): (Step, Cause)) -> Self {
        let step = traces.begin(&request.traceparent(), step);
        Self { step, cause, _request: request }
    }

    /// Neo4j has answered, or its answer does not come any more.
    pub fn end_step(&mut self, fault: Option<FaultWord>) {
        end_step(self.step.take(), self.cause, fault);
    }
}

/// Ends the span of what Neo4j did for a request.
pub fn end_step(span: Option<Box<dyn Span>>, cause: Cause, fault: Option<FaultWord>) {
    let Some(mut span) = span else { return };
    span.note(Fact::Cause(cause));
    if let Some(fault) = fault {
        span.note(Fact::Fault(fault));
    }
}
