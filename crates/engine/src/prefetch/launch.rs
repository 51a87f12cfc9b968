//! An order at the owner of the candidate's key: whether it is carried out, and the flight that does. It decides nothing of what is
//! ordered, and it waits for nobody: what cannot be run at once is not run.
//!
//! The flight is one of the engine's own table, under the store's lease, like a miss: so I1 and I3 hold for it as for a
//! miss, and a demand request that comes meanwhile joins it. It differs where a miss would wait or be answered with a
//! failure. Then its leader is dropped: who joined competes again, as if nobody had flown, and hears nothing of it:
//!
//! - A lease that somebody else holds: not waited for. A store that does not answer: no run without a lease.
//! - No slot free at once, a failed run, a statement that the server does not call a read (I6), or refuses.
//!
//! Nor does a client hear of it afterwards: a failed prefetch holds back no run of the key (`setbacks.rs`), marks no copy
//! (`spares.rs`) and does not count as shed (`restraint.rs`). The origin's breaker hears of it as of any call: it decides by what
//! it sees of the server whether anybody is sent there, a run that only takes too long is nothing to it but a reason to
//! probe, and it opens for what a client would have met in that moment too.
//!
//! Former owners are not asked for a value (`handover.rs`): what they give for a prediction would be taken for used.

use std::sync::Arc;

use hopcache_core::lease::{Grant, Token};
use hopcache_core::limits::{
    PREFETCH_OVERLAP_LEFT_PERCENT, PREFETCH_RUNS_UNSLOTTED, PREFETCH_SLOTS_PERCENT, PREFETCH_STALE_P_MIN,
    PREFETCH_TELL_MS, VERDICT_TEXT_BYTES_MAX,
};
use hopcache_core::result::StatementKind;
use hopcache_core::time::Millis;
use hopcache_core::turns::RunClass;
use hopcache_learning::gain::CandidateKind;

use super::tickets::Place;
use super::{Launch, Learner, Order, Skip};
use crate::ask::Hints;
use crate::classify::Verdict;
use crate::copy::{Life, SharedCopy};
use crate::engine::Engine;
use crate::flight::Seat;
use crate::holdings::Held;
use crate::lead::{Errand, KeyLeader, Landed, Landing, StaleUse};
use crate::message::encode_prefetch;
use crate::outcome::{Cause, Event, PrefetchWord};
use crate::ports::{OriginFault, StoreError};
use crate::refresh::older_than;

impl Engine {
    /// Who is told what becomes of launches; whether this was the first to be named.
    pub fn teach_by(&self, learner: Arc<dyn Learner>) -> bool {
        self.prefetch.teach(learner)
    }

    /// What a probability of this kind is worth, by what became of the launches of this node's keys.
    #[must_use]
    pub fn calibrated(&self, kind: CandidateKind, p: f64) -> f64 {
        self.prefetch.calibrated(kind, p)
    }

    /// Launched entries of which nobody knows yet whether they are used.
    #[must_use]
    pub fn prefetches_pending(&self) -> usize {
        self.prefetch.pending()
    }

    /// Ends the launches whose copies are dead. Called each time the invalidation log is read.
    pub fn sweep_prefetches(&self) {
        self.prefetch.sweep(self.now());
    }

    /// Launches that the node's budget allows now.
    #[must_use]
    pub fn prefetch_tokens(&self) -> i64 {
        self.prefetch.tokens()
    }

    /// Prefetches that are under way here, from their order to their end.
    #[must_use]
    pub fn prefetches_under_way(&self) -> usize {
        self.prefetch.flying()
    }

    /// Orders a prefetch of the owner of its key, which may be this node. Waits for the owner's word, and no longer than
    /// [`PREFETCH_TELL_MS`].
    pub async fn order_prefetch(self: &Arc<Self>, order: Order) -> Launch {
        let view = self.ports.routing.view();
        match view.owner(&order.query.key) {
            Some(owner) if *owner != self.me.node => {
                let (message, timeout_ms) = (encode_prefetch(&order), Millis(PREFETCH_TELL_MS));
                let answer = self.ports.peers.forward(owner, message, timeout_ms).await;
                let byte = answer.ok().and_then(|answer| answer.first().copied());
                let launch = byte.map_or_else(|| self.skipped(Skip::Unreached), Launch::of_byte);
                if launch == Launch::Skipped(Skip::Refused) {
                    // It would have to fail at the owner of each of its keys else.
                    self.learning.feedback.heard_refused(order.form);
                }
                launch
            }
            _ => self.launch_prefetch(order),
        }
    }

    /// Carries out an order for a key of this node, or not, at once: what is launched runs in a task of the engine's.
    pub fn launch_prefetch(self: &Arc<Self>, order: Order) -> Launch {
        match self.begin_prefetch(order) {
            Ok(()) => Launch::Launched,
            Err(skip) => self.skipped(skip),
        }
    }

    fn skipped(&self, skip: Skip) -> Launch {
        self.note(Event::Prefetch(PrefetchWord::Skipped(skip)));
        Launch::Skipped(skip)
    }

    fn begin_prefetch(self: &Arc<Self>, order: Order) -> Result<(), Skip> {
        self.may_prefetch(&order)?;
        let key = order.query.key;
        // Before the seat: who joins the flight finds its place.
        let place = self.prefetch.begin(&key, self.prefetches_max())?;
        let Seat::Lead(leader) = self.flights.join(&key) else { return Err(Skip::InFlight) };
        let engine = Arc::clone(self);
        self.tasks.spawn(async move {
            let leaving = Arc::clone(&engine);
            tokio::select! {
                biased;
                () = engine.lead_prefetch(leader, (order, place)) => {}
                // Dropped, it gives its lease back, and who joined is sent elsewhere.
                () = leaving.flights_handed_on() => {}
            }
        });
        Ok(())
    }

    /// F40: predictions, right or wrong, have a tenth of the origin's slots.
    fn prefetches_max(&self) -> usize {
        let slots = self.ports.origin.slots();
        slots.map_or(PREFETCH_RUNS_UNSLOTTED, |slots| (slots * PREFETCH_SLOTS_PERCENT / 100).max(1))
    }

    /// Everything that speaks against an order and can be seen at once, what is cheapest first.
    fn may_prefetch(&self, order: &Order) -> Result<(), Skip> {
        let (policy, query) = (&self.policy, &order.query);
        if !policy.prefetch.is_on || policy.ttl_ms == Millis::ZERO || !policy.collapses {
            return Err(Skip::Off);
        }
        if self.leads_no_more() || self.queue.is_ended() {
            return Err(Skip::Elsewhere);
        }
        if self.ports.routing.view().owner(&query.key) != Some(&self.me.node) {
            return Err(Skip::Elsewhere);
        }
        match self.verdict(query) {
            Verdict::Bypass(_) => return Err(Skip::Write),
            // Its word would not be remembered from one question to the next.
            Verdict::Unasked if query.normal.as_str().len() > VERDICT_TEXT_BYTES_MAX => {
                return Err(Skip::Unclassified);
            }
            Verdict::Unasked | Verdict::Read => {}
        }
        if self.prefetch.is_refused(order.form) {
            return Err(Skip::Refused);
        }
        if self.is_fresh_for(order) {
            return Err(Skip::Fresh);
        }
        if self.flights.followers(&query.key).is_some() || self.refreshes.followers(&query.key).is_some() {
            return Err(Skip::InFlight);
        }
        if self.is_held_back_ahead(&query.key) {
            return Err(Skip::HeldBack);
        }
        if self.too_large.lock().peek(&query.key).is_some_and(|until| *until > self.now()) {
            return Err(Skip::TooLarge);
        }
        self.has_origin_room(order)
    }

    /// An entry that is to be read anew before it expires is fresh while more than a tenth of its TTL is left, and there is
    /// nothing to do where there is none; any other is fresh while anything is left. What is stale and may still be served
    /// counts as fresh for what is rather not asked than asked: who asks waits for nothing, and has it refreshed.
    fn is_fresh_for(&self, order: &Order) -> bool {
        let is_overlap = order.kind == CandidateKind::Overlap;
        let Some(copy) = self.own_copy(&order.query.key) else { return is_overlap };
        let left = match copy.life(self.now()) {
            Life::Fresh(left) => left,
            Life::Stale(_) => return order.p < PREFETCH_STALE_P_MIN,
            Life::Dead => return false,
        };
        !is_overlap
            || left.0.saturating_mul(100) > copy.ttl_ms().0.saturating_mul(PREFETCH_OVERLAP_LEFT_PERCENT)
    }

    /// Nothing is predicted at the cost of those who ask now.
    fn has_origin_room(&self, order: &Order) -> Result<(), Skip> {
        let origin = &self.ports.origin;
        let is_well = origin.is_reachable() && !origin.refuses_us() && self.store_is_reachable();
        if !is_well || self.is_shedding() {
            return Err(Skip::Degraded);
        }
        let is_half_full = origin.slots().is_some_and(|slots| origin.in_flight() * 2 > slots);
        let (identity, timeout_ms) = (&order.query.identity, self.policy.run_timeout_ms);
        if is_half_full || origin.would_shed(identity, RunClass::Prefetch, timeout_ms).is_some() {
            return Err(Skip::OriginBusy);
        }
        Ok(())
    }

    async fn lead_prefetch(self: Arc<Self>, leader: KeyLeader, (order, mut place): (Order, Place)) {
        let mut errand = self.errand_of_order(&order);
        let landing = match self.fly_ahead(&mut errand, &order, &mut place).await {
            Ok(landing) => landing,
            Err(skip) => {
                self.skipped(skip);
                return;
            }
        };
        match &landing {
            Landing::Ran { copy, .. } | Landing::Found(copy) | Landing::Stale(copy) => {
                if let Some(ticket) = &errand.ticket {
                    ticket.is_dead_at(copy.dead_at);
                }
            }
            Landing::Failed(error) => {
                if error.kind.refuses_statement() {
                    self.prefetch.refused(&order);
                    self.forget_what_is_refused(&errand).await;
                }
                return;
            }
            Landing::NotARead(_) | Landing::HeldBack { .. } => return,
        }
        self.keep(&errand, &landing);
        #[cfg(hopcache_seeded)]
        self.observe_prefetched(&errand);
        let key = errand.query.key;
        if !leader.is_attached() {
            // As in `lead.rs`: a purge came between our read and our keeping it.
            self.ports.memory.remove(&key);
        }
        let whose = errand.query.identity.fingerprint;
        let followers = leader.land(Arc::new(Landed { whose, landing }));
        self.note(Event::Landed { followers });
    }

    /// No later outage may bring back what the server would not give any more (I11), whoever found out.
    async fn forget_what_is_refused(&self, errand: &Errand) {
        let key = errand.query.key;
        if self.own_copy(&key).is_some() {
            let _telling = self.refusals.acquire().await;
            self.forget_refused(&key);
            self.tell_refused(&key, true).await;
        }
    }

    fn errand_of_order(&self, order: &Order) -> Errand {
        let held = self.own_copy(&order.query.key);
        Errand {
            query: Arc::clone(&order.query),
            form: order.rendering,
            hints: Hints::default(),
            traceparent: None,
            cause: Cause::Prefetch,
            // The copy that it is to replace, if there is one, is no answer to it.
            age_max_ms: held.map(|copy| older_than(&copy, self.now())),
            stale_use: StaleUse::Ignore,
            until: None,
            ticket: None,
        }
    }

    /// The server's word · the lease · the run. With the lease, and not before, it is a launch.
    async fn fly_ahead(
        &self,
        errand: &mut Errand,
        order: &Order,
        place: &mut Place,
    ) -> Result<Landing, Skip> {
        // Who joins waits for it: given up once it takes longer than its pattern ever does, it costs them no more than that.
        let run_ms_max = self.history.lock().run_ms_max(&order.query);
        let until = self.now() + run_ms_max;
        errand.until = Some(until);
        match self.server_word_ahead(&errand.query, until).await {
            Ok(StatementKind::Read) => {}
            Ok(_) => return Err(Skip::Write),
            Err(error) if error.kind.refuses_statement() => {
                self.prefetch.refused(order);
                return Err(Skip::Refused);
            }
            Err(error) if matches!(error.kind, OriginFault::Overloaded | OriginFault::TooManyRuns) => {
                return Err(Skip::OriginBusy);
            }
            Err(_) => return Err(Skip::Unclassified),
        }
        let (token, lease_ms) = match self.win_ahead(errand).await? {
            Ahead::Lease(token, lease_ms) => (token, lease_ms),
            Ahead::Value(copy) => {
                // What is in memory already is not put there again: its ticket would end with it.
                let is_held = self.own_copy(&errand.query.key).is_some_and(|held| held.token == copy.token);
                if is_held {
                    return Err(Skip::Fresh);
                }
                self.skipped(Skip::Fresh);
                return Ok(Landing::Found(copy));
            }
        };
        // Given back where it is not used.
        let held = Held::new(self, errand.query.key, token);
        self.has_origin_room(order)?;
        errand.ticket = Some(place.open(order));
        Ok(self.run_leased(errand, held.handed_on(), lease_ms).await)
    }

    /// One question to the store, and a second one only where the first was not answered: a lease that was granted unheard
    /// (F21) would keep demand requests waiting until it lapsed. By the nonce it is known for ours.
    async fn win_ahead(&self, errand: &Errand) -> Result<Ahead, Skip> {
        let (key, lease_ms) = (&errand.query.key, self.lease_ms(&errand.query));
        let ask = self.lease_ask(errand, lease_ms);
        let asked = self.now();
        let mut grant = self.ports.store.get_or_lease(key, &ask).await;
        self.saw_store(&grant);
        if grant == Err(StoreError::TimedOut) {
            grant = self.ports.store.get_or_lease(key, &ask).await;
            self.saw_store(&grant);
        }
        let token = match grant {
            Err(_) => return Err(Skip::Degraded),
            Ok(Grant::Value(stored)) => {
                // A corrupt one is a demand request's to remove.
                let copy = self.decode_stored(&errand.query, &stored, asked).ok_or(Skip::Degraded)?;
                return Ok(Ahead::Value(copy));
            }
            Ok(Grant::Busy { token, .. }) if token.nonce == ask.nonce => token,
            Ok(Grant::Busy { .. }) => return Err(Skip::InFlight),
            Ok(Grant::Lease { token, kind, .. }) => {
                self.note(Event::LeaseGrant(kind));
                token
            }
        };
        self.holdings.add(*key, token);
        Ok(Ahead::Lease(token, lease_ms))
    }
}

/// How the one question for the lease ended, where that was well.
enum Ahead {
    /// There is a fresh value.
    Value(SharedCopy),
    /// The right to run, for so long.
    Lease(Token, Millis),
}
