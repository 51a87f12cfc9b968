//! The suspend guard: after a pause, this node looks at the invalidation log before it serves a copy from before the
//! pause. A process that was stopped (SIGSTOP, a suspended machine) may have missed a purge. The guard decides only
//! which copies need such a look first; `invalidate` reads the log.
//!
//! The reader looks at the log every [`hopcache_core::limits::INVALIDATION_POLL_MS`]. Each look leaves a mark: the time
//! at which the reader was at work. A mark older than [`PAUSE_MS`] means a pause. This node is then in doubt: it serves
//! no copy that was read before it noticed the pause. Copies that were read later missed no purge. A request in doubt
//! asks for a look and waits for it. A look ends the doubt if it began after the pause was noticed, and succeeded. So a
//! look that began before the pause does not end the doubt:
//!
//! 1. The reader asks the store at t0. The process is stopped. A purge comes, and cannot reach this node.
//! 2. The process goes on at t1 > t0 + [`PAUSE_MS`]. A request finds a mark from before t0: doubt since t1. It waits.
//! 3. The reader gets its answer from before the purge, for a look that began before t1. Because of the request it
//!    looks again at once and forgets the purged copies. The doubt ends. The request, and all later ones, go on.
//!
//! A look that fails does not end the doubt either (F55):
//!
//! 1. The process is stopped. A purge comes, and cannot reach this node. The store closes this node's connection.
//! 2. The process goes on at t1: doubt since t1. The reader looks on the dead connection, and the look fails.
//! 3. A request finds the purged copy in memory. It waits, because this node has not read of the purge yet.
//! 4. The reader looks again after [`hopcache_core::limits::PAUSE_POLL_RETRY_MS`], on a new connection. It forgets the
//!    purged copy, and the doubt ends. The request finds no copy.
//!
//! A request waits until its own deadline at most, and no longer than [`PAUSE_POLL_MS_MAX`] after the pause was
//! noticed. Then the request is a miss: it asks the store, and without a store it runs. Such a result is kept for
//! [`hopcache_core::limits::DEGRADED_TTL_MS`], and it is served, because it was read after the pause. So a store that
//! stays away delays the requests of half a second, once.
//!
//! Without a pause, a store that is away costs no hit: a failed look leaves its mark too, and purges reach this node
//! directly. A stop shorter than [`PAUSE_MS`] is not noticed: purged copies are served until the next look that
//! succeeds, as on a node that a purge could not reach.

use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::limits::{PAUSE_MS, PAUSE_POLL_MS_MAX};
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::copy::MemoryCopy;
use crate::cache::poll_waiters::PollWaiters;
use crate::model::context::Context;

/// When the reader of the log was last at work, and since when this node is in doubt.
#[derive(Default)]
pub(crate) struct SuspendGuard {
    /// Zero until the first look: nothing reads the log, or nothing has read it yet.
    mark: AtomicU64,
    /// When this node noticed the pause after which no look has succeeded yet. Zero: no doubt.
    recheck: AtomicU64,
    waiters: PollWaiters,
}

impl SuspendGuard {
    /// The reader of the log is at work. It says so before and after each look, also after one that failed.
    pub(crate) fn mark(&self, now: MonoTime) {
        self.recheck_since(now);
        self.mark.fetch_max(now.0, Ordering::Release);
    }

    /// A look that began at `began` has succeeded, and its purges are carried out.
    pub(crate) fn polled(&self, began: MonoTime, now: MonoTime) {
        if let Some(since) = self.recheck_since(now)
            && began >= since
        {
            // Release: a thread that sees no doubt sees memory without the purged copies. If another thread has noticed
            // another pause in between, that doubt stays.
            let _ = self.recheck.compare_exchange(since.0, 0, Ordering::Release, Ordering::Relaxed);
        }
        self.waiters.polled();
    }

    /// Completes when a request waits for a look.
    pub(crate) async fn wanted(&self) {
        self.waiters.wanted().await;
    }

    /// Completes at the next look that succeeds.
    pub(super) async fn next_poll(&self) {
        self.waiters.next_poll().await;
    }

    /// Whether requests may be waiting for a look.
    pub(crate) fn is_waited_for(&self, now: MonoTime) -> bool {
        self.recheck_since(now).is_some_and(|since| now < since + Millis(PAUSE_POLL_MS_MAX))
    }

    /// Whether every copy may be served from memory without another look at the log.
    pub(crate) fn is_awake(&self, now: MonoTime) -> bool {
        self.recheck_since(now).is_none()
    }

    /// Whether this copy may be served from memory without another look at the log.
    pub(crate) fn vouches_for(&self, copy: &MemoryCopy, now: MonoTime) -> bool {
        self.recheck_since(now).is_none_or(|since| copy.read_started() >= since)
    }

    /// Since when this node is in doubt. The first caller after a pause notices it.
    fn recheck_since(&self, now: MonoTime) -> Option<MonoTime> {
        let mark = self.mark.load(Ordering::Acquire);
        if mark != 0 && now.since(MonoTime(mark)) > Millis(PAUSE_MS) {
            // The doubt comes first: a thread that sees the new mark sees the doubt.
            self.recheck.fetch_max(now.0, Ordering::Release);
            self.mark.fetch_max(now.0, Ordering::Release);
        }
        let since = self.recheck.load(Ordering::Acquire);
        (since != 0).then_some(MonoTime(since))
    }
}

impl SuspendGuard {
    /// Waits for a look where one is due, until `deadline` at most. Afterwards the caller asks what it may serve.
    pub(crate) async fn poll_after_pause(&self, context: &Context, deadline: MonoTime) {
        let now = context.now();
        let Some(since) = self.recheck_since(now) else { return };
        let left = deadline.min(since + Millis(PAUSE_POLL_MS_MAX)).since(now);
        self.waiters.wait(context, left, |now| self.is_awake(now)).await;
    }
}
