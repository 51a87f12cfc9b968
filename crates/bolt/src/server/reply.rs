//! The server's messages as bytes, in chunks and ready to be sent.

use hopcache_packstream::{Value, Writer};

use super::chunks::{CHUNK_BYTES_MAX, frame, frame_parts};
use super::handshake::Version;

const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;
const IGNORED: u8 = 0x7E;
const FAILURE: u8 = 0x7F;
/// The start of a RECORD message: a structure of one field.
const RECORD_HEAD: [u8; 2] = [0xB1, RECORD];
/// An empty message, which shows that the connection lives.
pub const NOOP: [u8; 2] = [0, 0];
/// GQL status of an error without one of its own (ISO/IEC 39075, class 50; Neo4j, "Errors").
const GQL_UNKNOWN: &str = "50N42";
const GQL_UNKNOWN_DESCRIPTION: &str = "error: general processing exception - unexpected error. Unexpected error has occurred. See debug log for details.";

/// Appends SUCCESS with this map.
pub fn success(out: &mut Vec<u8>, metadata: &Value) {
    with_map(out, SUCCESS, metadata);
}

/// Appends IGNORED.
pub fn ignored(out: &mut Vec<u8>) {
    frame(out, &[0xB0, IGNORED]);
}

/// Appends a RECORD: `list` is the bytes of one PackStream list.
pub fn record(out: &mut Vec<u8>, list: &[u8]) {
    frame_parts(out, &RECORD_HEAD, list);
}

/// Appends the chunk of a RECORD that begins at this byte of its list, and the end of the message behind the last chunk. Returns where
/// the next chunk begins: at the end of the list there is none.
pub fn record_chunk(out: &mut Vec<u8>, list: &[u8], at: usize) -> usize {
    let head: &[u8] = if at == 0 { &RECORD_HEAD } else { &[] };
    let end = list.len().min(at + CHUNK_BYTES_MAX - head.len());
    let len = u16::try_from(head.len() + end - at).unwrap_or(u16::MAX);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(&list[at..end]);
    if end == list.len() {
        out.extend_from_slice(&NOOP);
    }
    end
}

/// Appends FAILURE in the form of the version: from 5.7 on with a GQL status.
pub fn failure(out: &mut Vec<u8>, version: Version, code: &str, message: &str) {
    let text = |name: &str, value: &str| (name.to_owned(), Value::from(value));
    let metadata = if version.has_gql_failures() {
        let diagnostics = [text("OPERATION", ""), text("OPERATION_CODE", "0"), text("CURRENT_SCHEMA", "/")];
        Value::Map(vec![
            text("neo4j_code", code),
            text("message", message),
            text("gql_status", GQL_UNKNOWN),
            text("description", GQL_UNKNOWN_DESCRIPTION),
            ("diagnostic_record".to_owned(), Value::Map(diagnostics.into())),
        ])
    } else {
        Value::Map(vec![text("code", code), text("message", message)])
    };
    with_map(out, FAILURE, &metadata);
}

fn with_map(out: &mut Vec<u8>, tag: u8, metadata: &Value) {
    let mut writer = Writer::new();
    writer.structure(tag, 1);
    writer.value(metadata);
    frame(out, &writer.into_bytes());
}

/// The kind of a server's message, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyKind {
    /// SUCCESS.
    Success,
    /// RECORD.
    Record,
    /// IGNORED.
    Ignored,
    /// FAILURE.
    Failure,
}

impl ReplyKind {
    /// The kind of a message (without chunks).
    #[must_use]
    pub fn of(message: &[u8]) -> Option<Self> {
        match *message.get(1)? {
            SUCCESS => Some(Self::Success),
            RECORD => Some(Self::Record),
            IGNORED => Some(Self::Ignored),
            FAILURE => Some(Self::Failure),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use hopcache_packstream::Reader;

    use super::*;
    use crate::server::chunks::Chunks;

    fn metadata(framed: &[u8]) -> Value {
        let message = Chunks::default().next(&mut BytesMut::from(framed), 1 << 16).unwrap().unwrap();
        assert_eq!(ReplyKind::of(&message), Some(ReplyKind::Failure));
        Reader::new(&message[2..]).value().unwrap()
    }

    #[test]
    fn failures_have_the_form_of_the_version() {
        let failed = |version| {
            let mut out = Vec::new();
            failure(&mut out, version, "Neo.ClientError.Request.Invalid", "no");
            metadata(&out)
        };
        let old = failed(Version::new(5, 6));
        assert_eq!(old.get("code"), Some(&Value::from("Neo.ClientError.Request.Invalid")));
        assert_eq!((old.get("message"), old.get("gql_status")), (Some(&Value::from("no")), None));
        let new = failed(Version::new(5, 7));
        assert_eq!(new.get("neo4j_code"), Some(&Value::from("Neo.ClientError.Request.Invalid")));
        assert_eq!((new.get("gql_status"), new.get("code")), (Some(&Value::from("50N42")), None));
        // As Neo4j describes it; the drivers of Java and Go show it.
        let described = new.get("description").and_then(Value::as_str).unwrap_or_default();
        assert!(
            described
                .ends_with("unexpected error. Unexpected error has occurred. See debug log for details.")
        );
    }

    #[test]
    fn a_record_is_its_list_behind_two_bytes() {
        let mut out = Vec::new();
        record(&mut out, &[0x91, 0x01]);
        assert_eq!(out, [0, 4, 0xB1, 0x71, 0x91, 0x01, 0, 0]);
    }

    #[test]
    fn a_record_in_chunks_is_the_same_message() {
        for len in [1, 2, 65_532, 65_533, 65_534, 65_535, 65_536, 131_068, 131_069, 200_000] {
            let list: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let (mut whole, mut chunks, mut at) = (Vec::new(), Vec::new(), 0);
            record(&mut whole, &list);
            while at < list.len() {
                at = record_chunk(&mut chunks, &list, at);
            }
            assert!(chunks == whole, "{len}");
        }
    }
}
