//! How much of the memory each principal's copies take, and which copy is evicted when a principal has more than its
//! share. This file counts copies; the memory holds them.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{MEMORY_FULL_PERCENT, MEMORY_SHARE_PERCENT_MAX, PRINCIPAL_OVERHEAD_BYTES};
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

/// Copies in the order of their serials, 12 bytes each. A copy that leaves from the middle leaves a gap, and the oldest one a place
/// that is over. There are never many more of both than copies.
#[derive(Default)]
struct Queue {
    chunks: VecDeque<Chunk>,
    /// Places of the first chunk that are over.
    over: usize,
    len: usize,
    gaps: usize,
}

/// Some places one behind the other. In chunks they need no room for as many again, as they would in one piece.
struct Chunk {
    first: Serial,
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
struct Place {
    /// Its serial less the chunk's first one.
    after: u32,
    /// Both halves of its key's head; zero for a gap.
    head: [u32; 2],
}

/// Places of one chunk: 3 KiB.
const CHUNK_PLACES: usize = 256;
/// So many places without a copy are worth no pass over the queue.
const GAPS_MIN: usize = 16;

impl Serial {
    pub(super) fn new(number: u64) -> Self {
        Self(number)
    }

    pub(super) fn get(self) -> u64 {
        self.0
    }
}

impl KeyHead {
    pub(super) fn of(key: &QueryKey) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = key.0;
        Self(NonZeroU64::new(u64::from_ne_bytes([a, b, c, d, e, f, g, h])).unwrap_or(NonZeroU64::MIN))
    }

    pub(super) fn get(self) -> u64 {
        self.0.get()
    }
}

impl Chunk {
    fn has_room_for(&self, serial: Serial) -> bool {
        self.places.len() < CHUNK_PLACES && serial.0 - self.first.0 <= u32::MAX.into()
    }

    /// Whether one more place takes more memory.
    fn is_full(&self) -> bool {
        self.places.len() == self.places.capacity()
    }
}

impl Place {
    fn key(self) -> Option<KeyHead> {
        let [low, high] = self.head;
        NonZeroU64::new(u64::from(high) << 32 | u64::from(low)).map(KeyHead)
    }
}

impl Queue {
    /// Adds the newest copy. The queue takes more memory only if most of its places have a copy: a principal whose only copy is put
    /// again and again keeps four places.
    fn push(&mut self, serial: Serial, key: KeyHead) {
        if self.chunks.back().is_some_and(Chunk::is_full) && self.over + self.gaps >= self.len {
            self.close_gaps();
        }
        self.append(serial, key);
    }

    fn append(&mut self, serial: Serial, key: KeyHead) {
        if !self.chunks.back().is_some_and(|chunk| chunk.has_room_for(serial)) {
            if self.chunks.is_empty() {
                // Otherwise there would be room for four chunks.
                self.chunks.reserve_exact(1);
            }
            // It grows as it is filled, where there are few copies: most principals have few.
            let room = if self.len >= CHUNK_PLACES { CHUNK_PLACES } else { 0 };
            self.chunks.push_back(Chunk { first: serial, places: Vec::with_capacity(room) });
        }
        let Some(chunk) = self.chunks.back_mut() else { return };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the chunk has room for it, and both halves are taken"
        )]
        let (after, head) = ((serial.0 - chunk.first.0) as u32, [key.get() as u32, (key.get() >> 32) as u32]);
        chunk.places.push(Place { after, head });
        self.len += 1;
    }

    fn pop_oldest(&mut self) -> Option<GivesWay> {
        self.drop_gaps_before_oldest();
        let chunk = self.chunks.front()?;
        let place = chunk.places.get(self.over)?;
        let serial = Serial(chunk.first.0 + u64::from(place.after));
        let gives_way = place.key().map(|key| GivesWay { key, serial });
        (self.over, self.len) = (self.over + 1, self.len - 1);
        gives_way
    }

    /// Then the first place is the oldest copy's.
    fn drop_gaps_before_oldest(&mut self) {
        while let Some(chunk) = self.chunks.front() {
            match chunk.places.get(self.over) {
                Some(place) if place.key().is_some() => return,
                Some(_) => (self.over, self.gaps) = (self.over + 1, self.gaps - 1),
                None => {
                    self.chunks.pop_front();
                    self.over = 0;
                }
            }
        }
    }

    fn remove(&mut self, serial: Serial) {
        let Some(at) = self.chunks.partition_point(|chunk| chunk.first <= serial).checked_sub(1) else {
            return;
        };
        let over = if at == 0 { self.over } else { 0 };
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        let after = serial.0 - chunk.first.0;
        let Some(places) = chunk.places.get_mut(over..) else { return };
        let Ok(place) = places.binary_search_by_key(&after, |place| place.after.into()) else { return };
        if places[place].key().is_none() {
            return;
        }
        places[place].head = [0, 0];
        (self.gaps, self.len) = (self.gaps + 1, self.len - 1);
        self.drop_gaps_before_oldest();
        if self.over + self.gaps > self.len + GAPS_MIN {
            self.close_gaps();
        }
    }

    fn close_gaps(&mut self) {
        let mut closed = Self::default();
        while let Some(GivesWay { key, serial }) = self.pop_oldest() {
            closed.append(serial, key);
        }
        *self = closed;
    }
}

impl PrincipalShares {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { by_principal: HashMap::new(), total_bytes: 0, bytes_max, last: Serial(0) }
    }

    /// What the next copy of this principal has to be weighed with for the principal's account, beside its own weight. A principal
    /// has one account, so its later copies are weighed with none. The second one is, because it may replace the first.
    pub(super) fn account_bytes(&self, whose: ScopeTag) -> u32 {
        let copies = self.by_principal.get(&whose).map_or(0, |share| share.copies);
        if copies < 2 { PRINCIPAL_OVERHEAD_BYTES } else { 0 }
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
        self.by_principal.values().map(|share| share.queue.len).sum()
    }

    /// Places of each queue that take memory, whether they have a copy or not.
    #[cfg(test)]
    pub(super) fn places(&self) -> Vec<usize> {
        let of_queue =
            |queue: &Queue| queue.chunks.iter().map(|chunk| chunk.places.capacity()).sum::<usize>();
        self.by_principal.values().map(|share| of_queue(&share.queue)).collect()
    }

    /// The memory of all accounts: of the table, with a byte for each entry to find it by, and of the queues.
    #[cfg(test)]
    pub(super) fn room_bytes(&self) -> usize {
        let chunks: usize = self.by_principal.values().map(|share| share.queue.chunks.capacity()).sum();
        let places: usize = self.places().into_iter().sum();
        // A table has an eighth more entries than it takes.
        let entries = self.by_principal.capacity() / 7 * 8;
        entries * (size_of::<(ScopeTag, Share)>() + 1)
            + chunks * size_of::<Chunk>()
            + places * size_of::<Place>()
    }
}

fn percent(of: u64, percent: u64) -> u64 {
    of / 100 * percent
}
