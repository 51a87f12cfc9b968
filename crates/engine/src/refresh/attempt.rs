//! One refresh from its place in the queue to its end: tries, the waits between them, and what becomes of the value.
//!
//! Every refresh that was triggered ends as completed or failed, however its task ends: [`RefreshTask`] says so when it is
//! dropped. A failed one leaves the stale copy where it is, but for one case: the server says that the statement itself
//! fails now, or is not for this principal any more. Then nobody is served the old value.

use std::sync::Arc;

use hopcache_core::key::QueryKey;
use hopcache_core::lease::Token;
use hopcache_core::limits;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::copy::{Life, MemoryCopy, SharedCopy};
use crate::cache::flight::Leader;
use crate::fetch::{FetchResult, HeldLease, NotFetched, Terms};
use crate::model::bounds::{StaleUse, ValueBounds};
use crate::model::event::{Cause, Event, RefreshWord};
use crate::model::job::FetchJob;
use crate::model::outcome::Kept;
use crate::model::ports::{OriginError, OriginFault};
use crate::model::span::scaled;
use crate::refresh::Refresh;
use crate::refresh::queue::{Counted, QueuePlace, is_heavy};

/// The copy that is to be replaced, without its bytes: a refresh may wait for long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replaced {
    token: Option<Token>,
    read_started: MonoTime,
    cost_ms: Millis,
}

impl Replaced {
    pub(super) fn of(copy: &MemoryCopy) -> Self {
        Self { token: copy.token(), read_started: copy.read_started(), cost_ms: copy.cost_ms() }
    }

    /// Entries older than this are no newer than the copy. Let its run have begun at 0, taken c and been stored at
    /// c + d, d being the commit's way. The store counts an entry's life from its commit, so its word on the copy's
    /// age now is a − d, where ours is a. Whoever ran next had the lease after c + d, so the store takes what that
    /// run brought for younger than a − d − c at the latest. With a − c as the limit the next one always counts, and
    /// the copy's own entry does not as long as d < c. (Where it does all the same it is known by its token.)
    /// Two milliseconds are for what is cut off spans on their way.
    pub(super) fn age_max_ms(&self, now: MonoTime) -> Millis {
        now.since(self.read_started).saturating_sub(self.cost_ms.saturating_sub(Millis(2)))
    }

    fn is_older_than(&self, copy: &MemoryCopy) -> bool {
        copy.token() != self.token && copy.read_started() > self.read_started
    }
}

/// A refresh that was triggered.
pub(super) struct RefreshTask {
    refresh: Arc<Refresh>,
    /// Until it has ended.
    seat: Option<Leader<QueryKey, ()>>,
    job: FetchJob,
    replaced: Replaced,
    began: MonoTime,
    /// One of those that began and have not ended.
    counted: Option<Counted>,
}

impl RefreshTask {
    pub(super) fn new(
        refresh: &Arc<Refresh>,
        seat: Leader<QueryKey, ()>,
        job: FetchJob,
        replaced: Replaced,
    ) -> Self {
        let counted = refresh.queue.begin();
        refresh.context.note(Event::Refresh(RefreshWord::Triggered));
        let bounds = ValueBounds { stale_use: StaleUse::Ignore, ..job.bounds.clone() };
        let job = FetchJob { cause: Cause::Refresh, bounds, run_ms_max: None, ..job };
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

    /// Whether its request takes room that requests to come may need while it sleeps.
    fn is_heavy(&self) -> bool {
        is_heavy(&self.job.query)
    }

    fn note_end(&mut self, word: RefreshWord) {
        self.counted = None;
        let context = &self.refresh.context;
        context.note(Event::Refresh(word));
        context.note(Event::RefreshTook(context.now().since(self.began)));
    }

    /// Keeps the new value.
    fn complete(mut self, result: &FetchResult) {
        let Some(seat) = self.seat.take() else { return };
        self.note_end(RefreshWord::Completed);
        self.refresh.fetch.keep(&self.job, result);
        if !seat.is_attached() {
            self.refresh.cache.remove(self.key());
        }
        seat.land(());
    }
}

/// Not completed is failed: given up, ended by a shutdown, or lost in a panic (F4).
impl Drop for RefreshTask {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        self.note_end(RefreshWord::Failed);
        // Every hit would try again at once while the origin is down. After an invalidation the copy in memory is another
        // one, and none of this refresh's business.
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
enum Tried {
    /// There is a newer value.
    NewValue(FetchResult),
    /// There is none, and trying again by itself would not help.
    Over,
    /// There is none, and it may.
    Again,
    /// Nothing was tried: by the last runs of its key it is held back.
    HeldBack,
    /// The server would not give the old value any more.
    Gone,
}

impl Refresh {
    /// Takes a refresh from its place to its end.
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
            if matches!(tried, Tried::Gone) {
                let key = *task.key();
                drop(task);
                self.invalidate.forget_refused(&key);
                self.invalidate.tell_refused(&key, true).await;
                // Only now: so no more refusals are told of at a time than there are workers.
                drop(worker);
                return;
            }
            drop(worker);
            match tried {
                Tried::NewValue(result) => return task.complete(&result),
                Tried::Over | Tried::Gone => return,
                Tried::Again => tries += 1,
                // No try, so it costs none; but it does not wait for ever for runs of others either.
                Tried::HeldBack => waits += 1,
            }
            if tries.max(waits) > self.policy.retries_max {
                return;
            }
            let Some(next) = self.sleep_before_retry(&task, tries).await else { return };
            place = next;
        }
    }

    /// A place for the next try after so many, when its time has come; none where there will be none.
    async fn sleep_before_retry(&self, task: &RefreshTask, tries: u32) -> Option<QueuePlace> {
        if !task.is_attached() || task.is_heavy() {
            return None;
        }
        let asleep = self.queue.fall_asleep()?;
        let exponent = i32::try_from(tries.saturating_sub(1)).unwrap_or(i32::MAX);
        let backed_off = scaled(Millis(limits::REFRESH_RETRY_MS), self.policy.retry_factor.powi(exponent));
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

    async fn try_once(&self, task: &RefreshTask, lease: Option<HeldLease>, is_retry: bool) -> Tried {
        // A lease that is not used is given back.
        if !task.is_attached() || self.queue.is_ended() {
            return Tried::Over;
        }
        if lease.is_none()
            && let Some(copy) = self.newer_in_memory(task)
        {
            return Tried::NewValue(FetchResult::Found(copy));
        }
        if lease.is_none() && self.fetch.held_back(task.key()).is_some() {
            return Tried::HeldBack;
        }
        if is_retry {
            self.context.note(Event::Refresh(RefreshWord::Retried));
        }
        let (now, timeout_ms) = (self.context.now(), self.policy.timeout_ms);
        let bounds =
            ValueBounds { age_max_ms: Some(task.replaced.age_max_ms(now)), ..task.job.bounds.clone() };
        let job = FetchJob { bounds, until: Some(now + timeout_ms), ..task.job.clone() };
        tokio::select! {
            biased;
            tried = self.fetch_newer(job, &task.replaced, lease) => tried,
            // Dropped, it gives its lease back.
            () = self.context.lifecycle().flights_handed_on() => Tried::Over,
            // The competition and the run have that deadline themselves: this is for an origin that does not keep to its
            // own. The run is dropped, which counts it as timed out, and its lease given back.
            () = self.context.sleep(Millis(timeout_ms.0.saturating_add(limits::REFRESH_CUT_MS))) => Tried::Again,
        }
    }

    fn newer_in_memory(&self, task: &RefreshTask) -> Option<SharedCopy> {
        let copy = self.cache.look(task.key())?;
        let is_fresh = matches!(copy.life(self.context.now()), Life::Fresh(_));
        (is_fresh && copy.token().is_some() && task.replaced.is_older_than(&copy)).then_some(copy)
    }

    /// Fetches a value that is newer than the replaced one. Where the store gives the replaced one itself, it is asked for a
    /// younger one, once.
    async fn fetch_newer(
        &self,
        mut job: FetchJob,
        replaced: &Replaced,
        mut lease: Option<HeldLease>,
    ) -> Tried {
        let held = self.cache.look(&job.query.key);
        let mut is_second = false;
        loop {
            let asked = self.context.now();
            let until = job.until.unwrap_or(asked);
            let terms = lease.take().map_or_else(|| Terms::refresh(until), Terms::refresh_with);
            match self.fetch.fetch(&job, terms, held.as_ref()).await.result() {
                // Taken for young by a store whose clock was set back (F24): it is what was to be replaced.
                Ok(FetchResult::Found(copy)) if copy.token() == replaced.token && is_second => {
                    return Tried::Over;
                }
                Ok(FetchResult::Found(copy)) if copy.token() == replaced.token => {
                    // The replaced one took longer to be stored than to be read: by the store's own word it is at least
                    // this old.
                    let now = self.context.now();
                    let least = copy.age_ms(now).saturating_sub(now.since(asked));
                    job.bounds.age_max_ms = Some(least.saturating_sub(Millis(2)));
                    is_second = true;
                }
                Ok(result) => return tried(result),
                Err(NotFetched::Busy) => return Tried::Again,
                // Without a lease nobody refreshes: every node would.
                Err(NotFetched::NoStore | NotFetched::Closed) => return Tried::Over,
            }
        }
    }
}

fn tried(result: FetchResult) -> Tried {
    match result {
        FetchResult::Found(_) | FetchResult::Ran { kept: Kept::Stored, .. } => Tried::NewValue(result),
        FetchResult::Failed(OriginError { kind, .. }) => match kind {
            kind if kind.refuses_statement() => Tried::Gone,
            OriginFault::Failed(_) | OriginFault::Unauthorized(_) | OriginFault::TooLarge { .. } => {
                Tried::Over
            }
            OriginFault::Transient(_)
            | OriginFault::Unreachable(_)
            | OriginFault::Cut(_)
            | OriginFault::TimedOut
            | OriginFault::Overloaded
            | OriginFault::TooManyRuns => Tried::Again,
        },
        FetchResult::HeldBack { .. } => Tried::HeldBack,
        // Somebody newer leads, or it cannot be kept.
        FetchResult::Ran { .. } | FetchResult::Stale(_) | FetchResult::NotARead(_) => Tried::Over,
    }
}
