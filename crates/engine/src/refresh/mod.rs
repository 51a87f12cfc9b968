//! Refreshes: a hit may trigger a new read of its entry, before the entry expires (early) or when the hit finds it
//! stale (stale-while-revalidate, RFC 5861).
//!
//! [`hopcache_core::refresh`] decides when a fresh entry is due. This module decides which node draws: the key's owner,
//! which serves the entry from its memory. A hit counts itself on its copy and compares the rest of the soft TTL with
//! one number there (`cache::refresh_schedule`). `queue.rs` decides which refreshes run and which wait, `attempt.rs` how a try
//! goes and ends.
//!
//! I1 and early refreshes: a freshness window begins with a run. A stored early refresh begins the next window. The
//! store's lease limits it to one run, because a refresh accepts only an entry younger than the copy to replace
//! (`LeaseAsk::age_max_ms`). So a node that comes second gets the first node's value and does not run.
//!
//! Nothing here makes a request wait. No refresh runs without a lease; only the questions for degrees (`degree.rs`)
//! have none.

mod attempt;
pub(crate) mod degree;
mod hot_keys;
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
use crate::model::policy::{PolicyInForce, RefreshPolicy};
use crate::model::ports::Origin;
use crate::refresh::attempt::{RefreshTask, ReplacedCopy};
use crate::refresh::degree::DegreeWish;
use crate::refresh::hot_keys::HotKeys;
use crate::refresh::queue::{Queue, QueuePlace};

pub(crate) use hot_keys::HotRead;

/// Refreshes entries in the background.
pub struct Refresh {
    context: Context,
    cache: Arc<Cache>,
    invalidate: Arc<Invalidate>,
    fetch: Arc<Fetch>,
    origin: Arc<dyn Origin>,
    hasher: KeyHasher,
    /// Refreshes that wait, run, or sleep before their next try. They have no followers.
    refreshes: Arc<FlightTable<QueryKey, ()>>,
    queue: Queue,
    hot_keys: HotKeys,
    policy: PolicyInForce,
}

/// The largest age of an entry that is newer than this copy.
pub(crate) fn older_than(copy: &MemoryCopy, now: MonoTime) -> Millis {
    ReplacedCopy::of(copy).age_max_ms(now)
}

impl Refresh {
    pub(crate) fn new(
        context: &Context,
        (cache, invalidate, fetch): (&Arc<Cache>, &Arc<Invalidate>, &Arc<Fetch>),
        origin: &Arc<dyn Origin>,
        hasher: &KeyHasher,
        in_force: &PolicyInForce,
    ) -> Arc<Self> {
        let policy = in_force.now();
        Arc::new(Self {
            context: context.clone(),
            cache: Arc::clone(cache),
            invalidate: Arc::clone(invalidate),
            fetch: Arc::clone(fetch),
            origin: Arc::clone(origin),
            hasher: hasher.clone(),
            refreshes: cache.flight_table(),
            queue: Queue::new(policy.refresh.workers, policy.refresh.queue_max),
            hot_keys: HotKeys::default(),
            policy: in_force.clone(),
        })
    }

    /// The settings of refreshes at this moment.
    fn policy(&self) -> RefreshPolicy {
        self.policy.now().refresh
    }

    /// Notes a principal whose entries may be refreshed here.
    pub(crate) fn saw(&self, query: &Query) {
        self.queue.saw(query, self.context.now());
    }

    /// Ends the refreshes that wait or sleep. No refresh begins any more.
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

    /// The number of seats that refreshes have taken.
    pub(crate) fn seats(&self) -> usize {
        self.refreshes.len()
    }

    /// Counts `hits` requests that `copy` has answered or is about to answer, and triggers its refresh if it is due.
    /// `job` makes the job of the run from one of these requests; it is called seldom. Every hit comes by here: hits of
    /// this node's clients, forwarded ones, and those that near copies report.
    pub(crate) fn on_hit(
        self: &Arc<Self>,
        key: &QueryKey,
        copy: &SharedCopy,
        (hits, now): (u32, MonoTime),
        job: impl Fn() -> Option<FetchJob>,
    ) {
        self.arrive(copy, (hits, now), &job);
        match copy.life(now) {
            Life::Fresh(left) if !copy.schedule().looks_at(left) => return,
            Life::Fresh(left) => {
                if !self.is_early_due(key, copy, (left, now), hits, &job) {
                    return;
                }
            }
            Life::Stale(_) => {
                if copy.is_first_late() {
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

    /// Counts `hits` requests that `copy` has answered because it is proved: it needs no refresh.
    pub(crate) fn on_proved_hit(
        &self,
        copy: &MemoryCopy,
        (hits, now): (u32, MonoTime),
        job: impl Fn() -> Option<FetchJob>,
    ) {
        self.arrive(copy, (hits, now), &job);
        if copy.is_past_ttl(now) && copy.is_first_revalidated() {
            self.context.note(Event::Revalidated);
        }
    }

    /// Counts requests for a copy, and notes its key if it is hot.
    fn arrive(&self, copy: &MemoryCopy, (hits, now): (u32, MonoTime), job: &impl Fn() -> Option<FetchJob>) {
        if copy.heat().arrive(hits) {
            self.note_heat(copy, now, job);
        }
    }

    /// Counts a request that `copy` has answered although a write has ended it, and triggers its refresh.
    pub(crate) fn on_ended_hit(
        self: &Arc<Self>,
        copy: &SharedCopy,
        now: MonoTime,
        job: impl Fn() -> Option<FetchJob>,
    ) {
        copy.heat().arrive(1);
        if copy.is_refresh_due(now)
            && let Some(job) = job()
        {
            self.refresh(copy, job);
        }
    }

    /// The copy that a flight of its key replaces, if it expired not long ago: it is dead, or older than its request
    /// accepts. A copy that the store never took has no refresh that could be late.
    pub(crate) fn expired<'a>(&self, held: Option<&'a SharedCopy>) -> Option<&'a SharedCopy> {
        let (copy, now) = (held?, self.context.now());
        let is_expired = !matches!(copy.life(now), Life::Fresh(_));
        (is_expired && copy.token().is_some() && now < copy.late_until()).then_some(copy)
    }

    /// A flight that replaced an expired copy has landed. If it found a value, another node's refresh was in time.
    pub(crate) fn note_late_miss(&self, expired: &MemoryCopy, result: &FetchResult) {
        match result {
            FetchResult::Found(_) | FetchResult::Stale(_) | FetchResult::NotARead(_) => {}
            FetchResult::Ran { .. } | FetchResult::Failed(_) | FetchResult::HeldBack { .. } => {
                if expired.is_first_late() {
                    self.context.note(Event::Late);
                }
            }
        }
    }

    /// Draws for `hits` hits on a copy with `left` of its soft TTL.
    fn is_early_due(
        self: &Arc<Self>,
        key: &QueryKey,
        copy: &MemoryCopy,
        (left, now): (Millis, MonoTime),
        hits: u32,
        job: &impl Fn() -> Option<FetchJob>,
    ) -> bool {
        if !self.cache.key_stats().may_refresh_early(copy) {
            copy.schedule().never_early();
            return false;
        }
        if !copy.is_refresh_due(now) {
            return false;
        }
        let plan = copy.schedule().plan(left).unwrap_or_else(|| {
            self.consider_degree(key, copy, (left, now), job);
            self.cache.key_stats().plan_anew(key, copy, (left, now))
        });
        #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ms")]
        let left_ms = left.0 as f64;
        left_ms <= plan.window_ms() && plan.fires(left_ms, hits, self.context.unit())
    }

    /// Ensures that later plans have the degree of the key's anchor, where they use it.
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
            &self.cache.key_stats().facts_of(key, copy, now),
            (left, copy.heat().arrivals()),
        );
        if wish != DegreeWish::Nothing
            && let Some(job) = job()
            && job.hints.degree.is_none()
        {
            self.learn_degree_as(&job.query, wish);
        }
    }

    /// Refreshes a copy in the background, one refresh of a key at a time on this node. The lease limits it to one in
    /// the cluster.
    fn refresh(self: &Arc<Self>, copy: &MemoryCopy, job: FetchJob) {
        let now = self.context.now();
        let put_off = |pause_ms| copy.put_off_refresh(now + pause_ms);
        if let Some(left_ms) = self.fetch.held_back(&job.query.key) {
            return put_off(left_ms);
        }
        let Seat::Lead(seat) = self.refreshes.join(&job.query.key) else {
            // A refresh of the key waits, runs or sleeps already.
            return put_off(Millis(limits::REFRESH_DROPPED_MS));
        };
        let Some(place) = self.queue.enter(&job.query, now) else {
            // After the end of refreshes there is no queue that could be full.
            if !self.queue.is_ended() {
                self.context.note(Event::Refresh(RefreshWord::Dropped));
            }
            return put_off(self.context.jittered(limits::REFRESH_DROPPED_MS));
        };
        // Hits in the meantime need not find the seat taken. The end of the refresh sets a better time.
        put_off(self.policy().timeout_ms);
        let task = RefreshTask::new(self, seat, job, ReplacedCopy::of(copy));
        self.context.spawn(Arc::clone(self).refresh_through(task, place, None));
    }

    /// Refreshes the stale entry that a flight found in the store, with the lease that the flight won. It runs at once
    /// if a worker is free. Otherwise it gives the lease back and waits in line like any other refresh. So ten thousand
    /// flights cause no more runs than there are workers, and no waiting refresh renews a lease.
    pub(crate) fn take_over(self: &Arc<Self>, job: FetchJob, copy: &MemoryCopy, lease: HeldLease) {
        let Some(worker) = self.queue.free_worker(&job.query, self.context.now()) else {
            drop(lease);
            return self.refresh(copy, job);
        };
        let Seat::Lead(seat) = self.refreshes.join(&job.query.key) else {
            // A refresh is under way here already. It takes the lease that this gives back.
            return drop(lease);
        };
        let task = RefreshTask::new(self, seat, job, ReplacedCopy::of(copy));
        self.context.spawn(Arc::clone(self).refresh_through(task, QueuePlace::AtWork(worker), Some(lease)));
    }

    /// Refreshes that were triggered and have not ended: those that wait, run or sleep, and those in between.
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
