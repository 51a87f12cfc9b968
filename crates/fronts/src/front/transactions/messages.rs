//! A client's request about a transaction, for the node that holds it, and that node's answer: bytes in, bytes out. The
//! session between peers makes them secret and authentic (`peer::auth`). The request has the client's credentials, as
//! forwarded queries have.
//!
//! ```text
//! request   version, 66, nonce (16 bytes), [method, path, [[name, value], …], body]
//! answer    [status, [class, kept or reason, role], [[name, value], …], body]
//! ```
//!
//! A node of a release before these messages refuses them, and counts as a node that cannot be asked.

use bytes::Bytes;
use hopcache_core::limits::HOLDER_PATH_BYTES_MAX;
use hopcache_core::words::Word;
use hopcache_engine::message::{KIND_OF_FRONTS_MIN, VERSION};
use hopcache_engine::outcome::{Class, How, Kept, Reason, Role};
use hopcache_packstream::{Reader, Token, Writer};
use http::header::{ACCEPT, AGE, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::Handled;

const KIND: u8 = KIND_OF_FRONTS_MIN + 2;
const NONCE_BYTES: usize = 16;
/// Headers that decide the answer.
const ASKED_HEADERS: [HeaderName; 8] = [
    AUTHORIZATION,
    ACCEPT,
    CONTENT_TYPE,
    CACHE_CONTROL,
    HeaderName::from_static("hopcache-hint"),
    HeaderName::from_static("hopcache-freshness"),
    HeaderName::from_static("hopcache-session"),
    HeaderName::from_static("traceparent"),
];
/// Headers of an answer that its client gets. The others are the same for all answers.
const ANSWER_HEADERS: [HeaderName; 5] =
    [CONTENT_TYPE, AGE, RETRY_AFTER, WWW_AUTHENTICATE, HeaderName::from_static("cache-status")];

/// Identifies one request of a client. A request that arrives twice is carried out once.
pub type Nonce = [u8; NONCE_BYTES];

/// A client's request at the node that holds its transaction.
#[derive(Debug)]
pub struct HolderRequest {
    /// Its own.
    pub nonce: Nonce,
    /// Method, path and the headers that decide the answer.
    pub head: Parts,
    /// The whole body.
    pub body: Bytes,
}

/// Writes a request.
#[must_use]
pub fn encode_request(nonce: Nonce, head: &Parts, body: &Bytes) -> Bytes {
    let mut writer = Writer::new();
    writer.list(4);
    writer.string(head.method.as_str());
    writer.string(head.uri.path());
    write_headers(&mut writer, &head.headers, &ASKED_HEADERS);
    writer.bytes(body);
    [&[VERSION, KIND][..], &nonce, &writer.into_bytes()].concat().into()
}

/// Whether a message is a request about a transaction.
pub(super) fn is_request(message: &[u8]) -> bool {
    message.starts_with(&[VERSION, KIND])
}

/// Reads a request. `None` for any other bytes.
#[must_use]
pub fn decode_request(message: &Bytes) -> Option<HolderRequest> {
    let (nonce, rest) = message.strip_prefix(&[VERSION, KIND])?.split_first_chunk::<NONCE_BYTES>()?;
    let mut reader = Reader::new(rest);
    let Token::List(4) = reader.token().ok()? else { return None };
    let method = Method::from_bytes(text(&mut reader)?.as_bytes()).ok()?;
    let path = text(&mut reader)?;
    // Another form of a target has no path: `encode_request` never writes it.
    if path.len() > HOLDER_PATH_BYTES_MAX || !path.starts_with('/') {
        return None;
    }
    let mut request = http::Request::builder().method(method).uri(path).body(()).ok()?;
    read_headers(&mut reader, request.headers_mut(), &ASKED_HEADERS)?;
    let body = bytes(&mut reader, message)?;
    reader.is_empty().then(|| HolderRequest { nonce: *nonce, head: request.into_parts().0, body })
}

/// Writes an answer.
#[must_use]
pub fn encode_answer(handled: &Handled) -> Bytes {
    let mut writer = Writer::new();
    writer.list(4);
    writer.int(i64::from(handled.status.as_u16()));
    writer.list(3);
    how_to_ints(handled.how.as_ref()).into_iter().for_each(|number| writer.int(number));
    write_headers(&mut writer, &handled.headers, &ANSWER_HEADERS);
    writer.bytes(&handled.body);
    writer.into_bytes().into()
}

/// Reads an answer; its body stays a slice of `message`. `None` for any other bytes.
#[must_use]
pub fn decode_answer(message: &Bytes) -> Option<Handled> {
    let mut reader = Reader::new(message);
    let Token::List(4) = reader.token().ok()? else { return None };
    let status = StatusCode::from_u16(u16::try_from(int(&mut reader)?).ok()?).ok()?;
    let Token::List(3) = reader.token().ok()? else { return None };
    let how = how_of_ints([int(&mut reader)?, int(&mut reader)?, int(&mut reader)?]);
    let mut headers = HeaderMap::new();
    read_headers(&mut reader, &mut headers, &ANSWER_HEADERS)?;
    let body = bytes(&mut reader, message)?;
    reader.is_empty().then_some(Handled { status, headers, body, how })
}

// Numbers between nodes are places in these lists. New items are added at the end only. What a node keeps in memory only counts as
// stored: an older version knows no other word.
const KEPT: [Kept; 3] = [Kept::Stored, Kept::Fenced, Kept::Skipped];
const ROLES: [Role; 2] = [Role::Led, Role::Joined];

/// Class, then what it is about, then the role. The ages of a hit are in its headers.
fn how_to_ints(how: Option<&How>) -> [i64; 3] {
    let place = |place: Option<usize>| place.and_then(|place| i64::try_from(place).ok()).unwrap_or(0);
    match how.map(|how| how.class) {
        None => [3, 0, 0],
        Some(Class::Hit) => [0, i64::from(how.is_some_and(|how| how.is_proved)), 0],
        Some(Class::Miss { kept, role }) => [
            1,
            place(KEPT.iter().position(|each| *each == kept)),
            place(ROLES.iter().position(|each| *each == role)),
        ],
        Some(Class::Bypass(reason)) => [2, place(Some(reason.place())), 0],
    }
}

fn how_of_ints([class, word, role]: [i64; 3]) -> Option<How> {
    let at = |place: i64| usize::try_from(place).unwrap_or(usize::MAX);
    let class = match class {
        0 => Class::Hit,
        1 => Class::Miss {
            kept: KEPT.get(at(word)).copied().unwrap_or(Kept::Skipped),
            role: ROLES.get(at(role)).copied().unwrap_or(Role::Joined),
        },
        2 => Class::Bypass(Reason::ALL.get(at(word)).copied().unwrap_or(Reason::Transaction)),
        _ => return None,
    };
    let is_proved = class == Class::Hit && word == 1;
    Some(How { class, age_ms: None, ttl_ms: None, detail: None, is_proved })
}

fn write_headers(writer: &mut Writer, headers: &HeaderMap, names: &[HeaderName]) {
    let sent = || names.iter().flat_map(|name| headers.get_all(name).iter().map(move |value| (name, value)));
    writer.list(sent().count());
    for (name, value) in sent() {
        writer.list(2);
        writer.string(name.as_str());
        writer.bytes(value.as_bytes());
    }
}

fn read_headers(reader: &mut Reader<'_>, headers: &mut HeaderMap, known: &[HeaderName]) -> Option<()> {
    let Token::List(count) = reader.token().ok()? else { return None };
    for _ in 0..count {
        let Token::List(2) = reader.token().ok()? else { return None };
        let name = text(reader)?;
        let name = known.iter().find(|each| each.as_str() == name)?;
        let Token::Bytes(value) = reader.token().ok()? else { return None };
        headers.append(name.clone(), HeaderValue::from_bytes(value).ok()?);
    }
    Some(())
}

fn text<'a>(reader: &mut Reader<'a>) -> Option<&'a str> {
    reader.key().ok()
}

fn int(reader: &mut Reader<'_>) -> Option<i64> {
    reader.value().ok()?.as_int()
}

fn bytes(reader: &mut Reader<'_>, message: &Bytes) -> Option<Bytes> {
    let Token::Bytes(bytes) = reader.token().ok()? else { return None };
    Some(message.slice_ref(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head() -> Parts {
        let request = http::Request::post("/db/neo4j/query/v2/tx/a1/commit")
            .header("authorization", "Basic x")
            .header("accept", "a/b")
            .header("accept", "c/d")
            .header("cookie", "not sent");
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_request_arrives_with_what_decides_its_answer() {
        let body = Bytes::from_static(b"{\"statement\":\"RETURN 1\"}");
        let read = decode_request(&encode_request([7; 16], &head(), &body)).unwrap();
        assert_eq!((read.nonce, &read.head.method, read.body), ([7; 16], &Method::POST, body));
        assert_eq!(read.head.uri.path(), "/db/neo4j/query/v2/tx/a1/commit");
        assert_eq!(read.head.headers.get_all("accept").iter().count(), 2);
        assert_eq!((read.head.headers.len(), read.head.headers.contains_key("cookie")), (3, false));
    }

    #[test]
    fn an_answer_arrives_with_its_class() {
        let hows = [
            None,
            Some(How { class: Class::Hit, age_ms: None, ttl_ms: None, detail: None, is_proved: true }),
            Some(How::miss(Kept::Stored, Role::Joined, None)),
            Some(How::bypass(Reason::Transaction)),
            Some(How::bypass(Reason::Write)),
        ];
        for how in hows {
            let mut headers = HeaderMap::new();
            headers.insert("cache-status", HeaderValue::from_static("node-b; hit"));
            let handled =
                Handled { status: StatusCode::ACCEPTED, headers, body: Bytes::from_static(b"{}"), how };
            let read = decode_answer(&encode_answer(&handled)).unwrap();
            assert_eq!(
                (read.status, &read.headers, &read.body),
                (handled.status, &handled.headers, &handled.body)
            );
            assert_eq!(read.how, handled.how);
        }
    }

    proptest! {
        /// I13: any bytes are read or refused.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in 0_usize..200) {
            let _ = decode_answer(&Bytes::from(bytes.clone()));
            let _ = decode_request(&Bytes::from([&[VERSION, KIND][..], &bytes].concat()));
            let whole = encode_request([1; 16], &head(), &Bytes::from_static(b"{}"));
            let part = whole.slice(..cut.min(whole.len() - 1));
            prop_assert!(decode_request(&part).is_none());
        }
    }
}
