//! What a hit brings about beside its answer: that its entry is read anew, before it expires or, at the latest, when
//! it is met stale (stale while revalidate, RFC 5861).
//!
//! When a fresh entry is due is [`hopcache_core::refresh`]'s to say; here is who is asked: whoever serves from its
//! memory, which is the key's owner. A hit counts itself on its copy and compares what is left of the soft TTL with
//! one number there (`pace.rs`). Who runs and who waits is `queue.rs`'; how a try goes and ends is `attempt.rs`'.
//!
//! I1 and early refreshes: a freshness window begins with a run. An early refresh that was stored begins the next
//! one, and the store's lease keeps it to one: it asks for nothing as old as the copy that it is to replace
//! (`LeaseAsk::age_max_ms`), so a node that comes second is given the first one's value and does not run.
//!
//! Nothing here makes a request wait, and nothing runs without a lease.

mod attempt;
mod pace;
mod queue;

use std::sync::Arc;

use hopcache_core::key::QueryKey;
use hopcache_core::limits;
use hopcache_core::refresh::{Cost, Heat, KeyFacts, Plan};
use hopcache_core::time::{Millis, MonoTime};

use crate::copy::{Life, MemoryCopy, SharedCopy};
use crate::degree::DegreeWish;
use crate::engine::Engine;
use crate::flight::Seat;
use crate::holdings::Held;
use crate::lead::{Errand, Landing};
use crate::outcome::{Event, RefreshWord};
use crate::span::scaled;
use attempt::{Replaced, Ticket};
pub(crate) use pace::Pace;
pub(crate) use queue::Queue;

/// Of what age at the most an entry is newer than this copy.
pub(crate) fn older_than(copy: &MemoryCopy, now: MonoTime) -> Millis {
    Replaced::of(copy).age_max_ms(now)
}

impl Engine {
    /// Takes note of `hits` requests that `copy` has answered, or is about to, and begins its refresh if they bring
    /// it about. `errand` makes what the run is done by from one of these requests; it is called
    /// seldom. Every hit comes by here: the own clients', forwarded ones, and those that near copies report.
    pub(crate) fn consider_refresh(
        self: &Arc<Self>,
        key: &QueryKey,
        copy: &SharedCopy,
        (hits, now): (u32, MonoTime),
        errand: impl Fn() -> Option<Errand>,
    ) {
        copy.heat.arrive(hits);
        match copy.life(now) {
            Life::Fresh(left) if !copy.pace.looks_at(left) => return,
            Life::Fresh(left) => {
                if !self.is_early_due(key, copy, (left, now), hits, &errand) {
                    return;
                }
            }
            Life::Stale(_) => {
                if copy.pace.is_first_late() {
                    self.note(Event::Late);
                }
                if !copy.is_refresh_due(now) {
                    return;
                }
            }
            Life::Dead => return,
        }
        if let Some(errand) = errand() {
            self.refresh(copy, errand);
        }
    }

    /// The copy that a flight of its key goes past, if it has expired not long ago: dead, or older than its request
    /// takes. One that the store never took has no refresh that could be late.
    pub(crate) fn expired_copy(&self, key: &QueryKey) -> Option<SharedCopy> {
        let (copy, now) = (self.own_copy(key)?, self.now());
        let is_expired = !matches!(copy.life(now), Life::Fresh(_));
        (is_expired && copy.token.is_some() && now < copy.late_until()).then_some(copy)
    }

    /// A flight that went past an expired copy has landed. Where it found a value, somebody's refresh was in time.
    pub(crate) fn note_late_miss(&self, expired: &MemoryCopy, landing: &Landing) {
        match landing {
            Landing::Found(_) | Landing::Stale(_) | Landing::NotARead(_) => {}
            Landing::Ran { .. } | Landing::Failed(_) | Landing::HeldBack { .. } => {
                if expired.pace.is_first_late() {
                    self.note(Event::Late);
                }
            }
        }
    }

    /// Draws for hits on a copy of which so much is left.
    fn is_early_due(
        self: &Arc<Self>,
        key: &QueryKey,
        copy: &MemoryCopy,
        (left, now): (Millis, MonoTime),
        hits: u32,
        errand: &impl Fn() -> Option<Errand>,
    ) -> bool {
        if !self.may_refresh_early(copy) {
            copy.pace.never_early();
            return false;
        }
        if !copy.is_refresh_due(now) {
            return false;
        }
        let plan = copy.pace.plan(left).unwrap_or_else(|| {
            self.consider_degree(key, copy, (left, now), errand);
            self.plan_anew(key, copy, (left, now))
        });
        #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ms")]
        let left_ms = left.0 as f64;
        left_ms <= plan.window_ms() && plan.fires(left_ms, hits, self.unit())
    }

    pub(crate) fn may_refresh_early(&self, copy: &MemoryCopy) -> bool {
        self.policy.refresh.is_early
            // Not stored, so no other node may learn of what a refresh brings.
            && copy.token.is_some()
            && !self.is_below_ttl_min(copy.ttl_ms())
    }

    /// Whether an entry lives too short for an early refresh. Its TTL is known with its jitter only: one that a
    /// caller's hint made shorter than `ttl_ms_min`, but by less than the jitter, may count as long enough.
    pub(crate) fn is_below_ttl_min(&self, ttl_ms: Millis) -> bool {
        let (policy, ttl_ms_min) = (&self.policy, self.policy.refresh.ttl_ms_min);
        policy.ttl_ms < ttl_ms_min || ttl_ms < scaled(ttl_ms_min, 1.0 - policy.ttl_jitter)
    }

    /// The plan that a fresh copy's refresh goes by; none at all for one that is not refreshed early.
    pub(crate) fn plan_in_force(&self, key: &QueryKey, copy: &MemoryCopy, now: MonoTime) -> Plan {
        if !self.may_refresh_early(copy) {
            return Plan::default();
        }
        let left = copy.fresh_until.since(now);
        copy.pace.plan(left).unwrap_or_else(|| self.plan_anew(key, copy, (left, now)))
    }

    fn plan_anew(&self, key: &QueryKey, copy: &MemoryCopy, (left, now): (Millis, MonoTime)) -> Plan {
        let plan = self.policy.refresh.rule.plan(&self.facts_of(key, copy, now));
        copy.pace.keep(&plan, left, copy.ttl_ms());
        plan
    }

    /// What is known of a key when its plan is made: the one place where that comes together.
    pub(crate) fn facts_of(&self, key: &QueryKey, copy: &MemoryCopy, now: MonoTime) -> KeyFacts {
        let rate_per_s = copy.heat.rate_per_s(now);
        let known = self.history.lock().seen(key, rate_per_s);
        KeyFacts {
            ttl_ms: copy.ttl_ms(),
            // An entry that another node stored brings what its run took.
            cost: known.cost().unwrap_or_else(|| Cost::of_run(copy.cost_ms)),
            rate_per_s,
            degree: known.degree().or_else(|| self.degrees.learned(key, now)),
            volatility: known.volatility().unwrap_or(1.0),
        }
    }

    /// Sees to it that the plans to come have the degree of the key's anchor, where they heed it.
    fn consider_degree(
        self: &Arc<Self>,
        key: &QueryKey,
        copy: &MemoryCopy,
        (left, now): (Millis, MonoTime),
        errand: &impl Fn() -> Option<Errand>,
    ) {
        if !self.lacks_degree(key, now) {
            return;
        }
        let wish = self.degree_wish(key, &self.facts_of(key, copy, now), (left, copy.heat.arrivals()));
        if wish != DegreeWish::Nothing
            && let Some(errand) = errand()
            && errand.hints.degree.is_none()
        {
            self.learn_degree_as(&errand.query, wish);
        }
    }

    /// Counting for a new copy of a key, which begins with the rate that the one before had.
    pub(crate) fn heat_of(&self, key: &QueryKey) -> Heat {
        let now = self.now();
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        let seen = self.own_copy(key).and_then(|copy| copy.heat.rate_per_s(now)).map(|rate| rate as f32);
        Heat::new(now, seen.or_else(|| self.history.lock().rate_per_s(key)))
    }

    /// Refreshes a copy in the background, at most once at a time here; the lease keeps it to once in the cluster.
    fn refresh(self: &Arc<Self>, copy: &MemoryCopy, errand: Errand) {
        let now = self.now();
        let put_off = |pause_ms| copy.put_off_refresh(now + pause_ms);
        if let Some(left_ms) = self.held_back(&errand.query.key) {
            return put_off(left_ms);
        }
        let Seat::Lead(seat) = self.refreshes.join(&errand.query.key) else {
            // One waits, runs or sleeps already.
            return put_off(Millis(limits::REFRESH_DROPPED_MS));
        };
        let Some(place) = self.queue.enter(&errand.query, now) else {
            // At the end of the node there is no queue that could be full.
            if !self.queue.is_ended() {
                self.note(Event::Refresh(RefreshWord::Dropped));
            }
            return put_off(self.jittered(limits::REFRESH_DROPPED_MS));
        };
        // Whoever hits meanwhile need not find the seat taken; the refresh's end says better.
        put_off(self.policy.refresh.timeout_ms);
        let ticket = Ticket::new(self, seat, errand, Replaced::of(copy));
        self.tasks.spawn(Arc::clone(self).refresh_through(ticket, place, None));
    }

    /// Refreshes what a flight found stale in the store, with the lease that it won. It runs at once where a worker
    /// is free; else the lease is given back and it waits in line as any other: so flights, of which there may be
    /// ten thousand, bring about no more runs than there are workers, and no lease is renewed by somebody who waits.
    pub(crate) fn refresh_leased(
        self: &Arc<Self>,
        errand: Errand,
        copy: &MemoryCopy,
        (held, lease_ms): (Held<'_>, Millis),
    ) {
        let Some(worker) = self.queue.free_worker(&errand.query, self.now()) else {
            drop(held);
            return self.refresh(copy, errand);
        };
        let Seat::Lead(seat) = self.refreshes.join(&errand.query.key) else {
            // One is under way here already: it takes the lease that this gives back.
            return drop(held);
        };
        let ticket = Ticket::new(self, seat, errand, Replaced::of(copy));
        let lease = Some((held.handed_on(), lease_ms));
        self.tasks.spawn(Arc::clone(self).refresh_through(ticket, queue::Place::AtWork(worker), lease));
    }

    pub(crate) fn put_off_refresh(&self, key: &QueryKey, pause_ms: Millis) {
        if let Some(copy) = self.own_copy(key) {
            copy.put_off_refresh(self.now() + pause_ms);
        }
    }

    /// Refreshes that were triggered and have not ended: what waits, runs or sleeps, and those between.
    #[must_use]
    pub fn refreshes_begun(&self) -> usize {
        self.queue.begun()
    }

    /// Refreshes that wait for a worker.
    #[must_use]
    pub fn refreshes_waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Refreshes that have a worker.
    #[must_use]
    pub fn refreshes_under_way(&self) -> usize {
        self.queue.at_work()
    }

    /// Refreshes that failed and sleep before their next try.
    #[must_use]
    pub fn refreshes_asleep(&self) -> usize {
        self.queue.asleep()
    }
}
