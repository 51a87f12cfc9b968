//! What sessions teach, and what is warmed by it (DESIGN "Prefetch").
//!
//! | file | decides |
//! |---|---|
//! | `policy` | what the operator decides |
//! | `observe` | which answered requests are observed, and who is told of them |
//! | `lessons` | what the owner of a session makes of them: steps, counts |
//! | `fields` | whom it asks for the fields of results |
//! | `consider` | what may come next, in which order |
//! | `anchors` | which recent queries started from the same graph node |
//! | `launch`, `order` | at the owner of a candidate's key: whether an order is carried out, and the flight that does |
//! | `tickets` | what became of it; whoever learns from that is told by [`Learner`] |
//! | `feedback` | what is learned from that |
//! | `share` | when nodes tell each other what they have learned |
//! | `learned`, `sought`, `view`, `flush` | what operators see, and may throw away |
//!
//! No client ever waits for anything here, and nothing here is shown to one: a prefetch that comes to nothing leaves those
//! who joined it as if it had not been there. A prefetch is no request: it is not observed, so none brings about another.
//!
//! Whatever arrives in a message is answered from this node's memory at once;
//! what asks other nodes runs in tasks of the engine's own, so that a question between nodes never waits for another one
//! (promise I8).

mod anchors;
mod consider;
mod feedback;
mod fields;
mod flush;
mod launch;
mod learned;
mod lessons;
mod observe;
mod order;
mod policy;
mod share;
mod sought;
mod tickets;
pub(crate) mod view;
mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hopcache_core::key::KeyHasher;
use hopcache_core::node::Holder;
pub use hopcache_learning::gain::CandidateKind;
use hopcache_learning::tellers::Teller;
use hopcache_learning::{Bounds, OriginTag, Successors};
pub use hopcache_learning::{FormId, PatternTag, QueryTag, SourceId};
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use flush::Flushed;
pub use learned::{LearningSizes, PatternView, SuccessorView};
pub use order::{Launch, Order, Skip};
pub use policy::{Kinds, PrefetchPolicy};
pub use tickets::{Learner, PrefetchedView, Resolution, Resolved};
pub(crate) use tickets::{Ticket, Tickets};
pub use words::{ObservationWord, ShareWord};

use crate::ports::Clock;
use consider::Considering;
use feedback::Feedback;
use lessons::Lessons;
use observe::Observing;

/// What a node has seen, and what it knows.
pub(crate) struct Learning {
    /// This node, as the owners of sessions know it.
    me: Teller,
    observing: Observing,
    lessons: Lessons,
    considering: Considering,
    /// What became of launches.
    pub(crate) feedback: Arc<Feedback>,
    /// What follows what. Locked for single calls.
    pub(crate) model: Arc<Mutex<Successors>>,
    /// Woken when a form was named that cannot be run here.
    lacking: Notify,
    has_ended: AtomicBool,
}

impl Learning {
    pub(crate) fn new(
        me: &Holder,
        hasher: &KeyHasher,
        policy: &PrefetchPolicy,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let tag = OriginTag::of(hasher, &me.node);
        let patterns = usize::try_from(policy.patterns_max).unwrap_or(usize::MAX);
        let model = Successors::new(tag, me.incarnation, Bounds::for_patterns(patterns), clock.now());
        let model = Arc::new(Mutex::new(model));
        Self {
            me: Teller { node: tag, life: me.incarnation },
            observing: Observing::new(),
            lessons: Lessons::new(),
            considering: Considering::new(),
            feedback: Arc::new(Feedback::new(Arc::clone(clock), Arc::clone(&model), policy.queries_max)),
            model,
            lacking: Notify::new(),
            has_ended: AtomicBool::new(false),
        }
    }

    /// No task begins any more: other nodes may go on telling for a while, and the engine waits for its tasks to end.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}
