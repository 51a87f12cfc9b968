//! What this node has written into each database, for the watcher: it asks all nodes (`watch`).
//!
//! A write counts as under way from before it is sent until every node in touch, and the store, has been told of it. So a
//! report never accounts for an id whose write some node has not heard of.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{TOKENS_KNOWN_MAX, WRITTEN_DATABASES_MAX};
use hopcache_core::node::Incarnation;
use hopcache_core::proof::{IdRange, OwnWrites, Tally};
use hopcache_core::tags::TagId;
use hopcache_core::write_position::WritePosition;
use parking_lot::Mutex;

/// The tallies of this node.
#[derive(Default)]
pub(super) struct OwnTallies(Mutex<AllTallies>);

#[derive(Default)]
struct AllTallies {
    /// Writes that this node has begun.
    begun: u64,
    databases: BTreeMap<DatabaseTag, OwnTally>,
}

/// The writes by one name of a database.
#[derive(Default)]
struct OwnTally {
    writes: OwnWrites,
    /// Labels, types and keys that a write has used: they are not new any more.
    known: HashSet<TagId>,
}

/// How many ids a write may take.
#[derive(Debug, Clone)]
pub(super) enum IdsTaken {
    /// Nobody knows.
    Unknown,
    /// One, and one for each of these names that is new; or none at all.
    AtMost(Arc<[TagId]>),
    /// Exactly one, by a marker, if none of these names is new.
    One(Arc<[TagId]>),
}

/// A write in its database's tally. Dropped without an end, it counts for nothing: the ids that it took look foreign.
pub(super) struct TalliedWrite {
    tallies: Arc<OwnTallies>,
    name: DatabaseTag,
    taken: IdsTaken,
    /// `None` when it has ended, or if there was no room for its database.
    number: Option<u64>,
}

/// A write under way that may turn out to read only, for whoever asks Neo4j.
pub(super) struct SuspectedRead {
    tallies: Arc<OwnTallies>,
    name: DatabaseTag,
    number: Option<u64>,
}

impl OwnTallies {
    /// The tally of a database in this life, for the account by one of its names. `names`: all that lead to it, as far as this node knows.
    pub(super) fn of(
        &self,
        life: Incarnation,
        (name, names): (DatabaseTag, &[DatabaseTag]),
        range: &IdRange,
    ) -> Tally {
        let all = self.0.lock();
        let of = |name: &DatabaseTag| all.databases.get(name).map(|own| &own.writes);
        let others = names.iter().filter(|other| **other != name).filter_map(of);
        Tally::of((life, all.begun), of(&name), others, range)
    }

    /// Whether a write by another name is under way, or may be: it may write in this database too, by an alias or by `USE`. It counts also where
    /// this node's Neo4j has said that the name leads to another database: an alias may have been given to this one since. Schedule:
    ///   the alias leads to B · Neo4j gives it to A, and no look has shown that yet · W, by the alias, takes 41 of A, and is not over · a
    ///   `SET` to the same value by A's name ends with bookmark 41 · without W all up to 41 would be settled, and a read with this
    ///   bookmark would get what W has changed.
    /// The name `system` is no better where it is the home database of a client that names none: its home may be another one since.
    pub(super) fn is_open_beside(&self, name: DatabaseTag) -> bool {
        let AllTallies { databases, .. } = &*self.0.lock();
        let mut others = databases.iter().filter(|(other, _)| **other != name);
        databases.len() >= WRITTEN_DATABASES_MAX || others.any(|(_, own)| own.writes.is_open())
    }

    /// A write goes to the origin.
    pub(super) fn begin(self: &Arc<Self>, name: DatabaseTag, taken: IdsTaken) -> TalliedWrite {
        let mut all = self.0.lock();
        let has_room = all.databases.len() < WRITTEN_DATABASES_MAX || all.databases.contains_key(&name);
        let number = has_room.then(|| {
            all.begun += 1;
            let number = all.begun;
            let own = all.databases.entry(name).or_default();
            let ids_max = own.ids_max(&taken);
            own.writes.begin(number, ids_max);
            number
        });
        drop(all);
        TalliedWrite { tallies: Arc::clone(self), name, taken, number }
    }

    /// The ids of a database are counted anew: what was known of it is of another content.
    pub(super) fn forget_known(&self, name: DatabaseTag) {
        if let Some(own) = self.0.lock().databases.get_mut(&name) {
            own.known.clear();
        }
    }
}

impl OwnTally {
    fn ids_max(&self, taken: &IdsTaken) -> Option<u64> {
        let is_known = |token: &TagId| self.known.contains(token);
        match taken {
            IdsTaken::Unknown => None,
            IdsTaken::AtMost(_) if self.known.len() >= TOKENS_KNOWN_MAX => Some(1),
            IdsTaken::AtMost(tokens) => {
                Some(1 + tokens.iter().filter(|token| !is_known(token)).count() as u64)
            }
            // A first marker takes ids for its names: these look foreign.
            IdsTaken::One(tokens) => tokens.iter().all(is_known).then_some(1),
        }
    }
}

impl TalliedWrite {
    /// Its number among this life's writes, if it takes no more than one id: no name that it uses is new. Where
    /// no more names are remembered, each may be.
    pub(super) fn number_if_one(&self) -> Option<u64> {
        let number = self.number?;
        let all = self.tallies.0.lock();
        let own = all.databases.get(&self.name)?;
        let is_one = own.writes.ids_max_of(number) == Some(1) && own.known.len() < TOKENS_KNOWN_MAX;
        is_one.then_some(number)
    }

    /// The same write, for whoever asks Neo4j whether it writes at all.
    pub(super) fn suspected_read(&self) -> SuspectedRead {
        SuspectedRead { tallies: Arc::clone(&self.tallies), name: self.name, number: self.number }
    }

    /// It has been committed, with this bookmark.
    ///
    /// `None`: the store could not be told, so its ids have to look foreign: then the watcher tells its mark. Schedule:
    ///   node 1 is cut off from the store and from node 0 · a write through node 1 is answered after a lease · the nodes see
    ///   each other again · node 0 watches, and node 1's tally accounts for the id · node 0 has never heard of the mark.
    pub(super) fn committed(mut self, written: Option<WritePosition>) {
        self.end(written);
    }

    /// It was rolled back, refused, has changed nothing, or nobody knows. If it has taken ids all the same, they look foreign.
    /// The other way round it would hide foreign ones.
    pub(super) fn uncounted(mut self) {
        self.end(None);
    }

    /// What it uses counts as known from now on, also if it has not used it: then its first use looks foreign.
    fn end(&mut self, written: Option<WritePosition>) {
        let Some(number) = self.number.take() else { return };
        let mut all = self.tallies.0.lock();
        let Some(own) = all.databases.get_mut(&self.name) else { return };
        own.writes.end(number, written);
        let (IdsTaken::AtMost(tokens) | IdsTaken::One(tokens)) = &self.taken else { return };
        let left = TOKENS_KNOWN_MAX.saturating_sub(own.known.len());
        own.known.extend(tokens.iter().copied().take(left));
    }
}

impl SuspectedRead {
    /// Neo4j says that it only reads: it takes no id, however long it is under way. Schedule:
    ///   a procedure that reads is under way for ten minutes, in write access · a foreign transaction takes 41 · without this the watcher would
    ///   not know for ten minutes whether 41 is the procedure's, and would report nothing.
    pub(super) fn reads_only(&self) {
        let Some(number) = self.number else { return };
        if let Some(own) = self.tallies.0.lock().databases.get_mut(&self.name) {
            // If it should end as a write all the same, its ids look foreign.
            own.writes.end(number, None);
        }
    }
}

impl Drop for TalliedWrite {
    fn drop(&mut self) {
        self.end(None);
    }
}
