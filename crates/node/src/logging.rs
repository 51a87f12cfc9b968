//! What the process says: lines on stderr, text or JSON, through a bounded queue. A blocked log pipe
//! or a full disk never holds up a request (fault F38): lines are dropped and counted. Decides
//! nothing about what is logged, except that query texts stay out unless asked for.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Deserializer};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogFormat, LogSection};

/// Lines that wait for a slow reader of the log; about 2 MB of them. More are dropped and counted.
pub const QUEUED_LINES_MAX: usize = 8_192;

/// Whether `log.queries` is on. One flag for the process, like the subscriber itself.
static QUERIES: AtomicBool = AtomicBool::new(false);

/// Keep it for as long as the process logs: its drop writes what is queued.
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

    /// The counter of dropped lines, for the metrics.
    #[must_use]
    pub fn dropped_counter(&self) -> ErrorCounter {
        self.dropped.clone()
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
    let (writer, logging) = queue(out);
    let filter = EnvFilter::try_new(&log.level)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(false);
    match log.format {
        LogFormat::Text => lines.finish().try_init()?,
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init()?,
    }
    Ok(logging)
}

fn queue(out: impl std::io::Write + Send + 'static) -> (NonBlocking, Logging) {
    let (writer, guard) =
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(QUEUED_LINES_MAX).finish(out);
    let dropped = writer.error_counter();
    (writer, Logging { dropped, _guard: guard })
}

/// A statement or parameters as a log line may show them: `<hidden>` unless `log.queries` is on.
/// Every log line that has a query in it writes it through this.
#[must_use]
pub fn query_text(text: &str) -> &str {
    if QUERIES.load(Ordering::Relaxed) { text } else { "<hidden>" }
}

/// Reads `log.level`, refusing what the filter would not understand.
pub(crate) fn deserialize_level<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    let text = String::deserialize(input)?;
    let known = ["error", "warn", "info", "debug", "trace", "off"];
    // A word alone that is no level would be taken as a module's name, and silence everything else.
    let named = |part: &str| part.contains('=') || known.contains(&part.trim().to_lowercase().as_str());
    let sound = !text.trim().is_empty() && text.split(',').all(named) && EnvFilter::try_new(&text).is_ok();
    if sound { Ok(text) } else { Err(serde::de::Error::custom("not a level")) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
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

    /// F38: the writers go on, and every line that found no place is counted.
    #[test]
    fn a_blocked_log_holds_nobody_up_and_drops_are_counted() {
        let (release, blocked) = sync_channel(0);
        let (mut writer, logging) = queue(Blocked(blocked));
        let surplus = 100;
        // One more than the queue is with the writer's thread at the most.
        for _ in 0..QUEUED_LINES_MAX + 1 + surplus {
            writer.write_all(b"line\n").unwrap();
        }
        assert!(logging.dropped_lines() >= surplus as u64, "{}", logging.dropped_lines());
        drop(release);
    }

    #[test]
    fn query_texts_are_hidden_unless_asked_for() {
        assert_eq!(query_text("MATCH (n) RETURN n"), "<hidden>");
    }
}
