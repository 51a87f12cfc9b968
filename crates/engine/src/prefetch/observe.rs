//! Observes answered requests at their entry node, and sends the observations to the owners of their sessions. This
//! module decides which requests are observed and how many at a time; it learns nothing.
//!
//! A request is observed once: by the front of its entry node, when it is answered. The run of a prefetch passes no
//! front, so prefetch cannot feed itself. On the request's path there is one look at the clock and one push of `Arc`s
//! into a bounded queue. When the queue is full, the observation is dropped and counted, and nothing waits.
//!
//! Observations wait for a round of [`OBSERVATIONS_EVERY_MS`], or for [`OBSERVATIONS_SENT_EARLY`] of them, and then
//! each owner of sessions gets its own in one message. Only learning waits meanwhile: the node that answered considers at
//! once which queries may come next (`consider`).

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    OBSERVATIONS_EVERY_MS, OBSERVATIONS_FLUSH_MS, OBSERVATIONS_MAX, OBSERVATIONS_SENT_EARLY,
    OBSERVED_IN_ROUND_MAX, OBSERVED_OF_SESSION_MAX, OBSERVED_QUERY_BYTES_MAX, OBSERVED_TELL_MS,
    OBSERVED_TELLS_AT_A_TIME,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_learning::sampling::SampledSessions;
use hopcache_learning::sessions::SessionKey;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::model::ask::{Ask, SessionTag};
use crate::model::event::{Event, ObservationWord};
use crate::model::outcome::{Answer, Class, Outcome};
use crate::peers::ObservedPage;
use crate::peers::message::{Observation, SeenQuery, encode_observed};
use crate::prefetch::Prefetch;

/// The number that decides whether a session is sampled. Tags are digests, so the numbers are spread evenly.
fn sampling_number(session: &SessionTag) -> u64 {
    session.0.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// Observations that were not sent yet.
pub(super) struct Observing {
    queue: mpsc::Sender<Observation>,
    /// The queue's end, until the task that drains it takes it.
    drained: Mutex<Option<mpsc::Receiver<Observation>>>,
    /// Woken when a round is to be sent now.
    sent_now: Notify,
    /// Woken when a round was sent.
    was_sent: Notify,
    /// Observations that were queued and not sent yet.
    unsent: AtomicUsize,
    tells: Arc<Semaphore>,
    /// Sessions with a greater [`sampling_number`] are passed over.
    sampled_max: AtomicU64,
    /// Observations of such sessions that were not counted yet.
    passed_over: AtomicUsize,
}

impl Observing {
    pub(super) fn new() -> Self {
        let (queue, drained) = mpsc::channel(OBSERVATIONS_MAX);
        Self {
            queue,
            drained: Mutex::new(Some(drained)),
            sent_now: Notify::new(),
            was_sent: Notify::new(),
            unsent: AtomicUsize::new(0),
            tells: Arc::new(Semaphore::new(OBSERVED_TELLS_AT_A_TIME)),
            sampled_max: AtomicU64::new(SampledSessions::ALL.number_max()),
            passed_over: AtomicUsize::new(0),
        }
    }

    /// Observations that wait.
    pub(super) fn len(&self) -> usize {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Queues an observation of a session that is sampled. Returns whether there was room.
    fn push(&self, session: &SessionTag, observation: impl FnOnce() -> Observation) -> bool {
        if sampling_number(session) > self.sampled_max.load(Ordering::Relaxed) {
            self.passed_over.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let Ok(place) = self.queue.try_reserve() else { return false };
        // Before the push: the task may take it at once.
        let unsent = self.unsent.fetch_add(1, Ordering::Relaxed) + 1;
        place.send(observation());
        if unsent == OBSERVATIONS_SENT_EARLY {
            self.sent_now.notify_one();
        }
        true
    }
}

/// Whether it is a hit or a miss with a body: a bypass is not cached, and a failure cannot be prepared.
pub(super) fn is_observed(outcome: &Outcome) -> bool {
    !matches!(outcome.how.class, Class::Bypass(_)) && matches!(outcome.answer, Answer::Body(_))
}

impl Prefetch {
    /// Observes a request that this node answered to a client; `started` is its arrival.
    pub fn observe(&self, ask: &Ask, outcome: &Outcome, started: MonoTime) {
        if !self.policy.is_on || !is_observed(outcome) {
            return;
        }
        if ask.query.statement.len() + ask.query.params.len() > OBSERVED_QUERY_BYTES_MAX {
            return self.context.note(Event::Observed(ObservationWord::TooLong, 1));
        }
        // The node that answered a forwarded request considers it itself.
        if outcome.answered_by.is_none() {
            self.consider_answer(ask, outcome, started);
        }
        // Nothing follows a request without a session.
        let Some(session) = ask.session else { return };
        let observation = || self.observation(ask, session, started);
        if !self.learning.observing.push(&session, observation) {
            self.context.note(Event::Observed(ObservationWord::Dropped, 1));
        }
    }

    /// The observation of a request that came at `started` and is answered now.
    fn observation(&self, ask: &Ask, session: SessionTag, started: MonoTime) -> Observation {
        let ended = self.context.now();
        let began = started.min(ended);
        Observation {
            query: Arc::new(SeenQuery::of(&ask.query)),
            session,
            began,
            ended,
            teller: self.learning.me,
            began_there: began,
        }
    }

    /// Sends observations of this node to the owners of their sessions, and considers which queries may follow the
    /// answers of this node, for ever. The node spawns it once; a second call does nothing.
    pub async fn tell_observations(self: &Arc<Self>) -> Infallible {
        let (never, _) = tokio::join!(self.send_rounds(), self.consider_rounds());
        never
    }

    async fn send_rounds(self: &Arc<Self>) -> Infallible {
        let drained = self.learning.observing.drained.lock().take();
        let Some(mut drained) = drained else { return pending().await };
        let observing = &self.learning.observing;
        loop {
            // Woken by the first after a quiet time, not by each: an idle node does nothing.
            let Some(first) = drained.recv().await else { return pending().await };
            tokio::select! {
                biased;
                () = observing.sent_now.notified() => {}
                () = self.context.sleep(Millis(OBSERVATIONS_EVERY_MS)) => {}
            }
            let mut seen = Vec::with_capacity(64);
            seen.push(first);
            while seen.len() < OBSERVATIONS_MAX
                && let Ok(next) = drained.try_recv()
            {
                seen.push(next);
            }
            let count = seen.len();
            self.tell_owners(seen);
            observing.unsent.fetch_sub(count, Ordering::Relaxed);
            observing.was_sent.notify_waiters();
        }
    }

    /// Sends the observations that wait, before this node leaves. Waits at most [`OBSERVATIONS_FLUSH_MS`] until they are
    /// on their way.
    pub(crate) async fn flush_observations(&self) {
        let observing = &self.learning.observing;
        let sent = observing.was_sent.notified();
        if observing.len() == 0 {
            return;
        }
        observing.sent_now.notify_one();
        tokio::select! {
            biased;
            () = sent => {}
            () = self.context.sleep(Millis(OBSERVATIONS_FLUSH_MS)) => {}
        }
    }

    fn tell_owners(self: &Arc<Self>, seen: Vec<Observation>) {
        let view = self.routing.view();
        let mut by_owner: BTreeMap<NodeName, Vec<Observation>> = BTreeMap::new();
        for (session, observation) in self.thinned_out(seen) {
            let owner = view.owner(&session.on_ring()).unwrap_or_else(|| self.context.node());
            match by_owner.get_mut(owner) {
                Some(theirs) => theirs.push(observation),
                None => drop(by_owner.insert(owner.clone(), vec![observation])),
            }
        }
        for (owner, theirs) in by_owner {
            if owner == *self.context.node() {
                self.note_observed(ObservationWord::Sent, theirs.len());
                self.take_lessons(theirs);
            } else {
                for (message, count) in encode_observed(&theirs, self.learning.me, self.context.now()) {
                    self.tell_owner(owner.clone(), message, count);
                }
            }
        }
    }

    /// The observations of one round to learn from: the first ones of each session, and no query twice in a row. If
    /// there are many, those of some sessions only, in this round and from its end on. So a node that answers tens of
    /// thousands of requests a second passes over most of them with one comparison.
    fn thinned_out(&self, seen: Vec<Observation>) -> Vec<(SessionKey, Observation)> {
        let observing = &self.learning.observing;
        let count = seen.len() + observing.passed_over.swap(0, Ordering::Relaxed);
        let mut of_session: HashMap<SessionKey, (usize, QueryKey)> = HashMap::new();
        let mut kept = Vec::with_capacity(seen.len());
        for observation in seen {
            let session = self.session_of(&observation);
            let key = observation.query.key;
            let is_next = match of_session.get_mut(&session) {
                None => of_session.insert(session, (1, key)).is_none(),
                Some((asked, last)) => {
                    let is_other = std::mem::replace(last, key) != key;
                    *asked += usize::from(is_other);
                    is_other && *asked <= OBSERVED_OF_SESSION_MAX
                }
            };
            if is_next {
                kept.push((session, observation));
            }
        }
        let sampled = SampledSessions::of(observing.sampled_max.load(Ordering::Relaxed));
        let sampled_max = sampled.after(kept.len(), OBSERVED_IN_ROUND_MAX).number_max();
        observing.sampled_max.store(sampled_max, Ordering::Relaxed);
        if kept.len() > OBSERVED_IN_ROUND_MAX {
            kept.retain(|(_, observation)| sampling_number(&observation.session) <= sampled_max);
            kept.truncate(2 * OBSERVED_IN_ROUND_MAX);
        }
        self.note_observed(ObservationWord::Crowded, count - kept.len());
        kept
    }

    /// In a task of its own: a silent owner does not delay the messages for others.
    fn tell_owner(self: &Arc<Self>, owner: NodeName, message: Bytes, count: usize) {
        let permit = Arc::clone(&self.learning.observing.tells).try_acquire_owned();
        let Some(permit) = permit.ok().filter(|_| !self.learning.has_ended()) else {
            return self.note_observed(ObservationWord::Unreached, count);
        };
        let prefetch = Arc::clone(self);
        self.context.spawn(async move {
            let told = prefetch.peers.ask(&owner, &ObservedPage(message), Millis(OBSERVED_TELL_MS)).await;
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
