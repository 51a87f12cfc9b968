//! What nodes say to each other about queries: bytes in, bytes out, no sockets.
//!
//! A question opens with a fixed head, so that a hit at its owner is found without reading the rest.
//! Every message carries a version; one that is not ours is refused, never guessed at, so that nodes
//! of different versions can stand in one cluster during a rolling restart (F10).
//!
//! Authenticity and secrecy are the transport's: these bytes contain credentials.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{KeyHasher, PrincipalScope, QueryKey};
use hopcache_core::ring::RingEpoch;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_packstream::{DecodeError, Reader, Token, Value, Writer};
use hopcache_queryapi::render::{Counters, Encoding, Form};

use crate::ask::{Ask, Freshness, Hints, Query, QueryParts, SessionTag};
use crate::identity::{Credentials, Identity};
use crate::outcome::{Answer, Class, Detail, Failure, FailureKind, How, Kept, Outcome, Reason, Role};
use crate::ports::{AccessMode, Neo4jFailure, Scope};

/// Version of every message here. Raised when a byte of them changes its meaning.
pub const VERSION: u8 = 1;

const KIND_ASK: u8 = 1;
const KIND_PURGE: u8 = 2;
const KIND_INSPECT: u8 = 3;

/// Why bytes are no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// Of another version of this program.
    #[error("message version {0}, this node speaks {VERSION}")]
    Version(u8),
    /// Not a message of ours.
    #[error("not a message: {0}")]
    Form(&'static str),
    /// A part of it is not PackStream.
    #[error("not a message: {0}")]
    PackStream(#[from] DecodeError),
    /// The key does not belong to the query: the two nodes derive keys differently.
    #[error(
        "the key does not belong to the query: check that all nodes have the same cluster key and version"
    )]
    Key,
}

/// A question from a peer.
#[derive(Debug, Clone)]
pub enum Question {
    /// A client's request, forwarded.
    Ask(ForwardedAsk),
    /// Forget.
    Purge(Scope),
    /// What memory and flights hold under a key.
    Inspect(QueryKey),
}

/// The head of a forwarded request, and the rest of it unread.
#[derive(Debug, Clone)]
pub struct ForwardedAsk {
    /// The query's key by the sender's word; checked before it leads to a run.
    pub key: QueryKey,
    /// The sender's ring.
    pub epoch: RingEpoch,
    /// Time left to the client's deadline.
    pub left_ms: Millis,
    /// Wanted rendering.
    pub form: Form,
    /// Whether the plain freshness rules hold, so that a fresh copy is an answer without reading on.
    pub is_plain: bool,
    rest: Bytes,
}

/// Writes a client's request for its owner.
#[must_use]
pub fn encode_ask(ask: &Ask, left_ms: Millis, epoch: RingEpoch) -> Bytes {
    let mut head = Vec::with_capacity(256 + ask.query.statement.len() + ask.query.params.len());
    head.extend_from_slice(&[VERSION, KIND_ASK]);
    head.extend_from_slice(&ask.query.key.0);
    head.extend_from_slice(&epoch.0.to_be_bytes());
    head.extend_from_slice(&left_ms.0.to_be_bytes());
    head.push(form_to_byte(ask.form));
    head.push(u8::from(ask.freshness == Freshness::default()));
    let mut writer = Writer::new();
    write_freshness(&mut writer, ask.freshness);
    write_hints(&mut writer, ask.hints);
    write_text(&mut writer, ask.traceparent.as_deref());
    match ask.session {
        None => writer.null(),
        Some(SessionTag(tag)) => writer.bytes(&tag),
    }
    writer.string(&ask.query.database);
    writer.string(&ask.query.statement);
    writer.bytes(&ask.query.params);
    write_text(&mut writer, ask.query.impersonated.as_deref());
    write_identity(&mut writer, &ask.query.identity);
    head.extend_from_slice(&writer.into_bytes());
    head.into()
}

/// Writes an order to forget.
#[must_use]
pub fn encode_purge(scope: &Scope) -> Bytes {
    let mut bytes = vec![VERSION, KIND_PURGE];
    match scope {
        Scope::Key(key) => {
            bytes.push(0);
            bytes.extend_from_slice(&key.0);
        }
        Scope::Database(tag) => {
            bytes.push(1);
            bytes.extend_from_slice(&tag.0.to_be_bytes());
        }
        Scope::All => bytes.push(2),
    }
    bytes.into()
}

/// Writes a question about a key.
#[must_use]
pub fn encode_inspect(key: &QueryKey) -> Bytes {
    [&[VERSION, KIND_INSPECT][..], &key.0].concat().into()
}

/// Reads a question.
///
/// # Errors
/// [`BadMessage`] when it is none of this version.
pub fn decode_question(bytes: &Bytes) -> Result<Question, BadMessage> {
    let mut head = Head(bytes);
    match head.byte()? {
        VERSION => {}
        other => return Err(BadMessage::Version(other)),
    }
    match head.byte()? {
        KIND_ASK => Ok(Question::Ask(ForwardedAsk {
            key: QueryKey(head.take()?),
            epoch: RingEpoch(u64::from_be_bytes(head.take()?)),
            left_ms: Millis(u64::from_be_bytes(head.take()?)),
            form: form_of_byte(head.byte()?)?,
            is_plain: head.byte()? == 1,
            rest: bytes.slice_ref(head.0),
        })),
        KIND_PURGE => match head.byte()? {
            0 => Ok(Question::Purge(Scope::Key(QueryKey(head.take()?)))),
            1 => {
                let tag = u64::from_be_bytes(head.take()?);
                Ok(Question::Purge(Scope::Database(hopcache_core::key::DatabaseTag(tag))))
            }
            2 => Ok(Question::Purge(Scope::All)),
            _ => Err(BadMessage::Form("unknown purge scope")),
        },
        KIND_INSPECT => Ok(Question::Inspect(QueryKey(head.take()?))),
        _ => Err(BadMessage::Form("unknown kind")),
    }
}

impl ForwardedAsk {
    /// Reads the rest: the request as if it had come from a client, but for its deadline, which counts
    /// from `now` on this node's clock.
    ///
    /// # Errors
    /// [`BadMessage`], in particular [`BadMessage::Key`] when the key is not the query's.
    pub fn read(&self, hasher: &KeyHasher, procedures: &[String], now: MonoTime) -> Result<Ask, BadMessage> {
        let mut reader = Reader::new(&self.rest);
        let freshness = read_freshness(&mut reader)?;
        let hints = read_hints(&mut reader)?;
        let traceparent = read_text(&mut reader)?;
        let session = match reader.token()? {
            Token::Null => None,
            Token::Bytes(tag) => Some(SessionTag(tag.try_into().map_err(|_| BadMessage::Form("session"))?)),
            _ => return Err(BadMessage::Form("session")),
        };
        let database: Arc<str> = reader.key()?.into();
        let statement: Arc<str> = reader.key()?.into();
        let Token::Bytes(params) = reader.token()? else { return Err(BadMessage::Form("parameters")) };
        let params = self.rest.slice_ref(params);
        let impersonated = read_text(&mut reader)?;
        let identity = Arc::new(read_identity(&mut reader)?);
        let parts = QueryParts { database, statement, params, impersonated, identity };
        let query = Query::read(parts, hasher, procedures);
        if query.key != self.key {
            return Err(BadMessage::Key);
        }
        Ok(Ask {
            query: Arc::new(query),
            form: self.form,
            freshness,
            hints,
            mode: AccessMode::Read,
            bypass: None,
            deadline: now + self.left_ms,
            traceparent,
            session,
        })
    }
}

/// An answer to a forwarded request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// An outcome. Its `key` and `answered_by` are the asker's to fill in.
    Answered(Outcome),
    /// The server does not vouch for a read.
    NotARead(Reason),
}

/// Writes an answer.
#[must_use]
pub fn encode_reply(reply: &Reply) -> Bytes {
    let outcome = match reply {
        Reply::NotARead(reason) => return vec![VERSION, 2, not_a_read_to_byte(*reason)].into(),
        Reply::Answered(outcome) => outcome,
    };
    let mut bytes = Vec::with_capacity(32);
    let (kind, body) = match &outcome.answer {
        Answer::Body(body) => (0, body.clone()),
        Answer::Failed(failure) => (1, encode_failure(failure)),
    };
    bytes.reserve(body.len());
    bytes.extend_from_slice(&[VERSION, kind]);
    let (class, kept, role) = match outcome.how.class {
        Class::Hit | Class::Bypass(_) => (0, 0, 0),
        Class::Miss { kept, role } => (1, place(&KEPT, kept), place(&ROLES, role)),
    };
    let detail = outcome.how.detail.map_or(0, |detail| place(&DETAILS, detail) + 1);
    bytes.extend_from_slice(&[class, kept, role, detail]);
    bytes.extend_from_slice(&outcome.how.age_ms.map_or(u64::MAX, |age| age.0).to_be_bytes());
    bytes.extend_from_slice(&outcome.how.ttl_ms.unwrap_or(i64::MIN).to_be_bytes());
    bytes.extend_from_slice(&body);
    bytes.into()
}

/// Reads an answer; a body stays a slice of `bytes`.
///
/// # Errors
/// [`BadMessage`] when it is none of this version.
pub fn decode_reply(bytes: &Bytes) -> Result<Reply, BadMessage> {
    let mut head = Head(bytes);
    match head.byte()? {
        VERSION => {}
        other => return Err(BadMessage::Version(other)),
    }
    let kind = head.byte()?;
    if kind == 2 {
        return Ok(Reply::NotARead(not_a_read_of_byte(head.byte()?)?));
    }
    let [class, kept, role, detail] = head.take()?;
    let age = u64::from_be_bytes(head.take()?);
    let ttl = i64::from_be_bytes(head.take()?);
    let class = match class {
        0 => Class::Hit,
        1 => Class::Miss { kept: at(&KEPT, kept)?, role: at(&ROLES, role)? },
        _ => return Err(BadMessage::Form("unknown class")),
    };
    let detail = if detail == 0 { None } else { Some(at(&DETAILS, detail - 1)?) };
    let answer = match kind {
        0 => Answer::Body(bytes.slice_ref(head.0)),
        1 => Answer::Failed(decode_failure(head.0)?),
        _ => return Err(BadMessage::Form("unknown answer")),
    };
    let how = How {
        class,
        age_ms: (age != u64::MAX).then_some(Millis(age)),
        ttl_ms: (ttl != i64::MIN).then_some(ttl),
        detail,
    };
    Ok(Reply::Answered(Outcome { answer, how, answered_by: None, key: QueryKey([0; 32]) }))
}

// The place of a word in its list is its byte: words are added at the end only.
const KEPT: [Kept; 3] = [Kept::Stored, Kept::Fenced, Kept::Skipped];
const ROLES: [Role; 2] = [Role::Led, Role::Joined];
const DETAILS: [Detail; 8] = [
    Detail::Stale,
    Detail::Degraded,
    Detail::TooLarge,
    Detail::Fenced,
    Detail::Updates,
    Detail::Off,
    Detail::NotCached,
    Detail::Failed,
];

fn place<T: PartialEq>(words: &[T], word: T) -> u8 {
    words.iter().position(|each| *each == word).and_then(|place| u8::try_from(place).ok()).unwrap_or(0)
}

fn at<T: Copy>(words: &[T], place: u8) -> Result<T, BadMessage> {
    words.get(usize::from(place)).copied().ok_or(BadMessage::Form("unknown word"))
}

fn not_a_read_to_byte(reason: Reason) -> u8 {
    match reason {
        Reason::Write => 0,
        Reason::TooLarge => 1,
        _ => 2,
    }
}

fn not_a_read_of_byte(byte: u8) -> Result<Reason, BadMessage> {
    at(&[Reason::Write, Reason::TooLarge, Reason::Unknown], byte)
}

fn encode_failure(failure: &Failure) -> Bytes {
    let mut writer = Writer::new();
    let (word, said, limit) = match &failure.kind {
        FailureKind::Neo4j(said) => (0, Some(said), 0),
        FailureKind::OriginUnreachable => (1, None, 0),
        FailureKind::OriginCut => (2, None, 0),
        FailureKind::OriginTimedOut => (3, None, 0),
        FailureKind::Overloaded => (4, None, 0),
        FailureKind::DeadlinePassed => (5, None, 0),
        FailureKind::TooLarge { limit_bytes } => (6, None, *limit_bytes),
        FailureKind::NotCached => (7, None, 0),
        FailureKind::BadResult => (8, None, 0),
    };
    writer.int(word);
    writer.string(said.map_or("", |said| &said.code));
    writer.string(said.map_or("", |said| &said.message));
    writer.int(i64::try_from(limit).unwrap_or(i64::MAX));
    match &failure.fields {
        None => writer.null(),
        Some(fields) => {
            writer.list(fields.len());
            fields.iter().for_each(|name| writer.string(name));
        }
    }
    writer.into_bytes().into()
}

fn decode_failure(bytes: &[u8]) -> Result<Failure, BadMessage> {
    let mut reader = Reader::new(bytes);
    let word = reader.value()?.as_int();
    let code = reader.key()?.to_owned();
    let message = reader.key()?.to_owned();
    let limit = reader.value()?.as_int().and_then(|limit| usize::try_from(limit).ok());
    let kind = match word {
        Some(0) => FailureKind::Neo4j(Neo4jFailure { code, message }),
        Some(1) => FailureKind::OriginUnreachable,
        Some(2) => FailureKind::OriginCut,
        Some(3) => FailureKind::OriginTimedOut,
        Some(4) => FailureKind::Overloaded,
        Some(5) => FailureKind::DeadlinePassed,
        Some(6) => FailureKind::TooLarge { limit_bytes: limit.unwrap_or(0) },
        Some(7) => FailureKind::NotCached,
        Some(8) => FailureKind::BadResult,
        _ => return Err(BadMessage::Form("unknown failure")),
    };
    let fields = match reader.value()? {
        Value::Null => None,
        Value::List(names) => {
            Some(names.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect())
        }
        _ => return Err(BadMessage::Form("field names")),
    };
    Ok(Failure { kind, fields })
}

fn write_freshness(writer: &mut Writer, freshness: Freshness) {
    writer.bool(freshness.no_cache);
    writer.bool(freshness.only_if_cached);
    write_millis(writer, freshness.age_max_ms);
    write_millis(writer, freshness.stale_max_ms);
}

fn read_freshness(reader: &mut Reader<'_>) -> Result<Freshness, BadMessage> {
    let no_cache = reader.value()?.as_bool().ok_or(BadMessage::Form("no-cache"))?;
    let only_if_cached = reader.value()?.as_bool().ok_or(BadMessage::Form("only-if-cached"))?;
    let age_max_ms = read_millis(reader)?;
    let stale_max_ms = read_millis(reader)?;
    Ok(Freshness { no_cache, age_max_ms, stale_max_ms, only_if_cached })
}

fn write_hints(writer: &mut Writer, hints: Hints) {
    write_millis(writer, hints.ttl_ms);
    write_millis(writer, hints.cost_ms);
    write_millis(writer, hints.degree.map(Millis));
    match hints.volatility {
        None => writer.null(),
        Some(volatility) => writer.float(volatility),
    }
}

fn read_hints(reader: &mut Reader<'_>) -> Result<Hints, BadMessage> {
    let ttl_ms = read_millis(reader)?;
    let cost_ms = read_millis(reader)?;
    let degree = read_millis(reader)?.map(|degree| degree.0);
    let volatility = match reader.token()? {
        Token::Null => None,
        Token::Float(volatility) => Some(volatility),
        _ => return Err(BadMessage::Form("volatility")),
    };
    Ok(Hints { ttl_ms, cost_ms, degree, volatility })
}

fn write_identity(writer: &mut Writer, identity: &Identity) {
    writer.bytes(&identity.scope.0);
    writer.bytes(&identity.fingerprint);
    match &identity.credentials {
        Credentials::None => writer.list(0),
        Credentials::Bearer { token } => {
            writer.list(1);
            writer.string(token);
        }
        Credentials::Basic { user, password } => {
            writer.list(2);
            writer.string(user);
            writer.string(password);
        }
    }
}

fn read_identity(reader: &mut Reader<'_>) -> Result<Identity, BadMessage> {
    let scope = PrincipalScope(read_digest(reader)?);
    let fingerprint = read_digest(reader)?;
    let credentials = match reader.token()? {
        Token::List(0) => Credentials::None,
        Token::List(1) => Credentials::Bearer { token: reader.key()?.to_owned() },
        Token::List(2) => {
            Credentials::Basic { user: reader.key()?.to_owned(), password: reader.key()?.to_owned() }
        }
        _ => return Err(BadMessage::Form("credentials")),
    };
    Ok(Identity { scope, fingerprint, credentials })
}

fn read_digest(reader: &mut Reader<'_>) -> Result<[u8; 32], BadMessage> {
    match reader.token()? {
        Token::Bytes(bytes) => bytes.try_into().map_err(|_| BadMessage::Form("digest")),
        _ => Err(BadMessage::Form("digest")),
    }
}

fn write_text(writer: &mut Writer, text: Option<&str>) {
    match text {
        None => writer.null(),
        Some(text) => writer.string(text),
    }
}

fn read_text(reader: &mut Reader<'_>) -> Result<Option<String>, BadMessage> {
    match reader.token()? {
        Token::Null => Ok(None),
        Token::Str(text) => Ok(Some(text.to_owned())),
        _ => Err(BadMessage::Form("text")),
    }
}

fn write_millis(writer: &mut Writer, span: Option<Millis>) {
    match span.and_then(|span| i64::try_from(span.0).ok()) {
        None => writer.null(),
        Some(span) => writer.int(span),
    }
}

fn read_millis(reader: &mut Reader<'_>) -> Result<Option<Millis>, BadMessage> {
    match reader.token()? {
        Token::Null => Ok(None),
        Token::Int(span) => Ok(Some(Millis(u64::try_from(span).map_err(|_| BadMessage::Form("span"))?))),
        _ => Err(BadMessage::Form("span")),
    }
}

fn form_to_byte(form: Form) -> u8 {
    let typed = u8::from(form.encoding == Encoding::Typed);
    let counters = u8::from(form.counters == Counters::Include);
    typed | counters << 1
}

fn form_of_byte(byte: u8) -> Result<Form, BadMessage> {
    if byte > 3 {
        return Err(BadMessage::Form("unknown rendering"));
    }
    let encoding = if byte & 1 == 0 { Encoding::Plain } else { Encoding::Typed };
    let counters = if byte & 2 == 0 { Counters::Omit } else { Counters::Include };
    Ok(Form { encoding, counters })
}

struct Head<'a>(&'a [u8]);

impl Head<'_> {
    fn byte(&mut self) -> Result<u8, BadMessage> {
        Ok(self.take::<1>()?[0])
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadMessage> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(BadMessage::Form("cut"))?;
        self.0 = tail;
        Ok(*head)
    }
}
