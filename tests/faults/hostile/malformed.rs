//! Bytes that are no request, or too many of them: each is refused in Neo4j's shape, and the node serves on.

use std::time::Duration;

use base64::Engine as _;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Alone, assert_error};
use crate::support::http::{self, RawAnswer, connect, listen, send_raw};
use crate::support::say;

/// The bounds of a request's head.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 100;

const BODY: &str = r#"{"statement":"RETURN 'bytes' AS x"}"#;

/// A query with these bytes as further lines of its head.
fn with(target: &[u8], lines: &[u8], body: &[u8]) -> Vec<u8> {
    let start = [
        &b"POST "[..],
        target,
        b" HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\naccept: application/json\r\n",
    ];
    let length = format!("content-length: {}\r\n\r\n", body.len());
    [&start.concat()[..], http::login().as_bytes(), lines, length.as_bytes(), body].concat()
}

/// A query's head, with this length for its body.
fn announced(bytes: usize) -> Vec<u8> {
    let head = String::from_utf8(with(QUERY, b"", b"")).unwrap();
    head.replace("content-length: 0", &format!("content-length: {bytes}")).into_bytes()
}

/// A query whose body has this length, and does not say so.
fn chunked(bytes: usize) -> Vec<u8> {
    let head = String::from_utf8(with(QUERY, b"", b"")).unwrap();
    let head = head.replace("content-length: 0", "transfer-encoding: chunked");
    [format!("{head}{bytes:x}\r\n").into_bytes(), vec![b' '; bytes], b"\r\n0\r\n\r\n".to_vec()].concat()
}

const QUERY: &[u8] = b"/db/neo4j/query/v2";

/// Name, bytes, status, end of the code.
type Case = (&'static str, Vec<u8>, u16, &'static str);

fn cases() -> Vec<Case> {
    let line = |bytes: usize| format!("x: {}\r\n", "x".repeat(bytes)).into_bytes();
    let plain = with(QUERY, b"", b"");
    let plain_head = plain.len() + "35".len() - "0".len();
    let field = |head: usize| line(head - plain_head - line(0).len());
    // Six rows are hopcache's own.
    let fields = |count: usize| "x: y\r\n".repeat(count - 5).into_bytes();
    let stranger = |length: usize| {
        let head = format!(
            "POST /db/neo4j/query/v2 HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\naccept: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        [head.into_bytes(), vec![b' '; length]].concat()
    };
    vec![
        ("NUL in a field", with(QUERY, b"x: a\0b\r\n", BODY.as_bytes()), 400, ".HeadUnreadable"),
        (
            "invalid UTF-8 in a hint",
            with(QUERY, b"hopcache-hint: \xff\xfe\r\n", BODY.as_bytes()),
            400,
            ".BadHeader",
        ),
        (
            "invalid UTF-8 in a session",
            with(QUERY, b"hopcache-session: \xff\xfe\r\n", BODY.as_bytes()),
            202,
            "",
        ),
        (
            "invalid UTF-8 in the path",
            with(b"/db/\xff\xfe/query/v2", b"", BODY.as_bytes()),
            400,
            ".HeadUnreadable",
        ),
        (
            "escaped invalid UTF-8 in the path",
            with(b"/db/%ff%fe/query/v2", b"", BODY.as_bytes()),
            400,
            ".BadDatabaseName",
        ),
        ("escaped NUL in the path", with(b"/db/%00/query/v2", b"", BODY.as_bytes()), 404, ""),
        ("as many fields as may be", with(QUERY, &fields(HEADERS_MAX), BODY.as_bytes()), 202, ""),
        ("one field more", with(QUERY, &fields(HEADERS_MAX + 1), BODY.as_bytes()), 431, ".HeadTooLarge"),
        ("5,000 fields", with(QUERY, &fields(5_000), BODY.as_bytes()), 431, ".HeadTooLarge"),
        ("a head as large as may be", with(QUERY, &field(HEAD_BYTES_MAX), BODY.as_bytes()), 202, ""),
        ("one byte more", with(QUERY, &field(HEAD_BYTES_MAX + 1), BODY.as_bytes()), 431, ".HeadTooLarge"),
        ("a field of 40,000 bytes", with(QUERY, &line(40_000), BODY.as_bytes()), 431, ".HeadTooLarge"),
        ("a field of 10 MB", with(QUERY, &line(10 << 20), BODY.as_bytes()), 431, ".HeadTooLarge"),
        ("a target of 64 KB", with(&[b"/", &[b'x'; 64 << 10][..]].concat(), b"", b""), 431, ".HeadTooLarge"),
        ("a body of 5 MB without a length", chunked(5 << 20), 413, ".RequestTooLarge"),
        ("a body over node.message_max", announced(64 << 20 | 1), 413, ".RequestTooLarge"),
        ("a stranger's body of 5 MB", stranger(5 << 20), 401, ".Unauthorized"),
        ("a stranger's body", stranger(64 << 10), 401, ".Unauthorized"),
        ("rubbish", vec![0xa5; 100 << 10], 400, ".HeadUnreadable"),
        (
            "a TLS greeting",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(20),
            400,
            ".HeadUnreadable",
        ),
        ("no line end", vec![b'A'; 100 << 10], 431, ".HeadTooLarge"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_bytes_are_refused_in_words() {
    let alone = Alone::start("").await;
    let addr = alone.node.addrs.client;
    let cases = cases();
    let count = cases.len();
    for (what, bytes, status, code) in cases {
        // The connection stays open if the request was read to its end.
        let is_kept = matches!(status, 202 | 404) || code.starts_with(".Bad");
        let most = Duration::from_millis(if is_kept { 700 } else { 8_000 });
        let answer = send_raw(addr, &bytes, most).await;
        let replies = answer.replies();
        assert_eq!(replies.len(), 1, "{what}: {answer}");
        assert_ne!(answer.is_closed, is_kept, "{what}: {answer}");
        if status == 202 {
            assert_eq!(replies[0].value(), "bytes", "{what}");
        } else {
            assert_error(what, &replies[0], status, code);
        }
    }
    assert!(alone.refused("head_unreadable").await >= 4.0);
    assert!(alone.refused("head_too_large").await >= 6.0);
    assert_eq!(alone.node.ask(&http::query("RETURN 'bytes' AS x", &json!({}))).await.value(), "bytes");
    say(&format!("{count} kinds of bad bytes answered as they should"));
}

/// A body that ends early is refused, and nothing of it is run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_cut_is_not_run() {
    let alone = Alone::start("").await;
    let mut stream = connect(alone.node.addrs.client).await.unwrap();
    let bytes = with(QUERY, b"", BODY.as_bytes());
    let bytes = String::from_utf8(bytes).unwrap().replace("content-length: 35", "content-length: 50");
    assert!(bytes.contains("content-length: 50"));
    stream.write_all(bytes.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = listen(stream, Duration::from_secs(5)).await;
    assert!(answer.is_closed, "{answer}");
    if let Some(reply) = answer.replies().first() {
        assert_error("cut", reply, 400, ".BodyCut");
    }
    assert!(alone.proxy.seen("'bytes'").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_before_sending_is_told_to_go_on_or_refused() {
    let alone = Alone::start("").await;
    let addr = alone.node.addrs.client;
    let head = |login: &str, length: usize| {
        format!(
            "POST /db/neo4j/query/v2 HTTP/1.1\r\nhost: h\r\n{login}content-type: application/json\r\naccept: application/json\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let mut stream = connect(addr).await.unwrap();
    stream.write_all(head(&http::login(), BODY.len()).as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    let reply = http::exchange(&mut stream, BODY.as_bytes()).await.unwrap();
    assert_eq!(reply.value(), "bytes");

    let wrong = base64::engine::general_purpose::STANDARD.encode("hc-nobody:wrong");
    for (login, length, status) in
        [(String::new(), 1 << 20, 401), (format!("authorization: Basic {wrong}\r\n"), 1 << 20, 401)]
    {
        let answer: RawAnswer = send_raw(addr, head(&login, length).as_bytes(), Duration::from_secs(5)).await;
        let replies = answer.replies();
        assert_eq!(replies.len(), 1, "a 100 Continue came: {answer}");
        assert_error("a stranger", &replies[0], status, ".Unauthorized");
    }
}
