//! Forgetting: in the store, on every node that can be reached, and in flights that may have read
//! before.
//!
//! The order matters. Store first: the lease goes with the entry, so a run that read before the purge
//! cannot commit after it (I3). Then memories: a copy that is put there afterwards comes from a read
//! after the purge, or from a flight that was detached and removes its own copy again. A node that
//! cannot be reached reads the store's invalidation log, within
//! [`INVALIDATION_POLL_MS`] of reaching the store again.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{INVALIDATION_PAGE_LEN_MAX, INVALIDATION_POLL_MS};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_packstream::Reader;

use crate::copy::MemoryCopy;
use crate::engine::Engine;
use crate::message::encode_purge;
use crate::ports::{LogCursor, Scope, StoreError};

/// What a purge reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purged {
    /// Entries removed from the store, or why it could not be asked.
    pub store: Result<u64, StoreError>,
    /// Copies removed from memories.
    pub copies: u64,
    /// Nodes that were told, this one included.
    pub nodes: u32,
    /// Nodes that could not be told directly.
    pub unreached: u32,
}

impl Engine {
    /// Purges everywhere.
    pub async fn purge(&self, scope: &Scope) -> Purged {
        let store = self.ports.store.invalidate(scope).await;
        self.saw_store(&store);
        let mut purged = Purged { store, copies: self.forget(scope), nodes: 1, unreached: 0 };
        let mut told = Vec::new();
        for node in self.in_order_to_tell(scope) {
            match self.tell(&node, scope).await {
                Some(copies) => {
                    purged.copies += copies;
                    purged.nodes += 1;
                    told.push(node);
                }
                None => purged.unreached += 1,
            }
        }
        if !matches!(scope, Scope::Key(_)) {
            for node in told {
                purged.copies += self.tell(&node, scope).await.unwrap_or(0);
            }
        }
        if purged.nodes > 1 {
            purged.copies += self.forget(scope);
        }
        purged
    }

    /// The other nodes, a key's owner first. Who has been told may still get a near copy from an owner that has
    /// not:
    ///   A is told · A forwards · the owner answers X · the owner is told · A keeps X, and its clients get it for
    ///   up to a second after the purge is done.
    /// So an owner is told before those who ask it, and this node, which forgets at once, does so again at the
    /// end. Of a database every node owns some keys: all are told twice.
    fn in_order_to_tell(&self, scope: &Scope) -> Vec<NodeName> {
        let view = self.ports.routing.view();
        let others = |node: &&NodeName| **node != self.me.node;
        match scope {
            Scope::Key(key) => view.order(key).filter(others).cloned().collect(),
            Scope::Database(_) | Scope::All => view.members().iter().filter(others).cloned().collect(),
        }
    }

    /// How many copies a node forgot; nothing when it could not be told.
    async fn tell(&self, node: &NodeName, scope: &Scope) -> Option<u64> {
        let message = encode_purge(scope);
        let answer = self.ports.peers.forward(node, message, self.policy.probe_timeout_ms).await.ok()?;
        u64::try_from(Reader::new(&answer).value().ok()?.as_int()?).ok()
    }

    /// Forgets on this node: flights first, so that one that lands from now on removes its own copy.
    pub(crate) fn forget(&self, scope: &Scope) -> u64 {
        self.purges.fetch_add(1, Ordering::SeqCst);
        // Before memory: see `spares.rs`.
        self.spares.forget(scope);
        match scope {
            Scope::Key(key) => {
                self.detach(|each| each == key);
                u64::from(self.ports.memory.remove(key))
            }
            Scope::Database(tag) => {
                // A flight does not know its database by key alone; detaching all costs a few
                // requests a second flight and nothing else.
                self.detach(|_| true);
                self.ports.memory.remove_where(&|_, copy: &MemoryCopy| copy.database_tag == *tag)
            }
            Scope::All => {
                self.detach(|_| true);
                self.ports.memory.remove_where(&|_, _| true)
            }
        }
    }

    fn detach(&self, covers: impl Fn(&QueryKey) -> bool) {
        self.flights.detach(&covers);
        self.refreshes.detach(&covers);
        self.forwards.detach(|(key, _)| covers(key));
    }

    /// Follows the store's invalidation log for ever; the caller owns the task. Bounds how long a copy
    /// here outlives a purge that did not reach this node directly.
    pub async fn follow_invalidations(&self) -> Infallible {
        let mut cursor = LogCursor::default();
        let mut is_first = true;
        loop {
            let began = self.now();
            let page = self.ports.store.invalidations_since(cursor).await;
            self.saw_store(&page);
            let mut is_more = false;
            if let Ok(page) = page {
                is_more = page.scopes.len() >= INVALIDATION_PAGE_LEN_MAX;
                // A first look that came late may have missed what concerns copies kept meanwhile.
                if page.gap && (!is_first || self.ports.memory.size().0 > 0) {
                    self.forget(&Scope::All);
                }
                page.scopes.iter().for_each(|scope| {
                    self.forget(scope);
                });
                cursor = page.next;
                is_first = false;
            }
            if is_more {
                continue;
            }
            self.awake.looked(began);
            self.ask_refusing_store().await;
            tokio::select! {
                biased;
                () = self.awake.wanted() => {}
                () = self.ports.clock.sleep(Millis(INVALIDATION_POLL_MS)) => {}
            }
        }
    }

    /// Forgets the copies of keys that this node does not own any more: while others own them, newer
    /// values may be stored that this node would not hear of. Called when the ring has changed.
    pub fn forget_foreign(&self) -> u64 {
        let view = self.ports.routing.view();
        self.ports.memory.remove_where(&|key, _| view.owner(key) != Some(&self.me.node))
    }
}
