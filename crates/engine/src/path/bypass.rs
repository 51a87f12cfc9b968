//! Requests that bypass the cache: each runs at the origin as it came, once, for one client.
//!
//! They are never cached, shared or retried (I6). The run is detached anyway: a write whose client leaves runs to its
//! end.

use std::sync::Arc;

use hopcache_core::limits::PASS_THROUGH_BYTES_MAX;
use hopcache_core::turns::RunClass;

use crate::cache::render_passing;
use crate::fetch::was_sent;
use crate::model::ask::{Ask, RequestBypass, RunBounds};
use crate::model::event::{Cause, Event, FaultWord};
use crate::model::origin_run::RunBookmarks;
use crate::model::outcome::{Answer, Failure, FailureKind, How, Outcome, Reason};
use crate::model::ports::OriginRun;
use crate::path::Path;

impl Path {
    pub(super) async fn bypass(self: &Arc<Self>, ask: &Ask, reason: Reason) -> Outcome {
        let run = self.run_as_asked(ask);
        let cause = match reason {
            Reason::Write | Reason::Unknown => Cause::Write,
            _ => Cause::Bypass,
        };
        let path = Arc::clone(self);
        let rendering = ask.rendering;
        let task = self.context.spawn(async move {
            let started = path.context.now();
            let ended = path.origin.run(&run).await;
            let took_ms = path.context.now().since(started);
            if was_sent(&ended) {
                path.context.note(Event::OriginRun { cause, took_ms });
            }
            if let Err(error) = &ended {
                path.fetch.note_shed(run.class, &error.kind, error.was_sent);
                path.context.note(Event::OriginFault(FaultWord::from(&error.kind)));
            }
            let result = ended.map_err(Failure::from)?;
            let bookmark = result.bookmark.as_deref();
            let body = render_passing(&result, rendering, path.cache.renderer(), bookmark);
            let range = result.range.clone().map(Arc::new);
            body.map(|body| (body, range)).map_err(|error| Failure::from(FailureKind::from(error)))
        });
        let left = ask.deadline.since(self.context.now());
        let answer = tokio::select! {
            biased;
            ended = task => match ended {
                Ok(ended) => ended,
                Err(_) => Err(FailureKind::BadResult.into()),
            },
            () = self.context.sleep(left) => Err(FailureKind::DeadlinePassed.into()),
            () = self.context.lifecycle().turned_away() => Err(FailureKind::Leaving.into()),
        };
        let (answer, range) = match answer {
            Ok((body, range)) => (Answer::Body(body), range),
            Err(failure) => (Answer::Failed(failure), None),
        };
        Outcome { answer, how: How::bypass(reason), answered_by: None, key: ask.query.key, range }
    }

    fn run_as_asked(&self, ask: &Ask) -> OriginRun {
        let timeout_ms = ask.run_ms_max.unwrap_or(self.policy.run_timeout_ms);
        let bounds = RunBounds { timeout_ms, bytes_max: PASS_THROUGH_BYTES_MAX };
        let mut run = ask.query.reading(bounds, ask.traceparent.clone());
        run.mode = ask.mode;
        run.class = RunClass::Bypass;
        run.bookmarks = RunBookmarks::AsSent(match &ask.bypass {
            Some(RequestBypass::Bookmarks(bookmarks)) => bookmarks.clone(),
            Some(RequestBypass::NoStore) | None => ask.bookmarks.encode().into_iter().collect(),
        });
        run
    }
}
