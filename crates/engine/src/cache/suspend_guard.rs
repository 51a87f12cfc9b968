//! The suspend guard: after a pause, this node looks at the invalidation log before it serves a hit. A process that was
//! stopped (SIGSTOP, a suspended machine) may have missed a purge. The guard decides only whether the log has to be
//! read first; `invalidate` reads it.
//!
//! The reader looks at the log every [`hopcache_core::limits::INVALIDATION_POLL_MS`]. Each look leaves a mark: the time
//! at which it began. A hit is served if the mark is no older than [`PAUSE_MS`]. Otherwise one look is requested, for
//! all waiting requests. So the mark needs no ticker, and a look that began before a pause does not end it:
//!
//! 1. The reader asks the store at t0. The process is stopped. A purge comes, and cannot reach this node.
//! 2. The process goes on at t1 > t0 + [`PAUSE_MS`]. A request finds a mark from before t0 and waits.
//! 3. The reader gets its answer from before the purge and marks t0: still too old. Because of the request it looks
//!    again at once, forgets the purged copies and marks t1. The request, and all later ones, go on.
//!
//! If the store cannot be asked, the reader leaves a mark too: hits are then served as always while the store is away.
//! A wait of more than [`PAUSE_LOOK_MS_MAX`] leaves one as well. A stop shorter than [`PAUSE_MS`] is not noticed:
//! purged copies are served until the next look, as on a node that a purge could not reach.

use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::limits::{PAUSE_LOOK_MS_MAX, PAUSE_MS};
use hopcache_core::time::{Millis, MonoTime};
use tokio::sync::Notify;

use crate::model::context::Context;

/// The time of the last look at the log.
#[derive(Default)]
pub(crate) struct SuspendGuard {
    /// Zero until the first look: nothing reads the log, or nothing has read it yet.
    mark: AtomicU64,
    asked: Notify,
    looked: Notify,
}

impl SuspendGuard {
    /// A look that began at `began` has ended: its purges are carried out, or it failed.
    pub(crate) fn looked(&self, began: MonoTime) {
        // Release: a thread that sees the mark sees memory without the purged copies.
        self.mark.fetch_max(began.0, Ordering::Release);
        self.looked.notify_waiters();
    }

    /// Completes when a request waits for a look.
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
