//! A statement in a transaction: whether the cache answers it, or Neo4j, and the body of its result.
//!
//! The cache may answer reads as long as Neo4j does not know of the transaction. From its first statement at Neo4j on,
//! its own writes may decide what it reads.

use std::time::{Instant, SystemTime};

use bytes::Bytes;
use hopcache_bolt::WholeResult;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{HTTP_TRANSACTION_IDLE_MS, PASS_THROUGH_BYTES_MAX, RENDER_INLINE_BYTES_MAX};
use hopcache_core::result::ResultSet;
use hopcache_core::time::Millis;
use hopcache_engine::event::{Cause, Event, FaultWord};
use hopcache_engine::outcome::{Answer, Failure, FailureKind, How, Outcome, Reason};
use hopcache_engine::ports::{Clock, Neo4jFailure, Observer, OriginError};
use hopcache_engine::trace::{Step, Tracer as _};
use hopcache_engine::worker::apart_if_large;
use hopcache_ops::logging::query_text;
use hopcache_ops::traces::end_step;
use hopcache_packstream::Value;
use hopcache_queryapi::render::{self, Behind, OpenTransaction, ResponseForm, ResultView};
use http::StatusCode;

use super::TransactionResponse;
use crate::front::Front;
use crate::front::answer::{self, CODE_UNKNOWN};
use crate::front::ask::StatementInTransaction;
use crate::front::query_api_renderer::for_engine;
use crate::front::refusal::Refusal;
use crate::front::shown_filter::ShownFilter;
use crate::transactions::HeldTransaction;
use hopcache_state::audit::ClientListener;

/// The whole result of a statement.
#[derive(Clone)]
pub(super) struct Ran {
    /// Bolt's `type`, if it is known.
    kind: Option<String>,
    pub(super) fields: Vec<String>,
    pub(super) records: Bytes,
    summary: Value,
    how: How,
    key: QueryKey,
}

impl Ran {
    /// With the notifications that the client of the statement wants.
    fn filtered(self, statement: &StatementInTransaction) -> Self {
        let Some(filter) = &statement.notifications else { return self };
        Self { summary: ShownFilter::of(filter, self.summary), ..self }
    }
}

/// Why a statement has no result. Its transaction is over.
pub(super) enum Unrun {
    Failed(Failure, How),
    /// It was refused before it was run.
    Refused(Refusal),
}

/// What the client gets to know of its transaction.
pub(super) enum TransactionNotice {
    /// It is open, under this name.
    Open(String),
    /// It is committed, with this bookmark.
    Committed(Option<String>),
}

impl Front {
    /// Runs a statement, and gathers its whole result.
    pub(super) async fn run_statement(
        &self,
        held: &mut HeldTransaction,
        statement: &StatementInTransaction,
        form: ResponseForm,
    ) -> Result<Ran, Unrun> {
        let refused = |error| Unrun::Refused(Refusal::request(error, form.encoding));
        let params = statement.params.as_ref().map_err(refused)?;
        if statement.text.is_empty() {
            return Err(failed(FailureKind::Neo4j(nothing_to_run()).into()));
        }
        let reason = match self.ask_cache(held, statement, params).await {
            Err(reason) => reason,
            Ok(answered) => return answered.map(|ran| ran.filtered(statement)),
        };
        if !held.has_neo4j() {
            return Err(Unrun::Refused(no_neo4j()));
        }
        let begun = Instant::now();
        let parent = held.terms().traceparent.as_deref();
        let step = parent.and_then(|parent| self.state.traces.begin(parent, Step::Run));
        let ended = held.run(&statement.text, params, self.reader.run_timeout_ms().duration()).await;
        let cause = cause_of(reason, held);
        end_step(step, cause, ended.as_ref().err().map(|error| FaultWord::from(&error.kind)));
        tracing::debug!(
            statement = query_text(&statement.text),
            is_ok = ended.is_ok(),
            "ran in a transaction"
        );
        if !ended.as_ref().is_err_and(|error| !error.was_sent) {
            let took_ms = Millis::from(begun.elapsed());
            self.state.meters.note(Event::OriginRun { cause, took_ms });
        }
        match ended {
            Ok(WholeResult { fields, records, summary, statement_type: kind, .. }) => {
                let (how, key) = (How::bypass(reason), QueryKey([0; 32]));
                Ok(Ran { kind, fields, records, summary, how, key }.filtered(statement))
            }
            Err(error) => {
                self.note_refusal(held, &error);
                Err(Unrun::Failed(error.into(), How::bypass(reason)))
            }
        }
    }

    /// The cache's answer to a statement, or why Neo4j has to answer.
    async fn ask_cache(
        &self,
        held: &mut HeldTransaction,
        statement: &StatementInTransaction,
        params: &Bytes,
    ) -> Result<Result<Ran, Unrun>, Reason> {
        let Some(lazy) = held.lazy() else { return Err(Reason::Transaction) };
        if let Err(fault) = lazy.check_time() {
            return Ok(Err(failed(OriginError::from(fault).into())));
        }
        let reads = lazy.reads.clone();
        if reads.asked().is_none() {
            return Err(Reason::Bookmarks);
        }
        let (came, left_ms) = (self.clock.now(), lazy.left_ms());
        let ask = self.reader.ask_in_transaction((statement, params), held.terms(), (&reads, left_ms), came);
        let outcome = Box::pin(self.engine.path().request_cached(&ask, came)).await?;
        self.take_note(&ask, &outcome);
        if let Some(lazy) = held.lazy() {
            lazy.reads.answered(&outcome.how);
        }
        let Outcome { answer, how, key, range, .. } = outcome;
        let body = match answer {
            Answer::Body(body) => body,
            Answer::Failed(failure) => return Ok(Err(Unrun::Failed(failure, how))),
        };
        let Ok(ResultSet { mut fields, records, summary, kind, .. }) = ResultSet::from_bytes(&body) else {
            return Ok(Err(Unrun::Failed(FailureKind::BadResult.into(), how)));
        };
        ask.query.name_columns(&mut fields);
        if let Some(lazy) = held.lazy() {
            lazy.reads.saw(range.map(|range| range.to()));
        }
        let kind = kind.map(|kind| kind.to_bolt().to_owned());
        Ok(Ok(Ran { kind, fields, records, summary, how, key }))
    }

    /// Neo4j may have refused the credentials when the transaction reached it.
    pub(super) fn note_refusal(&self, held: &HeldTransaction, error: &OriginError) {
        if let FailureKind::Neo4j(neo4j) = &Failure::from(error.clone()).kind {
            self.shared.refused_by_neo4j(&held.terms().login, neo4j, ClientListener::Http);
        }
    }

    /// The response with a result.
    pub(super) async fn with_result(
        &self,
        ran: &Ran,
        form: ResponseForm,
        told: TransactionNotice,
    ) -> Result<TransactionResponse, Failure> {
        let shown = ran.clone();
        let body = apart_if_large(ran.records.len(), RENDER_INLINE_BYTES_MAX, move || {
            let Ran { kind, fields, records, summary, .. } = &shown;
            let view =
                ResultView { kind: kind.as_deref(), fields, records, summary, bookmarks: &[], errors: &[] };
            told.show(|behind| render::in_transaction(&view, form, behind, PASS_THROUGH_BYTES_MAX))
        });
        let body = body.await.map_err(|error| FailureKind::from(for_engine(error)))?;
        let answer = Answer::Body(body.into());
        let outcome = Outcome { answer, how: ran.how, answered_by: None, key: ran.key, range: None };
        let reply = answer::of_outcome(&outcome, form.encoding, &self.engine.me().node);
        Ok(TransactionResponse::of(reply, Some(ran.how)))
    }

    /// The response without a result.
    pub(super) fn without_result(&self, form: ResponseForm, told: &TransactionNotice) -> TransactionResponse {
        let how = How::bypass(Reason::Transaction);
        let answer = Answer::Body(told.show(render::without_result).into());
        let outcome = Outcome { answer, ..answer::outcome_of(how) };
        TransactionResponse::of(
            answer::of_outcome(&outcome, form.encoding, &self.engine.me().node),
            Some(how),
        )
    }
}

impl TransactionNotice {
    fn show<T>(&self, show: impl FnOnce(Behind<'_>) -> T) -> T {
        match self {
            Self::Committed(bookmark) => show(Behind::Committed(bookmark.as_deref())),
            Self::Open(id) => {
                let expires = SystemTime::now() + Millis(HTTP_TRANSACTION_IDLE_MS).duration();
                let expires = humantime::format_rfc3339_seconds(expires).to_string();
                show(Behind::Open(OpenTransaction { id, expires: &expires }))
            }
        }
    }
}

/// A failure of a statement in a transaction that has begun.
pub(super) fn failed(failure: Failure) -> Unrun {
    Unrun::Failed(failure, How::bypass(Reason::Transaction))
}

/// The server fails an empty statement of a transaction in this way.
fn nothing_to_run() -> Neo4jFailure {
    Neo4jFailure { code: CODE_UNKNOWN.to_owned(), message: String::new(), as_sent: Vec::new() }
}

/// The purpose of a run at Neo4j.
fn cause_of(reason: Reason, held: &HeldTransaction) -> Cause {
    if held.has_written() || matches!(reason, Reason::Write | Reason::Unknown) {
        Cause::Write
    } else {
        Cause::Bypass
    }
}

/// The sample graph has no transactions that write.
fn no_neo4j() -> Refusal {
    Refusal::own(
        StatusCode::BAD_REQUEST,
        "Hopcache.ClientError.NoTransactions",
        "The sample graph has no explicit transactions that write: run the statement by itself, or set origin.uri."
            .to_owned(),
    )
}
