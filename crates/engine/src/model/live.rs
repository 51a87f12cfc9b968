//! The records of a run under way, for the client whose request leads it. So the first row of a large result does not
//! wait for the last one, and a result that no entry can hold goes on to that client without a second run.
//!
//! ```text
//! origin: begin · record · record …  ┬─ end (the result is whole, or failed)
//!                                    └─ hand_over (too large for an entry): the reader reads the rest itself
//! reader: has(bytes) · accept · next · next … end
//! ```
//!
//! - A reader accepts before it takes anything. Without an accepting reader a run behaves as if this did not exist.
//! - The run does not wait for the reader: up to the bound of an entry its records wait here, and followers of the
//!   flight get the result as early as without a reader. Beyond the bound the server waits for the reader.
//! - Records of a run that fails later have been shown, as by Neo4j itself. They never come from two runs.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::bookmark::ReadRange;
use hopcache_core::result::StatementKind;
use hopcache_core::time::Millis;
use hopcache_packstream::Value;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::model::faults::OriginFault;

/// RUN's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveStart {
    /// Column names.
    pub fields: Vec<String>,
    /// All other metadata, a map.
    pub metadata: Value,
}

/// The end of a run that came to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveSummary {
    /// The statement's kind.
    pub kind: Option<StatementKind>,
    /// The summary, a map, without the bookmark.
    pub summary: Value,
    /// The run's bookmark, as the origin wrote it.
    pub bookmark: Option<String>,
    /// Between which transactions it was read, where that is known.
    pub range: Option<ReadRange>,
}

/// The end of a run that failed behind its records.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveFailure {
    /// What happened.
    pub fault: OriginFault,
    /// The server's own message, if it sent one.
    pub as_sent: Bytes,
}

/// The next part of a result.
#[derive(Debug, PartialEq)]
pub enum LivePiece {
    /// Records, one behind the other; at least one.
    Records(Bytes),
    /// The end.
    End(Result<LiveSummary, LiveFailure>),
}

/// The rest of a result that is too large for an entry: an open result at the origin. Dropped, it ends there.
#[async_trait]
pub trait LiveRest: Send + Sync {
    /// The next part. `is_wanted` is false when the reader needs the end only.
    async fn next(&mut self, is_wanted: bool) -> LivePiece;
}

/// Is told the range of a run that was handed over, once its reader has come to its end.
type OnRest = Box<dyn Fn(&ReadRange) + Send + Sync>;

/// The records of one run, on their way to one reader.
pub struct LiveRun {
    /// The client's own limit for the statement at the server. The operator's limit for runs ends with the hand-over.
    pub client_timeout_ms: Option<Millis>,
    state: Mutex<State>,
    changed: Notify,
    on_rest: OnceLock<OnRest>,
}

#[derive(Default)]
struct State {
    start: Option<LiveStart>,
    /// Whole records that the reader has not taken.
    waiting: Vec<u8>,
    reader: Reading,
    end: Option<Result<LiveSummary, LiveFailure>>,
    rest: Option<Box<dyn LiveRest>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The reader may accept.
    #[default]
    Undecided,
    /// It takes the records.
    Accepted,
    /// It has gone.
    Gone,
}

impl State {
    /// Whether the run goes on.
    fn is_running(&self) -> bool {
        self.start.is_some() && self.end.is_none() && self.rest.is_none()
    }
}

impl LiveRun {
    /// A run that has not begun, and its reader.
    #[must_use]
    pub fn new(client_timeout_ms: Option<Millis>) -> (Arc<Self>, LiveReader) {
        let (state, changed, on_rest) = (Mutex::default(), Notify::new(), OnceLock::new());
        let run = Arc::new(Self { client_timeout_ms, state, changed, on_rest });
        (Arc::clone(&run), LiveReader { run, rest: None })
    }

    /// A run that has not begun, whose reader takes all of its records as they come, whatever their size.
    #[must_use]
    pub fn taken(client_timeout_ms: Option<Millis>) -> (Arc<Self>, LiveReader) {
        let (run, reader) = Self::new(client_timeout_ms);
        run.state.lock().reader = Reading::Accepted;
        (run, reader)
    }

    /// Who started the run has no result of it if it is handed over. This tells the range of such a run. The first run
    /// that asks is told.
    pub(crate) fn on_rest(&self, tell: impl Fn(&ReadRange) + Send + Sync + 'static) {
        let _ = self.on_rest.set(Box::new(tell));
    }

    /// The writing end, for the adapter that carries out the run; `None` if there was one before. Two runs never share
    /// one reader.
    #[must_use]
    pub fn begin(self: &Arc<Self>, start: LiveStart) -> Option<LiveWriter> {
        let mut state = self.state.lock();
        if state.start.is_some() || state.reader == Reading::Gone {
            return None;
        }
        state.start = Some(start);
        drop(state);
        self.changed.notify_one();
        Some(LiveWriter { run: Arc::clone(self), is_ended: false })
    }
}

impl std::fmt::Debug for LiveRun {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("LiveRun").finish_non_exhaustive()
    }
}

/// The writing end. Dropped without an end, it tells the reader that the run was cut.
pub struct LiveWriter {
    run: Arc<LiveRun>,
    is_ended: bool,
}

impl LiveWriter {
    /// Adds a record, as the bytes of one list. The reader hears of it with the next [`LiveWriter::wake`].
    pub fn record(&self, list: &[u8]) {
        let mut state = self.run.state.lock();
        if state.reader != Reading::Gone {
            state.waiting.extend_from_slice(list);
        }
    }

    /// Wakes the reader.
    pub fn wake(&self) {
        self.run.changed.notify_one();
    }

    /// Whether the reader takes the result to its end, whatever its size.
    #[must_use]
    pub fn takes_rest(&self) -> bool {
        self.run.state.lock().reader == Reading::Accepted
    }

    /// The run has ended.
    pub fn end(mut self, end: Result<LiveSummary, LiveFailure>) {
        self.finish(|state| state.end = Some(end));
    }

    /// The result is too large for an entry, and the reader reads on by itself.
    pub fn hand_over(mut self, rest: Box<dyn LiveRest>) {
        self.finish(|state| state.rest = Some(rest));
    }

    fn finish(&mut self, change: impl FnOnce(&mut State)) {
        self.is_ended = true;
        let mut state = self.run.state.lock();
        // With nobody to read it, the rest is dropped here, which ends it at the origin.
        if state.reader != Reading::Gone {
            change(&mut state);
        }
        drop(state);
        self.wake();
    }
}

impl Drop for LiveWriter {
    fn drop(&mut self) {
        if !self.is_ended {
            let fault = OriginFault::Cut("the run was given up".to_owned());
            self.finish(|state| state.end = Some(Err(LiveFailure { fault, as_sent: Bytes::new() })));
        }
    }
}

/// The reading end. Dropped, it lets the run go on for the cache alone.
pub struct LiveReader {
    run: Arc<LiveRun>,
    rest: Option<Box<dyn LiveRest>>,
}

impl LiveReader {
    /// Completes when the run goes on and at least this many bytes of records wait. Never completes otherwise: then the
    /// request has its usual answer.
    pub async fn has(&self, bytes: usize) {
        loop {
            {
                let state = self.run.state.lock();
                if state.is_running() && state.waiting.len() >= bytes {
                    return;
                }
            }
            self.run.changed.notified().await;
        }
    }

    /// Completes when the run has begun, with RUN's answer. Never completes if the run fails before that, or does not know of its
    /// reader: then the request has its usual answer.
    pub async fn begun(&self) -> LiveStart {
        loop {
            if let Some(start) = self.run.state.lock().start.clone() {
                return start;
            }
            self.run.changed.notified().await;
        }
    }

    /// Takes the records from now on, if the run goes on. Otherwise the request has its usual answer.
    #[must_use]
    pub fn accept(&self) -> Option<LiveStart> {
        let mut state = self.run.state.lock();
        if !state.is_running() {
            return None;
        }
        state.reader = Reading::Accepted;
        state.start.clone()
    }

    /// The next part, if it is there.
    pub fn ready(&mut self) -> Option<LivePiece> {
        let mut state = self.run.state.lock();
        if !state.waiting.is_empty() {
            return Some(LivePiece::Records(std::mem::take(&mut state.waiting).into()));
        }
        if let Some(end) = state.end.take() {
            return Some(LivePiece::End(end));
        }
        if let Some(rest) = state.rest.take() {
            self.rest = Some(rest);
        }
        None
    }

    /// The next part. `is_wanted` is false when the records are dropped.
    pub async fn next(&mut self, is_wanted: bool) -> LivePiece {
        loop {
            if let Some(piece) = self.ready() {
                return piece;
            }
            match &mut self.rest {
                Some(rest) => {
                    let piece = rest.next(is_wanted).await;
                    if let (LivePiece::End(Ok(LiveSummary { range: Some(range), .. })), Some(tell)) =
                        (&piece, self.run.on_rest.get())
                    {
                        tell(range);
                    }
                    return piece;
                }
                None => self.run.changed.notified().await,
            }
        }
    }
}

impl Drop for LiveReader {
    fn drop(&mut self) {
        let mut state = self.run.state.lock();
        state.reader = Reading::Gone;
        state.waiting = Vec::new();
        state.rest = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, TransactionId};
    use tokio::time::timeout;

    use super::*;

    fn start() -> LiveStart {
        LiveStart { fields: vec!["n".to_owned()], metadata: Value::Map(vec![]) }
    }

    fn summary() -> LiveSummary {
        LiveSummary { kind: Some(StatementKind::Read), summary: Value::Null, bookmark: None, range: None }
    }

    async fn waits_in_vain(reader: &LiveReader, bytes: usize) -> bool {
        timeout(Duration::from_secs(1), reader.has(bytes)).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn records_come_before_the_end() {
        let (run, mut reader) = LiveRun::new(None);
        assert!(reader.accept().is_none(), "nothing has begun");
        let writer = run.begin(start()).unwrap();
        assert!(waits_in_vain(&reader, 1).await);
        writer.record(&[0x91, 1]);
        writer.wake();
        reader.has(2).await;
        assert!(waits_in_vain(&reader, 3).await);
        assert!(!writer.takes_rest());
        assert_eq!(reader.accept(), Some(start()));
        assert!(writer.takes_rest());
        writer.record(&[0x91, 2]);
        assert_eq!(reader.next(true).await, LivePiece::Records(Bytes::from_static(&[0x91, 1, 0x91, 2])));
        writer.end(Ok(summary()));
        assert_eq!(reader.next(true).await, LivePiece::End(Ok(summary())));
    }

    /// A run that has ended has its usual answer: nobody begins to read it.
    #[tokio::test(start_paused = true)]
    async fn an_ended_run_is_not_accepted() {
        let (run, reader) = LiveRun::new(None);
        let writer = run.begin(start()).unwrap();
        writer.record(&[0x91, 1]);
        writer.end(Ok(summary()));
        assert!(waits_in_vain(&reader, 1).await);
        assert!(reader.accept().is_none());
    }

    /// A run whose records are taken in any case: also one that has ended before its reader looks.
    #[tokio::test(start_paused = true)]
    async fn a_taken_run_is_read_from_its_begin() {
        let (run, mut reader) = LiveRun::taken(None);
        assert!(timeout(Duration::from_secs(1), reader.begun()).await.is_err(), "it has not begun");
        let writer = run.begin(start()).unwrap();
        assert!(writer.takes_rest());
        assert_eq!(reader.begun().await, start());
        writer.record(&[0x91, 1]);
        writer.end(Ok(summary()));
        assert_eq!(reader.begun().await, start());
        assert_eq!(reader.next(true).await, LivePiece::Records(Bytes::from_static(&[0x91, 1])));
        assert_eq!(reader.next(true).await, LivePiece::End(Ok(summary())));
    }

    #[tokio::test]
    async fn a_lost_run_tells_its_reader() {
        let (run, mut reader) = LiveRun::new(None);
        let writer = run.begin(start()).unwrap();
        reader.accept().unwrap();
        drop(writer);
        let LivePiece::End(Err(failure)) = reader.next(true).await else { unreachable!("no failure") };
        assert!(matches!(failure.fault, OriginFault::Cut(_)));
        assert!(run.begin(start()).is_none(), "records never come from two runs");
    }

    /// Tells when it is dropped.
    struct Rest {
        _alive: Arc<()>,
        pieces: u8,
    }

    #[async_trait]
    impl LiveRest for Rest {
        async fn next(&mut self, _: bool) -> LivePiece {
            self.pieces += 1;
            match self.pieces {
                1 | 2 => LivePiece::Records(vec![0x91, self.pieces].into()),
                _ => LivePiece::End(Ok(summary())),
            }
        }
    }

    fn rest(alive: &Arc<()>) -> Box<dyn LiveRest> {
        Box::new(Rest { _alive: Arc::clone(alive), pieces: 0 })
    }

    #[tokio::test]
    async fn the_rest_follows_the_records_before_it() {
        let (run, mut reader) = LiveRun::new(None);
        let writer = run.begin(start()).unwrap();
        reader.accept().unwrap();
        writer.record(&[0x91, 0]);
        writer.hand_over(rest(&Arc::new(())));
        for expected in 0..3 {
            assert_eq!(reader.next(true).await, LivePiece::Records(vec![0x91, expected].into()));
        }
        assert_eq!(reader.next(true).await, LivePiece::End(Ok(summary())));
    }

    /// Only of a run that was handed over: the others end where they were started.
    #[tokio::test]
    async fn the_range_of_a_rest_is_told_once() {
        let at = |id| Position { database: DatabaseUuid([1; 16]), id: TransactionId(id) };
        let range = ReadRange::new(Bookmark::NONE.with(Some(at(3))), at(5)).unwrap();
        let ended = LiveSummary { range: Some(range.clone()), ..summary() };
        for is_rest in [false, true] {
            let told = Arc::new(Mutex::new(Vec::new()));
            let (run, mut reader) = LiveRun::new(None);
            for name in ["first", "second"] {
                let told = Arc::clone(&told);
                run.on_rest(move |range| told.lock().push((name, range.clone())));
            }
            let writer = run.begin(start()).unwrap();
            reader.accept().unwrap();
            if is_rest {
                writer.hand_over(Box::new(EndOnly(ended.clone())));
            } else {
                writer.end(Ok(ended.clone()));
            }
            assert_eq!(reader.next(true).await, LivePiece::End(Ok(ended.clone())));
            let expected = if is_rest { vec![("first", range.clone())] } else { Vec::new() };
            assert_eq!(*told.lock(), expected);
        }
    }

    /// A rest without records.
    struct EndOnly(LiveSummary);

    #[async_trait]
    impl LiveRest for EndOnly {
        async fn next(&mut self, _: bool) -> LivePiece {
            LivePiece::End(Ok(self.0.clone()))
        }
    }

    /// Its connection is closed, and Neo4j ends the statement.
    #[tokio::test]
    async fn a_rest_without_a_reader_is_dropped() {
        let alive = Arc::new(());
        let (run, reader) = LiveRun::new(None);
        let writer = run.begin(start()).unwrap();
        reader.accept().unwrap();
        drop(reader);
        assert!(!writer.takes_rest());
        writer.hand_over(rest(&alive));
        assert_eq!(Arc::strong_count(&alive), 1);
        let (run, reader) = LiveRun::new(None);
        let writer = run.begin(start()).unwrap();
        reader.accept().unwrap();
        writer.hand_over(rest(&alive));
        drop(reader);
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
