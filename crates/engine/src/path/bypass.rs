//! Requests that pass the cache by: run at the origin as they came, once, for one client.
//!
//! Never cached, never shared, never retried (promise I6). The run is detached all the same: a write
//! whose client leaves has to end in one way, not in the middle.

use std::sync::Arc;

use hopcache_core::limits::PASS_THROUGH_BYTES_MAX;
use hopcache_core::turns::RunClass;

use crate::ask::{Ask, RequestBypass, RunBounds};
use crate::copy::body_of;
use crate::engine::Engine;
use crate::outcome::{Answer, Cause, Event, Failure, FailureKind, FaultWord, How, Outcome, Reason};
use crate::ports::OriginRun;
use crate::run::was_sent;

impl Engine {
    pub(crate) async fn bypass(self: &Arc<Self>, ask: &Ask, reason: Reason) -> Outcome {
        let run = self.run_as_asked(ask);
        let cause = match reason {
            Reason::Write | Reason::Unknown => Cause::Write,
            _ => Cause::Bypass,
        };
        let engine = Arc::clone(self);
        let form = ask.form;
        let task = self.tasks.spawn(async move {
            let started = engine.now();
            let ended = engine.ports.origin.run(&run).await;
            let took_ms = engine.now().since(started);
            if was_sent(&ended) {
                engine.note(Event::OriginRun { cause, took_ms });
            }
            if let Err(error) = &ended {
                engine.note_shed(run.class, &error.kind, error.was_sent);
                engine.note(Event::OriginFault(FaultWord::from(&error.kind)));
            }
            let result = ended.map_err(Failure::from)?;
            let bookmarks: Vec<String> = result.bookmark.clone().into_iter().collect();
            body_of(&result, form, &bookmarks).map_err(|error| Failure::from(FailureKind::from(error)))
        });
        let left = ask.deadline.since(self.now());
        let answer = tokio::select! {
            biased;
            ended = task => match ended {
                Ok(Ok(body)) => Answer::Body(body),
                Ok(Err(failure)) => Answer::Failed(failure),
                Err(_) => Answer::Failed(FailureKind::BadResult.into()),
            },
            () = self.ports.clock.sleep(left) => Answer::Failed(FailureKind::DeadlinePassed.into()),
            () = self.turned_away() => Answer::Failed(FailureKind::Leaving.into()),
        };
        Outcome { answer, how: How::bypass(reason), answered_by: None, key: ask.query.key }
    }

    fn run_as_asked(&self, ask: &Ask) -> OriginRun {
        let bounds = RunBounds { timeout_ms: self.policy.run_timeout_ms, bytes_max: PASS_THROUGH_BYTES_MAX };
        let mut run = ask.query.reading(bounds, ask.traceparent.clone());
        run.mode = ask.mode;
        run.class = RunClass::Bypass;
        if let Some(RequestBypass::Bookmarks(bookmarks)) = &ask.bypass {
            run.bookmarks.clone_from(bookmarks);
        }
        run
    }
}
