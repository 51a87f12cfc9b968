//! The lease of freshness: for how long after its last look at the store this node serves copies without another look.
//!
//! A write is answered when every node has heard of it, or when the lease of a node that could not be told has run out.
//! (Gray and Cheriton, "Leases", SOSP 1989.) So a node whose lease has run out looks first. It counts the lease from
//! before it asked, by its own clock; the store counts it from when it answered, which is later.
//!
//! If a poll of the store fails and the poll before it was in time, the store is away: the node serves by age at once. If the poll
//! before it was late, this node may have been paused: its requests wait for a poll that succeeds. After a pause the store's connection may be dead although the store is there (F55):
//!
//! 1. The process is stopped. A write ends, and nobody can tell this node. The store closes this node's connection.
//! 2. The process goes on, and a request finds the lease run out: doubt. It waits. The first look fails.
//! 3. The next look succeeds and brings the mark. The request finds no copy from before the write.
//!
//! A request waits for [`WRITTEN_POLL_MS_MAX`] after the doubt began, and no longer. Then copies are served by age until
//! a look succeeds.

use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::limits::WRITTEN_POLL_MS_MAX;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::poll_waiters::PollWaiters;
use crate::model::context::Context;

/// This node's lease.
pub(crate) struct WriteLease {
    /// `None` if writes are not followed.
    lease_ms: Option<Millis>,
    /// When the last look began that counts. Zero before the first one.
    polled: AtomicU64,
    /// When the last look began that succeeded. Zero before the first one.
    heard: AtomicU64,
    /// When this node noticed that the lease had run out. Zero: it has not.
    recheck: AtomicU64,
    waiters: PollWaiters,
}

impl WriteLease {
    pub(crate) fn new(lease_ms: Option<Millis>) -> Self {
        let [polled, heard, recheck] = [0; 3].map(AtomicU64::new);
        Self { lease_ms, polled, heard, recheck, waiters: PollWaiters::default() }
    }

    /// The length of the lease; `None` if writes are not followed.
    pub(crate) fn lease_ms(&self) -> Option<Millis> {
        self.lease_ms
    }

    /// Whether copies may be served without another look: the lease lasts, or the store is away.
    pub(crate) fn may_serve(&self, now: MonoTime) -> bool {
        self.recheck_since(now).is_none_or(|since| now >= since + Millis(WRITTEN_POLL_MS_MAX))
    }

    /// Whether this node is in touch: the lease lasts. While the store is away it does not, although copies are served.
    pub(crate) fn is_held(&self, now: MonoTime) -> bool {
        let heard = self.heard.load(Ordering::Acquire);
        heard != 0 && self.lease_ms.is_some_and(|lease_ms| now.since(MonoTime(heard)) <= lease_ms)
    }

    /// A look that began at `began` has succeeded, and its marks are taken.
    pub(crate) fn polled(&self, began: MonoTime) {
        self.heard.fetch_max(began.0, Ordering::Release);
        self.polled.fetch_max(began.0, Ordering::Release);
        self.recheck.store(0, Ordering::Release);
        self.waiters.polled();
    }

    /// A look that began at `began` has failed.
    pub(crate) fn missed(&self, began: MonoTime) {
        // Without a doubt the store went away between two looks in time.
        if self.recheck_since(began).is_none() {
            self.polled.fetch_max(began.0, Ordering::Release);
        }
    }

    /// Completes at the next look that succeeds.
    pub(super) async fn next_poll(&self) {
        self.waiters.next_poll().await;
    }

    /// Whether requests may be waiting for a look.
    pub(crate) fn is_waited_for(&self, now: MonoTime) -> bool {
        !self.may_serve(now)
    }

    /// Completes when a request waits for a look.
    pub(crate) async fn wanted(&self) {
        self.waiters.wanted().await;
    }

    /// Waits for a look if the lease has run out, until `deadline` at most.
    pub(crate) async fn wait_for_poll(&self, context: &Context, deadline: MonoTime) {
        let now = context.now();
        let Some(since) = self.recheck_since(now) else { return };
        let left = deadline.min(since + Millis(WRITTEN_POLL_MS_MAX)).since(now);
        self.waiters.wait(context, left, |now| self.may_serve(now)).await;
    }

    /// Since when the lease is known to have run out.
    fn recheck_since(&self, now: MonoTime) -> Option<MonoTime> {
        let lease_ms = self.lease_ms?;
        let polled = self.polled.load(Ordering::Acquire);
        if polled != 0 && now.since(MonoTime(polled)) <= lease_ms {
            return None;
        }
        let noticed = now.0.max(1);
        // A doubt from before the lease's end is of an earlier pause, and was noticed beside the look that ended it.
        let is_of_this =
            |since: u64| since != 0 && (polled == 0 || MonoTime(since) > MonoTime(polled) + lease_ms);
        let update = |since| (!is_of_this(since)).then_some(noticed);
        let before = self.recheck.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
        Some(MonoTime(before.err().unwrap_or(noticed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Millis = Millis(500);

    fn at(ms: u64) -> MonoTime {
        MonoTime(10_000_000) + Millis(ms)
    }

    fn lease() -> WriteLease {
        WriteLease::new(Some(LEASE))
    }

    #[test]
    fn before_its_first_look_a_node_waits() {
        let lease = lease();
        assert!(!lease.may_serve(at(0)) && lease.is_waited_for(at(0)));
        lease.missed(at(1));
        assert!(!lease.may_serve(at(2)), "a first look that failed says nothing");
        lease.polled(at(3));
        assert!(lease.may_serve(at(503)) && !lease.may_serve(at(504)));
    }

    #[test]
    fn a_store_that_goes_away_between_two_looks_costs_no_wait() {
        let lease = lease();
        lease.polled(at(0));
        for look in 1..40 {
            lease.missed(at(look * 250));
            assert!(lease.may_serve(at(look * 250 + 249)));
        }
    }

    /// F55: the first look after a pause fails on a dead connection.
    #[test]
    fn after_a_pause_only_a_look_that_succeeds_counts() {
        let lease = lease();
        lease.polled(at(0));
        lease.missed(at(5_000));
        assert!(!lease.may_serve(at(5_010)));
        lease.polled(at(5_050));
        assert!(lease.may_serve(at(5_060)));
    }

    /// A look that lay in the socket of a stopped process: its lease counts from before it was asked.
    #[test]
    fn an_answer_that_was_read_late_gives_no_lease() {
        let lease = lease();
        lease.polled(at(0));
        lease.polled(at(100));
        assert!(!lease.may_serve(at(9_000)));
        lease.polled(at(200));
        assert!(!lease.may_serve(at(9_001)));
    }

    #[test]
    fn a_store_that_stays_away_is_waited_for_once() {
        let lease = lease();
        lease.polled(at(0));
        assert!(!lease.may_serve(at(600)));
        assert!(!lease.may_serve(at(1_099)) && lease.may_serve(at(1_100)));
        lease.missed(at(1_200));
        assert!(lease.may_serve(at(9_000)), "by age, until a look succeeds");
        lease.polled(at(9_100));
        assert!(lease.may_serve(at(9_200)) && !lease.may_serve(at(9_700)));
    }

    #[test]
    fn without_a_lease_nothing_is_waited_for() {
        assert!(WriteLease::new(None).may_serve(at(9_000)));
    }
}
