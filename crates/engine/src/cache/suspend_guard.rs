//! The suspend guard: after a pause, a look at the invalidation log before a hit. A process that was stopped (SIGSTOP, a
//! suspended machine) may have missed a purge. The guard decides only whether the log has to be read first; what the log
//! says is `invalidate`'s business.
//!
//! Every look at the log, every [`hopcache_core::limits::INVALIDATION_POLL_MS`], leaves a mark: when the look began. A hit
//! is served if the mark is no older than [`PAUSE_MS`]; otherwise one look is asked for, on behalf of all who wait. So the
//! mark needs no ticker, and a look that began before a pause does not end it:
//!
//! 1. The reader asks the store at t0. The process is stopped. A purge comes; this node cannot be told.
//! 2. The process goes on at t1 > t0 + [`PAUSE_MS`]. A request finds a mark of before t0 and waits.
//! 3. The reader gets its answer of before the purge and marks t0: still too old. It looks again at once, since it was
//!    asked to; it forgets what was purged; it marks t1. The request, and all that came meanwhile, go on.
//!
//! A store that cannot be asked leaves the mark as well: hits are then served as they are while the store is away. So does
//! a wait that takes longer than [`PAUSE_LOOK_MS_MAX`]. A stop shorter than [`PAUSE_MS`] is not noticed; what was purged
//! meanwhile is served until the next look, as on a node that a purge could not reach.

use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::limits::{PAUSE_LOOK_MS_MAX, PAUSE_MS};
use hopcache_core::time::{Millis, MonoTime};
use tokio::sync::Notify;

use crate::model::context::Context;

/// When the log was last looked at.
#[derive(Default)]
pub(crate) struct SuspendGuard {
    /// Zero until the first look: nobody reads the log, or nobody has yet.
    mark: AtomicU64,
    asked: Notify,
    looked: Notify,
}

impl SuspendGuard {
    /// A look that began then has ended: its purges are carried out, or it failed.
    pub(crate) fn looked(&self, began: MonoTime) {
        // Release: whoever sees the mark sees memory without what was purged.
        self.mark.fetch_max(began.0, Ordering::Release);
        self.looked.notify_waiters();
    }

    /// Done when a request waits for a look.
    pub(crate) async fn wanted(&self) {
        self.asked.notified().await;
    }

    /// Whether copies may be served from memory without another look at the log.
    pub(crate) fn is_awake(&self, now: MonoTime) -> bool {
        let mark = self.mark.load(Ordering::Acquire);
        mark == 0 || now.since(MonoTime(mark)) <= Millis(PAUSE_MS)
    }
}

impl SuspendGuard {
    /// Waits for a look where one is due.
    pub(crate) async fn look_after_pause(&self, context: &Context) {
        let noticed = context.now();
        if self.is_awake(noticed) {
            return;
        }
        tokio::select! {
            biased;
            () = self.until_looked(context) => {}
            () = context.sleep(Millis(PAUSE_LOOK_MS_MAX)) => self.looked(noticed),
        }
    }

    async fn until_looked(&self, context: &Context) {
        loop {
            let looked = self.looked.notified();
            tokio::pin!(looked);
            // In line before the look, or a mark between look and wait would wake nobody.
            looked.as_mut().enable();
            if self.is_awake(context.now()) {
                return;
            }
            self.asked.notify_one();
            looked.await;
        }
    }
}
