//! Decides which results a node writes to the store.
//!
//! A crawler that asks a million statements once would fill the store with entries that nobody asks for again. So an entry
//! is stored when its key has been run before (the doorkeeper of TinyLFU, Einziger, Friedman and Manes 2017). Before that it
//! is stored while there is room for keys that were run once: so many bytes within one life of an entry. A node that has
//! just started, with its usual traffic, stays within that room, and all that it runs is stored.
//!
//! An entry that was slow to run pays less for its room than its size (by the quotient of cost and size, as GreedyDual-Size
//! values entries: Cao and Irani 1997), down to a tenth.
//!
//! It reads no clock and writes nothing: times come in, and the caller stores what is admitted. An entry that is not stored
//! lives on in the node's memory.

mod recent_keys;

pub use self::recent_keys::RecentKeys;
use crate::key::QueryKey;
use crate::limits::{ADMISSION_CHEAP_RUN_MS, ADMISSION_DISCOUNT_MAX};
use crate::time::{Millis, MonoTime};

/// The room for entries whose key was run once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes; none at 0.
    pub bytes: u64,
    /// The life of an entry in the store. As fast as entries end, there is room again.
    pub life_ms: Millis,
}

impl Room {
    /// Room for everything.
    pub const UNBOUNDED: Self = Self { bytes: u64::MAX, life_ms: Millis(1) };
}

/// A result that may be stored.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// Its size.
    pub bytes: u64,
    /// How long its run took.
    pub cost_ms: Millis,
}

/// What a node decides by: the keys that it ran, and the room that is left.
#[derive(Debug, Clone)]
pub struct Admission {
    room: Room,
    left_bytes: u64,
    filled_at: MonoTime,
    seen: RecentKeys,
}

impl Admission {
    /// Nothing was run, and the whole room is left.
    #[must_use]
    pub fn new(room: Room, now: MonoTime) -> Self {
        Self { room, left_bytes: room.bytes, filled_at: now, seen: RecentKeys::none(now) }
    }

    /// Another room. What is left of the one before stays, as far as the new one has place.
    pub fn set_room(&mut self, room: Room) {
        self.left_bytes = self.left_bytes.min(room.bytes);
        self.room = room;
    }

    /// Notes a run of this key whose result is stored in any case.
    pub fn saw(&mut self, key: &QueryKey, now: MonoTime) {
        if self.room != Room::UNBOUNDED {
            self.seen.see(key, self.room.life_ms, now);
        }
    }

    /// Whether the result of a run of this key is stored.
    pub fn admits(&mut self, key: &QueryKey, offer: Offer, now: MonoTime) -> bool {
        if self.room == Room::UNBOUNDED || self.seen.see(key, self.room.life_ms, now) {
            return true;
        }
        self.refill(now);
        let price = price_of(offer);
        let is_room = price <= self.left_bytes;
        if is_room {
            self.left_bytes -= price;
        }
        is_room
    }

    /// Room comes back evenly over the life of an entry. The time that makes no whole byte stays for the next time.
    fn refill(&mut self, now: MonoTime) {
        let life_ms = self.room.life_ms.0.max(1);
        let spent_ms = now.since(self.filled_at).0.min(life_ms);
        let back = u128::from(self.room.bytes) * u128::from(spent_ms) / u128::from(life_ms);
        let back = u64::try_from(back).unwrap_or(u64::MAX);
        if back > 0 {
            self.left_bytes = self.left_bytes.saturating_add(back).min(self.room.bytes);
            self.filled_at = now;
        }
    }
}

/// The bytes that an entry takes of the room.
fn price_of(Offer { bytes, cost_ms }: Offer) -> u64 {
    let discount = (cost_ms.0 / ADMISSION_CHEAP_RUN_MS).clamp(1, ADMISSION_DISCOUNT_MAX);
    bytes.div_ceil(discount)
}

#[cfg(test)]
mod tests;
