//! F34: requests that a proxy before hopcache and hopcache could split at different bytes. After each follows a write
//! as the tests' user, which must never run.

use std::time::Duration;

use serde_json::json;

use super::Alone;
use crate::support::cluster::{OwnLabel, at_neo4j};
use crate::support::http::{self, RawAnswer, send_raw};
use crate::support::say;

/// The required end of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// 400 in Neo4j's shape, and the connection ends.
    Refused,
    /// Answered by the one reading that RFC 9112 leaves, and the connection ends.
    Last,
}

const CARRIED: &str = r#"{"statement":"RETURN 'carrier' AS x"}"#;

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

/// A request with these framing lines, the body behind them, and the smuggled request behind that.
struct Shape {
    name: &'static str,
    fate: Fate,
    bytes: Vec<u8>,
}

struct Shapes {
    smuggled: String,
    all: Vec<Shape>,
}

impl Shapes {
    fn add(&mut self, name: &'static str, fate: Fate, framing: &str, body: &str) {
        self.add_line(name, fate, "POST /db/neo4j/query/v2 HTTP/1.1\r\nHost: h", framing, body);
    }

    fn add_line(&mut self, name: &'static str, fate: Fate, start: &str, framing: &str, body: &str) {
        let common =
            format!("{}Content-Type: application/json\r\nAccept: application/json\r\n", http::login());
        let bytes = format!("{start}\r\n{common}{framing}\r\n{body}{}", self.smuggled);
        self.all.push(Shape { name, fate, bytes: bytes.into_bytes() });
    }
}

fn both_lengths(shapes: &mut Shapes) {
    let body = chunked(CARRIED);
    let (inner, outer) = (CARRIED.len(), body.len() + shapes.smuggled.len());
    let te = "Transfer-Encoding: chunked\r\n";
    for (name, framing) in [
        ("chunked in other letters", "transfer-encoding: CHUNKED\r\n".to_owned()),
        ("chunked behind a bare line feed", "X: y\nTransfer-Encoding: chunked\r\n".to_owned()),
        ("chunked with optional space", "Transfer-Encoding: \t chunked \t\r\n".to_owned()),
        (
            "an upgrade to HTTP/2",
            format!(
                "{te}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
            ),
        ),
    ] {
        shapes.add(name, Fate::Last, &framing, &body);
    }
    for (name, framing) in [
        ("Content-Length for all, then chunked", format!("Content-Length: {outer}\r\n{te}")),
        ("chunked, then Content-Length for all", format!("{te}Content-Length: {outer}\r\n")),
        (
            "chunked between two Content-Lengths",
            format!("Content-Length: 3\r\n{te}Content-Length: {outer}\r\n"),
        ),
        ("chunked twice", te.repeat(2)),
        ("chunked twice in one line", "Transfer-Encoding: chunked, chunked\r\n".to_owned()),
        ("another encoding before chunked", "Transfer-Encoding: gzip, chunked\r\n".to_owned()),
    ] {
        shapes.add(name, Fate::Refused, &framing, &body);
    }
    let length = format!("Content-Length: {inner}\r\n");
    shapes.add("one length twice", Fate::Refused, &length.repeat(2), CARRIED);
    for (name, first, second) in
        [("short, long", inner, outer), ("long, short", outer, inner), ("zero, long", 0, outer)]
    {
        let framing = format!("Content-Length: {first}\r\nContent-Length: {second}\r\n");
        shapes.add(name, Fate::Refused, &framing, CARRIED);
        shapes.add(name, Fate::Refused, &format!("Content-Length: {first}, {second}\r\n"), CARRIED);
    }
}

fn encodings(shapes: &mut Shapes) {
    for encoding in [
        "xchunked",
        "chunkedx",
        "chunked, identity",
        "identity",
        "chunked;q=1",
        "\"chunked\"",
        "chunked\x0b",
        "\x0bchunked",
        "chunked\0",
        "",
        "gzip",
        "chunked\r\nTransfer-Encoding: identity",
        "chun\r\n ked",
        "\r\n chunked",
        "a\rTransfer-Encoding: chunked",
    ] {
        let length = CARRIED.len();
        let framing = format!("Transfer-Encoding: {encoding}\r\nContent-Length: {length}\r\n");
        shapes.add("an encoding beside a length", Fate::Refused, &framing, CARRIED);
        let framing = format!("Transfer-Encoding: {encoding}\r\n");
        shapes.add("an encoding", Fate::Refused, &framing, &chunked(CARRIED));
    }
    for name in [
        "Transfer-Encoding ",
        " Transfer-Encoding",
        "Transfer-Encoding\t",
        "Transfer\0-Encoding",
        "Transfer-Encoding\x0b",
    ] {
        let framing = format!("{name}: chunked\r\nContent-Length: {}\r\n", CARRIED.len());
        shapes.add("an invalid name", Fate::Refused, &framing, CARRIED);
    }
    let start = "POST /db/neo4j/query/v2 HTTP/1.0\r\nHost: h\r\nConnection: keep-alive";
    let body = chunked(CARRIED);
    shapes.add_line("chunked in HTTP/1.0", Fate::Refused, start, "Transfer-Encoding: chunked\r\n", &body);
}

fn lengths(shapes: &mut Shapes) {
    for length in [
        "+5",
        "-1",
        "0x25",
        "3 7",
        "37;",
        "1e1",
        "",
        "99999999999999999999999",
        "18446744073709551615",
        "٣٧",
        "37\0",
    ] {
        let framing = format!("Content-Length: {length}\r\n");
        shapes.add("an invalid length", Fate::Refused, &framing, CARRIED);
    }
    shapes.add("a name with a space", Fate::Refused, "Content-Length : 0\r\n", CARRIED);
    shapes.add("a folded length", Fate::Refused, "Content-Length:\r\n 0\r\n", CARRIED);
}

fn chunks(shapes: &mut Shapes) {
    let size = format!("{:x}", CARRIED.len());
    for (name, fate, body) in [
        ("an extension", Fate::Last, format!("{size};a=b\r\n{CARRIED}\r\n0\r\n\r\n")),
        ("trailers", Fate::Last, format!("{size}\r\n{CARRIED}\r\n0\r\nContent-Length: 9\r\nHost: x\r\n\r\n")),
        ("leading zeros", Fate::Last, format!("000{size}\r\n{CARRIED}\r\n0\r\n\r\n")),
        ("an extension with a line feed", Fate::Refused, format!("{size};a\nb\r\n{CARRIED}\r\n0\r\n\r\n")),
        ("a bare line feed", Fate::Refused, format!("{size}\n{CARRIED}\r\n0\r\n\r\n")),
        (
            "a huge extension",
            Fate::Refused,
            format!("{size};{}\r\n{CARRIED}\r\n0\r\n\r\n", "a".repeat(40_000)),
        ),
        (
            "huge trailers",
            Fate::Refused,
            format!("{size}\r\n{CARRIED}\r\n0\r\nX: {}\r\n\r\n", "a".repeat(70_000)),
        ),
        ("a size over 64 bits", Fate::Refused, format!("1{size:0>16}\r\n{CARRIED}\r\n0\r\n\r\n")),
        ("a negative size", Fate::Refused, format!("-{size}\r\n{CARRIED}\r\n0\r\n\r\n")),
        ("a size with 0x", Fate::Refused, format!("0x{size}\r\n{CARRIED}\r\n0\r\n\r\n")),
        ("no size", Fate::Refused, format!("\r\n{CARRIED}\r\n0\r\n\r\n")),
        (
            "a chunk that is longer",
            Fate::Refused,
            format!("{:x}\r\n{CARRIED}\r\n0\r\n\r\n", CARRIED.len() - 1),
        ),
        ("no line end behind a chunk", Fate::Refused, format!("{size}\r\n{CARRIED}0\r\n\r\n")),
    ] {
        shapes.add(name, fate, "Transfer-Encoding: chunked\r\n", &body);
    }
}

fn starts(shapes: &mut Shapes) {
    let length = format!("Content-Length: {}\r\n", CARRIED.len());
    for start in [
        "POST /db/neo4j/query/v2 HTTP/1.1",
        "POST /db/neo4j/query/v2 HTTP/1.1\r\nHost: h\r\nHost: i",
        "POST /db/neo4j/query/v2 HTTP/1.1\r\nHost: h\r\nHost: h",
        "POST /db/neo4j/query/v2 HTTP/1.1\r\nHost: h i",
        "POST /db/neo4j/query/v2 HTTP/1.1\r\nHost: i@h",
        "POST /db/neo4j/query/v2 HTTP/1.1\r\nHost:",
        "POST http://elsewhere/db/neo4j/query/v2 HTTP/1.1\r\nHost: h",
        "POST /db/neo4j/query/v2 HTTP/1.1\r\nHost : h",
        "POST /db/neo4j/query/v2 HTTP/1.1\r\n Host: h",
        "POST  /db/neo4j/query/v2 HTTP/1.1\r\nHost: h",
        "POST /db/neo4j/query/v2  HTTP/1.1\r\nHost: h",
        "POST /db/neo4j/query/v2 HTTP/1.1 \r\nHost: h",
        "POST\t/db/neo4j/query/v2\tHTTP/1.1\r\nHost: h",
        "POST /db/neo4j/query /v2 HTTP/1.1\r\nHost: h",
        "POST /db/neo4j/query/v2 HTTP/1.2\r\nHost: h",
        "POST /db/neo4j/query/v2 HTTP/3.0\r\nHost: h",
        "POST /db/neo4j/query/v2 http/1.1\r\nHost: h",
        "POST /db/neo4j/query/v2\r\nHost: h",
        "PO\0ST /db/neo4j/query/v2 HTTP/1.1\r\nHost: h",
        "POST /db/neo4j/query/v2\0 HTTP/1.1\r\nHost: h",
        "POST /db/neo4j/query/v2 HTTP/1.1\r\nHost: h\r\nno colon",
        "POST /db/neo4j/query/v2 HTTP/1.1\r\nHost: h\r\n: no name",
        "POST /db/neo4j/query/v2 HTTP/1.1\r\nHost: h\r\nX: a\0b",
        "POST /db/neo4j/query/v2 HTTP/1.1\r\nHost: h\r\nX: a\rb",
    ] {
        shapes.add_line("an invalid start", Fate::Refused, start, &length, CARRIED);
    }
    for start in [
        "POST http://h/db/neo4j/query/v2 HTTP/1.1\r\nHost: h",
        "POST /db/neo4j/query/v2?a=/b HTTP/1.1\r\nHost: h",
    ] {
        shapes.add_line(
            "another form of target",
            Fate::Last,
            start,
            "Transfer-Encoding: chunked\r\n",
            &chunked(CARRIED),
        );
    }
}

/// The smuggled request is the body of a request that needs none, and stays part of it.
fn bodies(shapes: &mut Shapes) {
    let whole = shapes.smuggled.clone();
    for start in [
        "GET / HTTP/1.1\r\nHost: h",
        "OPTIONS /db/neo4j/query/v2 HTTP/1.1\r\nHost: h",
        "GET /none HTTP/1.1\r\nHost: h",
        "DELETE /db/neo4j/query/v2 HTTP/1.1\r\nHost: h",
        "DELETE /db/neo4j/query/v2/tx/abcd HTTP/1.1\r\nHost: h",
    ] {
        let framing = format!("Content-Length: {}\r\nConnection: close\r\n", whole.len());
        shapes.add_line("a body where none is read", Fate::Last, start, &framing, "");
        shapes.add_line(
            "a chunked body where none is read",
            Fate::Last,
            start,
            "Transfer-Encoding: chunked\r\n",
            &chunked(&whole),
        );
    }
}

fn assert_fate(shape: &Shape, answer: &RawAnswer) {
    let what = || {
        format!(
            "{}: {:?}\n{answer}",
            shape.name,
            String::from_utf8_lossy(&shape.bytes[..shape.bytes.len().min(600)])
        )
    };
    let replies = answer.replies();
    assert!(answer.is_closed, "not closed: {}", what());
    assert_eq!(replies.len(), 1, "{}", what());
    match shape.fate {
        Fate::Refused => {
            assert!(matches!(replies[0].status, 400 | 431), "{}", what());
            let code = &replies[0].json()["errors"][0]["code"];
            assert!(code.as_str().unwrap().starts_with("Hopcache.ClientError."), "{}", what());
        }
        Fate::Last => {
            assert!(matches!(replies[0].status, 200..300 | 404 | 405 | 501), "{}", what());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_smuggled() {
    let alone = Alone::start("").await;
    let label = OwnLabel::new("Smuggled");
    let write = http::query(&format!("CREATE (n:{}) RETURN 1 AS x", label.0), &json!({}));
    let smuggled = String::from_utf8(write.to_vec()).unwrap();
    let mut shapes = Shapes { smuggled, all: Vec::new() };
    for add in [both_lengths, encodings, lengths, chunks, starts, bodies] {
        add(&mut shapes);
    }
    for shape in &shapes.all {
        let answer = send_raw(alone.node.addrs.client, &shape.bytes, Duration::from_secs(8)).await;
        assert_fate(shape, &answer);
        assert_eq!(alone.proxy.seen(&label.0).len(), 0, "run: {}: {answer}", shape.name);
    }
    let refused = shapes.all.iter().filter(|shape| shape.fate == Fate::Refused).count();
    say(&format!(
        "F34: {} shapes: {refused} refused, {} answered and closed, 0 smuggled writes run",
        shapes.all.len(),
        shapes.all.len() - refused
    ));
    // Control: the same write runs if it follows a clean request.
    let clean = [&http::query("RETURN 'carrier' AS x", &json!({}))[..], &write[..]].concat();
    let answer = send_raw(alone.node.addrs.client, &clean, Duration::from_secs(2)).await;
    assert_eq!(answer.replies().len(), 2, "{answer}");
    assert_eq!(alone.proxy.seen(&label.0).len(), 1);
    let count = at_neo4j(&format!("MATCH (n:{}) RETURN count(n)", label.0)).await;
    assert_eq!(count.value(), 1, "only the clean one");
}
