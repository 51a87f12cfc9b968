//! The rendering of the Bolt front: a result whose records are RECORD messages in chunks, as they go to the socket. So a hit
//! copies bytes, and looks at no record. Clients of Bolt 4 get the stored form instead, because their records are rewritten.
//!
//! The parts before the records are those of the stored form ([`ResultSet::to_bytes`]). The last byte says whether a record has
//! a value that came with Bolt 6: for an older client such messages are rewritten.

use bytes::Bytes;
use hopcache_bolt::server::old_values::has_new_values;
use hopcache_bolt::server::reply;
use hopcache_core::limits::PASS_THROUGH_BYTES_MAX;
use hopcache_core::result::ResultSet;
use hopcache_engine::rendering::{RenderError, RenderingId};
use hopcache_packstream::Reader;

/// The bytes of a RECORD before its list.
const RECORD_HEAD_BYTES: usize = 2;

/// Its name.
pub(crate) const MESSAGES: RenderingId = RenderingId(254);
const _: () = assert!(MESSAGES.is_bare());

/// Makes it.
///
/// # Errors
/// [`RenderError::BadRecords`], [`RenderError::TooLarge`].
pub(crate) fn render(result: &ResultSet) -> Result<Vec<u8>, RenderError> {
    let mut messages = Vec::with_capacity(result.records.len() + result.records.len() / 4);
    let mut rest = &result.records[..];
    while !rest.is_empty() {
        let record = Reader::new(rest).skip().map_err(|_| RenderError::BadRecords)?;
        reply::record(&mut messages, record);
        rest = &rest[record.len()..];
        if messages.len() > PASS_THROUGH_BYTES_MAX {
            return Err(RenderError::TooLarge { limit_bytes: PASS_THROUGH_BYTES_MAX });
        }
    }
    let has_new = has_new_values(&result.records);
    let mut rendered = ResultSet { records: messages.into(), ..result.clone() }.to_bytes();
    rendered.push(u8::from(has_new));
    Ok(rendered)
}

/// The result of a rendering, and whether a record has a value that came with Bolt 6. `None` if these bytes are none.
pub(super) fn read(rendered: &Bytes) -> Option<(ResultSet, bool)> {
    let (has_new, rest) = rendered.split_last()?;
    let result = ResultSet::from_bytes(&rendered.slice_ref(rest)).ok()?;
    Some((result, *has_new != 0))
}

/// Puts the record of one whole message in place of what `record` had.
pub(super) fn record_in(message: &[u8], record: &mut Vec<u8>) {
    record.clear();
    let mut rest = message;
    while let Some((header, chunks)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*header)).min(chunks.len());
        record.extend_from_slice(&chunks[..len]);
        rest = &chunks[len..];
    }
    record.drain(..RECORD_HEAD_BYTES.min(record.len()));
}

/// The first message of `bytes`, with its chunks' headers; all that is left, if its end is missing.
pub(super) fn first_message(bytes: &[u8]) -> &[u8] {
    let mut end = 0;
    while let Some(header) = bytes.get(end..).and_then(<[u8]>::first_chunk::<2>) {
        let len = usize::from(u16::from_be_bytes(*header));
        end += header.len() + len;
        if len == 0 {
            return &bytes[..end];
        }
    }
    bytes
}

/// The longest run of whole messages from the front of `bytes`: at most `messages_max` of them, and, from the second on, at
/// most `bytes_max` bytes. Returns it with the number of its messages.
pub(super) fn piece_of(bytes: &Bytes, messages_max: u64, bytes_max: usize) -> (Bytes, u64) {
    let (mut end, mut count) = (0, 0);
    while count < messages_max && end < bytes.len() {
        let message = first_message(&bytes[end..]).len();
        if count > 0 && end + message > bytes_max {
            break;
        }
        end += message;
        count += 1;
    }
    (bytes.slice(..end), count)
}

#[cfg(test)]
mod tests {
    use hopcache_packstream::{Value, encode};
    use proptest::prelude::*;

    use super::*;

    fn result(texts: &[String]) -> ResultSet {
        let records: Vec<u8> =
            texts.iter().flat_map(|text| encode(&Value::List(vec![text.as_str().into()]))).collect();
        ResultSet {
            fields: vec!["text".to_owned()],
            records: records.into(),
            rows: texts.len() as u64,
            kind: None,
            summary: Value::Map(vec![("db".to_owned(), "neo4j".into())]),
            bookmark: None,
            range: None,
            marked: None,
        }
    }

    proptest! {
        /// However it is cut, the pieces are the messages of all records, and each piece ends with a message.
        #[test]
        fn pieces_are_whole_messages_and_together_the_records(
            lens in proptest::collection::vec(prop_oneof![0_usize..40, 65_500_usize..65_600], 0..12),
            messages_max in 1_u64..5,
            bytes_max in 1_usize..70_000,
        ) {
            let texts: Vec<String> = lens.iter().map(|len| "x".repeat(*len)).collect();
            let stored = result(&texts);
            let (rendered, has_new) = read(&render(&stored).unwrap().into()).unwrap();
            prop_assert!(!has_new);
            prop_assert_eq!((&rendered.fields, rendered.rows, &rendered.summary), (&stored.fields, stored.rows, &stored.summary));
            let mut expected = Vec::new();
            for text in &texts {
                reply::record(&mut expected, &encode(&Value::List(vec![text.as_str().into()])));
            }
            let (mut rest, mut sent, mut records) = (rendered.records, Vec::new(), 0);
            while !rest.is_empty() {
                let (piece, count) = piece_of(&rest, messages_max, bytes_max);
                prop_assert!((1..=messages_max).contains(&count));
                prop_assert!(piece.len() <= bytes_max || count == 1);
                prop_assert!(piece.ends_with(&[0, 0]));
                let mut record = Vec::new();
                record_in(first_message(&piece), &mut record);
                prop_assert_eq!(record, encode(&Value::List(vec![texts[usize::try_from(records).unwrap()].as_str().into()])));
                sent.extend_from_slice(&piece);
                records += count;
                rest = rest.slice(piece.len()..);
            }
            prop_assert_eq!(records, stored.rows);
            prop_assert_eq!(sent, expected);
        }

        /// I13: bytes that are no messages end the piece, and nothing panics.
        #[test]
        fn bytes_that_are_no_messages_are_one_piece(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = Bytes::from(bytes);
            let (piece, _) = piece_of(&bytes, u64::MAX, usize::MAX);
            prop_assert_eq!(piece, bytes);
        }
    }

    #[test]
    fn records_that_are_none_have_no_rendering() {
        let bad = ResultSet { records: Bytes::from_static(&[0x91]), ..result(&[]) };
        assert_eq!(render(&bad), Err(RenderError::BadRecords));
    }
}
