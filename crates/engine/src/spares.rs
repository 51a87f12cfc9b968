//! Stale if error (RFC 5861, section 4): which copy stands in for a run that fails or takes too long, and when.
//! It decides nothing of runs: they go on as ever.
//!
//! A copy past its soft TTL is a *spare* until the end of stale-if-error. It is served, and marked, only instead of a
//! failure that is an outage ([`crate::outcome::FailureKind::is_outage`]), and to a request that waits for a run longer
//! than its pattern usually takes, or for any while the origin is known to be away; never where the request's own `Cache-Control` forbids it.
//!
//! Where it is found: in memory; else in the store, asked when there is a failure to avoid; and for those who wait,
//! in the table here, where a flight's leader puts what it met (in memory, or beside the lease it was granted). A
//! place in the table lasts as long as the flight. From its time on whoever joins the flight is served at once, so
//! a run that hangs costs one patience and not one for each request.
//!
//! A purge must leave none behind. What was read from the store before a purge and comes here after it:
//! we ask the store, it says X · the purge empties the store, and [`Spares::forget`] counts it, then memory is emptied ·
//! we bring X, with the count of before: refused. Whether the count is the same and putting X here (or into memory)
//! is one step under the lock, so X is either refused or there when it is removed.

use std::collections::HashMap;

use hopcache_core::key::QueryKey;
use hopcache_core::lease::SlotView;
use hopcache_core::limits::{FLIGHTS_MAX, SPARE_LATE_MS_MAX, SPARE_PATIENCE_MS_MAX};
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;

use crate::ask::{Ask, Query};
use crate::copy::SharedCopy;
use crate::engine::Engine;
use crate::here::Here;
use crate::outcome::{Answer, Cause, Detail, Event, Outcome};
use crate::ports::{OriginFault, Scope};

/// Spares of flights under way.
#[derive(Default)]
pub(crate) struct Spares {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    by_key: HashMap<QueryKey, Spare>,
    purges: u64,
}

#[derive(Clone)]
struct Spare {
    copy: SharedCopy,
    /// When those who wait have waited long enough.
    overdue_at: MonoTime,
}

/// How many purges this node had carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Purges(u64);

/// A flight's place in the table; none when it is dropped.
pub(crate) struct SparePlace<'a> {
    spares: &'a Spares,
    key: QueryKey,
}

impl SparePlace<'_> {
    /// Whether there is a spare to fall back on.
    pub(crate) fn is_taken(&self) -> bool {
        self.spares.of(&self.key).is_some()
    }
}

impl Drop for SparePlace<'_> {
    /// Where an invalidation detached the flight and another began, this takes the other's place away: its
    /// requests wait until it ends, as if there were no spare.
    fn drop(&mut self) {
        self.spares.table.lock().by_key.remove(&self.key);
    }
}

impl Spares {
    pub(crate) fn len(&self) -> usize {
        self.table.lock().by_key.len()
    }

    /// To be asked before the store or the origin is, for what must not be kept if a purge came since.
    pub(crate) fn purges(&self) -> Purges {
        Purges(self.table.lock().purges)
    }

    /// Before memory forgets.
    pub(crate) fn forget(&self, scope: &Scope) {
        let mut table = self.table.lock();
        table.purges += 1;
        match scope {
            Scope::Key(key) => {
                table.by_key.remove(key);
            }
            Scope::Database(tag) => table.by_key.retain(|_, spare| spare.copy.database_tag != *tag),
            Scope::All => table.by_key.clear(),
        }
    }

    fn of(&self, key: &QueryKey) -> Option<Spare> {
        self.table.lock().by_key.get(key).cloned()
    }

    /// Does it under the lock, unless there was a purge since `before`.
    fn unless_purged(&self, before: Purges, put: impl FnOnce(&mut HashMap<QueryKey, Spare>)) {
        let mut table = self.table.lock();
        if table.purges == before.0 {
            put(&mut table.by_key);
        }
    }
}

impl Engine {
    /// With caching off there is none either: what was stored while it was on is no answer any more.
    fn is_stale_if_error_on(&self) -> bool {
        self.policy.stale_if_error_ms > Millis::ZERO && self.policy.ttl_ms > Millis::ZERO
    }

    /// How long runs of a query usually take at the most (as its lease is measured), and no longer than anybody
    /// should wait beside a spare.
    fn patience_ms(&self, query: &Query) -> Millis {
        self.lease_ms(query).min(Millis(SPARE_PATIENCE_MS_MAX))
    }

    /// What memory has for the waiters of a flight that begins.
    pub(crate) fn spare_of_memory(&self, query: &Query) -> SparePlace<'_> {
        let purges = self.spares.purges();
        if let Some(copy) = self.own_copy(&query.key) {
            self.offer_spare(query, &copy, purges);
        }
        SparePlace { spares: &self.spares, key: query.key }
    }

    /// Puts a copy aside for the waiters of the flight under way; the first one's time counts.
    pub(crate) fn offer_spare(&self, query: &Query, copy: &SharedCopy, purges: Purges) {
        let now = self.now();
        if !self.is_stale_if_error_on() || !copy.is_spare(now) {
            return;
        }
        // The last run for it failed, or took its whole time: who waited for this one would wait for nothing new.
        let patience_ms = if copy.has_origin_failed() { Millis::ZERO } else { self.patience_ms(query) };
        let overdue_at = now + patience_ms;
        self.spares.unless_purged(purges, |by_key| {
            if by_key.len() < FLIGHTS_MAX {
                let spare =
                    by_key.entry(query.key).or_insert_with(|| Spare { copy: copy.clone(), overdue_at });
                if spare.copy.read_started < copy.read_started {
                    spare.copy = copy.clone();
                }
            }
        });
    }

    /// For one who joins a flight that others have waited for long enough, or who begins or joins one after a run that
    /// is known to have failed, or while the origin is known to be away. (A run that it lost without a word holds the
    /// key's flight, or its lease, until its own deadline: who waited for that would wait for nothing.)
    pub(crate) fn overdue_spare(&self, ask: &Ask) -> Option<Outcome> {
        let now = self.now();
        if !self.is_awake(now) {
            return None;
        }
        let is_away = !self.ports.origin.is_reachable();
        if let Some(copy) = self.own_copy(&ask.query.key)
            && self.is_stale_if_error_on()
            && (copy.has_origin_failed() || is_away)
            && is_allowed(ask, &copy, now)
        {
            return Some(self.spare_outcome(ask, &copy));
        }
        let spare = self.spares.of(&ask.query.key)?;
        ((is_away || spare.overdue_at <= now) && is_allowed(ask, &spare.copy, now))
            .then(|| self.spare_outcome(ask, &spare.copy))
    }

    /// Done when the flight that is waited for is overdue and there is a spare; never, otherwise.
    pub(crate) async fn spare_when_overdue(&self, ask: &Ask) -> Outcome {
        if !self.is_stale_if_error_on() {
            return std::future::pending().await;
        }
        let patience_ms = self.patience_ms(&ask.query);
        loop {
            let left = self.spares.of(&ask.query.key).map(|spare| spare.overdue_at.since(self.now()));
            // One more for what was rounded off. Where there is no spare yet, or one that this request may not have,
            // it is looked for again after as long.
            let wait_ms =
                left.filter(|left| *left > Millis::ZERO).map_or(patience_ms, |left| Millis(left.0 + 1));
            self.ports.clock.sleep(wait_ms).await;
            // The process may have been stopped while this waited, and a purge have missed it.
            self.look_after_pause().await;
            if let Some(outcome) = self.overdue_spare(ask) {
                return outcome;
            }
        }
    }

    /// A spare instead of an outage, where there is one that the request allows.
    pub(crate) async fn or_spare(&self, ask: &Ask, here: Here) -> Here {
        let Here::Answered(Outcome { answer: Answer::Failed(failure), .. }) = &here else { return here };
        if !failure.kind.is_outage() || !self.is_stale_if_error_on() || ask.freshness.no_cache {
            return here;
        }
        match self.find_spare(ask).await {
            Some(copy) => Here::Answered(self.spare_outcome(ask, &copy)),
            None => here,
        }
    }

    /// The same for failures of this node's own making beside a forward: the node that was asked has
    /// looked for itself.
    pub(crate) async fn or_spare_beside(&self, ask: &Ask, here: Here) -> Here {
        match &here {
            Here::Answered(Outcome { answered_by: None, .. }) if !ask.freshness.only_if_cached => {
                self.or_spare(ask, here).await
            }
            _ => here,
        }
    }

    async fn find_spare(&self, ask: &Ask) -> Option<SharedCopy> {
        let key = &ask.query.key;
        // The request may have begun before a pause in which a purge missed this node.
        self.look_after_pause().await;
        let held = self.own_copy(key).or_else(|| Some(self.spares.of(key)?.copy));
        if let Some(copy) = held.filter(|copy| is_allowed(ask, copy, self.now())) {
            return Some(copy);
        }
        let (purges, asked) = (self.spares.purges(), self.now());
        // A store that is silent would keep who has no time left for as long as a command may take.
        let patience = ask.deadline.since(asked).max(Millis(SPARE_LATE_MS_MAX));
        let seen = tokio::select! {
            biased;
            seen = self.ports.store.peek(key) => seen,
            () = self.ports.clock.sleep(patience) => return None,
        };
        self.saw_store(&seen);
        let Ok(SlotView { entry: Some(stored), .. }) = seen else { return None };
        let copy = self.decode_stored(&ask.query, &stored, asked)?;
        if !is_allowed(ask, &copy, self.now()) {
            return None;
        }
        let is_newer = |held: &SharedCopy| held.read_started >= copy.read_started;
        // The next requests of an outage find it here. A newer one that comes in between is lost to memory only: the
        // store has it.
        if !self.own_copy(key).is_some_and(|held| is_newer(&held)) {
            self.remember_unless_purged(purges, key, &copy, copy.spare_until);
        }
        Some(copy)
    }

    /// Keeps a copy in memory until then, unless a purge came since `before`: for who has no seat in a table by which a
    /// purge would detach it.
    pub(crate) fn remember_unless_purged(
        &self,
        before: Purges,
        key: &QueryKey,
        copy: &SharedCopy,
        until: MonoTime,
    ) {
        let life_ms = until.since(self.now());
        self.spares.unless_purged(before, |_| self.ports.memory.put(*key, copy.clone(), life_ms));
    }

    fn spare_outcome(&self, ask: &Ask, copy: &SharedCopy) -> Outcome {
        self.note(Event::StaleServed);
        self.hit_outcome(ask, copy, Some(Detail::StaleIfError), self.now())
    }

    /// A run of the key failed: stale answers say so until there is a newer copy. A prefetch's failure is nothing that a
    /// client is told: who asks for a stale copy has it refreshed, and that refresh says how the origin is.
    pub(crate) fn mark_origin_failed(&self, (key, cause): (&QueryKey, Cause), fault: &OriginFault) {
        if cause != Cause::Prefetch
            && fault.is_outage()
            && let Some(copy) = self.own_copy(key)
        {
            copy.origin_failed();
        }
    }
}

/// Whether a copy is a spare, and keeps to the request's own `max-age` and `max-stale`.
fn is_allowed(ask: &Ask, copy: &SharedCopy, now: MonoTime) -> bool {
    copy.is_spare(now) && copy.keeps_to(ask.freshness, now)
}
