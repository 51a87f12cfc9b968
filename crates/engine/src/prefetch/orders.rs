//! Orders of one round, from the node that considered to the owners of the candidates' keys: one message for each owner.
//! The owner decides what becomes of an order (`launch.rs`).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    LAUNCHES_TOLD_AT_A_TIME, ORDERED_KEPT_MS, ORDERED_MAX, ORDERS_IN_MESSAGE_MAX, PREFETCH_TELL_MS,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_learning::gain::CandidateKind;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model::ask::QueryParts;
use crate::model::order::{Launch, Order, Skip};
use crate::peers;
use crate::peers::message::{BadMessage, SentOrder};
use crate::prefetch::Prefetch;
use crate::prefetch::answered::Moment;
use crate::prefetch::candidate::{Antecedent, Candidate};
use crate::prefetch::statements::ReadStatement;

/// The keys that were ordered a moment ago, and the bound on messages under way.
pub(super) struct OrderLimits {
    ordered: Mutex<LruCache<QueryKey, MonoTime>>,
    messages: Arc<Semaphore>,
}

impl OrderLimits {
    pub(super) fn new() -> Self {
        let most = NonZeroUsize::new(ORDERED_MAX).unwrap_or(NonZeroUsize::MIN);
        Self {
            ordered: Mutex::new(LruCache::new(most)),
            messages: Arc::new(Semaphore::new(LAUNCHES_TOLD_AT_A_TIME)),
        }
    }

    /// Whether this node has ordered the key in the last moment.
    fn is_recent(&self, key: &QueryKey, now: MonoTime) -> bool {
        self.ordered.lock().get(key).is_some_and(|at| now.since(*at) < Millis(ORDERED_KEPT_MS))
    }

    fn mark(&self, key: &QueryKey, now: MonoTime) {
        self.ordered.lock().put(*key, now);
    }

    pub(super) fn len(&self) -> usize {
        self.ordered.lock().len()
    }
}

/// The orders of one round, by the owner of their keys.
#[derive(Default)]
pub(super) struct RoundOfOrders {
    here: Vec<(Order, ExpectedGain)>,
    elsewhere: BTreeMap<NodeName, Vec<Message>>,
}

/// What the launch of an order would bring.
struct ExpectedGain {
    /// The statement that it follows, if that was a hit.
    after_hit: Option<Arc<ReadStatement>>,
    gain_ms: f64,
}

impl ExpectedGain {
    /// Becomes known to the statement that it follows.
    fn note(&self, launch: Launch) {
        let Some(statement) = &self.after_hit else { return };
        #[expect(clippy::cast_possible_truncation, reason = "a mean of milliseconds")]
        let gain_ms = if launch == Launch::Launched { self.gain_ms as f32 } else { 0.0 };
        statement.after_hits.note(gain_ms);
    }
}

/// The orders of one message, and its place among those under way.
struct Message {
    orders: Vec<(Order, ExpectedGain)>,
    permit: OwnedSemaphorePermit,
}

impl RoundOfOrders {
    /// Where the next order for `owner` goes; `None` if too many messages are under way.
    fn orders_for(
        &mut self,
        owner: &NodeName,
        messages: &Arc<Semaphore>,
    ) -> Option<&mut Vec<(Order, ExpectedGain)>> {
        let theirs = self.elsewhere.entry(owner.clone()).or_default();
        if theirs.last().is_none_or(|last| last.orders.len() >= ORDERS_IN_MESSAGE_MAX) {
            let permit = Arc::clone(messages).try_acquire_owned().ok()?;
            theirs.push(Message { orders: Vec::new(), permit });
        }
        theirs.last_mut().map(|last| &mut last.orders)
    }
}

impl Prefetch {
    /// Adds the order of a candidate, unless its key was ordered a moment ago. A key whose order has no message counts as
    /// skipped and not as ordered: the next request may order it.
    pub(super) fn add_order(
        &self,
        round: &mut RoundOfOrders,
        before: &Antecedent,
        (candidate, gain_ms): (Candidate, f64),
    ) {
        let asked = &before.query;
        let whose = (&asked.database, asked.identity.scope);
        let parts = QueryParts {
            database: Arc::clone(&asked.database),
            statement: self.learning.statements.spelled(whose, candidate.statement),
            params: candidate.params,
            impersonated: asked.impersonated.clone(),
            identity: Arc::clone(&asked.identity),
        };
        let query = self.learning.statements.query(parts, (&self.hasher, &self.policy.now().allowed));
        let (key, ordering, now) = (query.key, &self.learning.ordering, self.context.now());
        if key == asked.key || ordering.is_recent(&key, now) {
            return;
        }
        let view = self.routing.view();
        let orders = match view.owner(&key) {
            Some(owner) if owner != self.context.node() => round.orders_for(owner, &ordering.messages),
            _ => Some(&mut round.here),
        };
        let Some(orders) = orders else {
            self.skipped(Skip::Unreached);
            return;
        };
        ordering.mark(&key, now);
        if candidate.kind == CandidateKind::Neighbour {
            self.define_pair(candidate.source, before, &query);
        }
        let order = Order {
            query: Arc::new(query),
            rendering: before.rendering,
            source: candidate.source,
            form: candidate.form,
            kind: candidate.kind,
            p: candidate.p,
            steps_left: self.steps_after(before, candidate.kind),
            by: self.context.node().clone(),
        };
        let after_hit = (before.moment == Moment::Hit).then(|| Arc::clone(&before.statement));
        orders.push((order, ExpectedGain { after_hit, gain_ms }));
    }

    /// How many steps of neighbours may follow a candidate's answer. What else is read ahead leads to nothing.
    fn steps_after(&self, before: &Antecedent, kind: CandidateKind) -> u8 {
        let steps_max = self.policy.now().prefetch.neighbour_steps_max;
        let steps_left = match before.moment {
            Moment::Ahead { steps_left, .. } => steps_left,
            _ => steps_max,
        };
        if kind == CandidateKind::Neighbour { steps_left.saturating_sub(1) } else { 0 }
    }

    /// Sends the orders of a round, each message in a task of its own. Own keys need no message.
    pub(super) fn send_orders(self: &Arc<Self>, round: RoundOfOrders) {
        for (order, expected) in round.here {
            expected.note(self.launch(order));
        }
        for (owner, messages) in round.elsewhere {
            for message in messages {
                self.send_message(owner.clone(), message);
            }
        }
    }

    fn send_message(self: &Arc<Self>, owner: NodeName, Message { orders, permit }: Message) {
        if self.learning.has_ended() {
            for _ in &orders {
                self.skipped(Skip::Unreached);
            }
            return;
        }
        let prefetch = Arc::clone(self);
        self.context.spawn(async move {
            let (orders, expected): (Vec<Order>, Vec<ExpectedGain>) = orders.into_iter().unzip();
            let launches = prefetch.ask_owner(&owner, &orders).await;
            expected.iter().zip(launches).for_each(|(expected, launch)| expected.note(launch));
            drop(permit);
        });
    }

    /// Orders prefetches from the owner of their keys. Waits for its answer for at most [`PREFETCH_TELL_MS`].
    async fn ask_owner(&self, owner: &NodeName, orders: &[Order]) -> Vec<Launch> {
        let answer = self.peers.ask(owner, peers::orders(orders), Millis(PREFETCH_TELL_MS)).await;
        let unreached = || orders.iter().map(|_| self.skipped(Skip::Unreached)).collect();
        let launches =
            answer.ok().filter(|launches| launches.len() == orders.len()).unwrap_or_else(unreached);
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
    pub(crate) fn take_orders(self: &Arc<Self>, sent: &[SentOrder]) -> Vec<Launch> {
        let launch = |sent: &SentOrder| match self.read_sent(sent) {
            Ok(order) => self.launch(order),
            Err(why) => {
                tracing::debug!(%why, "an order of another node cannot be read");
                self.skipped(Skip::Unreadable)
            }
        };
        sent.iter().map(launch).collect()
    }

    fn read_sent(&self, sent: &SentOrder) -> Result<Order, BadMessage> {
        let policy = self.policy.now();
        let lexicon = (&self.hasher, &policy.allowed);
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
