//! Which runs of this node offer their results to the store (`hopcache_core::admission`).
//!
//! Only the owner of a key may keep a result to itself: other nodes ask it. Other leaders always offer their results, because
//! nodes look for those only in the store. So does everybody for a while after the ring has changed: nodes may not agree on it
//! yet, or a part of them is cut off and has owners of its own.
//!
//! A request that wants more than an earlier value may have such a value in the store (`no-cache`, a bookmark). Its result is
//! always offered too. Schedule without that:
//!   the store has X · a request with a later bookmark runs, and its result Y stays in memory · the memory evicts Y · the next
//!   request gets X.

use std::sync::Arc;

use hopcache_core::admission::{self, Offer, Room};
use hopcache_core::time::Millis;
use parking_lot::Mutex;

use crate::cache::copy::SharedCopy;
use crate::model::context::Context;
use crate::model::event::Cause;
use crate::model::job::FetchJob;
use crate::model::ports::Routing;

/// The decision, with what it needs to know.
pub(super) struct Admission {
    context: Context,
    routing: Arc<dyn Routing>,
    decision: Mutex<admission::Admission>,
}

impl Admission {
    pub(super) fn new(context: &Context, routing: &Arc<dyn Routing>, room: Room) -> Self {
        let decision = admission::Admission::new(room, context.now());
        Self { context: context.clone(), routing: Arc::clone(routing), decision: Mutex::new(decision) }
    }

    /// From now on this is the room.
    pub(super) fn set_room(&self, room: Room) {
        self.decision.lock().set_room(room);
    }

    /// Whether the result of a run is offered to the store. `held` is the copy that it replaces; `is_settled`: no key moves.
    pub(super) fn admits(
        &self,
        job: &FetchJob,
        (held, is_settled): (Option<&SharedCopy>, bool),
        (bytes, cost_ms): (usize, Millis),
    ) -> bool {
        let (key, now) = (&job.query.key, self.context.now());
        let bounds = &job.bounds;
        let wants_more = bounds.age_max_ms.is_some() || !bounds.after.is_empty();
        let is_asked_again = held.is_some() || job.cause == Cause::Refresh;
        if wants_more || is_asked_again || !is_settled || !self.is_owner(job) {
            self.decision.lock().saw(key, now);
            return true;
        }
        self.decision.lock().admits(key, Offer { bytes: bytes as u64, cost_ms }, now)
    }

    /// Whether this node owns the key by its ring.
    pub(super) fn is_owner(&self, job: &FetchJob) -> bool {
        self.routing.view().owner(&job.query.key) == Some(self.context.node())
    }
}
