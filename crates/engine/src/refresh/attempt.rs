//! One refresh from its place in the queue to its end: its tries, the waits between them, and the use of its value.
//!
//! Every triggered refresh ends as completed or failed, however its task ends: dropping [`RefreshTask`] notes the
//! failure. A failed refresh leaves the stale copy in place, with one exception: the server says that the statement
//! itself fails now, or that this principal may not run it any more. Then nobody gets the old value.

use std::sync::Arc;

use hopcache_core::key::QueryKey;
use hopcache_core::lease::Token;
use hopcache_core::limits;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::copy::{Life, MemoryCopy, SharedCopy};
use crate::cache::flight::Leader;
use crate::fetch::{FetchRefusal, FetchResult, HeldLease, Terms};
use crate::model::bounds::{StaleUse, ValueBounds};
use crate::model::event::{Cause, Event, RefreshWord};
use crate::model::job::FetchJob;
use crate::model::outcome::Kept;
use crate::model::ports::{OriginError, OriginFault};
use crate::model::span::scaled;
use crate::refresh::Refresh;
use crate::refresh::queue::{CountGuard, QueuePlace, is_heavy};

/// The copy to replace, without its bytes: a refresh may wait long.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplacedCopy {
    token: Option<Token>,
    read_started: MonoTime,
    cost_ms: Millis,
}

impl ReplacedCopy {
    pub(super) fn of(copy: &MemoryCopy) -> Self {
        Self { token: copy.token(), read_started: copy.read_started(), cost_ms: copy.cost_ms() }
    }

    /// The largest age of an entry that is newer than the copy. Let the copy's run begin at 0, take c, and be stored at
    /// c + d, where d is the commit's way. The store counts an entry's life from its commit. So when this node's age
    /// for the copy is a, the store's age is a − d. The next run had its lease after c + d, so the store's age for its
    /// result is less than a − d − c. With a − c as the limit, that result always qualifies. The copy's own entry does
    /// not qualify while d < c; otherwise its token identifies it. The two milliseconds make up for rounding of spans.
    pub(super) fn age_max_ms(&self, now: MonoTime) -> Millis {
        now.since(self.read_started).saturating_sub(self.cost_ms.saturating_sub(Millis(2)))
    }

    fn is_older_than(&self, copy: &MemoryCopy) -> bool {
        copy.token() != self.token && copy.read_started() > self.read_started
    }
}

/// A triggered refresh.
pub(super) struct RefreshTask {
    refresh: Arc<Refresh>,
    /// The seat, until the refresh has ended.
    seat: Option<Leader<QueryKey, ()>>,
    job: FetchJob,
    replaced: ReplacedCopy,
    began: MonoTime,
    /// Its place in the count of refreshes that began and have not ended.
    counted: Option<CountGuard>,
}

impl RefreshTask {
    pub(super) fn new(
        refresh: &Arc<Refresh>,
        seat: Leader<QueryKey, ()>,
        job: FetchJob,
        replaced: ReplacedCopy,
    ) -> Self {
        let counted = refresh.queue.begin();
        refresh.context.note(Event::Refresh(RefreshWord::Triggered));
        let bounds = ValueBounds { stale_use: StaleUse::Ignore, ..job.bounds.clone() };
        let job = FetchJob { cause: Cause::Refresh, bounds, run_ms_max: None, live: None, ..job };
        let (began, refresh) = (refresh.context.now(), Arc::clone(refresh));
        Self { refresh, seat: Some(seat), job, replaced, began, counted }
    }

    fn key(&self) -> &QueryKey {
        &self.job.query.key
    }

    /// Whether no invalidation has come since it was triggered.
    fn is_attached(&self) -> bool {
        self.seat.as_ref().is_some_and(Leader::is_attached)
    }

    /// Whether its request occupies room, while it sleeps, that later requests may need.
    fn is_heavy(&self) -> bool {
        is_heavy(&self.job.query)
    }

    fn note_end(&mut self, word: RefreshWord) {
        self.counted = None;
        let context = &self.refresh.context;
        context.note(Event::Refresh(word));
        context.note(Event::RefreshTook(context.now().since(self.began)));
    }

    /// Keeps the new value and ends as completed.
    async fn complete(mut self, result: FetchResult) {
        let Some(seat) = self.seat.take() else { return };
        self.note_end(RefreshWord::Completed);
        self.refresh.fetch.keep(&seat, &self.job, (result, None)).await;
        seat.land(());
    }
}

/// A refresh that did not complete has failed: it gave up, a shutdown ended it, or a panic lost it (F4).
impl Drop for RefreshTask {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        self.note_end(RefreshWord::Failed);
        // Without the pause every hit would try again at once while the origin is down. After an invalidation the copy
        // in memory is another one, which this refresh does not touch.
        if seat.is_attached() {
            let (refresh, key) = (&self.refresh, self.key());
            let pause_ms = refresh.context.jittered(limits::REFRESH_RETRY_MS);
            let pause_ms = pause_ms.max(refresh.fetch.held_back(key).unwrap_or_default());
            refresh.cache.put_off_refresh(key, pause_ms);
        }
        seat.land(());
    }
}

/// How one try ended.
enum AttemptEnd {
    /// The try found a newer value.
    NewValue(FetchResult),
    /// No newer value, and another try would not help.
    Over,
    /// No newer value, and another try may help.
    Again,
    /// The back-off of the key's failed runs holds it back: there was no try.
    HeldBack,
    /// The server refuses to give the old value now.
    Gone,
}

impl Refresh {
    /// Takes a refresh from its place in the queue to its end.
    pub(super) async fn refresh_through(
        self: Arc<Self>,
        task: RefreshTask,
        mut place: QueuePlace,
        mut lease: Option<HeldLease>,
    ) {
        let (mut tries, mut waits) = (0, 0);
        loop {
            let Some(worker) = place.worker().await else { return };
            let tried = self.try_once(&task, lease.take(), tries > 0).await;
            if matches!(tried, AttemptEnd::Gone) {
                let key = *task.key();
                drop(task);
                self.invalidate.forget_refused(&key);
                self.invalidate.tell_refused(&key, true).await;
                // Only now: this bounds the refusals that are announced at a time by the number of workers.
                drop(worker);
                return;
            }
            drop(worker);
            match tried {
                AttemptEnd::NewValue(result) => return task.complete(result).await,
                AttemptEnd::Over | AttemptEnd::Gone => return,
                AttemptEnd::Again => tries += 1,
                // This was no try and does not use one up. Its own count keeps it from waiting for ever for other runs.
                AttemptEnd::HeldBack => waits += 1,
            }
            if tries.max(waits) > self.policy().retries_max {
                return;
            }
            let Some(next) = self.sleep_before_retry(&task, tries).await else { return };
            place = next;
        }
    }

    /// Sleeps until the next try is due, after `tries` tries, and takes a place for it. `None` if there will be no
    /// other try.
    async fn sleep_before_retry(&self, task: &RefreshTask, tries: u32) -> Option<QueuePlace> {
        if !task.is_attached() || task.is_heavy() {
            return None;
        }
        let asleep = self.queue.fall_asleep()?;
        let exponent = i32::try_from(tries.saturating_sub(1)).unwrap_or(i32::MAX);
        let backed_off = scaled(Millis(limits::REFRESH_RETRY_MS), self.policy().retry_factor.powi(exponent));
        let pause_ms = self.context.jittered(backed_off.0.min(limits::REFRESH_RETRY_MS_MAX));
        let pause_ms = pause_ms.max(self.fetch.held_back(task.key()).unwrap_or_default());
        self.cache.put_off_refresh(task.key(), pause_ms);
        tokio::select! {
            biased;
            () = self.queue.ended() => return None,
            () = self.context.sleep(pause_ms) => {}
        }
        drop(asleep);
        self.queue.enter(&task.job.query, self.context.now())
    }

    async fn try_once(&self, task: &RefreshTask, lease: Option<HeldLease>, is_retry: bool) -> AttemptEnd {
        // Dropping an unused lease gives it back.
        if !task.is_attached() || self.queue.is_ended() {
            return AttemptEnd::Over;
        }
        if lease.is_none()
            && let Some(copy) = self.newer_in_memory(task)
        {
            return AttemptEnd::NewValue(FetchResult::Found(copy));
        }
        if lease.is_none() && self.fetch.held_back(task.key()).is_some() {
            return AttemptEnd::HeldBack;
        }
        if is_retry {
            self.context.note(Event::Refresh(RefreshWord::Retried));
        }
        let (now, timeout_ms) = (self.context.now(), self.policy().timeout_ms);
        let bounds =
            ValueBounds { age_max_ms: Some(task.replaced.age_max_ms(now)), ..task.job.bounds.clone() };
        let job = FetchJob { bounds, until: Some(now + timeout_ms), ..task.job.clone() };
        tokio::select! {
            biased;
            tried = self.fetch_newer(job, &task.replaced, lease) => tried,
            // Dropped, the try gives its lease back.
            () = self.context.lifecycle().flights_handed_on() => AttemptEnd::Over,
            // The competition and the run have this deadline themselves. This timer is for an origin that ignores its
            // deadline: the run is dropped, which counts as timed out and gives the lease back.
            () = self.context.sleep(Millis(timeout_ms.0.saturating_add(limits::REFRESH_CUT_MS))) => AttemptEnd::Again,
        }
    }

    fn newer_in_memory(&self, task: &RefreshTask) -> Option<SharedCopy> {
        let copy = self.cache.look(task.key())?;
        let is_fresh = matches!(copy.life(self.context.now()), Life::Fresh(_));
        (is_fresh && copy.token().is_some() && task.replaced.is_older_than(&copy)).then_some(copy)
    }

    /// Fetches a value newer than the replaced one. If the store returns the replaced one itself, this asks once more,
    /// for a younger one.
    async fn fetch_newer(
        &self,
        mut job: FetchJob,
        replaced: &ReplacedCopy,
        mut lease: Option<HeldLease>,
    ) -> AttemptEnd {
        let held = self.cache.look(&job.query.key);
        let mut is_second = false;
        loop {
            let asked = self.context.now();
            let until = job.until.unwrap_or(asked);
            let terms = lease.take().map_or_else(|| Terms::refresh(until), Terms::refresh_with);
            match self.fetch.fetch(&job, terms, held.as_ref()).await.result() {
                // The replaced entry, which a store whose clock was set back takes for young (F24).
                Ok(FetchResult::Found(copy)) if copy.token() == replaced.token && is_second => {
                    return AttemptEnd::Over;
                }
                Ok(FetchResult::Found(copy)) if copy.token() == replaced.token => {
                    // Storing the replaced entry took longer than reading it: by the store's age it is at least this
                    // old.
                    let now = self.context.now();
                    let least = copy.age_ms(now).saturating_sub(now.since(asked));
                    job.bounds.age_max_ms = Some(least.saturating_sub(Millis(2)));
                    is_second = true;
                }
                Ok(result) => return tried(result),
                Err(FetchRefusal::Busy) => return AttemptEnd::Again,
                // No refresh without a lease: otherwise every node would run one.
                Err(FetchRefusal::NoStore | FetchRefusal::Closed) => return AttemptEnd::Over,
            }
        }
    }
}

fn tried(result: FetchResult) -> AttemptEnd {
    match result {
        FetchResult::Found(_) | FetchResult::Ran { kept: Kept::Stored | Kept::InMemory, .. } => {
            AttemptEnd::NewValue(result)
        }
        FetchResult::Failed(OriginError { kind, .. }) => match kind {
            kind if kind.refuses_statement() => AttemptEnd::Gone,
            OriginFault::Failed(_) | OriginFault::Unauthorized(_) | OriginFault::TooLarge { .. } => {
                AttemptEnd::Over
            }
            OriginFault::Transient(_)
            | OriginFault::Unreachable(_)
            | OriginFault::Cut(_)
            | OriginFault::TimedOut
            | OriginFault::Overloaded
            | OriginFault::TooManyRuns => AttemptEnd::Again,
        },
        FetchResult::HeldBack { .. } => AttemptEnd::HeldBack,
        // A newer leader exists, or the result cannot be kept.
        FetchResult::Ran { .. } | FetchResult::Stale(_) | FetchResult::NotARead(_) => AttemptEnd::Over,
    }
}
