//! What was written while this node could not reach Neo4j.

use std::collections::BTreeMap;

use super::WrittenRecord;
use crate::bookmark::DatabaseUuid;
use crate::tags::{TagId, Touched};

/// What was written while this node could not reach Neo4j: Neo4j answered others, so it is not away. What such a write has ended
/// stands in for nothing.
///
/// Schedule: Neo4j refuses new connections, and goes on to serve old ones · this node counts it as away · a transaction commits on an
/// old connection of another node, which tells this one · a reader asks here for what it has written.
#[derive(Debug, Clone, Default)]
pub struct OutageWrites {
    touched: BTreeMap<DatabaseUuid, Touched>,
}

impl OutageWrites {
    /// Takes a mark that shows an answer ([`super::WrittenTable::shows_an_answer`]).
    pub fn take(&mut self, record: &WrittenRecord) {
        let touched = record.tag.map_or(Touched::Anything, |tag| Touched::These([tag].into()));
        let all = self.touched.entry(record.written.database()).or_insert_with(Touched::nothing);
        *all = std::mem::replace(all, Touched::Anything).and(&touched);
    }

    /// Whether such a write may have ended what depends on these tags; on unknown ones if there are none.
    #[must_use]
    pub fn may_have_ended(&self, database: DatabaseUuid, reads: Option<&[TagId]>) -> bool {
        match (self.touched.get(&database), reads) {
            (None, _) => false,
            (Some(Touched::These(tags)), Some(reads)) => reads.iter().any(|read| tags.contains(read)),
            (Some(_), _) => true,
        }
    }

    /// Neo4j can be reached.
    pub fn forget(&mut self) {
        self.touched.clear();
    }
}
