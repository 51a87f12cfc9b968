//! Refreshes: what a hit brings about beside its answer. Its entry is read anew, before it expires or, at the latest, when it
//! is met stale (stale while revalidate, RFC 5861).
//!
//! When a fresh entry is due is decided by [`hopcache_core::refresh`]. Who is asked is decided here: the node that serves from
//! its memory, which is the key's owner. A hit counts itself on its copy and compares what is left of the soft TTL with one
//! number there (`cache::copy_pace`). Who runs and who waits is decided by `queue.rs`; how a try goes and ends by `attempt.rs`.
//!
//! I1 and early refreshes: a freshness window begins with a run. An early refresh that was stored begins the next one, and the
//! store's lease keeps it to one run: it asks for nothing as old as the copy that it is to replace (`LeaseAsk::age_max_ms`).
//! So a node that comes second is given the first one's value and does not run.
//!
//! Nothing here makes a request wait, and nothing runs without a lease.

mod attempt;
pub(crate) mod degree;
mod queue;
pub mod refresh_view;

use std::sync::Arc;

use hopcache_core::key::{KeyHasher, QueryKey};
use hopcache_core::limits;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::Cache;
use crate::cache::copy::{Life, MemoryCopy, SharedCopy};
use crate::cache::flight::{FlightTable, Seat};
use crate::fetch::{Fetch, FetchResult, HeldLease};
use crate::invalidate::Invalidate;
use crate::model::ask::Query;
use crate::model::context::Context;
use crate::model::event::{Event, RefreshWord};
use crate::model::job::FetchJob;
use crate::model::policy::{Policy, RefreshPolicy};
use crate::model::ports::Origin;
use crate::refresh::attempt::{RefreshTask, Replaced};
use crate::refresh::degree::DegreeWish;
use crate::refresh::queue::{Queue, QueuePlace};

/// Refreshes entries in the background.
pub struct Refresh {
    context: Context,
    cache: Arc<Cache>,
    invalidate: Arc<Invalidate>,
    fetch: Arc<Fetch>,
    origin: Arc<dyn Origin>,
    hasher: KeyHasher,
    /// Refreshes that wait, run, or sleep before their next try; they have no followers.
    refreshes: Arc<FlightTable<QueryKey, ()>>,
    queue: Queue,
    policy: RefreshPolicy,
    ttl_ms: Millis,
}

/// The largest age of an entry that is newer than this copy.
pub(crate) fn older_than(copy: &MemoryCopy, now: MonoTime) -> Millis {
    Replaced::of(copy).age_max_ms(now)
}

impl Refresh {
    pub(crate) fn new(
        context: &Context,
        (cache, invalidate, fetch): (&Arc<Cache>, &Arc<Invalidate>, &Arc<Fetch>),
        origin: &Arc<dyn Origin>,
        hasher: &KeyHasher,
        policy: &Policy,
    ) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            cache: Arc::clone(cache),
            invalidate: Arc::clone(invalidate),
            fetch: Arc::clone(fetch),
            origin: Arc::clone(origin),
            hasher: hasher.clone(),
            refreshes: cache.flight_table(),
            queue: Queue::new(policy.refresh.workers, policy.refresh.queue_max),
            policy: policy.refresh,
            ttl_ms: policy.ttl_ms,
        })
    }

    /// Takes note of a principal whose entries may come to be refreshed here.
    pub(crate) fn saw(&self, query: &Query) {
        self.queue.saw(query, self.context.now());
    }

    /// No refresh begins any more, and those that wait or sleep end.
    pub(crate) fn end(&self) {
        self.queue.end();
    }

    /// Whether refreshes have ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.queue.is_ended()
    }

    /// Whether a refresh of a key waits, runs or sleeps.
    pub(crate) fn is_refreshing(&self, key: &QueryKey) -> bool {
        self.refreshes.followers(key).is_some()
    }

    /// Seats of refreshes that are taken.
    pub(crate) fn seats(&self) -> usize {
        self.refreshes.len()
    }

    /// Takes note of `hits` requests that `copy` has answered, or is about to, and begins its refresh if they bring
    /// it about. `job` makes what the run is done by from one of these requests; it is called
    /// seldom. Every hit comes by here: the own clients', forwarded ones, and those that near copies report.
    pub(crate) fn on_hit(
        self: &Arc<Self>,
        key: &QueryKey,
        copy: &SharedCopy,
        (hits, now): (u32, MonoTime),
        job: impl Fn() -> Option<FetchJob>,
    ) {
        copy.heat().arrive(hits);
        match copy.life(now) {
            Life::Fresh(left) if !copy.pace().looks_at(left) => return,
            Life::Fresh(left) => {
                if !self.is_early_due(key, copy, (left, now), hits, &job) {
                    return;
                }
            }
            Life::Stale(_) => {
                if copy.pace().is_first_late() {
                    self.context.note(Event::Late);
                }
                if !copy.is_refresh_due(now) {
                    return;
                }
            }
            Life::Dead => return,
        }
        if let Some(job) = job() {
            self.refresh(copy, job);
        }
    }

    /// The copy that a flight of its key goes past, if it has expired not long ago: dead, or older than its request takes.
    /// One that the store never took has no refresh that could be late.
    pub(crate) fn expired<'a>(&self, held: Option<&'a SharedCopy>) -> Option<&'a SharedCopy> {
        let (copy, now) = (held?, self.context.now());
        let is_expired = !matches!(copy.life(now), Life::Fresh(_));
        (is_expired && copy.token().is_some() && now < copy.late_until()).then_some(copy)
    }

    /// A flight that went past an expired copy has landed. Where it found a value, somebody's refresh was in time.
    pub(crate) fn note_late_miss(&self, expired: &MemoryCopy, result: &FetchResult) {
        match result {
            FetchResult::Found(_) | FetchResult::Stale(_) | FetchResult::NotARead(_) => {}
            FetchResult::Ran { .. } | FetchResult::Failed(_) | FetchResult::HeldBack { .. } => {
                if expired.pace().is_first_late() {
                    self.context.note(Event::Late);
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
        job: &impl Fn() -> Option<FetchJob>,
    ) -> bool {
        if !self.cache.pace().may_refresh_early(copy) {
            copy.pace().never_early();
            return false;
        }
        if !copy.is_refresh_due(now) {
            return false;
        }
        let plan = copy.pace().plan(left).unwrap_or_else(|| {
            self.consider_degree(key, copy, (left, now), job);
            self.cache.pace().plan_anew(key, copy, (left, now))
        });
        #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ms")]
        let left_ms = left.0 as f64;
        left_ms <= plan.window_ms() && plan.fires(left_ms, hits, self.context.unit())
    }

    /// Sees to it that the plans to come have the degree of the key's anchor, where they heed it.
    fn consider_degree(
        self: &Arc<Self>,
        key: &QueryKey,
        copy: &MemoryCopy,
        (left, now): (Millis, MonoTime),
        job: &impl Fn() -> Option<FetchJob>,
    ) {
        if !self.lacks_degree(key, now) {
            return;
        }
        let wish = self.degree_wish(
            key,
            &self.cache.pace().facts_of(key, copy, now),
            (left, copy.heat().arrivals()),
        );
        if wish != DegreeWish::Nothing
            && let Some(job) = job()
            && job.hints.degree.is_none()
        {
            self.learn_degree_as(&job.query, wish);
        }
    }

    /// Refreshes a copy in the background, at most once at a time here; the lease keeps it to once in the cluster.
    fn refresh(self: &Arc<Self>, copy: &MemoryCopy, job: FetchJob) {
        let now = self.context.now();
        let put_off = |pause_ms| copy.put_off_refresh(now + pause_ms);
        if let Some(left_ms) = self.fetch.held_back(&job.query.key) {
            return put_off(left_ms);
        }
        let Seat::Lead(seat) = self.refreshes.join(&job.query.key) else {
            // One waits, runs or sleeps already.
            return put_off(Millis(limits::REFRESH_DROPPED_MS));
        };
        let Some(place) = self.queue.enter(&job.query, now) else {
            // At the end of the node there is no queue that could be full.
            if !self.queue.is_ended() {
                self.context.note(Event::Refresh(RefreshWord::Dropped));
            }
            return put_off(self.context.jittered(limits::REFRESH_DROPPED_MS));
        };
        // Whoever hits meanwhile need not find the seat taken; the refresh's end says better.
        put_off(self.policy.timeout_ms);
        let task = RefreshTask::new(self, seat, job, Replaced::of(copy));
        self.context.spawn(Arc::clone(self).refresh_through(task, place, None));
    }

    /// Refreshes what a flight found stale in the store, with the lease that it won. It runs at once where a worker
    /// is free; else the lease is given back and it waits in line as any other: so flights, of which there may be
    /// ten thousand, bring about no more runs than there are workers, and no lease is renewed by somebody who waits.
    pub(crate) fn take_over(self: &Arc<Self>, job: FetchJob, copy: &MemoryCopy, lease: HeldLease) {
        let Some(worker) = self.queue.free_worker(&job.query, self.context.now()) else {
            drop(lease);
            return self.refresh(copy, job);
        };
        let Seat::Lead(seat) = self.refreshes.join(&job.query.key) else {
            // One is under way here already: it takes the lease that this gives back.
            return drop(lease);
        };
        let task = RefreshTask::new(self, seat, job, Replaced::of(copy));
        self.context.spawn(Arc::clone(self).refresh_through(task, QueuePlace::AtWork(worker), Some(lease)));
    }

    /// Refreshes that were triggered and have not ended: what waits, runs or sleeps, and those between.
    #[must_use]
    pub fn begun(&self) -> usize {
        self.queue.begun()
    }

    /// Refreshes that wait for a worker.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Refreshes that have a worker.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.queue.at_work()
    }

    /// Refreshes that failed and sleep before their next try.
    #[must_use]
    pub fn asleep(&self) -> usize {
        self.queue.asleep()
    }
}
