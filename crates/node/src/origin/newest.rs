//! The newest transaction of each database that this node has seen, and when a run may carry it as a bookmark.
//!
//! A run that carries it sees all that anybody had seen of the database when the run began. So its result answers those
//! whose bookmarks are no later. Neo4j tells the transaction with every result and every commit.
//!
//! A restored database has the same UUID and lower ids. Neo4j makes a run wait for 30 s that carries an id it has not
//! reached, and a transaction timeout does not end that wait. Three rules keep this node from it:
//! - A run carries an id only on a connection that was open when the id was seen. Such a connection shows that the server
//!   has not been started anew since. Example: Neo4j stops at 90 and is restored to 40 · a new connection is opened · its
//!   first run carries nothing, and ends at 41 · the next run carries 41.
//! - Of a run that ends behind what it carried, or that finds no end while it carries an id, the id is forgotten.
//! - What clients send is not learned: only what Neo4j answers is.

use std::num::NonZeroUsize;

use hopcache_bolt::Finished;
use hopcache_core::bookmark::{Bookmark, Position, ReadRange};
use hopcache_core::limits::{DATABASE_NAME_BYTES_MAX, DATABASES_MAX};
use hopcache_engine::ports::{OriginFault, OriginRun, RunBookmarks};
use hopcache_packstream::Value;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

/// What this node has seen, by the database's name in lower case; the least recently used are forgotten first.
pub struct NewestPositions {
    known: Mutex<LruCache<String, Sighting>>,
}

#[derive(Debug, Clone, Copy)]
struct Sighting {
    position: Position,
    at: Instant,
}

impl Default for NewestPositions {
    fn default() -> Self {
        let places = NonZeroUsize::new(DATABASES_MAX).unwrap_or(NonZeroUsize::MIN);
        Self { known: Mutex::new(LruCache::new(places)) }
    }
}

impl NewestPositions {
    /// What a run carries on a connection that was opened then, and how that is written for Neo4j.
    pub(super) fn carried_by(&self, run: &OriginRun, opened: Instant) -> (Bookmark, Vec<String>) {
        match &run.bookmarks {
            RunBookmarks::AsSent(texts) => (Bookmark::parse_all(texts).unwrap_or_default(), texts.clone()),
            RunBookmarks::After(client) => {
                let carried = self.carried(&run.database, opened, client);
                let texts = carried.encode().into_iter().collect();
                (carried, texts)
            }
        }
    }

    /// Between which transactions a run read that carried this and ended well.
    pub(super) fn range_of(
        &self,
        run: &OriginRun,
        carried: Bookmark,
        finished: &Finished,
    ) -> Option<ReadRange> {
        let chosen = || finished.summary.get("db").and_then(Value::as_str).unwrap_or_default();
        let database = if run.database.is_empty() { chosen() } else { &run.database };
        self.saw(database, carried, finished.bookmark.as_deref()?)
    }

    /// Takes note of a run that failed. Where it may have waited for what it carried, that is forgotten: perhaps Neo4j does
    /// not reach it any more.
    pub(super) fn failed(&self, run: &OriginRun, carried: &Bookmark, fault: &OriginFault) {
        let may_have_waited = *fault == OriginFault::TimedOut || fault.is_bookmark_timeout();
        if !carried.is_empty() && may_have_waited {
            self.known.lock().pop(&name_of(&run.database));
        }
    }

    /// The client's bookmarks, and the newest position.
    fn carried(&self, database: &str, opened: Instant, client: &Bookmark) -> Bookmark {
        let known = self.known.lock().get(&name_of(database)).copied();
        let known = known.filter(|sighting| opened <= sighting.at);
        client.clone().with(known.map(|sighting| sighting.position))
    }

    /// Takes note of what Neo4j returned now for a run that carried `sent`. Gives the range of the run, where the bookmark is
    /// understood and shows which of its positions is the database's own.
    pub(crate) fn saw(&self, database: &str, sent: Bookmark, returned: &str) -> Option<ReadRange> {
        let returned = Bookmark::parse(returned)?;
        let name = name_of(database);
        let mut known = self.known.lock();
        let before = known.get(&name).copied();
        let own = own_position(&sent, &returned, before.map(|sighting| sighting.position))?;
        let Some(range) = ReadRange::new(sent, own) else {
            known.pop(&name);
            return None;
        };
        let is_same = |before: &Sighting| before.position.database == own.database;
        let newest = before.filter(is_same).map_or(own.id, |before| before.position.id.max(own.id));
        if !name.is_empty() && name.len() <= DATABASE_NAME_BYTES_MAX {
            let position = Position { id: newest, ..own };
            known.put(name, Sighting { position, at: Instant::now() });
        }
        Some(range)
    }
}

/// Which of the returned positions is the database's own. A bookmark of another database comes back beside it.
fn own_position(sent: &Bookmark, returned: &Bookmark, known: Option<Position>) -> Option<Position> {
    if let [only] = returned.positions() {
        return Some(*only);
    }
    let is_new = |position: &&Position| sent.in_database(position.database).is_none();
    let mut new = returned.positions().iter().filter(is_new);
    match (new.next(), new.next()) {
        (Some(own), None) => Some(*own),
        (None, _) => returned.in_database(known?.database),
        (Some(_), Some(_)) => None,
    }
}

/// Neo4j's names are ASCII, and their case does not matter.
fn name_of(database: &str) -> String {
    database.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hopcache_core::bookmark::{DatabaseUuid, TransactionId};

    use super::*;

    fn at(database: u8, id: u64) -> Position {
        Position { database: DatabaseUuid([database; 16]), id: TransactionId(id) }
    }

    fn bookmark(positions: &[Position]) -> Bookmark {
        positions.iter().fold(Bookmark::NONE, |all, position| all.with(Some(*position)))
    }

    fn text(positions: &[Position]) -> String {
        bookmark(positions).encode().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_carries_the_newest_of_its_database_and_the_clients() {
        let newest = NewestPositions::default();
        let opened = Instant::now();
        assert_eq!(newest.carried("neo4j", opened, &Bookmark::NONE), Bookmark::NONE);
        let range = newest.saw("neo4j", Bookmark::NONE, &text(&[at(1, 7)])).unwrap();
        assert_eq!((range.from(), range.to()), (&Bookmark::NONE, at(1, 7)));
        newest.saw("Neo4j", Bookmark::NONE, &text(&[at(1, 5)])).unwrap();
        assert_eq!(newest.carried("neo4j", opened, &Bookmark::NONE), bookmark(&[at(1, 7)]));
        let client = bookmark(&[at(1, 9), at(2, 3)]);
        assert_eq!(newest.carried("NEO4J", opened, &client), client);
        assert_eq!(newest.carried("other", opened, &Bookmark::NONE), Bookmark::NONE);
        assert_eq!(newest.saw("neo4j", Bookmark::NONE, "FB:embedded:0"), None);
    }

    /// F30: a database that is restored has lower ids. A connection of after the restart carries none of before it.
    #[tokio::test(start_paused = true)]
    async fn a_new_connection_carries_nothing_that_was_seen_before_it() {
        let newest = NewestPositions::default();
        newest.saw("neo4j", Bookmark::NONE, &text(&[at(1, 90)]));
        tokio::time::advance(Duration::from_millis(1)).await;
        let opened = Instant::now();
        assert_eq!(newest.carried("neo4j", opened, &Bookmark::NONE), Bookmark::NONE);
        // A run that carried what the database does not reach any more: all is forgotten.
        assert_eq!(newest.saw("neo4j", bookmark(&[at(1, 90)]), &text(&[at(1, 41)])), None);
        newest.saw("neo4j", Bookmark::NONE, &text(&[at(1, 41)])).unwrap();
        assert_eq!(newest.carried("neo4j", opened, &Bookmark::NONE), bookmark(&[at(1, 41)]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_own_position_is_told_from_those_of_other_databases() {
        let system = bookmark(&[at(2, 3)]);
        let newest = NewestPositions::default();
        let both = bookmark(&[at(1, 7), at(2, 3)]);
        // Which of the two is this database's cannot be told: both were sent.
        assert_eq!(newest.saw("neo4j", both.clone(), &text(&[at(1, 8), at(2, 3)])), None);
        let to = |sent: &Bookmark| newest.saw("neo4j", sent.clone(), &text(&[at(1, 8), at(2, 3)]));
        assert_eq!(to(&system).map(|range| range.to()), Some(at(1, 8)));
        assert_eq!(to(&both).map(|range| range.to()), Some(at(1, 8)), "now it is known");
        assert_eq!(to(&Bookmark::NONE), None, "neither was sent");
        // Another database has its name: its transactions are other ones, whatever their numbers.
        newest.saw("neo4j", Bookmark::NONE, &text(&[at(3, 1)])).unwrap();
        assert_eq!(newest.carried("neo4j", Instant::now(), &Bookmark::NONE), bookmark(&[at(3, 1)]));
    }
}
