//! Answers to forwarded requests, as bytes.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::ReadRange;
use hopcache_core::key::QueryKey;
use hopcache_core::time::Millis;
use hopcache_packstream::{Reader, Value, Writer};

use super::{BadMessage, Head, VERSION};
use crate::model::outcome::{Answer, Class, Detail, Failure, FailureKind, How, Kept, Outcome, Reason, Role};
use crate::model::ports::Neo4jFailure;

/// An answer to a forwarded request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// An outcome. The asking node fills in `key` and `answered_by`.
    Answered(Outcome),
    /// The server has not confirmed a read.
    NotARead(Reason),
    /// A fresh hit that the asking node may reuse for this time, counted from when it asked. Only for a node that asked
    /// for it.
    Near(Outcome, Millis),
    /// The asked node is leaving and leads no more: the sender asks the next node of the ring.
    Elsewhere,
}

const KIND_BODY: u8 = 0;
const KIND_FAILURE: u8 = 1;
const KIND_NOT_A_READ: u8 = 2;
const KIND_NEAR: u8 = 3;
const KIND_ELSEWHERE: u8 = 4;
/// As [`KIND_BODY`] and [`KIND_NEAR`], with the range of what was read.
const KIND_BODY_OF_RANGE: u8 = 5;
const KIND_NEAR_OF_RANGE: u8 = 6;

/// Writes an answer.
#[must_use]
pub fn encode_reply(reply: &Reply) -> Bytes {
    let (outcome, near_ms) = match reply {
        Reply::NotARead(reason) => return vec![VERSION, KIND_NOT_A_READ, not_a_read_to_byte(*reason)].into(),
        Reply::Elsewhere => return vec![VERSION, KIND_ELSEWHERE].into(),
        Reply::Answered(outcome) => (outcome, None),
        Reply::Near(outcome, near_ms) => (outcome, Some(*near_ms).filter(|_| is_fresh_hit(outcome))),
    };
    let mut bytes = Vec::with_capacity(32);
    let range = outcome.range.as_deref();
    let (kind, body) = match &outcome.answer {
        Answer::Body(body) => {
            let kind = match (near_ms, range) {
                (Some(_), None) => KIND_NEAR,
                (None, None) => KIND_BODY,
                (Some(_), Some(_)) => KIND_NEAR_OF_RANGE,
                (None, Some(_)) => KIND_BODY_OF_RANGE,
            };
            (kind, body.clone())
        }
        Answer::Failed(failure) => (KIND_FAILURE, encode_failure(failure)),
    };
    bytes.reserve(body.len());
    bytes.extend_from_slice(&[VERSION, kind]);
    let (class, kept, role) = match outcome.how.class {
        Class::Hit if outcome.how.is_proved => (PROVED_HIT, 0, 0),
        Class::Hit | Class::Bypass(_) => (0, 0, 0),
        // For the node that asked, both are kept; an older version knows only one of them.
        Class::Miss { kept: Kept::InMemory, role } => (1, place(&KEPT, Kept::Stored), place(&ROLES, role)),
        Class::Miss { kept, role } => (1, place(&KEPT, kept), place(&ROLES, role)),
    };
    let detail = outcome.how.detail.map_or(0, |detail| place(&DETAILS, detail) + 1);
    bytes.extend_from_slice(&[class, kept, role, detail]);
    bytes.extend_from_slice(&outcome.how.age_ms.map_or(u64::MAX, |age| age.0).to_be_bytes());
    bytes.extend_from_slice(&outcome.how.ttl_ms.unwrap_or(i64::MIN).to_be_bytes());
    if let Some(near_ms) = near_ms {
        bytes.extend_from_slice(&near_ms.0.to_be_bytes());
    }
    if let (Answer::Body(_), Some(range)) = (&outcome.answer, range) {
        range.write(&mut bytes);
    }
    bytes.extend_from_slice(&body);
    bytes.into()
}

/// The class of a hit that is proved.
const PROVED_HIT: u8 = 2;

/// Reads an answer; a body stays a slice of `bytes`.
///
/// # Errors
/// [`BadMessage`] if the bytes are no such answer of this version.
pub fn decode_reply(bytes: &Bytes) -> Result<Reply, BadMessage> {
    let mut head = Head(bytes);
    match head.byte()? {
        VERSION => {}
        other => return Err(BadMessage::Version(other)),
    }
    let kind = head.byte()?;
    if kind == KIND_NOT_A_READ {
        return Ok(Reply::NotARead(not_a_read_of_byte(head.byte()?)?));
    }
    if kind == KIND_ELSEWHERE {
        return Ok(Reply::Elsewhere);
    }
    let [class, kept, role, detail] = head.take()?;
    let age = u64::from_be_bytes(head.take()?);
    let ttl = i64::from_be_bytes(head.take()?);
    let is_proved = class == PROVED_HIT;
    let class = match class {
        0 | PROVED_HIT => Class::Hit,
        1 => Class::Miss { kept: at(&KEPT, kept)?, role: at(&ROLES, role)? },
        _ => return Err(BadMessage::Form("unknown class")),
    };
    let detail = if detail == 0 { None } else { Some(at(&DETAILS, detail - 1)?) };
    let is_near = matches!(kind, KIND_NEAR | KIND_NEAR_OF_RANGE);
    let near_ms = if is_near { Some(Millis(u64::from_be_bytes(head.take()?))) } else { None };
    let range = match kind {
        KIND_BODY_OF_RANGE | KIND_NEAR_OF_RANGE => {
            Some(Arc::new(ReadRange::read(&mut head.0).ok_or(BadMessage::Form("range"))?))
        }
        _ => None,
    };
    let answer = match kind {
        KIND_BODY | KIND_NEAR | KIND_BODY_OF_RANGE | KIND_NEAR_OF_RANGE => {
            Answer::Body(bytes.slice_ref(head.0))
        }
        KIND_FAILURE => Answer::Failed(decode_failure(head.0)?),
        _ => return Err(BadMessage::Form("unknown answer")),
    };
    let how = How {
        class,
        age_ms: (age != u64::MAX).then_some(Millis(age)),
        ttl_ms: (ttl != i64::MIN).then_some(ttl),
        detail,
        is_proved,
    };
    let outcome = Outcome { answer, how, answered_by: None, key: QueryKey([0; 32]), range };
    match near_ms {
        None => Ok(Reply::Answered(outcome)),
        Some(near_ms) if is_fresh_hit(&outcome) => Ok(Reply::Near(outcome, near_ms)),
        Some(_) => Err(BadMessage::Form("a near copy of what is no fresh hit")),
    }
}

/// Other nodes may reuse only an answer that is stored and fresh and has an age.
fn is_fresh_hit(outcome: &Outcome) -> bool {
    let how = &outcome.how;
    matches!(outcome.answer, Answer::Body(_))
        && how.class == Class::Hit
        && how.detail.is_none()
        && how.age_ms.is_some()
        && how.ttl_ms.is_some_and(|ttl_ms| ttl_ms > 0)
}

// Each item's byte is its place in its list. New items are added at the end only.
const KEPT: [Kept; 3] = [Kept::Stored, Kept::Fenced, Kept::Skipped];
const ROLES: [Role; 2] = [Role::Led, Role::Joined];
const DETAILS: [Detail; 10] = [
    Detail::Stale,
    Detail::Degraded,
    Detail::TooLarge,
    Detail::Fenced,
    Detail::Updates,
    Detail::Off,
    Detail::NotCached,
    Detail::Failed,
    Detail::StaleIfError,
    Detail::Busy,
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
        FailureKind::HeldBack { left_ms } => (9, None, usize::try_from(left_ms.0).unwrap_or(usize::MAX)),
        FailureKind::TooManyRuns => (10, None, 0),
        FailureKind::Leaving => (11, None, 0),
        FailureKind::TooDeep => (12, None, 0),
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
    writer.bytes(&failure.records);
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
        Some(9) => FailureKind::HeldBack { left_ms: Millis(limit.unwrap_or(0) as u64) },
        Some(10) => FailureKind::TooManyRuns,
        Some(11) => FailureKind::Leaving,
        Some(12) => FailureKind::TooDeep,
        _ => return Err(BadMessage::Form("unknown failure")),
    };
    let fields = match reader.value()? {
        Value::Null => None,
        Value::List(names) => {
            Some(names.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect())
        }
        _ => return Err(BadMessage::Form("field names")),
    };
    let Value::Bytes(records) = reader.value()? else { return Err(BadMessage::Form("records")) };
    Ok(Failure { kind, fields, records: records.into(), was_sent: false })
}
