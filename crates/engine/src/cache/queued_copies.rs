//! Copies that this node has answered, and that the store does not have yet: their commits wait in a queue
//! (`fetch::commit_queue`). This module shows them to readers, and forgets what an invalidation covers. It sends nothing.
//!
//! Memory may evict a copy at any time. Its lease is still held here then, so nobody else may run, and the store has no
//! entry. So readers look here first.
//!
//! A queued copy is an answer only while its lease lasts by this node's clock. Schedule without that:
//!   we answer X, and its commit waits · this process is stopped past the lease · another node reads Y, and stores it · this
//!   process goes on, and answers X from memory until the store has refused the commit (F2).
//!
//! A newer result in memory wins over a queued copy. Schedule without that:
//!   the store has taken X, and its answer is late · a refresh gets the lease, reads Y, and Y is in memory · a reader gets X.
//!
//! A purge that reaches this node directly takes its copies out of the queue: they are not committed. A purge that this node
//! reads of in the store's log has replaced the leases there before, and the store refuses the commits (I3). Such copies are
//! only hidden: one whose lease is younger than the purge is stored.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hopcache_core::key::QueryKey;
use hopcache_core::lease::Token;
use hopcache_core::time::MonoTime;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cache::copy::{MemoryCopy, SharedCopy};
use crate::model::awaited;
use crate::model::ports::Scope;

/// Parts of the table, each under a lock of its own, so that readers of different keys seldom wait for each other.
const PARTS: usize = 16;

/// The copies by key.
#[derive(Default)]
pub(crate) struct QueuedCopies {
    parts: [Mutex<ByKey>; PARTS],
    /// The number of keys. A reader takes no lock while it is zero.
    len: AtomicUsize,
    serial: AtomicU64,
    /// Wakes those who wait for a key's commit.
    left: Notify,
}

type ByKey = HashMap<QueryKey, Queued, BuildHasherDefault<OfDigest>>;

/// A key is a keyed digest already: its first bytes are its hash.
#[derive(Default)]
struct OfDigest(u64);

impl Hasher for OfDigest {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    }

    /// The length of the digest.
    fn write_usize(&mut self, _len: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

struct Queued {
    serial: u64,
    /// Of the run that has read it.
    token: Token,
    /// `None` if memory alone has it: its lease is given back, and nothing is stored.
    copy: Option<SharedCopy>,
    /// The end of the lease by this node's clock.
    lease_ends: MonoTime,
    /// Readers do not find it any more. The store decides about its commit.
    is_hidden: bool,
    /// It is not stored.
    is_dropped: bool,
}

/// What a reader finds.
#[derive(Debug)]
pub(super) enum QueuedLook {
    /// Nothing, or nothing that memory does not know.
    Nothing,
    /// The copy.
    Copy(SharedCopy),
    /// The key's lease has ended before its commit: another node may have a newer value, so memory's copy is no answer.
    Lapsed,
}

/// A key's place among the queued copies. Dropped, it is free.
pub(crate) struct QueuedMark {
    copies: Arc<QueuedCopies>,
    key: QueryKey,
    serial: u64,
}

impl QueuedCopies {
    /// Adds a key whose lease ends at `lease_ends`. It takes the place of an older result of the key.
    pub(crate) fn add(
        self: &Arc<Self>,
        (key, token): (QueryKey, Token),
        copy: Option<SharedCopy>,
        lease_ends: MonoTime,
    ) -> QueuedMark {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let queued = Queued { serial, token, copy, lease_ends, is_hidden: false, is_dropped: false };
        let mut part = self.part(&key).lock();
        if part.insert(key, queued).is_none() {
            self.len.fetch_add(1, Ordering::Release);
        }
        drop(part);
        QueuedMark { copies: Arc::clone(self), key, serial }
    }

    /// What a reader finds at `now`.
    pub(super) fn look(&self, key: &QueryKey, now: impl FnOnce() -> MonoTime) -> QueuedLook {
        if self.len.load(Ordering::Acquire) == 0 {
            return QueuedLook::Nothing;
        }
        let part = self.part(key).lock();
        match part.get(key) {
            Some(queued) if queued.is_hidden => QueuedLook::Nothing,
            Some(queued) if now() >= queued.lease_ends => QueuedLook::Lapsed,
            Some(Queued { copy: Some(copy), .. }) => QueuedLook::Copy(SharedCopy::clone(copy)),
            Some(_) | None => QueuedLook::Nothing,
        }
    }

    /// Memory keeps this copy of a key from now on. A queued one of another run is older, and is not shown any more. The store
    /// decides about its commit.
    pub(super) fn replaced_by(&self, key: &QueryKey, copy: &MemoryCopy) {
        self.change_key(key, |queued| {
            if copy.token() != Some(queued.token) {
                queued.is_hidden = true;
            }
        });
    }

    /// What an invalidation covers is neither shown nor stored.
    pub(super) fn drop_covered(&self, scope: &Scope) {
        self.change_covered(scope, drop_it);
    }

    /// What `covers` selects is neither shown nor stored.
    pub(super) fn drop_where(&self, covers: impl Fn(&QueryKey, Option<&MemoryCopy>) -> bool) {
        self.change_where(covers, drop_it);
    }

    /// What an invalidation in the store's log covers is not shown any more.
    pub(super) fn hide_covered(&self, scope: &Scope) {
        self.change_covered(scope, |queued| queued.is_hidden = true);
    }

    fn change_covered(&self, scope: &Scope, change: impl Fn(&mut Queued)) {
        match scope {
            Scope::Key(key) => self.change_key(key, change),
            // Without a copy nothing is stored, and memory forgets by itself.
            Scope::Tag(tag) => {
                self.change_where(|_, copy| copy.is_some_and(|copy| copy.tags().contains(*tag)), change);
            }
            Scope::All => self.change_where(|_, _| true, change),
        }
    }

    fn change_key(&self, key: &QueryKey, change: impl Fn(&mut Queued)) {
        if self.len.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some(queued) = self.part(key).lock().get_mut(key) {
            change(queued);
        }
    }

    fn change_where(
        &self,
        covers: impl Fn(&QueryKey, Option<&MemoryCopy>) -> bool,
        change: impl Fn(&mut Queued),
    ) {
        if self.len.load(Ordering::Acquire) == 0 {
            return;
        }
        for part in &self.parts {
            for (key, queued) in &mut *part.lock() {
                if covers(key, queued.copy.as_deref()) {
                    change(queued);
                }
            }
        }
    }

    /// Shows every copy.
    pub(crate) fn look_at(&self, look: impl Fn(&QueryKey, &MemoryCopy)) {
        for part in &self.parts {
            for (key, queued) in &*part.lock() {
                if let Some(copy) = &queued.copy {
                    look(key, copy);
                }
            }
        }
    }

    /// Whether a commit of this key waits, or is under way.
    pub(crate) fn has(&self, key: &QueryKey) -> bool {
        self.len.load(Ordering::Acquire) != 0 && self.part(key).lock().contains_key(key)
    }

    /// Completes when no commit of this key waits or is under way. The caller bounds it.
    pub(crate) async fn gone(&self, key: &QueryKey) {
        awaited::until(&self.left, || !self.has(key)).await;
    }

    fn part(&self, key: &QueryKey) -> &Mutex<ByKey> {
        // Not of the bytes by which a part finds it.
        let [.., last] = key.0;
        &self.parts[usize::from(last) % PARTS]
    }
}

fn drop_it(queued: &mut Queued) {
    (queued.copy, queued.is_hidden, queued.is_dropped) = (None, true, true);
}

impl QueuedMark {
    /// Whether the result may still be stored: no invalidation has dropped it, and no newer result has taken its place.
    pub(crate) fn may_be_stored(&self) -> bool {
        let part = self.copies.part(&self.key).lock();
        part.get(&self.key).is_some_and(|queued| queued.serial == self.serial && !queued.is_dropped)
    }
}

impl Drop for QueuedMark {
    fn drop(&mut self) {
        let mut part = self.copies.part(&self.key).lock();
        if part.get(&self.key).is_some_and(|queued| queued.serial == self.serial) {
            part.remove(&self.key);
            self.copies.len.fetch_sub(1, Ordering::Release);
        }
        drop(part);
        self.copies.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hopcache_core::key::DatabaseTag;
    use hopcache_core::result::ResultSet;
    use hopcache_core::tags::{Tag, Tags};
    use hopcache_core::time::Millis;
    use hopcache_packstream::Value;

    use super::*;
    use crate::cache::copy::CopyTimes;

    const DATABASE: DatabaseTag = DatabaseTag(7);

    fn at(ms: u64) -> MonoTime {
        MonoTime(ms * 1_000)
    }

    fn token(counter: u64) -> Token {
        Token { counter, nonce: 7 }
    }

    fn copy(of: u64) -> SharedCopy {
        let ms = Millis(60_000);
        let times =
            CopyTimes { read_started: at(1), soft_ms: ms, physical_ms: ms, total_ms: ms, cost_ms: Millis(5) };
        let result = ResultSet {
            fields: vec!["version".to_owned()],
            records: Bytes::from_static(b"\x91\x01"),
            rows: 1,
            kind: None,
            summary: Value::Map(Vec::new()),
            bookmark: None,
            range: None,
            marked: None,
        };
        SharedCopy::new(MemoryCopy::new(&result, times, Some(token(of)), Tags::of_database(DATABASE)))
    }

    fn is_found(copies: &QueuedCopies, key: u8, now: MonoTime) -> bool {
        matches!(copies.look(&QueryKey([key; 32]), || now), QueuedLook::Copy(_))
    }

    fn added(key: u8) -> (Arc<QueuedCopies>, QueuedMark) {
        let copies = Arc::new(QueuedCopies::default());
        let mark = copies.add((QueryKey([key; 32]), token(1)), Some(copy(1)), at(100));
        (copies, mark)
    }

    #[test]
    fn a_copy_is_found_until_its_commit_has_ended() {
        let (copies, mark) = added(1);
        assert!(is_found(&copies, 1, at(50)) && !is_found(&copies, 2, at(50)));
        drop(mark);
        assert!(!is_found(&copies, 1, at(50)) && !copies.has(&QueryKey([1; 32])));
    }

    /// F2: the schedule at the head of this module.
    #[test]
    fn a_copy_whose_lease_has_lapsed_is_no_answer() {
        let (copies, _mark) = added(1);
        assert!(is_found(&copies, 1, at(99)));
        assert!(matches!(copies.look(&QueryKey([1; 32]), || at(100)), QueuedLook::Lapsed));
    }

    #[test]
    fn what_an_invalidation_covers_is_neither_shown_nor_stored() {
        let covering = [Scope::Key(QueryKey([1; 32])), Scope::Tag(Tag::Database(DATABASE)), Scope::All];
        for scope in covering {
            let (copies, mark) = added(1);
            copies.drop_covered(&scope);
            assert!(!is_found(&copies, 1, at(50)) && !mark.may_be_stored(), "{scope:?}");
            assert!(copies.has(&QueryKey([1; 32])), "its lease is still to be given back");
        }
        for scope in [Scope::Key(QueryKey([2; 32])), Scope::Tag(Tag::Database(DatabaseTag(8)))] {
            let (copies, mark) = added(1);
            copies.drop_covered(&scope);
            assert!(is_found(&copies, 1, at(50)) && mark.may_be_stored(), "{scope:?}");
        }
    }

    #[test]
    fn what_the_log_covers_is_not_shown_and_may_be_stored() {
        let (copies, mark) = added(1);
        copies.hide_covered(&Scope::All);
        assert!(!is_found(&copies, 1, at(50)) && mark.may_be_stored());
    }

    /// The schedule at the head of this module: the queue does not mask what memory has got since.
    #[test]
    fn a_newer_result_in_memory_is_shown() {
        let (copies, mark) = added(1);
        let key = QueryKey([1; 32]);
        copies.replaced_by(&key, &copy(1));
        assert!(is_found(&copies, 1, at(50)), "its own result");
        copies.replaced_by(&QueryKey([2; 32]), &copy(2));
        assert!(is_found(&copies, 1, at(50)), "another key's");
        copies.replaced_by(&key, &copy(2));
        assert!(matches!(copies.look(&key, || at(50)), QueuedLook::Nothing), "memory is looked at");
        assert!(matches!(copies.look(&key, || at(100)), QueuedLook::Nothing), "and so it is after its lease");
        assert!(copies.has(&key) && mark.may_be_stored(), "its lease is still to be given back");
    }

    #[test]
    fn a_newer_result_takes_the_place_of_an_older_one() {
        let (copies, older) = added(1);
        let newer = copies.add((QueryKey([1; 32]), token(2)), Some(copy(2)), at(200));
        assert!(!older.may_be_stored() && newer.may_be_stored());
        drop(older);
        assert!(is_found(&copies, 1, at(150)), "the older one's end leaves the newer one in its place");
    }
}
