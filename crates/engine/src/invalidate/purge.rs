//! Purges: forgetting in the store, on every reachable node, and in flights that may have read before the purge.
//!
//! The order matters. The store comes first: the lease goes with the entry, so a run that read before the purge cannot
//! commit after it (I3). Memories come next: a copy put there afterwards comes from a read after the purge, or from a
//! detached flight, which removes its own copy again. An unreachable node reads the store's invalidation log, within
//! [`INVALIDATION_POLL_MS`](hopcache_core::limits::INVALIDATION_POLL_MS) of reaching the store again.
//!
//! A statement that Neo4j refuses now ([`Neo4jFailure::refuses_statement`](crate::model::ports::Neo4jFailure)) goes the
//! same way: store, by the lease of the refused run · this node · its waiters · the other nodes. The log gets it only
//! if a node could not be reached, and while keys move. A node that this one does not know finds out by itself: its
//! copy of the same entry is as old, so its next read is refused too.

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
use crate::model::event::{Event, InvalidationWord};
use crate::model::ports::{PeerError, Scope, Store, StoreError};
use crate::peers;

/// Plain data: the reach of a purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeOutcome {
    /// Entries removed from the store, or why it could not be asked.
    pub store: Result<u64, StoreError>,
    /// Copies removed from memories.
    pub copies: u64,
    /// Nodes that were reached, this one included.
    pub nodes: u32,
    /// Nodes that could not be reached directly.
    pub unreached: u32,
}

/// The answers of the other nodes.
#[derive(Debug, Default)]
struct PurgeReach {
    copies: u64,
    nodes: u32,
    unreached: u32,
}

impl Invalidate {
    /// Purges everywhere, as an operator has ordered.
    pub async fn purge(&self, scope: &Scope) -> PurgeOutcome {
        self.purge_because(scope, InvalidationWord::Purge).await
    }

    /// Purges everywhere.
    pub(crate) async fn purge_because(&self, scope: &Scope, word: InvalidationWord) -> PurgeOutcome {
        self.context.note(Event::Invalidation(word));
        let store = self.store.invalidate(scope).await;
        let copies = self.cache.forget(scope);
        let told = self.tell_others(scope).await;
        PurgeOutcome { store, copies: copies + told.copies, nodes: 1 + told.nodes, unreached: told.unreached }
    }

    /// Removes an entry from the store after a run under this lease was refused, and ends the lease. The lease shows
    /// that no newer entry was stored meanwhile, and no older run has a lease to commit it again (I3). The invalidation
    /// log does not get it: nine thousand keys of a revoked role would overflow the log, and every node would forget
    /// everything.
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

    /// Forgets on this node a value that the server refuses to give now.
    pub(crate) fn forget_refused(&self, key: &QueryKey) {
        self.cache.forget(&Scope::Key(*key));
    }

    /// Announces the refusal to the other nodes, after the store has [forgotten](Self::withdraw) and this node. Nodes
    /// that cannot be reached get it from the log. The caller bounds the number of concurrent calls: by the refresh
    /// workers, or by [`REFUSALS_TOLD_AT_A_TIME`](hopcache_core::limits::REFUSALS_TOLD_AT_A_TIME).
    pub(crate) async fn tell_refused(&self, key: &QueryKey, was_leased: bool) {
        let scope = Scope::Key(*key);
        // While keys move, a new owner may ask a former one that this node could not reach or does not know. If both
        // have read equally little of the log, the value would move on. Without a lease the run could not remove the
        // entry.
        let do_keys_move = self.do_keys_move();
        if self.tell_others(&scope).await.unreached > 0 || do_keys_move || !was_leased {
            let _ = self.store.invalidate(&scope).await;
        }
    }

    /// Tells the other nodes concurrently, so that a silent one delays nobody else.
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
            // While keys move, it may have got the value from a former owner that the purge had not reached yet
            // (`handover.rs`).
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

    /// Tells these nodes, and returns those that were reached.
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
                // A dead node of a former ring has no copy and gives none to anybody.
                Err(PeerError::Gone(_)) if !self.is_reachable(&node) => {}
                Err(_) => told.unreached += 1,
            }
        }
        reached
    }

    /// The other nodes, a key's owner first. A node that the purge has reached may still get a near copy from an owner
    /// that it has not:
    ///   the purge reaches A · A forwards · the owner answers X · the purge reaches the owner · A keeps X, and its
    ///   clients get it for up to a second after the purge is done.
    /// So the owner comes before the nodes that ask it, and this node, which forgets at once, forgets again at the end.
    /// Every node owns some keys of a database, so all nodes get such a purge twice.
    ///
    /// Not only nodes on the ring: one that drains or joins has near copies. Former owners are asked for the copies
    /// that they left (`handover.rs`), whether they drain or only this node has lost sight of them.
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

    /// How many copies a node forgot, or why it could not be reached.
    async fn tell(&self, node: &NodeName, scope: &Scope) -> Result<u64, PeerError> {
        let life = self.routing.life_of(node);
        let answer = self.peers.ask(node, peers::purge(scope), self.probe_timeout_ms).await;
        // Otherwise every purge would find it gone again until gossip knows. Silence is for probes to judge.
        if let Err(error @ PeerError::Gone(_)) = &answer {
            self.routing.report(node, life, error);
        }
        answer
    }

    /// Forgets on this node a value that Neo4j refuses to give now, before the waiters are answered. The permit, which
    /// bounds concurrent announcements, allows announcing it to the other nodes afterwards.
    pub(crate) async fn refused(&self, key: &QueryKey) -> Option<SemaphorePermit<'_>> {
        let telling = self.refusals.acquire().await.ok();
        self.forget_refused(key);
        telling
    }
}
