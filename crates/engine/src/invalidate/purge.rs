//! Purges: forgetting in the store, on every node that can be reached, and in flights that may have read before.
//!
//! The order matters. Store first: the lease goes with the entry, so a run that read before the purge cannot commit
//! after it (I3). Then memories: a copy that is put there afterwards comes from a read after the purge, or from a flight
//! that was detached and removes its own copy again. A node that cannot be reached reads the store's invalidation log,
//! within [`INVALIDATION_POLL_MS`](hopcache_core::limits::INVALIDATION_POLL_MS) of reaching the store again.
//!
//! What Neo4j refuses now ([`Neo4jFailure::refuses_statement`](crate::model::ports::Neo4jFailure)) goes the same way:
//! store, by the lease of the run that was refused · this node · its waiters are told · the other nodes. The log hears of
//! it only where a node could not be told, and while keys move. A node that this one does not know of finds out by
//! itself: the same entry is as old there, so what it reads next is refused too.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use hopcache_core::key::QueryKey;
use hopcache_core::lease::{Commit, Token};
use hopcache_core::limits::PEERS_TOLD_AT_A_TIME;
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use tokio::sync::SemaphorePermit;

use crate::invalidate::Invalidate;
use crate::model::ports::{PeerError, Scope, Store, StoreError};
use crate::peers::Purge;

/// Plain data: what a purge reached.
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
struct PurgeReach {
    copies: u64,
    nodes: u32,
    unreached: u32,
}

impl Invalidate {
    /// Purges everywhere.
    pub async fn purge(&self, scope: &Scope) -> Purged {
        let store = self.store.invalidate(scope).await;
        let copies = self.cache.forget(scope);
        let told = self.tell_others(scope).await;
        Purged { store, copies: copies + told.copies, nodes: 1 + told.nodes, unreached: told.unreached }
    }

    /// Removes an entry from the store that a run under this lease was refused, and ends the lease. The lease says that
    /// nobody has stored a newer one meanwhile, and no older run has a lease to commit it again (I3). The invalidation
    /// log hears nothing of it: nine thousand keys of a role that is revoked would overflow it, and every node
    /// would forget everything.
    pub(crate) async fn withdraw(&self, key: &QueryKey, token: Token) {
        // A life of zero: the entry is removed and nothing is stored.
        let withdrawn = self.store.commit(key, token, Bytes::new(), Millis::ZERO).await;
        match withdrawn {
            Ok(Commit::Stored) => {}
            // The lease lapsed, so the entry may be there still.
            Ok(Commit::Fenced) => {
                let _ = self.store.invalidate(&Scope::Key(*key)).await;
            }
            // Tried once more, but nobody waits for a store that is away.
            Err(_) => {
                let (store, scope) = (Arc::clone(&self.store), Scope::Key(*key));
                self.context.spawn(async move {
                    let _ = store.invalidate(&scope).await;
                });
            }
        }
    }

    /// Forgets on this node what the server would not give any more.
    pub(crate) fn forget_refused(&self, key: &QueryKey) {
        self.cache.forget(&Scope::Key(*key));
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
            let _ = self.store.invalidate(&scope).await;
        }
    }

    /// Tells the others beside each other, so that one that is silent keeps nobody waiting but for itself.
    async fn tell_others(&self, scope: &Scope) -> PurgeReach {
        let mut others = self.in_order_to_tell(scope);
        let (mut told, mut owner) = (PurgeReach::default(), Vec::new());
        if let Scope::Key(key) = scope
            && others.first() == self.routing.view().owner(key)
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
            Scope::Tag(_) | Scope::All => reached,
        };
        let mut told_again = PurgeReach::default();
        self.tell_all(again, scope, &mut told_again).await;
        told.copies += told_again.copies;
        if told.nodes > 0 {
            told.copies += self.cache.forget(scope);
        }
        told
    }

    /// Returns those who were reached.
    async fn tell_all(&self, nodes: Vec<NodeName>, scope: &Scope, told: &mut PurgeReach) -> Vec<NodeName> {
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
        let view = self.routing.view();
        let ring: Vec<NodeName> = match scope {
            Scope::Key(key) => view.order(key).cloned().collect(),
            Scope::Tag(_) | Scope::All => view.members().to_vec(),
        };
        let rest = self.routing.reachable().into_iter().chain(self.in_former_rings(scope));
        let mut seen = BTreeSet::from([self.context.node().clone()]);
        ring.into_iter().chain(rest).filter(|node| seen.insert(node.clone())).collect()
    }

    fn is_reachable(&self, node: &NodeName) -> bool {
        self.routing.reachable().contains(node)
    }

    /// How many copies a node forgot, or why it could not be told.
    async fn tell(&self, node: &NodeName, scope: &Scope) -> Result<u64, PeerError> {
        let life = self.routing.life_of(node);
        let answer = self.peers.ask(node, &Purge(scope), self.probe_timeout_ms).await;
        // Or every purge until gossip knows would find it gone again. Silence is for probes to judge.
        if let Err(error @ PeerError::Gone(_)) = &answer {
            self.routing.report(node, life, error);
        }
        answer
    }

    /// Forgets on this node what Neo4j refuses, before its waiters are told. With the permit, which bounds how many
    /// refusals are told at a time, the other nodes are told afterwards.
    pub(crate) async fn refused(&self, key: &QueryKey) -> Option<SemaphorePermit<'_>> {
        let telling = self.refusals.acquire().await.ok();
        self.forget_refused(key);
        telling
    }
}
