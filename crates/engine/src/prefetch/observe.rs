//! Observes answered requests of sessions at their entry node, and sends the observations to the owners of their
//! sessions. This module decides which requests are observed, and when they are sent; it learns nothing.
//!
//! A request is observed once: by the front of its entry node, when it is answered. The run of a prefetch passes no
//! front, so prefetch cannot feed itself. On the request's path there is one look at the clock and one push of `Arc`s
//! into a bounded queue. When the queue is full, the observation is dropped and counted, and nothing waits.
//!
//! Observations are sent in batches: with the node's next poll of the store, or when half of the queue is full; one message for each owner. They
//! do not ride on forwards, because their bytes would delay a client's request. A node that dies takes its last batch
//! with it.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures_util::FutureExt;
use hopcache_core::key::{DatabaseTag, PrincipalScope, QueryKey};
use hopcache_core::limits::{
    OBSERVATIONS_EVERY_MS, OBSERVATIONS_MAX, OBSERVATIONS_MS_MIN, OBSERVED_OF_SESSION_MAX,
    OBSERVED_QUERY_BYTES_MAX, OBSERVED_TELL_MS, OBSERVED_TELLS_AT_A_TIME,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_learning::sessions::SessionKey;
use hopcache_learning::thinning::Thinning;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::model::ask::{Ask, Query, SessionTag};
use crate::model::event::{Event, ObservationWord};
use crate::model::outcome::{Answer, Class, Outcome};
use crate::peers;
use crate::peers::message::{Observation, ObservationBatch, ObservedQuery, observed_pages};
use crate::prefetch::Prefetch;

/// An answered request of a session, as its entry node keeps it until the next round.
struct AnsweredRequest {
    query: Arc<Query>,
    session: SessionTag,
    began: MonoTime,
    ended: MonoTime,
}

/// The number that decides whether a session is observed. Tags are digests, so the numbers are spread evenly.
fn session_number(session: SessionTag) -> u64 {
    session.0.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// Observations that were not sent yet.
pub(super) struct ObservationOutbox {
    queue: mpsc::Sender<AnsweredRequest>,
    /// The queue's end, until the task that drains it takes it.
    drained: Mutex<Option<mpsc::Receiver<AnsweredRequest>>>,
    /// Woken when half of the queue is full.
    half_full: Notify,
    /// Sessions with a greater number are not observed.
    number_max: AtomicU64,
    /// Requests of such sessions since the last round.
    left_out: AtomicUsize,
    /// Observations that had no room in the queue since the last round.
    dropped: AtomicUsize,
    tells: Arc<Semaphore>,
}

impl ObservationOutbox {
    pub(super) fn new() -> Self {
        let (queue, drained) = mpsc::channel(OBSERVATIONS_MAX);
        let tells = Arc::new(Semaphore::new(OBSERVED_TELLS_AT_A_TIME));
        Self {
            queue,
            drained: Mutex::new(Some(drained)),
            half_full: Notify::new(),
            number_max: AtomicU64::new(u64::MAX),
            left_out: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            tells,
        }
    }

    /// Observations that wait.
    pub(super) fn len(&self) -> usize {
        OBSERVATIONS_MAX - self.queue.capacity()
    }

    /// Whether the session is observed at present.
    fn is_observed(&self, session: SessionTag) -> bool {
        let is_observed = session_number(session) <= self.number_max.load(Ordering::Relaxed);
        if !is_observed {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        is_observed
    }

    /// Returns whether there was room.
    fn push(&self, seen: AnsweredRequest) -> bool {
        let has_room = self.queue.try_send(seen).is_ok();
        if !has_room {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        if self.queue.capacity() <= OBSERVATIONS_MAX / 2 {
            self.half_full.notify_one();
        }
        has_room
    }
}

impl Prefetch {
    /// Observes a request that this node answered to a client; `started` is its arrival. Only hits and misses with a
    /// body count: a bypass is not cached, and a failure cannot be prepared. If this node found the answer, it also
    /// considers what may come next; otherwise the node that found it does.
    pub fn observe(&self, ask: &Ask, outcome: &Outcome, started: MonoTime) {
        if matches!(outcome.how.class, Class::Bypass(_)) {
            return;
        }
        if !self.policy.now().prefetch.is_on || !matches!(outcome.answer, Answer::Body(_)) {
            return;
        }
        let is_long = ask.query.statement.len() + ask.query.params.len() > OBSERVED_QUERY_BYTES_MAX;
        if is_long {
            return self.note_observed(ObservationWord::TooLong, 1);
        }
        if outcome.answered_by.is_none() {
            self.answered_here(ask, outcome.how.class);
        }
        // Nothing follows from a request without a session.
        let Some(session) = ask.session else { return };
        let observing = &self.learning.observing;
        if !observing.is_observed(session) {
            return;
        }
        let ended = self.context.now();
        let query = Arc::clone(&ask.query);
        if !observing.push(AnsweredRequest { query, session, began: started.min(ended), ended }) {
            self.note_observed(ObservationWord::Dropped, 1);
        }
    }

    /// Sends observations of this node to the owners of their sessions, for ever. The node spawns it once; a second
    /// call does nothing.
    pub async fn tell_observations(self: &Arc<Self>) -> Infallible {
        let drained = self.learning.observing.drained.lock().take();
        let Some(mut drained) = drained else { return pending().await };
        let observing = &self.learning.observing;
        let mut thinning = Thinning::default();
        loop {
            let Some(seen) = self.seen_in_round(&mut drained, thinning.leaves_out()).await else {
                return pending().await;
            };
            let dropped = observing.dropped.swap(0, Ordering::Relaxed);
            let left_out = observing.left_out.swap(0, Ordering::Relaxed);
            thinning.round(seen.len() + dropped, left_out, self.has_room_for_launches());
            observing.number_max.store(thinning.number_max(), Ordering::Relaxed);
            self.note_observed(ObservationWord::Crowded, left_out);
            self.tell_owners(seen);
        }
    }

    /// Waits for the end of a round. Returns the requests that were observed in it; `None` if no more come.
    ///
    /// A round begins with the first observed request after a quiet time: an idle node does nothing. If some sessions
    /// are left out, it begins at once and ends by time. Otherwise a node whose sessions are all left out would end no
    /// round, and leave them out for good.
    async fn seen_in_round(
        &self,
        drained: &mut mpsc::Receiver<AnsweredRequest>,
        leaves_out: bool,
    ) -> Option<Vec<AnsweredRequest>> {
        let mut seen = Vec::new();
        if !leaves_out {
            seen.push(drained.recv().await?);
        }
        tokio::select! {
            biased;
            () = self.round_over() => {}
            () = self.learning.observing.half_full.notified() => {}
        }
        while seen.len() < OBSERVATIONS_MAX
            && let Ok(next) = drained.try_recv()
        {
            seen.push(next);
        }
        // What was noted before the drain is done: kept, it would end the next round at once.
        let _ = self.learning.observing.half_full.notified().now_or_never();
        Some(seen)
    }

    /// A round ends with a poll of the store, which wakes this node anyway; without one, by time.
    async fn round_over(&self) {
        let soonest = self.context.now() + Millis(OBSERVATIONS_MS_MIN);
        let polled = async {
            loop {
                self.cache.next_poll().await;
                if self.context.now() >= soonest {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = polled => {}
            () = self.context.sleep(Millis(OBSERVATIONS_EVERY_MS)) => {}
        }
    }

    fn tell_owners(self: &Arc<Self>, seen: Vec<AnsweredRequest>) {
        let view = self.routing.view();
        let mut by_owner: BTreeMap<NodeName, Vec<Observation>> = BTreeMap::new();
        for observation in self.thinned_out(seen) {
            let owner = view.owner(&observation.session.on_ring()).unwrap_or_else(|| self.context.node());
            match by_owner.get_mut(owner) {
                Some(theirs) => theirs.push(observation),
                None => drop(by_owner.insert(owner.clone(), vec![observation])),
            }
        }
        for (owner, theirs) in by_owner {
            if owner == *self.context.node() {
                self.note_observed(ObservationWord::Sent, theirs.len());
                self.take_observations(theirs);
            } else {
                for page in observed_pages(&theirs, self.learning.me, self.context.now()) {
                    self.tell_owner(owner.clone(), page);
                }
            }
        }
    }

    /// The observations of one round to learn from: the first ones of each session, and no query of a session twice.
    /// Where the owner of a session gets as many as may be, it takes it that more were left out.
    fn thinned_out(&self, seen: Vec<AnsweredRequest>) -> Vec<Observation> {
        let count = seen.len();
        let mut of_session: HashMap<(SessionTag, DatabaseTag, PrincipalScope), (SessionKey, Vec<QueryKey>)> =
            HashMap::new();
        let mut kept = Vec::with_capacity(count);
        for AnsweredRequest { query, session, began, ended } in seen {
            let scope = query.identity.scope;
            let (session, asked) =
                of_session.entry((session, query.tags.database(), scope)).or_insert_with(|| {
                    (SessionKey::of(&self.hasher, &query.database, scope, &session.0), Vec::new())
                });
            if asked.len() < OBSERVED_OF_SESSION_MAX && !asked.contains(&query.key) {
                asked.push(query.key);
                let (session, query) = (*session, Arc::new(without_identity(&query)));
                let sender = self.learning.me;
                kept.push(Observation { query, session, began, ended, sender, began_there: began });
            }
        }
        self.note_observed(ObservationWord::Crowded, count - kept.len());
        kept
    }

    /// In a task of its own: a silent owner does not delay the messages for others.
    fn tell_owner(self: &Arc<Self>, owner: NodeName, page: ObservationBatch) {
        let count = page.count();
        let permit = Arc::clone(&self.learning.observing.tells).try_acquire_owned();
        let Some(permit) = permit.ok().filter(|_| !self.learning.has_ended()) else {
            return self.note_observed(ObservationWord::Unreached, count);
        };
        let prefetch = Arc::clone(self);
        self.context.spawn(async move {
            let told = prefetch.peers.ask(&owner, peers::observed(page), Millis(OBSERVED_TELL_MS)).await;
            let word = if told.is_ok() { ObservationWord::Sent } else { ObservationWord::Unreached };
            prefetch.note_observed(word, count);
            drop(permit);
        });
    }

    pub(super) fn note_observed(&self, word: ObservationWord, count: usize) {
        if count > 0 {
            self.context.note(Event::Observed(word, u32::try_from(count).unwrap_or(u32::MAX)));
        }
    }
}

/// The query as its session's owner needs it: with the principal's scope, without the credentials. They do not leave this
/// node with an observation. Here the queue keeps them with the query until the round ends, at most
/// [`OBSERVATIONS_EVERY_MS`].
fn without_identity(query: &Query) -> ObservedQuery {
    ObservedQuery {
        key: query.key,
        database: Arc::clone(&query.database),
        scope: query.identity.scope,
        statement: Arc::clone(&query.statement),
        params: query.params.clone(),
    }
}
