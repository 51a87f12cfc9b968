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
mod fields;
mod lessons;
mod observe;
pub mod policy;
mod share;

use hopcache_core::key::KeyHasher;
use hopcache_core::learning::{Bounds, OriginTag, Successors};
use hopcache_core::node::Holder;
use hopcache_core::time::MonoTime;
use parking_lot::Mutex;

pub use policy::{Kinds, PrefetchPolicy};

use lessons::Lessons;
use observe::Observing;

/// What a node has seen, and what it knows.
pub(crate) struct Learning {
    observing: Observing,
    lessons: Lessons,
    /// What follows what.
    pub(crate) model: Mutex<Successors>,
}

impl Learning {
    pub(crate) fn new(me: &Holder, hasher: &KeyHasher, policy: &PrefetchPolicy, now: MonoTime) -> Self {
        let tag = OriginTag::of(hasher, &me.node);
        let patterns = usize::try_from(policy.patterns_max).unwrap_or(usize::MAX);
        let model = Successors::new(tag, me.incarnation, Bounds::for_patterns(patterns), now);
        Self { observing: Observing::new(), lessons: Lessons::new(), model: Mutex::new(model) }
    }
}
