//! A node's tally of its writes, as bytes.

use bytes::Bytes;
use hopcache_core::bookmark::{DatabaseUuid, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{TALLY_UNCLEAR_MAX, TALLY_WRITES_MAX};
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::proof::{IdRange, Tally};
use hopcache_core::written::WrittenEpoch;

use super::{BadMessage, Head, KIND_TALLY, VERSION};

/// In the place of a number: nobody knows how many ids a write takes.
const UNCOUNTED: u64 = u64::MAX;

/// Writes a question for the tally of a database, by one of its names.
#[must_use]
pub fn encode_tally_wanted(name: DatabaseTag, range: &IdRange) -> Bytes {
    let mut bytes = vec![VERSION, KIND_TALLY];
    bytes.extend_from_slice(&name.0.to_be_bytes());
    bytes.extend_from_slice(&range.database.0);
    for number in [range.epoch.0, range.after.0, range.until.0, range.doubted] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.into()
}

pub(super) fn read_tally_wanted(head: &mut Head<'_>) -> Result<(DatabaseTag, IdRange), BadMessage> {
    let name = DatabaseTag(u64::from_be_bytes(head.take()?));
    let database = DatabaseUuid(head.take()?);
    let mut number = || head.take().map(u64::from_be_bytes);
    let epoch = WrittenEpoch(number()?);
    let (after, until) = (TransactionId(number()?), TransactionId(number()?));
    let doubted = number()?;
    head.end().map(|()| (name, IdRange { database, epoch, after, until, doubted }))
}

/// Writes the answer: whose tally it is, and the tally.
#[must_use]
pub fn encode_tally(whose: &Holder, tally: &Tally) -> Bytes {
    let mut bytes = vec![VERSION, KIND_TALLY];
    let mut number = |number: u64| bytes.extend_from_slice(&number.to_be_bytes());
    let counts = [tally.over.len(), tally.unclear.len()].map(|count| count as u64);
    [whose.incarnation.0, tally.begun].into_iter().chain(counts).for_each(&mut number);
    for (bookmark, ids_max) in &tally.over {
        [bookmark.0, *ids_max].into_iter().for_each(&mut number);
    }
    for (write, ids_max) in &tally.unclear {
        [*write, ids_max.unwrap_or(UNCOUNTED)].into_iter().for_each(&mut number);
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
    let (begun, over, count) = (number()?, number()?, number()?);
    if over > TALLY_WRITES_MAX as u64 || count > TALLY_UNCLEAR_MAX as u64 {
        return Err(BadMessage::Form("too many writes"));
    }
    let mut is_over = || Ok((TransactionId(number()?), number()?));
    let over = (0..over).map(|_| is_over()).collect::<Result<_, BadMessage>>()?;
    let mut write = || Ok((number()?, Some(number()?).filter(|ids| *ids != UNCOUNTED)));
    let unclear = (0..count).map(|_| write()).collect::<Result<_, BadMessage>>()?;
    let name = std::str::from_utf8(head.0).ok().and_then(|name| NodeName::new(name).ok());
    let node = name.ok_or(BadMessage::Form("node"))?;
    Ok((Holder { node, incarnation }, Tally { begun, over, unclear }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_survives_its_bytes() {
        let whose = Holder { node: NodeName::new("node-b").unwrap(), incarnation: Incarnation(7) };
        let tally =
            Tally { begun: 9, over: vec![(TransactionId(4), 1)], unclear: vec![(8, Some(2)), (9, None)] };
        let bytes = encode_tally(&whose, &tally);
        assert_eq!(decode_tally(&bytes).unwrap(), (whose, tally));
        for end in 0..bytes.len() - 6 {
            assert!(decode_tally(&bytes.slice(..end)).is_err(), "{end}");
        }
    }
}
