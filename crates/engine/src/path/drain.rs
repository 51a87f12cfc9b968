//! What a node that leaves hands over: what it knows of its hottest keys, and the flights that will not end in time. It
//! decides neither when (the node's `leave` does) nor who owns the keys then (the ring does).
//!
//! Of a hot key the new owner gets cost, rate and hints before it serves its first hit, so that its early refresh is
//! planned from that hit on; the value it finds in the store, or asks for (`handover.rs`). What is learned so is a prior: one
//! run of its own, or a rate that it saw itself, weighs more.
//!
//! Flights that go on for too long: this node leads no more · its leases are released · the flights are dropped · who
//! followed them goes to the new owner, which leads at once. In any other order somebody would lead here again, or
//! wait for a lease that nobody uses:
//!   flights dropped · a follower competes again and leads here · leases released, its too.
//! A flight that wins its lease between the first two steps is dropped like the others, and gives it back itself.
//! Refreshes go the same way, though nobody waits for them: with the first step none begins any more, and those that wait or
//! sleep end; those that run are dropped with the flights. Their runs would go on beside the new owner's, whose lease
//! theirs has become (I2).

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{FORWARDS_MAX, HANDOVER_PLANS_MAX, HANDOVER_TELL_MS, PEERS_TOLD_AT_A_TIME};
use hopcache_core::node::NodeName;
use hopcache_core::refresh::Cost;
use hopcache_core::ring::Ring;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_packstream::Writer;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ask::Ask;
use crate::copy::MemoryCopy;
use crate::engine::Engine;
use crate::here::Here;
use crate::message::{KeyPlan, encode_plans};
use crate::outcome::{Event, FailureKind, HandoverWord, Role};
use crate::route::Hop;

/// How far the leaving has come.
#[derive(Default)]
pub(crate) struct Leaving {
    /// No flight begins here any more.
    leads_no_more: AtomicBool,
    /// And those under way are dropped.
    handed_on: CancellationToken,
    /// Whoever waits still is told to go elsewhere: the node ends.
    turned_away: CancellationToken,
    /// Requests that other nodes sent and wait for.
    pub(crate) forwarded: TaskTracker,
}

/// A key's rate first, in thousandths of a request per second.
type Hot = Reverse<(u64, QueryKey)>;

impl Engine {
    /// Tells the nodes that own keys in `ring` what this one knows of its hottest ones. Returns of how many.
    pub async fn tell_plans(&self, ring: &Ring) -> usize {
        let by_owner = self.hottest_by_owner(ring);
        let told = by_owner.into_iter().map(async |(node, plans)| {
            let message = encode_plans(&plans);
            let answer = self.ports.peers.forward(&node, message, Millis(HANDOVER_TELL_MS)).await;
            if answer.is_err() {
                self.note(Event::Handover(HandoverWord::Unreached));
                return 0;
            }
            let count = u32::try_from(plans.len()).unwrap_or(u32::MAX);
            self.note(Event::Handover(HandoverWord::Told(count)));
            plans.len()
        });
        stream::iter(told)
            .buffer_unordered(PEERS_TOLD_AT_A_TIME)
            .fold(0, async |sum, count| sum + count)
            .await
    }

    fn hottest_by_owner(&self, ring: &Ring) -> BTreeMap<NodeName, Vec<(QueryKey, KeyPlan)>> {
        let now = self.now();
        let hottest: RefCell<BinaryHeap<Hot>> = RefCell::default();
        self.ports.memory.look_at(&|key, copy| {
            let Some(rate_per_s) = copy.heat.rate_per_s(now).filter(|_| copy.near_hits().is_none()) else {
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
            if let Some(owner) = ring.owner(&key).filter(|owner| **owner != self.me.node)
                && let Some(copy) = self.ports.memory.get(&key)
            {
                by_owner.entry(owner.clone()).or_default().push((key, self.plan_of(&key, &copy, now)));
            }
        }
        by_owner
    }

    /// What is known of a key's next refresh.
    pub(crate) fn plan_of(&self, key: &QueryKey, copy: &MemoryCopy, now: MonoTime) -> KeyPlan {
        let known = self.history.lock().seen(key, copy.heat.rate_per_s(now));
        KeyPlan {
            cost: known.cost().unwrap_or_else(|| Cost::of_run(copy.cost_ms)),
            rate_per_s: copy.heat.rate_per_s(now),
            degree: known.degree().or_else(|| self.degrees.learned(key, now)),
            volatility: known.volatility(),
        }
    }

    pub(crate) fn learn(&self, key: &QueryKey, plan: KeyPlan) {
        self.history.lock().learn(key, plan);
    }

    pub(crate) fn learn_all(&self, plans: &[(QueryKey, KeyPlan)]) -> Bytes {
        for (key, plan) in plans {
            self.learn(key, *plan);
        }
        let count = u32::try_from(plans.len()).unwrap_or(u32::MAX);
        self.note(Event::Handover(HandoverWord::Learned(count)));
        let mut writer = Writer::new();
        writer.int(count.into());
        writer.into_bytes().into()
    }

    /// Ends the flights that lead here and sends those who wait for them to the keys' new owners, if there is anybody to
    /// send them to; and the refreshes. Returns how many flights that were. To be called under a deadline: the store may
    /// not take the leases back.
    pub async fn hand_on_flights(&self, store_patience_ms: Millis) -> usize {
        let view = self.ports.routing.view();
        if !view.members().iter().any(|node| *node != self.me.node) {
            return 0;
        }
        self.leaving.leads_no_more.store(true, Ordering::Release);
        self.queue.end();
        let flights = self.flights.len();
        tokio::select! {
            biased;
            () = self.give_back_leases() => {}
            () = self.ports.clock.sleep(store_patience_ms) => {}
        }
        self.leaving.handed_on.cancel();
        flights
    }

    /// Answers this node's own clients that wait still: it ends before their answers can come. Runs go on meanwhile.
    pub fn turn_away(&self) {
        self.leaving.turned_away.cancel();
    }

    /// Done when clients that wait are to be told so ([`FailureKind::Leaving`]).
    pub async fn turned_away(&self) {
        self.leaving.turned_away.cancelled().await;
    }

    /// Waits for a moment in which no request of another node is under way here. To be called under a deadline.
    pub async fn peers_are_answered(&self) {
        self.leaving.forwarded.close();
        self.leaving.forwarded.wait().await;
    }

    pub(crate) fn leads_no_more(&self) -> bool {
        self.leaving.leads_no_more.load(Ordering::Acquire)
    }

    /// Done when flights that lead here, and refreshes, are to be dropped.
    pub(crate) async fn flights_handed_on(&self) {
        self.leaving.handed_on.cancelled().await;
    }

    /// What a request becomes that would lead here or wait for a flight.
    pub(crate) fn hand_on(&self) -> Here {
        self.note(Event::Handover(HandoverWord::HandedOn));
        Here::Elsewhere
    }

    /// This node's own client, whose flight was ended, is answered by the key's new owner. A forwarded request's entry node
    /// is told to do the same (I8: it is not forwarded from here).
    pub(crate) async fn at_new_owner(self: &Arc<Self>, ask: &Ask) -> Here {
        let view = self.ports.routing.view();
        let others = view.order(&ask.query.key).filter(|node| **node != self.me.node);
        for node in others.take(FORWARDS_MAX) {
            if let Hop::Answered(here) = self.forward(ask, node).await {
                return here;
            }
        }
        Here::Answered(self.failed(ask, FailureKind::Overloaded.into(), Role::Joined))
    }
}
