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
    /// How old the last account of each database is that was written through this node, by the look of which it is; `None` as an age: this node
    /// has seen none. Nothing is shown where nobody watches.
    #[must_use]
    pub fn account_ages(&self) -> Vec<(Arc<str>, Option<Millis>)> {
        let (proofs, positions, now) =
            (self.cache.proofs(), self.cache.write_positions(), self.context.now());
        if proofs.watch_ms().is_none() {
            return Vec::new();
        }
        let age = |(name, text): (&DatabaseTag, &Arc<str>)| {
            let settled_at = positions.database_of(*name).and_then(|database| proofs.settled_at(database));
            (Arc::clone(text), settled_at.map(|at| now.since(at)))
        };
        self.shown.lock().iter().map(age).collect()
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
