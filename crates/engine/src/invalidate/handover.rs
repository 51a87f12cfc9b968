//! Keys that move when the ring changes: what their former owner keeps, what it tells the new owner, and when the new
//! owner asks. It decides nothing about who owns a key (the ring does) or who runs (the store's lease does).
//!
//! The store has what moves, usually. Where it has not (it lost its data, or cannot be reached), the former owner's
//! memory is asked before Neo4j: within [`HANDOVER_MS`] of a change, once for a flight, for [`HANDOVER_ASK_MS`] at the
//! most, and whoever is asked answers from memory alone: no flight, no store, no hop (promise I8).
//!
//! What the former owner keeps it does not serve as an owner's copy: others own the key, and newer values may be stored
//! that it does not hear of. Such a copy is marked with when it was left, and [`Engine::own_copy`] does not see it.
//!
//! What was fetched is served and kept in the new owner's memory, and the lease is given back. It is not committed:
//! the lease may be younger than a purge that the former owner has not heard of yet, and an entry of before the purge
//! would be in the store for good (I3). In memory it is subject to what every copy is subject to:
//!
//! - Age travels: it counts from the start of the read, as the former owner says, and from before it was asked (I4).
//! - A purge of the key detaches the flight that asks, so what it brings is not kept (`lead.rs`).
//! - The former owner may be told after the new one: the new owner is told · it asks · the former owner answers X · the
//!   former owner is told. So a key's owner is told once more at the end while keys move (`purge.rs`). Former owners are
//!   told whether they are on a ring or not.
//! - One that cannot be told reads the log: it answers only who has read exactly as much of the log as itself. If the new owner
//!   has not read of the purge yet, it will, and forgets X; if it has, so has the former owner, and X is gone. Who has
//!   read nothing yet forgets all that it has when it first does, and does not keep what it asked for before.
//! - Identity is part of the key, and the entry is sealed for it (I5).

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hopcache_core::entry::Entry;
use hopcache_core::key::QueryKey;
use hopcache_core::lease::StoredEntry;
use hopcache_core::limits::{
    HANDOVER_ASK_MS, HANDOVER_BYTES_MAX, HANDOVER_MS, HANDOVER_NODES_ASKED_MAX, HANDOVER_RINGS_MAX,
};
use hopcache_core::node::NodeName;
use hopcache_core::ring::Ring;
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;

use crate::copy::{CopyTimes, Life, MemoryCopy, SharedCopy};
use crate::engine::Engine;
use crate::lead::Errand;
use crate::message::{Moved, decode_moved, encode_moved, encode_wanted};
use crate::outcome::{Event, HandoverWord};
use crate::ports::{LogCursor, PeerError, Scope};

/// Rings that were in force not long ago, and how much of the invalidation log was read.
pub(crate) struct Handover {
    rings: Mutex<Rings>,
    log_read: AtomicU64,
}

struct Rings {
    now: Arc<Ring>,
    /// Latest first, each with until when its owners are asked.
    former: VecDeque<(Arc<Ring>, MonoTime)>,
    /// Former owners that could not be asked since the last change.
    silent: Vec<NodeName>,
}

impl Handover {
    pub(crate) fn new(now: Arc<Ring>) -> Self {
        let rings = Rings { now, former: VecDeque::new(), silent: Vec::new() };
        Self { rings: Mutex::new(rings), log_read: AtomicU64::new(0) }
    }

    /// After what it says was carried out.
    pub(crate) fn has_read(&self, log: LogCursor) {
        self.log_read.store(log.0, Ordering::Release);
    }

    pub(crate) fn former_len(&self) -> usize {
        self.rings.lock().former.len()
    }

    fn log_read(&self) -> LogCursor {
        LogCursor(self.log_read.load(Ordering::Acquire))
    }
}

impl Rings {
    /// Takes note of the ring in force, if it is another one. Whoever needs the former one does this first: the task
    /// that watches the ring may not have run yet.
    fn note(&mut self, view: &Arc<Ring>, now: MonoTime) -> bool {
        self.former.retain(|(_, until)| *until > now);
        if view.epoch() == self.now.epoch() {
            return false;
        }
        let before = std::mem::replace(&mut self.now, Arc::clone(view));
        self.former.push_front((before, now + Millis(HANDOVER_MS)));
        self.former.truncate(HANDOVER_RINGS_MAX);
        self.silent.clear();
        true
    }

    /// Whoever may still have, or give, what `scope` covers.
    fn concerned(&self, scope: &Scope) -> Vec<NodeName> {
        let concerned = |(ring, _): &(Arc<Ring>, MonoTime)| match scope {
            Scope::Key(key) => ring.owner(key).cloned().into_iter().collect(),
            Scope::Database(_) | Scope::All => ring.members().to_vec(),
        };
        self.former.iter().flat_map(concerned).collect()
    }

    fn owners(&self, key: &QueryKey, me: &NodeName) -> Vec<NodeName> {
        let mut owners: Vec<NodeName> = Vec::new();
        for owner in self.former.iter().filter_map(|(ring, _)| ring.owner(key)) {
            if owner != me && !owners.contains(owner) && !self.silent.contains(owner) {
                owners.push(owner.clone());
            }
        }
        owners.truncate(HANDOVER_NODES_ASKED_MAX);
        owners
    }
}

/// What a change of the ring made of copies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingChange {
    /// Forgotten.
    pub dropped: u64,
    /// Left for their keys' new owners.
    pub left: u64,
}

/// Whether what was left then is of no use any more.
fn is_over(left_at: MonoTime, now: MonoTime) -> bool {
    now.since(left_at) >= Millis(HANDOVER_MS)
}

/// The same copy, of a key that is this node's again.
fn taken_back(left: &MemoryCopy) -> MemoryCopy {
    let times = CopyTimes {
        read_started: left.read_started,
        soft_ms: left.ttl_ms(),
        physical_ms: left.dead_at.since(left.read_started),
        total_ms: left.spare_until.since(left.read_started),
        cost_ms: left.cost_ms,
    };
    let mut copy = left.with_times(times);
    copy.token = left.token;
    copy
}

/// What a flight that would have to run found in a former owner's memory.
pub(crate) enum Brought {
    /// An answer.
    Fresh(SharedCopy),
    /// An answer that has to be refreshed.
    Stale(SharedCopy),
}

impl Engine {
    /// Takes note of a change of the ring. Copies of keys that this node does not own any more are left for their new
    /// owners, for [`HANDOVER_MS`]; near copies are forgotten at once. Called when the ring has changed.
    pub fn ring_changed(&self) -> RingChange {
        let (view, now) = (self.ports.routing.view(), self.now());
        self.handover.rings.lock().note(&view, now);
        let left = Cell::new(0);
        let dropped = self.ports.memory.remove_where(&|key, copy| {
            if view.owner(key) == Some(&self.me.node) {
                return false;
            }
            if copy.near_hits().is_none() {
                left.set(left.get() + u64::from(copy.leave(now)));
                return copy.left_at().is_some_and(|left_at| is_over(left_at, now));
            }
            true
        });
        RingChange { dropped, left: left.get() }
    }

    /// Forgets what was kept for new owners for long enough. Called some time after a change.
    pub fn forget_left(&self) -> u64 {
        let now = self.now();
        self.ports.memory.remove_where(&|_, copy| copy.left_at().is_some_and(|left_at| is_over(left_at, now)))
    }

    /// Whether keys may still be on their way to new owners.
    pub(crate) fn do_keys_move(&self) -> bool {
        let (view, now) = (self.ports.routing.view(), self.now());
        let mut rings = self.handover.rings.lock();
        rings.note(&view, now);
        !rings.former.is_empty()
    }

    /// Former owners of what `scope` covers, those that cannot be asked included; a name may be there twice.
    pub(crate) fn in_former_rings(&self, scope: &Scope) -> Vec<NodeName> {
        let (view, now) = (self.ports.routing.view(), self.now());
        let mut rings = self.handover.rings.lock();
        rings.note(&view, now);
        rings.concerned(scope)
    }

    pub(crate) fn has_read_log(&self, log: LogCursor) {
        self.handover.has_read(log);
    }

    /// What a former owner of the key, or this node if it is one, has of it, for a flight to which the store had nothing
    /// to give.
    pub(crate) async fn brought(&self, errand: &Errand) -> Option<Brought> {
        if self.policy.ttl_ms == Millis::ZERO {
            return None;
        }
        let key = &errand.query.key;
        for node in self.former_owners(key) {
            if let Some(copy) = self.ask_former_owner(errand, &node).await
                && let Some(brought) = self.of_use(errand, copy)
            {
                self.note(Event::Handover(HandoverWord::Fetched));
                return Some(brought);
            }
        }
        let now = self.now();
        let is_left = |left_at: MonoTime| !is_over(left_at, now);
        let left = self.ports.memory.get(key).filter(|copy| copy.left_at().is_some_and(is_left));
        // Unmarked: the key is this node's again, and nobody would find the copy that was left.
        let copy = taken_back(&*left?).with_heat(self.heat_of(key));
        self.of_use(errand, Arc::new(copy))
    }

    fn former_owners(&self, key: &QueryKey) -> Vec<NodeName> {
        let (view, now) = (self.ports.routing.view(), self.now());
        if view.owner(key) != Some(&self.me.node) {
            return Vec::new();
        }
        let mut rings = self.handover.rings.lock();
        rings.note(&view, now);
        rings.owners(key, &self.me.node)
    }

    async fn ask_former_owner(&self, errand: &Errand, node: &NodeName) -> Option<SharedCopy> {
        let (query, asked) = (&errand.query, self.now());
        let log = self.handover.log_read();
        let (message, timeout_ms) = (encode_wanted(&query.key, log), Millis(HANDOVER_ASK_MS));
        // The peer's own deadline, and ours beside it: an implementation may count from when it has a connection.
        let answer = tokio::select! {
            biased;
            answer = self.ports.peers.forward(node, message, timeout_ms) => answer,
            () = self.ports.clock.sleep(timeout_ms) => Err(PeerError::TimedOut),
        };
        let moved = match answer.map(|bytes| decode_moved(&bytes)) {
            Ok(Ok(Some(moved))) => moved,
            Ok(Ok(None)) => {
                self.note(Event::Handover(HandoverWord::Absent));
                return None;
            }
            // Gone, silent, or of a version that does not know the question: not asked again for every miss.
            Ok(Err(_)) | Err(_) => {
                self.note(Event::Handover(HandoverWord::Unreached));
                self.handover.rings.lock().silent.push(node.clone());
                return None;
            }
        };
        self.learn(&query.key, moved.plan);
        let stored = StoredEntry { bytes: moved.entry, left_ms: moved.left_ms };
        let copy = self.decode_stored(query, &stored, asked)?;
        // The first look at the log since then: what it said may have been about this copy.
        (self.handover.log_read() == log || log != LogCursor::default()).then_some(copy)
    }

    /// A copy as an answer to those who wait, if it is one.
    fn of_use(&self, errand: &Errand, copy: SharedCopy) -> Option<Brought> {
        let now = self.now();
        match copy.life(now) {
            Life::Fresh(_) if errand.age_max_ms.is_none_or(|most| copy.age_ms(now) <= most) => {
                Some(Brought::Fresh(copy))
            }
            Life::Stale(_) if errand.takes_stale(&copy, now) => Some(Brought::Stale(copy)),
            Life::Fresh(_) | Life::Stale(_) | Life::Dead => None,
        }
    }

    /// Answers a key's new owner from memory.
    pub(crate) async fn give(&self, key: &QueryKey, log: LogCursor) -> Bytes {
        // A process that was stopped may have missed a purge.
        self.look_after_pause().await;
        let has_read_as_much = log == LogCursor::default() || log == self.handover.log_read();
        let copy = self.ports.memory.get(key).filter(|copy| has_read_as_much && copy.near_hits().is_none());
        let moved = copy.and_then(|copy| {
            let moved = self.moved(key, &copy)?;
            // The new owner asks for a request, not for a prediction (`prefetch/launch.rs`).
            copy.serves_demand();
            Some(moved)
        });
        if moved.is_some() {
            self.note(Event::Handover(HandoverWord::Given));
        }
        encode_moved(moved.as_ref())
    }

    /// Only what the store once took: nothing fences another, which lives briefly here and nowhere else.
    fn moved(&self, key: &QueryKey, copy: &MemoryCopy) -> Option<Moved> {
        let (now, token) = (self.now(), copy.token?);
        let is_over = copy.left_at().is_some_and(|left_at| is_over(left_at, now));
        if is_over || copy.life(now) == Life::Dead || copy.weight_bytes() > HANDOVER_BYTES_MAX {
            return None;
        }
        let entry = Entry {
            total: copy.spare_until.since(copy.read_started),
            physical: copy.dead_at.since(copy.read_started),
            soft: copy.fresh_until.since(copy.read_started),
            cost: copy.cost_ms,
            token,
            database: copy.database_tag,
            stored_by: self.me.node.clone(),
            body: copy.stored_form(),
        };
        let entry = entry.encode(&self.checksum_key, key).ok()?;
        Some(Moved { left_ms: copy.spare_until.since(now), plan: self.plan_of(key, copy, now), entry })
    }
}
