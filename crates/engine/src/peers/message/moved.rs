//! The answer about a key that has changed its owner.

use bytes::Bytes;
use hopcache_core::time::Millis;
use hopcache_core::wire::{Piece, from_bytes};
use serde::{Deserialize, Serialize};

use super::{BadMessage, body_of, encode_sized};
use crate::model::inspection::KeyPlan;

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
struct SentValue<'a> {
    left_ms: Millis,
    plan: KeyPlan,
    #[serde(borrow)]
    entry: Piece<'a>,
}

/// Writes a former owner's answer; `None` if it has no value to give.
#[must_use]
pub fn encode_moved(moved: Option<&MovedValue>) -> Bytes {
    let sent = moved.map(|MovedValue { left_ms, plan, entry }| SentValue {
        left_ms: *left_ms,
        plan: *plan,
        entry: Piece(entry),
    });
    encode_sized(&sent, 64 + moved.map_or(0, |moved| moved.entry.len()))
}

/// Reads a former owner's answer; the entry stays a slice of `bytes`.
///
/// # Errors
/// [`BadMessage`] if the bytes are no such answer of this version.
pub fn decode_moved(bytes: &Bytes) -> Result<Option<MovedValue>, BadMessage> {
    let sent: Option<SentValue<'_>> = from_bytes(body_of(bytes)?)?;
    Ok(sent.map(|SentValue { left_ms, plan, entry }| MovedValue {
        left_ms,
        plan,
        entry: bytes.slice_ref(entry.0),
    }))
}
