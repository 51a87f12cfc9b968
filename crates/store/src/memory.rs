//! The embedded store: one table of lease slots in this process, shared by the nodes of `dev`.
//!
//! Every operation is one step under one lock, without an await, so a dropped future has either done it or not begun. The
//! time comes from the injected clock. A restart empties the store. Its bounds:
//!
//! - Entries are bounded by bytes. The entry that expires first is evicted first.
//! - Leases are bounded by number. A live lease is never evicted, because a second node could lead then. Above the bound a
//!   new lease is refused.
//! - Each operation drops some expired records.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::bookmark::DatabaseUuid;
use hopcache_core::key::{ClusterTag, DatabaseTag, QueryKey, ServerTag};
use hopcache_core::lease::life::StoreLife;
use hopcache_core::lease::log::InvalidationLog;
use hopcache_core::lease::slot::Slot;
use hopcache_core::lease::{Commit, Grant, LeaseAsk, SlotView, Token};
use hopcache_core::limits::{STORE_EXPIRE_BATCH, STORE_LEASES_MAX};
use hopcache_core::node::NodeName;
use hopcache_core::proof::Report;
use hopcache_core::tags::Tag;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{EventCursor, WriteBoard, WriteEvent, WriteRecord};
use hopcache_engine::ports::{
    Clock, Listener, LogCursor, LogPage, Scope, Store, StoreError, StorePoll, StoreReceipt,
};
use parking_lot::Mutex;

/// Bytes of a slot without its entry (map and two index entries).
const SLOT_OVERHEAD_BYTES: usize = 256;

/// The one life of the content: it never goes back, and a restart empties it.
const LIFE: StoreLife = StoreLife(1);

/// Entries and leases in memory.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
}

impl MemoryStore {
    /// An empty store that keeps at most `bytes_max` bytes of entries.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, bytes_max: usize) -> Self {
        let table = Table { bytes_max, ..Table::default() };
        Self { clock, table: Mutex::new(table) }
    }

    /// Bytes of all entries, including overhead.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.table.lock().bytes
    }

    fn step<T>(&self, key: &QueryKey, change: impl FnOnce(&mut Slot, MonoTime) -> T) -> T {
        let now = self.clock.now();
        self.table.lock().step(now, key, change)
    }

    fn grant(
        &self,
        key: &QueryKey,
        change: impl FnOnce(&mut Slot, MonoTime) -> Grant,
    ) -> Result<Grant, StoreError> {
        let now = self.clock.now();
        let mut table = self.table.lock();
        table.drop_expired(now);
        let known = table.slots.get(key).is_some_and(|slot| slot.lease_record_end().is_some());
        if !known && table.by_lease_end.len() >= STORE_LEASES_MAX {
            return Err(StoreError::Refused(format!("{STORE_LEASES_MAX} leases are held")));
        }
        Ok(table.step(now, key, change))
    }
}

#[derive(Default)]
struct Table {
    slots: HashMap<QueryKey, Slot>,
    by_entry_end: BTreeSet<(MonoTime, QueryKey)>,
    by_lease_end: BTreeSet<(MonoTime, QueryKey)>,
    bytes: usize,
    bytes_max: usize,
    log: InvalidationLog<Scope>,
    /// Clusters that share this store: in production one.
    written: BTreeMap<ClusterTag, WriteBoard>,
}

impl Table {
    /// Changes one slot and updates indexes, byte count and bound.
    fn step<T>(&mut self, now: MonoTime, key: &QueryKey, change: impl FnOnce(&mut Slot, MonoTime) -> T) -> T {
        let mut slot = self.slots.remove(key).unwrap_or_default();
        self.unindex(key, &slot);
        let outcome = change(&mut slot, now);
        slot.forget_expired(now);
        self.put(key, slot);
        self.drop_expired(now);
        while self.bytes > self.bytes_max {
            let Some(&(_, first)) = self.by_entry_end.first() else { break };
            self.reindex(&first, Slot::evict_entry);
        }
        outcome
    }

    fn reindex(&mut self, key: &QueryKey, change: impl FnOnce(&mut Slot)) {
        let Some(mut slot) = self.slots.remove(key) else { return };
        self.unindex(key, &slot);
        change(&mut slot);
        self.put(key, slot);
    }

    fn unindex(&mut self, key: &QueryKey, slot: &Slot) {
        if let Some((end, len)) = slot.entry_end() {
            self.by_entry_end.remove(&(end, *key));
            self.bytes = self.bytes.saturating_sub(len + SLOT_OVERHEAD_BYTES);
        }
        if let Some(end) = slot.lease_record_end() {
            self.by_lease_end.remove(&(end, *key));
        }
    }

    fn put(&mut self, key: &QueryKey, slot: Slot) {
        if let Some((end, len)) = slot.entry_end() {
            self.by_entry_end.insert((end, *key));
            self.bytes += len + SLOT_OVERHEAD_BYTES;
        }
        if let Some(end) = slot.lease_record_end() {
            self.by_lease_end.insert((end, *key));
        }
        if !slot.is_empty() {
            self.slots.insert(*key, slot);
        }
    }

    /// Each operation drops two expired records and adds at most one, so expired records never pile up.
    fn drop_expired(&mut self, now: MonoTime) {
        for _ in 0..STORE_EXPIRE_BATCH {
            let ends = [self.by_entry_end.first(), self.by_lease_end.first()];
            let dead = ends.into_iter().flatten().find(|(end, _)| *end <= now);
            let Some(&(_, key)) = dead else { return };
            self.reindex(&key, |slot| slot.forget_expired(now));
        }
    }

    fn invalidate(&mut self, now: MonoTime, scope: &Scope) -> u64 {
        let (keys, only): (Vec<QueryKey>, Option<Tag>) = match scope {
            Scope::Key(key) => (vec![*key], None),
            Scope::Tag(tag) => (self.slots.keys().copied().collect(), Some(*tag)),
            Scope::All => (self.slots.keys().copied().collect(), None),
        };
        let mut removed = 0;
        for key in keys {
            removed += u64::from(self.step(now, &key, |slot, now| slot.invalidate(now, only)));
        }
        self.log.append(rand::random(), scope.clone());
        removed
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get_or_lease(&self, key: &QueryKey, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        self.grant(key, |slot, now| slot.get_or_lease(now, ask))
    }

    async fn commit(
        &self,
        key: &QueryKey,
        token: Token,
        entry: Bytes,
        life_ms: Millis,
    ) -> Result<Commit, StoreError> {
        Ok(self.step(key, |slot, now| slot.commit(now, token, entry, life_ms)))
    }

    async fn renew(&self, key: &QueryKey, token: Token, lease_ms: Millis) -> Result<bool, StoreError> {
        Ok(self.step(key, |slot, now| slot.renew(now, token, lease_ms)))
    }

    async fn release(&self, key: &QueryKey, token: Token) -> Result<bool, StoreError> {
        Ok(self.step(key, |slot, now| slot.release(now, token)))
    }

    async fn steal(&self, key: &QueryKey, dead: Token, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        self.grant(key, |slot, now| slot.steal(now, dead, ask))
    }

    async fn invalidate(&self, scope: &Scope) -> Result<u64, StoreError> {
        let now = self.clock.now();
        Ok(self.table.lock().invalidate(now, scope))
    }

    async fn invalidations_since(&self, cursor: LogCursor) -> Result<LogPage, StoreError> {
        Ok(self.table.lock().log.since(LIFE, cursor))
    }

    async fn tell_written(
        &self,
        cluster: ClusterTag,
        told: (&[WriteRecord], &[WriteEvent]),
    ) -> Result<StoreReceipt, StoreError> {
        let now = self.clock.now();
        let (listeners, anew) = self.table.lock().written.entry(cluster).or_default().tell(now, told);
        let listeners = listeners.into_iter().map(|(node, left_ms)| Listener { node, left_ms }).collect();
        Ok(StoreReceipt { listeners, anew })
    }

    async fn hear_written(
        &self,
        cluster: ClusterTag,
        listener: (&NodeName, Millis),
        since: Option<EventCursor>,
    ) -> Result<StorePoll, StoreError> {
        let now = self.clock.now();
        Ok(self.table.lock().written.entry(cluster).or_default().hear(now, listener, since))
    }

    async fn report(&self, cluster: ClusterTag, report: &Report) -> Result<(), StoreError> {
        self.table.lock().written.entry(cluster).or_default().report(report);
        Ok(())
    }

    async fn remember(
        &self,
        cluster: ClusterTag,
        at: (ServerTag, DatabaseTag),
        said: Option<DatabaseUuid>,
    ) -> Result<Option<DatabaseUuid>, StoreError> {
        Ok(self.table.lock().written.entry(cluster).or_default().remember(at, said))
    }

    async fn peek(&self, key: &QueryKey) -> Result<SlotView, StoreError> {
        let now = self.clock.now();
        Ok(self.table.lock().slots.get(key).map_or_else(SlotView::default, |slot| slot.view(now)))
    }

    async fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
