//! Requests that bypass the cache: each runs at the origin as it came, once, for one client.
//!
//! They are never cached or shared, and what may write is never retried (I6). The run is detached anyway: a write whose client leaves runs to its
//! end.

use std::sync::Arc;

use hopcache_core::bookmark::ReadRange;
use hopcache_core::limits::{PASS_THROUGH_BYTES_MAX, RENDER_INLINE_BYTES_MAX, RESULT_BYTES_UNRESERVED};
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::turns::RunClass;

use crate::cache::render_passing;
use crate::fetch::{Verdict, was_sent};
use crate::model::ask::{Ask, RequestBypass, RunBounds};
use crate::model::event::{Cause, Event, FaultWord};
use crate::model::origin_run::{RunBookmarks, WriteBegan};
use crate::model::outcome::{Answer, Failure, FailureKind, How, Outcome, Reason};
use crate::model::ports::{AccessMode, OriginError, OriginRun, WriteOf};
use crate::model::text_facts::TextFacts;
use crate::model::trace::{self, Step, traceparent_below};
use crate::model::worker::apart_if_large;
use crate::path::Path;
use crate::writes::{Effects, PendingWrite};

impl Path {
    pub(super) async fn bypass(self: &Arc<Self>, ask: &Ask, reason: Reason) -> Outcome {
        let mut run = self.run_as_asked(ask);
        let span = self.context.begin(ask.traceparent.as_deref(), Step::Run);
        run.traceparent = traceparent_below(span.as_deref(), ask.traceparent.as_deref());
        let cause = match reason {
            Reason::Write | Reason::Unknown => Cause::Write,
            _ => Cause::Bypass,
        };
        let (path, query) = (Arc::clone(self), Arc::clone(&ask.query));
        let rendering = ask.rendering;
        // A run in read mode changes nothing, and neither does a statement that the server calls a read, or that has no word of a
        // write.
        let is_write = run.mode == AccessMode::Write
            && self.fetch.classifier().verdict(&ask.query) != Verdict::Read
            && query.facts().may_write();
        let deadline = ask.deadline;
        let task = self.context.spawn(async move {
            let mut write = if is_write { Some(path.begin_write(&run, query.facts()).await) } else { None };
            let started = path.context.now();
            if started >= deadline
                && let Some((write, _)) = write.take()
            {
                write.changed_nothing();
                return Err(Failure::from(FailureKind::DeadlinePassed));
            }
            let ended = path.origin.run(&run).await;
            let took_ms = path.context.now().since(started);
            trace::end_run(span, (cause, &run.times), &ended);
            if was_sent(&ended) {
                path.context.note(Event::OriginRun { cause, took_ms });
            }
            if let Err(error) = &ended {
                path.fetch.note_shed(run.class, &error.kind, error.was_sent);
                path.context.note(Event::OriginFault(FaultWord::from(&error.kind)));
            }
            // First: telling other nodes of the write takes time, and a prefetch may ask for the verdict meanwhile.
            if ended.as_ref().is_ok_and(ResultSet::has_updates) {
                path.fetch.classifier().distrust(&query);
            }
            end_write(write, query.facts(), &ended).await;
            let result = ended.map_err(Failure::from)?;
            let range = result.range.clone().map(Arc::new);
            let body = apart_if_large(result.records.len(), RENDER_INLINE_BYTES_MAX, move || {
                render_passing(&result, rendering, path.cache.renderer(), result.bookmark.as_deref())
            });
            body.await.map(|body| (body, range)).map_err(|error| Failure::from(FailureKind::from(error)))
        });
        let left = ask.deadline.since(self.context.now());
        let answer = tokio::select! {
            biased;
            ended = task => match ended {
                Ok(ended) => ended,
                Err(_) => Err(FailureKind::BadResult.into()),
            },
            () = self.context.sleep(left) => Err(unanswered(FailureKind::DeadlinePassed)),
            () = self.context.lifecycle().turned_away() => Err(unanswered(FailureKind::Leaving)),
        };
        let (answer, range) = match answer {
            Ok((body, range)) => (Answer::Body(body), range),
            Err(failure) => (Answer::Failed(failure), None),
        };
        let outcome =
            Outcome { answer, how: How::bypass(reason), answered_by: None, key: ask.query.key, range };
        match reason {
            Reason::NoStore | Reason::Bookmarks | Reason::TooLarge => Self::in_clients_terms(ask, outcome),
            // Of what may write it is not known whether it ended in time.
            _ => outcome,
        }
    }

    /// A write goes to the origin as soon as it is known what it will not change.
    async fn begin_write(&self, run: &OriginRun, facts: &TextFacts) -> (PendingWrite, Effects) {
        let effects = Effects::of_facts(facts, &run.params);
        self.writes.look_ahead(&run.database, &effects).await;
        (self.writes.begin(write_of(run, facts, &effects)), effects)
    }

    fn run_as_asked(&self, ask: &Ask) -> OriginRun {
        let timeout_ms = ask.run_ms_max.unwrap_or(self.policy.now().run_timeout_ms);
        let bounds = RunBounds { timeout_ms, bytes_max: PASS_THROUGH_BYTES_MAX };
        let mut run = ask.query.reading(bounds, ask.traceparent.clone());
        // A read stays one, which the origin may repeat if its connection is cut. What is streamed is one, by the server's word.
        if ask.live.is_none() && self.fetch.classifier().verdict(&ask.query) != Verdict::Read {
            run.mode = ask.mode;
        }
        if run.mode == AccessMode::Read
            && let Some(live) = &ask.live
        {
            // What the reader has not taken waits here: as much as needs no room.
            (run.live, run.bytes_max) = (Some(Arc::clone(live)), RESULT_BYTES_UNRESERVED);
        }
        run.may_be_repeated = self.may_run_again(ask);
        run.class = RunClass::Bypass;
        run.metadata.clone_from(&ask.metadata);
        run.bookmarks = RunBookmarks::AsSent(match &ask.bypass {
            Some(RequestBypass::Bookmarks(bookmarks)) => bookmarks.clone(),
            Some(RequestBypass::NoStore | RequestBypass::Large) | None => {
                ask.bookmarks.encode().into_iter().collect()
            }
        });
        run
    }
}

/// Nobody waits for the run any longer, and it goes on: it may have been carried out.
fn unanswered(kind: FailureKind) -> Failure {
    Failure { was_sent: true, ..kind.into() }
}

fn write_of(run: &OriginRun, facts: &TextFacts, effects: &Effects) -> WriteOf {
    WriteOf {
        database: Arc::clone(&run.database),
        identity: Arc::clone(&run.identity),
        impersonated: run.impersonated.clone(),
        timeout_ms: run.timeout_ms,
        may_name_graph: facts.may_name_graph(),
        parts: facts.parts(&run.params),
        changes_rights: facts.changes_rights(),
        began: WriteBegan::Now,
        touched: effects.touched(),
        tokens: effects.tokens(),
    }
}

/// Says how a write has ended. Its client is answered after that.
async fn end_write(
    write: Option<(PendingWrite, Effects)>,
    facts: &TextFacts,
    ended: &Result<ResultSet, OriginError>,
) {
    let Some((write, effects)) = write else { return };
    match ended {
        Ok(result) if result.marked.is_none() && has_changed_nothing(result, facts) => {
            write.changed_nothing();
        }
        Ok(result) => {
            let write = write.narrowed(effects.counted(&result.summary).touched());
            let write =
                write.has_changed(Some(Effects::net_change(&result.summary))).with_marker(result.marked);
            write.committed(result.range.as_ref().map(ReadRange::to)).await;
        }
        Err(error) => write.failed(error).await,
    }
}

/// Whether the summary of a run shows that nothing was updated. A procedure may have written in transactions of its own,
/// which its summary does not count.
fn has_changed_nothing(result: &ResultSet, facts: &TextFacts) -> bool {
    let may_hide = facts.may_call_procedure() && result.kind != Some(StatementKind::Read);
    !result.has_updates() && !may_hide
}
