//! A write past this cluster, of which somebody tells: an application, a trigger in the server, or an operator.
//!
//! It has been committed before it is told. So Neo4j's newest transaction, asked for now, is at or after it, and a mark at that
//! position ends what it may have touched, as for an own write. The watcher still finds the write's id foreign: whoever tells
//! all such writes sets `freshness.watch_interval = "0s"`.

use std::sync::Arc;

use hopcache_core::key::DatabaseTag;
use hopcache_core::tags::Touched;

use crate::model::event::InvalidationWord;
use crate::model::ports::WriteOf;
use crate::writes::Writes;

/// How a write that was told has ended the entries that it touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidationOutcome {
    /// Only those: they depend on what it has touched.
    Touched,
    /// All of its database. This node has asked nothing of that database so far, so it cannot ask for its newest transaction.
    Database,
}

impl Writes {
    /// Ends the entries that depend on what a write past this cluster has touched. It returns when no node that is in touch
    /// serves them. `None` if writes end no entries here (`freshness.mode = "ttl"`).
    pub async fn invalidate(
        self: &Arc<Self>,
        database: &str,
        touched: Touched,
    ) -> Option<InvalidationOutcome> {
        self.lease_ms()?;
        let name = DatabaseTag::of(&self.hasher, database);
        let Some(of) = self.watching.asker(name) else {
            self.purge_name(name).await;
            return Some(InvalidationOutcome::Database);
        };
        let of = WriteOf { touched: self.with_triggers(touched), ..of };
        self.ask_and_tell((&of, name), InvalidationWord::ForeignWrite).await;
        Some(InvalidationOutcome::Touched)
    }
}
