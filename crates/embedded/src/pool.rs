//! Threads with a database handle each, all on one file: a write that one of them commits is visible to every
//! statement that begins afterwards.
//!
//! The library cannot be interrupted. So a statement for which no caller waits any more is abandoned: its thread is
//! replaced at once, and ends without a commit when the library returns. At most [`limits::EMBEDDED_ABANDONED_MAX`]
//! threads are in that state. Beyond that a slot stays taken until its thread is done, so the number of threads never
//! grows past the two bounds together.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use graphdblite::{Config, Database, GraphError, SyncMode};
use hopcache_core::limits;
use hopcache_engine::ports::OriginFault;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::failure;

/// Work for one handle. It asks the flag before it makes anything permanent.
pub(crate) type Work<T> = Box<dyn FnOnce(&mut Database, &StillWanted) -> Result<T, OriginFault> + Send>;

/// Whether a caller waits for a piece of work.
#[derive(Clone)]
pub(crate) struct StillWanted(Arc<Mutex<Stage>>);

impl StillWanted {
    /// Whether a caller still waits. One schedule remains: the thread asks, the caller gives up, the thread commits.
    /// The caller then gets `TimedOut` for a write that was carried out, as with Neo4j.
    pub(crate) fn check(&self) -> bool {
        matches!(*self.0.lock(), Stage::Running(_))
    }
}

enum Stage {
    /// Sent, not begun; holds the slot.
    Queued(OwnedSemaphorePermit),
    /// A thread runs it; holds the slot.
    Running(OwnedSemaphorePermit),
    /// Done, or passed over before it began.
    Ended,
    /// No caller waits. `true`: the thread was replaced and has to end; its slot was given back.
    Abandoned { replaced: bool, slot: Option<OwnedSemaphorePermit> },
}

type Task = Box<dyn FnOnce(&mut Database) -> Next + Send>;

/// How a thread goes on after a task.
enum Next {
    Serve,
    Reopen,
    End,
}

/// The file, and how it is opened. All threads share it, and the last one removes the file.
struct Site {
    directory: tempfile::TempDir,
    abandoned: AtomicUsize,
    tasks: Mutex<mpsc::Receiver<Task>>,
    /// Handles for replacements. They are opened at the start, because a handle cannot be opened during a write, and
    /// that is just when a replacement is needed. There are as many as threads can be replaced, and a replaced thread
    /// brings its own handle back. So there is always one.
    spares: Mutex<Vec<Database>>,
}

/// The pool. Dropping it ends its threads.
pub(crate) struct Pool {
    site: Arc<Site>,
    sender: mpsc::Sender<Task>,
    slots: Arc<Semaphore>,
}

impl Pool {
    /// Makes the file, fills it with `load`, and starts `workers` threads.
    pub(crate) fn start(
        workers: usize,
        load: impl FnOnce(&mut Database) -> graphdblite::Result<()>,
    ) -> Result<Self, StartError> {
        let directory = tempfile::Builder::new().prefix("hopcache-sample-").tempdir()?;
        let (sender, receiver) = mpsc::channel();
        let site = Arc::new(Site {
            directory,
            abandoned: AtomicUsize::new(0),
            tasks: Mutex::new(receiver),
            spares: Mutex::default(),
        });
        load(&mut site.open()?)?;
        for _ in 0..limits::EMBEDDED_ABANDONED_MAX {
            let spare = site.open()?;
            site.spares.lock().push(spare);
        }
        let workers = workers.clamp(1, limits::EMBEDDED_WORKERS_MAX);
        for _ in 0..workers {
            spawn(Arc::clone(&site), site.open()?)?;
        }
        Ok(Self { site, sender, slots: Arc::new(Semaphore::new(workers)) })
    }

    /// Waits for a thread (at most `wait`), then for its answer (at most until `deadline` is over).
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        wait: Duration,
        deadline: tokio::time::Instant,
        work: Work<T>,
    ) -> Result<T, OriginFault> {
        let late = tokio::time::Instant::now() + wait;
        let acquire = tokio::time::timeout_at(late.min(deadline), Arc::clone(&self.slots).acquire_owned());
        let slot = match acquire.await {
            Ok(Ok(slot)) => slot,
            Ok(Err(_)) => return Err(OriginFault::Overloaded),
            Err(_) if deadline < late => return Err(OriginFault::TimedOut),
            Err(_) => return Err(OriginFault::Overloaded),
        };
        let stage = Arc::new(Mutex::new(Stage::Queued(slot)));
        let (answer, answered) = oneshot::channel();
        let task = task(Arc::clone(&self.site), Arc::clone(&stage), work, answer);
        if self.sender.send(task).is_err() {
            return Err(OriginFault::Unreachable("the embedded graph has stopped".to_owned()));
        }
        // From here on a dropped future gives the work up, as a deadline does.
        let waiting = Waiting { site: Arc::clone(&self.site), stage };
        let answer = tokio::time::timeout_at(deadline, answered).await;
        drop(waiting);
        match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                Err(failure::failed(failure::FAILED, "the embedded sample graph failed inside; see its log"))
            }
            Err(_) => Err(OriginFault::TimedOut),
        }
    }

    /// The number of threads that run abandoned work.
    pub(crate) fn abandoned(&self) -> usize {
        self.site.abandoned.load(Ordering::Acquire)
    }

    /// Size of the file and its log, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        let size = |name: &str| {
            std::fs::metadata(self.site.directory.path().join(name)).map_or(0, |file| file.len())
        };
        size(FILE) + size(LOG)
    }
}

/// Why the embedded graph did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No temporary directory or thread.
    #[error(
        "the embedded graph could not be set up ({0}): make room in the temporary directory, or set TMPDIR"
    )]
    Io(#[from] std::io::Error),
    /// The library refused.
    #[error("the embedded graph could not be loaded: {0}")]
    Library(#[from] GraphError),
}

const FILE: &str = "sample.graph";
const LOG: &str = "sample.graph-wal";
/// How long one write waits for another. It is below the usual deadlines of runs.
const BUSY_MS: u32 = 2_000;

impl Site {
    fn open(&self) -> graphdblite::Result<Database> {
        let config = Config {
            busy_timeout_ms: BUSY_MS,
            // The file does not outlive the process.
            synchronous: SyncMode::Off,
            max_traversal_depth: limits::EMBEDDED_HOPS_MAX,
            max_traversal_work: limits::EMBEDDED_TRAVERSAL_MAX,
            max_materialized_bytes: limits::EMBEDDED_STATEMENT_BYTES_MAX,
            max_result_rows: limits::EMBEDDED_ROWS_MAX,
            ..Config::default()
        };
        let path: PathBuf = self.directory.path().join(FILE);
        Database::open_with_config(path, config)
    }
}

fn spawn(site: Arc<Site>, graph: Database) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("embedded-graph".to_owned());
    thread.spawn(move || serve(&site, graph)).map(drop)
}

/// A thread's life: it runs tasks until the pool is gone or the thread was replaced.
fn serve(site: &Site, mut graph: Database) {
    loop {
        // One thread waits in `recv` with the lock, the others wait for the lock. In both cases an idle thread takes
        // the task.
        let task = site.tasks.lock().recv();
        match task.map(|task| task(&mut graph)) {
            Ok(Next::Serve) => {}
            Ok(Next::Reopen) => match site.open() {
                Ok(fresh) => graph = fresh,
                // The old handle has to do: SQLite itself ends the transaction when it can.
                Err(error) => tracing::error!(%error, "a worker of the embedded graph keeps its handle"),
            },
            Ok(Next::End) => return site.spares.lock().push(graph),
            Err(mpsc::RecvError) => return,
        }
    }
}

fn task<T: Send + 'static>(
    site: Arc<Site>,
    stage: Arc<Mutex<Stage>>,
    work: Work<T>,
    answer: oneshot::Sender<Result<T, OriginFault>>,
) -> Task {
    Box::new(move |graph| {
        if !begin(&stage) {
            return Next::Serve;
        }
        let wanted = StillWanted(Arc::clone(&stage));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(graph, &wanted)));
        let next = end(&site, &stage);
        match (outcome, next) {
            (Ok(outcome), next) => {
                let _ = answer.send(outcome);
                next
            }
            // The panic hook has logged it. The handle may be in any state, so a new one is opened.
            (Err(_), Next::Serve) => Next::Reopen,
            (Err(_), next) => next,
        }
    })
}

/// Queued → running. Returns whether there is anything to do.
fn begin(stage: &Mutex<Stage>) -> bool {
    let mut stage = stage.lock();
    match std::mem::replace(&mut *stage, Stage::Ended) {
        Stage::Queued(slot) => {
            *stage = Stage::Running(slot);
            true
        }
        _ => false,
    }
}

/// Running → ended, which gives the slot back. A replaced thread ends instead.
fn end(site: &Site, stage: &Mutex<Stage>) -> Next {
    let last = std::mem::replace(&mut *stage.lock(), Stage::Ended);
    match last {
        Stage::Abandoned { replaced, slot } => {
            site.abandoned.fetch_sub(1, Ordering::AcqRel);
            drop(slot);
            if replaced { Next::End } else { Next::Serve }
        }
        _ => Next::Serve,
    }
}

/// Gives the work up if it is dropped before its end.
struct Waiting {
    site: Arc<Site>,
    stage: Arc<Mutex<Stage>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut stage = self.stage.lock();
        match std::mem::replace(&mut *stage, Stage::Ended) {
            Stage::Running(slot) => *stage = abandon(&self.site, slot),
            // Queued: no thread has it yet, and the thread that takes it will pass over it.
            Stage::Queued(_) | Stage::Ended => {}
            abandoned @ Stage::Abandoned { .. } => *stage = abandoned,
        }
    }
}

fn abandon(site: &Arc<Site>, slot: OwnedSemaphorePermit) -> Stage {
    let before = site.abandoned.fetch_add(1, Ordering::AcqRel);
    let spare = if before < limits::EMBEDDED_ABANDONED_MAX { site.spares.lock().pop() } else { None };
    let replaced = spare.is_some_and(|spare| spawn(Arc::clone(site), spare).is_ok());
    tracing::warn!(
        abandoned = before + 1,
        replaced,
        "a statement of the embedded graph ran past its deadline"
    );
    Stage::Abandoned { replaced, slot: if replaced { None } else { Some(slot) } }
}
