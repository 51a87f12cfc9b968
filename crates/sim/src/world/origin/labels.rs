//! The answer to the question whether some node has two labels.

use bytes::Bytes;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::Millis;
use hopcache_core::turns::RunClass;
use hopcache_engine::ports::{Neo4jFailure, OriginError, OriginFault, OriginRun};
use hopcache_packstream::Value;

use super::{Life, ScriptedOrigin};

/// The questions so far, and how the next ones are answered.
#[derive(Default)]
pub(super) struct BothQuestions {
    asked: Vec<RunClass>,
    takes_ms: Option<u64>,
    are_refused: bool,
}

impl ScriptedOrigin {
    /// From now on each question for two labels takes so long.
    pub fn set_both_ms(&self, takes_ms: u64) {
        self.state.lock().both_questions.takes_ms = Some(takes_ms);
    }

    /// From now on the credentials of each question for two labels are refused.
    pub fn refuse_both(&self) {
        self.state.lock().both_questions.are_refused = true;
    }

    /// The purpose of each question for two labels so far.
    #[must_use]
    pub fn both_asked(&self) -> Vec<RunClass> {
        self.state.lock().both_questions.asked.clone()
    }

    /// Such a question does not count as a run of a query. It reads what a run reads that begins now, and its answer travels.
    pub(super) async fn tell_both(&self, by: Life, run: &OriginRun) -> Result<ResultSet, OriginError> {
        let (is_both, carried, takes_ms) = {
            let mut state = self.state.lock();
            state.both_questions.asked.push(run.class);
            if state.both_questions.are_refused {
                let code = "Neo.ClientError.Security.Unauthorized".to_owned();
                let failure =
                    Neo4jFailure { code, message: "another password".to_owned(), as_sent: Vec::new() };
                return Err(OriginError::of_sent(OriginFault::Unauthorized(failure)));
            }
            let newest = u64::try_from(state.version).unwrap_or(0);
            let carried = state.transactions.carried(by, run, newest);
            let version = state.transactions.visible(state.version, &carried);
            let Some(version) = version else {
                return Err(OriginError::of_sent(OriginFault::TimedOut));
            };
            let is_asked = ["Left", "Right"].iter().all(|label| run.statement.contains(label));
            (is_asked && state.has_both(version), carried, state.both_questions.takes_ms)
        };
        let takes_ms = takes_ms.unwrap_or_else(|| self.dice.below(50));
        tokio::time::sleep(Millis(takes_ms).duration()).await;
        let result = ResultSet {
            fields: vec!["both".to_owned()],
            records: if is_both { Bytes::from_static(&[0x91, 1]) } else { Bytes::new() },
            rows: u64::from(is_both),
            kind: Some(StatementKind::Read),
            summary: Value::Map(Vec::new()),
            bookmark: None,
            range: None,
            marked: None,
        };
        Ok(self.with_range(by, result, carried))
    }
}
