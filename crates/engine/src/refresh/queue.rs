//! Who of the refreshes runs, waits for a worker, or sleeps before it is tried again; each within its bound (I9).
//! It runs nothing and knows no key.
//!
//! `workers` run at a time, `queue_max` wait in the order in which they came; who finds no place is dropped. A
//! refresh that sleeps before its next try has neither a worker nor a place in the queue: an origin that is down
//! leaves both to keys that it still answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hopcache_core::limits::REFRESHES_ASLEEP_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The bounds, and who has which place.
pub(crate) struct Queue {
    /// Hands out workers in the order in which they were asked for.
    workers: Arc<Semaphore>,
    workers_max: usize,
    queue_max: usize,
    waiting: Arc<AtomicUsize>,
    asleep: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
    ended: CancellationToken,
}

/// The right to run. Dropped, it goes to the next in line.
pub(crate) struct Worker(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

/// One of a bounded number. Dropped, it makes room.
pub(crate) struct Counted(Arc<AtomicUsize>);

/// A refresh's place.
pub(crate) enum Place {
    /// It may run at once.
    AtWork(Worker),
    /// It waits for a worker.
    InLine(Arc<Semaphore>, Counted),
}

impl Queue {
    pub(crate) fn new(workers: u32, queue_max: u32) -> Self {
        let workers_max = usize::try_from(workers.max(1)).unwrap_or(1).min(Semaphore::MAX_PERMITS);
        Self {
            workers: Arc::new(Semaphore::new(workers_max)),
            workers_max,
            queue_max: usize::try_from(queue_max).unwrap_or(usize::MAX),
            waiting: Arc::default(),
            asleep: Arc::default(),
            begun: Arc::default(),
            ended: CancellationToken::new(),
        }
    }

    /// A worker, if one is free and nobody waits for it.
    pub(crate) fn free_worker(&self) -> Option<Worker> {
        Arc::clone(&self.workers).try_acquire_owned().ok().map(Worker)
    }

    /// A place, if there is one.
    pub(crate) fn enter(&self) -> Option<Place> {
        if self.is_ended() {
            return None;
        }
        if let Some(worker) = self.free_worker() {
            return Some(Place::AtWork(worker));
        }
        let counted = Counted::among(&self.waiting, self.queue_max)?;
        Some(Place::InLine(Arc::clone(&self.workers), counted))
    }

    /// Counts a refresh until it ends, wherever it is meanwhile.
    pub(crate) fn begin(&self) -> Option<Counted> {
        Counted::among(&self.begun, usize::MAX)
    }

    /// Room among those who sleep before their next try.
    pub(crate) fn fall_asleep(&self) -> Option<Counted> {
        Counted::among(&self.asleep, REFRESHES_ASLEEP_MAX).filter(|_| !self.is_ended())
    }

    /// Nobody gets a worker any more, and those who sleep wake up.
    pub(crate) fn end(&self) {
        self.workers.close();
        self.ended.cancel();
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Done when it has ended.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn at_work(&self) -> usize {
        self.workers_max.saturating_sub(self.workers.available_permits())
    }

    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    pub(crate) fn asleep(&self) -> usize {
        self.asleep.load(Ordering::Relaxed)
    }
}

impl Place {
    /// Waits for a worker; none when the queue has ended meanwhile.
    pub(crate) async fn worker(self) -> Option<Worker> {
        match self {
            Self::AtWork(worker) => Some(worker),
            Self::InLine(workers, _counted) => workers.acquire_owned().await.ok().map(Worker),
        }
    }
}

impl Counted {
    fn among(counter: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let more = |count: usize| (count < most).then_some(count + 1);
        counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self(Arc::clone(counter)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
