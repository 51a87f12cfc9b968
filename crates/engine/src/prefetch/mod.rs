//! What sessions teach, and what is warmed by it (DESIGN "Prefetch").
//!
//! | file | decides |
//! |---|---|
//! | [`policy`] | what the operator decides |
//! | `observe` | which answered requests are observed, and who is told of them |
//! | `lessons` | what the owner of a session makes of them: steps, counts |
//! | `fields` | whom it asks for the fields of results |
//! | `consider` | what may come next, in which order |
//! | `anchors` | which recent queries started from the same graph node |
//! | `share` | when nodes tell each other what they have learned |
//!
//! Nobody's answer waits for anything here. Whatever arrives in a message is answered from this node's memory at once;
//! what asks other nodes runs in tasks of the engine's own, so that a question between nodes never waits for another one
//! (promise I8).

mod anchors;
mod consider;
mod feedback;
mod fields;
mod lessons;
mod observe;
mod order;
pub mod policy;
mod share;
mod stub;
mod view;

use std::sync::Arc;

use hopcache_core::key::KeyHasher;
use hopcache_core::learning::{Bounds, OriginTag, Successors};
pub use hopcache_core::learning::gain::CandidateKind;
pub use hopcache_core::learning::{FormId, PatternTag, QueryTag, SourceId};
use hopcache_core::node::Holder;
use parking_lot::Mutex;

pub use order::{Launch, Order, Skip};
pub use policy::{Kinds, PrefetchPolicy};
pub use stub::{Learner, Resolved, Resolution};

pub use view::{LearningSizes, PatternView, SuccessorView};

use consider::Considering;
use feedback::Feedback;
use lessons::Lessons;
use observe::Observing;
use crate::ports::Clock;

/// What a node has seen, and what it knows.
pub(crate) struct Learning {
    observing: Observing,
    lessons: Lessons,
    considering: Considering,
    /// What became of launches.
    pub(crate) feedback: Arc<Feedback>,
    /// What follows what. Locked for single calls.
    pub(crate) model: Arc<Mutex<Successors>>,
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
            observing: Observing::new(),
            lessons: Lessons::new(),
            considering: Considering::new(),
            feedback: Arc::new(Feedback::new(Arc::clone(clock), Arc::clone(&model), policy.queries_max)),
            model,
        }
    }
}
