//! An order at the owner of the candidate's key: the decision to carry it out, and its flight. This module does not
//! choose candidates and does not wait: a run that cannot begin at once is skipped.
//!
//! The flight is in the same table as the flights of misses, and the same leader (`fetch`) runs it under the store's
//! lease. So I1 and I3 hold for it, and a demand request that comes meanwhile joins it. Where a miss would wait or
//! fail, the flight of a prefetch is dropped instead. Requests that had joined it compete again, as if there had been
//! no flight, and see no failure of it:
//!
//! - Another node holds the lease: not waited for. The store does not answer: no run without a lease.
//! - No slot is free at once, or the run fails, or the server refuses the statement or does not call it a read (I6).
//!
//! Clients do not see the failure afterwards either. A failed prefetch holds back no run of the key
//! (`fetch::failure_backoff`), marks no copy (`cache::stale_fallback`) and does not count as shed
//! (`fetch::load_shedding`). The origin's breaker counts it like any other call. A run that only takes too long makes
//! the breaker probe, and nothing more.
//!
//! Former owners are not asked for a value (`invalidate::handover`): they would count it as used.

use std::sync::{Arc, OnceLock};

use hopcache_core::bookmark::Bookmark;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    PREFETCH_NEARLY_CERTAIN_P, PREFETCH_OVERLAP_LEFT_PERCENT, PREFETCH_RUNS_UNSLOTTED,
    PREFETCH_SLOTS_PERCENT, PREFETCH_STALE_P_MIN, VERDICT_TEXT_BYTES_MAX,
};
use hopcache_core::result::StatementKind;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use hopcache_learning::gain::CandidateKind;

use crate::cache::Provenance;
use crate::cache::copy::{Life, SharedCopy};
use crate::cache::flight::Seat;
use crate::fetch::{FetchRefusal, FetchResult, FlightLeader, Gate, QueuedCommit, Terms, Verdict};
use crate::model::ask::{Hints, Query};
use crate::model::bounds::{StaleUse, ValueBounds};
use crate::model::event::{Cause, Event, PrefetchWord};
use crate::model::fetch_times::FetchTimes;
use crate::model::job::FetchJob;
use crate::model::order::{Launch, Order, Skip};
use crate::model::ports::OriginFault;
use crate::prefetch::Prefetch;
use crate::prefetch::tickets::{LaunchPermit, Ticket};
use crate::refresh::older_than;

impl Prefetch {
    /// Decides at once whether this node carries out an order for one of its keys. The flight runs in a task of its
    /// own.
    pub fn launch(self: &Arc<Self>, order: Order) -> Launch {
        match self.begin(order) {
            Ok(()) => Launch::Launched,
            Err(skip) => self.skipped(skip),
        }
    }

    pub(super) fn skipped(&self, skip: Skip) -> Launch {
        self.context.note(Event::Prefetch(PrefetchWord::Skipped(skip)));
        Launch::Skipped(skip)
    }

    fn begin(self: &Arc<Self>, order: Order) -> Result<(), Skip> {
        self.may_prefetch(&order)?;
        let key = order.query.key;
        // Before the seat: a request that joins the flight finds its permit.
        let run_ms = self.cache.key_stats().mean_ms(&order.query.cost_key());
        let permit = self.tickets.begin(&key, self.flights_max(&order), run_ms)?;
        let Seat::Lead(leader) = self.fetch.flights().join(&key) else { return Err(Skip::InFlight) };
        let prefetch = Arc::clone(self);
        // Dropped, the flight gives its lease back, and requests that joined it go to another node.
        self.context.spawn_until_handed_on(async move { prefetch.lead(leader, order, permit).await });
        Ok(())
    }

    /// F40: predictions, right or wrong, have a tenth of the origin's slots, or one of a few. Those that experience calls nearly certain
    /// have half of them: such a run is one that a client asks for a moment later, begun early.
    fn flights_max(&self, order: &Order) -> usize {
        let Some(slots) = self.origin.slots() else { return PREFETCH_RUNS_UNSLOTTED };
        let share = (slots * PREFETCH_SLOTS_PERCENT / 100).max(1);
        if self.is_nearly_certain(order) { share.max(slots / 2) } else { share }
    }

    /// Whether both the prediction and the last launches of its source say so. Without a history nothing is nearly certain.
    fn is_nearly_certain(&self, order: &Order) -> bool {
        self.calibrated(order.kind, order.p) >= PREFETCH_NEARLY_CERTAIN_P
            && self.learning.feedback.is_mostly_right(order.source)
    }

    /// Every reason against an order that can be seen at once, the cheapest first.
    fn may_prefetch(&self, order: &Order) -> Result<(), Skip> {
        let query = &order.query;
        if !self.policy.now().prefetch.is_on || self.policy.now().ttl_ms == Millis::ZERO {
            return Err(Skip::Off);
        }
        if self.context.lifecycle().leads_no_more() || self.refresh.is_ended() {
            return Err(Skip::Elsewhere);
        }
        if self.routing.view().owner(&query.key) != Some(self.context.node()) {
            return Err(Skip::Elsewhere);
        }
        self.may_be_read(query)?;
        if self.tickets.is_refused(order.form) {
            return Err(Skip::Refused);
        }
        if self.is_fresh_for(order) {
            return Err(Skip::Fresh);
        }
        if self.fetch.flights().followers(&query.key).is_some() || self.refresh.is_refreshing(&query.key) {
            return Err(Skip::InFlight);
        }
        if self.fetch.is_held_back_ahead(&query.key) {
            return Err(Skip::HeldBack);
        }
        if self.cache.uncacheable().contains(&query.key, self.context.now()) {
            return Err(Skip::TooLarge);
        }
        if self.policy.now().counts_worth() && self.cache.pattern_worths().is_direct(query) {
            return Err(Skip::Direct);
        }
        self.has_room(order)
    }

    /// Whether nothing says that the statement is no read.
    fn may_be_read(&self, query: &Query) -> Result<(), Skip> {
        match self.fetch.classifier().verdict(query) {
            Verdict::Bypass(_) => Err(Skip::Write),
            // The server's answer for so long a text would not be remembered.
            Verdict::Unasked if query.normal.as_str().len() > VERDICT_TEXT_BYTES_MAX => {
                Err(Skip::Unclassified)
            }
            Verdict::Unasked | Verdict::Read => Ok(()),
        }
    }

    /// Whether an order has nothing to do. An overlap is an entry that is read anew before it expires: it is fresh
    /// while more than a tenth of its TTL is left, and a missing copy leaves nothing to do. Any other entry is fresh
    /// until its TTL is over. A stale copy counts as fresh for an unlikely candidate: it would answer a request at
    /// once, and the request would trigger a refresh.
    fn is_fresh_for(&self, order: &Order) -> bool {
        let is_overlap = order.kind == CandidateKind::Overlap;
        let Some(copy) = self.cache.look(&order.query.key) else { return is_overlap };
        let left = match copy.life(self.context.now()) {
            Life::Fresh(left) => left,
            Life::Stale(_) => return order.p < PREFETCH_STALE_P_MIN,
            Life::Dead => return false,
        };
        !is_overlap || !is_nearly_over(left, copy.ttl_ms())
    }

    /// Whether this node has a copy of the key that is fresh for a short time only.
    pub(super) fn is_about_to_expire(&self, key: &QueryKey) -> bool {
        let Some(copy) = self.cache.look(key) else { return false };
        matches!(copy.life(self.context.now()), Life::Fresh(left) if is_nearly_over(left, copy.ttl_ms()))
    }

    /// Whether the origin and this machine have anything left over for runs that no client waits for. Asked before anything is
    /// considered; each order is judged again by the owner of its key.
    pub(super) fn has_room_for_launches(&self) -> bool {
        self.is_well() && self.origin.has_spare() && !self.are_cores_busy()
    }

    fn is_well(&self) -> bool {
        let origin = &self.origin;
        let is_well = origin.is_reachable() && !origin.refuses_us() && self.store.is_reachable();
        is_well && !self.fetch.is_shedding()
    }

    fn are_cores_busy(&self) -> bool {
        self.policy.now().prefetch.yields_cores && self.cores.are_busy()
    }

    /// A prediction must not take a slot or a core from a request that waits now.
    fn has_room(&self, order: &Order) -> Result<(), Skip> {
        if self.are_cores_busy() {
            return Err(Skip::CoresBusy);
        }
        if !self.is_well() {
            return Err(Skip::Degraded);
        }
        let origin = &self.origin;
        let is_half_full = !self.is_nearly_certain(order)
            && origin.slots().is_some_and(|slots| origin.in_flight() * 2 > slots);
        let identity = &order.query.identity;
        if is_half_full
            || !origin.has_spare()
            || origin.would_shed(identity, RunClass::Prefetch, self.run_timeout_ms).is_some()
        {
            return Err(Skip::OriginBusy);
        }
        Ok(())
    }

    async fn lead(self: Arc<Self>, leader: FlightLeader, order: Order, permit: LaunchPermit) {
        let held = self.cache.look(&order.query.key);
        // Requests that join wait for the flight. It is given up after a time that runs of its pattern hardly ever
        // exceed, which bounds the delay.
        let until = self.context.now() + self.cache.key_stats().run_ms_max(&order.query);
        let job = self.job_of(&order, held.as_ref(), until);
        let gate = LaunchGate { prefetch: &self, order: &order, decision: OnceLock::new(), permit };
        let flown = match self.classify(&order, until).await {
            Ok(()) => self.fly(&job, &gate, held.as_ref()).await,
            Err(skip) => Err(skip),
        };
        let (result, commit) = match flown {
            Ok(FlownFlight::Found(copy)) => (FetchResult::Found(copy), None),
            Ok(FlownFlight::Launched(result, ticket, commit)) => match &result {
                FetchResult::Ran { copy, .. } | FetchResult::Found(copy) | FetchResult::Stale(copy) => {
                    ticket.is_dead_at(copy.dead_at());
                    (result, commit)
                }
                FetchResult::Failed(_) => {
                    if result.is_refusal() {
                        self.tickets.refused(&order);
                        self.forget_refused(&order.query.key).await;
                    }
                    return;
                }
                FetchResult::NotARead(_) | FetchResult::HeldBack { .. } => return,
            },
            Err(skip) => {
                self.skipped(skip);
                return;
            }
        };
        let result = self.fetch.keep(&leader, &job, (result, commit)).await;
        self.fetch.land(leader, &job, result);
        self.read_ahead(&order);
    }

    /// Any run may find that the server refuses to give the old value now. Then no later outage may bring it back
    /// (I11).
    async fn forget_refused(&self, key: &QueryKey) {
        if self.cache.look(key).is_some() {
            let _telling = self.invalidate.refused(key).await;
            self.invalidate.tell_refused(key, true).await;
        }
    }

    fn job_of(&self, order: &Order, held: Option<&SharedCopy>, until: MonoTime) -> FetchJob {
        // The copy in memory that the flight will replace, if any, is no answer to it.
        let age_max_ms = held.map(|copy| older_than(copy, self.context.now()));
        FetchJob {
            query: Arc::clone(&order.query),
            rendering: order.rendering,
            hints: Hints::default(),
            traceparent: None,
            cause: Cause::Prefetch,
            bounds: ValueBounds {
                age_max_ms,
                stale_use: StaleUse::Ignore,
                proved_only: false,
                after: Bookmark::NONE,
                written: None,
            },
            until: Some(until),
            run_ms_max: None,
            live: None,
            times: FetchTimes::default(),
        }
    }

    /// The server classifies the statement: only a read is prefetched (I6).
    async fn classify(&self, order: &Order, until: MonoTime) -> Result<(), Skip> {
        match self.fetch.classifier().server_word_ahead(&order.query, until).await {
            Ok(StatementKind::Read) => Ok(()),
            Ok(_) => Err(Skip::Write),
            Err(error) if error.kind.refuses_statement() => {
                self.tickets.refused(order);
                Err(Skip::Refused)
            }
            Err(error) if matches!(error.kind, OriginFault::Overloaded | OriginFault::TooManyRuns) => {
                Err(Skip::OriginBusy)
            }
            Err(_) => Err(Skip::Unclassified),
        }
    }

    /// The lease · the gate · the run. The order becomes a launch when the gate opens.
    async fn fly(
        &self,
        job: &FetchJob,
        gate: &LaunchGate<'_>,
        held: Option<&SharedCopy>,
    ) -> Result<FlownFlight, Skip> {
        let mut fetched = self.fetch.fetch(job, Terms::prefetch(gate), held).await;
        let commit = fetched.take_commit();
        let result = fetched.result().map_err(|why| match why {
            FetchRefusal::Busy => Skip::InFlight,
            FetchRefusal::NoStore => Skip::Degraded,
            FetchRefusal::Closed => gate.skip(),
        })?;
        match (result, gate.ticket()) {
            (result, Some(ticket)) => Ok(FlownFlight::Launched(result, ticket, commit)),
            (FetchResult::Found(copy), None) => {
                // A copy that is in memory already is not put there again, because that would end its ticket.
                let in_memory = self.cache.look(&job.query.key);
                if in_memory.is_some_and(|own| own.token() == copy.token()) {
                    return Err(Skip::Fresh);
                }
                self.skipped(Skip::Fresh);
                Ok(FlownFlight::Found(copy))
            }
            // By the terms of a prefetch nothing else ends without a run.
            (_, None) => Err(Skip::Degraded),
        }
    }
}

fn is_nearly_over(left: Millis, ttl_ms: Millis) -> bool {
    left.0.saturating_mul(100) <= ttl_ms.0.saturating_mul(PREFETCH_OVERLAP_LEFT_PERCENT)
}

/// The end of a flight that was not skipped.
#[expect(clippy::large_enum_variant, reason = "it is matched at once, never kept")]
enum FlownFlight {
    /// The gate opened, and the run ended with this result. Its commit may wait.
    Launched(FetchResult, Arc<Ticket>, Option<QueuedCommit>),
    /// The store had a fresh value that memory did not have. Nothing was launched.
    Found(SharedCopy),
}

/// The last look at the origin and at what is known of the statement, under the lease and before the run: a run may have
/// shown meanwhile that it changes data (I6). When the gate opens, the order is a launch and has a ticket.
struct LaunchGate<'a> {
    prefetch: &'a Prefetch,
    order: &'a Order,
    /// Dropped before the permit: a launch ends before its flight does.
    decision: OnceLock<Result<Arc<Ticket>, Skip>>,
    permit: LaunchPermit,
}

impl LaunchGate<'_> {
    /// The ticket, if the gate has opened.
    fn ticket(&self) -> Option<Arc<Ticket>> {
        self.decision.get()?.as_ref().ok().map(Arc::clone)
    }

    /// Why the gate stayed closed.
    fn skip(&self) -> Skip {
        self.decision.get().and_then(|decision| decision.as_ref().err()).copied().unwrap_or(Skip::Degraded)
    }
}

impl Gate for LaunchGate<'_> {
    fn open(&self) -> Option<Arc<dyn Provenance>> {
        let decide = || {
            self.prefetch.may_be_read(&self.order.query)?;
            self.prefetch.has_room(self.order)?;
            Ok(self.permit.open(self.order))
        };
        let ticket = self.decision.get_or_init(decide).as_ref().ok()?;
        Some(Arc::clone(ticket) as Arc<dyn Provenance>)
    }
}
