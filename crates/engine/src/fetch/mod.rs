//! The only leader: classify, compete for the lease, run, commit. Misses, `no-cache` requests, refreshes and prefetches
//! all go through [`Fetch::fetch`]; [`Terms`] has the differences between them.
//!
//! It decides which node runs and which results may be stored. It serves nobody and starts no flight: the rooms above
//! do.

mod admission;
mod classify;
mod commit;
mod commit_places;
mod commit_queue;
mod crowds;
mod direct;
mod failure_backoff;
mod lease_acquire;
mod lease_end;
mod leases;
mod load_shedding;
mod result;
mod run;
mod terms;

use std::sync::Arc;

use hopcache_core::admission::Room;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::CROWDS_SHOWN_MAX;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::copy::SharedCopy;
use crate::cache::flight::{FlightTable, Leader};
use crate::cache::{Cache, WatchedStore};
use crate::fetch::admission::Admission;
use crate::fetch::commit_queue::CommitQueue;
use crate::fetch::crowds::Crowds;
use crate::fetch::failure_backoff::FailureBackoff;
use crate::fetch::lease_acquire::Acquisition;
use crate::fetch::leases::Leases;
use crate::fetch::load_shedding::LoadShedding;
use crate::fetch::run::RunUnder;
use crate::fetch::terms::{BackOffTerms, LeaseTerms, WithoutLease};
use crate::invalidate::{FormerCopy, Invalidate};
use crate::model::ask::Query;
use crate::model::bounds::ValueBounds;
use crate::model::context::Context;
use crate::model::event::{Cause, Event};
use crate::model::fetch_times::FetchTimes;
use crate::model::job::FetchJob;
use crate::model::policy::PolicyInForce;
use crate::model::ports::{EndedFetch, Origin, Routing};
use crate::peers::PeerCalls;
use crate::writes::Writes;

pub(crate) use classify::Classifier;
pub use classify::Verdict;
pub(crate) use commit_queue::QueuedCommit;
pub use crowds::{Crowd, CrowdUnderWay};
pub(crate) use leases::HeldLease;
pub(crate) use result::{FetchEnd, FetchRefusal, FetchResult, FlightResult};
pub(crate) use run::was_sent;
pub(crate) use terms::{Gate, Terms};

/// The table of flights that lead here, by key.
pub(crate) type Flights = Arc<FlightTable<QueryKey, Arc<FlightResult>>>;

/// The leader's seat on such a flight.
pub(crate) type FlightLeader = Leader<QueryKey, Arc<FlightResult>>;

/// Fetches values: from the store, from a former owner, or from the origin.
pub struct Fetch {
    context: Context,
    cache: Arc<Cache>,
    store: Arc<WatchedStore>,
    origin: Arc<dyn Origin>,
    peers: Arc<PeerCalls>,
    routing: Arc<dyn Routing>,
    invalidate: Arc<Invalidate>,
    writes: Arc<Writes>,
    flights: Flights,
    crowds: Crowds,
    leases: Arc<Leases>,
    commits: Arc<CommitQueue>,
    classifier: Classifier,
    backoff: FailureBackoff,
    shedding: LoadShedding,
    admission: Admission,
    policy: PolicyInForce,
}

impl Fetch {
    pub(crate) fn new(
        context: &Context,
        (cache, store, invalidate, writes): (&Arc<Cache>, &Arc<WatchedStore>, &Arc<Invalidate>, &Arc<Writes>),
        (peers, routing, origin): (&Arc<PeerCalls>, &Arc<dyn Routing>, &Arc<dyn Origin>),
        in_force: &PolicyInForce,
    ) -> Arc<Self> {
        let policy = in_force.now();
        Arc::new(Self {
            context: context.clone(),
            cache: Arc::clone(cache),
            store: Arc::clone(store),
            origin: Arc::clone(origin),
            peers: Arc::clone(peers),
            routing: Arc::clone(routing),
            invalidate: Arc::clone(invalidate),
            writes: Arc::clone(writes),
            flights: cache.flight_table(),
            crowds: Crowds::default(),
            leases: Leases::new(context, store),
            commits: CommitQueue::new(context, cache, store),
            classifier: Classifier::new(context, origin, &policy),
            backoff: FailureBackoff::new(),
            shedding: LoadShedding::default(),
            admission: Admission::new(context, routing, policy.store_room),
            policy: in_force.clone(),
        })
    }

    /// From now on this is the room in the store for keys that were run once.
    pub(crate) fn set_room(&self, room: Room) {
        self.admission.set_room(room);
    }

    /// Competes, asks a former owner, runs, in this order, and stops at the first that has a value. `held` is the copy
    /// in memory that the value will replace.
    pub(crate) async fn fetch(
        &self,
        job: &FetchJob,
        terms: Terms<'_>,
        held: Option<&SharedCopy>,
    ) -> FetchEnd {
        let (job, began) = (&self.marked(job), self.context.now());
        let fetched = self.fetch_marked(job, terms, held).await;
        self.note_ended(job, began);
        if let Some(copy) = fetched.copy_to_render() {
            self.cache.prepare(copy, job.rendering).await;
        }
        fetched
    }

    /// The job with the mark of now and times of its own. Every fetch asks for a value that has seen the newest write that this node knows
    /// of. A client's job brings that mark; a refresh or a prefetch gets it here.
    fn marked(&self, job: &FetchJob) -> FetchJob {
        let written = self.cache.write_positions().needed(&job.query, job.bounds.written);
        let bounds = ValueBounds { written, ..job.bounds.clone() };
        FetchJob { bounds, times: FetchTimes::default(), ..job.clone() }
    }

    fn note_ended(&self, job: &FetchJob, began: MonoTime) {
        self.context.fetched(&EndedFetch {
            query: &job.query,
            cause: job.cause,
            took_ms: self.context.now().since(began),
            times: &job.times,
            traceparent: job.traceparent.as_deref(),
        });
    }

    async fn fetch_marked(&self, job: &FetchJob, terms: Terms<'_>, held: Option<&SharedCopy>) -> FetchEnd {
        if let Some(result) = self.without_a_run(job, &terms, held).await {
            return FetchEnd::new(result);
        }
        if !matches!(terms.lease, LeaseTerms::Held(_)) {
            self.commits.ended(&job.query.key).await;
        }
        let (lease, stale) = match self.acquire(job, (terms.lease, terms.without_lease), held).await {
            Acquisition::Value(copy) => return FetchEnd::new(FetchResult::Found(copy)),
            Acquisition::BusyStale(copy) => return FetchEnd::new(FetchResult::Stale(copy)),
            Acquisition::Busy if terms.without_lease == WithoutLease::Run => {
                return FetchEnd::unleased(self.run(job, RunUnder::beside_lease(held)).await);
            }
            Acquisition::Busy => return FetchEnd::nothing(FetchRefusal::Busy),
            Acquisition::NoStore if terms.without_lease == WithoutLease::GiveUp => {
                return FetchEnd::nothing(FetchRefusal::NoStore);
            }
            Acquisition::NoStore => {
                return self.fetch_without_store(job, terms.asks_former_owner, held).await;
            }
            Acquisition::Lease { lease, stale } => (lease, stale),
        };
        let former = match stale {
            Some(copy) => Some(FormerCopy::Stale(copy)),
            None if terms.asks_former_owner => self.former_copy(job).await,
            None => None,
        };
        match former {
            // Dropping the lease gives it back: a former owner's copy is not committed (`invalidate::handover`).
            Some(FormerCopy::Fresh(copy)) => FetchEnd::new(FetchResult::Found(copy)),
            Some(FormerCopy::Stale(copy)) => FetchEnd::stale(copy, lease),
            None => {
                let provenance = match terms.gate.map(Gate::open) {
                    Some(None) => return FetchEnd::nothing(FetchRefusal::Closed),
                    Some(opened) => opened,
                    None => None,
                };
                self.run_leased(job, (lease, terms.commits_later), provenance, held).await
            }
        }
    }

    async fn former_copy(&self, job: &FetchJob) -> Option<FormerCopy> {
        // A node with nobody to ask, as one that has just started alone, has nothing to compare. To ask Neo4j would keep its misses
        // out of the line.
        if job.cause != Cause::Prefetch && self.invalidate.may_have_former_copy(&job.query.key) {
            self.writes.know(&job.query).await;
        }
        self.invalidate.former_copy(&job.query, &job.bounds).await
    }

    async fn fetch_without_store(
        &self,
        job: &FetchJob,
        asks_former_owner: bool,
        held: Option<&SharedCopy>,
    ) -> FetchEnd {
        let former = if asks_former_owner { self.former_copy(job).await } else { None };
        FetchEnd::unleased(match former {
            Some(FormerCopy::Fresh(copy)) => FetchResult::Found(copy),
            Some(FormerCopy::Stale(copy)) => FetchResult::Stale(copy),
            None => self.run(job, RunUnder::no_lease(held)).await,
        })
    }

    /// The end of a fetch that runs nothing, because of the key's back-off or because the origin has no place.
    async fn without_a_run(
        &self,
        job: &FetchJob,
        terms: &Terms<'_>,
        held: Option<&SharedCopy>,
    ) -> Option<FetchResult> {
        if terms.back_off != BackOffTerms::Ignore
            && let Some(left_ms) = self.held_back(&job.query.key)
        {
            return Some(match terms.back_off {
                BackOffTerms::AnswerFromStore => self.answer_held_back(job, left_ms, held).await,
                BackOffTerms::Stop | BackOffTerms::Ignore => FetchResult::HeldBack { left_ms },
            });
        }
        if terms.sheds_early { self.shed_early(job, held).await } else { None }
    }

    /// Flights that lead here.
    pub(crate) fn flights(&self) -> &Flights {
        &self.flights
    }

    /// Decides whether statements read.
    pub(crate) fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// The verdict on a query as far as it is known without asking the server.
    #[must_use]
    pub fn verdict(&self, query: &Query) -> Verdict {
        self.classifier.verdict(query)
    }

    /// Results that are answered, and whose leases have still to be ended at the store.
    #[must_use]
    pub fn commits_queued(&self) -> usize {
        self.commits.len()
    }

    /// From now on results are committed before they are answered, and what waits is sent at once.
    pub(crate) fn end_late_commits(&self) {
        self.commits.close();
    }

    /// Leases held by this node.
    #[must_use]
    pub fn leases_held(&self) -> usize {
        self.leases.len()
    }

    /// Flights with followers that ended lately, the oldest first, each with the time since its end.
    #[must_use]
    pub fn crowds_ended(&self) -> Vec<(Crowd, Millis)> {
        self.crowds.shown(self.context.now())
    }

    /// Remembers a flight that ended, or a shared forward, if it had followers.
    pub(crate) fn crowd_ended(&self, query: &Query, followers: u32, began: Option<MonoTime>) {
        if followers > 0 {
            self.crowds.ended(query, followers, began, self.context.now());
        }
    }

    /// Flights with followers that are under way.
    #[must_use]
    pub(crate) fn crowds_under_way(&self) -> Vec<CrowdUnderWay> {
        let crowded = self.flights.crowded(CROWDS_SHOWN_MAX);
        crowded.into_iter().map(|(key, followers)| CrowdUnderWay { key, followers }).collect()
    }

    /// Ends the commits that wait. Then it releases every lease that this node still holds, so that nobody waits for them to
    /// lapse. A lease that could not be released stays in [`Fetch::leases_held`].
    pub async fn give_back_leases(&self) {
        self.commits.close();
        self.commits.empty().await;
        self.leases.give_back_all().await;
    }

    /// As [`Fetch::give_back_leases`], within this time. A slow store takes half of it for the commits at most: the waiters of the
    /// leases matter as much.
    pub(crate) async fn give_back_leases_within(&self, wait_ms: Millis) {
        let until = self.context.now() + wait_ms;
        self.commits.close();
        tokio::select! {
            biased;
            () = self.commits.empty() => {}
            () = self.context.sleep(Millis(wait_ms.0 / 2)) => {}
        }
        let left_ms = until.since(self.context.now());
        tokio::select! {
            biased;
            () = self.leases.give_back_all() => {}
            () = self.context.sleep(left_ms) => {}
        }
    }

    /// Keeps a result in memory, once it is rendered, before the holder of `seat` tells anybody. An invalidation that detached the
    /// seat meanwhile wins, and the copy is removed again:
    ///   we read X · a purge detaches our seat · the purge empties memory · we keep X · we see the detached seat,
    ///   remove X.
    ///
    /// A commit that waits goes into the queue. If there is no room for its copy, it is sent first. If an invalidation came
    /// during the run, it is too, so that the answer says what has become of it.
    pub(crate) async fn keep<V: Clone + Send + Sync>(
        &self,
        seat: &Leader<QueryKey, V>,
        job: &FetchJob,
        (mut result, mut commit): (FetchResult, Option<QueuedCommit>),
    ) -> FetchResult {
        let may_wait = |commit: &mut QueuedCommit| commit.fits() && seat.is_attached();
        if let Some(commit) = commit.take_if(|commit| !may_wait(commit)) {
            result = result.kept(self.commits.send_now(commit).await);
        }
        self.keep_in_memory(job, &result);
        if let Some(commit) = commit {
            self.commits.push(commit);
        }
        if !seat.is_attached() {
            self.cache.remove(&job.query.key);
        }
        result
    }

    fn keep_in_memory(&self, job: &FetchJob, result: &FetchResult) {
        let Some(copy) = commit::copy_to_keep(result) else { return };
        self.note_answer(&job.query.key, copy.read_started());
        let is_rendered = matches!(result, FetchResult::Ran { live: Some(_), .. });
        if !is_rendered && copy.rendering(job.rendering, self.cache.renderer()).is_err() {
            return;
        }
        self.cache.put(job.query.key, copy, copy.kept_until());
    }

    /// Ends a flight with its result, which all its followers get.
    pub(crate) fn land(&self, leader: FlightLeader, job: &FetchJob, result: FetchResult) {
        let began = commit::copy_to_keep(&result).map(|copy| copy.read_started());
        let followers = leader.land(Arc::new(FlightResult::new(job, result)));
        self.crowd_ended(&job.query, followers, began);
        self.context.note(Event::Landed { followers });
    }
}
