//! The databases that this node has run something in: with whose credentials each is asked, and what this node knows as its watcher.

use std::collections::BTreeMap;
use std::sync::Arc;

use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::WRITTEN_DATABASES_MAX;
use hopcache_core::proof::PollNumber;
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;

use crate::model::ports::WriteOf;
use crate::writes::watch::Account;

/// What this node watches, or could watch.
#[derive(Default)]
pub(super) struct Watchers {
    databases: Mutex<BTreeMap<DatabaseTag, WatchedDatabase>>,
}

/// A database that this node has run something in.
struct WatchedDatabase {
    /// With whose credentials it asks.
    of: WriteOf,
    /// This node's account, and when Neo4j was asked of it.
    account: Option<(Account, MonoTime)>,
    /// The report of long ago that this node would have to go on from, and since when nobody has made a later one.
    long_ago: Option<(PollNumber, MonoTime)>,
    /// When the server last did not say where its captured changes are.
    uncaptured: Option<MonoTime>,
}

impl Watchers {
    /// A run or a write of this database has ended well: its credentials are good.
    pub(super) fn may_ask_as(&self, name: DatabaseTag, of: &WriteOf) {
        let mut databases = self.databases.lock();
        let has_room = databases.len() < WRITTEN_DATABASES_MAX;
        match databases.get_mut(&name) {
            Some(watched) if Arc::ptr_eq(&watched.of.identity, &of.identity) => {}
            Some(watched) => watched.of = asker_like(of),
            None if has_room => {
                let of = asker_like(of);
                databases
                    .insert(name, WatchedDatabase { of, account: None, long_ago: None, uncaptured: None });
            }
            None => {}
        }
    }

    /// These credentials are refused: to ask with them again could lock their user out. Or the database is gone.
    pub(super) fn forget(&self, name: DatabaseTag, of: &WriteOf) {
        let mut databases = self.databases.lock();
        if databases.get(&name).is_some_and(|watched| Arc::ptr_eq(&watched.of.identity, &of.identity)) {
            databases.remove(&name);
        }
    }

    /// The databases that this node has run something in, each with whom it asks as.
    pub(super) fn all(&self) -> Vec<(DatabaseTag, WriteOf)> {
        self.databases.lock().iter().map(|(name, watched)| (*name, watched.of.clone())).collect()
    }

    /// With whose credentials a database is asked, if this node has run something in it.
    pub(super) fn asker(&self, name: DatabaseTag) -> Option<WriteOf> {
        self.databases.lock().get(&name).map(|watched| watched.of.clone())
    }

    pub(super) fn account(&self, name: DatabaseTag) -> Option<Account> {
        self.dated_account(name).map(|(account, _)| account)
    }

    pub(super) fn dated_account(&self, name: DatabaseTag) -> Option<(Account, MonoTime)> {
        self.databases.lock().get(&name).and_then(|watched| watched.account.clone())
    }

    pub(super) fn keep(&self, name: DatabaseTag, account: Option<(Account, MonoTime)>) {
        if let Some(watched) = self.databases.lock().get_mut(&name) {
            watched.account = account;
            watched.long_ago = None;
        }
    }

    pub(super) fn uncaptured(&self, name: DatabaseTag) -> Option<MonoTime> {
        self.databases.lock().get(&name).and_then(|watched| watched.uncaptured)
    }

    pub(super) fn note_uncaptured(&self, name: DatabaseTag, at: Option<MonoTime>) {
        if let Some(watched) = self.databases.lock().get_mut(&name) {
            watched.uncaptured = at;
        }
    }

    /// For how long this report of long ago has been the last one, as far as this node was asked.
    pub(super) fn long_ago_for(&self, name: DatabaseTag, polled: PollNumber, now: MonoTime) -> Millis {
        let mut databases = self.databases.lock();
        let Some(watched) = databases.get_mut(&name) else { return Millis::ZERO };
        let of_it = watched.long_ago.filter(|(of, _)| *of == polled);
        let (_, since) = *watched.long_ago.insert(of_it.unwrap_or((polled, now)));
        now.since(since)
    }
}

/// A question with the credentials of this write. What it writes, and when it began, says nothing of the writes that are asked about, or told.
fn asker_like(of: &WriteOf) -> WriteOf {
    let WriteOf { database, identity, impersonated, timeout_ms, .. } = of;
    WriteOf::question(Arc::clone(database), Arc::clone(identity), impersonated.clone(), *timeout_ms)
}
