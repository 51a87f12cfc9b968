//! Before a statement that may write goes to Neo4j: what it will not change is found out (`hopcache_engine::Writes::look_ahead`).

use std::sync::Arc;

use hopcache_core::write_position::WritePosition;
use hopcache_engine::ports::AccessMode;
use hopcache_neo4j::updates::WriteWords;

use super::transaction::Transaction;
use super::{RequestError, Session};
use crate::bolt_front::options::StatementOptions;

impl Session {
    /// Returns the state that was asked, if the statement had to wait: it has seen all up to it.
    pub(super) async fn look_ahead(
        &mut self,
        options: Option<&StatementOptions>,
        words: &WriteWords,
    ) -> Result<Option<WritePosition>, RequestError> {
        let options = self.transaction.as_ref().map(Transaction::options).or(options);
        let Some(options) = options.filter(|of| words.may_write && of.mode == AccessMode::Write) else {
            return Ok(None);
        };
        // A home database has the name that Neo4j has told.
        let home = || {
            let acting = self.acting(options).ok()?;
            self.front.shared.databases.known_home(&acting, options.impersonated.as_deref())
        };
        let Some(database) = options.database.as_deref().map(Arc::from).or_else(home) else {
            return Ok(None);
        };
        let writes = Arc::clone(self.front.engine.writes());
        let seen = self.out.wait_for(writes.look_ahead(&database, &words.effects)).await?;
        if let Some(transaction) = &mut self.transaction {
            transaction.writes_behind(seen);
        }
        Ok(seen)
    }
}
