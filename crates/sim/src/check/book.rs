//! The checkers' own book of leases and entries. The book follows the protocol from the commands to the store and the
//! store's answers. It does not read the store's slots, so a wrong store disagrees with the book.

use std::collections::BTreeMap;

use hopcache_core::key::DatabaseTag;
use hopcache_core::lease::Token;
use hopcache_core::time::{Millis, MonoTime};

use crate::check::record::{BroughtEntry, Covers, Fact, KeyId, Life, What};

/// A granted lease that no command has ended. Its time may be over.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldLease {
    pub(super) by: Life,
    pub(super) token: Token,
    pub(super) until: MonoTime,
    pub(super) granted: MonoTime,
    lease: Millis,
    database: DatabaseTag,
}

/// An entry in the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lies {
    pub(super) entry: BroughtEntry,
    pub(super) until: MonoTime,
}

impl Lies {
    /// How old it is by the store's clock, which counts to the end of its total life.
    pub(super) fn age(&self, store: MonoTime) -> Millis {
        self.entry.total.saturating_sub(self.until.since(store))
    }
}

/// The book. A store that fell back counts as empty. Invalidations from before the fall-back stay in force (F43).
#[derive(Default)]
pub(super) struct Book {
    /// The latest that the store's clock has ever shown.
    latest: MonoTime,
    leases: BTreeMap<KeyId, HeldLease>,
    entries: BTreeMap<KeyId, Lies>,
    invalidated: Vec<(MonoTime, Covers)>,
}

impl Book {
    /// The lease under a key, lapsed or not.
    pub(super) fn lease(&self, key: KeyId) -> Option<HeldLease> {
        self.leases.get(&key).copied()
    }

    /// Keys that a node holds leases of; `now` as the store sees it that granted them then.
    pub(super) fn held_by(&self, by: Life, now: impl Fn(MonoTime) -> MonoTime) -> Vec<KeyId> {
        let is_held = |held: &HeldLease| held.by == by && held.granted + held.lease > now(held.granted);
        self.leases.iter().filter(|(_, held)| is_held(held)).map(|(key, _)| *key).collect()
    }

    /// The lease that is current.
    pub(super) fn current(&self, key: KeyId, store: MonoTime) -> Option<HeldLease> {
        self.lease(key).filter(|held| held.until > store)
    }

    /// The entry, if it is fresh and no older than that.
    pub(super) fn fresh(&self, key: KeyId, store: MonoTime, age_max: Option<Millis>) -> Option<Lies> {
        // An entry that was dead may come to life again when the store's clock is set back.
        let lies = self.entries.get(&key).copied().filter(|lies| lies.until > store.max(self.latest))?;
        let age_ms = lies.age(store);
        let young = age_max.is_none_or(|most| age_ms <= most);
        (young && age_ms < lies.entry.soft).then_some(lies)
    }

    /// The entry that readers find, fresh or not.
    pub(super) fn entry(&self, key: KeyId, store: MonoTime) -> Option<Lies> {
        self.entries.get(&key).copied().filter(|lies| lies.until > store.max(self.latest))
    }

    /// Invalidations that the store has carried out, even if the store lost them later.
    pub(super) fn invalidated(&self) -> &[(MonoTime, Covers)] {
        &self.invalidated
    }

    /// Writes a fact into the book, after it was judged.
    pub(super) fn write(&mut self, fact: &Fact) {
        match &fact.what {
            What::Granted { key, by, token, lease, database, store, .. } => {
                let held = HeldLease {
                    by: *by,
                    token: *token,
                    until: *store + *lease,
                    granted: fact.at,
                    lease: *lease,
                    database: *database,
                };
                self.leases.insert(*key, held);
            }
            What::Committed { key, stored: true, entry, store, .. } => {
                self.leases.remove(key);
                self.entries.remove(key);
                if entry.left > Millis::ZERO {
                    self.entries.insert(*key, Lies { entry: *entry, until: *store + entry.left });
                }
            }
            What::Renewed { key, token, done: true, lease, store, .. } => {
                if let Some(held) = self.leases.get_mut(key).filter(|held| held.token == *token) {
                    held.until = *store + *lease;
                }
            }
            What::Released { key, token, done: true, store, .. }
                if self.current(*key, *store).is_some_and(|held| held.token == *token) =>
            {
                self.leases.remove(key);
            }
            What::Invalidated { scope, .. } => {
                self.invalidated.push((fact.at, *scope));
                self.leases.retain(|key, held| !scope.has(*key, held.database));
                self.entries.retain(|key, lies| !scope.has(*key, lies.entry.database));
            }
            What::StoreLost { .. } | What::StoreFellBack { .. } => {
                self.leases.clear();
                self.entries.clear();
            }
            What::StoreJumped { store, .. } => self.latest = self.latest.max(*store),
            _ => {}
        }
    }
}
