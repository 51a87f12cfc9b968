//! The `Origin` port over the pool: it checks a run without the library, runs it, and renders the rows. It never blocks
//! the runtime, and never returns a part of a result.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use graphdblite::{Database, Record, Value as Graph};
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::limits;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::Millis;
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{AccessMode, Origin, OriginError, OriginFault, OriginRun, WriteOf};
use hopcache_packstream::{Value as Packed, Writer};

use crate::failure::{self, failed};
use crate::pool::{Pool, StartError, StillWanted};
use crate::sample::Sample;
use crate::statement::{self, Column, PreparedStatement};
use crate::{load, values};

/// How the embedded graph is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Statements at a time: 1 to [`limits::EMBEDDED_WORKERS_MAX`]; anything else is brought into that range.
    pub workers: usize,
    /// Time that every run takes before it begins, to play a database that is far away or busy. It
    /// counts against the run's deadline and takes no worker.
    pub delay_ms: Millis,
    /// How long a run waits for a worker.
    pub queue_wait_ms: Millis,
}

impl Default for Settings {
    fn default() -> Self {
        Self { workers: 4, delay_ms: Millis::ZERO, queue_wait_ms: Millis(limits::EMBEDDED_QUEUE_WAIT_MS) }
    }
}

/// The embedded graph as an origin. Every credential is accepted: it holds nothing but the sample.
pub struct EmbeddedOrigin {
    pool: Pool,
    settings: Settings,
    in_flight: AtomicUsize,
    writes: Arc<Writes>,
}

/// The sample, before the first write. Its bytes are the same in every process, so all of them are one database: nodes of
/// one cluster, each with its own graph, share its entries.
const SAMPLE: DatabaseUuid = DatabaseUuid(*b"embedded.sample.");

/// The number of the sample.
const SAMPLE_ID: u64 = 1;

/// The numbers of writes, for bookmarks. A write takes its number before it is committed, while it alone may write.
struct Writes {
    /// This graph, from its first write on.
    written: DatabaseUuid,
    /// The last that may have been committed.
    begun: AtomicU64,
    /// All up to this one are committed, and seen by whatever begins now.
    done: AtomicU64,
}

impl Writes {
    fn new() -> Self {
        // Another graph's writes mean nothing in this one: each has its own name.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut uuid = *b"embedded........";
        uuid[8..].copy_from_slice(&u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX).to_be_bytes());
        let (begun, done) = (AtomicU64::new(SAMPLE_ID), AtomicU64::new(SAMPLE_ID));
        Self { written: DatabaseUuid(uuid), begun, done }
    }

    fn at(&self, id: u64) -> Position {
        let database = if id == SAMPLE_ID { SAMPLE } else { self.written };
        Position { database, id: TransactionId(id) }
    }

    /// What a statement that begins now sees. Every graph has the sample in it: a client that has read before the first write
    /// brings the sample's bookmark along for ever.
    fn seen(&self) -> Bookmark {
        Bookmark::NONE.with(Some(self.at(SAMPLE_ID))).with(Some(self.at(self.done.load(Ordering::Acquire))))
    }

    /// The end of what a statement has seen.
    fn last(&self) -> Position {
        self.at(self.begun.load(Ordering::Acquire))
    }
}

impl EmbeddedOrigin {
    /// Generates and loads the sample, and starts the workers. Blocks for well under 2 s in a release build.
    ///
    /// # Errors
    /// [`StartError`] when the temporary file or a thread cannot be made.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        let pool = Pool::start(settings.workers, |graph| load::load(graph, &Sample::generate()))?;
        Ok(Self { pool, settings, in_flight: AtomicUsize::new(0), writes: Arc::new(Writes::new()) })
    }

    /// Threads that still run an abandoned statement.
    #[must_use]
    pub fn abandoned(&self) -> usize {
        self.pool.abandoned()
    }

    async fn answer(&self, run: &OriginRun) -> Result<ResultSet, OriginFault> {
        let deadline = tokio::time::Instant::now() + run.timeout_ms.duration().min(A_DAY);
        refuse_foreign(run)?;
        let prepared =
            statement::prepare(&run.statement).map_err(|why| failed(failure::SYNTAX, why.to_string()))?;
        let params =
            values::parameters(&run.params).map_err(|why| failed(failure::ARGUMENT, why.to_string()))?;
        let writes = prepared.kind != StatementKind::Read;
        if writes && run.mode == AccessMode::Read {
            let message = "Writing in read access mode not allowed. Attempted write to neo4j";
            return Err(failed(failure::ACCESS_MODE, message));
        }
        if writes && self.pool.file_bytes() > limits::EMBEDDED_FILE_BYTES_MAX {
            return Err(failed(
                failure::MEMORY,
                "the embedded sample graph is full: restart it, or use Neo4j",
            ));
        }
        if self.settings.delay_ms > Millis::ZERO {
            let delay = tokio::time::sleep(self.settings.delay_ms.duration());
            tokio::time::timeout_at(deadline, delay).await.map_err(|_| OriginFault::TimedOut)?;
        }
        let (bytes_max, counter) = (run.bytes_max, Arc::clone(&self.writes));
        let work = Box::new(move |graph: &mut Database, wanted: &StillWanted| {
            execute(graph, wanted, &prepared, &params, bytes_max, &counter)
        });
        self.pool.run(self.settings.queue_wait_ms.duration(), deadline, work).await
    }
}

/// Longest deadline that is counted: the runtime's clock does not accept every number.
const A_DAY: Duration = Duration::from_secs(86_400);

#[async_trait]
impl Origin for EmbeddedOrigin {
    async fn run(&self, run: &OriginRun) -> Result<ResultSet, OriginError> {
        let _counted = Counted::new(&self.in_flight);
        self.answer(run).await.map_err(|fault| match fault {
            OriginFault::Overloaded | OriginFault::Unreachable(_) => OriginError::from(fault),
            _ => OriginError::of_sent(fault),
        })
    }

    /// Costs some microseconds: no round trip, no worker. A text that is not Cypher has a kind too.
    async fn kind(&self, run: &OriginRun) -> Result<StatementKind, OriginError> {
        Ok(statement::kind(&run.statement))
    }

    /// Whatever a write that failed has committed has a number up to this one.
    async fn newest(&self, _of: &WriteOf, _timeout_ms: Millis) -> Result<Option<Position>, OriginError> {
        Ok(Some(self.writes.at(self.writes.done.load(Ordering::Acquire))))
    }

    async fn verify(&self, _identity: &Identity) -> Result<(), OriginError> {
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    fn slots(&self) -> Option<usize> {
        Some(self.settings.workers.clamp(1, limits::EMBEDDED_WORKERS_MAX))
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn refuse_foreign(run: &OriginRun) -> Result<(), OriginFault> {
    if !run.database.eq_ignore_ascii_case("neo4j") {
        let message = format!("Graph not found: {}. The embedded sample graph is called neo4j", run.database);
        return Err(failed(failure::NO_DATABASE, message));
    }
    if run.impersonated.is_some() {
        return Err(failed(failure::FORBIDDEN, "the embedded sample graph has no users to impersonate"));
    }
    Ok(())
}

/// On a worker: one transaction of the kind that the statement needs.
fn execute(
    graph: &mut Database,
    wanted: &StillWanted,
    prepared: &PreparedStatement,
    params: &HashMap<String, Graph>,
    bytes_max: usize,
    writes: &Writes,
) -> Result<ResultSet, OriginFault> {
    let library = |error| failure::of_library(&error);
    if prepared.kind == StatementKind::Read {
        // The library plans before it runs, and refuses here every statement that would write.
        let from = writes.seen();
        let read = graph.read_tx().map_err(library)?;
        let rows = read.query_with_params(&prepared.text, Some(params)).map_err(library)?;
        let result = render(prepared, &rows, bytes_max)?;
        return Ok(with_range(result, from, writes.last()));
    }
    let write = graph.write_tx().map_err(library)?;
    let outcome = write.query_with_params(&prepared.text, Some(params)).map_err(library);
    let outcome = outcome.and_then(|rows| render(prepared, &rows, bytes_max));
    let outcome =
        outcome.and_then(|result| if wanted.check() { Ok(result) } else { Err(OriginFault::TimedOut) });
    let result = match outcome {
        Ok(result) => result,
        Err(why) => {
            write.rollback().map_err(library)?;
            return Err(why);
        }
    };
    let number = writes.begun.fetch_add(1, Ordering::AcqRel) + 1;
    write.commit().map_err(library)?;
    writes.done.fetch_max(number, Ordering::AcqRel);
    Ok(with_range(result, Bookmark::NONE, writes.at(number)))
}

/// Every statement sees every write that was answered before it began, so a bookmark in the request adds nothing.
fn with_range(mut result: ResultSet, from: Bookmark, to: Position) -> ResultSet {
    result.bookmark = Bookmark::NONE.with(Some(to)).encode();
    result.range = ReadRange::new(from, to);
    result
}

fn render(prepared: &PreparedStatement, rows: &[Record], bytes_max: usize) -> Result<ResultSet, OriginFault> {
    let mut records = Vec::new();
    for row in rows {
        let mut out = Writer::new();
        render_row(&mut out, &prepared.columns, row)?;
        records.extend_from_slice(&out.into_bytes());
        if records.len() > bytes_max {
            return Err(OriginFault::TooLarge { limit_bytes: bytes_max });
        }
    }
    // A write's counters are not known. Only one fact matters: that it may have changed something (I6).
    let stats = Packed::Map(vec![("contains-updates".to_owned(), Packed::Bool(true))]);
    let is_read = prepared.kind == StatementKind::Read;
    Ok(ResultSet {
        fields: prepared.columns.iter().map(|column| column.name.clone()).collect(),
        records: Bytes::from(records),
        rows: if prepared.columns.is_empty() { 0 } else { rows.len() as u64 },
        kind: Some(prepared.kind),
        summary: Packed::Map(if is_read { Vec::new() } else { vec![("stats".to_owned(), stats)] }),
        bookmark: None,
        range: None,
        marked: None,
    })
}

fn render_row(out: &mut Writer, columns: &[Column], row: &Record) -> Result<(), OriginFault> {
    if columns.is_empty() {
        return Ok(());
    }
    out.list(columns.len());
    for column in columns {
        let Some(value) = row.get(&column.library_name).filter(|_| row.len() == columns.len()) else {
            let message = "the embedded sample graph named the columns in a way it cannot answer soundly";
            return Err(failed(failure::FAILED, message));
        };
        values::write(out, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of one cluster have a graph each. Their runs must not tell one another that the name leads to another
    /// database, since that ends all entries.
    #[test]
    fn graphs_are_one_database_until_they_are_written() {
        let (one, other) = (Writes::new(), Writes::new());
        assert_eq!((one.last(), one.seen()), (other.last(), other.seen()));
        let sample = one.last();
        one.begun.fetch_add(1, Ordering::AcqRel);
        assert_eq!(one.seen(), other.seen(), "the write has begun, and is not committed");
        one.done.fetch_add(1, Ordering::AcqRel);
        assert_ne!(one.last().database, sample.database);
        assert_eq!(
            one.seen().in_database(sample.database),
            Some(sample),
            "who has read before brings it along"
        );
        other.begun.fetch_add(1, Ordering::AcqRel);
        other.done.fetch_add(1, Ordering::AcqRel);
        assert_ne!(one.last().database, other.last().database, "written, they are not the same any more");
    }
}
