//! A miss where runs are not shared (`Policy::collapses` is off): a plain TTL cache, to measure what sharing gains.
//!
//! Each miss runs at once, whoever else runs the same, and what it read is kept in this node's memory for its TTL. It
//! joins and leads no flight, asks for no lease and offers the store nothing, so other nodes never see it: the key's
//! owner is asked as usual, and all who ask for a key meet the same memory. The bounds on runs and pauses after
//! failures hold as ever (I2). What is kept without a token is never refreshed early; once stale it is refreshed as
//! ever, under the lease, and what that brings is stored.

use crate::copy::MemoryCopy;
use crate::engine::Engine;
use crate::lead::{Errand, Landing};

impl Engine {
    /// Whether a copy was kept without a lease since the store could not be asked.
    pub(crate) fn is_for_want_of_a_store(&self, copy: &MemoryCopy) -> bool {
        copy.token.is_none() && self.policy.collapses
    }

    pub(crate) async fn lead_alone(&self, errand: &Errand) -> Landing {
        let key = &errand.query.key;
        if let Some(left_ms) = self.held_back(key) {
            return self.land_held_back(errand, left_ms).await;
        }
        let purges = self.spares.purges();
        let landing = self.run(errand, None).await;
        if let Landing::Ran { copy, detail: None, .. } = &landing
            && copy.rendering(errand.form).is_ok()
        {
            self.remember_unless_purged(purges, key, copy, copy.dead_at);
        }
        landing
    }
}
