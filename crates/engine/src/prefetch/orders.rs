//! Orders of candidates: makes them, and sends them to the owners of their keys, several in one message. It decides
//! which candidates need no order: one that was ordered a moment ago, and one that is fresh.
//!
//! The owner's answer says how long its copy stays fresh. This node orders the key no more until then.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use hopcache_core::key::{KeyMaterial, QueryKey};
use hopcache_core::limits::{
    FRESH_KEPT_MS_MAX, LAUNCHES_TOLD_AT_A_TIME, ORDERED_KEPT_MS, ORDERED_MAX, ORDERS_IN_MESSAGE_MAX,
    PREFETCH_TELL_MS,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::model::ask::{Query, QueryParts};
use crate::model::event::{Event, PrefetchWord};
use crate::model::order::{Launch, Order, OrderAnswer, Skip};
use crate::peers::Prefetches;
use crate::prefetch::Prefetch;
use crate::prefetch::answered::Antecedent;
use crate::prefetch::consider::Candidate;

/// The keys that need no order now, and the bound on messages under way.
pub(super) struct Orders {
    /// With the time until which.
    needless: Mutex<LruCache<QueryKey, MonoTime>>,
    messages: Arc<Semaphore>,
}

impl Orders {
    pub(super) fn new() -> Self {
        let most = NonZeroUsize::new(ORDERED_MAX).unwrap_or(NonZeroUsize::MIN);
        Self {
            needless: Mutex::new(LruCache::new(most)),
            messages: Arc::new(Semaphore::new(LAUNCHES_TOLD_AT_A_TIME)),
        }
    }

    /// Whether the key may be ordered. If so, it is not ordered again for a moment.
    fn is_first(&self, key: &QueryKey, now: MonoTime) -> bool {
        let mut needless = self.needless.lock();
        let is_first = needless.get(key).is_none_or(|until| *until <= now);
        if is_first {
            needless.put(*key, now + Millis(ORDERED_KEPT_MS));
        }
        is_first
    }

    fn is_fresh_for(&self, key: QueryKey, fresh_ms: Millis, now: MonoTime) {
        if fresh_ms > Millis(ORDERED_KEPT_MS) {
            self.needless.lock().put(key, now + fresh_ms.min(Millis(FRESH_KEPT_MS_MAX)));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.needless.lock().len()
    }
}

impl Prefetch {
    /// The orders of the candidates that follow a request.
    pub(super) fn orders_after(&self, before: &Antecedent, now: MonoTime) -> Vec<Order> {
        let candidates = self.candidates_after(before, now);
        candidates.into_iter().filter_map(|candidate| self.order_of(before, candidate, now)).collect()
    }

    fn order_of(&self, before: &Antecedent, candidate: Candidate, now: MonoTime) -> Option<Order> {
        let asked = &before.query;
        let key = self.hasher.query_key(&KeyMaterial {
            database: &asked.database,
            scope: asked.identity.scope,
            normal: &self.learning.lessons.statements.read(&candidate.statement).normal,
            params: &candidate.params,
        });
        if key == asked.key || !self.learning.orders.is_first(&key, now) {
            return None;
        }
        let parts = QueryParts {
            database: Arc::clone(&asked.database),
            statement: candidate.statement,
            params: candidate.params,
            impersonated: asked.impersonated.clone(),
            identity: Arc::clone(&asked.identity),
        };
        Some(Order {
            query: Arc::new(Query::read(parts, &self.hasher, &self.procedures)),
            rendering: before.rendering,
            source: candidate.source,
            form: candidate.form,
            kind: candidate.kind,
            p: candidate.p,
            by: self.context.node().clone(),
        })
    }

    /// Carries out the orders of this node's keys, and sends the others, each message in a task of its own.
    pub(super) fn send_orders(self: &Arc<Self>, orders: Vec<Order>) {
        let view = self.routing.view();
        let mut by_owner: BTreeMap<NodeName, Vec<Order>> = BTreeMap::new();
        for order in orders {
            match view.owner(&order.query.key) {
                Some(owner) if owner != self.context.node() => match by_owner.get_mut(owner) {
                    Some(theirs) => theirs.push(order),
                    None => drop(by_owner.insert(owner.clone(), vec![order])),
                },
                _ if self.learning.has_ended() => {}
                _ => drop(self.launch(order)),
            }
        }
        for (owner, mut theirs) in by_owner {
            while !theirs.is_empty() {
                let rest = theirs.split_off(theirs.len().min(ORDERS_IN_MESSAGE_MAX));
                self.send_message(owner.clone(), std::mem::replace(&mut theirs, rest));
            }
        }
    }

    fn send_message(self: &Arc<Self>, owner: NodeName, orders: Vec<Order>) {
        let permit = Arc::clone(&self.learning.orders.messages).try_acquire_owned();
        let Some(permit) = permit.ok().filter(|_| !self.learning.has_ended()) else {
            // They may be ordered with the next request.
            let mut needless = self.learning.orders.needless.lock();
            for order in &orders {
                needless.pop(&order.query.key);
                self.context.note(Event::Prefetch(PrefetchWord::Skipped(Skip::Unreached)));
            }
            return;
        };
        let prefetch = Arc::clone(self);
        self.context.spawn(async move {
            let _permit = permit;
            prefetch.order_from(&owner, &orders).await;
        });
    }

    /// Orders a prefetch from the owner of its key, which may be this node. Waits for the owner's answer for at most
    /// [`PREFETCH_TELL_MS`].
    pub async fn order(self: &Arc<Self>, order: Order) -> Launch {
        let view = self.routing.view();
        match view.owner(&order.query.key) {
            Some(owner) if owner != self.context.node() => {
                let answers = self.order_from(owner, std::slice::from_ref(&order)).await;
                answers.first().map_or(Launch::Skipped(Skip::Unreached), |answer| answer.launch)
            }
            _ => self.launch(order),
        }
    }

    async fn order_from(&self, owner: &NodeName, orders: &[Order]) -> Vec<OrderAnswer> {
        let answer = self.peers.ask(owner, &Prefetches(orders), Millis(PREFETCH_TELL_MS)).await;
        let answers =
            answer.unwrap_or_else(|_| orders.iter().map(|_| self.skipped(Skip::Unreached).into()).collect());
        let now = self.context.now();
        for (order, answer) in orders.iter().zip(&answers) {
            if answer.launch == Launch::Skipped(Skip::Refused) {
                // Without this, the form would have to fail at the owner of each of its keys.
                self.learning.feedback.heard_refused(order.form);
            }
            self.learning.orders.is_fresh_for(order.query.key, answer.fresh_ms, now);
        }
        answers
    }
}
