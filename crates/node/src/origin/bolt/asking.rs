//! Questions for a database's newest transaction: before a run that has to carry a mark, and after a write whose id is not
//! known.

use hopcache_core::bookmark::Position;
use hopcache_engine::ports::{OriginError, OriginFault, OriginRun, WriteOf};
use tokio::time::Instant;

use super::{BoltOrigin, CallPermit, Lent, fault};

impl BoltOrigin {
    /// Asks on the connection that the run will use: whatever is seen on it may be carried on it.
    pub(super) async fn ask_newest_on(
        &self,
        lent: &mut Lent,
        run: &OriginRun,
        deadline: Instant,
    ) -> Result<(), OriginError> {
        let begun = Instant::now();
        let within = deadline.saturating_duration_since(begun);
        let Some(connection) = lent.connection() else { return Err(OriginFault::Overloaded.into()) };
        let database = (!run.database.is_empty()).then_some(&*run.database);
        let answer = connection.newest(database, run.impersonated.as_deref(), within).await;
        let returned = answer.map_err(|error| OriginError { was_sent: false, ..fault::of_run(error) })?;
        if let Some(returned) = returned {
            self.settings.newest.asked(&run.database, &returned, begun);
        }
        Ok(())
    }

    pub(super) async fn ask_newest(
        &self,
        of: &WriteOf,
        deadline: Instant,
        ticket: &CallPermit<'_>,
    ) -> Result<Option<Position>, OriginError> {
        let whose = self.fingerprint(&of.identity);
        let lent = self.pools.lend(&whose, || self.auth(&of.identity), self.settings.wait).await;
        let mut lent = lent.map_err(|error| self.not_lent(&whose, error, ticket))?;
        let Some(connection) = lent.connection() else { return Err(OriginFault::Overloaded.into()) };
        let begun = Instant::now();
        let within = deadline.saturating_duration_since(begun);
        let database = (!of.database.is_empty()).then_some(&*of.database);
        match connection.newest(database, of.impersonated.as_deref(), within).await {
            Ok(returned) => {
                Ok(returned.and_then(|returned| self.settings.newest.asked(&of.database, &returned, begun)))
            }
            Err(error) => {
                lent.close();
                Err(fault::of_run(error))
            }
        }
    }
}
