//! Answers to forwarded requests, as bytes.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::ReadRange;
use hopcache_core::key::QueryKey;
use hopcache_core::time::Millis;
use hopcache_core::wire::{Piece, from_bytes};
use serde::{Deserialize, Serialize};

use super::{BadMessage, body_of, encode_sized};
use crate::model::outcome::{Answer, Class, Failure, How, Outcome, Reason};

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

/// A reply between nodes.
#[derive(Serialize, Deserialize)]
enum SentReply<'a> {
    /// A body, with the range of what was read, and for how long the asking node may reuse it.
    Body {
        how: How,
        range: Option<Arc<ReadRange>>,
        near_ms: Option<Millis>,
        #[serde(borrow)]
        body: Piece<'a>,
    },
    /// No result, and the reason.
    Failed { how: How, failure: Cow<'a, Failure> },
    /// See [`Reply::NotARead`].
    NotARead(Reason),
    /// See [`Reply::Elsewhere`].
    Elsewhere,
}

/// Writes an answer.
#[must_use]
pub fn encode_reply(reply: &Reply) -> Bytes {
    let (sent, body_bytes) = match reply {
        Reply::NotARead(reason) => (SentReply::NotARead(*reason), 0),
        Reply::Elsewhere => (SentReply::Elsewhere, 0),
        Reply::Answered(outcome) => outcome_to_send(outcome, None),
        Reply::Near(outcome, near_ms) => {
            outcome_to_send(outcome, Some(*near_ms).filter(|_| is_fresh_hit(outcome)))
        }
    };
    encode_sized(&sent, 96 + body_bytes)
}

fn outcome_to_send(outcome: &Outcome, near_ms: Option<Millis>) -> (SentReply<'_>, usize) {
    let how = outcome.how;
    match &outcome.answer {
        Answer::Body(body) => {
            (SentReply::Body { how, range: outcome.range.clone(), near_ms, body: Piece(body) }, body.len())
        }
        Answer::Failed(failure) => {
            (SentReply::Failed { how, failure: Cow::Borrowed(failure) }, failure.records.len())
        }
    }
}

/// Reads an answer; a body stays a slice of `bytes`.
///
/// # Errors
/// [`BadMessage`] if the bytes are no such answer of this version.
pub fn decode_reply(bytes: &Bytes) -> Result<Reply, BadMessage> {
    let (how, answer, range, near_ms) = match from_bytes(body_of(bytes)?)? {
        SentReply::NotARead(reason) => return Ok(Reply::NotARead(reason)),
        SentReply::Elsewhere => return Ok(Reply::Elsewhere),
        SentReply::Body { how, range, near_ms, body } => {
            (how, Answer::Body(bytes.slice_ref(body.0)), range, near_ms)
        }
        SentReply::Failed { how, failure } => (how, Answer::Failed(failure.into_owned()), None, None),
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
