//! Transactions of the simulated origin: what a run carries, which version it sees, and which bookmark it brings. A version of
//! the data has the number of the transaction that wrote it.
//!
//! The rules are those that were measured on Neo4j 5.26: a run that carries a transaction sees it, and waits for it if it has
//! to; one that carries nothing may miss the newest. Every bookmark is the last transaction at the run's end.

use std::collections::BTreeMap;

use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_engine::ports::{OriginRun, RunBookmarks};

use crate::record::Life;

/// The only database that has transactions.
pub const DATABASE: DatabaseUuid = DatabaseUuid([0xDB; 16]);

/// The bookmark of a transaction.
#[must_use]
pub fn bookmark(id: u64) -> Bookmark {
    Bookmark::NONE.with(Some(at(id)))
}

pub(super) fn at(id: u64) -> Position {
    Position { database: DATABASE, id: TransactionId(id) }
}

/// What the origin tells of transactions, and what each node has seen.
#[derive(Default)]
pub(super) struct Transactions {
    /// Whether it tells any.
    pub(super) tells: bool,
    /// By how many transactions a run that carries nothing may be late.
    pub(super) lag: i64,
    newest: BTreeMap<Life, u64>,
}

impl Transactions {
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
                client.clone().with(newest.max(asked).map(at))
            }
        }
    }

    /// The version that a run sees; nothing where it waits for a transaction that has not come.
    pub(super) fn visible(&self, version: i64, carried: &Bookmark) -> Option<i64> {
        let id = carried.in_database(DATABASE).map_or(0, |position| position.id.0);
        let asked = i64::try_from(id).unwrap_or(i64::MAX);
        (asked <= version).then_some(asked.max(version - self.lag))
    }

    /// All nodes' connections have ended.
    pub(super) fn forget(&mut self) {
        self.newest.clear();
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
        let to = at(u64::try_from(version).unwrap_or(0));
        (carried.clone().with(Some(to)).encode(), ReadRange::new(carried, to))
    }
}
