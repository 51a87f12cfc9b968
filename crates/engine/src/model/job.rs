//! A leader's job: its facts of the request, refresh or prefetch that started it.

use std::sync::Arc;

use hopcache_core::time::{Millis, MonoTime};

use crate::model::ask::{Ask, Hints, Query};
use crate::model::bounds::ValueBounds;
use crate::model::event::Cause;
use crate::model::fetch_times::FetchTimes;
use crate::model::live::LiveRun;
use crate::model::rendering::RenderingId;

/// A job for the leader (`fetch`).
#[derive(Debug, Clone)]
pub struct FetchJob {
    /// The query.
    pub query: Arc<Query>,
    /// The rendering to make before the result is announced.
    pub rendering: RenderingId,
    /// Hints of the request.
    pub hints: Hints,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// The purpose of the run.
    pub cause: Cause,
    /// Which earlier values are an answer.
    pub bounds: ValueBounds,
    /// When a refresh or a prefetch must have ended. A request's own deadline bounds its wait, not the run.
    pub until: Option<MonoTime>,
    /// The longest run that the leading request's client allows. A run without a client, such as a refresh, has no such
    /// limit.
    pub run_ms_max: Option<Millis>,
    /// Takes the records of the run while it goes on.
    pub live: Option<Arc<LiveRun>>,
    /// Where the time of the fetch goes. Each fetch has its own.
    pub times: FetchTimes,
}

impl FetchJob {
    /// The job of a request, or of the refresh that its hit begins. A refresh takes what another node has read meanwhile, proved or not.
    #[must_use]
    pub fn of(ask: &Ask, cause: Cause) -> Self {
        let mut bounds = ValueBounds::of_request(ask);
        bounds.proved_only &= cause == Cause::Miss;
        Self {
            query: Arc::clone(&ask.query),
            rendering: ask.rendering,
            hints: ask.hints,
            traceparent: ask.traceparent.clone(),
            cause,
            bounds,
            until: None,
            run_ms_max: ask.run_ms_max,
            live: if cause == Cause::Miss { ask.live.clone() } else { None },
            times: FetchTimes::default(),
        }
    }
}
