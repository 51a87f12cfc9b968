//! The report of an entry node to the owner of a session: which queries were answered, in which session, and how long
//! ago each began and ended. Times travel as ages. One reading of the sender's clock travels too; it is compared only
//! with other readings of the same clock (`hopcache_learning::tellers`).
//!
//! A message contains each pair of query and asking identity once, however often it was asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{KeyHasher, QueryKey};
use hopcache_core::limits::{OBSERVED_IN_MESSAGE_MAX, OBSERVED_MESSAGE_BYTES_MAX, OBSERVED_QUERY_BYTES_MAX};
use hopcache_core::node::Incarnation;
use hopcache_core::time::MonoTime;
use hopcache_learning::OriginTag;
use hopcache_learning::tellers::Teller;
use hopcache_packstream::{Reader, Token, Writer};

use super::query::{read_identity, write_identity, write_statement};
use super::{BadMessage, KIND_OBSERVED, VERSION, read_text};
use crate::model::ask::{Query, QueryParts, SessionTag};
use crate::model::identity::{Credentials, Identity};
use crate::model::rendering::RenderingId;

/// Plain data: an answered request, as learning sees it.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The query, with the asking identity.
    pub query: Arc<Query>,
    /// Its session, if any.
    pub session: Option<SessionTag>,
    /// The rendering of its answer.
    pub rendering: RenderingId,
    /// Whether it took a run, so that the result is new.
    pub is_miss: bool,
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
        if page.count >= OBSERVED_IN_MESSAGE_MAX
            || page.bytes() + bytes_of(&seen.query) > OBSERVED_MESSAGE_BYTES_MAX
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

/// The approximate bytes that an observation of a query adds to a message, its sender included.
fn bytes_of(query: &Query) -> usize {
    let credentials = match &query.identity.credentials {
        Credentials::None => 0,
        Credentials::Basic { user, password } => user.len() + password.len(),
        Credentials::Bearer { token } => token.len(),
    };
    let named = query.impersonated.as_ref().map_or(0, String::len);
    query.statement.len() + query.params.len() + query.database.len() + named + credentials + 256
}

#[derive(Default)]
struct Page {
    identities: Writer,
    queries: Writer,
    observations: Writer,
    identity_places: BTreeMap<[u8; 64], usize>,
    query_places: BTreeMap<QueryKey, usize>,
    count: usize,
    added_bytes: usize,
}

impl Page {
    fn bytes(&self) -> usize {
        self.added_bytes
    }

    fn add(&mut self, seen: &Observation, now: MonoTime) {
        let place = self.place_of(&seen.query);
        let writer = &mut self.observations;
        writer.int(place);
        match seen.session {
            None => writer.null(),
            Some(SessionTag(tag)) => writer.bytes(&tag),
        }
        writer.int(seen.rendering.0.into());
        writer.bool(seen.is_miss);
        for at in [seen.began, seen.ended] {
            writer.int(i64::try_from(now.0.saturating_sub(at.0)).unwrap_or(i64::MAX));
        }
        self.count += 1;
        self.added_bytes += 48;
    }

    /// The key contains the principal's scope, but not the password: of two passwords that Neo4j accepted the first is
    /// used.
    fn place_of(&mut self, query: &Arc<Query>) -> i64 {
        let next = self.query_places.len();
        if let Some(place) = self.query_places.get(&query.key) {
            return number(*place);
        }
        let identity = self.place_of_identity(&query.identity);
        self.query_places.insert(query.key, next);
        let writer = &mut self.queries;
        write_statement(writer, query);
        writer.int(identity);
        self.added_bytes += bytes_of(query);
        number(next)
    }

    fn place_of_identity(&mut self, identity: &Identity) -> i64 {
        let mut whose = [0; 64];
        let (scope, fingerprint) = whose.split_at_mut(32);
        scope.copy_from_slice(&identity.scope.0);
        fingerprint.copy_from_slice(&identity.fingerprint);
        let next = self.identity_places.len();
        if let Some(place) = self.identity_places.get(&whose) {
            return number(*place);
        }
        self.identity_places.insert(whose, next);
        write_identity(&mut self.identities, identity);
        number(next)
    }

    fn message(self, teller: Teller, now: MonoTime) -> (Bytes, usize) {
        let mut writer = Writer::new();
        for number in [teller.node.0, teller.life.0, now.0] {
            writer.int(number.cast_signed());
        }
        let count = self.count;
        let parts = [
            (self.identity_places.len(), self.identities),
            (self.query_places.len(), self.queries),
            (self.count, self.observations),
        ];
        for (len, part) in parts {
            writer.list(len);
            writer.raw(&part.into_bytes());
        }
        ([&[VERSION, KIND_OBSERVED][..], &writer.into_bytes()].concat().into(), count)
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
    /// the sender and its clock reading.
    ///
    /// # Errors
    /// [`BadMessage`].
    pub fn read(
        &self,
        hasher: &KeyHasher,
        procedures: &[String],
        sent_at: impl FnOnce(Teller, MonoTime) -> MonoTime,
    ) -> Result<Vec<Observation>, BadMessage> {
        let mut reader = Reader::new(&self.0);
        let mut head = || Ok::<_, BadMessage>(read_int(&mut reader, "teller")?.cast_unsigned());
        let teller = Teller { node: OriginTag(head()?), life: Incarnation(head()?) };
        let sent = Sent { teller, at: MonoTime::default(), reading: MonoTime(head()?) };
        let identities = read_list(&mut reader, |reader| Ok(Arc::new(read_identity(reader)?)))?;
        let queries =
            read_list(&mut reader, |reader| self.read_query(reader, &identities, (hasher, procedures)))?;
        let sent = Sent { at: sent_at(teller, sent.reading), ..sent };
        let observations = read_list(&mut reader, |reader| read_one(reader, &queries, &sent))?;
        if reader.is_empty() { Ok(observations) } else { Err(BadMessage::Form("overlong")) }
    }

    fn read_query(
        &self,
        reader: &mut Reader<'_>,
        identities: &[Arc<Identity>],
        (hasher, procedures): (&KeyHasher, &[String]),
    ) -> Result<Arc<Query>, BadMessage> {
        let database = reader.key()?.into();
        let statement: Arc<str> = reader.key()?.into();
        let Token::Bytes(params) = reader.token()? else { return Err(BadMessage::Form("parameters")) };
        // Copied: a slice of the message would keep all of it alive for as long as the session is remembered.
        let params = Bytes::copy_from_slice(params);
        if statement.len() + params.len() > OBSERVED_QUERY_BYTES_MAX {
            return Err(BadMessage::Form("too long to be observed"));
        }
        let impersonated = read_text(reader)?;
        let place = read_number(reader, "identity")?;
        let identity = usize::try_from(place).ok().and_then(|place| identities.get(place));
        let identity = Arc::clone(identity.ok_or(BadMessage::Form("identity"))?);
        let parts = QueryParts { database, statement, params, impersonated, identity };
        Ok(Arc::new(Query::read(parts, hasher, procedures)))
    }
}

/// The sender of a message, and the sending time by the reader's clock and by the sender's.
struct Sent {
    teller: Teller,
    at: MonoTime,
    reading: MonoTime,
}

fn read_one(reader: &mut Reader<'_>, queries: &[Arc<Query>], sent: &Sent) -> Result<Observation, BadMessage> {
    let place = read_number(reader, "query")?;
    let query = usize::try_from(place).ok().and_then(|place| queries.get(place));
    let query = Arc::clone(query.ok_or(BadMessage::Form("query"))?);
    let session = match reader.token()? {
        Token::Null => None,
        Token::Bytes(tag) => Some(SessionTag(tag.try_into().map_err(|_| BadMessage::Form("session"))?)),
        _ => return Err(BadMessage::Form("session")),
    };
    let rendering = u8::try_from(read_number(reader, "rendering")?);
    let rendering = RenderingId(rendering.map_err(|_| BadMessage::Form("rendering"))?);
    let is_miss = reader.value()?.as_bool().ok_or(BadMessage::Form("miss"))?;
    let (age_began, age_ended) = (read_number(reader, "age")?, read_number(reader, "age")?);
    if age_ended > age_began {
        return Err(BadMessage::Form("age"));
    }
    let before = |time: MonoTime, age: u64| MonoTime(time.0.saturating_sub(age));
    Ok(Observation {
        query,
        session,
        rendering,
        is_miss,
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
