//! After a pause, a look before a hit: a process that was stopped (SIGSTOP, a suspended machine) may have missed a
//! purge. It decides only whether the invalidation log has to be read first; what it says is `purge.rs`'.
//!
//! Every look at the log, every [`hopcache_core::limits::INVALIDATION_POLL_MS`], leaves a mark: when it began. A hit is
//! served if the mark is no older than [`PAUSE_MS`]; otherwise a look is asked for, one for all who wait. So the mark
//! needs no ticker, and no look that began before a pause ends it:
//!
//! the reader asks the store at t0 · the process is stopped · a purge; it cannot be told · the process goes on at
//! t1 > t0 + [`PAUSE_MS`]. A request finds the mark t0 − 0.5 s: it waits. The reader gets its answer of before the purge
//! and marks t0: too old still. It looks again, at once, since it was asked to; forgets what was purged; marks t1. The
//! request, and all that came meanwhile, go on.
//!
//! A store that cannot be asked leaves the mark as well: then hits are served as they are while it is away. So does a
//! wait that takes too long ([`PAUSE_LOOK_MS_MAX`]). A stop shorter than [`PAUSE_MS`] is not noticed; what was purged
//! meanwhile is served until the next look, as on a node that a purge could not reach.

use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::limits::{PAUSE_LOOK_MS_MAX, PAUSE_MS};
use hopcache_core::time::{Millis, MonoTime};
use tokio::sync::Notify;

use crate::engine::Engine;

/// When the log was last looked at.
#[derive(Default)]
pub(crate) struct Awake {
    /// Zero until the first look: nobody reads the log, or nobody has yet.
    mark: AtomicU64,
    asked: Notify,
    looked: Notify,
}

impl Awake {
    /// A look that began then has ended, and its purges are carried out; or it failed.
    pub(crate) fn looked(&self, began: MonoTime) {
        // Release: whoever sees the mark sees memory without what was purged.
        self.mark.fetch_max(began.0, Ordering::Release);
        self.looked.notify_waiters();
    }

    /// Done when somebody waits for a look.
    pub(crate) async fn wanted(&self) {
        self.asked.notified().await;
    }

    fn is_at(&self, now: MonoTime) -> bool {
        let mark = self.mark.load(Ordering::Acquire);
        mark == 0 || now.since(MonoTime(mark)) <= Millis(PAUSE_MS)
    }
}

impl Engine {
    /// Whether copies may be served from memory without another look at the log.
    pub(crate) fn is_awake(&self, now: MonoTime) -> bool {
        self.awake.is_at(now)
    }

    /// Waits for a look where one is due.
    pub(crate) async fn look_after_pause(&self) {
        let noticed = self.now();
        if self.is_awake(noticed) {
            return;
        }
        tokio::select! {
            biased;
            () = self.until_looked() => {}
            () = self.ports.clock.sleep(Millis(PAUSE_LOOK_MS_MAX)) => self.awake.looked(noticed),
        }
    }

    async fn until_looked(&self) {
        loop {
            let looked = self.awake.looked.notified();
            tokio::pin!(looked);
            // In line before the look, or a mark between look and wait would wake nobody.
            looked.as_mut().enable();
            if self.is_awake(self.now()) {
                return;
            }
            self.awake.asked.notify_one();
            looked.await;
        }
    }
}
