//! What a leader needs to know of the request, refresh or prefetch that started it.

use std::sync::Arc;

use hopcache_core::time::{Millis, MonoTime};

use crate::model::ask::{Ask, Hints, Query};
use crate::model::bounds::ValueBounds;
use crate::model::event::Cause;
use crate::model::rendering::RenderingId;

/// A job for the leader (`fetch`).
#[derive(Debug, Clone)]
pub struct FetchJob {
    /// What is asked.
    pub query: Arc<Query>,
    /// The rendering that is made before anybody is told.
    pub rendering: RenderingId,
    /// Hints of the request.
    pub hints: Hints,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// What the run is for.
    pub cause: Cause,
    /// Which values of before are an answer.
    pub bounds: ValueBounds,
    /// When a refresh or a prefetch has to have ended. A request's own deadline bounds its wait, and not the run.
    pub until: Option<MonoTime>,
    /// How long the run may take at the most, by the word of the client whose request leads. What is run for nobody in
    /// particular, such as a refresh, has no such limit.
    pub run_ms_max: Option<Millis>,
}

impl FetchJob {
    /// The job of a request.
    #[must_use]
    pub fn of(ask: &Ask, cause: Cause) -> Self {
        Self {
            query: Arc::clone(&ask.query),
            rendering: ask.rendering,
            hints: ask.hints,
            traceparent: ask.traceparent.clone(),
            cause,
            bounds: ValueBounds::of_request(ask),
            until: None,
            run_ms_max: ask.run_ms_max,
        }
    }
}
