//! Tasks that a node cannot do without, and what happens when one ends by a defect: it is said, and the node leaves in good
//! order, so that whoever runs the process starts it anew. A node without its prober or its gossip would look well
//! and be wrong. What the tasks do is not decided here.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use super::Node;

impl Node {
    /// Spawns a task that ends with the node, or before by itself.
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

/// What the work had under way when it panicked is dropped and never looked at again.
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
    async fn a_panic_is_told_and_an_end_is_not() {
        let told = Cell::new(0);
        let tell = || told.set(told.get() + 1);
        guard(async {}, tell).await;
        assert_eq!(told.get(), 0);
        guard(
            async {
                tokio::task::yield_now().await;
                panic!("a defect");
            },
            tell,
        )
        .await;
        assert_eq!(told.get(), 1);
    }
}
