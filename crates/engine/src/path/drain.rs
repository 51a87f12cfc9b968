//! Leaving in good order: what a node that leaves tells of its hottest keys, and the flights that will not end in time. It
//! decides neither when (the node's `leave` does) nor who owns the keys then (the ring does).
//!
//! Of a hot key the new owner gets cost, rate and hints before it serves its first hit, so that its early refresh is planned
//! from that hit on. The value it finds in the store, or asks for (`invalidate::handover`). What is learned so is a prior: one
//! run of its own, or a rate that it saw itself, weighs more.
//!
//! Flights that go on for too long: this node leads no more · its leases are released · the flights are dropped · their
//! followers go to the new owner, which leads at once. In any other order a node would lead here again, or wait for a lease that
//! nobody uses:
//!   flights dropped · a follower competes again and leads here · leases released, its too.
//! A flight that wins its lease between the first two steps is dropped like the others, and gives it back itself. Refreshes go
//! the same way, though nobody waits for them: with the first step none begins any more, and those that wait or sleep end; those
//! that run are dropped with the flights. Their runs would go on beside the new owner's, whose lease theirs has become (I2).

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
use crate::peers::TellPlans;

/// A key's rate first, in thousandths of a request per second.
type Hot = Reverse<(u64, QueryKey)>;

impl Path {
    /// Tells the nodes that own keys in `ring` what this one knows of its hottest ones. Returns of how many.
    pub async fn tell_plans(&self, ring: &Ring) -> usize {
        let by_owner = self.hottest_by_owner(ring);
        let told = by_owner.into_iter().map(async |(node, plans)| {
            let answer = self.peers.ask(&node, &TellPlans(&plans), Millis(HANDOVER_TELL_MS)).await;
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
                    .push((key, self.cache.pace().key_plan(&key, &copy, now)));
            }
        }
        by_owner
    }

    /// Ends the flights that lead here and sends those who wait for them to the keys' new owners, if there is anybody to
    /// send them to; and the refreshes. Returns how many flights that were. To be called under a deadline: the store may
    /// not take the leases back.
    pub async fn hand_on_flights(&self, store_wait_ms: Millis) -> usize {
        let view = self.routing.view();
        if !view.members().iter().any(|node| node != self.context.node()) {
            return 0;
        }
        self.context.lifecycle().stop_leading();
        self.refresh.end();
        let flights = self.fetch.flights().len();
        tokio::select! {
            biased;
            () = self.fetch.give_back_leases() => {}
            () = self.context.sleep(store_wait_ms) => {}
        }
        self.context.lifecycle().hand_on_flights();
        flights
    }

    /// Waits for a moment in which no request of another node is under way here. To be called under a deadline.
    pub async fn peers_are_answered(&self) {
        self.forwarded.close();
        self.forwarded.wait().await;
    }

    /// What a request becomes that would lead here or wait for a flight.
    pub(super) fn hand_on(&self) -> LocalAnswer {
        self.context.note(Event::Handover(HandoverWord::HandedOn));
        LocalAnswer::Elsewhere
    }

    /// This node's own client, whose flight was ended, is answered by the key's new owner. A forwarded request's entry node
    /// is told to do the same (I8: it is not forwarded from here).
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

    /// Waits for flights to land, then gives back the leases that are left. Nothing is started afterwards that outlives the
    /// caller's deadline; call it under one. No refresh begins any more, and those that wait or sleep end at once.
    pub async fn finish(&self) {
        self.refresh.end();
        self.prefetch.end();
        self.context.tasks().close();
        self.context.tasks().wait().await;
        // A prefetch that nobody has used until now stays pending.
        self.prefetch.end_pending();
        self.fetch.give_back_leases().await;
    }
}
