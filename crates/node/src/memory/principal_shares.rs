//! How much of the memory each principal's copies take, and which copy is evicted when a principal has more than its
//! share. This file counts copies; the memory holds them.

use std::collections::{BTreeMap, HashMap};

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{MEMORY_FULL_PERCENT, MEMORY_SHARE_PERCENT_MAX};
use hopcache_engine::copy::ScopeTag;

/// Numbers the copies. A key that is put again is another copy with a new place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Serial(u64);

/// Bytes by principal. Only principals with copies are counted, so the memory bounds their number. A copy leaves its
/// queue when it is gone, so the queues hold no more keys than there are copies.
pub(super) struct PrincipalShares {
    by_principal: HashMap<ScopeTag, Share>,
    total_bytes: u64,
    bytes_max: u64,
    last: Serial,
}

#[derive(Default)]
struct Share {
    bytes: u64,
    copies: usize,
    /// Keys of its copies in the order in which they came, without copies that have been chosen for eviction.
    queue: BTreeMap<Serial, QueryKey>,
}

impl PrincipalShares {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { by_principal: HashMap::new(), total_bytes: 0, bytes_max, last: Serial(0) }
    }

    /// Counts a new copy. Returns the key of the same principal that has to be evicted for it, if any. That key leaves the
    /// queue, so the caller must evict its copy.
    pub(super) fn add(&mut self, whose: ScopeTag, key: QueryKey, bytes: u64) -> (Serial, Option<QueryKey>) {
        self.total_bytes += bytes;
        let is_full = self.total_bytes > percent(self.bytes_max, MEMORY_FULL_PERCENT);
        let all_bytes = self.total_bytes;
        let share = self.by_principal.entry(whose).or_default();
        share.bytes += bytes;
        share.copies += 1;
        let is_alone = all_bytes == share.bytes;
        let is_over = share.bytes > percent(self.bytes_max, MEMORY_SHARE_PERCENT_MAX);
        let mut gives_way = None;
        while is_full && is_over && !is_alone && gives_way.is_none() {
            let Some((_, oldest)) = share.queue.pop_first() else { break };
            // The new copy replaces the copy of its own key anyway.
            gives_way = Some(oldest).filter(|oldest| *oldest != key);
        }
        self.last.0 += 1;
        share.queue.insert(self.last, key);
        (self.last, gives_way)
    }

    /// A copy that was counted is gone.
    pub(super) fn remove(&mut self, whose: ScopeTag, serial: Serial, bytes: u64) {
        self.total_bytes = self.total_bytes.saturating_sub(bytes);
        let Some(share) = self.by_principal.get_mut(&whose) else { return };
        share.bytes = share.bytes.saturating_sub(bytes);
        share.copies = share.copies.saturating_sub(1);
        share.queue.remove(&serial);
        if share.copies == 0 {
            self.by_principal.remove(&whose);
        }
    }

    /// Whether a copy of this principal is here.
    pub(super) fn has(&self, whose: ScopeTag) -> bool {
        self.by_principal.contains_key(&whose)
    }

    #[cfg(test)]
    pub(super) fn bytes_of(&self, whose: ScopeTag) -> u64 {
        self.by_principal.get(&whose).map_or(0, |share| share.bytes)
    }

    #[cfg(test)]
    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.by_principal.values().map(|share| share.queue.len()).sum()
    }
}

fn percent(of: u64, percent: u64) -> u64 {
    of / 100 * percent
}
