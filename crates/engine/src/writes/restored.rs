//! A restored database: ids of its transactions have gone back. Its entries are purged on every node and in the store, because
//! entries of before may carry ids that come again. `core::written` decides when ids have gone back.
//!
//! Many runs notice at once. Each name has one purge under way on this node, and at most one more after it:
//!   a purge has passed an entry's place in the store · a run of before the restore commits there · it notices, and asks for
//!   another purge.

use std::collections::BTreeMap;
use std::sync::Arc;

use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{IDS_BACK_PURGE_AGAIN_MS, IDS_BACK_PURGE_MS_MAX};
use hopcache_core::tags::Tag;
use hopcache_core::time::Millis;
use hopcache_core::write_position::WritePosition;
use parking_lot::Mutex;

use crate::model::event::InvalidationWord;
use crate::model::ports::{Scope, Store};
use crate::writes::Writes;

/// The names whose purge is under way, each with whether another purge is due after it.
#[derive(Default)]
pub(super) struct PendingPurges(Mutex<BTreeMap<DatabaseTag, bool>>);

impl PendingPurges {
    /// Asks for a purge. Returns whether none is under way.
    fn ask(&self, name: DatabaseTag) -> bool {
        let mut names = self.0.lock();
        let is_first = !names.contains_key(&name);
        names.insert(name, !is_first);
        is_first
    }

    /// A purge has ended. Returns whether another one is due.
    fn ended(&self, name: DatabaseTag) -> bool {
        let mut names = self.0.lock();
        let is_due = names.remove(&name).unwrap_or(false);
        if is_due {
            names.insert(name, false);
        }
        is_due
    }
}

impl Writes {
    /// Purges the entries of a database by all of its names. No request waits: the store may be large, and these entries were
    /// served until now.
    pub(super) fn purge_names(self: &Arc<Self>, written: WritePosition) {
        tracing::warn!("the ids of a database's transactions have gone back: its entries are purged");
        for name in self.cache.write_positions().names_of(written.database()) {
            self.cache.forget(&Scope::Tag(Tag::Database(name)));
            if !self.purging.ask(name) {
                continue;
            }
            let writes = Arc::clone(self);
            // A leaving node does not wait for a store that is away.
            self.context.spawn_until_handed_on(async move { writes.purge_while_asked(name).await });
        }
    }

    async fn purge_while_asked(&self, name: DatabaseTag) {
        loop {
            if !self.purge_until_stored(&Scope::Tag(Tag::Database(name))).await {
                tracing::error!(
                    "the store could not be purged after the ids of a database went back: purge it by hand"
                );
            }
            if !self.purging.ended(name) {
                return;
            }
        }
    }

    /// Repeats the purge until the store has carried it out, and returns whether it has. Otherwise a node that starts later, and
    /// knows the new epoch only, takes the store's old entries for current.
    async fn purge_until_stored(&self, scope: &Scope) -> bool {
        let until = self.context.now() + Millis(IDS_BACK_PURGE_MS_MAX);
        let mut is_stored =
            self.invalidate.purge_because(scope, InvalidationWord::Emptied).await.store.is_ok();
        while !is_stored && self.context.now() < until {
            self.context.sleep(Millis(IDS_BACK_PURGE_AGAIN_MS)).await;
            is_stored = self.store.invalidate(scope).await.is_ok();
        }
        is_stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purges_that_are_asked_for_meanwhile_are_one() {
        let (purging, name) = (PendingPurges::default(), DatabaseTag(1));
        assert!(purging.ask(name) && purging.ask(DatabaseTag(2)));
        assert!(!purging.ask(name) && !purging.ask(name));
        assert!(purging.ended(name), "one more");
        assert!(!purging.ended(name) && purging.ask(name));
    }
}
