//! Requests that wait for a look at the store, and the task that looks. It decides neither when a look is due nor how long
//! a request waits: [`super::suspend_guard`] and [`super::write_lease`] do.

use hopcache_core::time::{Millis, MonoTime};
use tokio::sync::Notify;

use crate::model::awaited;
use crate::model::context::Context;

/// The two ends of a wait.
#[derive(Default)]
pub(super) struct PollWaiters {
    asked: Notify,
    polled: Notify,
}

impl PollWaiters {
    /// Completes when a request waits for a look.
    pub(super) async fn wanted(&self) {
        self.asked.notified().await;
    }

    /// A look has ended: those who wait see whether it is enough.
    pub(super) fn polled(&self) {
        self.polled.notify_waiters();
    }

    /// Completes at the end of the next look.
    pub(super) async fn next_poll(&self) {
        self.polled.notified().await;
    }

    /// Waits until a look makes `is_enough` true, for `left_ms` at most.
    pub(super) async fn wait(
        &self,
        context: &Context,
        left_ms: Millis,
        is_enough: impl Fn(MonoTime) -> bool,
    ) {
        if left_ms == Millis::ZERO {
            return;
        }
        tokio::select! {
            biased;
            () = self.until(context, is_enough) => {}
            () = context.sleep(left_ms) => {}
        }
    }

    async fn until(&self, context: &Context, is_enough: impl Fn(MonoTime) -> bool) {
        let is_enough_or_asks = || {
            let is_enough = is_enough(context.now());
            if !is_enough {
                self.asked.notify_one();
            }
            is_enough
        };
        awaited::until(&self.polled, is_enough_or_asks).await;
    }
}
