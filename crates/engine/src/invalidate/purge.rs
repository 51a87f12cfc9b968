//! Forgetting: in the store, on every node that can be reached, and in flights that may have read
//! before.
//!
//! The order matters. Store first: the lease goes with the entry, so a run that read before the purge
//! cannot commit after it (I3). Then memories: a copy that is put there afterwards comes from a read
//! after the purge, or from a flight that was detached and removes its own copy again. A node that
//! cannot be reached reads the store's invalidation log, within
//! [`INVALIDATION_POLL_MS`] of reaching the store again.
//!
//! What the server refuses now (its word in [`Neo4jFailure::refuses_statement`](crate::ports::Neo4jFailure)) goes the same
//! way: store, by the lease of the run that was refused · this node · its waiters are told · the other nodes. The log
//! hears of it only where a node could not be told, and while keys move. One that this node does not know of at all finds out by itself:
//! the same entry is as old there, so what it reads next is refused too.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use hopcache_core::key::QueryKey;
use hopcache_core::lease::{Commit, Token};
use hopcache_core::limits::{INVALIDATION_PAGE_LEN_MAX, INVALIDATION_POLL_MS, PEERS_TOLD_AT_A_TIME};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_packstream::Reader;

use crate::copy::MemoryCopy;
use crate::engine::Engine;
use crate::message::encode_purge;
use crate::ports::{LogCursor, PeerError, Scope, StoreError};

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

/// What the other nodes said.
#[derive(Debug, Default)]
struct Told {
    copies: u64,
    nodes: u32,
    unreached: u32,
}

impl Engine {
    /// Purges everywhere.
    pub async fn purge(&self, scope: &Scope) -> Purged {
        let store = self.ports.store.invalidate(scope).await;
        self.saw_store(&store);
        let copies = self.forget(scope);
        let told = self.tell_others(scope).await;
        Purged { store, copies: copies + told.copies, nodes: 1 + told.nodes, unreached: told.unreached }
    }

    /// Removes an entry from the store that a run under this lease was refused, and ends the lease. The lease says that
    /// nobody has stored a newer one meanwhile, and no older run has a lease to commit it again (I3). The invalidation
    /// log hears nothing of it: nine thousand keys of a role that is revoked would overflow it, and every node
    /// would forget everything.
    pub(crate) async fn withdraw(&self, key: &QueryKey, token: Token) {
        // A life of zero: the entry is removed and nothing is stored.
        let withdrawn = self.ports.store.commit(key, token, Bytes::new(), Millis::ZERO).await;
        self.saw_store(&withdrawn);
        match withdrawn {
            Ok(Commit::Stored) => {}
            // The lease lapsed, so the entry may be there still.
            Ok(Commit::Fenced) => {
                let removed = self.ports.store.invalidate(&Scope::Key(*key)).await;
                self.saw_store(&removed);
            }
            // Tried once more, but nobody waits for a store that is away.
            Err(_) => {
                let (store, scope) = (Arc::clone(&self.ports.store), Scope::Key(*key));
                self.tasks.spawn(async move {
                    let _ = store.invalidate(&scope).await;
                });
            }
        }
    }

    /// Forgets on this node what the server would not give any more.
    pub(crate) fn forget_refused(&self, key: &QueryKey) {
        self.forget(&Scope::Key(*key));
    }

    /// Tells the other nodes, after the store has [forgotten](Self::withdraw) and this node. The log is for those who
    /// could not be told. What bounds the number of those who tell is the caller's: the refresh workers, or
    /// [`REFUSALS_TOLD_AT_A_TIME`](hopcache_core::limits::REFUSALS_TOLD_AT_A_TIME).
    pub(crate) async fn tell_refused(&self, key: &QueryKey, was_leased: bool) {
        let scope = Scope::Key(*key);
        // While keys move one of a former ring may be asked that this node could not tell, or does not know of: two that
        // have read as little of the log as each other would hand the value on. Without a lease the run could not remove it.
        let do_keys_move = self.do_keys_move();
        if self.tell_others(&scope).await.unreached > 0 || do_keys_move || !was_leased {
            let removed = self.ports.store.invalidate(&scope).await;
            self.saw_store(&removed);
        }
    }

    /// Tells the others beside each other, so that one that is silent keeps nobody waiting but for itself.
    async fn tell_others(&self, scope: &Scope) -> Told {
        let mut others = self.in_order_to_tell(scope);
        let (mut told, mut owner) = (Told::default(), Vec::new());
        if let Scope::Key(key) = scope
            && others.first() == self.ports.routing.view().owner(key)
        {
            let rest = others.split_off(others.len().min(1));
            owner = self.tell_all(others, scope, &mut told).await;
            others = rest;
        }
        let reached = self.tell_all(others, scope, &mut told).await;
        let again = match scope {
            // It may have asked a former owner for the value that had not been told yet (`handover.rs`).
            Scope::Key(_) if self.do_keys_move() => owner,
            Scope::Key(_) => Vec::new(),
            Scope::Database(_) | Scope::All => reached,
        };
        let mut told_again = Told::default();
        self.tell_all(again, scope, &mut told_again).await;
        told.copies += told_again.copies;
        if told.nodes > 0 {
            told.copies += self.forget(scope);
        }
        told
    }

    /// Returns those who were reached.
    async fn tell_all(&self, nodes: Vec<NodeName>, scope: &Scope, told: &mut Told) -> Vec<NodeName> {
        let asked = nodes.into_iter().map(async |node| (self.tell(&node, scope).await, node));
        let answers: Vec<_> = stream::iter(asked).buffered(PEERS_TOLD_AT_A_TIME).collect().await;
        let mut reached = Vec::new();
        for (copies, node) in answers {
            match copies {
                Ok(copies) => {
                    told.copies += copies;
                    told.nodes += 1;
                    reached.push(node);
                }
                // Only of a former ring, and nobody lives there: it has nothing, and gives nothing to anybody.
                Err(PeerError::Gone(_)) if !self.is_reachable(&node) => {}
                Err(_) => told.unreached += 1,
            }
        }
        reached
    }

    /// The other nodes, a key's owner first. Who has been told may still get a near copy from an owner that has
    /// not:
    ///   A is told · A forwards · the owner answers X · the owner is told · A keeps X, and its clients get it for
    ///   up to a second after the purge is done.
    /// So an owner is told before those who ask it, and this node, which forgets at once, does so again at the
    /// end. Of a database every node owns some keys: all are told twice.
    ///
    /// Not only those on the ring: one that drains, or joins, has near copies; and former owners are asked for what they
    /// left (`handover.rs`), whether they drain or this node alone has lost sight of them.
    pub(crate) fn in_order_to_tell(&self, scope: &Scope) -> Vec<NodeName> {
        let view = self.ports.routing.view();
        let ring: Vec<NodeName> = match scope {
            Scope::Key(key) => view.order(key).cloned().collect(),
            Scope::Database(_) | Scope::All => view.members().to_vec(),
        };
        let rest = self.ports.routing.reachable().into_iter().chain(self.in_former_rings(scope));
        let mut seen = BTreeSet::from([self.me.node.clone()]);
        ring.into_iter().chain(rest).filter(|node| seen.insert(node.clone())).collect()
    }

    fn is_reachable(&self, node: &NodeName) -> bool {
        self.ports.routing.reachable().contains(node)
    }

    /// How many copies a node forgot, or why it could not be told.
    async fn tell(&self, node: &NodeName, scope: &Scope) -> Result<u64, PeerError> {
        let message = encode_purge(scope);
        let life = self.ports.routing.life_of(node);
        let answer = self.ports.peers.forward(node, message, self.policy.probe_timeout_ms).await;
        // Or every purge until gossip knows would find it gone again. Silence is for probes to judge.
        if let Err(error @ PeerError::Gone(_)) = &answer {
            self.ports.routing.report(node, life, error);
        }
        let answer = answer?;
        let count = Reader::new(&answer).value().ok().and_then(|value| value.as_int());
        let count = count.and_then(|count| u64::try_from(count).ok());
        count.ok_or_else(|| PeerError::Refused("it did not say how many".to_owned()))
    }

    /// Forgets on this node: flights first, so that one that lands from now on removes its own copy.
    pub(crate) fn forget(&self, scope: &Scope) -> u64 {
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
            self.sweep_prefetches();
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
                self.has_read_log(cursor);
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
}
