//! One request, start to end (DESIGN section 3), in one file. Each step is one call into the room that decides it:
//!
//! ```text
//! request  passes?       a certain write goes past the cache at once  path::bypass
//!          hit?          a copy in this node's memory                 cache
//!   answer classify      the server knows of other writes             fetch::classify
//!     at_owner           run here if caching does not pay             path::direct
//!                        one hop to the owner of the key              path::forward
//!       answer_here      memory, else a flight                        cache
//!         compete        join a flight, or lead it                    cache::flight
//!           lead         lease · run · commit                         fetch
//!   observe              what sessions teach                          prefetch
//! ```
//!
//! It returns an outcome. Other crates make status codes, headers and metrics from it, so nothing here can answer one
//! thing and count another. `answer_here` and everything below it never forward, and never wait for another node's
//! flight (I8).

use std::sync::Arc;

use hopcache_core::limits::{COMPETE_ROUNDS_MAX, FORWARDS_MAX, LEASE_MS_MAX, OTHER_SPELLINGS_ROUNDS};
use hopcache_core::time::{Millis, MonoTime};
use tokio_util::sync::CancellationToken;

use crate::cache::copy::SharedCopy;
use crate::cache::flight::{Abandonment, Follower, Seat, Wait};
use crate::fetch::{FetchResult, FlightLeader, FlightResult, Terms, Verdict};
use crate::model::ask::{Ask, RequestBypass};
use crate::model::bounds::ValueBounds;
use crate::model::event::{Cause, Event};
use crate::model::job::FetchJob;
use crate::model::outcome::{FailureKind, Outcome, Reason, Role};
use crate::path::Path;
use crate::path::answers::LocalAnswer;
use crate::path::forward::Hop;
use crate::path::judgement::Judgement;

/// The key's copy in memory when the request looked. On a miss the request looks only once.
pub(super) enum MemoryLookup {
    /// The request has not looked.
    NotYet,
    /// The copy that this node may take for the entry.
    Once(Option<SharedCopy>),
}

impl Path {
    /// Answers a client's request at its entry node, which is this one. `came` is its arrival.
    pub async fn request(self: &Arc<Self>, ask: &Ask, came: MonoTime) -> Outcome {
        let (hit, lookup) = self.hit_or_lookup(ask);
        let outcome = match hit {
            Some(outcome) => outcome,
            // Boxed, so that the future of a hit is not as large as a miss's.
            None => Box::pin(self.answer_lookup(ask, lookup)).await,
        };
        self.note_answered(ask, &outcome, came);
        outcome
    }

    /// As [`Path::request`], for a front that itself passes statements on to the origin. Its clients end what they leave, as
    /// at the origin: if this future is dropped, a run for it ends unless somebody else wants it.
    ///
    /// # Errors
    /// The reason why the request bypasses the cache. Then nothing was run for it, except to find that out.
    pub async fn request_cached(self: &Arc<Self>, ask: &Ask, came: MonoTime) -> Result<Outcome, Reason> {
        let (hit, lookup) = self.hit_or_lookup(ask);
        let outcome = match hit {
            Some(outcome) => outcome,
            None => {
                let client = CancellationToken::new();
                let ask = Ask { client: Some(client.clone()), ..ask.clone() };
                let waiting = client.drop_guard();
                let outcome = Box::pin(self.cached_answer(&ask, lookup)).await;
                waiting.disarm();
                outcome?
            }
        };
        self.note_answered(ask, &outcome, came);
        Ok(outcome)
    }

    /// As [`Path::request_cached`], if this node's memory has the answer. It never waits.
    #[must_use]
    pub fn request_hit(self: &Arc<Self>, ask: &Ask, came: MonoTime) -> Option<Outcome> {
        let outcome = self.hit(ask)?;
        self.note_answered(ask, &outcome, came);
        Some(outcome)
    }

    /// A fresh copy in this node's memory if this node owns the key, else a near copy: no await, no lock, no hop.
    #[must_use]
    pub fn hit(self: &Arc<Self>, ask: &Ask) -> Option<Outcome> {
        self.hit_or_lookup(ask).0
    }

    /// As [`Path::request`], without observing.
    pub async fn answer(self: &Arc<Self>, ask: &Ask) -> Outcome {
        self.answer_lookup(ask, MemoryLookup::NotYet).await
    }

    pub(super) fn hit_or_lookup(self: &Arc<Self>, ask: &Ask) -> (Option<Outcome>, MemoryLookup) {
        if ask.bypass.is_some() || passes(ask).is_some() {
            return (None, MemoryLookup::NotYet);
        }
        let (hit, lookup) = if self.routing.view().owner(&ask.query.key) == Some(self.context.node()) {
            let held = self.cache.look(&ask.query.key);
            (self.from_memory(ask, held.as_ref()), MemoryLookup::Once(held))
        } else {
            (self.cache.near_hit(ask), MemoryLookup::NotYet)
        };
        (hit.map(|outcome| self.for_asker(ask, outcome)), lookup)
    }

    async fn answer_lookup(self: &Arc<Self>, ask: &Ask, lookup: MemoryLookup) -> Outcome {
        match self.cached_answer(ask, lookup).await {
            Ok(outcome) => outcome,
            Err(reason) => self.bypass(ask, reason).await,
        }
    }

    /// The answer of the cache or of a flight, or the reason why the request bypasses the cache.
    pub(super) async fn cached_answer(
        self: &Arc<Self>,
        ask: &Ask,
        mut lookup: MemoryLookup,
    ) -> Result<Outcome, Reason> {
        if let Some(reason) = passes(ask) {
            return Err(reason);
        }
        // After a pause this node may not have heard of a write yet, and would join a forward or a flight from before it.
        if !self.cache.lease().may_serve(self.context.now()) {
            self.cache.lease().wait_for_poll(&self.context, ask.deadline).await;
            lookup = MemoryLookup::NotYet;
        }
        // A hit was judged by the marks of now. From here on the request keeps the mark of its arrival.
        match self.marked(ask) {
            None => self.marked_answer(ask, lookup).await,
            Some(marked) => self.marked_answer(&marked, lookup).await,
        }
    }

    /// The request with its database's mark of now, if there is one.
    fn marked(&self, ask: &Ask) -> Option<Ask> {
        let written = self.cache.write_positions().needed(&ask.query, ask.written)?;
        Some(Ask { written: Some(written), ..ask.clone() })
    }

    async fn marked_answer(self: &Arc<Self>, ask: &Ask, lookup: MemoryLookup) -> Result<Outcome, Reason> {
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
            Some(RequestBypass::Large) => return Err(Reason::TooLarge),
            None => {}
        }
        let answer = tokio::select! {
            biased;
            answer = self.at_owner(ask, lookup) => answer,
            () = self.context.lifecycle().turned_away() => {
                LocalAnswer::Answered(self.failed(ask, FailureKind::Leaving.into(), Role::Joined))
            }
        };
        match answer {
            LocalAnswer::Answered(outcome) => Ok(self.for_asker(ask, Self::in_clients_terms(ask, outcome))),
            LocalAnswer::NotARead(reason) => Err(reason),
            LocalAnswer::Elsewhere => Ok(self.failed(ask, FailureKind::Overloaded.into(), Role::Joined)),
        }
    }

    /// The owner answers. If it is gone, the next distinct node of the ring does, and this node at the latest.
    /// Whichever node it is, the store's lease limits it to one run.
    async fn at_owner(self: &Arc<Self>, ask: &Ask, mut lookup: MemoryLookup) -> LocalAnswer {
        // Once for each request, however many nodes are asked.
        self.fetch.pay_for_retries();
        if let Some(seat) = self.direct_seat(ask, &lookup) {
            // Boxed, as few requests that take the whole way come by here.
            if let Some(answer) = Box::pin(self.directly(ask, seat)).await {
                return answer;
            }
            lookup = MemoryLookup::NotYet;
        }
        let view = self.routing.view();
        for node in view.order(&ask.query.key).take(FORWARDS_MAX) {
            if node == self.context.node() {
                break;
            }
            match self.forward(ask, node).await {
                Hop::Answered(answer) => return self.or_fallback_beside(ask, answer).await,
                // During the wait for another node, the key may have been purged or have moved.
                Hop::NextNode => lookup = MemoryLookup::NotYet,
            }
        }
        match self.answer_here(ask, lookup).await {
            LocalAnswer::Elsewhere => self.at_new_owner(ask).await,
            answer => answer,
        }
    }

    /// Answers from memory, or leads or joins a flight. The owner uses it for its own clients' requests and for
    /// forwarded ones; so does a node that stands in for an owner that is gone.
    pub(super) async fn answer_here(self: &Arc<Self>, ask: &Ask, lookup: MemoryLookup) -> LocalAnswer {
        if !self.cache.is_awake(self.context.now()) {
            self.cache.poll_after_pause(ask.deadline).await;
            let marked = self.marked(ask);
            return self.answer_awake(marked.as_ref().unwrap_or(ask), MemoryLookup::NotYet).await;
        }
        self.answer_awake(ask, lookup).await
    }

    /// As [`Path::answer_here`], when the store was looked at after a pause.
    async fn answer_awake(self: &Arc<Self>, ask: &Ask, lookup: MemoryLookup) -> LocalAnswer {
        let held = match lookup {
            MemoryLookup::Once(held) => held,
            MemoryLookup::NotYet => self.cache.look(&ask.query.key),
        };
        if ask.freshness.no_cache && ask.freshness.only_if_cached {
            // The two directives exclude both stored entries and a run.
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

    /// Joins the flight of the key or leads it, until a flight has an answer for this request.
    async fn compete(self: &Arc<Self>, ask: &Ask, mut held: Option<SharedCopy>) -> LocalAnswer {
        // The end of the previous flight, if this request tries again after it.
        let mut before: Option<Arc<FlightResult>> = None;
        let came = self.context.now();
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
                    follower.wanted_by(ask.client.as_ref());
                    (follower, Role::Joined)
                }
                Seat::Lead(leader) => {
                    if let Some(landed) = &before
                        && !self.fetch.may_retry()
                    {
                        leader.land(Arc::clone(landed));
                        return self.of_result(ask, landed.result(), Role::Joined, joined);
                    }
                    self.prefetch.runs_here(ask);
                    (self.launch(leader, ask, held.clone()), Role::Led)
                }
            };
            let landed = match self.wait_for_flight(ask, follower, held.as_ref()).await {
                FlightEnd::Landed(landed) => landed,
                FlightEnd::Lost => continue,
                FlightEnd::Fallback(outcome) => return LocalAnswer::Answered(outcome),
            };
            // One reading of the clock for both judgement and answer: by a second one the value could have died
            // meanwhile.
            let now = self.context.now();
            match self.judge(ask, &landed, (role, joined, now), (came, before.is_none())) {
                Judgement::Answer => return self.of_result(ask, landed.result(), role, now),
                Judgement::StandsIn(copy) => {
                    return LocalAnswer::Answered(self.fallback_outcome(ask, &copy, now));
                }
                Judgement::OnceMore => before = Some(landed),
                // A refused statement in forty spellings: in flights, one after the other, most of them would run out of rounds.
                Judgement::Again
                    if round >= OTHER_SPELLINGS_ROUNDS && landed.fails_another_text(&ask.query) =>
                {
                    return self.read_anew(ask, held).await;
                }
                Judgement::Again => {}
                // Flights are shared by key. This request demands more, so it runs for itself.
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

    /// Starts the leader's task, and gives its request a seat on the flight. The task belongs to this node, not to the
    /// request: a client that leaves cancels nothing, unless it ends what it leaves and nobody else waits.
    fn launch(
        self: &Arc<Self>,
        leader: FlightLeader,
        ask: &Ask,
        held: Option<SharedCopy>,
    ) -> Follower<Arc<FlightResult>> {
        let (follower, abandonment) = (leader.follow(), leader.abandonment());
        follower.wanted_by(ask.client.as_ref());
        let (path, job) = (Arc::clone(self), self.job_of_miss(ask));
        self.spawn_leader(abandonment, async move { path.lead(leader, job, held).await });
        follower
    }

    /// The task of a flight's leader.
    pub(super) fn spawn_leader(
        &self,
        abandonment: Abandonment<Arc<FlightResult>>,
        leading: impl Future<Output = ()> + Send + 'static,
    ) {
        let lifecycle = self.context.lifecycle().clone();
        // Boxed here, or the future around it would be as large, and moved once more.
        let mut leading = Box::pin(leading);
        self.context.spawn(async move {
            tokio::select! {
                biased;
                () = &mut leading => {}
                // Dropped, the leader gives its lease back and ends the flight as lost. Its run ends at the origin.
                () = lifecycle.flights_handed_on() => {}
                () = abandonment.wait() => {}
            }
        });
    }

    /// Fetches (lease · run · commit), keeps the result, and tells everyone.
    pub(super) async fn lead(
        self: &Arc<Self>,
        leader: FlightLeader,
        job: FetchJob,
        held: Option<SharedCopy>,
    ) {
        self.refresh.saw(&job.query);
        let key = job.query.key;
        // A purge may have come since the request looked. Its copy must not become a fallback then:
        //   the request looks and finds X · a purge empties memory · this task begins and counts that purge as an
        //   earlier one.
        let before = self.cache.purges();
        let held = held.filter(|held| self.cache.holds(&key, held));
        let fallback = self.cache.fallback_from_memory(&job.query, held.as_ref(), before);
        let expired = self.refresh.expired(held.as_ref()).cloned();
        let give_up_at = self.context.now() + self.policy.now().run_timeout_ms + Millis(LEASE_MS_MAX);
        let mut fetched = self.fetch.fetch(&job, Terms::miss(give_up_at), held.as_ref()).await;
        let (is_leased, lease, commit) = (fetched.is_leased(), fetched.take_lease(), fetched.take_commit());
        let result = fetched.result_for_client();
        self.note_demand_run(&job, &result);
        if let Some(expired) = expired {
            self.refresh.note_late_miss(&expired, &result);
        }
        // The server refuses to give the old value now, so no later outage may bring it back (I11). The store has
        // removed it already (`Fetch::end_without_result`). This node removes it before it answers the waiters, and
        // announces it to the other nodes after that.
        let has_old = result.is_refusal() && (fallback.is_taken() || self.cache.look(&key).is_some());
        let telling = if has_old { self.invalidate.refused(&key).await } else { None };
        let result = self.fetch.keep(&leader, &job, (result, commit)).await;
        // After `keep`: otherwise a quick refresh keeps the new value first, and this task then overwrites it with the
        // stale one.
        if let (FetchResult::Stale(copy), Some(lease)) = (&result, lease) {
            self.refresh.take_over(job.clone(), copy, lease);
        }
        drop(fallback);
        self.fetch.land(leader, &job, result);
        if has_old {
            self.invalidate.tell_refused(&key, is_leased).await;
        }
        drop(telling);
    }

    /// `no-cache`: a read that begins after the request came, so a flight under way is not enough. The result is stored
    /// unless another node holds the lease; then it is only answered.
    async fn read_anew(self: &Arc<Self>, ask: &Ask, held: Option<SharedCopy>) -> LocalAnswer {
        let mut job = FetchJob::of(ask, Cause::Miss);
        job.bounds.age_max_ms = Some(Millis::ZERO);
        let (path, client) = (Arc::clone(self), ask.client.clone());
        let task = self.context.spawn(async move {
            tokio::select! {
                biased;
                result = path.lead_anew(&job, held.as_ref()) => Some(result),
                // Dropped, the run gives its lease back.
                () = path.context.lifecycle().flights_handed_on() => None,
                () = gone(client.as_ref()) => None,
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
        self.note_demand_run(job, &result);
        // The older copy must not be served any more; the new value is in the store. This node does not keep the new
        // one: without a seat in a table it would not learn of a purge in between. A run without a result brought
        // nothing newer and leaves the copy in place, unless the server refuses to give that now.
        if matches!(result, FetchResult::Ran { .. } | FetchResult::Found(_)) || result.is_refusal() {
            self.cache.remove(&job.query.key);
        }
        result
    }

    /// With caching off, entries stored earlier are no answers.
    fn job_of_miss(&self, ask: &Ask) -> FetchJob {
        let job = FetchJob::of(ask, Cause::Miss);
        if self.policy.now().ttl_ms > Millis::ZERO {
            job
        } else {
            FetchJob { bounds: ValueBounds::NOTHING, ..job }
        }
    }
}

/// Why a request goes past the cache by its text alone. `only-if-cached` asks for no run of anything.
fn passes(ask: &Ask) -> Option<Reason> {
    Reason::of_text(ask.query.lexed).filter(|_| !ask.freshness.only_if_cached)
}

/// Completes when the client has gone, if it ends what it leaves.
async fn gone(client: Option<&CancellationToken>) {
    match client {
        Some(client) => client.cancelled().await,
        None => std::future::pending().await,
    }
}

/// The end of a request's wait for a flight.
#[expect(clippy::large_enum_variant, reason = "it is matched at once, never kept")]
enum FlightEnd {
    Landed(Arc<FlightResult>),
    /// The leader panicked or was dropped.
    Lost,
    /// The flight is overdue, and a stale answer stands in for it.
    Fallback(Outcome),
}
