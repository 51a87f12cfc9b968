//! Stale-if-error (RFC 5861, section 4): which copy stands in for a run that fails or takes too long, and from when on.
//! It decides nothing about runs, which go on as ever. `path::fallback` serves the fallbacks found here.
//!
//! A copy past its soft TTL is a *stale fallback* until the end of stale-if-error. It is served, and marked, only in
//! two cases. It replaces a failure of the origin's or of this node's ([`crate::model::trouble::Trouble`]). Or it
//! answers a request that waits longer for a run than the pattern usually takes, or for any run while the origin is
//! known to be away. It is never served where the request's own `Cache-Control` forbids it. A copy that a write has ended
//! is one too, at any age, and serves for less (`path::fallback`): only while the origin cannot be reached at all.
//!
//! A fallback comes from memory, or else from the store, which is asked when there is a failure to avoid. The waiters
//! of a flight find theirs in the table here: the leader puts the copy there that it found in memory, or that the store
//! sent with its lease. A place in the table lasts as long as the flight. From `overdue_at` on, every request that
//! joins the flight is served at once. So a run that hangs costs one wait, not one wait for each request.
//!
//! A purge must leave no fallback behind. The race, for a value that was read from the store before the purge:
//!   the leader asks the store, which returns X · the purge empties the store · [`StaleFallbacks::forget`] counts the
//!   purge · memory is emptied · the leader offers X with the earlier count: refused.
//! One lock covers both the comparison of the counts and the insertion of X. So X is either refused, or there when the
//! purge removes it.

use std::collections::HashMap;

use hopcache_core::key::QueryKey;
use hopcache_core::limits::FLIGHTS_MAX;
use hopcache_core::time::MonoTime;
use parking_lot::Mutex;

use crate::cache::copy::SharedCopy;
use crate::model::ports::Scope;

/// Fallbacks of flights under way.
#[derive(Default)]
pub(crate) struct StaleFallbacks {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    by_key: HashMap<QueryKey, Fallback>,
    purges: u64,
}

#[derive(Clone)]
struct Fallback {
    copy: SharedCopy,
    /// When the waiters have waited long enough.
    overdue_at: MonoTime,
}

/// The number of purges that this node had carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Purges(u64);

/// A flight's place in the table. Dropped, it is free.
pub(crate) struct FallbackPlace<'a> {
    fallbacks: &'a StaleFallbacks,
    key: QueryKey,
}

impl FallbackPlace<'_> {
    /// Whether the flight has a fallback.
    pub(crate) fn is_taken(&self) -> bool {
        self.fallbacks.of(&self.key).is_some()
    }
}

impl Drop for FallbackPlace<'_> {
    /// After an invalidation detached this flight, another one of the key may have begun. Then this drop removes the
    /// other's place, and the other's requests wait until it ends, as if there were no fallback.
    fn drop(&mut self) {
        self.fallbacks.table.lock().by_key.remove(&self.key);
    }
}

impl StaleFallbacks {
    pub(crate) fn len(&self) -> usize {
        self.table.lock().by_key.len()
    }

    /// The count to take before the store or the origin is asked. Their answers are not kept if it has changed since.
    pub(crate) fn purges(&self) -> Purges {
        Purges(self.table.lock().purges)
    }

    /// Forgets what `scope` covers. Call it before memory forgets.
    pub(crate) fn forget(&self, scope: &Scope) {
        let mut table = self.table.lock();
        table.purges += 1;
        match scope {
            Scope::Key(key) => {
                table.by_key.remove(key);
            }
            Scope::Tag(tag) => table.by_key.retain(|_, fallback| !fallback.copy.tags().contains(*tag)),
            Scope::All => table.by_key.clear(),
        }
    }

    /// The fallback of the key's flight, and the time from which it is served.
    pub(super) fn get(&self, key: &QueryKey) -> Option<(SharedCopy, MonoTime)> {
        self.of(key).map(|fallback| (fallback.copy, fallback.overdue_at))
    }

    /// A place for a new flight of a key.
    pub(super) fn place(&self, key: QueryKey) -> FallbackPlace<'_> {
        FallbackPlace { fallbacks: self, key }
    }

    /// Puts a copy aside for the waiters of a key's flight. The first offer's time counts, and the newest copy.
    pub(super) fn offer(&self, key: QueryKey, copy: &SharedCopy, overdue_at: MonoTime, before: Purges) {
        self.unless_purged(before, |by_key| {
            if by_key.len() < FLIGHTS_MAX {
                let fallback =
                    by_key.entry(key).or_insert_with(|| Fallback { copy: copy.clone(), overdue_at });
                if fallback.copy.read_started() < copy.read_started() {
                    fallback.copy = copy.clone();
                }
            }
        });
    }

    /// Does `put` unless there was a purge since `before`.
    pub(super) fn put_unless_purged(&self, before: Purges, put: impl FnOnce()) {
        self.unless_purged(before, |_| put());
    }

    fn of(&self, key: &QueryKey) -> Option<Fallback> {
        self.table.lock().by_key.get(key).cloned()
    }

    /// Puts under the lock, unless there was a purge since `before`.
    fn unless_purged(&self, before: Purges, put: impl FnOnce(&mut HashMap<QueryKey, Fallback>)) {
        let mut table = self.table.lock();
        if table.purges == before.0 {
            put(&mut table.by_key);
        }
    }
}
