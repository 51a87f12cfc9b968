//! Back-off of keys whose last runs brought no answer: for how long new runs are held back
//! ([`hopcache_core::backoff`]), and the answer meanwhile.
//!
//! This memory belongs to one node. The ring brings all requests of a key to its owner, so usually one memory serves
//! the whole cluster. When rings disagree or the owner changes, each node finds out by one run of its own. The lease is
//! given back anyway: held during the pause, it would make other nodes' requests wait instead of failing at once.
//!
//! A prefetch is no client's request, so its failure does not hold back clients' runs. It is remembered apart
//! ([`FailureBackoff::ahead`]) and delays only further prefetches of the key. An answer of a prefetch counts like any
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
use crate::model::ports::{OriginError, OriginFault, Store};

/// Failures by key. The least recently used are forgotten first.
pub(super) struct FailureBackoff {
    by_key: Mutex<LruCache<QueryKey, BackOff>>,
    /// Failures of prefetches.
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

/// The meaning of a run's end for its key.
enum RunEnd {
    /// The origin answered, which ends earlier failures.
    Answer,
    /// The origin did not answer.
    Failed(RunFailure),
    /// Nothing: the origin was never asked, or the trouble is not this key's.
    Nothing,
}

fn run_end(error: Option<&OriginError>) -> RunEnd {
    match error.map(|error| &error.kind) {
        Some(OriginFault::Failed(said)) if said.is_over_servers_time() => {
            RunEnd::Failed(RunFailure::TimedOut)
        }
        None | Some(OriginFault::Failed(_) | OriginFault::TooLarge { .. }) => RunEnd::Answer,
        Some(OriginFault::TimedOut) => RunEnd::Failed(RunFailure::TimedOut),
        // The trouble is a client's, whose bookmark the server has not reached.
        Some(fault) if fault.is_bookmark_timeout() => RunEnd::Nothing,
        // It was no bad luck: the second connection was cut as well.
        Some(OriginFault::Cut(_)) if error.is_some_and(|error| error.was_repeated) => {
            RunEnd::Failed(RunFailure::TimedOut)
        }
        Some(OriginFault::Cut(_) | OriginFault::Transient(_)) => RunEnd::Failed(RunFailure::Cut),
        // An unreachable origin concerns every key: the origin's breaker paces it.
        Some(
            OriginFault::Unreachable(_)
            | OriginFault::Unauthorized(_)
            | OriginFault::Overloaded
            | OriginFault::TooManyRuns,
        ) => RunEnd::Nothing,
    }
}

impl Fetch {
    /// Keys with remembered failures: of clients' runs, and of prefetches.
    pub(crate) fn backoff_lens(&self) -> (usize, usize) {
        (self.backoff.len(), self.backoff.ahead_len())
    }

    /// For how long runs of this key are still held back.
    pub(crate) fn held_back(&self, key: &QueryKey) -> Option<Millis> {
        self.backoff.by_key.lock().get(key)?.left(self.context.now())
    }

    /// Whether prefetches of this key are held back, by the failure of a client's run or of an earlier prefetch.
    pub(crate) fn is_held_back_ahead(&self, key: &QueryKey) -> bool {
        let is_held = |failure: &BackOff| failure.left(self.context.now()).is_some();
        self.held_back(key).is_some() || self.backoff.ahead.lock().get(key).is_some_and(is_held)
    }

    /// Whether this node remembers a run of this key that brought no answer, since `then`. Earlier failures do not
    /// count, because another node may have had an answer after them.
    pub(crate) fn has_failed_since(&self, key: &QueryKey, then: MonoTime) -> bool {
        self.backoff.by_key.lock().peek(key).is_some_and(|failure| failure.noted_at() >= then)
    }

    /// A run that began at `began`, on any node, has brought an answer, which ends earlier failures here too. Without
    /// this, a node that fails, loses the key and gets it back would hold back despite the other node's answer.
    pub(crate) fn note_answer(&self, key: &QueryKey, began: MonoTime) {
        let mut by_key = self.backoff.by_key.lock();
        if by_key.peek(key).is_some_and(|failure| failure.noted_at() < began) {
            by_key.pop(key);
        }
    }

    /// Notes the end of a run of this key that began at `began`. Called before the end is announced, so that those who
    /// learn it find the key held back.
    pub(crate) fn note_end(
        &self,
        (key, cause): (&QueryKey, Cause),
        began: MonoTime,
        error: Option<&OriginError>,
    ) {
        let failure = match run_end(error) {
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

    /// The answer without a run or a lease: the store's, else the rest of the pause.
    pub(super) async fn answer_held_back(
        &self,
        job: &FetchJob,
        left_ms: Millis,
        held: Option<&SharedCopy>,
    ) -> FetchResult {
        let key = &job.query.key;
        let asked = self.context.now();
        let seen = self.store.peek(key).await;
        let found = match seen.ok().and_then(|slot| slot.entry) {
            Some(stored) => self.stored_answer(job, &stored, asked, held).await,
            None => None,
        };
        found.unwrap_or_else(|| {
            self.context.note(Event::HeldBack);
            FetchResult::HeldBack { left_ms }
        })
    }

    /// The stored answer for a request that would otherwise be refused a run.
    pub(super) async fn stored_answer(
        &self,
        job: &FetchJob,
        stored: &StoredEntry,
        asked: MonoTime,
        held: Option<&SharedCopy>,
    ) -> Option<FetchResult> {
        let copy = self.cache.decode(&job.query, stored, asked, held.map(|copy| &**copy)).await?;
        let now = self.context.now();
        // An entry also has age zero when the store's clock was set back (F24). A request that wants a read of its own
        // gets no stored entry.
        let is_young =
            job.bounds.age_max_ms.is_none_or(|age_max| age_max > Millis::ZERO && copy.age_ms(now) <= age_max);
        match copy.life(now) {
            Life::Fresh(_) if is_young && self.cache.is_late_enough(&copy, &job.bounds) => {
                Some(FetchResult::Found(copy))
            }
            Life::Stale(_) if is_young && self.cache.is_stale_answer(&copy, &job.bounds, now) => {
                Some(FetchResult::Stale(copy))
            }
            _ => None,
        }
    }
}
