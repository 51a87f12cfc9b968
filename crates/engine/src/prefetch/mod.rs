//! Prefetch: lessons from sessions, and the entries that are read ahead because of them (DESIGN "Prefetch").
//!
//! | file | decides |
//! |---|---|
//! | `observe` | which answered requests are observed, and which node gets the observations |
//! | `transitions` | which steps and counts the owner of a session learns from them |
//! | `fields` | which nodes are asked for the fields of results |
//! | `consider` | at the owner of an answered query's key: which queries may come next, in which order |
//! | `answered` | nothing: answered queries that wait to be considered, and their gate |
//! | `orders` | which orders travel together |
//! | `candidate`, `statements`, `recent_keys`, `prospects` | nothing: they hold candidates, or remember readings of texts, keys of the last moment, and what follows a pattern |
//! | `neighbours` | which queries find the nodes that a result names, before anything was learned |
//! | `anchors` | which recent queries started from the same graph node |
//! | `launch` | at the owner of a candidate's key: whether an order is carried out, and its flight |
//! | `tickets` | how each launch ended; it calls the [`Learner`] |
//! | `feedback` | how many launches a source has, according to its last ones |
//! | `share` | when nodes send each other their transition counts |
//! | `learned`, `search`, `flush` | which lessons operators see, and which copies they may drop |
//!
//! No client ever waits for anything here or sees anything of it. A failed prefetch leaves the requests that joined it
//! as if it had not been there. A prefetch is no request: it is not observed, so no prefetch causes another (but for the steps of typed
//! neighbours that `prefetch.depth` allows).
//!
//! A message is answered from this node's memory at once. Questions to other nodes are asked in tasks of their own, so
//! that a question between nodes never waits for another one (promise I8).

mod anchors;
mod answered;
mod candidate;
mod candidates;
mod consider;
mod feedback;
mod fields;
mod flush;
mod launch;
mod learned;
mod neighbours;
mod observe;
mod orders;
mod prospects;
mod recent_keys;
mod search;
mod share;
mod statements;
mod tickets;
mod transitions;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use hopcache_core::key::{KeyHasher, QueryKey};
use hopcache_core::time::Millis;
use hopcache_learning::clock_offsets::SenderClock;
use hopcache_learning::{Bounds, OriginTag, Successors};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cache::{Cache, WatchedStore};
use crate::fetch::Fetch;
use crate::invalidate::Invalidate;
use crate::model::ask::Query;
use crate::model::context::Context;
use crate::model::policy::PolicyInForce;
use crate::model::ports::{Cores, Origin, Routing, Spread};
use crate::peers::PeerCalls;
use crate::prefetch::consider::ConsiderQueue;
use crate::prefetch::feedback::Feedback;
use crate::prefetch::observe::ObservationOutbox;
use crate::prefetch::orders::OrderLimits;
use crate::prefetch::statements::Statements;
use crate::prefetch::tickets::Tickets;
use crate::prefetch::transitions::TransitionLearning;
use crate::refresh::Refresh;

pub use crate::model::order::{Launch, Order, Skip};
pub use flush::FlushReach;
pub use hopcache_learning::gain::CandidateKind;
pub use hopcache_learning::{FormId, PatternTag, QueryTag, SourceId};
pub use learned::{LearningSizes, PatternView, SuccessorView};
pub use tickets::{Learner, Resolution, ResolvedLaunch};

/// Learns which queries sessions ask next, and runs them ahead of the requests.
pub struct Prefetch {
    context: Context,
    cache: Arc<Cache>,
    store: Arc<WatchedStore>,
    peers: Arc<PeerCalls>,
    routing: Arc<dyn Routing>,
    invalidate: Arc<Invalidate>,
    fetch: Arc<Fetch>,
    refresh: Arc<Refresh>,
    origin: Arc<dyn Origin>,
    spread: Arc<dyn Spread>,
    cores: Arc<dyn Cores>,
    hasher: KeyHasher,
    policy: PolicyInForce,
    run_timeout_ms: Millis,
    probe_timeout_ms: Millis,
    learning: LearningState,
    tickets: Arc<Tickets>,
}

/// The rooms below that prefetch uses.
type RoomsBelow<'a> = (
    &'a Arc<Cache>,
    &'a Arc<WatchedStore>,
    &'a Arc<PeerCalls>,
    &'a Arc<Invalidate>,
    &'a Arc<Fetch>,
    &'a Arc<Refresh>,
);

/// The ports that prefetch uses itself.
type OwnPorts<'a> = (&'a Arc<dyn Routing>, &'a Arc<dyn Origin>, Arc<dyn Spread>, Arc<dyn Cores>);

impl Prefetch {
    pub(crate) fn new(
        context: &Context,
        (cache, store, peers, invalidate, fetch, refresh): RoomsBelow<'_>,
        (routing, origin, spread, cores): OwnPorts<'_>,
        hasher: &KeyHasher,
        in_force: &PolicyInForce,
    ) -> Arc<Self> {
        let policy = in_force.now();
        Arc::new(Self {
            context: context.clone(),
            cache: Arc::clone(cache),
            store: Arc::clone(store),
            peers: Arc::clone(peers),
            routing: Arc::clone(routing),
            invalidate: Arc::clone(invalidate),
            fetch: Arc::clone(fetch),
            refresh: Arc::clone(refresh),
            origin: Arc::clone(origin),
            spread,
            cores,
            hasher: hasher.clone(),
            policy: in_force.clone(),
            run_timeout_ms: policy.run_timeout_ms,
            probe_timeout_ms: policy.probe_timeout_ms,
            learning: LearningState::new(context, hasher, in_force),
            tickets: Tickets::new(Arc::clone(context.observer())),
        })
    }

    /// Forgets how statements were read: the operator has changed what is a read.
    pub(crate) fn forget_statements(&self) {
        self.learning.statements.forget();
    }

    /// Names the learner that receives the ends of launches. Returns whether it is the first.
    pub fn teach_by(&self, learner: Arc<dyn Learner>) -> bool {
        self.tickets.teach(learner)
    }

    /// A probability of this kind, corrected by the results of launches for this node's keys.
    #[must_use]
    pub fn calibrated(&self, kind: CandidateKind, p: f64) -> f64 {
        self.tickets.calibrated(kind, p)
    }

    /// Launches that are neither used nor wasted yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.tickets.pending()
    }

    /// Launches that the node's budget allows now.
    #[must_use]
    pub fn tokens(&self) -> i64 {
        self.tickets.tokens()
    }

    /// Prefetches that are under way here, from their order to their end.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.tickets.flying()
    }

    /// Ends the launches whose copies are dead. Called each time the invalidation log is read.
    pub fn sweep(&self) {
        self.tickets.sweep(self.context.now());
    }

    /// A demand miss ran at the origin: the budget of launches grows with it.
    pub(crate) fn demand_miss(&self, query: &Query) {
        self.tickets.demand_miss(self.cache.key_stats().mean_ms(&query.cost_key()));
    }

    /// A client's request joined the flight of a key, which may be a prefetch's.
    pub(crate) fn joined(&self, key: &QueryKey) {
        self.tickets.joined(key);
    }

    /// Begins no task any more. Other nodes may go on sending for a while, and this node waits for its tasks to end.
    pub(crate) fn end(&self) {
        self.learning.has_ended.store(true, atomic::Ordering::Release);
    }

    /// Learns from the sessions that this node owns, and considers what follows the answers of its keys, for ever. The
    /// node spawns it once. A second call would consider nothing, but take some of the first one's lessons.
    pub async fn count_transitions(self: &Arc<Self>) -> Infallible {
        let (never, _) = tokio::join!(self.consider_for_ever(), self.learn_for_ever());
        never
    }

    /// Leaves unused launches pending. Called when the tasks have ended.
    pub(crate) fn end_pending(&self) {
        self.tickets.end();
    }
}

/// Observations and lessons of a node.
struct LearningState {
    /// This node, as the owners of sessions know it.
    me: SenderClock,
    observing: ObservationOutbox,
    transitions: TransitionLearning,
    considering: ConsiderQueue,
    ordering: OrderLimits,
    statements: Statements,
    /// How launches ended.
    feedback: Arc<Feedback>,
    /// Which query follows which. Locked for single calls.
    model: Arc<Mutex<Successors>>,
    /// Woken when a form was named that cannot be run here.
    lacking: Notify,
    has_ended: AtomicBool,
}

impl LearningState {
    fn new(context: &Context, hasher: &KeyHasher, policy: &PolicyInForce) -> Self {
        let (me, clock) = (context.me(), context.clock());
        let tag = OriginTag::of(hasher, &me.node);
        let patterns = usize::try_from(policy.now().prefetch.patterns_max).unwrap_or(usize::MAX);
        let model = Successors::new(tag, me.incarnation, Bounds::for_patterns(patterns), clock.now());
        let model = Arc::new(Mutex::new(model));
        let policy = policy.clone();
        let queries_max = Box::new(move || policy.now().prefetch.queries_max);
        Self {
            me: SenderClock { node: tag, life: me.incarnation },
            observing: ObservationOutbox::new(),
            transitions: TransitionLearning::new(),
            considering: ConsiderQueue::new(),
            ordering: OrderLimits::new(),
            statements: Statements::new(),
            feedback: Arc::new(Feedback::new(Arc::clone(clock), Arc::clone(&model), queries_max)),
            model,
            lacking: Notify::new(),
            has_ended: AtomicBool::new(false),
        }
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(atomic::Ordering::Acquire)
    }
}
