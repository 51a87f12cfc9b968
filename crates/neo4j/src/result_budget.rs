//! Bounds how many large results there are in this process at a time, from the first byte read until their records are
//! rendered (promise I9, F29). `front::answer_budget` counts bodies on their way to clients, so that a slow reader holds
//! no place here. Waits are bounded, and this file reads nothing itself.
//!
//! A large record of a result that its client takes as it comes is counted by itself, in bytes: from when the client asks for it until
//! the client has it. It never waits, as its client may be slow.
//!
//! A small result needs no place. Over `RESULT_BYTES_UNRESERVED` a run takes a medium place. Over `RESULT_BYTES_MEDIUM`
//! it takes a large place, and gives the medium place back only when it has the large one.
//!
//! - No deadlock: a run that waits for a large place holds a medium one, and a run with a large place waits for nothing.
//! - Fewer runs may wait for a large place than there are medium places, so medium results pass a queue of large ones.
//! - A waiting run keeps its run slot, so only a few may wait for a medium place: small results need the other slots.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hopcache_bolt::{RECORD_BYTES_MAX, RecordPlace, Room};
use hopcache_core::limits::{
    RECORD_ROOM_BYTES, RESULT_BYTES_MEDIUM, RESULT_BYTES_UNRESERVED, RESULTS_LARGE_MAX,
    RESULTS_LARGE_WAITING_MAX, RESULTS_MEDIUM_MAX, RUN_SLOTS_PER_MEDIUM_WAITING,
};
use hopcache_net::body::tied;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The places of all runs, and of all statements on relays.
pub struct ResultBudget {
    medium: Arc<Semaphore>,
    large: Arc<Semaphore>,
    waiting_medium: Semaphore,
    waiting_large: Semaphore,
    /// The room of large records, in [`RECORD_UNIT_BYTES`].
    records: Arc<Semaphore>,
    wait: Duration,
}

const RECORD_UNIT_BYTES: usize = 1 << 10;
const _: () = assert!(RECORD_BYTES_MAX + (1 << 20) <= RECORD_ROOM_BYTES);

/// The place of a large record.
struct PlaceOfRecord {
    records: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
}

impl RecordPlace for PlaceOfRecord {
    fn grow(&mut self, bytes: usize) -> bool {
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = u32::try_from(bytes.div_ceil(RECORD_UNIT_BYTES).saturating_sub(held)).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(&self.records).try_acquire_many_owned(more) else { return false };
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        true
    }
}

/// One run's place.
pub struct ResultPlace<'a> {
    room: &'a ResultBudget,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl ResultBudget {
    /// Places for `run_slots` slots. A run waits at most `wait` for a place.
    pub(crate) fn new(wait: Duration, run_slots: usize) -> Self {
        Self {
            medium: Arc::new(Semaphore::new(RESULTS_MEDIUM_MAX)),
            large: Arc::new(Semaphore::new(RESULTS_LARGE_MAX)),
            waiting_medium: Semaphore::new(
                (run_slots / RUN_SLOTS_PER_MEDIUM_WAITING).clamp(1, Semaphore::MAX_PERMITS),
            ),
            waiting_large: Semaphore::new(RESULTS_LARGE_WAITING_MAX),
            records: Arc::new(Semaphore::new(RECORD_ROOM_BYTES / RECORD_UNIT_BYTES)),
            wait,
        }
    }

    /// The place of a run that has not needed any yet.
    pub fn place(&self) -> ResultPlace<'_> {
        ResultPlace { room: self, held: Mutex::new(None) }
    }

    #[cfg(test)]
    pub(super) fn medium_places_free(&self) -> usize {
        self.medium.available_permits()
    }

    async fn medium(&self) -> Option<OwnedSemaphorePermit> {
        self.permit(&self.medium, &self.waiting_medium).await
    }

    async fn large(&self) -> Option<OwnedSemaphorePermit> {
        self.permit(&self.large, &self.waiting_large).await
    }

    /// A place, at once or after a wait. `None` at once if the queue is full.
    async fn permit(&self, places: &Arc<Semaphore>, waiting: &Semaphore) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(places).try_acquire_owned() {
            return Some(permit);
        }
        let _queued = waiting.try_acquire().ok()?;
        timeout(self.wait, Arc::clone(places).acquire_owned()).await.ok()?.ok()
    }
}

impl ResultPlace<'_> {
    /// The records, which hold the place as long as any part of them is held.
    pub fn keep(self, records: Bytes) -> Bytes {
        match self.held.into_inner() {
            Some(place) if !records.is_empty() => tied(records, place),
            _ => records,
        }
    }
}

impl Room for ResultPlace<'_> {
    fn free_bytes(&self) -> usize {
        RESULT_BYTES_UNRESERVED
    }

    fn widen(&self, held_bytes: usize) -> Pin<Box<dyn Future<Output = Option<usize>> + Send + '_>> {
        Box::pin(async move {
            let is_large = held_bytes > RESULT_BYTES_MEDIUM;
            let permit = if is_large { self.room.large().await? } else { self.room.medium().await? };
            *self.held.lock() = Some(permit);
            Some(if is_large { usize::MAX } else { RESULT_BYTES_MEDIUM })
        })
    }

    fn record(&self) -> Box<dyn RecordPlace> {
        Box::new(PlaceOfRecord { records: Arc::clone(&self.room.records), held: None })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    fn room() -> ResultBudget {
        ResultBudget::new(Duration::from_secs(10), 32)
    }

    /// A run whose result has grown past the medium size.
    async fn large(room: &ResultBudget) -> Option<ResultPlace<'_>> {
        let place = room.place();
        place.widen(RESULT_BYTES_UNRESERVED + 1).await?;
        place.widen(RESULT_BYTES_MEDIUM + 1).await?;
        Some(place)
    }

    /// F29: two results are read, four wait, the others are refused at once. Medium results pass them.
    #[tokio::test(start_paused = true)]
    async fn large_results_queue_and_medium_ones_pass_them() {
        let shared = Arc::new(room());
        let (first, second) = (large(&shared).await.unwrap(), large(&shared).await.unwrap());
        let held = (first.keep(Bytes::from_static(b"a")), second.keep(Bytes::from_static(b"b")));
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..RESULTS_LARGE_WAITING_MAX {
            let shared = Arc::clone(&shared);
            waiting.spawn(async move { large(&shared).await.is_some() });
        }
        while shared.waiting_large.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let asked = tokio::time::Instant::now();
        assert!(large(&shared).await.is_none(), "the queue is full");
        assert_eq!(asked.elapsed(), Duration::ZERO, "and the refusal comes at once");
        assert!(shared.place().widen(RESULT_BYTES_UNRESERVED + 1).await.is_some(), "a medium one passes");
        assert_eq!(asked.elapsed(), Duration::ZERO);
        drop(held);
        let served: Vec<bool> = waiting.join_all().await;
        assert_eq!(served, vec![true; RESULTS_LARGE_WAITING_MAX], "places come free one after the other");
        assert_eq!(shared.large.available_permits(), RESULTS_LARGE_MAX);
        assert_eq!(shared.medium.available_permits(), RESULTS_MEDIUM_MAX);
    }

    /// F29: clients that do not read hold all medium places. A quarter of the run slots may wait for a place; the
    /// others stay free for small results.
    #[tokio::test(start_paused = true)]
    async fn few_run_slots_wait_for_a_medium_place() {
        let shared = Arc::new(room());
        let medium = async |room: &ResultBudget| room.medium().await.is_some();
        let held: Vec<_> = join_all((0..RESULTS_MEDIUM_MAX).map(|_| shared.medium())).await;
        assert!(held.iter().all(Option::is_some));
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let shared = Arc::clone(&shared);
            waiting.spawn(async move { shared.medium().await.is_some() });
        }
        while shared.waiting_medium.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let asked = tokio::time::Instant::now();
        assert!(!medium(&shared).await, "a quarter of the slots wait");
        assert_eq!(asked.elapsed(), Duration::ZERO, "and the refusal comes at once");
        drop(held);
        assert_eq!(waiting.join_all().await, vec![true; 8]);
        assert!(ResultBudget::new(Duration::ZERO, 1).waiting_medium.available_permits() > 0);
    }

    /// I9: large records take what they have in bytes, until nobody holds them. One that finds no room is refused at once.
    #[tokio::test]
    async fn large_records_share_a_room() {
        let room = room();
        let all_free = room.records.available_permits();
        let of = |bytes: usize| {
            let mut place = room.place().record();
            place.grow(bytes).then_some(place)
        };
        let mut first = of(1 << 20).unwrap();
        assert!(first.grow(RECORD_BYTES_MAX) && first.grow(RECORD_BYTES_MAX), "it takes no more than it has");
        let second = of(RECORD_ROOM_BYTES - RECORD_BYTES_MAX).unwrap();
        assert_eq!(room.records.available_permits(), 0);
        assert!(of(1).is_none());
        assert!(first.grow(1), "what is held stays held");
        drop(first);
        assert!(of(RECORD_BYTES_MAX).is_some());
        drop(second);
        assert_eq!(room.records.available_permits(), all_free);
    }

    #[tokio::test(start_paused = true)]
    async fn no_records_hold_no_place() {
        let room = room();
        let nothing = large(&room).await.unwrap().keep(Bytes::new());
        assert_eq!(room.large.available_permits(), RESULTS_LARGE_MAX);
        drop(nothing);
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_held_as_long_as_somebody_has_the_records() {
        let room = room();
        let records = large(&room).await.unwrap().keep(Bytes::from_static(b"records"));
        let part = records.slice(2..);
        drop(records);
        assert_eq!(room.large.available_permits(), RESULTS_LARGE_MAX - 1);
        drop(part);
        assert_eq!(room.large.available_permits(), RESULTS_LARGE_MAX);
        let _both = (large(&room).await, large(&room).await);
        assert!(large(&room).await.is_none(), "no run waits for ever");
    }
}
