//! Leaving in good order: a leaving node tells the new owners about its hottest keys and ends the flights that will not
//! land in time. The node's `leave` decides when, and the ring decides who owns the keys then.
//!
//! The new owner gets cost, rate and hints of a hot key before its first hit, so that the early refresh is planned from
//! that hit on. It finds the value in the store, or asks for it (`invalidate::handover`). These facts are a prior: one
//! run of its own, or a rate that it saw itself, weighs more.
//!
//! Flights that take too long end in this order: this node stops leading · results that wait for their commit are stored
//! (`fetch::commit_queue`) · its leases are released · the flights are dropped · their followers go to the new owner, which leads at once. In any other order a node would lead here again,
//! or wait for a lease that nobody uses:
//!   flights dropped · a follower competes again and leads here · leases released, its lease too.
//! A flight that wins its lease between the first two steps is dropped like the others, and gives it back itself.
//! Refreshes end the same way, though nobody waits for them. From the first step on none begins, and those that wait or
//! sleep end. Those that run are dropped with the flights: otherwise their runs would go on beside the new owner's,
//! which has got their lease (I2).

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{FORWARDS_MAX, HANDOVER_PLANS_MAX, HANDOVER_TELL_MS, PEERS_TOLD_AT_A_TIME};
use hopcache_core::node::NodeName;
use hopcache_core::ring::Ring;
use hopcache_core::time::Millis;

use crate::model::ask::Ask;
use crate::model::event::{Event, HandoverWord};
use crate::model::inspection::KeyPlan;
use crate::model::outcome::{FailureKind, Role};
use crate::path::Path;
use crate::path::answers::LocalAnswer;
use crate::path::forward::Hop;
use crate::peers;

/// A key, ordered by its rate in thousandths of a request per second.
type Hot = Reverse<(u64, QueryKey)>;

impl Path {
    /// Tells the nodes that own keys in `ring` the facts of this node's hottest keys. Returns the number of keys.
    pub async fn tell_plans(&self, ring: &Ring) -> usize {
        let by_owner = self.hottest_by_owner(ring);
        let told = by_owner.into_iter().map(async |(node, plans)| {
            let answer = self.peers.ask(&node, peers::plans(&plans), Millis(HANDOVER_TELL_MS)).await;
            if answer.is_err() {
                self.context.note(Event::Handover(HandoverWord::Unreached));
                return 0;
            }
            let count = u32::try_from(plans.len()).unwrap_or(u32::MAX);
            self.context.note(Event::Handover(HandoverWord::Notified(count)));
            plans.len()
        });
        stream::iter(told)
            .buffer_unordered(PEERS_TOLD_AT_A_TIME)
            .fold(0, async |sum, count| sum + count)
            .await
    }

    fn hottest_by_owner(&self, ring: &Ring) -> BTreeMap<NodeName, Vec<(QueryKey, KeyPlan)>> {
        let now = self.context.now();
        let hottest: RefCell<BinaryHeap<Hot>> = RefCell::default();
        self.cache.look_at_all(&|key, copy| {
            let Some(rate_per_s) = copy.heat().rate_per_s(now).filter(|_| copy.near_hits().is_none()) else {
                return;
            };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
            let heat = (rate_per_s * 1_000.0) as u64;
            let mut hottest = hottest.borrow_mut();
            hottest.push(Reverse((heat, *key)));
            if hottest.len() > HANDOVER_PLANS_MAX {
                hottest.pop();
            }
        });
        let mut by_owner: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for Reverse((_, key)) in hottest.into_inner().into_sorted_vec() {
            if let Some(owner) = ring.owner(&key).filter(|owner| *owner != self.context.node())
                && let Some(copy) = self.cache.look_for_new_owner(&key)
            {
                by_owner
                    .entry(owner.clone())
                    .or_default()
                    .push((key, self.cache.key_stats().key_plan(&key, &copy, now)));
            }
        }
        by_owner
    }

    /// Ends the refreshes and the flights that lead here, and sends the waiters to the keys' new owners, if there is
    /// another node. Returns the number of flights. Call it under a deadline: the store may not take the leases back.
    pub async fn hand_on_flights(&self, store_wait_ms: Millis) -> usize {
        let view = self.routing.view();
        if !view.members().iter().any(|node| node != self.context.node()) {
            return 0;
        }
        self.context.lifecycle().stop_leading();
        self.refresh.end();
        let flights = self.fetch.flights().len();
        self.fetch.give_back_leases_within(store_wait_ms).await;
        self.context.lifecycle().hand_on_flights();
        flights
    }

    /// Waits until no request of another node is under way here. Call it under a deadline.
    pub async fn peers_are_answered(&self) {
        self.forwarded.close();
        self.forwarded.wait().await;
    }

    /// The answer to a request that would lead here or wait for a flight.
    pub(super) fn hand_on(&self) -> LocalAnswer {
        self.context.note(Event::Handover(HandoverWord::HandedOn));
        LocalAnswer::Elsewhere
    }

    /// The key's new owner answers this node's own client, whose flight was ended. For a forwarded request the entry
    /// node is asked to do the same (I8: this node does not forward it).
    pub(super) async fn at_new_owner(self: &Arc<Self>, ask: &Ask) -> LocalAnswer {
        let view = self.routing.view();
        let others = view.order(&ask.query.key).filter(|node| *node != self.context.node());
        for node in others.take(FORWARDS_MAX) {
            if let Hop::Answered(here) = self.forward(ask, node).await {
                return here;
            }
        }
        LocalAnswer::Answered(self.failed(ask, FailureKind::Overloaded.into(), Role::Joined))
    }

    /// Waits for flights to land, then gives back the remaining leases. Call it under a deadline; nothing starts
    /// afterwards that outlives it. No refresh begins any more, and those that wait or sleep end at once.
    pub async fn finish(&self) {
        self.refresh.end();
        self.prefetch.end();
        self.fetch.end_late_commits();
        self.context.tasks().close();
        self.context.tasks().wait().await;
        // A prefetch that is still unused stays pending.
        self.prefetch.end_pending();
        self.fetch.give_back_leases().await;
    }
}
