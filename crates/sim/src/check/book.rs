//! The checkers' own book of leases and entries. It follows the protocol from the commands to the store and the store's
//! answers. It knows nothing of the store's slots, so a wrong store disagrees with it.

use std::collections::BTreeMap;

use hopcache_core::key::DatabaseTag;
use hopcache_core::lease::Token;
use hopcache_core::time::{Millis, MonoTime};

use crate::record::{Brought, Covers, Fact, KeyId, Life, What};

/// Entries of the book before each of the last changes, for stores that fall back.
const PAGES_MAX: usize = 64;

/// A lease that was granted and has not been ended by anybody; its time may be over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) by: Life,
    pub(super) token: Token,
    pub(super) until: MonoTime,
    pub(super) granted: MonoTime,
    lease: Millis,
    database: DatabaseTag,
}

/// An entry that lies in the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lies {
    pub(super) entry: Brought,
    pub(super) until: MonoTime,
}

impl Lies {
    /// How old it is by the store's clock, which counts to the end of its total life.
    pub(super) fn age(&self, store: MonoTime) -> Millis {
        self.entry.total.saturating_sub(self.until.since(store))
    }
}

#[derive(Debug, Clone, Default)]
struct Page {
    leases: BTreeMap<KeyId, Held>,
    entries: BTreeMap<KeyId, Lies>,
    invalidated: Vec<(MonoTime, Covers)>,
}

/// The book.
#[derive(Default)]
pub(super) struct Book {
    /// The latest that the store's clock has ever shown.
    latest: MonoTime,
    page: Page,
    pages: Vec<(u64, Page)>,
}

impl Book {
    /// The lease under a key, lapsed or not.
    pub(super) fn lease(&self, key: KeyId) -> Option<Held> {
        self.page.leases.get(&key).copied()
    }

    /// Keys that a node holds leases of; `now` as the store sees it that granted them then.
    pub(super) fn held_by(&self, by: Life, now: impl Fn(MonoTime) -> MonoTime) -> Vec<KeyId> {
        let is_held = |held: &Held| held.by == by && held.granted + held.lease > now(held.granted);
        self.page.leases.iter().filter(|(_, held)| is_held(held)).map(|(key, _)| *key).collect()
    }

    /// The lease that is current.
    pub(super) fn current(&self, key: KeyId, store: MonoTime) -> Option<Held> {
        self.lease(key).filter(|held| held.until > store)
    }

    /// The entry, if it is fresh and no older than that.
    pub(super) fn fresh(&self, key: KeyId, store: MonoTime, age_max: Option<Millis>) -> Option<Lies> {
        // What was dead once need not come to life again when the clock is set back, and may.
        let lies = self.page.entries.get(&key).copied().filter(|lies| lies.until > store.max(self.latest))?;
        let age_ms = lies.age(store);
        let young = age_max.is_none_or(|most| age_ms <= most);
        (young && age_ms < lies.entry.soft).then_some(lies)
    }

    /// Invalidations that the store remembers having carried out.
    pub(super) fn invalidated(&self) -> &[(MonoTime, Covers)] {
        &self.page.invalidated
    }

    /// Writes a fact into the book, after it was judged.
    pub(super) fn write(&mut self, fact: &Fact) {
        let seq = match &fact.what {
            What::Granted { key, by, token, lease, database, store, seq, .. } => {
                let held = Held {
                    by: *by,
                    token: *token,
                    until: *store + *lease,
                    granted: fact.at,
                    lease: *lease,
                    database: *database,
                };
                self.page.leases.insert(*key, held);
                *seq
            }
            What::Committed { key, stored, entry, store, seq, .. } => {
                if *stored {
                    self.page.leases.remove(key);
                    self.page.entries.remove(key);
                    if entry.left > Millis::ZERO {
                        self.page.entries.insert(*key, Lies { entry: *entry, until: *store + entry.left });
                    }
                }
                *seq
            }
            What::Renewed { key, token, done, lease, store, seq } => {
                if let Some(held) = self.page.leases.get_mut(key).filter(|held| held.token == *token && *done)
                {
                    held.until = *store + *lease;
                }
                *seq
            }
            What::Released { key, token, done, store, seq } => {
                if *done && self.current(*key, *store).is_some_and(|held| held.token == *token) {
                    self.page.leases.remove(key);
                }
                *seq
            }
            What::Invalidated { scope, seq, .. } => {
                self.page.invalidated.push((fact.at, *scope));
                self.page.leases.retain(|key, held| !scope.has(*key, held.database));
                self.page.entries.retain(|key, lies| !scope.has(*key, lies.entry.database));
                *seq
            }
            What::StoreLost { seq } => {
                self.page.leases.clear();
                self.page.entries.clear();
                *seq
            }
            What::StoreJumped { store, .. } => {
                self.latest = self.latest.max(*store);
                return;
            }
            What::StoreFellBack { to_seq, seq } => {
                if let Some((_, page)) = self.pages.iter().find(|(seq, _)| seq == to_seq) {
                    self.page = page.clone();
                }
                *seq
            }
            _ => return,
        };
        self.pages.push((seq, self.page.clone()));
        if self.pages.len() > PAGES_MAX {
            self.pages.remove(0);
        }
    }
}
