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
//!   The members of a cluster are servers of their own, and one that was not restored may be behind. So there a run carries the
//!   newest id on every connection, and a leader that answers with a lower one is not believed for a while
//!   (`CLUSTER_BEHIND_MS_MAX`).
//! - What clients send is not learned: only what Neo4j answers is. What other nodes have written is a demand: a run must
//!   carry it. If nothing that may be carried is as late, Neo4j is asked first, on the same connection (`asked`).

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::time::Duration;

use hopcache_bolt::WholeResult;
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange};
use hopcache_core::limits::{CLUSTER_BEHIND_MS_MAX, DATABASE_NAME_BYTES_MAX, DATABASES_MAX};
use hopcache_engine::ports::{OriginFault, OriginRun, RunBookmarks};
use hopcache_packstream::Value;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

/// What this node has seen, by the database's name in lower case; the least recently used are forgotten first.
pub struct NewestPositions {
    known: Mutex<LruCache<String, Sighting>>,
    is_of_cluster: bool,
}

/// A leader of a cluster has not applied yet what was seen before. Whoever asked it asks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Behind;

#[derive(Debug, Clone, Copy)]
struct Sighting {
    position: Position,
    at: Instant,
    /// Since when a leader has answered with an earlier one.
    behind_since: Option<Instant>,
}

impl Default for NewestPositions {
    fn default() -> Self {
        let places = NonZeroUsize::new(DATABASES_MAX).unwrap_or(NonZeroUsize::MIN);
        Self { known: Mutex::new(LruCache::new(places)), is_of_cluster: false }
    }
}

impl NewestPositions {
    /// Those of a cluster's databases.
    #[must_use]
    pub fn of_cluster() -> Self {
        Self { is_of_cluster: true, ..Self::default() }
    }

    /// Whether Neo4j has to be asked for its newest transaction, on a connection that was opened then, before this run: it
    /// has to carry a mark, and nothing that it may carry is as late.
    pub(super) fn must_ask(&self, run: &OriginRun, opened: Instant) -> bool {
        let RunBookmarks::After { client, written: Some(written) } = &run.bookmarks else { return false };
        let Some(needed) = written.position() else { return true };
        if self.is_of_cluster {
            // It is carried. What a read has to carry is asked for before (`routed.rs`).
            return false;
        }
        let carried = self.carried(&run.database, opened, client);
        carried.in_database(needed.database).is_none_or(|own| own.id < needed.id)
    }

    /// Takes note of Neo4j's answer to a question that was sent at `begun`, without bookmarks. A cluster's leader may be [`Behind`].
    pub(super) fn asked(
        &self,
        database: &str,
        returned: &str,
        begun: Instant,
    ) -> Result<Option<Position>, Behind> {
        let Some(returned) = Bookmark::parse(returned) else { return Ok(None) };
        let name = name_of(database);
        let mut known = self.known.lock();
        let before = known.get(&*name).copied();
        let own = own_position(&Bookmark::NONE, &returned, before.map(|sighting| sighting.position));
        let Some(own) = own else { return Ok(None) };
        if self.is_of_cluster && is_behind(&mut known, &name, own, begun) {
            return Err(Behind);
        }
        note(&mut known, name, own, begun);
        Ok(Some(own))
    }

    /// What a run carries on a connection that was opened then, and how that is written for Neo4j.
    pub(super) fn carried_by(&self, run: &OriginRun, opened: Instant) -> (Bookmark, Vec<String>) {
        match &run.bookmarks {
            RunBookmarks::AsSent(texts) => (Bookmark::parse_all(texts).unwrap_or_default(), texts.clone()),
            RunBookmarks::After { client, written } => {
                let mut carried = self.carried(&run.database, opened, client);
                if self.is_of_cluster {
                    carried = carried.with(written.and_then(|written| written.position()));
                    carried = carried.with(self.system());
                }
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
        finished: &WholeResult,
        begun: Instant,
    ) -> Option<ReadRange> {
        let chosen = || finished.summary.get("db").and_then(Value::as_str).unwrap_or_default();
        let database = if run.database.is_empty() { chosen() } else { &run.database };
        self.saw(database, carried, finished.bookmark.as_deref()?, begun)
    }

    /// Takes note of a run that failed. Where it may have waited for what it carried, that is forgotten: perhaps Neo4j does
    /// not reach it any more.
    pub(super) fn failed(&self, run: &OriginRun, carried: &Bookmark, fault: &OriginFault) {
        let may_have_waited = *fault == OriginFault::TimedOut || fault.is_bookmark_timeout();
        if !carried.is_empty() && may_have_waited {
            self.known.lock().pop(&*name_of(&run.database));
        }
    }

    /// The database of this name, as it was seen last.
    pub(super) fn database(&self, name: &str) -> Option<DatabaseUuid> {
        self.known.lock().get(&*name_of(name)).map(|sighting| sighting.position.database)
    }

    /// The newest transaction of `system`, while it is so young that a member may not have applied it: whoever has lost a right has
    /// lost it at each member where a run carries this. One that Neo4j does not reach after a restore is carried no longer either.
    fn system(&self) -> Option<Position> {
        let known = self.known.lock().get("system").copied();
        let is_young =
            |sighting: &Sighting| sighting.at.elapsed() < Duration::from_millis(CLUSTER_BEHIND_MS_MAX);
        known.filter(is_young).map(|sighting| sighting.position)
    }

    /// The client's bookmarks, and the newest position.
    fn carried(&self, database: &str, opened: Instant, client: &Bookmark) -> Bookmark {
        let known = self.known.lock().get(&*name_of(database)).copied();
        let known = known.filter(|sighting| self.is_of_cluster || opened <= sighting.at);
        client.clone().with(known.map(|sighting| sighting.position))
    }

    /// Takes note of what Neo4j returned now for a run that was sent at `begun` and carried `sent`. Gives the range of the run, where the bookmark is
    /// understood and shows which of its positions is the database's own.
    pub(crate) fn saw(
        &self,
        database: &str,
        sent: Bookmark,
        returned: &str,
        begun: Instant,
    ) -> Option<ReadRange> {
        let returned = Bookmark::parse(returned)?;
        let name = name_of(database);
        let mut known = self.known.lock();
        let before = known.get(&*name).copied();
        let own = own_position(&sent, &returned, before.map(|sighting| sighting.position))?;
        if self.is_of_cluster && is_behind(&mut known, &name, own, begun) {
            // A member that has not applied all yet: it is right of its own read, and says nothing of the database.
            return ReadRange::new(sent, own);
        }
        let Some(range) = ReadRange::new(sent, own) else {
            known.pop(&*name);
            return None;
        };
        note(&mut known, name, own, begun);
        Some(range)
    }
}

/// Whether a leader is behind what was seen before it was asked, and not for long enough to have been restored.
fn is_behind(known: &mut LruCache<String, Sighting>, name: &str, own: Position, begun: Instant) -> bool {
    let Some(before) = known.get_mut(name) else { return false };
    let is_lower = before.position.database == own.database && own.id < before.position.id;
    if !is_lower || before.at >= begun {
        return false;
    }
    let since = *before.behind_since.get_or_insert_with(Instant::now);
    since.elapsed() < Duration::from_millis(CLUSTER_BEHIND_MS_MAX)
}

/// Keeps the later of two positions. A position that was seen before the run was sent, and is later than the run's own, shows that
/// ids have gone back: then the run's own replaces it.
fn note(known: &mut LruCache<String, Sighting>, name: Cow<'_, str>, own: Position, begun: Instant) {
    // Neo4j carries out administration in `system`, whatever database its client has named.
    let name = if own.database == DatabaseUuid::SYSTEM { Cow::Borrowed("system") } else { name };
    if name.is_empty() || name.len() > DATABASE_NAME_BYTES_MAX {
        return;
    }
    let at = Instant::now();
    let Some(before) = known.get_mut(&*name) else {
        known.put(name.into_owned(), Sighting { position: own, at, behind_since: None });
        return;
    };
    let overlaps = before.position.database == own.database && before.at >= begun;
    let id = if overlaps { before.position.id.max(own.id) } else { own.id };
    *before = Sighting { position: Position { id, ..own }, at, behind_since: None };
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
fn name_of(database: &str) -> Cow<'_, str> {
    if database.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(database.to_ascii_lowercase())
    } else {
        Cow::Borrowed(database)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use hopcache_core::bookmark::{DatabaseUuid, TransactionId};
    use hopcache_core::key::PrincipalScope;
    use hopcache_core::time::Millis;
    use hopcache_core::turns::RunClass;
    use hopcache_core::write_position::{WriteEpoch, WritePosition};
    use hopcache_engine::fetch_times::FetchTimes;
    use hopcache_engine::identity::{Credentials, Identity};
    use hopcache_engine::ports::AccessMode;

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

    /// A run that is sent now.
    fn saw(newest: &NewestPositions, database: &str, sent: Bookmark, returned: &str) -> Option<ReadRange> {
        newest.saw(database, sent, returned, Instant::now())
    }

    /// A run that has to carry this mark.
    fn run_after(written: Option<WritePosition>) -> OriginRun {
        OriginRun {
            identity: Arc::new(Identity {
                scope: PrincipalScope([0; 32]),
                fingerprint: [0; 32],
                credentials: Credentials::None,
            }),
            impersonated: None,
            database: "neo4j".into(),
            statement: "RETURN 1".into(),
            pattern: None,
            params: Bytes::from_static(&[0xA0]),
            mode: AccessMode::Read,
            may_be_repeated: true,
            bookmarks: RunBookmarks::After { client: Bookmark::NONE, written },
            timeout_ms: Millis(1_000),
            bytes_max: 1_000,
            traceparent: None,
            class: RunClass::Miss,
            metadata: None,
            live: None,
            times: FetchTimes::default(),
        }
    }

    fn mark(id: u64) -> Option<WritePosition> {
        Some(WritePosition::at(WriteEpoch(0), at(1, id)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_carries_the_newest_of_its_database_and_the_clients() {
        let newest = NewestPositions::default();
        let opened = Instant::now();
        assert_eq!(newest.carried("neo4j", opened, &Bookmark::NONE), Bookmark::NONE);
        let range = saw(&newest, "neo4j", Bookmark::NONE, &text(&[at(1, 7)])).unwrap();
        assert_eq!((range.from(), range.to()), (&Bookmark::NONE, at(1, 7)));
        saw(&newest, "Neo4j", Bookmark::NONE, &text(&[at(1, 5)])).unwrap();
        assert_eq!(newest.carried("neo4j", opened, &Bookmark::NONE), bookmark(&[at(1, 7)]));
        let client = bookmark(&[at(1, 9), at(2, 3)]);
        assert_eq!(newest.carried("NEO4J", opened, &client), client);
        assert_eq!(newest.carried("other", opened, &Bookmark::NONE), Bookmark::NONE);
        assert_eq!(saw(&newest, "neo4j", Bookmark::NONE, "FB:embedded:0"), None);
    }

    /// F30: a database that is restored has lower ids. A connection of after the restart carries none of before it.
    #[tokio::test(start_paused = true)]
    async fn a_new_connection_carries_nothing_that_was_seen_before_it() {
        let newest = NewestPositions::default();
        saw(&newest, "neo4j", Bookmark::NONE, &text(&[at(1, 90)]));
        tokio::time::advance(Duration::from_millis(1)).await;
        let opened = Instant::now();
        assert_eq!(newest.carried("neo4j", opened, &Bookmark::NONE), Bookmark::NONE);
        // A run that carried what the database does not reach any more: all is forgotten.
        assert_eq!(saw(&newest, "neo4j", bookmark(&[at(1, 90)]), &text(&[at(1, 41)])), None);
        saw(&newest, "neo4j", Bookmark::NONE, &text(&[at(1, 41)])).unwrap();
        assert_eq!(newest.carried("neo4j", opened, &Bookmark::NONE), bookmark(&[at(1, 41)]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_own_position_is_told_from_those_of_other_databases() {
        let system = bookmark(&[at(2, 3)]);
        let newest = NewestPositions::default();
        let both = bookmark(&[at(1, 7), at(2, 3)]);
        // Which of the two is this database's cannot be told: both were sent.
        assert_eq!(saw(&newest, "neo4j", both.clone(), &text(&[at(1, 8), at(2, 3)])), None);
        let to = |sent: &Bookmark| saw(&newest, "neo4j", sent.clone(), &text(&[at(1, 8), at(2, 3)]));
        assert_eq!(to(&system).map(|range| range.to()), Some(at(1, 8)));
        assert_eq!(to(&both).map(|range| range.to()), Some(at(1, 8)), "now it is known");
        assert_eq!(to(&Bookmark::NONE), None, "neither was sent");
        // Another database has its name: its transactions are other ones, whatever their numbers.
        saw(&newest, "neo4j", Bookmark::NONE, &text(&[at(3, 1)])).unwrap();
        assert_eq!(newest.carried("neo4j", Instant::now(), &Bookmark::NONE), bookmark(&[at(3, 1)]));
    }

    /// A mark that another node has told is carried only when this node has seen it, or a later one, on a connection that
    /// was open then. Otherwise Neo4j is asked first.
    #[tokio::test(start_paused = true)]
    async fn a_mark_is_carried_or_asked_about() {
        let newest = NewestPositions::default();
        let opened = Instant::now();
        assert!(!newest.must_ask(&run_after(None), opened));
        assert!(newest.must_ask(&run_after(mark(7)), opened), "nothing is known");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(newest.asked("neo4j", &text(&[at(1, 8)]), Instant::now()), Ok(Some(at(1, 8))));
        assert!(!newest.must_ask(&run_after(mark(8)), opened));
        assert_eq!(newest.carried_by(&run_after(mark(7)), opened).0, bookmark(&[at(1, 8)]));
        assert!(newest.must_ask(&run_after(mark(9)), opened), "another node has written since");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(newest.must_ask(&run_after(mark(7)), Instant::now()), "a connection that was opened later");
        let unsettled = WritePosition::read(&mut [&[1; 16][..], &[0; 8], &[255; 8]].concat().as_slice());
        assert!(newest.must_ask(&run_after(unsettled), opened));
    }

    /// F30: what was seen before a question was sent, and is later than the answer, is of before a restore.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_lower_than_what_was_known_replaces_it() {
        let newest = NewestPositions::default();
        saw(&newest, "neo4j", Bookmark::NONE, &text(&[at(1, 90)])).unwrap();
        tokio::time::advance(Duration::from_millis(1)).await;
        let opened = Instant::now();
        assert_eq!(newest.asked("neo4j", &text(&[at(1, 41)]), Instant::now()), Ok(Some(at(1, 41))));
        assert_eq!(newest.carried("neo4j", opened, &Bookmark::NONE), bookmark(&[at(1, 41)]));
        // A run that began before another one's end may end after it, and lower.
        let begun = Instant::now();
        tokio::time::advance(Duration::from_millis(1)).await;
        saw(&newest, "neo4j", Bookmark::NONE, &text(&[at(1, 45)])).unwrap();
        newest.saw("neo4j", Bookmark::NONE, &text(&[at(1, 43)]), begun).unwrap();
        assert_eq!(newest.carried("neo4j", opened, &Bookmark::NONE), bookmark(&[at(1, 45)]));
    }

    /// A new leader that lags, then a database that was restored: the ids are those of another time for good.
    #[tokio::test(start_paused = true)]
    async fn a_cluster_is_carried_everywhere_and_a_leader_that_is_behind_is_not_believed() {
        let newest = NewestPositions::of_cluster();
        saw(&newest, "neo4j", Bookmark::NONE, &text(&[at(1, 90)])).unwrap();
        tokio::time::advance(Duration::from_millis(1)).await;
        let opened = Instant::now();
        assert_eq!(newest.carried("neo4j", opened, &Bookmark::NONE), bookmark(&[at(1, 90)]));
        assert!(!newest.must_ask(&run_after(mark(95)), opened), "another node's write is carried");
        assert_eq!(newest.carried_by(&run_after(mark(95)), opened).0, bookmark(&[at(1, 95)]));
        let ask = |id| newest.asked("neo4j", &text(&[at(1, id)]), Instant::now());
        assert_eq!(ask(88), Err(Behind));
        tokio::time::advance(Duration::from_millis(CLUSTER_BEHIND_MS_MAX - 1)).await;
        assert_eq!(ask(90), Ok(Some(at(1, 90))), "it has caught up");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(ask(41), Err(Behind));
        tokio::time::advance(Duration::from_millis(CLUSTER_BEHIND_MS_MAX)).await;
        assert_eq!(ask(42), Ok(Some(at(1, 42))));
        assert_eq!(newest.carried("neo4j", opened, &Bookmark::NONE), bookmark(&[at(1, 42)]));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(newest.asked("neo4j", &text(&[at(3, 1)]), Instant::now()), Ok(Some(at(3, 1))));
    }

    /// The end of a read at a lagging member, which carried nothing, is no news of the database.
    #[tokio::test(start_paused = true)]
    async fn a_run_that_ends_behind_lowers_nothing_in_a_cluster() {
        let newest = NewestPositions::of_cluster();
        saw(&newest, "neo4j", Bookmark::NONE, &text(&[at(1, 90)])).unwrap();
        tokio::time::advance(Duration::from_millis(1)).await;
        let range = saw(&newest, "neo4j", Bookmark::NONE, &text(&[at(1, 88)])).unwrap();
        assert_eq!(range.to(), at(1, 88));
        assert_eq!(newest.carried("neo4j", Instant::now(), &Bookmark::NONE), bookmark(&[at(1, 90)]));
    }

    /// Who has lost a right has lost it at a member that lags, too. A restored `system` is waited for no longer than that.
    #[tokio::test(start_paused = true)]
    async fn a_run_carries_the_newest_of_system_in_a_cluster() {
        let system = Position { database: DatabaseUuid::SYSTEM, id: TransactionId(7) };
        let (cluster, server) = (NewestPositions::of_cluster(), NewestPositions::default());
        let opened = Instant::now();
        for newest in [&cluster, &server] {
            // A command for users, which a client has sent to another database.
            saw(newest, "neo4j", Bookmark::NONE, &text(&[system]));
        }
        let carried = |newest: &NewestPositions| newest.carried_by(&run_after(None), opened).0;
        assert_eq!((carried(&cluster), carried(&server)), (bookmark(&[system]), Bookmark::NONE));
        tokio::time::advance(Duration::from_millis(CLUSTER_BEHIND_MS_MAX)).await;
        assert_eq!(carried(&cluster), Bookmark::NONE);
    }
}
