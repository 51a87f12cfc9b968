//! The body of a result that is too large to be held: records go to the client as they come, and Neo4j waits for a slow client.
//!
//! As with Neo4j itself, status and head are sent before the end is known. A failure behind them stands in the body's `errors`.
//! The metrics count it with the status that it has where nothing was sent before it.
//!
//! A record may have 64 MiB. Its JSON is made in pieces, where no task waits for it, and the record holds its place in the origin's room
//! until then.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use bytes::{Buf, Bytes};
use futures_util::stream;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::limits::RENDER_INLINE_BYTES_MAX;
use hopcache_core::result::StatementKind;
use hopcache_engine::ask::{Ask, Query};
use hopcache_engine::live::{LivePiece, LiveReader, LiveRun, LiveStart, LiveSummary};
use hopcache_engine::outcome::{Answer, Failure, FailureKind, How, Outcome, Reason};
use hopcache_engine::ports::OriginError;
use hopcache_engine::worker::apart_if_large;
use hopcache_ops::labels;
use hopcache_ops::traces::{AnsweredRequest, RequestSpan};
use hopcache_packstream::Value;
use hopcache_queryapi::render::{Pieces, RenderError, ResponseForm};
use hopcache_state::node_state::NodeState;
use http::StatusCode;
use http_body_util::Either;
use tokio::sync::OwnedSemaphorePermit;

use super::answer::{self, Fate, own_failure, shown_message};
use super::query_api_renderer::for_engine;
use super::shown_filter::ShownFilter;
use super::{Front, FrontBody};

/// Bytes of JSON after which a piece ends, so that hits of this worker do not wait for long.
const PIECE_BYTES: usize = 64 << 10;

impl Front {
    /// Runs a read for this client, which gets the records as they come.
    ///
    /// # Errors
    /// The usual answer: the run has failed before it named its columns, or its origin does not stream.
    pub(super) async fn stream(
        &self,
        ask: &mut Ask,
        shown: Option<&ShownFilter>,
        (begun, span): (Instant, &mut Option<RequestSpan>),
    ) -> Result<http::Response<FrontBody>, Outcome> {
        let outcome = Outcome { key: ask.query.key, ..answer::outcome_of(How::bypass(Reason::TooLarge)) };
        let me = &self.engine.me().node;
        let Ok(seat) = Arc::clone(&self.shared.live_runs).try_acquire_owned() else {
            let response = answer::of_unsent(&outcome, me);
            let status = response.status().as_u16();
            let (query, traceparent) = (&ask.query, ask.traceparent.as_deref());
            let (front, took, outcome) = (labels::Front::Http, begun.elapsed(), &outcome);
            let answered = AnsweredRequest { front, query, outcome, status, took, traceparent };
            self.state.answered(&answered, span.as_mut());
            return Ok(response.map(Either::Left));
        };
        let (live, reader) = LiveRun::taken(ask.run_ms_max);
        ask.live = Some(live);
        let LiveStart { fields, metadata } = tokio::select! {
            biased;
            start = reader.begun() => start,
            outcome = self.engine.path().stream(ask) => return Err(outcome),
        };
        let form = shown.map(|shown| shown.form).or_else(|| ResponseForm::from_byte(ask.rendering.0));
        let Some(form) = form else { return Err(Outcome { answer: unread(), ..outcome }) };
        let response = answer::of_outcome(&outcome, form.encoding, me);
        let mut head = Vec::with_capacity(PIECE_BYTES);
        let pieces = Some(Pieces::begin(&fields, form, &mut head));
        let account = Account {
            state: Arc::clone(&self.state),
            query: Arc::clone(&ask.query),
            outcome,
            span: span.take(),
            traceparent: ask.traceparent.clone(),
            status: response.status(),
            begun,
        };
        let streamed = StreamedResult {
            reader,
            pieces,
            head,
            taken: Bytes::new(),
            opening: metadata,
            asked: ask.bookmarks.clone(),
            filter: shown.map(|shown| shown.filter.clone()),
            account,
            _seat: seat,
        };
        let body = Body::from_stream(stream::unfold(streamed, StreamedResult::next));
        Ok(response.map(|_| Either::Right(body)))
    }
}

fn unread() -> Answer {
    Answer::Failed(FailureKind::BadResult.into())
}

/// A body that is being written.
struct StreamedResult {
    reader: LiveReader,
    /// `None` behind the end.
    pieces: Option<Pieces>,
    /// JSON that goes before the next records.
    head: Vec<u8>,
    /// Records that were taken from the run, and not written.
    taken: Bytes,
    /// The metadata of RUN's answer.
    opening: Value,
    asked: Bookmark,
    /// The notifications that the client wants.
    filter: Option<Value>,
    account: Account,
    _seat: OwnedSemaphorePermit,
}

impl StreamedResult {
    /// The next bytes of the body. An error cuts the connection, which tells the client that the body is no answer.
    async fn next(mut self) -> Option<(Result<Bytes, RenderError>, Self)> {
        loop {
            let pieces = self.pieces.take()?;
            if !self.taken.is_empty() {
                let written = self.write(pieces).await;
                return Some((written, self));
            }
            match self.reader.next(true).await {
                LivePiece::Records(records) => (self.taken, self.pieces) = (records, Some(pieces)),
                LivePiece::End(end) => {
                    let mut out = std::mem::take(&mut self.head);
                    let written = match end {
                        Ok(summary) => self.end(pieces, summary, &mut out),
                        Err(failure) => {
                            let failure = Failure::from(OriginError::of_sent(failure.fault));
                            let (code, message) = told(&failure);
                            pieces.fail(&code, &message, &mut out);
                            self.account.failed(failure);
                            Ok(())
                        }
                    };
                    return Some((written.map(|()| out.into()), self));
                }
            }
        }
    }

    /// The next piece of the records that were taken.
    async fn write(&mut self, mut pieces: Pieces) -> Result<Bytes, RenderError> {
        let (taken, mut out) = (self.taken.clone(), std::mem::take(&mut self.head));
        let write = move || {
            let written = pieces.records(&taken, PIECE_BYTES, &mut out);
            ((written, out), pieces)
        };
        let (written, pieces) = apart_if_large(self.taken.len(), RENDER_INLINE_BYTES_MAX, write).await;
        let (written, mut piece) = written;
        match written {
            Ok(done) => {
                self.taken.advance(done);
                if self.taken.is_empty() {
                    // What follows is none of it: the room is free again.
                    self.taken = Bytes::new();
                }
                self.pieces = Some(pieces).filter(|pieces| !pieces.is_over());
                Ok(piece.into())
            }
            Err(error) => {
                tracing::warn!(%error, "a streamed result cannot be written");
                self.taken = Bytes::new();
                if !pieces.is_whole() {
                    self.account.failed(FailureKind::BadResult.into());
                    return Err(error);
                }
                let failure = Failure::from(FailureKind::from(for_engine(error)));
                let (code, message) = told(&failure);
                pieces.fail(&code, &message, &mut piece);
                self.account.failed(failure);
                Ok(piece.into())
            }
        }
    }

    fn end(&mut self, pieces: Pieces, ended: LiveSummary, out: &mut Vec<u8>) -> Result<(), RenderError> {
        let LiveSummary { kind, summary, bookmark, range } = ended;
        let summary = beside(std::mem::replace(&mut self.opening, Value::Null), summary);
        let summary = match &self.filter {
            Some(filter) => ShownFilter::of(filter, summary),
            None => summary,
        };
        let read = range.and_then(|range| range.bookmark_for(&self.asked).encode());
        pieces.end((kind.map(StatementKind::to_bolt), &summary), read.or(bookmark).as_deref(), out)
    }
}

/// The summary of a result: what its end says, and what RUN's answer has said beside it.
fn beside(opening: Value, end: Value) -> Value {
    let (Value::Map(opening), Value::Map(mut all)) = (opening, end) else { return Value::Map(Vec::new()) };
    for (name, value) in opening {
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, value));
        }
    }
    Value::Map(all)
}

/// Code and message of a failure behind the records.
fn told(failure: &Failure) -> (String, String) {
    match &failure.kind {
        FailureKind::Neo4j(said) => (said.code.clone(), shown_message(&said.code, &said.message).to_owned()),
        // Behind the head only a large record finds no room.
        FailureKind::Overloaded => {
            let (code, message) = answer::crowded();
            (code.to_owned(), message)
        }
        _ => {
            let own = own_failure(failure, Fate::Harmless);
            (own.code.to_owned(), own.message)
        }
    }
}

/// A streamed answer is counted when its body has ended, however it ends.
struct Account {
    state: Arc<NodeState>,
    query: Arc<Query>,
    outcome: Outcome,
    span: Option<RequestSpan>,
    traceparent: Option<String>,
    /// The status that is counted: the one that was sent, or that of a failure behind it.
    status: StatusCode,
    begun: Instant,
}

impl Account {
    /// The answer has failed behind its head.
    fn failed(&mut self, failure: Failure) {
        self.status = answer::status_of(&failure);
        self.outcome.answer = Answer::Failed(failure);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let answered = AnsweredRequest {
            front: labels::Front::Http,
            query: &self.query,
            outcome: &self.outcome,
            status: self.status.as_u16(),
            took: self.begun.elapsed(),
            traceparent: self.traceparent.as_deref(),
        };
        self.state.answered(&answered, self.span.as_mut());
    }
}

#[cfg(test)]
mod tests {
    use hopcache_engine::ports::{Neo4jFailure, OriginFault};

    use super::*;

    #[test]
    fn the_end_says_more_than_the_opening_and_the_last_word() {
        let map = |pairs: &[(&str, i64)]| {
            Value::Map(pairs.iter().map(|(name, n)| ((*name).to_owned(), Value::Int(*n))).collect())
        };
        let all = beside(map(&[("t_first", 3), ("db", 1)]), map(&[("t_last", 4), ("db", 2)]));
        assert_eq!(all, map(&[("t_last", 4), ("db", 2), ("t_first", 3)]));
    }

    #[test]
    fn a_failure_behind_the_records_is_told_in_neo4js_words_or_in_ours() {
        let of = |fault: OriginFault| told(&Failure::from(OriginError::of_sent(fault)));
        let code = "Neo.ClientError.Statement.ArithmeticError";
        let failed =
            Neo4jFailure { code: code.to_owned(), message: "/ by zero".to_owned(), as_sent: Vec::new() };
        assert_eq!(of(OriginFault::Failed(failed)), (code.to_owned(), "/ by zero".to_owned()));
        assert_eq!(of(OriginFault::Overloaded).0, "Hopcache.TransientError.TooManyAnswers");
        let (code, message) = of(OriginFault::Cut("reset".to_owned()));
        assert_eq!(code, "Hopcache.TransientError.OriginConnectionLost");
        assert!(message.starts_with("The connection to Neo4j broke"), "{message}");
    }
}
