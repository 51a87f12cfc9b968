//! Back-off of keys whose last runs brought no answer: for how long they are held back ([`hopcache_core::backoff`]), and
//! what is answered meanwhile.
//!
//! This memory is one node's. The ring brings all requests of a key to its owner, so that is usually the whole cluster's.
//! Where rings disagree, or the owner changes, each node finds out for itself, one run each. The lease is given back all the
//! same: kept for the time of the pause it would make other nodes' requests wait where they should be told at once.
//!
//! A prefetch is nobody's request. So its failure holds back no client's run: it is remembered apart
//! ([`FailureBackoff::ahead`]), and only further prefetches of the key wait for it. An answer that it brought is one like any
//! other.

use std::num::NonZeroUsize;

use hopcache_core::backoff::{BackOff, RunFailure};
use hopcache_core::key::QueryKey;
use hopcache_core::lease::StoredEntry;
use hopcache_core::limits::{BACKOFF_KEYS_MAX, PREFETCH_BACKOFF_KEYS_MAX};
use hopcache_core::time::{Millis, MonoTime};
use lru::LruCache;
use parking_lot::Mutex;

use crate::cache::copy::{Life, SharedCopy};
use crate::fetch::{Fetch, FetchResult};
use crate::model::event::{Cause, Event};
use crate::model::job::FetchJob;
use crate::model::ports::{OriginFault, Store};

/// Failures by key; the least recently used are forgotten first.
pub(super) struct FailureBackoff {
    by_key: Mutex<LruCache<QueryKey, BackOff>>,
    /// Those of prefetches.
    ahead: Mutex<LruCache<QueryKey, BackOff>>,
}

impl FailureBackoff {
    pub(super) fn new() -> Self {
        let table = |most| Mutex::new(LruCache::new(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN)));
        Self { by_key: table(BACKOFF_KEYS_MAX), ahead: table(PREFETCH_BACKOFF_KEYS_MAX) }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.lock().len()
    }

    pub(super) fn ahead_len(&self) -> usize {
        self.ahead.lock().len()
    }
}

/// What the end of a run says of its key.
enum RunEnd {
    /// The origin answered: whatever was before is over.
    Answer,
    /// It did not.
    Failed(RunFailure),
    /// Nothing: it was never asked, or the trouble is not this key's.
    Nothing,
}

fn run_end(fault: Option<&OriginFault>) -> RunEnd {
    match fault {
        None | Some(OriginFault::Failed(_) | OriginFault::TooLarge { .. }) => RunEnd::Answer,
        Some(OriginFault::TimedOut) => RunEnd::Failed(RunFailure::TimedOut),
        // The trouble is a client's, whose bookmark the server has not reached.
        Some(fault) if fault.is_bookmark_timeout() => RunEnd::Nothing,
        Some(OriginFault::Cut(_) | OriginFault::Transient(_)) => RunEnd::Failed(RunFailure::Cut),
        // An origin that cannot be reached is every key's trouble: its breaker paces that.
        Some(
            OriginFault::Unreachable(_)
            | OriginFault::Unauthorized(_)
            | OriginFault::Overloaded
            | OriginFault::TooManyRuns,
        ) => RunEnd::Nothing,
    }
}

impl Fetch {
    /// Keys held back, or held back before; and the same for prefetches alone.
    pub(crate) fn backoff_lens(&self) -> (usize, usize) {
        (self.backoff.len(), self.backoff.ahead_len())
    }

    /// For how long runs of this key are still held back.
    pub(crate) fn held_back(&self, key: &QueryKey) -> Option<Millis> {
        self.backoff.by_key.lock().get(key)?.left(self.context.now())
    }

    /// Whether a prefetch of this key is held back: by what clients' runs came to, or earlier prefetches.
    pub(crate) fn is_held_back_ahead(&self, key: &QueryKey) -> bool {
        let is_held = |failure: &BackOff| failure.left(self.context.now()).is_some();
        self.held_back(key).is_some() || self.backoff.ahead.lock().get(key).is_some_and(is_held)
    }

    /// Whether a run of this key has brought no answer since then, as far as is remembered here. Another node
    /// may have had an answer before it, which is what the time is for.
    pub(crate) fn has_failed_since(&self, key: &QueryKey, then: MonoTime) -> bool {
        self.backoff.by_key.lock().peek(key).is_some_and(|failure| failure.noted_at() >= then)
    }

    /// Somebody's run that began then has brought an answer: failures of before are over here too. Without this a node
    /// that fails, loses the key to another and gets it back holds back what that one has read since.
    pub(crate) fn note_answer(&self, key: &QueryKey, began: MonoTime) {
        let mut by_key = self.backoff.by_key.lock();
        if by_key.peek(key).is_some_and(|failure| failure.noted_at() < began) {
            by_key.pop(key);
        }
    }

    /// Takes note of how a run of this key ended that began at `began`; before anybody is told of it, so that
    /// whoever is told finds the key held back.
    pub(crate) fn note_end(
        &self,
        (key, cause): (&QueryKey, Cause),
        began: MonoTime,
        fault: Option<&OriginFault>,
    ) {
        let failure = match run_end(fault) {
            RunEnd::Nothing => return,
            RunEnd::Answer => {
                self.backoff.by_key.lock().pop(key);
                self.backoff.ahead.lock().pop(key);
                return;
            }
            RunEnd::Failed(failure) => failure,
        };
        let (now, unit) = (self.context.now(), self.context.unit());
        let table = if cause == Cause::Prefetch { &self.backoff.ahead } else { &self.backoff.by_key };
        let mut by_key = table.lock();
        let before = by_key.get(key).copied();
        by_key.put(*key, BackOff::after(before, failure, began, now, unit));
    }

    /// What there is without a run, and so without a lease: what the store has, else word of the pause.
    pub(super) async fn answer_held_back(
        &self,
        job: &FetchJob,
        left_ms: Millis,
        held: Option<&SharedCopy>,
    ) -> FetchResult {
        let key = &job.query.key;
        let asked = self.context.now();
        let seen = self.store.peek(key).await;
        let found = seen.ok().and_then(|slot| self.stored_answer(job, &slot.entry?, asked, held));
        found.unwrap_or_else(|| {
            self.context.note(Event::HeldBack);
            FetchResult::HeldBack { left_ms }
        })
    }

    /// What is stored, where it is an answer to who would otherwise be refused a run.
    pub(super) fn stored_answer(
        &self,
        job: &FetchJob,
        stored: &StoredEntry,
        asked: MonoTime,
        held: Option<&SharedCopy>,
    ) -> Option<FetchResult> {
        let copy = self.cache.decode(&job.query, stored, asked, held.map(|copy| &**copy))?;
        let now = self.context.now();
        // Of age zero an entry is also when the store's clock was set back (F24): whoever wants a read of its own gets
        // none that was stored before.
        let is_young =
            job.bounds.age_max_ms.is_none_or(|age_max| age_max > Millis::ZERO && copy.age_ms(now) <= age_max);
        match copy.life(now) {
            Life::Fresh(_) if is_young && copy.covers(&job.bounds.after) => Some(FetchResult::Found(copy)),
            Life::Stale(_) if is_young && copy.is_stale_answer(&job.bounds, now) => {
                Some(FetchResult::Stale(copy))
            }
            _ => None,
        }
    }
}
