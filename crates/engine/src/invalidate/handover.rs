//! Keys that move when the ring changes: the copies and facts of their former owner, and the questions of their new
//! owner. It decides neither who owns a key (the ring does) nor which node runs (the store's lease does).
//!
//! Usually the store has the values of moved keys. If it lost its data or is unreachable, the former owner's memory is
//! asked before Neo4j: within [`HANDOVER_MS`] of a change, once for a flight, for at most [`HANDOVER_ASK_MS`]. The
//! asked node answers from memory alone: no flight, no store, no hop (I8).
//!
//! A former owner that has left no copies for a node, as one that had just started, says so with its first answer. That node does
//! not ask it again before the next change. The answer counts only under one ring at both ends, and after the former owner has
//! looked at its copies under that ring: by then each copy that it can give is marked. A copy that it keeps later is of a run that
//! ended while keys moved. That result is in the store before its answer (`fetch::commit`), and the new owner looks there first.
//!
//! The former owner does not serve such copies as an owner's: other nodes own the keys, and may have stored newer
//! values without its knowledge. Each copy is marked with the time at which its key moved, and
//! [`Cache::look`](crate::cache::Cache::look) does not see it.
//!
//! The new owner serves the fetched value, keeps it in memory, and gives the lease back. It does not commit the value.
//! The lease may be younger than a purge that the former owner does not know of yet, and an entry from before the purge
//! would then stay in the store (I3). In memory the value obeys the rules of every copy:
//!
//! - Age travels: it counts from the start of the read, as the former owner states it, and from before the question
//!   (I4).
//! - A purge of the key detaches the flight that asks, so its copy is not kept (`path::lead`).
//! - A purge may reach the former owner after the new one: the purge reaches the new owner · it asks · the former owner
//!   answers X · the purge reaches the former owner. So while keys move, a purge goes to a key's owner once more at the
//!   end (`purge.rs`). It goes to former owners whether they are on a ring or not.
//! - A former owner that a purge cannot reach reads the log. It answers only a node that has read exactly as much of
//!   the log as itself. If the new owner has not read of the purge yet, it will, and forgets X. If it has, the former
//!   owner has too, and X is gone. A node that has read nothing yet forgets all its copies at its first look, and keeps
//!   no answer from before it.
//! - Identity is part of the key, and the entry is sealed for it (I5).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::key::QueryKey;
use hopcache_core::lease::StoredEntry;
use hopcache_core::limits::{
    HANDOVER_ASK_MS, HANDOVER_BYTES_MAX, HANDOVER_MS, HANDOVER_NODES_ASKED_MAX, HANDOVER_RINGS_MAX,
    RENDER_INLINE_BYTES_MAX,
};
use hopcache_core::node::NodeName;
use hopcache_core::ring::{Ring, RingEpoch};
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;

use crate::cache::copy::{Life, MemoryCopy, SharedCopy};
use crate::invalidate::Invalidate;
use crate::model::ask::Query;
use crate::model::bounds::ValueBounds;
use crate::model::event::{Event, HandoverWord};
use crate::model::inspection::KeyPlan;
use crate::model::ports::{CursorDigest, LogCursor, Scope};
use crate::model::worker::apart_if_large;
use crate::peers;
use crate::peers::message::{FormerAnswer, MovedValue};

/// Earlier rings of a while ago, and how much of the invalidation log was read.
pub(super) struct HandoverRings {
    rings: Mutex<Rings>,
    left: Mutex<LeftCopies>,
    log_read: AtomicU64,
}

/// For whom this node has left copies.
struct LeftCopies {
    /// Under this ring every copy was looked at.
    ring: RingEpoch,
    /// How often the ring had changed by then. Behind A, B, A the ring is the same, and copies have come under B.
    changes: u64,
    /// Owners of left copies under this ring, each with the time until which they are kept.
    owners: BTreeMap<NodeName, MonoTime>,
}

struct Rings {
    now: Arc<Ring>,
    /// How often it has changed.
    changes: u64,
    /// Latest first, each with the time until which its owners are asked.
    former: VecDeque<(Arc<Ring>, MonoTime)>,
    /// Former owners that could not be asked since the last change, or have left nothing for this node.
    not_asked: Vec<NodeName>,
}

impl HandoverRings {
    pub(super) fn new(now: Arc<Ring>) -> Self {
        // A node that starts has no copies.
        let left = LeftCopies { ring: now.epoch(), changes: 0, owners: BTreeMap::new() };
        let rings = Rings { now, changes: 0, former: VecDeque::new(), not_asked: Vec::new() };
        Self { rings: Mutex::new(rings), left: Mutex::new(left), log_read: AtomicU64::new(0) }
    }

    /// Notes how much of the log was read. Called after its invalidations were carried out.
    pub(super) fn has_read(&self, log: LogCursor) {
        self.log_read.store(log.digest().0, Ordering::Release);
    }

    /// How often the ring in force has changed.
    fn changes(&self, view: &Arc<Ring>, now: MonoTime) -> u64 {
        let mut rings = self.rings.lock();
        rings.note(view, now);
        rings.changes
    }

    fn former_len(&self) -> usize {
        self.rings.lock().former.len()
    }

    fn log_read(&self) -> CursorDigest {
        CursorDigest(self.log_read.load(Ordering::Acquire))
    }
}

impl Rings {
    /// Notes the ring in force, if it is another one. Callers that need the former ring call this first: the task that
    /// watches the ring may not have run yet.
    fn note(&mut self, view: &Arc<Ring>, now: MonoTime) {
        self.former.retain(|(_, until)| *until > now);
        if view.epoch() == self.now.epoch() {
            return;
        }
        let before = std::mem::replace(&mut self.now, Arc::clone(view));
        self.former.push_front((before, now + Millis(HANDOVER_MS)));
        self.former.truncate(HANDOVER_RINGS_MAX);
        self.not_asked.clear();
        self.changes += 1;
    }

    /// The nodes that may still have, or give, copies that `scope` covers.
    fn concerned(&self, scope: &Scope) -> Vec<NodeName> {
        let concerned = |(ring, _): &(Arc<Ring>, MonoTime)| match scope {
            Scope::Key(key) => ring.owner(key).cloned().into_iter().collect(),
            Scope::Tag(_) | Scope::All => ring.members().to_vec(),
        };
        self.former.iter().flat_map(concerned).collect()
    }

    fn owners(&self, key: &QueryKey, me: &NodeName) -> Vec<NodeName> {
        let mut owners: Vec<NodeName> = Vec::new();
        for owner in self.former.iter().filter_map(|(ring, _)| ring.owner(key)) {
            if owner != me && !owners.contains(owner) && !self.not_asked.contains(owner) {
                owners.push(owner.clone());
            }
        }
        owners.truncate(HANDOVER_NODES_ASKED_MAX);
        owners
    }
}

/// Plain data: the effect of a change of the ring on copies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingChange {
    /// Copies forgotten.
    pub dropped: u64,
    /// Copies left for their keys' new owners.
    pub left: u64,
}

/// Whether a copy left at `left_at` is of no use any more.
fn is_over(left_at: MonoTime, now: MonoTime) -> bool {
    now.since(left_at) >= Millis(HANDOVER_MS)
}

/// The same copy, for a key that is this node's again.
fn taken_back(left: &MemoryCopy) -> MemoryCopy {
    left.with_times(left.times()).with_token(left.token())
}

/// A former owner's copy, for a flight that would otherwise run.
pub(crate) enum FormerCopy {
    /// It is an answer.
    Fresh(SharedCopy),
    /// It is an answer and needs a refresh.
    Stale(SharedCopy),
}

impl Invalidate {
    /// Handles a change of the ring. Copies of keys that this node does not own any more are left for their new owners,
    /// for [`HANDOVER_MS`]; near copies are forgotten at once. Called when the ring has changed.
    pub fn ring_changed(&self) -> RingChange {
        let (view, now) = (self.routing.view(), self.context.now());
        let changes = self.rings.changes(&view, now);
        let (left, owners) = (Cell::new(0), RefCell::new(BTreeMap::new()));
        // Returns whether the copy is of no use any more.
        let leave = |key: &QueryKey, copy: &MemoryCopy| {
            left.set(left.get() + u64::from(copy.leave(now)));
            if copy.left_at().is_some_and(|left_at| is_over(left_at, now)) {
                return true;
            }
            if let Some(owner) = view.owner(key).filter(|owner| !owners.borrow().contains_key(*owner)) {
                owners.borrow_mut().insert(owner.clone(), now + Millis(HANDOVER_MS));
            }
            false
        };
        let is_own = |key: &QueryKey| view.owner(key) == Some(self.context.node());
        let dropped = self
            .cache
            .remove_where(&|key, copy| !is_own(key) && (copy.near_hits().is_some() || leave(key, copy)));
        let in_memory = left.get();
        // Copies that memory has evicted, and that the store does not have yet.
        self.cache.queued().look_at(|key, copy| {
            if !is_own(key) {
                leave(key, copy);
            }
        });
        *self.rings.left.lock() = LeftCopies { ring: view.epoch(), changes, owners: owners.into_inner() };
        RingChange { dropped, left: in_memory }
    }

    /// Whether the ring has changed since this node has looked at all its copies.
    #[must_use]
    pub fn has_ring_changed(&self) -> bool {
        let changes = self.rings.changes(&self.routing.view(), self.context.now());
        self.rings.left.lock().changes != changes
    }

    /// Whether this node has left no copy for the key's owner by `ring`, the asker's.
    fn has_left_nothing(&self, key: &QueryKey, ring: RingEpoch) -> bool {
        let (view, now) = (self.routing.view(), self.context.now());
        let changes = self.rings.changes(&view, now);
        let left = self.rings.left.lock();
        let has_copies = |owner| left.owners.get(owner).is_some_and(|until| *until > now);
        [view.epoch(), left.ring] == [ring; 2]
            && left.changes == changes
            && view.owner(key).is_some_and(|owner| !has_copies(owner))
    }

    /// Forgets copies that were kept for new owners long enough. Called some time after a change.
    pub fn forget_left(&self) -> u64 {
        let now = self.context.now();
        self.cache.remove_where(&|_, copy| copy.left_at().is_some_and(|left_at| is_over(left_at, now)))
    }

    /// Whether keys may still be on their way to new owners.
    pub(crate) fn do_keys_move(&self) -> bool {
        let (view, now) = (self.routing.view(), self.context.now());
        let mut rings = self.rings.rings.lock();
        rings.note(&view, now);
        !rings.former.is_empty()
    }

    /// Former owners of the keys that `scope` covers, unreachable ones included. A name may occur twice.
    pub(crate) fn in_former_rings(&self, scope: &Scope) -> Vec<NodeName> {
        let (view, now) = (self.routing.view(), self.context.now());
        let mut rings = self.rings.rings.lock();
        rings.note(&view, now);
        rings.concerned(scope)
    }

    /// Earlier rings whose owners are still asked.
    pub(crate) fn former_rings(&self) -> usize {
        self.rings.former_len()
    }

    /// The copy of a former owner of the key, or of this node if it is one, for a flight to which the store had nothing
    /// to give.
    pub(crate) async fn former_copy(&self, query: &Query, bounds: &ValueBounds) -> Option<FormerCopy> {
        if self.policy.now().ttl_ms == Millis::ZERO || !self.do_keys_move() {
            return None;
        }
        for node in self.former_owners(&query.key) {
            if let Some(copy) = self.ask_former_owner(query, &node).await
                && let Some(found) = self.as_answer(bounds, copy)
            {
                self.context.note(Event::Handover(HandoverWord::Fetched));
                return Some(found);
            }
        }
        let now = self.context.now();
        let is_left = |left_at: MonoTime| !is_over(left_at, now);
        let left = self.cache.look_for_new_owner(&query.key)?;
        left.left_at().filter(|left_at| is_left(*left_at) && self.is_vouched_for(&left))?;
        // Unmarked: the key is this node's again, and a marked copy would not be found.
        let heat = self.cache.key_stats().heat_after(None, &query.key, now);
        self.as_answer(bounds, SharedCopy::new(taken_back(&left).with_heat(heat)))
    }

    /// Whether another node may have left a copy for this one, the key's owner, or it has left one itself.
    pub(crate) fn may_have_former_copy(&self, key: &QueryKey) -> bool {
        let has_left = || self.cache.look_for_new_owner(key).is_some_and(|copy| copy.left_at().is_some());
        let is_asked_for = self.policy.now().ttl_ms != Millis::ZERO && self.do_keys_move();
        is_asked_for && (!self.former_owners(key).is_empty() || has_left())
    }

    fn former_owners(&self, key: &QueryKey) -> Vec<NodeName> {
        let (view, now) = (self.routing.view(), self.context.now());
        if view.owner(key) != Some(self.context.node()) {
            return Vec::new();
        }
        let mut rings = self.rings.rings.lock();
        rings.note(&view, now);
        rings.owners(key, self.context.node())
    }

    async fn ask_former_owner(&self, query: &Query, node: &NodeName) -> Option<SharedCopy> {
        let (asked, log, view) = (self.context.now(), self.rings.log_read(), self.routing.view());
        let changes = self.rings.changes(&view, asked);
        let wanted = peers::wanted(query.key, log, view.epoch());
        let moved = match self.peers.ask(node, wanted, Millis(HANDOVER_ASK_MS)).await {
            Ok(FormerAnswer::Moved(moved)) => moved,
            Ok(FormerAnswer::Absent) => {
                self.context.note(Event::Handover(HandoverWord::Absent));
                return None;
            }
            Ok(FormerAnswer::LeftNothing) => {
                self.context.note(Event::Handover(HandoverWord::Absent));
                self.ask_no_more(node, changes);
                return None;
            }
            // Gone, silent, or of another version: not asked again for every miss.
            Err(_) => {
                self.context.note(Event::Handover(HandoverWord::Unreached));
                self.ask_no_more(node, changes);
                return None;
            }
        };
        self.cache.key_stats().learn(&query.key, moved.plan);
        let stored = StoredEntry { bytes: moved.entry, left_ms: moved.left_ms };
        if self.cache.is_anothers(query, &stored) {
            return None;
        }
        let copy = self.cache.decode(query, &stored, asked, None).await?;
        // This was the first look at the log since the question: an invalidation in it may have covered this copy.
        (self.rings.log_read() == log || log != CursorDigest::default()).then_some(copy)
    }

    /// This former owner is not asked again before the ring changes. It has answered, or not, after so many changes.
    fn ask_no_more(&self, node: &NodeName, changes: u64) {
        let mut rings = self.rings.rings.lock();
        if changes == rings.changes && !rings.not_asked.contains(node) {
            rings.not_asked.push(node.clone());
        }
    }

    /// A copy as an answer within these bounds, if it qualifies.
    fn as_answer(&self, bounds: &ValueBounds, copy: SharedCopy) -> Option<FormerCopy> {
        let now = self.context.now();
        // Before its age: that counts from the last proof.
        let is_proved = self.cache.is_proved_answer(&copy, bounds);
        match copy.life(now) {
            Life::Fresh(_)
                if bounds.age_max_ms.is_none_or(|most| copy.age_ms(now) <= most)
                    && (is_proved || self.cache.is_late_enough(&copy, bounds)) =>
            {
                Some(FormerCopy::Fresh(copy))
            }
            Life::Stale(_) if self.cache.is_stale_answer(&copy, bounds, now) => Some(FormerCopy::Stale(copy)),
            Life::Fresh(_) | Life::Stale(_) | Life::Dead => None,
        }
    }

    /// Answers a key's new owner, whose ring is `ring`, from memory.
    pub(crate) async fn give(&self, key: &QueryKey, log: CursorDigest, ring: RingEpoch) -> FormerAnswer {
        match self.value_to_give(key, log).await {
            Some(moved) => FormerAnswer::Moved(moved),
            None if self.has_left_nothing(key, ring) => FormerAnswer::LeftNothing,
            None => FormerAnswer::Absent,
        }
    }

    async fn value_to_give(&self, key: &QueryKey, log: CursorDigest) -> Option<MovedValue> {
        // A process that was stopped may have missed a purge.
        self.cache.poll_after_pause(self.context.now() + Millis(HANDOVER_ASK_MS)).await;
        let has_read_as_much = log == CursorDigest::default() || log == self.rings.log_read();
        let copy = self
            .cache
            .look_for_new_owner(key)
            .filter(|copy| has_read_as_much && self.is_vouched_for(copy))?;
        let moved = self.moved(key, &copy).await?;
        // The new owner asks because of a request, not a prediction (`prefetch::launch`).
        copy.serves_demand();
        self.context.note(Event::Handover(HandoverWord::Given));
        Some(moved)
    }

    /// Whether this process cannot have missed a purge of the copy during a pause.
    fn is_vouched_for(&self, copy: &MemoryCopy) -> bool {
        self.cache.vouches_for(copy, self.context.now())
    }

    /// Only a copy that the store once took. Any other copy has no fence token, so it lives briefly here and on no
    /// other node.
    ///
    /// None that a write has ended: the new owner may not have heard of the write. Schedule:
    ///   a write ends the copy · Redis is away, and a node starts, and owns the key · it would serve the copy unmarked.
    async fn moved(&self, key: &QueryKey, copy: &SharedCopy) -> Option<MovedValue> {
        let (now, token) = (self.context.now(), copy.token()?);
        let is_over = copy.left_at().is_some_and(|left_at| is_over(left_at, now));
        let has_ended = self.cache.write_positions().has_ended(copy);
        // A proof makes the copy as young as the last look at Neo4j, however long nobody has asked for it.
        let is_dead = !self.cache.is_proved(copy, now) && copy.life(now) == Life::Dead;
        let is_too_old = is_dead || self.cache.is_of_long_ago(copy, now);
        if is_over || has_ended || is_too_old || copy.weight_bytes() > HANDOVER_BYTES_MAX {
            return None;
        }
        let (cache, sealed_key, sealed) = (Arc::clone(&self.cache), *key, SharedCopy::clone(copy));
        let seal = move || cache.seal(&sealed_key, &sealed, token);
        let entry = apart_if_large(copy.weight_bytes(), RENDER_INLINE_BYTES_MAX, seal).await?;
        let plan = self.cache.key_stats().key_plan(key, copy, now);
        Some(MovedValue { left_ms: copy.fallback_until().since(now), plan, entry })
    }

    /// Takes over a leaving node's facts of keys that this node will own. Returns the number of keys.
    pub(crate) fn learn_plans(&self, plans: &[(QueryKey, KeyPlan)]) -> u32 {
        for (key, plan) in plans {
            self.cache.key_stats().learn(key, *plan);
        }
        let count = u32::try_from(plans.len()).unwrap_or(u32::MAX);
        self.context.note(Event::Handover(HandoverWord::Learned(count)));
        count
    }
}
