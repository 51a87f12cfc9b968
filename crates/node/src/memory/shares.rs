//! How much of the memory each principal's copies take, and which copy gives way when one has more than
//! its share. Holds no copies: what is counted here is told by whoever holds them.

use std::collections::{HashMap, VecDeque};

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{MEMORY_FULL_PERCENT, MEMORY_SHARE_PERCENT_MAX};
use hopcache_engine::copy::ScopeTag;

/// Queue places that are not worth sweeping.
const QUEUE_SLACK: usize = 64;

/// Bytes by principal. As many principals as have copies, so memory bounds them; each one's queue is
/// swept before it is twice as long as its copies are many.
pub(super) struct Shares {
    by_principal: HashMap<ScopeTag, Share>,
    total_bytes: u64,
    bytes_max: u64,
}

#[derive(Default)]
struct Share {
    bytes: u64,
    copies: usize,
    /// Its keys in the order in which they came; some are gone already.
    queue: VecDeque<QueryKey>,
}

impl Shares {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { by_principal: HashMap::new(), total_bytes: 0, bytes_max }
    }

    /// Counts a new copy, and says which key of the same principal is to give way for it, if one has to.
    pub(super) fn add(
        &mut self,
        whose: ScopeTag,
        key: QueryKey,
        bytes: u64,
        is_held: impl Fn(&QueryKey) -> bool,
    ) -> Option<QueryKey> {
        self.total_bytes += bytes;
        let is_full = self.total_bytes > percent(self.bytes_max, MEMORY_FULL_PERCENT);
        let others_bytes = self.total_bytes;
        let share = self.by_principal.entry(whose).or_default();
        share.bytes += bytes;
        share.copies += 1;
        if share.queue.len() > 2 * share.copies + QUEUE_SLACK {
            share.queue.retain(&is_held);
        }
        let is_alone = others_bytes == share.bytes;
        let is_over = share.bytes > percent(self.bytes_max, MEMORY_SHARE_PERCENT_MAX);
        let mut gives_way = None;
        while is_full && is_over && !is_alone && gives_way.is_none() {
            let Some(oldest) = share.queue.pop_front() else { break };
            gives_way = Some(oldest).filter(|oldest| *oldest != key && is_held(oldest));
        }
        share.queue.push_back(key);
        gives_way
    }

    /// A copy that was counted is gone.
    pub(super) fn remove(&mut self, whose: ScopeTag, bytes: u64) {
        self.total_bytes = self.total_bytes.saturating_sub(bytes);
        let Some(share) = self.by_principal.get_mut(&whose) else { return };
        share.bytes = share.bytes.saturating_sub(bytes);
        share.copies = share.copies.saturating_sub(1);
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
