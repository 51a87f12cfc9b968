//! How much of the memory each principal's copies take, and which copy is evicted when a principal has more than its
//! share. This file counts copies; the memory holds them.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{MEMORY_FULL_PERCENT, MEMORY_SHARE_PERCENT_MAX};
use hopcache_engine::copy::ScopeTag;

/// Numbers the copies. A key that is put again is another copy with a new place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Serial(u64);

/// The first bytes of a key. With the serial they name one copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyHead(NonZeroU64);

/// A copy that has to be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GivesWay {
    pub(super) key: KeyHead,
    pub(super) serial: Serial,
}

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
    /// Its copies in the order in which they came, without copies that have been chosen for eviction.
    queue: Queue,
}

/// Copies in the order of their serials, 16 bytes each. A copy that leaves from the middle leaves a gap; there are never many
/// more gaps than copies.
#[derive(Default)]
struct Queue {
    places: VecDeque<(Serial, Option<KeyHead>)>,
    gaps: usize,
}

/// So many gaps are worth no pass over the queue.
const GAPS_MIN: usize = 64;

impl KeyHead {
    pub(super) fn of(key: &QueryKey) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = key.0;
        Self(NonZeroU64::new(u64::from_ne_bytes([a, b, c, d, e, f, g, h])).unwrap_or(NonZeroU64::MIN))
    }

    pub(super) fn get(self) -> u64 {
        self.0.get()
    }
}

impl Queue {
    fn push(&mut self, serial: Serial, key: KeyHead) {
        self.places.push_back((serial, Some(key)));
    }

    fn pop_oldest(&mut self) -> Option<GivesWay> {
        while let Some((serial, key)) = self.places.pop_front() {
            if let Some(key) = key {
                return Some(GivesWay { key, serial });
            }
            self.gaps -= 1;
        }
        None
    }

    fn remove(&mut self, serial: Serial) {
        let Ok(place) = self.places.binary_search_by_key(&serial, |(serial, _)| *serial) else { return };
        if self.places[place].1.take().is_none() {
            return;
        }
        self.gaps += 1;
        while self.places.front().is_some_and(|(_, key)| key.is_none()) {
            self.places.pop_front();
            self.gaps -= 1;
        }
        if self.gaps > self.len() + GAPS_MIN {
            self.places.retain(|(_, key)| key.is_some());
            self.places.shrink_to_fit();
            self.gaps = 0;
        }
    }

    fn len(&self) -> usize {
        self.places.len() - self.gaps
    }
}

impl PrincipalShares {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { by_principal: HashMap::new(), total_bytes: 0, bytes_max, last: Serial(0) }
    }

    /// Counts a new copy. Returns the copy of the same principal that has to be evicted for it, if any. That copy leaves the
    /// queue, so the caller must evict it.
    pub(super) fn add(&mut self, whose: ScopeTag, key: &QueryKey, bytes: u64) -> (Serial, Option<GivesWay>) {
        self.total_bytes += bytes;
        let is_full = self.total_bytes > percent(self.bytes_max, MEMORY_FULL_PERCENT);
        let all_bytes = self.total_bytes;
        let share = self.by_principal.entry(whose).or_default();
        share.bytes += bytes;
        share.copies += 1;
        let is_alone = all_bytes == share.bytes;
        let is_over = share.bytes > percent(self.bytes_max, MEMORY_SHARE_PERCENT_MAX);
        let (key, mut gives_way) = (KeyHead::of(key), None);
        while is_full && is_over && !is_alone && gives_way.is_none() {
            let Some(oldest) = share.queue.pop_oldest() else { break };
            // The new copy replaces the copy of its own key anyway.
            gives_way = Some(oldest).filter(|oldest| oldest.key != key);
        }
        self.last.0 += 1;
        share.queue.push(self.last, key);
        (self.last, gives_way)
    }

    /// A copy that was counted is gone.
    pub(super) fn remove(&mut self, whose: ScopeTag, serial: Serial, bytes: u64) {
        self.total_bytes = self.total_bytes.saturating_sub(bytes);
        let Some(share) = self.by_principal.get_mut(&whose) else { return };
        share.bytes = share.bytes.saturating_sub(bytes);
        share.copies = share.copies.saturating_sub(1);
        share.queue.remove(serial);
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

    /// Places of the queues, gaps included.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.by_principal.values().map(|share| share.queue.places.len()).sum()
    }
}

fn percent(of: u64, percent: u64) -> u64 {
    of / 100 * percent
}
