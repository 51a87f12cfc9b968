//! A client's request about a transaction, for the node that holds it (`front_question`), and that node's answer: bytes in, bytes
//! out.

use bytes::Bytes;
use hopcache_core::limits::{HEADERS_MAX, HOLDER_PATH_BYTES_MAX};
use hopcache_core::wire::{Piece, WIRE_VERSION, at_most, from_bytes};
use hopcache_engine::message::encode_sized;
use hopcache_engine::outcome::How;
use http::header::{ACCEPT, AGE, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::{Deserialize, Serialize};

use super::TransactionResponse;

const NONCE_BYTES: usize = 16;
/// Headers that decide the answer.
static ASKED_HEADERS: [HeaderName; 8] = [
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
static ANSWER_HEADERS: [HeaderName; 5] =
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

type SentHeaders<'a> = Vec<(&'a str, Piece<'a>)>;

/// A client's request between nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentRequest<'a> {
    nonce: Nonce,
    method: &'a str,
    path: &'a str,
    #[serde(borrow, deserialize_with = "at_most::<_, _, HEADERS_MAX>")]
    headers: SentHeaders<'a>,
    pub(crate) body: Piece<'a>,
}

impl<'a> SentRequest<'a> {
    /// A client's request, to be sent.
    #[must_use]
    pub fn of(nonce: Nonce, head: &'a Parts, body: &'a Bytes) -> Self {
        let headers = sent_headers(&head.headers, &ASKED_HEADERS);
        Self { nonce, method: head.method.as_str(), path: head.uri.path(), headers, body: Piece(body) }
    }

    /// The request; its body stays a slice of `message`. `None` if it is none.
    #[must_use]
    pub fn read(self, message: &Bytes) -> Option<HolderRequest> {
        let Self { nonce, method, path, headers, body } = self;
        // Another form of a target has no path: no node writes it.
        if path.len() > HOLDER_PATH_BYTES_MAX || !path.starts_with('/') {
            return None;
        }
        let method = Method::from_bytes(method.as_bytes()).ok()?;
        let mut request = http::Request::builder().method(method).uri(path).body(()).ok()?;
        *request.headers_mut() = read_headers(headers, &ASKED_HEADERS)?;
        Some(HolderRequest { nonce, head: request.into_parts().0, body: message.slice_ref(body.0) })
    }
}

#[derive(Serialize, Deserialize)]
struct SentAnswer<'a> {
    status: u16,
    how: Option<How>,
    #[serde(borrow, deserialize_with = "at_most::<_, _, HEADERS_MAX>")]
    headers: SentHeaders<'a>,
    body: Piece<'a>,
}

/// Writes an answer.
#[must_use]
pub fn encode_answer(handled: &TransactionResponse) -> Bytes {
    let answer = SentAnswer {
        status: handled.status.as_u16(),
        how: handled.how,
        headers: sent_headers(&handled.headers, &ANSWER_HEADERS),
        body: Piece(&handled.body),
    };
    encode_sized(&answer, 256 + handled.body.len())
}

/// Reads an answer; its body stays a slice of `message`. `None` for any other bytes.
#[must_use]
pub fn decode_answer(message: &Bytes) -> Option<TransactionResponse> {
    let answer: SentAnswer<'_> = from_bytes(message.strip_prefix(&[WIRE_VERSION])?).ok()?;
    let status = StatusCode::from_u16(answer.status).ok()?;
    let headers = read_headers(answer.headers, &ANSWER_HEADERS)?;
    Some(TransactionResponse { status, headers, body: message.slice_ref(answer.body.0), how: answer.how })
}

fn sent_headers<'a>(headers: &'a HeaderMap, names: &'a [HeaderName]) -> SentHeaders<'a> {
    let sent = names.iter().flat_map(|name| headers.get_all(name).iter().map(move |value| (name, value)));
    sent.map(|(name, value)| (name.as_str(), Piece(value.as_bytes()))).collect()
}

fn read_headers(sent: SentHeaders<'_>, known: &[HeaderName]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in sent {
        let name = known.iter().find(|each| each.as_str() == name)?;
        headers.append(name.clone(), HeaderValue::from_bytes(value.0).ok()?);
    }
    Some(headers)
}

#[cfg(test)]
mod tests {
    use hopcache_engine::outcome::{Class, Detail, Kept, Reason, Role};

    use hopcache_core::time::Millis;

    use super::*;
    use crate::front_question::FrontQuestion;

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
        let (sent, head) = (&body, head());
        let message = FrontQuestion::Transaction(SentRequest::of([7; 16], &head, sent)).encode();
        let Some(FrontQuestion::Transaction(sent)) = FrontQuestion::decode(&message) else { unreachable!() };
        let read = sent.read(&message).unwrap();
        assert_eq!((read.nonce, &read.head.method, read.body), ([7; 16], &Method::POST, body));
        assert_eq!(read.head.uri.path(), "/db/neo4j/query/v2/tx/a1/commit");
        assert_eq!(read.head.headers.get_all("accept").iter().count(), 2);
        assert_eq!((read.head.headers.len(), read.head.headers.contains_key("cookie")), (3, false));
    }

    #[test]
    fn an_answer_arrives_with_its_class() {
        let hows = [
            None,
            Some(How {
                class: Class::Hit,
                age_ms: Some(Millis(9)),
                ttl_ms: Some(-7),
                detail: Some(Detail::Stale),
                is_proved: true,
            }),
            Some(How::miss(Kept::Stored, Role::Joined, None)),
            Some(How::miss(Kept::InMemory, Role::Led, None)),
            Some(How::bypass(Reason::Transaction)),
            Some(How::bypass(Reason::Write)),
        ];
        for how in hows {
            let mut headers = HeaderMap::new();
            headers.insert("cache-status", HeaderValue::from_static("node-b; hit"));
            let handled = TransactionResponse {
                status: StatusCode::ACCEPTED,
                headers,
                body: Bytes::from_static(b"{}"),
                how,
            };
            let read = decode_answer(&encode_answer(&handled)).unwrap();
            assert_eq!(
                (read.status, &read.headers, &read.body),
                (handled.status, &handled.headers, &handled.body)
            );
            assert_eq!(read.how, handled.how);
        }
    }
}
