//! Before a statement that may write goes to Neo4j: what it will not change is found out (`hopcache_engine::Writes::look_ahead`).

use std::sync::Arc;

use hopcache_engine::ports::AccessMode;
use hopcache_neo4j::updates::WriteWords;

use super::statement::Statement;
use super::transaction::Transaction;
use super::{RequestError, Session};
use crate::bolt_front::options::StatementOptions;

impl Session {
    /// Reads what a statement may write that goes to Neo4j next: by itself with these options, or in the transaction. While it waits it has
    /// no connection.
    pub(super) async fn read_ahead(
        &mut self,
        options: Option<&StatementOptions>,
        statement: &Statement,
    ) -> Result<WriteWords, RequestError> {
        let engine = Arc::clone(&self.front.engine);
        let words = || WriteWords::of_facts(&engine.path().write_facts(&statement.text), &statement.params);
        let words = self.read_apart(statement.text.len(), words).await?;
        let options = self.transaction.as_ref().map(Transaction::options).or(options);
        if let Some(options) = options.filter(|of| words.may_write && of.mode == AccessMode::Write)
            && let Some(database) = self.known_database(options)
        {
            let writes = Arc::clone(engine.writes());
            self.out.wait_for(writes.look_ahead(&database, &words.effects)).await?;
        }
        Ok(words)
    }

    fn known_database(&self, options: &StatementOptions) -> Option<Arc<str>> {
        // A home database has the name that Neo4j has told.
        let home = || {
            let acting = self.acting(options).ok()?;
            self.front.shared.databases.known_home(&acting, options.impersonated.as_deref())
        };
        options.database.as_deref().map(Arc::from).or_else(home)
    }
}
