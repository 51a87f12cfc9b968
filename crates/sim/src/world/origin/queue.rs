//! One node's slots at the simulated origin, and the line before them: those of production (`hopcache-slots`), whose limit follows
//! how long the runs take.

use std::sync::Arc;
use std::time::Duration;

use hopcache_core::key::PrincipalScope;
use hopcache_core::limits::ORIGIN_LIMIT_MIN;
use hopcache_core::origin_limit::LimitBounds;
use hopcache_core::turns::{RunClass, TurnBounds};
use hopcache_cypher::forms::pattern::pattern_id;
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{OriginFault, OriginRun};
use hopcache_slots::{NoSlot, Slot, Slots, tick_while_used};
use tokio::time::Instant;

/// The longest wait for a slot, as `origin.wait`.
const WAIT: Duration = Duration::from_secs(1);
/// Runs that wait, for each slot: room for all that clients have under way. Runs that would wait for too long are refused.
pub const WAITING_PER_SLOT: usize = 64;

/// A node's line.
pub struct NodeQueue(Arc<Slots<PrincipalScope>>);

impl NodeQueue {
    /// At most so many runs at a time. Its ticks end with it.
    #[must_use]
    pub fn of(slots_max: usize) -> Self {
        let waiting = WAITING_PER_SLOT * slots_max;
        let bounds = TurnBounds { slots: slots_max, waiting_per_principal: waiting / 2, waiting };
        let limits = LimitBounds { min: ORIGIN_LIMIT_MIN.min(slots_max), max: slots_max };
        let slots = Arc::new(Slots::within(bounds, limits, 0));
        tokio::spawn(tick_while_used(Arc::downgrade(&slots)));
        Self(slots)
    }

    pub(super) async fn take(&self, run: &OriginRun) -> Result<Slot<'_, PrincipalScope>, OriginFault> {
        let wish = (run.class, pattern_id(&run.statement));
        let deadline = Instant::now() + WAIT.min(run.timeout_ms.duration());
        self.0.take_in_time(&run.identity.scope, wish, deadline).await.map_err(refused)
    }

    pub(super) fn would_shed(
        &self,
        identity: &Identity,
        class: RunClass,
        timeout: Duration,
    ) -> Option<OriginFault> {
        self.0.would_refuse(&identity.scope, class, WAIT.min(timeout)).map(refused)
    }

    pub(super) fn has_spare(&self) -> bool {
        self.0.has_spare()
    }

    pub(super) fn limit(&self) -> usize {
        self.0.limit()
    }

    /// Runs that have a slot, and runs that wait.
    #[must_use]
    pub fn running_and_waiting(&self) -> (usize, usize) {
        (self.0.running(), self.0.waiting())
    }
}

fn refused(why: NoSlot) -> OriginFault {
    match why {
        NoSlot::PrincipalFull => OriginFault::TooManyRuns,
        NoSlot::Full | NoSlot::Late => OriginFault::Overloaded,
    }
}
