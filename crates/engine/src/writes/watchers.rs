//! The databases that this node has run something in: with whose credentials each is asked, and what this node knows as its watcher.

use std::collections::BTreeMap;
use std::sync::Arc;

use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::WRITTEN_DATABASES_MAX;
use hopcache_core::proof::PollNumber;
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;

use crate::model::ports::{OriginFault, WriteOf};
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
    /// Whether Neo4j has told these credentials all that a watcher asks, as its last answer or refusal says.
    is_told_all: bool,
    /// This node's account, and when Neo4j was asked of it.
    account: Option<(Account, MonoTime)>,
    /// The report of long ago that this node would have to go on from, and since when nobody has made a later one.
    long_ago: Option<(PollNumber, MonoTime)>,
    /// Since when its looks have been uncertain.
    uncertain_since: Option<MonoTime>,
    /// When the server last did not say where its captured changes are.
    uncaptured: Option<MonoTime>,
}

impl Watchers {
    /// A run or a write of this database has ended well: its credentials are good. They take the place of others, but not of those that are
    /// told all: to some users Neo4j does not tell the run of the server, and another run ends all proofs. Schedule:
    ///   alice reads, and the watcher asks as alice: run 1 · bob reads, and the watcher asks as bob: no run, a new account · alice reads.
    pub(super) fn may_ask_as(&self, name: DatabaseTag, of: &WriteOf) {
        let mut databases = self.databases.lock();
        let has_room = databases.len() < WRITTEN_DATABASES_MAX;
        match databases.get_mut(&name) {
            Some(watched) if watched.is_told_all || is_same(&watched.of, of) => {}
            Some(watched) => watched.of = asker_like(of),
            None if has_room => {
                databases.insert(name, WatchedDatabase::asked_as(asker_like(of)));
            }
            None => {}
        }
    }

    /// Whether Neo4j has told these credentials all that a watcher asks.
    pub(super) fn note_told(&self, name: DatabaseTag, of: &WriteOf, is_all: bool) {
        let mut databases = self.databases.lock();
        let watched = databases.get_mut(&name).filter(|watched| is_same(&watched.of, of));
        if let Some(watched) = watched {
            watched.is_told_all = is_all;
        }
    }

    /// A question with these credentials has failed. Only a refusal says something of them: what a server cannot do, it does for nobody. Who takes
    /// no answer for a refusal would let others in at each late answer. Schedule:
    ///   the watcher asks as alice: run 1 · one look takes too long · bob reads, and the watcher asks as bob: no run, a new account · alice reads.
    ///
    /// If the credentials are refused, to ask with them again could lock their user out. Or the database is gone.
    pub(super) fn note_failed(&self, name: DatabaseTag, of: &WriteOf, fault: &OriginFault) {
        if matches!(fault, OriginFault::Unauthorized(_)) || fault.is_unknown_database() {
            self.forget(name, of);
        } else if fault.is_about_rights() {
            self.note_told(name, of, false);
        }
    }

    fn forget(&self, name: DatabaseTag, of: &WriteOf) {
        let mut databases = self.databases.lock();
        if databases.get(&name).is_some_and(|watched| is_same(&watched.of, of)) {
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
            (watched.long_ago, watched.uncertain_since) = (None, None);
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

    /// A look is uncertain: for how long all have been since the last account.
    pub(super) fn uncertain_for(&self, name: DatabaseTag, now: MonoTime) -> Millis {
        let mut databases = self.databases.lock();
        let Some(watched) = databases.get_mut(&name) else { return Millis::ZERO };
        now.since(*watched.uncertain_since.get_or_insert(now))
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

impl WatchedDatabase {
    fn asked_as(of: WriteOf) -> Self {
        Self {
            of,
            is_told_all: false,
            account: None,
            long_ago: None,
            uncertain_since: None,
            uncaptured: None,
        }
    }
}

/// Whether these are the same credentials.
fn is_same(of: &WriteOf, other: &WriteOf) -> bool {
    Arc::ptr_eq(&of.identity, &other.identity)
}

/// A question with the credentials of this write. What it writes, and when it began, says nothing of the writes that are asked about, or told.
fn asker_like(of: &WriteOf) -> WriteOf {
    let WriteOf { database, identity, impersonated, timeout_ms, .. } = of;
    WriteOf::question(Arc::clone(database), Arc::clone(identity), impersonated.clone(), *timeout_ms)
}

#[cfg(test)]
mod tests {
    use hopcache_core::key::{KeyHasher, PrincipalScope};

    use super::*;
    use crate::model::identity::{Credentials, Identity};
    use crate::model::ports::Neo4jFailure;

    const NAME: DatabaseTag = DatabaseTag(7);

    fn of(user: &str) -> WriteOf {
        let identity = Identity {
            scope: PrincipalScope::of(&KeyHasher::new(b"key"), "basic", user, None),
            fingerprint: [0; 32],
            credentials: Credentials::Basic { user: user.to_owned(), password: "secret".to_owned() },
        };
        WriteOf::question("neo4j".into(), Arc::new(identity), None, Millis(1_000))
    }

    fn failure(code: &str) -> Neo4jFailure {
        Neo4jFailure { code: code.to_owned(), message: String::new(), as_sent: Vec::new() }
    }

    /// The schedules at [`Watchers::may_ask_as`] and [`Watchers::note_failed`].
    #[test]
    fn who_is_told_all_goes_on_asking() {
        let (watchers, [alice, bob]) = (Watchers::default(), ["alice", "bob"].map(of));
        let asks = |who: &WriteOf| watchers.asker(NAME).is_some_and(|asker| is_same(&asker, who));
        watchers.may_ask_as(NAME, &bob);
        watchers.note_told(NAME, &bob, false);
        watchers.may_ask_as(NAME, &alice);
        assert!(asks(&alice), "bob is not told the run of the server");
        watchers.note_told(NAME, &bob, true);
        watchers.may_ask_as(NAME, &bob);
        assert!(asks(&bob), "a late answer to bob says nothing of alice");
        watchers.may_ask_as(NAME, &alice);
        watchers.note_told(NAME, &alice, true);
        watchers.may_ask_as(NAME, &bob);
        assert!(asks(&alice), "she is told all");
        watchers.note_failed(NAME, &alice, &OriginFault::TimedOut);
        watchers.may_ask_as(NAME, &bob);
        assert!(asks(&alice), "no answer is no refusal");
        let unavailable = failure("Neo.ClientError.Procedure.ProcedureNotFound");
        watchers.note_failed(NAME, &alice, &OriginFault::Failed(unavailable));
        watchers.may_ask_as(NAME, &bob);
        assert!(asks(&alice), "nobody is told more");
        watchers.note_failed(
            NAME,
            &alice,
            &OriginFault::Failed(failure("Neo.ClientError.Security.Forbidden")),
        );
        watchers.may_ask_as(NAME, &bob);
        assert!(asks(&bob), "she was refused");
        watchers.note_told(NAME, &bob, true);
        let refused = failure("Neo.ClientError.Security.Unauthorized");
        watchers.note_failed(NAME, &bob, &OriginFault::Unauthorized(refused));
        watchers.may_ask_as(NAME, &alice);
        assert!(asks(&alice), "bob may not log on");
    }
}
