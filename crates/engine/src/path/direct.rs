//! Reads whose caching does not pay are run directly: by the node that the client asked, for its clients that ask for the same at
//! this moment.
//!
//! Such a run asks no other node and takes no lease, so a key may run once on each node (I1 holds by node for these patterns).
//! The whole way is taken by everything that is not usual: a key that this node has read a moment ago, a key with a copy here or a
//! forward under way, a statement that Neo4j has not called a read yet, a request that asks for more freshness, a node that leaves
//! or was stopped, an origin in trouble. And by a request whose direct run failed: only the whole way knows older answers.

use std::sync::Arc;

use hopcache_core::limits::STALE_FALLBACK_LOOK_MS;
use hopcache_core::pattern_worth::WorthView;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::flight::{Follower, Seat, Wait};
use crate::fetch::{FetchResult, FlightLeader, FlightResult, Verdict};
use crate::model::ask::{Ask, Query};
use crate::model::event::{Cause, Event};
use crate::model::job::FetchJob;
use crate::model::outcome::{FailureKind, Role};
use crate::model::ports::{OriginError, OriginFault};
use crate::path::Path;
use crate::path::answers::LocalAnswer;
use crate::path::forward::forward_key;
use crate::path::judgement::Judgement;
use crate::path::request::MemoryLookup;

/// A seat in a flight that answers a request without the whole way.
pub(super) struct DirectSeat {
    follower: Follower<Arc<FlightResult>>,
    role: Role,
    joined: MonoTime,
}

impl Path {
    /// What this node knows of the worth of caching a query's pattern.
    pub(super) fn worth_of(&self, query: &Query) -> Option<WorthView> {
        let worths = self.policy.now().counts_worth().then(|| self.cache.pattern_worths())?;
        worths.view(query, self.routing.view().members().len())
    }

    /// Patterns whose reads this node runs directly at present.
    #[must_use]
    pub fn direct_patterns(&self) -> usize {
        if self.policy.now().counts_worth() { self.cache.pattern_worths().direct_patterns() } else { 0 }
    }

    /// A seat for a request that is run directly, or whose query runs here at this moment. `None`: it takes the whole way.
    pub(super) fn direct_seat(self: &Arc<Self>, ask: &Ask, lookup: &MemoryLookup) -> Option<DirectSeat> {
        let key = &ask.query.key;
        let worths = self.cache.pattern_worths();
        if !worths.is_direct(&ask.query) || !self.policy.now().counts_worth() || !self.is_usual(ask, lookup) {
            return None;
        }
        let joined = self.context.now();
        let is_under_way = self.fetch.flights().followers(key).is_some();
        let is_waited_for = || self.forwards.followers(&forward_key(ask)).is_some();
        if !is_under_way && (is_waited_for() || !worths.is_first_sight(key, joined)) {
            return None;
        }
        let (follower, role) = match self.fetch.flights().join(key) {
            Seat::Full => return None,
            Seat::Follow(follower) => {
                self.context.note(Event::Joined);
                self.prefetch.joined(key);
                follower.wanted_by(ask.client.as_ref());
                (follower, Role::Joined)
            }
            // It has just landed. Who has joined this one in this moment competes again.
            Seat::Lead(_) if is_under_way => return None,
            Seat::Lead(leader) => (self.launch_directly(leader, ask), Role::Led),
        };
        Some(DirectSeat { follower, role, joined })
    }

    /// The end of a direct run for a request. `None`: it takes the whole way.
    pub(super) async fn directly(&self, ask: &Ask, seat: DirectSeat) -> Option<LocalAnswer> {
        let DirectSeat { follower, role, joined } = seat;
        let left = ask.deadline.since(self.context.now());
        let end = tokio::select! {
            biased;
            end = follower.wait() => end,
            () = self.context.sleep(left) => {
                let failed = self.failed(ask, FailureKind::DeadlinePassed.into(), role);
                return Some(LocalAnswer::Answered(failed));
            }
            // The run may wait long for a Neo4j that is silent. The whole way knows older answers, and joins this run if it needs one.
            () = self.until_neo4j_is_away() => return None,
        };
        let Wait::Landed(landed) = end else { return None };
        let now = self.context.now();
        match self.judge(ask, &landed, (role, joined, now), (joined, true)) {
            Judgement::Answer if !needs_whole_way(landed.result()) => {
                let answer = self.of_result(ask, landed.result(), role, now);
                Some(self.or_fallback(ask, answer).await)
            }
            _ => None,
        }
    }

    async fn until_neo4j_is_away(&self) {
        while self.origin.is_reachable() {
            self.context.sleep(Millis(STALE_FALLBACK_LOOK_MS)).await;
        }
    }

    /// Whether nothing about a request or this node demands the whole way.
    fn is_usual(&self, ask: &Ask, lookup: &MemoryLookup) -> bool {
        let (key, now) = (&ask.query.key, self.context.now());
        let has_copy = || match lookup {
            MemoryLookup::Once(held) => held.is_some(),
            MemoryLookup::NotYet => self.cache.look(key).is_some(),
        };
        ask.freshness.is_plain()
            && !ask.is_forwarded
            && self.fetch.classifier().verdict(&ask.query) == Verdict::Read
            && !self.context.lifecycle().leads_no_more()
            && self.cache.is_awake(now)
            && self.origin.is_reachable()
            && !self.origin.refuses_us()
            && self.fetch.held_back(key).is_none()
            && !self.cache.uncacheable().contains(key, now)
            && !has_copy()
    }

    /// Starts the leader's task, as [`Path::launch`] does.
    fn launch_directly(self: &Arc<Self>, leader: FlightLeader, ask: &Ask) -> Follower<Arc<FlightResult>> {
        let (follower, abandonment) = (leader.follow(), leader.abandonment());
        follower.wanted_by(ask.client.as_ref());
        let (path, job) = (Arc::clone(self), FetchJob::of(ask, Cause::Miss));
        self.spawn_leader(abandonment, async move {
            let result = path.fetch.run_directly(&job).await;
            path.note_demand_run(&job, &result);
            // The server refuses to give what the store may still have of before the pattern was run directly (I11).
            let is_refusal = result.is_refusal();
            let telling = if is_refusal { path.invalidate.refused(&job.query.key).await } else { None };
            path.fetch.land(leader, &job, result);
            if is_refusal {
                path.invalidate.tell_refused(&job.query.key, false).await;
            }
            drop(telling);
        });
        follower
    }
}

/// Whether the end of a run is no answer yet: where another run may help, the whole way makes it, and knows older answers. What Neo4j
/// has said about the statement, a time that is over and a limit that is reached are the answer: nobody runs the statement again
/// unasked. Nobody asks with refused credentials again: each log-on with them brings the user nearer to Neo4j's lockout.
fn needs_whole_way(result: &FetchResult) -> bool {
    match result {
        FetchResult::Failed(OriginError { kind, .. }) => {
            matches!(kind, OriginFault::Cut(_) | OriginFault::Transient(_) | OriginFault::Unreachable(_))
        }
        FetchResult::HeldBack { .. } => true,
        FetchResult::Ran { .. }
        | FetchResult::Found(_)
        | FetchResult::Stale(_)
        | FetchResult::NotARead(_) => false,
    }
}
