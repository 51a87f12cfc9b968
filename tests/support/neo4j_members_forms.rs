//! Forms of a scripted member's messages: SUCCESS, FAILURE, and a bookmark's id.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::bolt_bytes::single_field;
use super::{DATABASE, FAILURE, SUCCESS};

/// The id of the database in a bookmark, in any of PackStream's forms of a number.
pub(super) fn id_in(bookmark: &str) -> Option<u64> {
    let bytes = STANDARD.decode(bookmark.strip_prefix("FB:")?).ok()?;
    let at = bytes.windows(16).position(|part| part == DATABASE)? + 16;
    let number = |width: usize| {
        let part = bytes.get(at + 1..=at + width)?;
        Some(part.iter().fold(0, |id: u64, byte| id << 8 | u64::from(*byte)))
    };
    match bytes.get(at)? {
        small @ 0..=0x7F => Some(u64::from(*small)),
        0xC8 => number(1),
        0xC9 => number(2),
        0xCA => number(4),
        0xCB => number(8),
        _ => None,
    }
}

pub(super) fn success(metadata: &Value) -> Vec<u8> {
    single_field(SUCCESS, metadata)
}

pub(super) fn failure(code: &str, message: &str) -> Vec<u8> {
    single_field(FAILURE, &json!({"code": code, "message": message}))
}
