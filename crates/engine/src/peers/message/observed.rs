//! The report of an entry node to the owner of a session: which queries were answered, in which session, and how long
//! ago each began and ended. Times travel as ages. One reading of the sender's clock travels too; it is compared only
//! with other readings of the same clock (`hopcache_learning::tellers`).
//!
//! A message contains each query once, however often it was asked. It contains no credentials: the owner of a session
//! learns and runs nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{PrincipalScope, QueryKey};
use hopcache_core::limits::{OBSERVED_IN_MESSAGE_MAX, OBSERVED_MESSAGE_BYTES_MAX, OBSERVED_QUERY_BYTES_MAX};
use hopcache_core::node::Incarnation;
use hopcache_core::time::MonoTime;
use hopcache_learning::OriginTag;
use hopcache_learning::tellers::Teller;
use hopcache_packstream::{Reader, Token, Writer};

use super::query::read_digest;
use super::{BadMessage, KIND_OBSERVED, VERSION};
use crate::model::ask::{Query, SessionTag};

/// Plain data: an answered request of a session, as learning sees it.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The query.
    pub query: Arc<SeenQuery>,
    /// Its session.
    pub session: SessionTag,
    /// When it came, by this node's clock.
    pub began: MonoTime,
    /// When it was answered.
    pub ended: MonoTime,
    /// The node that received it.
    pub teller: Teller,
    /// When it came, by that node's clock.
    pub began_there: MonoTime,
}

/// Plain data: a query without the credentials of its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenQuery {
    /// Its key, as this node computes it.
    pub key: QueryKey,
    /// Database name as the client gave it.
    pub database: Arc<str>,
    /// The asking principal.
    pub scope: PrincipalScope,
    /// Statement as the client gave it.
    pub statement: Arc<str>,
    /// Parameters: one canonical PackStream map.
    pub params: Bytes,
}

impl SeenQuery {
    /// The same query without its sender's credentials.
    #[must_use]
    pub fn of(query: &Query) -> Self {
        Self {
            key: query.key,
            database: Arc::clone(&query.database),
            scope: query.identity.scope,
            statement: Arc::clone(&query.statement),
            params: query.params.clone(),
        }
    }
}

/// Writes the observations of `teller`, as ages at `now`, in as many messages as needed.
#[must_use]
pub fn encode_observed(observations: &[Observation], teller: Teller, now: MonoTime) -> Vec<(Bytes, usize)> {
    let mut messages = Vec::new();
    let mut page = Page::default();
    for seen in observations {
        if page.count >= OBSERVED_IN_MESSAGE_MAX
            || page.added_bytes + bytes_of(&seen.query) > OBSERVED_MESSAGE_BYTES_MAX
        {
            messages.push(std::mem::take(&mut page).message(teller, now));
        }
        page.add(seen, now);
    }
    if page.count > 0 {
        messages.push(page.message(teller, now));
    }
    messages
}

/// The approximate bytes that an observation of a query adds to a message.
fn bytes_of(query: &SeenQuery) -> usize {
    query.statement.len() + query.params.len() + query.database.len() + 128
}

#[derive(Default)]
struct Page {
    queries: Writer,
    observations: Writer,
    query_places: BTreeMap<QueryKey, usize>,
    count: usize,
    added_bytes: usize,
}

impl Page {
    fn add(&mut self, seen: &Observation, now: MonoTime) {
        let place = self.place_of(&seen.query);
        let writer = &mut self.observations;
        writer.int(place);
        writer.bytes(&seen.session.0);
        for at in [seen.began, seen.ended] {
            writer.int(i64::try_from(now.0.saturating_sub(at.0)).unwrap_or(i64::MAX));
        }
        self.count += 1;
        self.added_bytes += 48;
    }

    fn place_of(&mut self, query: &SeenQuery) -> i64 {
        let next = self.query_places.len();
        if let Some(place) = self.query_places.get(&query.key) {
            return number(*place);
        }
        self.query_places.insert(query.key, next);
        let writer = &mut self.queries;
        writer.string(&query.database);
        writer.bytes(&query.scope.0);
        writer.string(&query.statement);
        writer.bytes(&query.params);
        self.added_bytes += bytes_of(query);
        number(next)
    }

    fn message(self, teller: Teller, now: MonoTime) -> (Bytes, usize) {
        let mut writer = Writer::new();
        for number in [teller.node.0, teller.life.0, now.0] {
            writer.int(number.cast_signed());
        }
        for (len, part) in [(self.query_places.len(), self.queries), (self.count, self.observations)] {
            writer.list(len);
            writer.raw(&part.into_bytes());
        }
        ([&[VERSION, KIND_OBSERVED][..], &writer.into_bytes()].concat().into(), self.count)
    }
}

fn number(place: usize) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

/// Observations as they came, not decoded yet.
#[derive(Debug, Clone)]
pub struct Observed(Bytes);

pub(super) fn read_observed(rest: Bytes) -> Result<Observed, BadMessage> {
    if rest.len() > OBSERVED_MESSAGE_BYTES_MAX + (32 << 10) {
        return Err(BadMessage::Form("too many observations"));
    }
    Ok(Observed(rest))
}

impl Observed {
    /// Reads them. Their times count back, by this node's clock, from when they were sent. `sent_at` computes that from
    /// the sender and its clock reading. `key_of` computes the key of a query; the one in its argument is zero.
    ///
    /// # Errors
    /// [`BadMessage`].
    pub fn read(
        &self,
        key_of: impl Fn(&SeenQuery) -> QueryKey,
        sent_at: impl FnOnce(Teller, MonoTime) -> MonoTime,
    ) -> Result<Vec<Observation>, BadMessage> {
        let mut reader = Reader::new(&self.0);
        let mut head = || Ok::<_, BadMessage>(read_int(&mut reader, "teller")?.cast_unsigned());
        let teller = Teller { node: OriginTag(head()?), life: Incarnation(head()?) };
        let sent = Sent { teller, at: MonoTime::default(), reading: MonoTime(head()?) };
        let queries = read_list(&mut reader, |reader| {
            let query = read_query(reader)?;
            let key = key_of(&query);
            Ok(Arc::new(SeenQuery { key, ..query }))
        })?;
        let sent = Sent { at: sent_at(teller, sent.reading), ..sent };
        let observations = read_list(&mut reader, |reader| read_one(reader, &queries, &sent))?;
        if reader.is_empty() { Ok(observations) } else { Err(BadMessage::Form("overlong")) }
    }
}

fn read_query(reader: &mut Reader<'_>) -> Result<SeenQuery, BadMessage> {
    let database = reader.key()?.into();
    let scope = PrincipalScope(read_digest(reader)?);
    let statement: Arc<str> = reader.key()?.into();
    let Token::Bytes(params) = reader.token()? else { return Err(BadMessage::Form("parameters")) };
    // Copied: a slice of the message would keep all of it alive for as long as the session is remembered.
    let params = Bytes::copy_from_slice(params);
    if statement.len() + params.len() > OBSERVED_QUERY_BYTES_MAX {
        return Err(BadMessage::Form("too long to be observed"));
    }
    Ok(SeenQuery { key: QueryKey([0; 32]), database, scope, statement, params })
}

/// The sender of a message, and the sending time by the reader's clock and by the sender's.
struct Sent {
    teller: Teller,
    at: MonoTime,
    reading: MonoTime,
}

fn read_one(
    reader: &mut Reader<'_>,
    queries: &[Arc<SeenQuery>],
    sent: &Sent,
) -> Result<Observation, BadMessage> {
    let place = read_number(reader, "query")?;
    let query = usize::try_from(place).ok().and_then(|place| queries.get(place));
    let query = Arc::clone(query.ok_or(BadMessage::Form("query"))?);
    let Token::Bytes(tag) = reader.token()? else { return Err(BadMessage::Form("session")) };
    let session = SessionTag(tag.try_into().map_err(|_| BadMessage::Form("session"))?);
    let (age_began, age_ended) = (read_number(reader, "age")?, read_number(reader, "age")?);
    if age_ended > age_began {
        return Err(BadMessage::Form("age"));
    }
    let before = |time: MonoTime, age: u64| MonoTime(time.0.saturating_sub(age));
    Ok(Observation {
        query,
        session,
        began: before(sent.at, age_began),
        ended: before(sent.at, age_ended),
        teller: sent.teller,
        began_there: before(sent.reading, age_began),
    })
}

fn read_int(reader: &mut Reader<'_>, what: &'static str) -> Result<i64, BadMessage> {
    reader.value()?.as_int().ok_or(BadMessage::Form(what))
}

fn read_number(reader: &mut Reader<'_>, what: &'static str) -> Result<u64, BadMessage> {
    u64::try_from(read_int(reader, what)?).map_err(|_| BadMessage::Form(what))
}

/// Reads as many items as stated, each at least a byte long.
fn read_list<T>(
    reader: &mut Reader<'_>,
    mut one: impl FnMut(&mut Reader<'_>) -> Result<T, BadMessage>,
) -> Result<Vec<T>, BadMessage> {
    let Token::List(len) = reader.token()? else { return Err(BadMessage::Form("list")) };
    if len > OBSERVED_IN_MESSAGE_MAX {
        return Err(BadMessage::Form("too many observations"));
    }
    let mut items = Vec::with_capacity(len);
    for _ in 0..len {
        items.push(one(reader)?);
    }
    Ok(items)
}
