//! A node's tally of its writes, as bytes.

use bytes::Bytes;
use hopcache_core::key::DatabaseTag;
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::proof::Tally;

use super::{BadMessage, Head, KIND_TALLY, VERSION};

/// Writes a question for the tally of a database, by one of its names.
#[must_use]
pub fn encode_tally_wanted(name: DatabaseTag) -> Bytes {
    [&[VERSION, KIND_TALLY][..], &name.0.to_be_bytes()].concat().into()
}

pub(super) fn read_tally_wanted(head: &mut Head<'_>) -> Result<DatabaseTag, BadMessage> {
    let name = DatabaseTag(u64::from_be_bytes(head.take()?));
    head.end().map(|()| name)
}

/// Writes the answer: whose tally it is, and the tally.
#[must_use]
pub fn encode_tally(whose: &Holder, tally: &Tally) -> Bytes {
    let mut bytes = vec![VERSION, KIND_TALLY];
    let Tally { begun, ended, ids_max, open_ids_max, uncounted, open_uncounted } = *tally;
    for number in [whose.incarnation.0, begun, ended, ids_max, open_ids_max, uncounted, open_uncounted] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(whose.node.as_str().as_bytes());
    bytes.into()
}

/// Reads the answer.
///
/// # Errors
/// [`BadMessage`] if the bytes are no such answer of this version.
pub fn decode_tally(bytes: &Bytes) -> Result<(Holder, Tally), BadMessage> {
    let mut head = Head(bytes);
    match (head.byte()?, head.byte()?) {
        (VERSION, KIND_TALLY) => {}
        (VERSION, _) => return Err(BadMessage::Form("no tally")),
        (other, _) => return Err(BadMessage::Version(other)),
    }
    let mut number = || head.take().map(u64::from_be_bytes);
    let incarnation = Incarnation(number()?);
    let tally = Tally {
        begun: number()?,
        ended: number()?,
        ids_max: number()?,
        open_ids_max: number()?,
        uncounted: number()?,
        open_uncounted: number()?,
    };
    let name = std::str::from_utf8(head.0).ok().and_then(|name| NodeName::new(name).ok());
    let node = name.ok_or(BadMessage::Form("node"))?;
    Ok((Holder { node, incarnation }, tally))
}
