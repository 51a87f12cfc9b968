//! Observing answered requests at their entry node, and telling the owners of their sessions. It decides which requests
//! are observed and how many at a time; nothing is learned here.
//!
//! A request is observed once: by `Front` of its entry node, when it is answered. What a prefetch runs passes no front, so
//! prefetch cannot feed itself. On the request's path there is one look at the clock and one push of `Arc`s into a bounded
//! queue; when that is full the observation is dropped and counted, and nothing waits.

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
use hopcache_queryapi::render::Form;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};

use super::ObservationWord;
use crate::ask::{Ask, Query, SessionTag};
use crate::engine::Engine;
use crate::message::{Observation, encode_observed};
use crate::outcome::{Answer, Class, Event, Outcome};
use crate::ports::PeerError;

/// Whose observations are counted together.
#[derive(PartialEq, Eq, Hash)]
enum Crowd {
    Session(SessionTag, DatabaseTag),
    Query(QueryKey),
}

/// A session's lot, or a query's: both are digests, so each is as likely as any other.
fn lot(observation: &Observation) -> u64 {
    let digest = observation.session.as_ref().map_or(&observation.query.key.0[..], |session| &session.0[..]);
    digest.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// What was seen and not told yet.
pub(crate) struct Observing {
    queue: mpsc::Sender<Observation>,
    /// The queue's end, until the task that drains it takes it.
    drained: Mutex<Option<mpsc::Receiver<Observation>>>,
    tells: Arc<Semaphore>,
}

impl Observing {
    pub(crate) fn new() -> Self {
        let (queue, drained) = mpsc::channel(OBSERVATIONS_MAX);
        let tells = Arc::new(Semaphore::new(OBSERVED_TELLS_AT_A_TIME));
        Self { queue, drained: Mutex::new(Some(drained)), tells }
    }

    /// Observations that wait.
    pub(crate) fn len(&self) -> usize {
        OBSERVATIONS_MAX - self.queue.capacity()
    }
}

impl Engine {
    /// Takes note of a request that a client was answered at this node; `started` is when it came. Hits and misses
    /// with a body only: a bypass is not cached, and a failure is nothing to prepare.
    pub fn observe(&self, ask: &Ask, outcome: &Outcome, started: MonoTime) {
        let is_miss = match outcome.how.class {
            Class::Hit => false,
            Class::Miss { .. } => true,
            Class::Bypass(_) => return,
        };
        if !self.policy.prefetch.is_on || !matches!(outcome.answer, Answer::Body(_)) {
            return;
        }
        if ask.query.statement.len() + ask.query.params.len() > OBSERVED_QUERY_BYTES_MAX {
            return self.note(Event::Observed(ObservationWord::TooLong, 1));
        }
        let seen = self.observation(&ask.query, (ask.session, ask.form), is_miss, started);
        if self.learning.observing.queue.try_send(seen).is_err() {
            self.note(Event::Observed(ObservationWord::Dropped, 1));
        }
    }

    /// Of a request that came at `started` and is answered now.
    fn observation(
        &self,
        query: &Arc<Query>,
        (session, form): (Option<SessionTag>, Form),
        is_miss: bool,
        started: MonoTime,
    ) -> Observation {
        let ended = self.now();
        let began = started.min(ended);
        let (query, teller) = (Arc::clone(query), self.learning.me);
        Observation { query, session, form, is_miss, began, ended, teller, began_there: began }
    }

    /// [`hopcache_core::seeded::Bug::PrefetchRecursive`].
    #[cfg(hopcache_seeded)]
    pub(super) fn observe_prefetched(&self, errand: &crate::lead::Errand) {
        if hopcache_core::seeded::has(hopcache_core::seeded::Bug::PrefetchRecursive) {
            let seen = self.observation(&errand.query, (None, errand.form), true, self.now());
            drop(self.learning.observing.queue.try_send(seen));
        }
    }

    /// Tells the owners of sessions what was observed here, for ever. The node spawns it once; a second call does nothing.
    pub async fn tell_observations(self: &Arc<Self>) -> Infallible {
        let drained = self.learning.observing.drained.lock().take();
        let Some(mut drained) = drained else { return pending().await };
        loop {
            // Woken by the first after a quiet time, not by each: an idle node does nothing.
            let Some(first) = drained.recv().await else { return pending().await };
            self.ports.clock.sleep(Millis(OBSERVATIONS_EVERY_MS)).await;
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
        let view = self.ports.routing.view();
        let mut by_owner: BTreeMap<NodeName, Vec<Observation>> = BTreeMap::new();
        for observation in self.thinned_out(seen) {
            let place = self.place_of_session(&observation);
            let owner = view.owner(&place).unwrap_or(&self.me.node);
            match by_owner.get_mut(owner) {
                Some(theirs) => theirs.push(observation),
                None => drop(by_owner.insert(owner.clone(), vec![observation])),
            }
        }
        for (owner, theirs) in by_owner {
            if owner == self.me.node {
                self.note_observed(ObservationWord::Sent, theirs.len());
                self.take_lessons(theirs);
            } else {
                for (message, count) in encode_observed(&theirs, self.learning.me, self.now()) {
                    self.tell_owner(owner.clone(), message, count);
                }
            }
        }
    }

    /// What one round is learned from: the first ones of each session, or of each query without one, no query of a session
    /// twice, and of many sessions some. What is made of an observation costs some tens of microseconds, three times as
    /// much as a hit, so a node that answers tens of thousands a second leaves most out; before anything is digested.
    fn thinned_out(&self, seen: Vec<Observation>) -> Vec<Observation> {
        let count = seen.len();
        let mut of_crowd: HashMap<(Crowd, PrincipalScope), Vec<QueryKey>> = HashMap::new();
        let mut kept = Vec::new();
        for observation in seen {
            let query = &observation.query;
            let crowd = match observation.session {
                Some(session) => Crowd::Session(session, query.database_tag),
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
            // By lot, the same in every round: all of some sessions is learned from, not some of all.
            let share = u64::MAX / many as u64 * OBSERVED_IN_ROUND_MAX as u64;
            kept.retain(|observation| lot(observation) <= share);
            kept.truncate(2 * OBSERVED_IN_ROUND_MAX);
        }
        self.note_observed(ObservationWord::Crowded, count - kept.len());
        kept
    }

    /// In a task of its own: an owner that is silent keeps nobody else's waiting.
    fn tell_owner(self: &Arc<Self>, owner: NodeName, message: Bytes, count: usize) {
        let permit = Arc::clone(&self.learning.observing.tells).try_acquire_owned();
        let Some(permit) = permit.ok().filter(|_| !self.learning.has_ended()) else {
            return self.note_observed(ObservationWord::Unreached, count);
        };
        let engine = Arc::clone(self);
        self.tasks.spawn(async move {
            let told = engine.ask_briefly(&owner, message, Millis(OBSERVED_TELL_MS)).await;
            let word = if told.is_ok() { ObservationWord::Sent } else { ObservationWord::Unreached };
            engine.note_observed(word, count);
            drop(permit);
        });
    }

    /// Asks a peer something that nobody's answer depends on: once, and not for longer than said.
    pub(super) async fn ask_briefly(
        &self,
        node: &NodeName,
        message: Bytes,
        within: Millis,
    ) -> Result<Bytes, PeerError> {
        // The peer's own deadline, and ours beside it: an implementation may count from when it has a connection.
        tokio::select! {
            biased;
            answer = self.ports.peers.forward(node, message, within) => answer,
            () = self.ports.clock.sleep(within) => Err(PeerError::TimedOut),
        }
    }

    pub(super) fn note_observed(&self, word: ObservationWord, count: usize) {
        if count > 0 {
            self.note(Event::Observed(word, u32::try_from(count).unwrap_or(u32::MAX)));
        }
    }
}
