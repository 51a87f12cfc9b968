//! Which writes are held against nodes that did not hear of them: those that were told as the protocol wants it.
//!
//! A write is not held against anybody if its node could not tell the store, because then no node that it cannot reach hears of it
//! (a fault of two ways at once), or if the store has just lost its list of those who listen.

use std::collections::BTreeMap;

use hopcache_core::limits::FRESHNESS_LEASE_MS_DEFAULT;
use hopcache_core::time::{Millis, MonoTime};

use crate::check::record::{Fact, What};

#[derive(Default)]
pub(super) struct Broadcasts {
    /// When a node last failed to tell the store.
    failed: BTreeMap<usize, MonoTime>,
    /// When the store last lost something, or its clock jumped.
    store_changed: Option<MonoTime>,
}

impl Broadcasts {
    pub(super) fn learn(&mut self, fact: &Fact) {
        match &fact.what {
            What::StoreSaid { by, word: "tell_written", .. } => {
                self.failed.insert(by.node, fact.at);
            }
            What::StoreLost { .. } | What::StoreFellBack { .. } | What::StoreJumped { .. } => {
                self.store_changed = Some(fact.at);
            }
            _ => {}
        }
    }

    /// Whether a write of a node that began then, and ends now, was told as the protocol wants it.
    pub(super) fn is_held(&self, (node, began): (usize, MonoTime)) -> bool {
        let lease = Millis(FRESHNESS_LEASE_MS_DEFAULT);
        let is_told = self.failed.get(&node).is_none_or(|at| *at < began);
        is_told && self.store_changed.is_none_or(|at| at + lease < began)
    }
}
