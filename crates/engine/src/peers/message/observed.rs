//! The report of an entry node to the owner of sessions: which queries were answered, in which session, and how long ago
//! each began and ended. Times travel as ages. One reading of the sender's clock travels too; it is compared only with
//! other readings of the same clock (`hopcache_learning::tellers`).
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
use hopcache_core::node::Incarnation;
use hopcache_core::time::MonoTime;
use hopcache_learning::OriginTag;
use hopcache_learning::sessions::SessionKey;
use hopcache_learning::tellers::Teller;
use hopcache_packstream::{Reader, Token, Writer};

use super::query::read_digest;
use super::{BadMessage, KIND_OBSERVED, VERSION};

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
    pub teller: Teller,
    /// When it came, by that node's clock.
    pub began_there: MonoTime,
}

/// Writes the observations of `teller`, as ages at `now`, in as many messages as needed.
#[must_use]
pub fn encode_observed(observations: &[Observation], teller: Teller, now: MonoTime) -> Vec<(Bytes, usize)> {
    let mut messages = Vec::new();
    let mut page = Page::default();
    for seen in observations {
        let bytes = seen.query.statement.len() + seen.query.params.len() + 256;
        if page.count >= OBSERVED_IN_MESSAGE_MAX || page.bytes + bytes > OBSERVED_MESSAGE_BYTES_MAX {
            messages.push(std::mem::take(&mut page).message(teller, now));
        }
        page.add(seen, now);
    }
    if page.count > 0 {
        messages.push(page.message(teller, now));
    }
    messages
}

/// Parts of a message that others refer to by their places.
struct Parts<K> {
    writer: Writer,
    places: HashMap<K, usize>,
}

impl<K> Default for Parts<K> {
    fn default() -> Self {
        Self { writer: Writer::new(), places: HashMap::new() }
    }
}

impl<K: Hash + Eq> Parts<K> {
    /// The place of a part; `write` writes it if it is new.
    fn place(&mut self, key: K, write: impl FnOnce(&mut Writer)) -> i64 {
        let next = self.places.len();
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            write(&mut self.writer);
        }
        i64::try_from(place).unwrap_or(i64::MAX)
    }
}

#[derive(Default)]
struct Page {
    realms: Parts<(Arc<str>, PrincipalScope)>,
    statements: Parts<Arc<str>>,
    queries: Parts<QueryKey>,
    observations: Writer,
    count: usize,
    bytes: usize,
}

impl Page {
    fn add(&mut self, seen: &Observation, now: MonoTime) {
        let query = &*seen.query;
        let realm = self.realms.place((Arc::clone(&query.database), query.scope), |writer| {
            writer.string(&query.database);
            writer.bytes(&query.scope.0);
        });
        let mut added_bytes = 64;
        let statement = self.statements.place(Arc::clone(&query.statement), |writer| {
            writer.string(&query.statement);
            added_bytes += query.statement.len() + query.database.len();
        });
        let place = self.queries.place(query.key, |writer| {
            writer.bytes(&query.key.0);
            writer.int(realm);
            writer.int(statement);
            writer.bytes(&query.params);
            added_bytes += query.params.len() + 64;
        });
        let writer = &mut self.observations;
        writer.int(place);
        writer.bytes(&seen.session.0);
        for at in [seen.began, seen.ended] {
            writer.int(i64::try_from(now.0.saturating_sub(at.0)).unwrap_or(i64::MAX));
        }
        self.count += 1;
        self.bytes += added_bytes;
    }

    fn message(self, teller: Teller, now: MonoTime) -> (Bytes, usize) {
        let mut writer = Writer::new();
        for number in [teller.node.0, teller.life.0, now.0] {
            writer.int(number.cast_signed());
        }
        let count = self.count;
        let parts = [
            (self.realms.places.len(), self.realms.writer),
            (self.statements.places.len(), self.statements.writer),
            (self.queries.places.len(), self.queries.writer),
            (count, self.observations),
        ];
        for (len, part) in parts {
            writer.list(len);
            writer.raw(&part.into_bytes());
        }
        ([&[VERSION, KIND_OBSERVED][..], &writer.into_bytes()].concat().into(), count)
    }
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
    /// the sender and its clock reading.
    ///
    /// # Errors
    /// [`BadMessage`].
    pub fn read(
        &self,
        sent_at: impl FnOnce(Teller, MonoTime) -> MonoTime,
    ) -> Result<Vec<Observation>, BadMessage> {
        let mut reader = Reader::new(&self.0);
        let mut head = || Ok::<_, BadMessage>(read_int(&mut reader, "teller")?.cast_unsigned());
        let teller = Teller { node: OriginTag(head()?), life: Incarnation(head()?) };
        let reading = MonoTime(head()?);
        let realms = read_list(&mut reader, |reader| {
            let database: Arc<str> = reader.key()?.into();
            Ok((database, PrincipalScope(read_digest(reader)?)))
        })?;
        let statements = read_list(&mut reader, |reader| Ok(Arc::<str>::from(reader.key()?)))?;
        let queries = read_list(&mut reader, |reader| read_query(reader, &realms, &statements))?;
        let sent = Sent { teller, at: sent_at(teller, reading), reading };
        let observations = read_list(&mut reader, |reader| read_one(reader, &queries, &sent))?;
        if reader.is_empty() { Ok(observations) } else { Err(BadMessage::Form("overlong")) }
    }
}

fn read_query(
    reader: &mut Reader<'_>,
    realms: &[(Arc<str>, PrincipalScope)],
    statements: &[Arc<str>],
) -> Result<Arc<ObservedQuery>, BadMessage> {
    let key = QueryKey(read_digest(reader)?);
    let (database, scope) = at(realms, reader, "realm")?.clone();
    let statement = Arc::clone(at(statements, reader, "statement")?);
    let Token::Bytes(params) = reader.token()? else { return Err(BadMessage::Form("parameters")) };
    if statement.len() + params.len() > OBSERVED_QUERY_BYTES_MAX {
        return Err(BadMessage::Form("too long to be observed"));
    }
    // Copied: a slice of the message would keep all of it alive for as long as the session is remembered.
    let params = Bytes::copy_from_slice(params);
    Ok(Arc::new(ObservedQuery { key, database, scope, statement, params }))
}

/// The sender of a message, and the sending time by the reader's clock and by the sender's.
struct Sent {
    teller: Teller,
    at: MonoTime,
    reading: MonoTime,
}

fn read_one(
    reader: &mut Reader<'_>,
    queries: &[Arc<ObservedQuery>],
    sent: &Sent,
) -> Result<Observation, BadMessage> {
    let query = Arc::clone(at(queries, reader, "query")?);
    let session = SessionKey(read_digest(reader)?);
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

/// The part at the place that comes next.
fn at<'a, T>(parts: &'a [T], reader: &mut Reader<'_>, what: &'static str) -> Result<&'a T, BadMessage> {
    let place = read_number(reader, what)?;
    usize::try_from(place).ok().and_then(|place| parts.get(place)).ok_or(BadMessage::Form(what))
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
