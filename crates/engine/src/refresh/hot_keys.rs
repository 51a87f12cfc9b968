//! Refresh on write: which keys this node reads anew when a write has ended their copies, before the next reader comes.
//!
//! A write leaves marks and no list of entries, so this room keeps a bounded board of the hottest keys. Hits fill it: the
//! first one of a copy and each 64th look how hot the key is. After a write, [`Refresh::hot_reads`] looks at the keys of
//! the board only. The request path leads the runs, as flights that readers join (`path::after_write`).
//!
//! Such a read has a place in the queue of refreshes, so principals share the workers here as well. A key is read ahead no
//! more often than it is asked for: with a write each millisecond its readers would lead as many runs.

use std::sync::Arc;

use hopcache_core::limits::{HOT_KEY_SEEN_MS, HOT_KEYS_MAX, HOT_LOOK_PAUSE_MS, HOT_RATE_PER_S_MIN};
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;

use crate::cache::copy::MemoryCopy;
use crate::model::bounds::{StaleUse, ValueBounds};
use crate::model::event::{Cause, Event, RefreshWord};
use crate::model::identity::Identity;
use crate::model::job::FetchJob;
use crate::refresh::Refresh;
use crate::refresh::queue::{CountGuard, QueuePlace, Worker, is_heavy};

/// The hottest keys of this node, in no order.
#[derive(Default)]
pub(super) struct HotKeys {
    board: Mutex<Vec<HotKey>>,
}

struct HotKey {
    job: FetchJob,
    rate_per_s: f64,
    seen_at: MonoTime,
    /// It is not read ahead before.
    read_after: MonoTime,
}

impl HotKeys {
    /// Takes a job whose key has this rate. A known key gets the newer job, which has the newer credentials. A full board
    /// forgets its coldest key for a hotter one.
    fn note(&self, job: FetchJob, rate_per_s: f64, now: MonoTime) {
        let mut board = self.board.lock();
        board.retain(|hot| now.since(hot.seen_at) < Millis(HOT_KEY_SEEN_MS));
        let key = job.query.key;
        if let Some(known) = board.iter_mut().find(|hot| hot.job.query.key == key) {
            *known = HotKey { job, rate_per_s, seen_at: now, read_after: known.read_after };
            return;
        }
        if board.len() >= HOT_KEYS_MAX {
            let places = board.iter().map(|hot| hot.rate_per_s).enumerate();
            match places.min_by(|(_, a), (_, b)| a.total_cmp(b)) {
                Some((place, coldest_per_s)) if coldest_per_s < rate_per_s => drop(board.swap_remove(place)),
                _ => return,
            }
        }
        board.push(HotKey { job, rate_per_s, seen_at: now, read_after: MonoTime::default() });
    }

    /// The jobs of the keys that are due and that `is_wanted`, the hottest first. They are not due again for as long as their
    /// readers need for the next request.
    fn due(&self, now: MonoTime, is_wanted: impl Fn(&FetchJob) -> bool) -> Vec<FetchJob> {
        let mut board = self.board.lock();
        board.sort_by(|a, b| b.rate_per_s.total_cmp(&a.rate_per_s));
        let due = board.iter_mut().filter(|hot| now >= hot.read_after && is_wanted(&hot.job));
        due.map(|hot| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "at least 2 per second"
            )]
            let apart_ms = (1_000.0 / hot.rate_per_s.max(HOT_RATE_PER_S_MIN)) as u64;
            hot.read_after = now + Millis(apart_ms.max(HOT_LOOK_PAUSE_MS));
            hot.job.clone()
        })
        .collect()
    }

    /// Forgets all keys that were asked for with these credentials.
    fn forget(&self, identity: &Identity) {
        self.board.lock().retain(|hot| hot.job.query.identity.fingerprint != identity.fingerprint);
    }

    fn len(&self) -> usize {
        self.board.lock().len()
    }
}

/// A read ahead of a hot key: a refresh from its place in the queue to its end.
pub(crate) struct HotRead {
    refresh: Arc<Refresh>,
    job: FetchJob,
    place: Option<QueuePlace>,
    began: MonoTime,
    /// Its place in the count of refreshes that began and have not ended.
    counted: Option<CountGuard>,
    is_new: bool,
}

impl HotRead {
    /// Waits for its turn. `None` if it has none: the queue ended, or another principal got its place.
    pub(crate) async fn turn(&mut self) -> Option<HotTurn> {
        Some(HotTurn { _worker: self.place.take()?.worker().await? })
    }

    /// Its job.
    pub(crate) fn job(&self) -> &FetchJob {
        &self.job
    }

    /// There is a newer value: this read has brought it, or a reader's run.
    pub(crate) fn complete(mut self) {
        self.is_new = true;
    }
}

impl Drop for HotRead {
    /// After a read that brought nothing, none is tried with its credentials before readers have come with them: they may
    /// not be good any more, and wrong ones lock a user out.
    fn drop(&mut self) {
        if !self.is_new {
            self.refresh.hot_keys.forget(&self.job.query.identity);
        }
        self.counted = None;
        let context = &self.refresh.context;
        let word = if self.is_new { RefreshWord::Completed } else { RefreshWord::Failed };
        context.note(Event::Refresh(word));
        context.note(Event::RefreshTook(context.now().since(self.began)));
    }
}

/// The right to run, among the workers of refreshes.
pub(crate) struct HotTurn {
    _worker: Worker,
}

impl Refresh {
    /// Notes how hot the key of a copy is. `job` makes the job of its run.
    pub(super) fn note_heat(&self, copy: &MemoryCopy, now: MonoTime, job: &impl Fn() -> Option<FetchJob>) {
        let Some(rate_per_s) = copy.heat().rate_per_s(now).filter(|rate| *rate >= HOT_RATE_PER_S_MIN) else {
            return;
        };
        if let Some(job) = job().filter(|job| !is_heavy(&job.query)) {
            self.hot_keys.note(ahead(job), rate_per_s, now);
        }
    }

    /// Reads ahead of the hot keys that `is_wanted`, each with a place in the queue. None while Neo4j has no free slot: a
    /// refresh waits behind misses there, and the readers that join this one would wait with it.
    pub(crate) fn hot_reads(self: &Arc<Self>, is_wanted: impl Fn(&FetchJob) -> bool) -> Vec<HotRead> {
        let now = self.context.now();
        let is_idle = self.origin.slots().is_none_or(|slots| self.origin.in_flight() < slots);
        if !is_idle || !self.origin.is_reachable() || self.queue.is_ended() {
            return Vec::new();
        }
        let may_run = |job: &FetchJob| self.fetch.held_back(&job.query.key).is_none() && is_wanted(job);
        let due = self.hot_keys.due(now, may_run).into_iter();
        due.map_while(|job| self.hot_read(job, now)).collect()
    }

    fn hot_read(self: &Arc<Self>, job: FetchJob, now: MonoTime) -> Option<HotRead> {
        let Some(place) = self.queue.enter(&job.query, now) else {
            self.context.note(Event::Refresh(RefreshWord::Dropped));
            return None;
        };
        let counted = self.queue.begin();
        self.context.note(Event::Refresh(RefreshWord::Triggered));
        self.context.note(Event::ReadAfterWrite);
        let refresh = Arc::clone(self);
        Some(HotRead { refresh, job, place: Some(place), began: now, counted, is_new: false })
    }

    /// Keys on the board of hot ones.
    #[must_use]
    pub fn hot_keys(&self) -> usize {
        self.hot_keys.len()
    }
}

/// The job of a read ahead: nobody's request, so with nobody's bounds.
fn ahead(job: FetchJob) -> FetchJob {
    let bounds = ValueBounds { age_max_ms: None, stale_use: StaleUse::Ignore, ..ValueBounds::NOTHING };
    FetchJob { cause: Cause::Refresh, bounds, run_ms_max: None, live: None, traceparent: None, ..job }
}
