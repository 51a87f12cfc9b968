//! Which run of the Neo4j server this node talks to, between its start and its stop.
//!
//! The server is asked by `dbms.queryJmx` when its process began and what it is called (measured on 5.26 Community: any user may
//! ask, and both are others after a restart; `lastStartTime` of `SHOW DATABASES` is not). The answer holds for every connection
//! that was open when it came: such a connection ends with the server. So the question is asked once for a connection that is
//! newer than the last answer, and looks cost nothing more.
//!
//! A server that refuses the question (Aura, a user without `EXECUTE PROCEDURE`) has no runs that this node can tell.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hopcache_bolt::{Mode, Run, WholeResult};
use hopcache_core::proof::ServerRun;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The name of the process has its number and its host.
const QUESTION: &str = "CALL dbms.queryJmx('java.lang:type=Runtime') YIELD attributes \
    RETURN attributes.StartTime.value AS started, attributes.Name.value AS process";
/// Bytes of an answer: a number and a name.
const ANSWER_BYTES_MAX: usize = 4_096;

/// What this node knows of it.
#[derive(Debug, Default)]
pub(super) struct ServerRuns {
    known: Mutex<Option<Known>>,
    is_refusal_said: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    run: Option<ServerRun>,
    at: Instant,
}

impl ServerRuns {
    /// The run behind a connection that was opened then and answers; `None` if it has to be asked. The inner `None`: the server
    /// does not tell.
    pub(super) fn behind(&self, opened: Instant) -> Option<Option<ServerRun>> {
        self.known.lock().filter(|known| opened <= known.at).map(|known| known.run)
    }

    /// A connection that is open has answered so just now.
    pub(super) fn answered(&self, finished: &WholeResult) -> Option<ServerRun> {
        let run = (finished.rows == 1).then(|| ServerRun::of(&finished.records));
        self.keep(run)
    }

    /// The server has refused the question.
    pub(super) fn refused(&self, code: &str) -> Option<ServerRun> {
        if !self.is_refusal_said.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                error = code,
                "Neo4j does not tell when it was started: after a restore of its files, purge (docs/operating/freshness.md, Proofs)"
            );
        }
        self.keep(None)
    }

    fn keep(&self, run: Option<ServerRun>) -> Option<ServerRun> {
        *self.known.lock() = Some(Known { run, at: Instant::now() });
        run
    }
}

/// The question, in this database.
pub(super) fn question<'a>(
    database: Option<&'a str>,
    impersonated: Option<&'a str>,
    within: Duration,
) -> Run<'a> {
    Run {
        statement: QUESTION,
        params: &[0xA0],
        database,
        mode: Mode::Read,
        timeout: within,
        server_timeout: None,
        bookmarks: &[],
        metadata: &[],
        impersonated,
        bytes_max: ANSWER_BYTES_MAX,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hopcache_packstream::Value;

    use super::*;

    fn said(records: &'static [u8], rows: u64) -> WholeResult {
        WholeResult {
            fields: Vec::new(),
            records: Bytes::from_static(records),
            rows,
            statement_type: None,
            bookmark: None,
            summary: Value::Map(Vec::new()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_for_connections_that_were_open_then() {
        let runs = ServerRuns::default();
        let opened = Instant::now();
        assert_eq!(runs.behind(opened), None, "nobody has asked");
        let first = runs.answered(&said(&[0x92, 1, 2], 1));
        assert_eq!(runs.behind(opened), Some(first));
        tokio::time::advance(Duration::from_millis(1)).await;
        let later = Instant::now();
        assert_eq!(runs.behind(later), None, "the server may have been started anew");
        let second = runs.answered(&said(&[0x92, 1, 3], 1));
        assert!(first.is_some() && second.is_some() && first != second);
        assert_eq!(runs.behind(later), Some(second));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_tell_is_not_asked_on_each_look() {
        let runs = ServerRuns::default();
        let opened = Instant::now();
        assert_eq!(runs.refused("Neo.ClientError.Procedure.ProcedureNotFound"), None);
        assert_eq!(runs.behind(opened), Some(None));
        assert_eq!(runs.answered(&said(&[], 0)), None);
    }
}
