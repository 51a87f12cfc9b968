//! The answer about a key that has changed its owner.

use bytes::Bytes;
use hopcache_core::time::Millis;
use hopcache_core::wire::{Piece, from_bytes};
use serde::{Deserialize, Serialize};

use super::{BadMessage, body_of, encode_sized};
use crate::model::inspection::KeyPlan;

/// Plain data: what a former owner says of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum FormerAnswer {
    /// Its copy.
    Moved(MovedValue),
    /// It has no copy of this key to give.
    Absent,
    /// It has left no copies at all for the node that owns this key by the asker's ring, which is its own ring too.
    LeftNothing,
}

/// Plain data: a value from a former owner's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct MovedValue {
    /// The rest of its total life.
    pub left_ms: Millis,
    /// The facts of its key.
    pub plan: KeyPlan,
    /// The entry as it would be stored, sealed for its key.
    pub entry: Bytes,
}

#[derive(Serialize, Deserialize)]
enum SentAnswer<'a> {
    #[serde(borrow)]
    Moved(SentValue<'a>),
    Absent,
    LeftNothing,
}

#[derive(Serialize, Deserialize)]
struct SentValue<'a> {
    left_ms: Millis,
    plan: KeyPlan,
    #[serde(borrow)]
    entry: Piece<'a>,
}

/// Writes a former owner's answer.
#[must_use]
pub fn encode_moved(answer: &FormerAnswer) -> Bytes {
    let (sent, entry_len) = match answer {
        FormerAnswer::Moved(MovedValue { left_ms, plan, entry }) => {
            let value = SentValue { left_ms: *left_ms, plan: *plan, entry: Piece(entry) };
            (SentAnswer::Moved(value), entry.len())
        }
        FormerAnswer::Absent => (SentAnswer::Absent, 0),
        FormerAnswer::LeftNothing => (SentAnswer::LeftNothing, 0),
    };
    encode_sized(&sent, 64 + entry_len)
}

/// Reads a former owner's answer; the entry stays a slice of `bytes`.
///
/// # Errors
/// [`BadMessage`] if the bytes are no such answer of this version.
pub fn decode_moved(bytes: &Bytes) -> Result<FormerAnswer, BadMessage> {
    Ok(match from_bytes(body_of(bytes)?)? {
        SentAnswer::Moved(SentValue { left_ms, plan, entry }) => {
            FormerAnswer::Moved(MovedValue { left_ms, plan, entry: bytes.slice_ref(entry.0) })
        }
        SentAnswer::Absent => FormerAnswer::Absent,
        SentAnswer::LeftNothing => FormerAnswer::LeftNothing,
    })
}
