//! Observes answered requests at their entry node, and sends the observations to the owners of their sessions. This
//! module decides which requests are observed and how many at a time; it learns nothing.
//!
//! A request is observed once: by the front of its entry node, when it is answered. The run of a prefetch passes no
//! front, so prefetch cannot feed itself. On the request's path there is one look at the clock and one push of `Arc`s
//! into a bounded queue. When the queue is full, the observation is dropped and counted, and nothing waits.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{DatabaseTag, PrincipalScope, QueryKey};
use hopcache_core::limits::{
    OBSERVATIONS_EVERY_MS, OBSERVATIONS_MAX, OBSERVED_IN_ROUND_MAX, OBSERVED_OF_SESSION_MAX,
    OBSERVED_QUERY_BYTES_MAX, OBSERVED_TELL_MS, OBSERVED_TELLS_AT_A_TIME,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};

use crate::model::ask::{Ask, SessionTag};
use crate::model::event::{Event, ObservationWord};
use crate::model::outcome::{Answer, Class, Outcome};
use crate::peers::ObservedPage;
use crate::peers::message::{Observation, encode_observed};
use crate::prefetch::Prefetch;

/// The observations that are counted together.
#[derive(PartialEq, Eq, Hash)]
enum Crowd {
    Session(SessionTag, DatabaseTag),
    Query(QueryKey),
}

/// The number that decides whether a session, or a query without one, is sampled. Both are digests, so the numbers are
/// spread evenly.
fn sampling_number(observation: &Observation) -> u64 {
    let digest = observation.session.as_ref().map_or(&observation.query.key.0[..], |session| &session.0[..]);
    digest.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// Observations that were not sent yet.
pub(super) struct Observing {
    queue: mpsc::Sender<Observation>,
    /// The queue's end, until the task that drains it takes it.
    drained: Mutex<Option<mpsc::Receiver<Observation>>>,
    tells: Arc<Semaphore>,
}

impl Observing {
    pub(super) fn new() -> Self {
        let (queue, drained) = mpsc::channel(OBSERVATIONS_MAX);
        let tells = Arc::new(Semaphore::new(OBSERVED_TELLS_AT_A_TIME));
        Self { queue, drained: Mutex::new(Some(drained)), tells }
    }

    /// Observations that wait.
    pub(super) fn len(&self) -> usize {
        OBSERVATIONS_MAX - self.queue.capacity()
    }
}

impl Prefetch {
    /// Observes a request that this node answered to a client; `started` is its arrival. Only hits and misses with a
    /// body count: a bypass is not cached, and a failure cannot be prepared.
    pub fn observe(&self, ask: &Ask, outcome: &Outcome, started: MonoTime) {
        let is_miss = match outcome.how.class {
            Class::Hit => false,
            Class::Miss { .. } => true,
            Class::Bypass(_) => return,
        };
        if !self.policy.is_on || !matches!(outcome.answer, Answer::Body(_)) {
            return;
        }
        if ask.query.statement.len() + ask.query.params.len() > OBSERVED_QUERY_BYTES_MAX {
            return self.context.note(Event::Observed(ObservationWord::TooLong, 1));
        }
        let seen = self.observation(ask, is_miss, started);
        if self.learning.observing.queue.try_send(seen).is_err() {
            self.context.note(Event::Observed(ObservationWord::Dropped, 1));
        }
    }

    /// The observation of a request that came at `started` and is answered now.
    fn observation(&self, ask: &Ask, is_miss: bool, started: MonoTime) -> Observation {
        let ended = self.context.now();
        let began = started.min(ended);
        Observation {
            query: Arc::clone(&ask.query),
            session: ask.session,
            rendering: ask.rendering,
            is_miss,
            began,
            ended,
            teller: self.learning.me,
            began_there: began,
        }
    }

    /// Sends observations of this node to the owners of their sessions, for ever. The node spawns it once; a second
    /// call does nothing.
    pub async fn tell_observations(self: &Arc<Self>) -> Infallible {
        let drained = self.learning.observing.drained.lock().take();
        let Some(mut drained) = drained else { return pending().await };
        loop {
            // Woken by the first after a quiet time, not by each: an idle node does nothing.
            let Some(first) = drained.recv().await else { return pending().await };
            self.context.sleep(Millis(OBSERVATIONS_EVERY_MS)).await;
            let mut seen = Vec::with_capacity(64);
            seen.push(first);
            while seen.len() < OBSERVATIONS_MAX
                && let Ok(next) = drained.try_recv()
            {
                seen.push(next);
            }
            self.tell_owners(seen);
        }
    }

    fn tell_owners(self: &Arc<Self>, seen: Vec<Observation>) {
        let view = self.routing.view();
        let mut by_owner: BTreeMap<NodeName, Vec<Observation>> = BTreeMap::new();
        for observation in self.thinned_out(seen) {
            let place = self.place_of_session(&observation);
            let owner = view.owner(&place).unwrap_or_else(|| self.context.node());
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

    /// The observations of one round to learn from: the first ones of each session, or of each query without a session,
    /// and no query of a session twice. If there are many sessions, only some are sampled. Learning from an observation
    /// takes some tens of microseconds, three times as long as a hit. So a node that answers tens of thousands of
    /// requests a second skips most of them before it computes any digest.
    fn thinned_out(&self, seen: Vec<Observation>) -> Vec<Observation> {
        let count = seen.len();
        let mut of_crowd: HashMap<(Crowd, PrincipalScope), Vec<QueryKey>> = HashMap::new();
        let mut kept = Vec::new();
        for observation in seen {
            let query = &observation.query;
            let crowd = match observation.session {
                Some(session) => Crowd::Session(session, query.tags.database()),
                None => Crowd::Query(query.key),
            };
            let asked = of_crowd.entry((crowd, query.identity.scope)).or_default();
            if asked.len() < OBSERVED_OF_SESSION_MAX && !asked.contains(&query.key) {
                asked.push(query.key);
                kept.push(observation);
            }
        }
        let many = kept.len();
        if many > OBSERVED_IN_ROUND_MAX {
            // The same sample in every round: the model learns some sessions as a whole, not all of them in part.
            let share = u64::MAX / many as u64 * OBSERVED_IN_ROUND_MAX as u64;
            kept.retain(|observation| sampling_number(observation) <= share);
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
