//! The marks of writes, for people: what was written last, and at which transaction. Decides nothing.

use std::sync::Arc;

use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::POSITIONS_SHOWN_MAX;
use hopcache_core::tags::TagId;
use hopcache_core::time::Millis;
use hopcache_core::write_position::WriteRecord;
use hopcache_cypher::tags::ReadTags;

use crate::writes::Writes;

/// Plain data: how far a database has been written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabasePositions {
    /// Its name; `None` if no write went through this node, so that only a digest of the name is known.
    pub name: Option<Arc<str>>,
    /// Begins anew when ids go back.
    pub epoch: u64,
    /// The newest transaction that ended entries; `None` while nobody knows it.
    pub newest: Option<u64>,
    /// The latest marks: what was written, and the transaction. `None` as a tag: anything.
    pub tags: Vec<(Option<TagId>, Option<u64>)>,
}

/// What the result of a statement depends on: words of Cypher, each with the number of its mark.
#[must_use]
pub fn watched_words(statement: &str) -> Vec<(TagId, String)> {
    ReadTags::of(statement).words()
}

impl Writes {
    /// For how long the account of each database that was written through this node has been the last one, where it does not reach the newest
    /// write; zero where it does. None of a database of which no watcher has reported.
    #[must_use]
    pub fn behind_proofs(&self) -> Vec<(Arc<str>, Millis)> {
        let (proofs, positions, now) =
            (self.cache.proofs(), self.cache.write_positions(), self.context.now());
        let behind = |(name, text): (&DatabaseTag, &Arc<str>)| {
            proofs.watch_ms()?;
            let database = positions.database_of(*name)?;
            let settled_at = proofs.settled_at(database)?;
            let (epoch, reached) = proofs.reached(database)?;
            let newest = positions.of_database(database)?;
            let is_reached = newest.epoch() == epoch && newest.position().is_some_and(|at| at.id <= reached);
            Some((Arc::clone(text), if is_reached { Millis::ZERO } else { now.since(settled_at) }))
        };
        self.shown.lock().iter().filter_map(behind).collect()
    }

    /// The latest marks of every database, as this node knows them.
    #[must_use]
    pub fn database_positions(&self) -> Vec<DatabasePositions> {
        let records = self.cache.write_positions().records();
        let shown = self.shown.lock().clone();
        let database_positions = |name: DatabaseTag| {
            let newest = self.cache.write_positions().of(name)?;
            let tags = latest(records.iter().filter(|record| record.name == name));
            Some(DatabasePositions {
                name: shown.get(&name).cloned(),
                epoch: newest.epoch().0,
                newest: newest.position().map(|position| position.id.0),
                tags,
            })
        };
        self.cache.write_positions().names().into_iter().filter_map(database_positions).collect()
    }
}

/// The latest ones first.
fn latest<'a>(records: impl Iterator<Item = &'a WriteRecord>) -> Vec<(Option<TagId>, Option<u64>)> {
    let id = |record: &WriteRecord| record.written.position().map(|position| position.id.0);
    let mut database_positions: Vec<_> = records.map(|record| (record.tag, id(record))).collect();
    database_positions.sort_by_key(|(tag, id)| (std::cmp::Reverse(id.unwrap_or(u64::MAX)), *tag));
    database_positions.truncate(POSITIONS_SHOWN_MAX);
    database_positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_numbers_that_writes_mark() {
        let words = watched_words("MATCH (p:Person) RETURN p.name");
        let texts: Vec<&str> = words.iter().map(|(_, word)| word.as_str()).collect();
        assert!(texts.contains(&":Person") && texts.contains(&".name of nodes"), "{texts:?}");
        let effects = crate::writes::Effects::of("CREATE (:Person {name: 'a'})", &[0xa0]);
        let hopcache_core::tags::Touched::These(marked) = effects.touched() else { panic!("known") };
        let person = words.iter().find(|(_, word)| word == ":Person").map(|(tag, _)| tag);
        assert!(person.is_some_and(|tag| marked.tags().contains(tag)));
    }
}
