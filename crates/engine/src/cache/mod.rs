//! This node's memory: copies, near copies, stale fallbacks, the tables of flights, the pace of keys, and the guard
//! that requires a look at the invalidation log after a pause.
//!
//! The cache decides how a copy may be served. It never asks the store, another node or the origin for a value; it only
//! watches the store for the rooms above.

mod conversions;
pub mod copy;
mod databases;
mod degrees;
pub mod flight;
#[cfg(test)]
mod flight_tests;
mod interned;
mod key_stats;
mod key_table;
pub mod memory;
mod near;
mod packed_duration;
mod pattern_worths;
mod poll_waiters;
mod proofs;
mod provenance;
mod queued_copies;
mod refresh_schedule;
mod renderings;
mod stale_fallback;
mod store;
mod suspend_guard;
mod sync_shim;
mod uncacheable;
mod write_lease;
mod write_positions;

use std::hash::Hash;
use std::sync::Arc;

use hopcache_core::bookmark::Bookmark;
use hopcache_core::entry::ChecksumKey;
use hopcache_core::key::{QueryKey, ServerTag};
use hopcache_core::lease::Token;
use hopcache_core::limits;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::WritePosition;
use parking_lot::Mutex;

use crate::cache::copy::{MemoryCopy, ScopeTag, SharedCopy};
use crate::cache::flight::{FlightBounds, FlightTable};
use crate::cache::interned::Interned;
use crate::cache::memory::Memory;
use crate::cache::pattern_worths::PatternWorths;
use crate::cache::queued_copies::QueuedLook;
use crate::cache::stale_fallback::StaleFallbacks;
use crate::model::ask::{Ask, Query};
use crate::model::bounds::ValueBounds;
use crate::model::context::Context;
use crate::model::policy::PolicyInForce;
use crate::model::ports::Scope;
use crate::model::rendering::{Renderer, RenderingId};
use crate::model::text_facts::Reads;

pub(crate) use copy::render_passing;
pub(crate) use degrees::{DegreeAnswer, Start};
pub(crate) use key_stats::{KeyStats, LastAnswer};
pub(crate) use near::{Permission, add_near_hits};
pub(crate) use proofs::Proofs;
pub(crate) use provenance::Provenance;
pub(crate) use queued_copies::{QueuedCopies, QueuedMark};
pub(crate) use stale_fallback::{FallbackPlace, Purges};
pub use store::WatchedStore;
pub(crate) use suspend_guard::SuspendGuard;
pub(crate) use uncacheable::Uncacheable;
pub(crate) use write_lease::WriteLease;
pub(crate) use write_positions::WritePositions;

/// One node's memory.
pub struct Cache {
    context: Context,
    memory: Arc<dyn Memory>,
    renderer: Arc<dyn Renderer>,
    checksum_key: ChecksumKey,
    /// The address of this node's Neo4j.
    server: ServerTag,
    common: Interned,
    /// The tables whose flights an invalidation detaches.
    tables: Mutex<Vec<Arc<dyn DetachFlights>>>,
    fallbacks: StaleFallbacks,
    queued: Arc<QueuedCopies>,
    key_stats: KeyStats,
    pattern_worths: PatternWorths,
    guard: SuspendGuard,
    written: WritePositions,
    proofs: Proofs,
    lease: WriteLease,
    uncacheable: Uncacheable,
    policy: PolicyInForce,
    near_rate_per_s_min: f64,
}

/// A key of a flight table that belongs to a query.
pub(crate) trait FlightKey: Hash + Eq + Clone + Send + Sync + 'static {
    /// The query's key.
    fn query_key(&self) -> &QueryKey;
}

impl FlightKey for QueryKey {
    fn query_key(&self) -> &QueryKey {
        self
    }
}

impl FlightKey for (QueryKey, RenderingId, Option<Millis>, Bookmark, Option<WritePosition>) {
    fn query_key(&self) -> &QueryKey {
        &self.0
    }
}

trait DetachFlights: Send + Sync {
    fn detach_key(&self, key: &QueryKey);
    fn detach_all(&self);
}

impl<K: FlightKey, V: Clone + Send + Sync + 'static> DetachFlights for FlightTable<K, V> {
    fn detach_key(&self, key: &QueryKey) {
        self.detach(|each| each.query_key() == key);
    }

    fn detach_all(&self) {
        self.detach(|_| true);
    }
}

/// Bounds of every table of flights (I9).
pub(crate) const FLIGHT_BOUNDS: FlightBounds =
    FlightBounds { flights_max: limits::FLIGHTS_MAX, followers_max: limits::FOLLOWERS_MAX };

impl Cache {
    pub(crate) fn new(
        context: &Context,
        (memory, renderer): (Arc<dyn Memory>, Arc<dyn Renderer>),
        (checksum_key, server): (ChecksumKey, ServerTag),
        in_force: &PolicyInForce,
    ) -> Arc<Self> {
        let policy = in_force.now();
        Arc::new(Self {
            context: context.clone(),
            memory,
            renderer,
            checksum_key,
            server,
            common: Interned::new(),
            tables: Mutex::default(),
            fallbacks: StaleFallbacks::default(),
            queued: Arc::default(),
            key_stats: KeyStats::new(in_force),
            pattern_worths: PatternWorths::new(context.now()),
            guard: SuspendGuard::default(),
            written: WritePositions::at(server, policy.compares_values),
            proofs: Proofs::new(policy.freshness_lease_ms.and(policy.proofs)),
            lease: WriteLease::new(policy.freshness_lease_ms),
            uncacheable: Uncacheable::new(),
            policy: in_force.clone(),
            near_rate_per_s_min: policy.near_rate_per_s_min,
        })
    }

    /// A table of flights. An invalidation detaches its flights: they may have read before it.
    pub(crate) fn flight_table<K: FlightKey, V: Clone + Send + Sync + 'static>(
        &self,
    ) -> Arc<FlightTable<K, V>> {
        let table = FlightTable::new(FLIGHT_BOUNDS);
        self.tables.lock().push(Arc::clone(&table) as Arc<dyn DetachFlights>);
        table
    }

    /// The copy under a key that this node may take for the entry: neither a near copy, nor a copy that waits here for
    /// the key's new owner. On a miss the request path looks once and passes the result on.
    pub(crate) fn look(&self, key: &QueryKey) -> Option<SharedCopy> {
        let is_own = |copy: &SharedCopy| copy.near_hits().is_none() && copy.left_at().is_none();
        match self.queued.look(key, || self.context.now()) {
            QueuedLook::Nothing => self.memory.get(key).filter(is_own),
            // Memory may have evicted it, and the store does not have it yet.
            QueuedLook::Copy(copy) => Some(copy).filter(is_own),
            QueuedLook::Lapsed => None,
        }
    }

    /// The copy under a key that this node owns or owned, whoever owns the key now.
    pub(crate) fn look_for_new_owner(&self, key: &QueryKey) -> Option<SharedCopy> {
        if matches!(self.queued.look(key, || self.context.now()), QueuedLook::Lapsed) {
            return None;
        }
        self.memory.get(key).filter(|copy| copy.near_hits().is_none())
    }

    /// The same copy, which depends on what its query reads, and shares with others what they have in common. Where writes end
    /// nothing, nobody asks, and the text is not read.
    pub(crate) fn of_query(&self, mut copy: MemoryCopy, query: &Query) -> MemoryCopy {
        if self.lease.lease_ms().is_some() && !copy.knows_reads() {
            let reads = copy.reads_for(query);
            copy = copy.of_reads(self.common.reads(reads));
        }
        let range = copy.range().map(|range| self.common.range(range));
        copy.of_range(range)
    }

    /// Whether this very copy is the one that [`Cache::look`] finds.
    pub(crate) fn holds(&self, key: &QueryKey, copy: &SharedCopy) -> bool {
        self.look(key).is_some_and(|now| SharedCopy::ptr_eq(copy, &now))
    }

    /// Keeps a copy until `until`, in the place of one whose commit waits.
    pub(crate) fn put(&self, key: QueryKey, copy: &SharedCopy, until: MonoTime) {
        let until = self.kept_until(copy, until);
        self.memory.put(key, SharedCopy::clone(copy), until.since(self.context.now()));
        // After memory: who finds nothing in the queue looks there next.
        self.queued.replaced_by(&key, copy);
    }

    /// Keeps a copy until `until`, unless a purge came since `before`. For a request without a seat in a table, through
    /// which a purge would detach it.
    pub(crate) fn put_unless_invalidated(
        &self,
        before: Purges,
        key: QueryKey,
        copy: &SharedCopy,
        until: MonoTime,
    ) {
        self.fallbacks.put_unless_purged(before, || self.put(key, copy, until));
    }

    /// Until when memory keeps a copy that would be kept until `until` by its age: one that can be proved, for as long as that.
    pub(crate) fn kept_until(&self, copy: &MemoryCopy, until: MonoTime) -> MonoTime {
        let can_be_proved = copy.token().is_some() && copy.is_of_graph() && copy.range().is_some();
        match self.proofs.settings() {
            Some(settings) if can_be_proved => until.max(copy.read_started() + settings.life_ms_max),
            _ => until,
        }
    }

    /// Forgets the copy under a key. Returns whether memory had one.
    pub(crate) fn remove(&self, key: &QueryKey) -> bool {
        self.queued.hide_covered(&Scope::Key(*key));
        self.memory.remove(key)
    }

    /// The copy in memory that a run under this token has read.
    pub(crate) fn read_under(&self, key: &QueryKey, token: Token) -> Option<SharedCopy> {
        self.memory.get(key).filter(|copy| copy.token() == Some(token))
    }

    /// Forgets the copy that a run under this token has read.
    pub(crate) fn remove_read_under(&self, key: &QueryKey, token: Token) {
        if self.read_under(key, token).is_some() {
            self.remove(key);
        }
    }

    /// Copies whose commits wait.
    pub(crate) fn queued(&self) -> &Arc<QueuedCopies> {
        &self.queued
    }

    /// Forgets every copy that `covers` selects. Returns how many.
    pub(crate) fn remove_where(&self, covers: &dyn Fn(&QueryKey, &MemoryCopy) -> bool) -> u64 {
        self.memory.remove_where(covers)
    }

    /// Shows every copy.
    pub(crate) fn look_at_all(&self, look: &dyn Fn(&QueryKey, &MemoryCopy)) {
        self.memory.look_at(look);
    }

    /// Copies in memory.
    pub(crate) fn copies(&self) -> u64 {
        self.memory.size().0
    }

    /// Forgets everything that an invalidation covers, and returns the number of copies. Flights are detached before
    /// memory is emptied, so that a flight that lands from now on removes its own copy.
    pub(crate) fn forget(&self, scope: &Scope) -> u64 {
        self.queued.drop_covered(scope);
        self.forget_here(scope)
    }

    /// As [`Cache::forget`], for an invalidation in the store's log. The store has removed what it covers there.
    pub(crate) fn forget_logged(&self, scope: &Scope) -> u64 {
        self.queued.hide_covered(scope);
        self.forget_here(scope)
    }

    fn forget_here(&self, scope: &Scope) -> u64 {
        // Before memory; `stale_fallback.rs` says why.
        self.fallbacks.forget(scope);
        let tables = self.tables.lock().clone();
        match scope {
            Scope::Key(key) => {
                tables.iter().for_each(|table| table.detach_key(key));
                u64::from(self.memory.remove(key))
            }
            // A key does not show the tags of its flight, so all flights are detached. This costs a few requests a
            // second flight.
            Scope::Tag(tag) => {
                tables.iter().for_each(|table| table.detach_all());
                self.memory.remove_where(&|_, copy| copy.tags().contains(*tag))
            }
            Scope::All => {
                tables.iter().for_each(|table| table.detach_all());
                self.memory.remove_where(&|_, _| true)
            }
        }
    }

    /// The number of purges of this node. Read it before asking the store or the origin.
    pub(crate) fn purges(&self) -> Purges {
        self.fallbacks.purges()
    }

    /// The key of checksums, for `explain`, which shows stored entries.
    pub(crate) fn checksum_key(&self) -> &ChecksumKey {
        &self.checksum_key
    }

    /// Whether this node can answer in a rendering. The stored form needs no renderer.
    pub(crate) fn can_render(&self, id: RenderingId) -> bool {
        id == RenderingId::RECORDS || self.renderer.knows(id)
    }

    /// The renderer of the node's fronts.
    pub(crate) fn renderer(&self) -> &dyn Renderer {
        &*self.renderer
    }

    /// The pace of keys.
    pub(crate) fn key_stats(&self) -> &KeyStats {
        &self.key_stats
    }

    /// What the caching of patterns is worth.
    pub(crate) fn pattern_worths(&self) -> &PatternWorths {
        &self.pattern_worths
    }

    /// The suspend guard.
    pub(crate) fn guard(&self) -> &SuspendGuard {
        &self.guard
    }

    /// How far databases have been written.
    pub(crate) fn write_positions(&self) -> &WritePositions {
        &self.written
    }

    /// Completes at the next look at the invalidation log, or at the marks of writes.
    pub(crate) async fn next_poll(&self) {
        tokio::select! {
            biased;
            () = self.guard.next_poll() => {}
            () = self.lease.next_poll() => {}
        }
    }

    /// The lease of freshness.
    pub(crate) fn lease(&self) -> &WriteLease {
        &self.lease
    }

    /// What is known from reports.
    pub(crate) fn proofs(&self) -> &Proofs {
        &self.proofs
    }

    /// Whether every copy may be served without another look at the store.
    pub(crate) fn is_awake(&self, now: MonoTime) -> bool {
        self.guard.is_awake(now) && self.lease.may_serve(now)
    }

    /// Whether this copy may be served without another look at the store: this node missed no purge of it, and is in touch
    /// with the writes of others.
    pub(crate) fn vouches_for(&self, copy: &MemoryCopy, now: MonoTime) -> bool {
        self.guard.vouches_for(copy, now) && self.lease.may_serve(now)
    }

    /// Whether a fresh copy from elsewhere is an answer within these bounds, as far as transactions go. The bounds have the mark of
    /// what the query depends on: one that depends on more is looked at by itself.
    pub(crate) fn is_late_enough(&self, copy: &MemoryCopy, bounds: &ValueBounds) -> bool {
        let depends_on_more = copy.reads().is_some_and(Reads::has_tokens);
        copy.carries_enough(bounds)
            && !self.written.is_of_earlier_epoch(copy)
            && !(depends_on_more && self.written.has_ended(copy))
            && (!bounds.proved_only || self.is_proved(copy, self.context.now()))
    }

    /// Whether a copy from elsewhere is a stale answer within these bounds.
    pub(crate) fn is_stale_answer(&self, copy: &MemoryCopy, bounds: &ValueBounds, now: MonoTime) -> bool {
        copy.is_stale_answer(bounds, now) && !self.written.is_of_earlier_epoch(copy)
    }

    /// Waits for a look at the store if one is due, until `deadline` at most.
    pub(crate) async fn poll_after_pause(&self, deadline: MonoTime) {
        self.guard.poll_after_pause(&self.context, deadline).await;
        self.lease.wait_for_poll(&self.context, deadline).await;
    }

    /// Keys whose results are not stored.
    pub(crate) fn uncacheable(&self) -> &Uncacheable {
        &self.uncacheable
    }

    /// Fallbacks of flights under way.
    pub(crate) fn fallbacks_len(&self) -> usize {
        self.fallbacks.len()
    }

    /// Whether stale fallbacks are served. With caching off there are none: entries stored earlier are no answers any
    /// more.
    pub(crate) fn is_stale_if_error_on(&self) -> bool {
        let policy = self.policy.now();
        policy.stale_if_error_ms > Millis::ZERO && policy.ttl_ms > Millis::ZERO
    }

    /// How long a request waits before it gets a fallback: as long as runs of its pattern usually take (leases use the
    /// same measure), within a bound.
    pub(crate) fn fallback_wait_ms(&self, query: &Query) -> Millis {
        self.key_stats.lease_ms(query).min(Millis(limits::STALE_FALLBACK_WAIT_MS_MAX))
    }

    /// The fallback from memory for the waiters of a new flight. `held` is the copy that was found there.
    pub(crate) fn fallback_from_memory(
        &self,
        query: &Query,
        held: Option<&SharedCopy>,
        before: Purges,
    ) -> FallbackPlace<'_> {
        if let Some(copy) = held {
            self.offer_fallback(query, copy, before);
        }
        self.fallbacks.place(query.key)
    }

    /// Puts a copy aside for the waiters of the flight under way.
    pub(crate) fn offer_fallback(&self, query: &Query, copy: &SharedCopy, before: Purges) {
        let now = self.context.now();
        if !self.is_stale_if_error_on() || !self.is_stale_fallback(copy, now) {
            return;
        }
        // The last run for it failed, or took its whole time: waiting would bring nothing new.
        let wait_ms = if copy.has_origin_failed() { Millis::ZERO } else { self.fallback_wait_ms(query) };
        self.fallbacks.offer(query.key, copy, now + wait_ms, before);
    }

    /// Whether a copy may stand in for a failing origin: it is stale or dead, or a write has ended it.
    pub(crate) fn is_stale_fallback(&self, copy: &MemoryCopy, now: MonoTime) -> bool {
        copy.is_kept_as_fallback(now) && (copy.fresh_until() <= now || self.written.has_ended(copy))
    }

    /// The fallback of a key's flight, and the time from which it is served.
    pub(crate) fn fallback_of_flight(&self, key: &QueryKey) -> Option<(SharedCopy, MonoTime)> {
        self.fallbacks.get(key)
    }

    /// Marks the copy of a key whose run failed, or found no place: stale answers say so until there is a newer copy.
    pub(crate) fn mark_origin_failed(&self, key: &QueryKey) {
        if let Some(copy) = self.look(key) {
            copy.origin_failed();
        }
    }

    /// Begins no refresh of a key's copy for `pause_ms`.
    pub(crate) fn put_off_refresh(&self, key: &QueryKey, pause_ms: Millis) {
        if let Some(copy) = self.look(key) {
            copy.put_off_refresh(self.context.now() + pause_ms);
        }
    }

    /// I5: a copy answers its own principal only. The key ensures that; this assertion finds a key that does not.
    pub(crate) fn assert_owner(ask: &Ask, copy: &MemoryCopy) {
        let own = ScopeTag::of(ask.query.identity.scope);
        debug_assert_eq!(copy.owner(), own, "I5: a copy answers another principal");
    }
}
