//! The answer before the commit: the result of a run is kept in memory and answered, and its commit waits in a queue. It is
//! sent together with others, under the lease of its run. So the client waits for no second round trip to the store.
//!
//! Only a run whose result replaces nothing may do so (`Fetch::place_for_commit`). Whatever replaces an entry that readers may
//! still find in the store is committed before its answer. Schedule without that:
//!   the store has X, fresh · a refresh answers Y, and its commit waits · this process is killed · the next owner serves X: a
//!   client has seen Y, and then sees X.
//!
//! Where the store takes no entry (`admission`), the lease is given back by the queue too.
//!
//! The lease stays held until the commit. A node that competes for the key finds it busy for a little longer, and the fence is
//! that of every commit (I3). A commit waits for [`COMMIT_LOAD_WAIT_MS`] under load. Otherwise it waits for this node's next
//! poll of the store, because at a low rate a timer of its own would cost more than the commit. It waits for a quarter of its
//! lease at most, and then for the batch that is under way: batches are sent one after the other. Once what waits is late by
//! [`COMMIT_LATE_MS`], results are committed before their answers.
//!
//! A killed node loses what its queue holds: one more run for each of those keys (I2). A leaving node empties its queue before
//! it gives back its leases. From then on nothing waits.
//!
//! `lease_end` says what becomes of a result then. A result that is not kept leaves memory, and one that is kept briefly lives
//! briefly there from then on.

use std::collections::VecDeque;
use std::sync::Arc;

use hopcache_core::key::QueryKey;
use hopcache_core::lease::Token;
use hopcache_core::limits::{
    COMMIT_AWAITED_MS_MAX, COMMIT_BATCH_BYTES_MAX, COMMIT_BATCH_LEN_MAX, COMMIT_LATE_MS, COMMIT_LOAD_GAP_MS,
    COMMIT_LOAD_WAIT_MS, COMMIT_WAIT_MS_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cache::copy::SharedCopy;
use crate::cache::{Cache, QueuedMark, WatchedStore};
use crate::fetch::commit::brief;
use crate::fetch::commit_places::{NoPlace, Places};
use crate::fetch::lease_end::{Ended, EndedRun, StoreOffer, or_lapsed};
use crate::fetch::leases::HeldLease;
use crate::model::ask::Query;
use crate::model::awaited;
use crate::model::context::Context;
use crate::model::event::Event;
use crate::model::outcome::{Detail, Kept};

/// The queue of one node.
pub(super) struct CommitQueue {
    pub(super) context: Context,
    pub(super) cache: Arc<Cache>,
    pub(super) store: Arc<WatchedStore>,
    state: Mutex<State>,
    /// Wakes the task that sends commits.
    wake: Notify,
    /// Wakes those who wait for an empty queue.
    emptied: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<QueuedCommit>,
    places: Places,
    /// When the last commit came.
    came: MonoTime,
    /// When the next ones are sent.
    due: MonoTime,
    /// When the first of those that wait was to be sent.
    promised: Option<MonoTime>,
    /// Whether the task that sends commits is at work.
    is_sending: bool,
}

/// A place in the queue. Dropped, it is free.
pub(super) struct QueuePlace {
    queue: Arc<CommitQueue>,
    /// The bytes of the copy to store; `None` to give the lease back without an entry.
    bytes: Option<usize>,
}

/// A result that is answered before its commit. Dropped before that, it gives its lease back, and leaves memory.
pub(crate) struct QueuedCommit {
    query: Arc<Query>,
    /// `None` if nothing is stored: memory alone has the copy then, and may evict it (I9).
    copy: Option<SharedCopy>,
    /// Before the lease: what nobody has concluded leaves memory before another node may run.
    in_memory: InMemory,
    lease: HeldLease,
    /// The end of the lease by this node's clock.
    lease_ends: MonoTime,
    place: QueuePlace,
    mark: Option<QueuedMark>,
    /// When it is to be sent.
    due: MonoTime,
}

/// The copy in memory of a result whose commit waits. If nobody concludes the commit (a panic), nothing fences the copy, and it
/// leaves memory:
///   we read X, and answer it · its commit is lost, and its lease is given back · another node reads Y · we serve X for its TTL.
struct InMemory {
    cache: Arc<Cache>,
    key: QueryKey,
    token: Token,
    is_concluded: bool,
}

impl InMemory {
    fn concluded(mut self) {
        self.is_concluded = true;
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        if !self.is_concluded {
            self.cache.remove_read_under(&self.key, self.token);
        }
    }
}

impl std::fmt::Debug for QueuePlace {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("QueuePlace").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for QueuedCommit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("QueuedCommit").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl QueuePlace {
    /// Whether it is a place for an entry.
    pub(super) fn is_of_entry(&self) -> bool {
        self.bytes.is_some()
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let is_empty = self.queue.state.lock().places.free(self.bytes);
        if is_empty {
            self.queue.emptied.notify_waiters();
        }
    }
}

impl QueuedCommit {
    pub(super) fn new(
        query: &Arc<Query>,
        copy: &SharedCopy,
        (lease, lease_ends): (HeldLease, MonoTime),
        place: QueuePlace,
    ) -> Self {
        let (query, copy) = (Arc::clone(query), place.is_of_entry().then(|| SharedCopy::clone(copy)));
        let cache = Arc::clone(&place.queue.cache);
        let in_memory = InMemory { cache, key: query.key, token: lease.token(), is_concluded: false };
        Self { query, copy, in_memory, lease, lease_ends, place, mark: None, due: MonoTime::default() }
    }

    /// Counts its copy as it is now. Returns whether there is room for it. If not, it is committed before its answer.
    pub(super) fn fits(&mut self) -> bool {
        let now = self.copy.as_ref().map(|copy| copy.weight_bytes());
        let (Some(before), Some(now)) = (self.place.bytes, now) else { return true };
        let has_room = self.place.queue.state.lock().places.weigh(before, now);
        if has_room {
            self.place.bytes = Some(now);
        }
        has_room
    }

    fn key(&self) -> &QueryKey {
        &self.query.key
    }

    fn token(&self) -> Token {
        self.lease.token()
    }

    /// Whether an invalidation has dropped it, or a newer result has taken its place.
    fn is_dropped(&self) -> bool {
        self.mark.as_ref().is_some_and(|mark| !mark.may_be_stored())
    }
}

impl CommitQueue {
    pub(super) fn new(context: &Context, cache: &Arc<Cache>, store: &Arc<WatchedStore>) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            cache: Arc::clone(cache),
            store: Arc::clone(store),
            state: Mutex::default(),
            wake: Notify::new(),
            emptied: Notify::new(),
        })
    }

    /// Commits that wait or are under way.
    pub(super) fn len(&self) -> usize {
        self.state.lock().places.taken()
    }

    /// A place for a copy of so many bytes; `None` for a lease that is given back without an entry.
    pub(super) fn place(self: &Arc<Self>, bytes: Option<usize>) -> Result<QueuePlace, NoPlace> {
        let now = self.context.now();
        let mut state = self.state.lock();
        // A batch under way is slow. What comes now would wait for longer than it may.
        if state.promised.is_some_and(|due| now >= due + Millis(COMMIT_LATE_MS)) {
            return Err(NoPlace::Late);
        }
        state.places.take(bytes)?;
        drop(state);
        Ok(QueuePlace { queue: Arc::clone(self), bytes })
    }

    /// Takes a commit whose result is in memory.
    pub(super) fn push(self: &Arc<Self>, mut commit: QueuedCommit) {
        let (of, shown) = ((*commit.key(), commit.token()), commit.copy.clone());
        commit.mark = Some(self.cache.queued().add(of, shown, commit.lease_ends));
        let now = self.context.now();
        let mut state = self.state.lock();
        let due = now + state.wait_of(commit.lease.lease_ms(), now);
        state.came = now;
        commit.due = due;
        state.promised = Some(state.promised.map_or(due, |promised| promised.min(due)));
        let is_sooner = state.waiting.is_empty() || due < state.due;
        if is_sooner {
            state.due = due;
        }
        state.waiting.push_back(commit);
        let begins = !std::mem::replace(&mut state.is_sending, true);
        drop(state);
        if begins {
            let queue = Arc::clone(self);
            self.context.spawn(async move { queue.send_all().await });
        } else if is_sooner {
            self.wake.notify_one();
        }
    }

    /// Sends what waits at once.
    fn hurry(&self) {
        self.state.lock().due = MonoTime::default();
        self.wake.notify_one();
    }

    /// From now on results are committed before they are answered, and what waits is sent.
    pub(super) fn close(&self) {
        self.state.lock().places.is_closed = true;
        self.hurry();
    }

    /// Completes when nothing waits and nothing is under way. The caller bounds it.
    pub(super) async fn empty(&self) {
        awaited::until(&self.emptied, || self.len() == 0).await;
    }

    /// Waits for the commit of a key if it waits here. For a run whose value replaces the queued one: the store has that first,
    /// and the lease is free. After [`COMMIT_AWAITED_MS_MAX`] the run competes for the lease as any other, and its result takes
    /// the queued one's place in memory.
    pub(super) async fn ended(&self, key: &QueryKey) {
        if !self.cache.queued().has(key) {
            return;
        }
        self.hurry();
        tokio::select! {
            biased;
            () = self.cache.queued().gone(key) => {}
            () = self.context.sleep(Millis(COMMIT_AWAITED_MS_MAX)) => {}
        }
    }

    /// Sends commits until none waits. One task at a time does.
    async fn send_all(self: Arc<Self>) {
        let mut sending = Sending { queue: &self, is_over: false };
        while let Some(due) = self.next_due(&mut sending) {
            let left = due.since(self.context.now());
            if left > Millis::ZERO {
                self.wait(left).await;
            } else {
                self.send_batch().await;
            }
        }
    }

    fn next_due(&self, sending: &mut Sending<'_>) -> Option<MonoTime> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            // Under the lock: who pushes now begins another task.
            state.is_sending = false;
            sending.is_over = true;
            return None;
        }
        Some(state.due)
    }

    async fn wait(&self, left: Millis) {
        tokio::select! {
            biased;
            () = self.wake.notified() => {}
            () = self.cache.next_poll() => self.state.lock().due = MonoTime::default(),
            () = self.context.sleep(left) => {}
        }
    }

    async fn send_batch(&self) {
        let batch = self.state.lock().batch();
        self.send(batch).await;
    }

    /// Commits a result before its answer, and returns what has become of it.
    pub(super) async fn send_now(&self, commit: QueuedCommit) -> Ended {
        self.send(vec![commit]).await.unwrap_or((Kept::Fenced, Some(Detail::Degraded)))
    }

    /// Sends commits, and concludes each as soon as its own answer is in. Returns what has become of the last one.
    async fn send(&self, batch: Vec<QueuedCommit>) -> Option<Ended> {
        let runs: Vec<EndedRun> = batch.iter().map(|commit| self.ended_run(commit)).collect();
        let mut batch: Vec<Option<QueuedCommit>> = batch.into_iter().map(Some).collect();
        let mut last = None;
        let conclude = |at: usize, ended: Ended| {
            if let Some(commit) = batch[at].take() {
                last = Some(self.conclude(commit, ended));
            }
        };
        self.end(&runs, conclude).await;
        last
    }

    /// A queued run, with its entry unless an invalidation has covered it.
    fn ended_run(&self, commit: &QueuedCommit) -> EndedRun {
        let (query, token) = (Arc::clone(&commit.query), commit.token());
        let copy = commit.copy.clone().filter(|_| !commit.is_dropped());
        let offered = match &copy {
            Some(copy) => {
                let entry = self.cache.seal(&query.key, copy, token);
                entry.map_or(StoreOffer::TooLarge, StoreOffer::Entry)
            }
            None => StoreOffer::Nothing,
        };
        EndedRun { query, token, copy, offered }
    }

    /// Draws the conclusion from the store's answer: for memory, and for the meters.
    fn conclude(&self, commit: QueuedCommit, ended: Ended) -> Ended {
        let (key, token) = (*commit.key(), commit.token());
        let (kept, detail) = if commit.is_dropped() {
            (Kept::Fenced, Some(Detail::Fenced))
        } else {
            or_lapsed(ended, self.context.now() >= commit.lease_ends)
        };
        match (kept, detail) {
            (Kept::Stored | Kept::InMemory, _) => {}
            (Kept::Skipped, Some(Detail::Degraded)) => self.shorten(&key, token),
            _ => self.cache.remove_read_under(&key, token),
        }
        self.context.note(Event::Commit(kept));
        let QueuedCommit { in_memory, lease, mark, place, .. } = commit;
        in_memory.concluded();
        lease.ended();
        // After memory: who waits for this looks there next.
        drop(mark);
        drop(place);
        (kept, detail)
    }

    /// The copy in memory lives briefly from now on: no token fences it.
    fn shorten(&self, key: &QueryKey, token: Token) {
        let before = self.cache.purges();
        if let Some(copy) = self.cache.read_under(key, token) {
            let brief = brief(&copy, Detail::Degraded, self.context.now());
            self.cache.put_unless_invalidated(before, *key, &brief, brief.kept_until());
        }
    }
}

impl State {
    /// How long a commit waits that comes now.
    fn wait_of(&self, lease_ms: Millis, now: MonoTime) -> Millis {
        if self.places.is_closed || self.waiting.len() + 1 >= COMMIT_BATCH_LEN_MAX {
            return Millis::ZERO;
        }
        let is_load = now.since(self.came) < Millis(COMMIT_LOAD_GAP_MS);
        let longest = if is_load { COMMIT_LOAD_WAIT_MS } else { COMMIT_WAIT_MS_MAX };
        Millis(longest.min(lease_ms.0 / 4))
    }

    /// The next commits to send together: those that came first.
    fn batch(&mut self) -> Vec<QueuedCommit> {
        let (mut len, mut bytes) = (0, 0);
        for commit in self.waiting.iter().take(COMMIT_BATCH_LEN_MAX) {
            bytes += commit.place.bytes.unwrap_or(0);
            if len > 0 && bytes > COMMIT_BATCH_BYTES_MAX {
                break;
            }
            len += 1;
        }
        let batch = self.waiting.drain(..len).collect();
        self.promised = self.waiting.iter().map(|commit| commit.due).min();
        batch
    }
}

/// The task that sends commits. If it panics, what waits gives its leases back, and the next commit begins another task.
struct Sending<'a> {
    queue: &'a CommitQueue,
    is_over: bool,
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.queue.state.lock();
        state.is_sending = false;
        let waiting = std::mem::take(&mut state.waiting);
        state.promised = None;
        // Without the lock: each of them frees its place.
        drop(state);
        drop(waiting);
    }
}
