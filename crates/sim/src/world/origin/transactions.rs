//! Transactions of the simulated origin: what a run carries, which version it sees, and which bookmark it brings. A version of
//! the data has the number of the transaction that wrote it.
//!
//! The rules are those that were measured on Neo4j 5.26: a run that carries a transaction sees it, and waits for it if it has
//! to; one that carries nothing may miss the newest. Every bookmark is the last transaction at the run's end.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::tags::TagId;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::Effects;
use hopcache_engine::ports::{OriginRun, RunBookmarks};

use crate::check::record::Life;
use crate::world::clock::sim_now;
use crate::world::write_statement::WriteStatement;

/// The database of an origin that was not replaced.
pub const DATABASE: DatabaseUuid = DatabaseUuid([0xDB; 16]);

/// The database of users and rights.
const SYSTEM: DatabaseUuid = DatabaseUuid([0x5E; 16]);

/// A write's node knows the labels of the write for certain after this time: it tells other nodes first.
const KNOWN_AFTER: Millis = Millis(3_000);

/// No parameters, as a PackStream map.
const NO_PARAMS: [u8; 1] = [0xa0];

/// The bookmark of a transaction.
#[must_use]
pub fn bookmark(id: u64) -> Bookmark {
    Bookmark::NONE.with(Some(at(id)))
}

fn at(id: u64) -> Position {
    Position { database: DATABASE, id: TransactionId(id) }
}

/// What the origin tells of transactions, and what each node has seen.
pub(super) struct Transactions {
    /// The database.
    pub(super) database: DatabaseUuid,
    /// Whether it tells any.
    pub(super) tells: bool,
    /// By how many transactions a run that carries nothing may be late.
    pub(super) lag: i64,
    /// Whether ids are counted as Neo4j does it: a new label, type or key takes one of its own, `system` has ids of its own,
    /// and a write's bookmark may be of a later transaction.
    pub(super) is_exact: bool,
    /// How often it was restored.
    pub(super) restored: u32,
    /// How often it was started anew.
    pub(super) started: u64,
    /// The newest transaction of `system`.
    pub(super) system: u64,
    newest: BTreeMap<Life, u64>,
    /// The database of which it does not answer questions.
    pub(super) silent_about: Option<String>,
    /// Labels, types and keys that are there.
    tokens: BTreeSet<TagId>,
    /// When each node first used one in a write that was committed.
    used: BTreeMap<(Life, TagId), MonoTime>,
}

/// The ids that one write takes.
pub(super) struct Taken {
    pub(super) ids: i64,
    /// Whether its node allows for more.
    pub(super) is_spare: bool,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            database: DATABASE,
            tells: false,
            lag: 0,
            is_exact: false,
            restored: 0,
            started: 0,
            system: 0,
            newest: BTreeMap::new(),
            silent_about: None,
            tokens: BTreeSet::new(),
            used: BTreeMap::new(),
        }
    }
}

impl Transactions {
    /// A transaction of the database.
    pub(super) fn at(&self, id: u64) -> Position {
        Position { database: self.database, id: TransactionId(id) }
    }

    /// What a run of a node carries.
    ///
    /// `version` is the newest transaction of the origin.
    pub(super) fn carried(&self, by: Life, run: &OriginRun, version: u64) -> Bookmark {
        match &run.bookmarks {
            RunBookmarks::AsSent(texts) => Bookmark::parse_all(texts).unwrap_or_default(),
            // A run that has to carry a mark which its node has not seen asks first, and carries what the origin has.
            RunBookmarks::After { client, written } => {
                let newest = self.newest.get(&by).copied();
                let needs = written.map(|written| written.position().map_or(u64::MAX, |needed| needed.id.0));
                let asked =
                    needs.filter(|needs| newest.is_none_or(|newest| newest < *needs)).map(|_| version);
                client.clone().with(newest.max(asked).map(|id| self.at(id)))
            }
        }
    }

    /// The version that a run sees; nothing where it waits for a transaction that has not come.
    pub(super) fn visible(&self, version: i64, carried: &Bookmark) -> Option<i64> {
        let id = carried.in_database(self.database).map_or(0, |position| position.id.0);
        let asked = i64::try_from(id).unwrap_or(i64::MAX);
        (asked <= version).then_some(asked.max(version - self.lag))
    }

    /// It was restored: labels that were new are new again.
    pub(super) fn restored(&mut self) {
        self.restored += 1;
        self.started();
        self.tokens.clear();
        self.used.clear();
    }

    /// It was stopped and started: all nodes' connections have ended.
    pub(super) fn started(&mut self) {
        self.started += 1;
        self.newest.clear();
    }

    /// The newest transaction of a database, by its name, where it is not the graph's.
    pub(super) fn newest_of_system(&self, database: &str) -> Option<Position> {
        let is_system = self.is_exact && database == "system";
        is_system.then_some(Position { database: SYSTEM, id: TransactionId(self.system) })
    }

    /// A node's write is committed.
    pub(super) fn take(&mut self, by: Life, write: WriteStatement) -> Taken {
        if !self.is_exact {
            return Taken { ids: 1, is_spare: false };
        }
        let now = sim_now();
        let (mut ids, mut allowed) = (1, 1);
        for token in Effects::of(write.text, &NO_PARAMS).tokens().iter().flat_map(|tokens| tokens.iter()) {
            ids += i64::from(self.tokens.insert(*token));
            let used = *self.used.entry((by, *token)).or_insert(now);
            allowed += i64::from(now < used + KNOWN_AFTER);
        }
        Taken { ids, is_spare: allowed > ids }
    }

    /// A node has heard of the newest version: by a result, or by the word on a statement.
    pub(super) fn saw(&mut self, by: Life, version: i64) {
        if self.tells {
            let newest = self.newest.entry(by).or_default();
            *newest = (*newest).max(u64::try_from(version).unwrap_or(0));
        }
    }

    /// The bookmark and the range of a run that ends while this is the newest version.
    pub(super) fn end(&self, version: i64, carried: Bookmark) -> (Option<String>, Option<ReadRange>) {
        if !self.tells {
            return (None, None);
        }
        let to = self.at(u64::try_from(version).unwrap_or(0));
        (carried.clone().with(Some(to)).encode(), ReadRange::new(carried, to))
    }
}
