//! The answer to the question whether some node has two labels.

use bytes::Bytes;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::Millis;
use hopcache_engine::ports::{OriginError, OriginFault, OriginRun};
use hopcache_packstream::Value;

use super::{Life, ScriptedOrigin};

impl ScriptedOrigin {
    /// Such a question does not count as a run of a query. It reads what a run reads that begins now, and its answer travels.
    pub(super) async fn tell_both(&self, by: Life, run: &OriginRun) -> Result<ResultSet, OriginError> {
        let (is_both, carried) = {
            let state = self.state.lock();
            let newest = u64::try_from(state.version).unwrap_or(0);
            let carried = state.transactions.carried(by, run, newest);
            let version = state.transactions.visible(state.version, &carried);
            let Some(version) = version else {
                return Err(OriginError::of_sent(OriginFault::TimedOut));
            };
            let is_asked = ["Left", "Right"].iter().all(|label| run.statement.contains(label));
            (is_asked && state.has_both(version), carried)
        };
        tokio::time::sleep(Millis(self.dice.below(50)).duration()).await;
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
