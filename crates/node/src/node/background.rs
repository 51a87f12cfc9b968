//! Background tasks of a node, and what happens when one of them panics: the node logs it and leaves in order, so that
//! the supervisor of the process restarts it. A node without its prober or its gossip would look healthy and route
//! wrongly. This file does not decide what the tasks do.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

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
