//! Background tasks of a node, and what happens when one of them panics: the node logs it and leaves in order, so that
//! the supervisor of the process restarts it. A node without its prober or its gossip would look healthy and route
//! wrongly. This file does not decide what the tasks do.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hopcache_core::limits;
use hopcache_engine::RingChange;
use hopcache_state::node_state::NodeState;
use tokio::time::Instant;

use super::Node;

impl Node {
    /// Spawns a task that ends with the node, or earlier by itself.
    pub(super) fn spawn(&self, what: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop_rest.clone();
        let guarded = self.guarded(what, work);
        self.background.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = guarded => {}
            }
        });
    }

    /// The work; if it panics, the node leaves.
    pub(super) fn guarded(
        &self,
        what: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let state = Arc::clone(&self.state);
        guard(work, move || state.broke(what))
    }
}

/// Runs the work and calls `broke` when it panics. State that the work had under way is dropped and never read again.
async fn guard(work: impl Future<Output = ()>, broke: impl FnOnce()) {
    if AssertUnwindSafe(work).catch_unwind().await.is_err() {
        broke();
    }
}

/// Says in the log when Neo4j becomes slow and when that is over. Notes since when parts are degraded, and that the process stood
/// still.
pub(super) async fn look_at_parts(state: &NodeState) -> Infallible {
    let pause = Duration::from_millis(limits::PARTS_LOOK_MS);
    loop {
        let asleep = Instant::now();
        tokio::time::sleep(pause).await;
        let late = asleep.elapsed().saturating_sub(pause);
        if late >= Duration::from_millis(limits::STANDSTILL_MS) {
            state.stood_still(late);
        }
        state.origin_pace.tell();
        state.since(&state.degraded());
    }
}

/// Follows ring changes. Copies of keys that now belong to other nodes are kept for these nodes for a while. The new
/// owners get the plans of the hottest keys.
pub(super) async fn watch_ring(state: &NodeState) {
    let engine = &state.engine;
    let mut views = state.members.subscribe();
    // The ring may have changed before this task began.
    views.mark_changed();
    let mut over_at = None;
    loop {
        let over = async {
            match over_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = views.changed() => if changed.is_err() { return },
            () = over => {
                over_at = None;
                let forgotten = engine.invalidate().forget_left();
                tracing::debug!(forgotten, "copies that were left to other nodes are forgotten");
            }
        }
        // A member may be back before the next look.
        state.since(&state.degraded());
        if !engine.invalidate().has_ring_changed() {
            continue;
        }
        let RingChange { dropped, left } = engine.invalidate().ring_changed();
        let view = engine.view();
        let names: Vec<String> = views.borrow().routable.iter().map(ToString::to_string).collect();
        tracing::info!(
            epoch = view.epoch().0,
            members = names.join(" "),
            dropped,
            left,
            "the ring has changed"
        );
        // A leaving node has sent the plans before it announced that it leaves.
        if left > 0 && !state.leaving.is_cancelled() {
            engine.path().tell_plans(&view).await;
        }
        over_at = Some(Instant::now() + Duration::from_millis(limits::HANDOVER_MS));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_reported_and_an_end_is_not() {
        let calls = Cell::new(0);
        let tell = || calls.set(calls.get() + 1);
        guard(async {}, tell).await;
        assert_eq!(calls.get(), 0);
        guard(
            async {
                tokio::task::yield_now().await;
                panic!("a defect");
            },
            tell,
        )
        .await;
        assert_eq!(calls.get(), 1);
    }
}
