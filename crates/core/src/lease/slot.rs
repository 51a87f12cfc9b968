//! One key's slot in a store, as a pure state machine: the meaning of the lease protocol.
//!
//! The embedded store runs on it; the Lua scripts of the Redis store are the same in another
//! language, and the contract suite compares the two on random sequences. It reads no clock: `now` is
//! the *store's* clock, so a lease lapses and an entry ages by one clock only (THEORY "Leases").
//!
//! Order of the rules of [`Slot::get_or_lease`]: a fresh value wins over everything. Then a current lease of any holder
//! wins, the asking node included (its earlier request may still be running). Then the asking node gets a lease. A
//! lease is current until its time is over, unless it was committed, released, stolen or invalidated. Its record
//! lingers [`LEASE_RECORD_LINGER_MS`] after a lapse, so that the next grant is recognised as following one (I2 counts
//! lapses) and its counter is higher.
//!
//! Before all of them: a slot of another life of the store is empty ([`Slot::enter`], [`StoreLife`]).

use bytes::Bytes;

use super::life::StoreLife;
use super::{Commit, Grant, GrantKind, LeaseAsk, SlotView, StoredEntry, Token};
use crate::entry::Head;
use crate::limits::{ENTRY_LIFE_MS_MAX, LEASE_RECORD_LINGER_MS};
use crate::node::Holder;
use crate::tags::{Tag, Tags};
use crate::time::{Millis, MonoTime};

/// Largest valid counter: a double holds it exactly, and Lua has no other number. As microseconds since 1970 it lasts
/// until the year 2255.
pub const COUNTER_MAX: u64 = (1 << 53) - 1;

/// Entry and lease of one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slot {
    /// The life of the store in which all of this was written.
    written_in: StoreLife,
    entry: Option<HeldEntry>,
    lease: Option<HeldLease>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct HeldEntry {
    bytes: Bytes,
    /// `None` for bytes that are no entry: they are kept, as Redis keeps them, and never served.
    head: Option<Head>,
    until: MonoTime,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct HeldLease {
    token: Token,
    holder: Holder,
    tags: Tags,
    until: MonoTime,
}

impl Slot {
    /// Empties a slot that was written in another life of the store: a restored entry may have been purged, and a
    /// restored lease may have been replaced (F43). A store that can go back calls this before each of the following.
    pub fn enter(&mut self, life: StoreLife) {
        if self.written_in != life {
            *self = Self { written_in: life, ..Self::default() };
        }
    }

    /// A fresh value no older than asked, or one that may be proved; else the current leader; else a lease.
    pub fn get_or_lease(&mut self, now: MonoTime, ask: &LeaseAsk) -> Grant {
        self.grant(now, ask, None)
    }

    /// As [`Slot::get_or_lease`], but a current lease with exactly the token `dead` counts as free.
    pub fn steal(&mut self, now: MonoTime, dead: Token, ask: &LeaseAsk) -> Grant {
        self.grant(now, ask, Some(dead))
    }

    fn grant(&mut self, now: MonoTime, ask: &LeaseAsk, dead: Option<Token>) -> Grant {
        self.forget_expired(now);
        let readable = self.readable(now);
        if let Some((head, stored)) = &readable {
            let clock = head.clock(stored.left_ms);
            let young = ask.age_max_ms.is_none_or(|age_max| clock.age_ms <= age_max.0);
            let may_be_proved = clock.age_ms < ask.proved_max_ms.0;
            if (clock.fresh_left_ms > 0 || may_be_proved) && young {
                return Grant::Value(stored.clone());
            }
        }
        let stale = readable.as_ref().map(|(_, stored)| stored.clone());
        let kind = match &self.lease {
            None => GrantKind::Free,
            Some(lease) if lease.until <= now => GrantKind::Expired,
            Some(lease) if Some(lease.token) == dead => GrantKind::Stolen,
            Some(lease) => {
                let left_ms = lease.until.since(now);
                return Grant::Busy { holder: lease.holder.clone(), token: lease.token, left_ms, stale };
            }
        };
        let counters = [readable.map(|(head, _)| head.token), self.lease.as_ref().map(|lease| lease.token)];
        let last = counters.into_iter().flatten().map(|token| token.counter);
        let last = last.filter(|counter| *counter < COUNTER_MAX).max();
        let counter = last.map_or(now.0, |last| now.0.max(last + 1));
        let token = Token { counter, nonce: ask.nonce };
        self.lease = Some(HeldLease {
            token,
            holder: ask.holder.clone(),
            tags: ask.tags.clone(),
            until: now + ask.lease_ms,
        });
        Grant::Lease { token, kind, stale }
    }

    /// Stores `entry` and ends the lease, if `token` is exactly the current lease's (I3). A life of zero stores
    /// nothing: the result was dead on arrival.
    pub fn commit(&mut self, now: MonoTime, token: Token, entry: Bytes, life: Millis) -> Commit {
        if self.current(now) != Some(token) {
            return Commit::Fenced;
        }
        self.lease = None;
        let life = Millis(life.0.min(ENTRY_LIFE_MS_MAX));
        self.entry = (life > Millis::ZERO).then(|| HeldEntry {
            head: Head::read(&entry),
            bytes: entry,
            until: now + life,
        });
        Commit::Stored
    }

    /// Prolongs the current lease to `lease_ms` from now, if `token` is its token. A lapsed lease is not revived: a
    /// node may already know that it lapsed.
    pub fn renew(&mut self, now: MonoTime, token: Token, lease_ms: Millis) -> bool {
        let found = self.lease.as_mut().filter(|lease| lease.until > now && lease.token == token);
        found.map(|lease| lease.until = now + lease_ms).is_some()
    }

    /// Ends the current lease, if `token` is its token.
    pub fn release(&mut self, now: MonoTime, token: Token) -> bool {
        let ours = self.current(now) == Some(token);
        if ours {
            self.lease = None;
        }
        ours
    }

    /// Removes the entry and the lease, so that an earlier read cannot be stored (I3); with `only`, each of them if it
    /// has that tag. Returns whether an entry was removed.
    pub fn invalidate(&mut self, now: MonoTime, only: Option<Tag>) -> bool {
        self.forget_expired(now);
        // Bytes that are no entry have no tags: every invalidation removes them.
        let covered = |tags: Option<&Tags>| only.is_none_or(|tag| tags.is_none_or(|tags| tags.contains(tag)));
        self.lease.take_if(|lease| covered(Some(&lease.tags)));
        self.entry.take_if(|entry| covered(entry.head.as_ref().map(|head| &head.tags))).is_some()
    }

    /// The present content.
    #[must_use]
    pub fn view(&self, now: MonoTime) -> SlotView {
        let lease = self.lease.as_ref().filter(|lease| lease.until > now);
        SlotView {
            entry: self.readable(now).map(|(_, stored)| stored),
            lease: lease.map(|lease| (lease.holder.clone(), lease.token, lease.until.since(now))),
        }
    }

    /// Drops a dead entry, and a lapsed lease's record after its time.
    pub fn forget_expired(&mut self, now: MonoTime) {
        self.entry.take_if(|entry| entry.until <= now);
        self.lease.take_if(|lease| lease.until + Millis(LEASE_RECORD_LINGER_MS) <= now);
    }

    /// Removes the entry to make room. A lease is never evicted (THEORY: that breaks I1).
    pub fn evict_entry(&mut self) {
        self.entry = None;
    }

    /// Whether the slot can be forgotten.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entry.is_none() && self.lease.is_none()
    }

    /// When the entry dies, and its size in bytes.
    #[must_use]
    pub fn entry_end(&self) -> Option<(MonoTime, usize)> {
        self.entry.as_ref().map(|entry| (entry.until, entry.bytes.len()))
    }

    /// When the lease's record may be forgotten.
    #[must_use]
    pub fn lease_record_end(&self) -> Option<MonoTime> {
        self.lease.as_ref().map(|lease| lease.until + Millis(LEASE_RECORD_LINGER_MS))
    }

    fn current(&self, now: MonoTime) -> Option<Token> {
        self.lease.as_ref().filter(|lease| lease.until > now).map(|lease| lease.token)
    }

    fn readable(&self, now: MonoTime) -> Option<(Head, StoredEntry)> {
        let entry = self.entry.as_ref().filter(|entry| entry.until > now)?;
        Some((
            entry.head.clone()?,
            StoredEntry { bytes: entry.bytes.clone(), left_ms: entry.until.since(now) },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::DatabaseTag;
    use crate::node::{Incarnation, NodeName};

    const NOW: MonoTime = MonoTime(1_000_000);

    fn ask(nonce: u128) -> Option<LeaseAsk> {
        let holder = Holder { node: NodeName::new("node-a").ok()?, incarnation: Incarnation(1) };
        let tags = Tags::of_database(DatabaseTag(7));
        Some(LeaseAsk {
            nonce,
            holder,
            tags,
            lease_ms: Millis(60_000),
            age_max_ms: None,
            proved_max_ms: Millis::ZERO,
        })
    }

    fn lease(slot: &mut Slot, nonce: u128) -> Option<Token> {
        match slot.get_or_lease(NOW, &ask(nonce)?) {
            Grant::Lease { token, .. } => Some(token),
            Grant::Value(_) | Grant::Busy { .. } => None,
        }
    }

    /// F43, I3, I4: a store that came back with an older state is empty, and its leases fence nothing and store
    /// nothing.
    #[test]
    fn what_another_life_of_the_store_wrote_is_absent() {
        let mut slot = Slot::default();
        slot.enter(StoreLife(1));
        let old = lease(&mut slot, 1);
        assert!(old.is_some());
        slot.enter(StoreLife(1));
        assert_eq!(lease(&mut slot, 2), None, "the same life: the lease is held");
        let old = old.unwrap_or(Token { counter: 0, nonce: 0 });
        let mut restored = slot.clone();
        restored.enter(StoreLife(2));
        assert!(!restored.renew(NOW, old, Millis(1_000)) && !restored.release(NOW, old));
        assert_eq!(restored.commit(NOW, old, Bytes::from_static(b"x"), Millis(9_000)), Commit::Fenced);
        assert!(lease(&mut restored, 3).is_some(), "nobody holds it");
        assert_eq!(slot.commit(NOW, old, Bytes::from_static(b"x"), Millis(9_000)), Commit::Stored);
        assert!(slot.entry_end().is_some());
        slot.enter(StoreLife(3));
        assert!(slot.is_empty(), "an entry of another life");
    }
}
