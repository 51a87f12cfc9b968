//! Logging: lines on stderr, as text or JSON, through a bounded queue. A blocked log pipe or a full disk never delays a
//! request (fault F38): lines are dropped and counted. This file does not decide what is logged, except that query texts
//! are hidden unless `log.queries` is on.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hopcache_config::{LogFormat, LogSection};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Lines that may wait for a slow reader of the log, about 2 MB. More lines are dropped and counted.
pub const QUEUED_LINES_MAX: usize = 8_192;

/// Whether `log.queries` is on. One flag for the process, like the subscriber itself.
static QUERIES: AtomicBool = AtomicBool::new(false);

/// Puts another filter of levels in force.
type SetFilter = Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send + Sync>;
/// One filter for the process, like the subscriber itself.
static FILTER: OnceLock<SetFilter> = OnceLock::new();

/// Lines that could not be written (a full disk). One count for the process, like the subscriber itself.
static FAILED: AtomicU64 = AtomicU64::new(0);
/// Lines that found the queue full.
static UNQUEUED: OnceLock<ErrorCounter> = OnceLock::new();

/// Lost log lines of this process: the queue was full, or writing failed.
#[must_use]
pub fn lines_dropped() -> u64 {
    let unqueued = UNQUEUED.get().map_or(0, ErrorCounter::dropped_lines);
    FAILED.load(Ordering::Relaxed).saturating_add(unqueued as u64)
}

/// Counts lines that could not be written, and reports success, because nothing would try again.
struct Counting<W>(W);

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if self.0.write_all(line).is_err() {
            FAILED.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Keep it as long as the process logs. Its drop writes queued lines.
#[must_use = "dropping it ends logging"]
pub struct Logging {
    dropped: ErrorCounter,
    _guard: WorkerGuard,
}

impl Logging {
    /// Lines that were dropped because the log was not read fast enough.
    #[must_use]
    pub fn dropped_lines(&self) -> u64 {
        self.dropped.dropped_lines() as u64
    }
}

/// Starts logging to stderr for the whole process.
///
/// # Errors
/// When a subscriber is set already.
pub fn start(log: &LogSection) -> anyhow::Result<Logging> {
    start_on(log, std::io::stderr())
}

/// As [`start`], on any writer.
///
/// # Errors
/// When a subscriber is set already.
pub fn start_on(log: &LogSection, out: impl std::io::Write + Send + 'static) -> anyhow::Result<Logging> {
    QUERIES.store(log.queries, Ordering::Relaxed);
    let (writer, logging) = queue(Counting(out));
    let _ = UNQUEUED.set(logging.dropped.clone());
    let filter = EnvFilter::try_new(&log.level)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(false);
    match log.format {
        LogFormat::Text => {
            let lines = lines.with_filter_reloading();
            let filter = lines.reload_handle();
            lines.finish().try_init()?;
            let _ = FILTER.set(Box::new(move |new| filter.reload(new).map_err(Into::into)));
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_filter_reloading();
            let filter = lines.reload_handle();
            lines.finish().try_init()?;
            let _ = FILTER.set(Box::new(move |new| filter.reload(new).map_err(Into::into)));
        }
    }
    Ok(logging)
}

/// From now on lines of this level are written, and query texts as `log.queries` says. The form of a line stays.
///
/// # Errors
/// When the level cannot be read, or when this process does not log.
pub fn reload(log: &LogSection) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&log.level)?;
    let set = FILTER.get().ok_or_else(|| anyhow::anyhow!("this process does not write a log"))?;
    set(filter)?;
    QUERIES.store(log.queries, Ordering::Relaxed);
    Ok(())
}

fn queue(out: impl std::io::Write + Send + 'static) -> (NonBlocking, Logging) {
    let (writer, guard) =
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(QUEUED_LINES_MAX).finish(out);
    let dropped = writer.error_counter();
    (writer, Logging { dropped, _guard: guard })
}

/// A statement or parameters as a log line may show them: `<hidden>` unless `log.queries` is on. Every log line with a
/// query uses this function.
#[must_use]
pub fn query_text(text: &str) -> &str {
    if QUERIES.load(Ordering::Relaxed) { text } else { "<hidden>" }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use super::*;

    /// A pipe whose reader never reads: each write waits until the test ends.
    struct Blocked(Receiver<()>);
    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// F38: the writers go on, and every line that finds no place is counted.
    #[test]
    fn a_blocked_log_holds_nobody_up_and_drops_are_counted() {
        let (release, blocked) = sync_channel(0);
        let (mut writer, logging) = queue(Blocked(blocked));
        let surplus = 100;
        // At most one more line than the queue holds: the one with the writer's thread.
        for _ in 0..QUEUED_LINES_MAX + 1 + surplus {
            writer.write_all(b"line\n").unwrap();
        }
        assert!(logging.dropped_lines() >= surplus as u64, "{}", logging.dropped_lines());
        drop(release);
    }

    /// F38: a full disk does not stop the node, and lost lines are counted.
    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let before = lines_dropped();
        let mut log = Counting(full);
        assert_eq!(log.write(b"line\n").unwrap(), 5);
        assert_eq!(lines_dropped(), before + 1);
    }

    #[test]
    fn query_texts_are_hidden_unless_asked_for() {
        assert_eq!(query_text("MATCH (n) RETURN n"), "<hidden>");
    }
}
