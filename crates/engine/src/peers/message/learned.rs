//! Questions between nodes for learning: the fields of results, and the differences of lessons.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{FIELDS_ANSWER_BYTES_MAX, FIELDS_ASKED_MAX, PULL_DIGEST_BYTES_MAX};
use hopcache_learning::fields::Fields;

use super::{BadMessage, Head, KIND_FIELDS, KIND_PULL, VERSION};

/// Asks the owner of these keys for the fields of their results; at most [`FIELDS_ASKED_MAX`] keys.
#[must_use]
pub fn encode_fields_wanted(keys: &[QueryKey]) -> Bytes {
    let keys = keys.get(..FIELDS_ASKED_MAX).unwrap_or(keys);
    let mut bytes = Vec::with_capacity(2 + keys.len() * 32);
    bytes.extend_from_slice(&[VERSION, KIND_FIELDS]);
    keys.iter().for_each(|key| bytes.extend_from_slice(&key.0));
    bytes.into()
}

pub(super) fn read_fields_wanted(head: &mut Head<'_>) -> Result<Vec<QueryKey>, BadMessage> {
    if head.0.len() > FIELDS_ASKED_MAX * 32 {
        return Err(BadMessage::Form("too many keys"));
    }
    let mut keys = Vec::with_capacity(head.0.len() / 32);
    while !head.0.is_empty() {
        keys.push(QueryKey(head.take()?));
    }
    Ok(keys)
}

/// The answer: for each key, in order, the length of its fields and these. Zero means none. Fields beyond
/// [`FIELDS_ANSWER_BYTES_MAX`] in total are left out.
#[must_use]
pub fn encode_fields(fields: impl Iterator<Item = Option<Arc<Fields>>>) -> Bytes {
    let mut bytes = vec![VERSION];
    for each in fields {
        let encoded = each.map(|fields| fields.encode()).unwrap_or_default();
        let fits = bytes.len() + encoded.len() <= FIELDS_ANSWER_BYTES_MAX;
        let encoded = if fits { &encoded[..] } else { &[] };
        bytes.extend_from_slice(&u32::try_from(encoded.len()).unwrap_or(0).to_be_bytes());
        bytes.extend_from_slice(encoded);
    }
    bytes.into()
}

/// Reads the answer to a question for `count` keys.
///
/// # Errors
/// [`BadMessage`] if the bytes are no such answer of this version.
pub fn decode_fields(bytes: &[u8], count: usize) -> Result<Vec<Option<Fields>>, BadMessage> {
    let mut head = Head(bytes);
    match head.byte()? {
        VERSION => {}
        other => return Err(BadMessage::Version(other)),
    }
    let mut all = Vec::with_capacity(count.min(FIELDS_ASKED_MAX));
    for _ in 0..count {
        let len = usize::try_from(u32::from_be_bytes(head.take()?)).unwrap_or(usize::MAX);
        let (encoded, rest) = head.0.split_at_checked(len).ok_or(BadMessage::Form("cut"))?;
        head.0 = rest;
        all.push(if len == 0 { None } else { Fields::decode(encoded) });
    }
    head.end()?;
    Ok(all)
}

/// Asks a node for the differences from this digest.
#[must_use]
pub fn encode_pull(digest: &[u8]) -> Bytes {
    [&[VERSION, KIND_PULL][..], digest].concat().into()
}

pub(super) fn read_pull(rest: Bytes) -> Result<Bytes, BadMessage> {
    if rest.len() > PULL_DIGEST_BYTES_MAX { Err(BadMessage::Form("digest")) } else { Ok(rest) }
}
