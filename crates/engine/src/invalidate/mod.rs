//! Invalidation: purges, the invalidation log, and copies whose key has moved to another owner.
//!
//! It decides which nodes have to forget, and in which order. It runs nothing at the origin, and serves nobody.

mod handover;
mod log;
mod purge;

use std::sync::Arc;

use hopcache_core::limits;
use hopcache_core::time::Millis;
use tokio::sync::Semaphore;

use crate::cache::{Cache, WatchedStore};
use crate::invalidate::handover::HandoverRings;
use crate::model::context::Context;
use crate::model::policy::PolicyInForce;
use crate::model::ports::Routing;
use crate::peers::PeerCalls;

pub(crate) use handover::FormerCopy;
pub use handover::RingChange;
pub use purge::PurgeOutcome;

/// Invalidates on this node and on others.
pub struct Invalidate {
    context: Context,
    cache: Arc<Cache>,
    store: Arc<WatchedStore>,
    peers: Arc<PeerCalls>,
    routing: Arc<dyn Routing>,
    rings: HandoverRings,
    /// Bounds the flights that announce a refusal to other nodes at a time.
    refusals: Semaphore,
    policy: PolicyInForce,
    probe_timeout_ms: Millis,
}

impl Invalidate {
    pub(crate) fn new(
        context: &Context,
        (cache, store): (&Arc<Cache>, &Arc<WatchedStore>),
        (peers, routing): (&Arc<PeerCalls>, &Arc<dyn Routing>),
        policy: &PolicyInForce,
    ) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            cache: Arc::clone(cache),
            store: Arc::clone(store),
            peers: Arc::clone(peers),
            routing: Arc::clone(routing),
            rings: HandoverRings::new(routing.view()),
            refusals: Semaphore::new(limits::REFUSALS_TOLD_AT_A_TIME),
            policy: policy.clone(),
            probe_timeout_ms: policy.now().probe_timeout_ms,
        })
    }
}
