//! Refresh on write: the hottest keys whose copies a write has ended are read anew at once, so that their readers find a
//! hit, or a run under way that they join. `refresh::hot_keys` chooses the keys.
//!
//! Each read leads the key's flight, like a miss: it carries the mark of the write (I1: one run for the cluster, by the
//! lease). A write that comes during the run ends its result too: then the next reader leads, or the look after the next
//! write finds it.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use hopcache_core::limits::HOT_LOOK_PAUSE_MS;
use hopcache_core::time::Millis;

use crate::cache::copy::SharedCopy;
use crate::cache::flight::Seat;
use crate::model::ask::Query;
use crate::path::Path;
use crate::refresh::HotRead;

impl Path {
    /// Looks for hot keys that writes have ended, for ever.
    pub(super) async fn read_after_writes(self: &Arc<Self>) -> Infallible {
        if self.cache.lease().lease_ms().is_none() || self.policy.now().ttl_ms == Millis::ZERO {
            return pending().await;
        }
        loop {
            self.cache.write_positions().news().await;
            self.read_hot_keys();
            self.context.sleep(Millis(HOT_LOOK_PAUSE_MS)).await;
        }
    }

    fn read_hot_keys(self: &Arc<Self>) {
        let view = self.routing.view();
        let is_owned = |query: &Query| view.owner(&query.key) == Some(self.context.node());
        let reads = self.refresh.hot_reads(|job| is_owned(&job.query) && self.is_ended_here(&job.query));
        for read in reads {
            let path = Arc::clone(self);
            self.context.spawn(async move { path.read_hot(read).await });
        }
    }

    /// Whether this node has a copy of the key that a write has ended, and nobody reads it anew.
    fn is_ended_here(&self, query: &Query) -> bool {
        if self.fetch.flights().followers(&query.key).is_some() {
            return false;
        }
        self.cache
            .look(&query.key)
            .is_some_and(|copy| self.cache.write_positions().has_ended_for(query, &copy))
    }

    async fn read_hot(self: Arc<Self>, mut read: HotRead) {
        let Some(turn) = read.turn().await else { return };
        let query = Arc::clone(&read.job().query);
        let Some(held) = self.cache.look(&query.key) else { return };
        if self.context.lifecycle().leads_no_more() {
            return;
        }
        // It may have waited for its turn, and a reader was quicker, or is about to be.
        if !self.cache.write_positions().has_ended_for(&query, &held) {
            return read.complete();
        }
        let Seat::Lead(leader) = self.fetch.flights().join(&query.key) else { return read.complete() };
        let job = read.job().clone();
        tokio::select! {
            biased;
            () = self.lead(leader, job, Some(SharedCopy::clone(&held))) => {}
            // Dropped, the leader gives its lease back and ends the flight as lost.
            () = self.context.lifecycle().flights_handed_on() => {}
        }
        drop(turn);
        if self.cache.look(&query.key).is_some_and(|now| !SharedCopy::ptr_eq(&held, &now)) {
            read.complete();
        }
    }
}
