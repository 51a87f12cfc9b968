//! The one thing that this node repeats at Neo4j: a read whose connection was cut. It decides nothing about followers of a
//! flight, which do not try again after this.

use hopcache_engine::ports::{AccessMode, OriginError, OriginFault, OriginRun};
use tokio::time::Instant;

use super::{BoltOrigin, CallPermit, LiveTap, Mode, RunEnd};

impl BoltOrigin {
    /// A read whose connection was cut before its first record, or while it was opened, is run once more, on another connection
    /// and within the same time: what cut the one (a balancer, a restart) says nothing about the other. One that was sent, and calls what
    /// may do something outside of the graph ([`OriginRun::may_be_repeated`]), is not.
    pub(super) async fn run_in_slot(
        &self,
        run: &OriginRun,
        what: (Mode, &str),
        deadline: Instant,
        ticket: &CallPermit<'_>,
    ) -> Result<RunEnd, OriginError> {
        // In read mode Neo4j refuses writes, whatever the statement is. The run of a cluster is repeated at the next member
        // (`routed.rs`).
        let is_of_cluster = self.settings.routed.is_some();
        let mut tap = LiveTap::new(run, run.mode == AccessMode::Read && !is_of_cluster);
        let ended = self.run_once(run, what, deadline, (ticket, &mut tap)).await;
        if is_of_cluster && matches!(&ended, Err(error) if matches!(error.kind, OriginFault::Cut(_))) {
            self.pools.forget(&self.fingerprint(&run.identity));
        }
        match ended {
            Err(first)
                if !ticket.has_met_silence() && tap.may_repeat(&first) && Instant::now() < deadline =>
            {
                tracing::info!(fault = ?first.kind, "a connection to Neo4j was cut; its read is run once more");
                // What cut this connection may have cut the others that wait beside it.
                self.pools.forget(&self.fingerprint(&run.identity));
                let again = Box::pin(self.run_once(run, what, deadline, (ticket, &mut tap))).await;
                let was_sent = |error: &OriginError| first.was_sent || error.was_sent;
                again.map_err(|error| OriginError { was_sent: was_sent(&error), was_repeated: true, ..error })
            }
            ended => ended,
        }
    }
}
