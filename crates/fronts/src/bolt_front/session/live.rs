//! A result whose records go to the client while its run goes on. The run fills the cache at its own pace; when it grows
//! too large for an entry, its connection to Neo4j serves this client alone, and a slow client slows Neo4j down.
//!
//! Only the request that leads a run streams it. Others wait for the whole result, or read a large one for themselves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hopcache_bolt::failure_code;
use hopcache_bolt::server::{Kind, Version};
use hopcache_core::bookmark::Bookmark;
use hopcache_core::limits::{LIVE_BYTES_MIN, LIVE_WAIT_MS};
use hopcache_core::result::ResultSet;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ask::{Ask, Query};
use hopcache_engine::live::{LiveFailure, LivePiece, LiveReader, LiveRun, LiveStart, LiveSummary};
use hopcache_engine::outcome::{Class, How, Kept, Outcome, Reason, Role};
use hopcache_engine::ports::OriginError;
use hopcache_ops::labels::{Front, status_of_passed};
use hopcache_ops::traces::{AnsweredRequest, RequestSpan};
use hopcache_packstream::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::{RequestError, Session};
use crate::bolt_front::failure::BoltFailure;
use crate::bolt_front::options::StatementOptions;
use crate::bolt_front::outbox::Outbox;
use crate::bolt_front::records::{CachedResult, Piece, RecordForm, send_records, skip_records};
use crate::front::answer::{cache_status, status_of};

/// The engine's answer to a request.
type EngineAnswer = Result<Outcome, Reason>;

/// The end of the wait for an answer.
#[expect(clippy::large_enum_variant, reason = "nearly all are answers, and it is matched at once")]
pub(super) enum WaitEnd {
    /// The whole answer.
    Answered(EngineAnswer),
    /// The records that have come so far, and the others as they come.
    Live(Box<LiveResult>),
}

/// An open result of a run that goes on.
pub(super) struct LiveResult {
    start: LiveStart,
    records: LiveRecords,
    /// The answer of the engine, which comes after the end of the records.
    asking: BoxFuture<'static, EngineAnswer>,
    asked: Bookmark,
    /// The options that choose notifications.
    filters: Value,
    /// Whether a notification says where it came from.
    notifies: bool,
    begun: Instant,
    query: Arc<Query>,
    /// Of the request, if it is traced.
    span: Option<RequestSpan>,
    _seat: OwnedSemaphorePermit,
}

/// Its records.
struct LiveRecords {
    reader: LiveReader,
    /// Those that were taken from the run, and not sent.
    taken: Bytes,
    /// The first type for which the client has got a map.
    replaced: Option<String>,
}

impl LiveRecords {
    /// Sends or drops at most so many records. Returns the end of the result; `None` if there may be more.
    ///
    /// Neo4j is not asked whether there is more than that, as it might send a large record: its place would be missing to other clients
    /// for as long as this one asks for nothing. So the end may come with a PULL of its own, as Bolt allows.
    async fn take(
        &mut self,
        kind: Kind,
        records_max: Option<u64>,
        (out, form): (&mut Outbox, RecordForm),
    ) -> Result<Option<Result<LiveSummary, LiveFailure>>, RequestError> {
        let mut left = records_max.unwrap_or(u64::MAX);
        let is_wanted = kind == Kind::Pull || records_max.is_some();
        loop {
            if kind == Kind::Pull {
                let replaced = send_records(&mut self.taken, &mut left, (&mut *out, form)).await??;
                self.replaced = self.replaced.take().or(replaced);
            } else {
                skip_records(&mut self.taken, &mut left);
            }
            if !self.taken.is_empty() {
                return Ok(None);
            }
            let piece = match self.reader.ready() {
                Some(piece) => piece,
                None if left == 0 => return Ok(None),
                None => {
                    out.flush().await?;
                    out.wait_for(self.reader.next(is_wanted)).await?
                }
            };
            match piece {
                LivePiece::Records(records) => self.taken = records,
                LivePiece::End(end) => return Ok(Some(end)),
            }
        }
    }
}

impl LiveResult {
    /// The span of the request goes on until the last record.
    pub(super) fn trace(&mut self, span: Option<RequestSpan>) {
        self.span = span;
    }

    /// RUN's SUCCESS: with a number in a transaction; by itself, from 5.8 on, with the database.
    pub(super) fn open(&mut self, extra: &Value, version: Version, qid: Option<i64>) -> Value {
        self.filters = extra.clone();
        let LiveStart { fields, metadata } = &self.start;
        let first = metadata.get("t_first").cloned().unwrap_or(Value::Int(0));
        let fields = fields.iter().map(|name| Value::from(name.as_str())).collect();
        let mut pairs = vec![("t_first".to_owned(), first), ("fields".to_owned(), Value::List(fields))];
        let home = metadata.get("db").filter(|_| qid.is_none() && version.at_least(5, 8));
        pairs.extend(home.map(|name| ("db".to_owned(), name.clone())));
        pairs.extend(qid.map(|qid| ("qid".to_owned(), Value::Int(qid))));
        Value::Map(pairs)
    }
}

impl Session {
    /// Waits for the whole answer, or until the run that this request leads has so many records that they are streamed.
    pub(super) async fn wait_or_stream(
        &mut self,
        options: &StatementOptions,
        ask: &Arc<Ask>,
        came: MonoTime,
    ) -> Result<WaitEnd, RequestError> {
        let begun = Instant::now();
        let client_timeout_ms = options.timeout_ms.filter(|limit_ms| *limit_ms > 0).map(Millis);
        let (live, reader) = LiveRun::new(client_timeout_ms);
        let engine = Arc::clone(&self.front.engine);
        let query = Arc::clone(&ask.query);
        let ask = Ask { live: Some(live), ..Ask::clone(ask) };
        let mut asking = async move { engine.path().request_cached(&ask, came).await }.boxed();
        let first = async {
            tokio::select! {
                biased;
                answered = &mut asking => Some(answered),
                () = grown(&reader) => None,
            }
        };
        if let Some(answered) = self.out.wait_for(first).await? {
            return Ok(WaitEnd::Answered(answered));
        }
        if let Ok(seat) = Arc::clone(&self.front.shared.live_runs).try_acquire_owned()
            && let Some(start) = reader.accept()
        {
            let (asked, filters) = (options.asked.clone().unwrap_or_default(), Value::Null);
            let live = LiveResult {
                start,
                records: LiveRecords { reader, taken: Bytes::new(), replaced: None },
                asking,
                asked,
                filters,
                notifies: options.notifies,
                begun,
                query,
                span: None,
                _seat: seat,
            };
            return Ok(WaitEnd::Live(Box::new(live)));
        }
        drop(reader);
        Ok(WaitEnd::Answered(self.out.wait_for(asking).await?))
    }

    /// PULL or DISCARD. Returns the last SUCCESS, and whether more is left.
    pub(super) async fn take_live(
        &mut self,
        kind: Kind,
        records_max: Option<u64>,
        live: &mut LiveResult,
    ) -> Result<(Value, bool), RequestError> {
        let form = self.record_form();
        match live.records.take(kind, records_max, (&mut self.out, form)).await? {
            None => {
                let has_more = vec![("has_more".to_owned(), Value::Bool(true))];
                Ok((Value::Map(has_more), true))
            }
            Some(Ok(summary)) => Ok((self.end_of_live(live, summary).await?, false)),
            Some(Err(failure)) => {
                self.count_live(live, Some(&failure)).await?;
                Err(self.failure_of(&failure))
            }
        }
    }

    /// The last SUCCESS.
    async fn end_of_live(
        &mut self,
        live: &mut LiveResult,
        summary: LiveSummary,
    ) -> Result<Value, RequestError> {
        let status = self.count_live(live, None).await?;
        let LiveSummary { kind, summary, bookmark, range } = summary;
        let fields = std::mem::take(&mut live.start.fields);
        let records = Bytes::new();
        let result =
            ResultSet { fields, records, rows: 0, kind, summary, bookmark: None, range: None, marked: None };
        let mut result = CachedResult::new(result, status);
        result.filter(self.version, &live.filters, &self.hello);
        result.set_replaced(live.records.replaced.take());
        result.set_noted(live.notifies);
        result.set_range(range.map(Arc::new));
        match &mut self.transaction {
            Some(transaction) => transaction.has_read(result.read_to()),
            None => {
                result.set_bookmark(&live.asked);
                result.or_bookmark(bookmark);
            }
        }
        match result.take(None, None).await? {
            Piece::Done { metadata, .. } => Ok(metadata),
            Piece::Failed(failure) => Err(failure.into()),
        }
    }

    /// Counts the request, and returns the text of `Cache-Status`. `failed`: what the client got instead of an end.
    async fn count_live(
        &mut self,
        live: &mut LiveResult,
        failed: Option<&LiveFailure>,
    ) -> Result<String, RequestError> {
        let answered = self.out.wait_for(&mut live.asking).await?;
        let status = status_counted(failed);
        let mut outcome = match answered {
            Ok(outcome) => outcome,
            Err(reason) => {
                self.count_passed(reason, status);
                return Ok(self.status_of(reason));
            }
        };
        // The engine may have had another answer meanwhile, such as a stale copy. The client has got the run's.
        if !matches!(outcome.how.class, Class::Miss { role: Role::Led, .. }) {
            outcome.how = How::miss(Kept::Skipped, Role::Led, None);
        }
        self.is_counted = true;
        let mut span = live.span.take();
        let traceparent = span.as_ref().map(RequestSpan::traceparent);
        let answered = AnsweredRequest {
            front: Front::Bolt,
            query: &live.query,
            outcome: &outcome,
            status,
            took: live.begun.elapsed(),
            traceparent: traceparent.as_deref(),
        };
        self.front.state.answered(&answered, span.as_mut());
        Ok(cache_status(&outcome, &self.front.engine.me().node))
    }

    /// The failure as Neo4j sent it, in the form of the client's version.
    fn failure_of(&self, failure: &LiveFailure) -> RequestError {
        let metadata = hopcache_bolt::metadata(&failure.as_sent).unwrap_or(Value::Null);
        if self.version.has_gql_failures() && metadata.get("gql_status").is_some() {
            return RequestError::Neo4j(failure.as_sent.clone());
        }
        let text = |name: &str| metadata.get(name).and_then(Value::as_str);
        let sent = match (failure_code(&metadata), text("message")) {
            (Some(code), Some(message)) => BoltFailure::new(code, message),
            // Its statement is a read.
            _ => BoltFailure::of_failure(&OriginError::of_sent(failure.fault.clone()).into(), &Class::Hit),
        };
        RequestError::Failed(sent)
    }
}

/// The status with which a result is counted that has ended so: the one that it would have over HTTP, where nothing was sent before it.
fn status_counted(failed: Option<&LiveFailure>) -> u16 {
    match failed {
        None => status_of_passed(true),
        Some(LiveFailure { fault, .. }) => status_of(&OriginError::of_sent(fault.clone()).into()).as_u16(),
    }
}

/// Completes when a run has so many records that they are streamed, or has some for so long.
async fn grown(reader: &LiveReader) {
    loop {
        reader.has(1).await;
        let _ = timeout(Duration::from_millis(LIVE_WAIT_MS), reader.has(LIVE_BYTES_MIN)).await;
        // The run may have ended meanwhile. Then this waits for ever, and the answer comes.
        if reader.has(1).now_or_never().is_some() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use hopcache_engine::live::LiveRest;
    use hopcache_engine::ports::{Neo4jFailure, OriginFault};
    use tokio::io::AsyncReadExt;

    use super::*;

    /// A failure behind rows counts as the same failure without rows does.
    #[test]
    fn a_failure_behind_rows_counts_with_its_status() {
        let said = |code: &str| {
            OriginFault::Failed(Neo4jFailure {
                code: code.to_owned(),
                message: "/ by zero".to_owned(),
                as_sent: Vec::new(),
            })
        };
        for (fault, status) in [
            (said("Neo.ClientError.Statement.ArithmeticError"), 400),
            (said("Neo.DatabaseError.General.UnknownError"), 500),
            (OriginFault::Cut("reset".to_owned()), 503),
            (OriginFault::TimedOut, 504),
            (OriginFault::Overloaded, 503),
        ] {
            let failed = LiveFailure { fault: fault.clone(), as_sent: Bytes::new() };
            assert_eq!(status_counted(Some(&failed)), status, "{fault:?}");
        }
        assert_eq!(status_counted(None), 202);
    }

    const LARGE_BYTES: usize = 1 << 20;

    /// Large records, each of which holds a place.
    struct Rest {
        places: Arc<()>,
        asked: Arc<AtomicUsize>,
        records: usize,
    }

    #[async_trait]
    impl LiveRest for Rest {
        async fn next(&mut self, _: bool) -> LivePiece {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let Some(left) = self.records.checked_sub(1) else {
                let (kind, summary) = (None, Value::Map(Vec::new()));
                return LivePiece::End(Ok(LiveSummary { kind, summary, bookmark: None, range: None }));
            };
            self.records = left;
            let value = Value::from("x".repeat(LARGE_BYTES).as_str());
            let record = hopcache_packstream::encode(&Value::List(vec![value]));
            LivePiece::Records(hopcache_net::body::tied(record, Arc::clone(&self.places)))
        }
    }

    /// I9: a client that has got what it has asked for, and waits, holds no place of a large record. A result that ends there ends with
    /// the next PULL.
    #[tokio::test]
    async fn a_client_that_asks_for_nothing_holds_no_large_record() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let reading = tokio::spawn(async move {
            let mut heard = Vec::new();
            theirs.read_to_end(&mut heard).await.map(|_| heard.len())
        });
        let mut out = Outbox::new(ours);
        let (places, asked) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
        let rest = Rest { places: Arc::clone(&places), asked: Arc::clone(&asked), records: 3 };
        let (run, reader) = LiveRun::new(None);
        let start = LiveStart { fields: vec!["n".to_owned()], metadata: Value::Map(Vec::new()) };
        let writer = run.begin(start).unwrap();
        reader.accept().unwrap();
        writer.record(&[0x91, 1]);
        writer.hand_over(Box::new(rest));
        let mut records = LiveRecords { reader, taken: Bytes::new(), replaced: None };
        let pulls = [(Kind::Pull, 1, 0), (Kind::Pull, 1, 1), (Kind::Discard, 1, 2), (Kind::Pull, 1, 3)];
        for (kind, records_max, asked_then) in pulls {
            let to = (&mut out, RecordForm::AsStored);
            let end = records.take(kind, Some(records_max), to).await.ok().unwrap();
            assert!(end.is_none(), "there may be more");
            assert_eq!(asked.load(Ordering::Relaxed), asked_then);
            assert_eq!(Arc::strong_count(&places), 2, "only the rest itself is left");
        }
        let end = records.take(Kind::Pull, Some(1), (&mut out, RecordForm::AsStored)).await.ok().unwrap();
        assert!(matches!(end, Some(Ok(_))), "a PULL without records");
        drop(out);
        assert!((2 * LARGE_BYTES..2 * LARGE_BYTES + 1_000).contains(&reading.await.unwrap().unwrap()));
    }
}
