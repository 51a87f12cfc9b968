//! Orders of one round, from the node that considered to the owners of the candidates' keys: one message for each owner.
//! The owner decides what becomes of an order (`launch.rs`).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    LAUNCHES_TOLD_AT_A_TIME, ORDERED_KEPT_MS, ORDERED_MAX, ORDERS_IN_MESSAGE_MAX, PREFETCH_TELL_MS,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::model::ask::QueryParts;
use crate::model::order::{Launch, Order, Skip};
use crate::peers;
use crate::peers::message::{BadMessage, SentOrder, encode_launches};
use crate::prefetch::Prefetch;
use crate::prefetch::candidate::{Antecedent, Candidate};

/// The keys that were ordered a moment ago, and the bound on messages under way.
pub(super) struct Ordering {
    ordered: Mutex<LruCache<QueryKey, MonoTime>>,
    messages: Arc<Semaphore>,
}

impl Ordering {
    pub(super) fn new() -> Self {
        let most = NonZeroUsize::new(ORDERED_MAX).unwrap_or(NonZeroUsize::MIN);
        Self {
            ordered: Mutex::new(LruCache::new(most)),
            messages: Arc::new(Semaphore::new(LAUNCHES_TOLD_AT_A_TIME)),
        }
    }

    /// Whether this node has not ordered the key in the last moment. Marks the key as ordered.
    fn is_first(&self, key: &QueryKey, now: MonoTime) -> bool {
        let mut ordered = self.ordered.lock();
        let is_recent = ordered.get(key).is_some_and(|at| now.since(*at) < Millis(ORDERED_KEPT_MS));
        if !is_recent {
            ordered.put(*key, now);
        }
        !is_recent
    }

    pub(super) fn len(&self) -> usize {
        self.ordered.lock().len()
    }
}

/// The orders of one round, by the owner of their keys.
#[derive(Default)]
pub(super) struct RoundOfOrders(BTreeMap<NodeName, Vec<Order>>);

impl Prefetch {
    /// Adds the order of a candidate, unless its key was ordered a moment ago.
    pub(super) fn add_order(&self, round: &mut RoundOfOrders, before: &Antecedent, candidate: Candidate) {
        let asked = &before.query;
        let parts = QueryParts {
            database: Arc::clone(&asked.database),
            statement: candidate.statement,
            params: candidate.params,
            impersonated: asked.impersonated.clone(),
            identity: Arc::clone(&asked.identity),
        };
        let query = self.learning.statements.query(parts, (&self.hasher, &self.procedures));
        if query.key == asked.key || !self.learning.ordering.is_first(&query.key, self.context.now()) {
            return;
        }
        let view = self.routing.view();
        let owner = view.owner(&query.key).unwrap_or_else(|| self.context.node()).clone();
        let order = Order {
            query: Arc::new(query),
            rendering: before.rendering,
            source: candidate.source,
            form: candidate.form,
            kind: candidate.kind,
            p: candidate.p,
            by: self.context.node().clone(),
        };
        round.0.entry(owner).or_default().push(order);
    }

    /// Sends the orders of a round, each message in a task of its own. Own keys need no message.
    pub(super) fn send_orders(self: &Arc<Self>, round: RoundOfOrders) {
        for (owner, orders) in round.0 {
            if owner == *self.context.node() {
                for order in orders {
                    self.launch(order);
                }
                continue;
            }
            for orders in orders.chunks(ORDERS_IN_MESSAGE_MAX) {
                self.send_message(owner.clone(), orders.to_vec());
            }
        }
    }

    fn send_message(self: &Arc<Self>, owner: NodeName, orders: Vec<Order>) {
        let permit = Arc::clone(&self.learning.ordering.messages).try_acquire_owned();
        let Some(permit) = permit.ok().filter(|_| !self.learning.has_ended()) else {
            for _ in &orders {
                self.skipped(Skip::Unreached);
            }
            return;
        };
        let prefetch = Arc::clone(self);
        self.context.spawn(async move {
            prefetch.ask_owner(&owner, &orders).await;
            drop(permit);
        });
    }

    /// Orders prefetches from the owner of their keys. Waits for its answer for at most [`PREFETCH_TELL_MS`].
    async fn ask_owner(&self, owner: &NodeName, orders: &[Order]) -> Vec<Launch> {
        let answer = self.peers.ask(owner, &peers::Orders(orders), Millis(PREFETCH_TELL_MS)).await;
        let unreached = || orders.iter().map(|_| self.skipped(Skip::Unreached)).collect();
        let launches = answer.unwrap_or_else(|_| unreached());
        for (order, launch) in orders.iter().zip(&launches) {
            if *launch == Launch::Skipped(Skip::Refused) {
                // Without this, the form would have to fail at the owner of each of its keys.
                self.learning.feedback.heard_refused(order.form);
            }
        }
        launches
    }

    /// Takes another node's orders for keys of this node, and answers what becomes of each. One that cannot be read is
    /// skipped alone.
    pub(crate) fn take_orders(self: &Arc<Self>, sent: Vec<Result<SentOrder, BadMessage>>) -> Bytes {
        let launches = sent.into_iter().map(|sent| match sent.and_then(|sent| self.read_sent(&sent)) {
            Ok(order) => self.launch(order),
            Err(why) => {
                tracing::debug!(%why, "an order of another node cannot be read");
                self.skipped(Skip::Unreadable)
            }
        });
        encode_launches(launches)
    }

    /// Takes one order, as nodes of an older version send it.
    pub(crate) fn take_order(self: &Arc<Self>, sent: &SentOrder) -> Result<Bytes, BadMessage> {
        let order = self.read_sent(sent)?;
        Ok(encode_launches(std::iter::once(self.launch(order))))
    }

    fn read_sent(&self, sent: &SentOrder) -> Result<Order, BadMessage> {
        let lexicon = (&self.hasher, &*self.procedures);
        let order = sent.read_by(|parts| self.learning.statements.query(parts, lexicon))?;
        if self.cache.can_render(order.rendering) {
            Ok(order)
        } else {
            Err(BadMessage::Form("unknown rendering"))
        }
    }

    /// Orders a prefetch from the owner of its key, which may be this node.
    pub async fn order(self: &Arc<Self>, order: Order) -> Launch {
        let view = self.routing.view();
        match view.owner(&order.query.key) {
            Some(owner) if owner != self.context.node() => {
                let launches = self.ask_owner(owner, std::slice::from_ref(&order)).await;
                launches.first().copied().unwrap_or(Launch::Skipped(Skip::Unreached))
            }
            _ => self.launch(order),
        }
    }
}
