//! Marks of written databases, as bytes.

use bytes::Bytes;
use hopcache_core::limits::WRITTEN_RECORDS_MAX;
use hopcache_core::written::WrittenRecord;

use super::{BadMessage, Head, KIND_WRITTEN, VERSION};

/// Writes a telling.
#[must_use]
pub fn encode_written(records: &[WrittenRecord]) -> Bytes {
    let mut bytes = Vec::with_capacity(2 + records.len() * WrittenRecord::BYTES_MAX);
    bytes.extend_from_slice(&[VERSION, KIND_WRITTEN]);
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

pub(super) fn read_written(head: &mut Head<'_>) -> Result<Vec<WrittenRecord>, BadMessage> {
    let mut records = Vec::new();
    while head.end().is_err() {
        if records.len() >= WRITTEN_RECORDS_MAX {
            return Err(BadMessage::Form("too many marks"));
        }
        records.push(WrittenRecord::read(&mut head.0).ok_or(BadMessage::Form("mark"))?);
    }
    Ok(records)
}
