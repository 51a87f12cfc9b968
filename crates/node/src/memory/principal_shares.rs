//! How much of the memory each principal's copies take, and which copy gives way when one has more than
//! its share. Holds no copies: what is counted here is told by whoever holds them.

use std::collections::{BTreeMap, HashMap};

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{MEMORY_FULL_PERCENT, MEMORY_SHARE_PERCENT_MAX};
use hopcache_engine::copy::ScopeTag;

/// Which putting of a copy is meant: a key that is put again is another copy, in a new place of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Serial(u64);

/// Bytes by principal. As many principals as have copies, so memory bounds them; a copy leaves its queue
/// when it is gone, so there are no more keys in the queues than copies.
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
    /// Its copies' keys in the order in which they came, without those that were told to give way.
    queue: BTreeMap<Serial, QueryKey>,
}

impl PrincipalShares {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { by_principal: HashMap::new(), total_bytes: 0, bytes_max, last: Serial(0) }
    }

    /// Counts a new copy, and says which key of the same principal is to give way for it, if one has to. Its
    /// place in the queue is given up with that, so the caller has to see to it that its copy goes.
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
            // The copy that the new one replaces goes anyway.
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
