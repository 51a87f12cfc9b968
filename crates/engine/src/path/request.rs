//! One request, start to end (DESIGN section 3), in one file. Each step is one call into the room that decides it:
//!
//! ```text
//! request  hit?          a copy in this node's memory                 cache
//!   answer classify      a write goes past the cache                  fetch::classify, path::bypass
//!     at_owner           one hop to the owner of the key              path::forward
//!       answer_here      memory, else a flight                        cache
//!         compete        join a flight, or lead it                    cache::flight
//!           lead         lease · run · commit                         fetch
//!   observe              what sessions teach                          prefetch
//! ```
//!
//! It returns an outcome. Status codes, headers and metrics are made from that elsewhere, so nothing here can answer one thing
//! and count another. `answer_here` and all below it never forward, and never wait for another node's flight (I8).

use std::sync::Arc;

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{COMPETE_ROUNDS_MAX, FORWARDS_MAX, LEASE_MS_MAX};
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::copy::SharedCopy;
use crate::cache::flight::{Follower, Leader, Seat, Wait};
use crate::fetch::{FetchResult, FlightResult, Terms, Verdict};
use crate::model::ask::{Ask, RequestBypass};
use crate::model::bounds::ValueBounds;
use crate::model::event::{Cause, Event};
use crate::model::job::FetchJob;
use crate::model::outcome::{FailureKind, Outcome, Reason, Role};
use crate::path::Path;
use crate::path::answers::{LocalAnswer, is_fresh_enough};
use crate::path::forward::Hop;

/// The leader's seat on the flight of a key.
type KeyLeader = Leader<QueryKey, Arc<FlightResult>>;

/// What memory held of a key when the request looked: on a miss it looks once.
pub(super) enum Looked {
    /// Nobody has looked.
    NotYet,
    /// The copy that this node may take for the entry.
    Once(Option<SharedCopy>),
}

impl Path {
    /// Answers a client's request at this, its entry node; `came` is when it came.
    pub async fn request(self: &Arc<Self>, ask: &Ask, came: MonoTime) -> Outcome {
        let (hit, looked) = self.hit_or_looked(ask);
        let outcome = match hit {
            Some(outcome) => outcome,
            // Boxed, so that the future of a hit is not as large as a miss's.
            None => Box::pin(self.answer_looked(ask, looked)).await,
        };
        self.prefetch.observe(ask, &outcome, came);
        outcome
    }

    /// As [`Path::request`], for a front that passes statements on to the origin by itself.
    ///
    /// # Errors
    /// Why the request passes the cache by. Nothing was run for it then, but for what found that out.
    pub async fn request_cached(self: &Arc<Self>, ask: &Ask, came: MonoTime) -> Result<Outcome, Reason> {
        let (hit, looked) = self.hit_or_looked(ask);
        let outcome = match hit {
            Some(outcome) => outcome,
            None => Box::pin(self.cached_answer(ask, looked)).await?,
        };
        self.prefetch.observe(ask, &outcome, came);
        Ok(outcome)
    }

    /// A fresh copy in this node's memory, where this node owns the key, else a near copy: no await, no lock, no hop.
    #[must_use]
    pub fn hit(self: &Arc<Self>, ask: &Ask) -> Option<Outcome> {
        self.hit_or_looked(ask).0
    }

    /// As [`Path::request`], without observing.
    pub async fn answer(self: &Arc<Self>, ask: &Ask) -> Outcome {
        self.answer_looked(ask, Looked::NotYet).await
    }

    fn hit_or_looked(self: &Arc<Self>, ask: &Ask) -> (Option<Outcome>, Looked) {
        if ask.bypass.is_some() {
            return (None, Looked::NotYet);
        }
        let (hit, looked) = if self.routing.view().owner(&ask.query.key) == Some(self.context.node()) {
            let held = self.cache.look(&ask.query.key);
            (self.from_memory(ask, held.as_ref()), Looked::Once(held))
        } else {
            (self.cache.near_hit(ask), Looked::NotYet)
        };
        (hit.map(|outcome| self.with_bookmarks_of(ask, outcome)), looked)
    }

    async fn answer_looked(self: &Arc<Self>, ask: &Ask, looked: Looked) -> Outcome {
        match self.cached_answer(ask, looked).await {
            Ok(outcome) => outcome,
            Err(reason) => self.bypass(ask, reason).await,
        }
    }

    /// The answer of the cache or of a flight, or why the request passes the cache by.
    async fn cached_answer(self: &Arc<Self>, ask: &Ask, looked: Looked) -> Result<Outcome, Reason> {
        let verdict = self.fetch.classifier().verdict(&ask.query);
        if ask.freshness.only_if_cached && (ask.bypass.is_some() || matches!(verdict, Verdict::Bypass(_))) {
            return Ok(self.not_cached(ask));
        }
        if let Verdict::Bypass(reason) = verdict {
            return Err(reason);
        }
        match &ask.bypass {
            Some(RequestBypass::NoStore) => return Err(Reason::NoStore),
            Some(RequestBypass::Bookmarks(_)) => return Err(Reason::Bookmarks),
            None => {}
        }
        let answer = tokio::select! {
            biased;
            answer = self.at_owner(ask, looked) => answer,
            () = self.context.lifecycle().turned_away() => {
                LocalAnswer::Answered(self.failed(ask, FailureKind::Leaving.into(), Role::Joined))
            }
        };
        match answer {
            LocalAnswer::Answered(outcome) => Ok(self.with_bookmarks_of(ask, outcome)),
            LocalAnswer::NotARead(reason) => Err(reason),
            LocalAnswer::Elsewhere => Ok(self.failed(ask, FailureKind::Overloaded.into(), Role::Joined)),
        }
    }

    /// The owner answers; where it is gone the next distinct node of the ring does, and this one at the latest. Whichever
    /// node it is, the store's lease keeps it to one run.
    async fn at_owner(self: &Arc<Self>, ask: &Ask, mut looked: Looked) -> LocalAnswer {
        // Once, however many nodes are asked for it.
        self.fetch.pay_for_retries();
        let view = self.routing.view();
        for node in view.order(&ask.query.key).take(FORWARDS_MAX) {
            if node == self.context.node() {
                break;
            }
            match self.forward(ask, node).await {
                Hop::Answered(answer) => return self.or_fallback_beside(ask, answer).await,
                // The key may have been purged, or have moved, while this waited for another node.
                Hop::NextNode => looked = Looked::NotYet,
            }
        }
        match self.answer_here(ask, looked).await {
            LocalAnswer::Elsewhere => self.at_new_owner(ask).await,
            answer => answer,
        }
    }

    /// Answers from memory, or leads or joins a flight. Used by the owner, for its own clients' requests and for forwarded
    /// ones, and by a node that stands in for an owner that is gone.
    pub(super) async fn answer_here(self: &Arc<Self>, ask: &Ask, looked: Looked) -> LocalAnswer {
        let looked = match looked {
            looked if self.cache.guard().is_awake(self.context.now()) => looked,
            _ => {
                self.cache.look_after_pause().await;
                Looked::NotYet
            }
        };
        let held = match looked {
            Looked::Once(held) => held,
            Looked::NotYet => self.cache.look(&ask.query.key),
        };
        if ask.freshness.no_cache && ask.freshness.only_if_cached {
            // Neither what is stored nor a run.
            return LocalAnswer::Answered(self.not_cached(ask));
        }
        if let Some(outcome) = self.from_memory(ask, held.as_ref()) {
            return LocalAnswer::Answered(outcome);
        }
        if ask.freshness.only_if_cached {
            return LocalAnswer::Answered(self.look_in_store(ask, held.as_ref()).await);
        }
        if self.cache.uncacheable().contains(&ask.query.key, self.context.now()) {
            return LocalAnswer::NotARead(Reason::TooLarge);
        }
        if self.context.lifecycle().leads_no_more() {
            return self.hand_on();
        }
        if ask.freshness.no_cache {
            return self.read_anew(ask, held).await;
        }
        let left = ask.deadline.since(self.context.now());
        let answer = tokio::select! {
            biased;
            answer = self.compete(ask, held) => answer,
            () = self.context.sleep(left) => {
                LocalAnswer::Answered(self.failed(ask, FailureKind::DeadlinePassed.into(), Role::Joined))
            }
        };
        self.or_fallback(ask, answer).await
    }

    /// Joins the flight of the key or leads it, until one of them has an answer for this request.
    async fn compete(self: &Arc<Self>, ask: &Ask, mut held: Option<SharedCopy>) -> LocalAnswer {
        // How the flight ended after which this request tries again.
        let mut before: Option<Arc<FlightResult>> = None;
        for round in 0..COMPETE_ROUNDS_MAX {
            if self.context.lifecycle().leads_no_more() {
                return self.hand_on();
            }
            if round > 0 {
                held = self.cache.look(&ask.query.key);
            }
            let joined = self.context.now();
            let (follower, role) = match self.fetch.flights().join(&ask.query.key) {
                Seat::Full => break,
                Seat::Follow(follower) => {
                    self.context.note(Event::Joined);
                    self.prefetch.joined(&ask.query.key);
                    (follower, Role::Joined)
                }
                Seat::Lead(leader) => {
                    if let Some(landed) = &before
                        && !self.fetch.may_retry()
                    {
                        leader.land(Arc::clone(landed));
                        return self.of_result(ask, landed.result(), Role::Joined, joined);
                    }
                    (self.launch(leader, self.job_of_miss(ask), held.clone()), Role::Led)
                }
            };
            let landed = match self.wait_for_flight(ask, follower, held.as_ref()).await {
                FlightEnd::Landed(landed) => landed,
                FlightEnd::Lost => continue,
                FlightEnd::Fallback(outcome) => return LocalAnswer::Answered(outcome),
            };
            // One reading of the clock for the judgement and the answer: read once more, the value could have died meanwhile.
            let now = self.context.now();
            match self.judge(ask, &landed, (role, joined, now), before.is_none()) {
                Judgement::Answer => return self.of_result(ask, landed.result(), role, now),
                Judgement::OnceMore => before = Some(landed),
                Judgement::Again => {}
                // Flights are shared by key; what this request asks beyond that, it asks for itself.
                Judgement::AskAlone => return self.read_anew(ask, held).await,
            }
        }
        LocalAnswer::Answered(self.failed(ask, FailureKind::Overloaded.into(), Role::Joined))
    }

    async fn wait_for_flight(
        &self,
        ask: &Ask,
        follower: Follower<Arc<FlightResult>>,
        held: Option<&SharedCopy>,
    ) -> FlightEnd {
        if let Some(outcome) = self.overdue_fallback(ask, held) {
            return FlightEnd::Fallback(outcome);
        }
        tokio::select! {
            biased;
            wait = follower.wait() => match wait {
                Wait::Landed(landed) => FlightEnd::Landed(landed),
                Wait::Lost => FlightEnd::Lost,
            },
            outcome = self.fallback_when_overdue(ask) => FlightEnd::Fallback(outcome),
        }
    }

    /// What the end of a flight is to a request that led or joined it.
    fn judge(
        &self,
        ask: &Ask,
        landed: &FlightResult,
        (role, joined, now): (Role, MonoTime, MonoTime),
        is_first: bool,
    ) -> Judgement {
        let result = landed.result();
        // A scope has no password: flights are shared by all who send the same user's name. A no to other credentials says
        // nothing of these. A no to the same ones is taken at once: Neo4j locks a user out after three.
        if landed.refuses_other_credentials(&ask.query.identity.fingerprint) {
            return Judgement::Again;
        }
        // One client's `maxExecutionTime` is no other client's: whoever allows more leads or joins the next flight.
        if role == Role::Joined && landed.was_cut_short_for(ask.run_ms_max) {
            return Judgement::Again;
        }
        // A run that waits for one client's bookmark, and fails over that, is no other client's.
        if role == Role::Joined && landed.waited_for_other_than(&ask.bookmarks) {
            return Judgement::Again;
        }
        // It began, as far as is known, before what this request's client has seen: the next flight carries its bookmarks.
        if role == Role::Joined && landed.is_before(&ask.bookmarks) {
            return Judgement::Again;
        }
        // What the server says of the statement is everybody's answer, and so is a run that used up its time. Any other
        // failure was the leader's luck: a follower tries once more before it takes it for its own, unless such tries have
        // left the key held back.
        let is_held_back = || self.fetch.held_back(&ask.query.key).is_some();
        if role == Role::Joined && is_first && result.is_leaders_luck() && !is_held_back() {
            return Judgement::OnceMore;
        }
        if self.is_holder_too_old(ask, result, (role, joined, now)) {
            return Judgement::Again;
        }
        if role == Role::Joined && !is_fresh_enough(ask, result, now) {
            return Judgement::AskAlone;
        }
        Judgement::Answer
    }

    /// Starts the leader's task, and gives its request a seat on the flight. The task belongs to this node and not to the
    /// request: a client that leaves cancels nothing.
    fn launch(
        self: &Arc<Self>,
        leader: KeyLeader,
        job: FetchJob,
        held: Option<SharedCopy>,
    ) -> Follower<Arc<FlightResult>> {
        let (follower, path) = (leader.follow(), Arc::clone(self));
        self.context.spawn(async move {
            tokio::select! {
                biased;
                () = path.lead(leader, job, held) => {}
                // Dropped, it gives its lease back and tells its followers that it was lost.
                () = path.context.lifecycle().flights_handed_on() => {}
            }
        });
        follower
    }

    /// Fetches (lease · run · commit), keeps what came, and tells everyone.
    async fn lead(self: &Arc<Self>, leader: KeyLeader, job: FetchJob, held: Option<SharedCopy>) {
        self.refresh.saw(&job.query);
        let key = job.query.key;
        // A purge may have come since the request looked, and its copy must be no fallback then: the request looks, and finds
        // X · a purge empties memory · this task begins, and counts that purge among those of before.
        let before = self.cache.purges();
        let held = held.filter(|held| self.cache.look(&key).is_some_and(|now| Arc::ptr_eq(held, &now)));
        let fallback = self.cache.fallback_from_memory(&job.query, held.as_ref(), before);
        let expired = self.refresh.expired(held.as_ref()).cloned();
        let give_up_at = self.context.now() + self.policy.run_timeout_ms + Millis(LEASE_MS_MAX);
        let mut fetched = self.fetch.fetch(&job, Terms::miss(give_up_at), held.as_ref()).await;
        let (is_leased, lease) = (fetched.is_leased(), fetched.take_lease());
        let result = fetched.result_for_client();
        self.note_demand_run(&result);
        if let Some(expired) = expired {
            self.refresh.note_late_miss(&expired, &result);
        }
        self.fetch.keep(&job, &result);
        // The server would not give the old value any more: no later outage may bring it back (I11). The store has it no more
        // (`Fetch::end_without_result`). A request that hears of the refusal from this node gets nothing older from it any
        // more; the other nodes are told when those who wait have their answer.
        let has_old = result.is_refusal() && (fallback.is_taken() || self.cache.look(&key).is_some());
        let telling = if has_old { self.invalidate.refused(&key).await } else { None };
        // Only now: a quick refresh would otherwise keep the new value before this keeps the stale one.
        if let (FetchResult::Stale(copy), Some(lease)) = (&result, lease) {
            self.refresh.take_over(job.clone(), copy, lease);
        }
        if !leader.is_attached() {
            // An invalidation came between our read and our keeping it:
            //   we read X · purge detaches this flight · purge empties memory · we keep X.
            self.cache.remove(&key);
        }
        drop(fallback);
        let followers = leader.land(Arc::new(FlightResult::new(&job, result)));
        self.context.note(Event::Landed { followers });
        if has_old {
            self.invalidate.tell_refused(&key, is_leased).await;
        }
        drop(telling);
    }

    /// `no-cache`: a read that begins after the request came, so no flight under way will do. It is stored where nobody else
    /// holds the lease; where somebody does, it is only answered.
    async fn read_anew(self: &Arc<Self>, ask: &Ask, held: Option<SharedCopy>) -> LocalAnswer {
        let mut job = FetchJob::of(ask, Cause::Miss);
        job.bounds.age_max_ms = Some(Millis::ZERO);
        let path = Arc::clone(self);
        let task = self.context.spawn(async move {
            tokio::select! {
                biased;
                result = path.lead_anew(&job, held.as_ref()) => Some(result),
                // Dropped, it gives its lease back.
                () = path.context.lifecycle().flights_handed_on() => None,
            }
        });
        let left = ask.deadline.since(self.context.now());
        tokio::select! {
            biased;
            ended = task => match ended {
                Ok(Some(result)) => self.of_result(ask, &result, Role::Led, self.context.now()),
                Ok(None) => self.hand_on(),
                Err(_) => LocalAnswer::Answered(self.failed(ask, FailureKind::BadResult.into(), Role::Led)),
            },
            () = self.context.sleep(left) => {
                LocalAnswer::Answered(self.failed(ask, FailureKind::DeadlinePassed.into(), Role::Led))
            }
        }
    }

    async fn lead_anew(&self, job: &FetchJob, held: Option<&SharedCopy>) -> FetchResult {
        let result = self.fetch.fetch(job, Terms::no_cache(), held).await.result_for_client();
        self.note_demand_run(&result);
        // An older copy must not be served on; the new one is in the store. It is not kept here: without a seat in a table
        // nobody would tell us of a purge in between. A run without a result brought nothing newer, and leaves the copy to
        // those who take it; unless the server would not give that any more.
        if matches!(result, FetchResult::Ran { .. } | FetchResult::Found(_)) || result.is_refusal() {
            self.cache.remove(&job.query.key);
        }
        result
    }

    /// With caching off, what was stored while it was on is no answer any more.
    fn job_of_miss(&self, ask: &Ask) -> FetchJob {
        let job = FetchJob::of(ask, Cause::Miss);
        if self.policy.ttl_ms > Millis::ZERO { job } else { FetchJob { bounds: ValueBounds::NOTHING, ..job } }
    }

    /// The budget of prefetches grows with the runs of clients' misses.
    fn note_demand_run(&self, result: &FetchResult) {
        if result.was_run() {
            self.prefetch.demand_miss();
        }
    }
}

/// How a request's wait for a flight ended.
enum FlightEnd {
    Landed(Arc<FlightResult>),
    /// The leader panicked or was dropped.
    Lost,
    /// The flight is overdue, and a stale answer stands in for it.
    Fallback(Outcome),
}

/// What the end of a flight is to one request.
enum Judgement {
    /// Its answer.
    Answer,
    /// The leader's luck: another flight, once.
    OnceMore,
    /// No answer to this request: another flight.
    Again,
    /// Not as fresh as this request asks.
    AskAlone,
}
