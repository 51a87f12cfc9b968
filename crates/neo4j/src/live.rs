//! The way of a run's records to the client that leads it (`hopcache_engine::live`), while the run goes on and after it
//! was handed over.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_bolt::{Connection, Left, Piece, RecordTap, ResultEnd, RunError, RunFault, WholeResult};
use hopcache_core::bookmark::{Bookmark, ReadRange};
use hopcache_core::limits::LIVE_BATCH_BYTES;
use hopcache_core::result::StatementKind;
use hopcache_core::time::Millis;
use hopcache_engine::live::{LiveFailure, LivePiece, LiveRest, LiveRun, LiveStart, LiveSummary, LiveWriter};
use hopcache_engine::ports::{OriginError, OriginFault, OriginRun};
use hopcache_packstream::Value;
use tokio::time::Instant;

use super::ResultBudget;
use super::fault;
use super::newest::NewestPositions;

/// The limit that the server gets for a run. A run that may be handed over has only the client's: after the hand-over a
/// slow client may take any time. Until then this node closes the connection at the end of the run's own time.
pub(super) fn server_timeout(run: &OriginRun, left: Duration) -> Option<Duration> {
    match &run.live {
        Some(live) => live.client_timeout_ms.map(Millis::duration),
        None => Some(left),
    }
}

/// Passes the records of one run on, if a client may take them.
pub(super) struct LiveTap<'a> {
    live: Option<&'a Arc<LiveRun>>,
    writer: Option<LiveWriter>,
    /// Whether the run may be repeated: of a read, until it was, or until its first record.
    is_repeatable: bool,
    /// Whether also after it was sent.
    may_be_sent_again: bool,
    /// Bytes that the reader has not heard of.
    unheard_bytes: usize,
}

impl<'a> LiveTap<'a> {
    pub(super) fn new(run: &'a OriginRun, is_repeatable: bool) -> Self {
        let may_be_sent_again = run.may_be_repeated;
        Self { live: run.live.as_ref(), writer: None, is_repeatable, may_be_sent_again, unheard_bytes: 0 }
    }

    /// Whether a run that ended so may be repeated. It may once.
    pub(super) fn may_repeat(&mut self, error: &OriginError) -> bool {
        let may_repeat = self.is_to_be_repeated(error);
        self.is_repeatable &= !may_repeat;
        may_repeat
    }

    fn is_to_be_repeated(&self, error: &OriginError) -> bool {
        let is_cut = matches!(error.kind, OriginFault::Cut(_) | OriginFault::Unreachable(_));
        is_cut && self.is_repeatable && (self.may_be_sent_again || !error.was_sent)
    }

    /// The run has ended well.
    pub(super) fn whole(&mut self, finished: &WholeResult, range: Option<&ReadRange>) {
        let Some(writer) = self.writer.take() else { return };
        writer.end(Ok(LiveSummary {
            kind: finished.statement_type.as_deref().and_then(StatementKind::from_bolt),
            summary: finished.summary.clone(),
            bookmark: finished.bookmark.clone(),
            range: range.cloned(),
        }));
    }

    /// The run has failed.
    pub(super) fn failed(&mut self, error: RunError) -> OriginError {
        let as_sent = as_sent(&error.fault);
        let error = fault::of_run(error);
        if self.is_to_be_repeated(&error) {
            // The reader may get the records of the next run.
            return error;
        }
        if let Some(writer) = self.writer.take() {
            writer.end(Err(LiveFailure { fault: error.kind.clone(), as_sent }));
        }
        error
    }

    /// The result is too large for an entry, and its reader takes the rest. Without a connection the run was cut.
    pub(super) fn hand_over(
        &mut self,
        connection: Option<Connection>,
        (newest, carried, begun): (Arc<NewestPositions>, Bookmark, Instant),
        (database, room): (&str, &Arc<ResultBudget>),
    ) {
        if let (Some(writer), Some(connection)) = (self.writer.take(), connection) {
            let (database, room) = (database.to_owned(), Arc::clone(room));
            writer.hand_over(Box::new(OpenResult { connection, newest, carried, database, room, begun }));
        }
    }

    fn wake(&mut self) {
        if let Some(writer) = self.writer.as_ref().filter(|_| self.unheard_bytes > 0) {
            writer.wake();
            self.unheard_bytes = 0;
        }
    }
}

impl RecordTap for LiveTap<'_> {
    fn begin(&mut self, fields: &[String], metadata: &Value) {
        let start = LiveStart { fields: fields.to_vec(), metadata: metadata.clone() };
        // A run that is repeated has begun already.
        self.writer = self.writer.take().or_else(|| self.live.and_then(|live| live.begin(start)));
    }

    fn record(&mut self, list: &[u8]) {
        self.is_repeatable = false;
        let Some(writer) = &self.writer else { return };
        writer.record(list);
        self.unheard_bytes += list.len();
        if self.unheard_bytes >= LIVE_BATCH_BYTES {
            self.wake();
        }
    }

    fn pause(&mut self) {
        self.wake();
    }

    fn takes_rest(&self) -> bool {
        self.writer.as_ref().is_some_and(LiveWriter::takes_rest)
    }
}

/// The open result of a run that was handed over. Its connection is in no pool, and is closed with it.
struct OpenResult {
    connection: Connection,
    newest: Arc<NewestPositions>,
    carried: Bookmark,
    database: String,
    /// Where its large records take room.
    room: Arc<ResultBudget>,
    /// When the run was sent.
    begun: Instant,
}

impl OpenResult {
    fn summary(&self, ended: ResultEnd) -> LiveSummary {
        let ResultEnd { statement_type, bookmark, summary } = ended;
        let chosen = summary.get("db").and_then(Value::as_str).unwrap_or_default();
        let database = if self.database.is_empty() { chosen } else { &self.database };
        let seen = |returned: &str| self.newest.saw(database, self.carried.clone(), returned, self.begun);
        let range = bookmark.as_deref().and_then(seen);
        let kind = statement_type.as_deref().and_then(StatementKind::from_bolt);
        LiveSummary { kind, summary, bookmark, range }
    }
}

#[async_trait]
impl LiveRest for OpenResult {
    async fn next(&mut self, is_wanted: bool) -> LivePiece {
        let left = if is_wanted { Left::Pulled } else { Left::Discarded };
        match self.connection.rest(left, &self.room.place()).await {
            Ok(Piece::Records(records)) => LivePiece::Records(records),
            Ok(Piece::End(ended)) => LivePiece::End(Ok(self.summary(ended))),
            Err(error) => {
                let as_sent = as_sent(&error.fault);
                LivePiece::End(Err(LiveFailure { fault: fault::of_run(error).kind, as_sent }))
            }
        }
    }
}

/// The server's message, if the server failed.
fn as_sent(fault: &RunFault) -> Bytes {
    match fault {
        RunFault::Failed(failure) => failure.as_sent.clone(),
        _ => Bytes::new(),
    }
}
