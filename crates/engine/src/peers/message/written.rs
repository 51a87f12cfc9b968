//! Marks of written databases, and counts of writes, as bytes.

use bytes::Bytes;
use hopcache_core::limits::{COUNTED_TOLD_MAX, WRITTEN_RECORDS_MAX};
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::proof::CountedWrite;
use hopcache_core::written::WrittenRecord;

use super::{BadMessage, Head, KIND_COUNTED, KIND_WRITTEN, VERSION};

/// Plain data: what a node tells of writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldWrites {
    /// Marks, its own and those that it has heard of.
    pub records: Vec<WrittenRecord>,
    /// Its own writes, each with a mark here or in an earlier telling. With them, the node and its life.
    pub counted: Option<(Holder, Vec<CountedWrite>)>,
}

/// Writes a telling without counts.
#[must_use]
pub fn encode_written(records: &[WrittenRecord]) -> Bytes {
    let mut bytes = Vec::with_capacity(2 + records.len() * WrittenRecord::BYTES_MAX);
    bytes.extend_from_slice(&[VERSION, KIND_WRITTEN]);
    records.iter().for_each(|record| record.write(&mut bytes));
    bytes.into()
}

/// Writes a telling with counts of this life's writes.
#[must_use]
pub fn encode_counted(by: &Holder, counted: &[CountedWrite], records: &[WrittenRecord]) -> Bytes {
    let name = by.node.as_str().as_bytes();
    let mut bytes = vec![VERSION, KIND_COUNTED];
    bytes.extend_from_slice(&by.incarnation.0.to_be_bytes());
    for length in [name.len(), counted.len()] {
        bytes.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
    }
    bytes.extend_from_slice(name);
    counted.iter().for_each(|write| write.write(&mut bytes));
    records.iter().for_each(|record| record.write(&mut bytes));
    bytes.into()
}

/// Writes the answer: what the asked node knows of the same names.
#[must_use]
pub fn encode_known_written(records: &[WrittenRecord]) -> Bytes {
    encode_written(records)
}

/// Reads the answer.
///
/// # Errors
/// [`BadMessage`] if the bytes are no such answer of this version.
pub fn decode_known_written(bytes: &Bytes) -> Result<Vec<WrittenRecord>, BadMessage> {
    let mut head = Head(bytes);
    match (head.byte()?, head.byte()?) {
        (VERSION, KIND_WRITTEN) => read_written(&mut head),
        (VERSION, _) => Err(BadMessage::Form("no marks")),
        (other, _) => Err(BadMessage::Version(other)),
    }
}

pub(super) fn read_told(head: &mut Head<'_>) -> Result<ToldWrites, BadMessage> {
    read_written(head).map(|records| ToldWrites { records, counted: None })
}

pub(super) fn read_counted(head: &mut Head<'_>) -> Result<ToldWrites, BadMessage> {
    let incarnation = Incarnation(u64::from_be_bytes(head.take()?));
    let (length, count) = (u16::from_be_bytes(head.take()?), u16::from_be_bytes(head.take()?));
    let (name, rest) = head.0.split_at_checked(length.into()).ok_or(BadMessage::Form("cut"))?;
    head.0 = rest;
    let name = std::str::from_utf8(name).ok().and_then(|name| NodeName::new(name).ok());
    let by = Holder { node: name.ok_or(BadMessage::Form("node"))?, incarnation };
    if usize::from(count) > COUNTED_TOLD_MAX {
        return Err(BadMessage::Form("too many writes"));
    }
    let counted = (0..count).map(|_| CountedWrite::read(&mut head.0).ok_or(BadMessage::Form("count")));
    let counted = counted.collect::<Result<_, _>>()?;
    read_written(head).map(|records| ToldWrites { records, counted: Some((by, counted)) })
}

fn read_written(head: &mut Head<'_>) -> Result<Vec<WrittenRecord>, BadMessage> {
    let mut records = Vec::new();
    while head.end().is_err() {
        if records.len() >= WRITTEN_RECORDS_MAX {
            return Err(BadMessage::Form("too many marks"));
        }
        records.push(WrittenRecord::read(&mut head.0).ok_or(BadMessage::Form("mark"))?);
    }
    Ok(records)
}
