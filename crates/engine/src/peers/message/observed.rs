//! The report of an entry node to the owner of sessions: which queries were answered, in which session, and how long ago
//! each began and ended. Times travel as ages. One reading of the sender's clock travels too; it is compared only with
//! other readings of the same clock (`hopcache_learning::clock_offsets`).
//!
//! A message contains each database with its principal, each statement and each query once, however often it was asked.
//! It contains no credentials: the owner of a session only counts. It takes the stated keys as they are, since they name
//! counts and questions for fields only; no run follows from them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{PrincipalScope, QueryKey};
use hopcache_core::limits::{OBSERVED_IN_MESSAGE_MAX, OBSERVED_MESSAGE_BYTES_MAX, OBSERVED_QUERY_BYTES_MAX};
use hopcache_core::time::MonoTime;
use hopcache_core::wire::{at_most, piece};
use hopcache_learning::clock_offsets::SenderClock;
use hopcache_learning::sessions::SessionKey;
use serde::{Deserialize, Serialize};

use super::BadMessage;

/// Plain data: an answered query, as learning sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedQuery {
    /// Its key.
    pub key: QueryKey,
    /// Database name as the client gave it.
    pub database: Arc<str>,
    /// Who asked.
    pub scope: PrincipalScope,
    /// Statement as the client gave it.
    pub statement: Arc<str>,
    /// Parameters: one canonical PackStream map.
    pub params: Bytes,
}

/// Plain data: an answered request of a session.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The query.
    pub query: Arc<ObservedQuery>,
    /// Its session.
    pub session: SessionKey,
    /// When it came, by this node's clock.
    pub began: MonoTime,
    /// When it was answered.
    pub ended: MonoTime,
    /// The node that received it.
    pub sender: SenderClock,
    /// When it came, by that node's clock.
    pub began_there: MonoTime,
}

/// Observations as they are sent. Parts refer to each other by their places.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObservationBatch {
    sender: SenderClock,
    /// The sender's clock when it sent them.
    reading: MonoTime,
    #[serde(deserialize_with = "at_most::<_, _, OBSERVED_IN_MESSAGE_MAX>")]
    realms: Vec<(Arc<str>, PrincipalScope)>,
    #[serde(deserialize_with = "at_most::<_, _, OBSERVED_IN_MESSAGE_MAX>")]
    statements: Vec<Arc<str>>,
    #[serde(deserialize_with = "at_most::<_, _, OBSERVED_IN_MESSAGE_MAX>")]
    queries: Vec<SentQuery>,
    #[serde(deserialize_with = "at_most::<_, _, OBSERVED_IN_MESSAGE_MAX>")]
    observations: Vec<SentObservation>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SentQuery {
    key: QueryKey,
    realm: usize,
    statement: usize,
    #[serde(with = "piece")]
    params: Bytes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SentObservation {
    query: usize,
    session: SessionKey,
    began_ago: u64,
    ended_ago: u64,
}

/// The observations of `sender`, as ages at `now`, in as many messages as needed.
#[must_use]
pub fn observed_pages(
    observations: &[Observation],
    sender: SenderClock,
    now: MonoTime,
) -> Vec<ObservationBatch> {
    let mut messages = Vec::new();
    let mut page = Page::new(sender, now);
    for seen in observations {
        let bytes = seen.query.statement.len() + seen.query.params.len() + 256;
        if page.len() >= OBSERVED_IN_MESSAGE_MAX || page.bytes + bytes > OBSERVED_MESSAGE_BYTES_MAX {
            messages.push(std::mem::replace(&mut page, Page::new(sender, now)).message);
        }
        page.add(seen);
    }
    if page.len() > 0 {
        messages.push(page.message);
    }
    messages
}

/// A message, with the places of its parts.
struct Page {
    message: ObservationBatch,
    realms: HashMap<(Arc<str>, PrincipalScope), usize>,
    statements: HashMap<Arc<str>, usize>,
    queries: HashMap<QueryKey, usize>,
    bytes: usize,
}

/// The place of a part, and whether it is new.
fn place_of<K: Hash + Eq>(places: &mut HashMap<K, usize>, part: K) -> (usize, bool) {
    let next = places.len();
    let place = *places.entry(part).or_insert(next);
    (place, place == next)
}

impl Page {
    fn new(sender: SenderClock, reading: MonoTime) -> Self {
        let (realms, statements, queries, observations) = Default::default();
        let message = ObservationBatch { sender, reading, realms, statements, queries, observations };
        let (realms, statements, queries) = Default::default();
        Self { message, realms, statements, queries, bytes: 0 }
    }

    fn len(&self) -> usize {
        self.message.observations.len()
    }

    fn add(&mut self, seen: &Observation) {
        let (query, message) = (&*seen.query, &mut self.message);
        let whose = (Arc::clone(&query.database), query.scope);
        let (realm, is_new) = place_of(&mut self.realms, whose.clone());
        message.realms.extend(is_new.then_some(whose));
        self.bytes += 64;
        let (statement, is_new) = place_of(&mut self.statements, Arc::clone(&query.statement));
        if is_new {
            message.statements.push(Arc::clone(&query.statement));
            self.bytes += query.statement.len() + query.database.len();
        }
        let (place, is_new) = place_of(&mut self.queries, query.key);
        if is_new {
            message.queries.push(SentQuery {
                key: query.key,
                realm,
                statement,
                params: query.params.clone(),
            });
            self.bytes += query.params.len() + 64;
        }
        let ago = |at: MonoTime| message.reading.0.saturating_sub(at.0);
        let (began_ago, ended_ago) = (ago(seen.began), ago(seen.ended));
        let sent = SentObservation { query: place, session: seen.session, began_ago, ended_ago };
        message.observations.push(sent);
    }
}

impl ObservationBatch {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.observations.len()
    }

    /// Reads them. Their times count back, by this node's clock, from when they were sent. `sent_at` computes that from
    /// the sender and its clock reading.
    ///
    /// # Errors
    /// [`BadMessage`].
    pub fn read(
        self,
        sent_at: impl FnOnce(SenderClock, MonoTime) -> MonoTime,
    ) -> Result<Vec<Observation>, BadMessage> {
        let Self { sender, reading, realms, statements, queries, observations } = self;
        let bytes = realms.iter().map(|(database, _)| database.len()).sum::<usize>()
            + statements.iter().map(|text| text.len()).sum::<usize>()
            + queries.iter().map(|query| query.params.len()).sum::<usize>();
        if bytes > OBSERVED_MESSAGE_BYTES_MAX {
            return Err(BadMessage::Form("too many observations"));
        }
        let query = |sent: SentQuery| {
            let (database, scope) = at(&realms, sent.realm)?.clone();
            let statement = Arc::clone(at(&statements, sent.statement)?);
            let SentQuery { key, params, .. } = sent;
            if statement.len() + params.len() > OBSERVED_QUERY_BYTES_MAX {
                return Err(BadMessage::Form("too long to be observed"));
            }
            Ok(Arc::new(ObservedQuery { key, database, scope, statement, params }))
        };
        let queries = queries.into_iter().map(query).collect::<Result<Vec<_>, _>>()?;
        if observations.iter().any(|seen| seen.ended_ago > seen.began_ago) {
            return Err(BadMessage::Form("age"));
        }
        let sent_at = sent_at(sender, reading);
        let before = |time: MonoTime, age: u64| MonoTime(time.0.saturating_sub(age));
        let observation = |seen: &SentObservation| {
            Ok(Observation {
                query: Arc::clone(at(&queries, seen.query)?),
                session: seen.session,
                began: before(sent_at, seen.began_ago),
                ended: before(sent_at, seen.ended_ago),
                sender,
                began_there: before(reading, seen.began_ago),
            })
        };
        observations.iter().map(observation).collect()
    }
}

/// The part at this place.
fn at<T>(parts: &[T], place: usize) -> Result<&T, BadMessage> {
    parts.get(place).ok_or(BadMessage::Form("place"))
}
