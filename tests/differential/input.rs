//! Bad input at the client listener gets a clear 4xx of the right shape and leaves nothing behind, and the node goes on
//! serving (I9, I13, F31, F33, F34).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::differential::http::{Answer, Request, exchange};
use crate::differential::start::Node;

fn nested(levels: usize) -> Vec<u8> {
    let (open, close) = ("[".repeat(levels), "]".repeat(levels));
    format!("{{\"statement\":\"RETURN $p AS p\",\"parameters\":{{\"p\":{open}{close}}}}}").into_bytes()
}

/// Bodies that are refused, with the status.
fn bodies() -> Vec<(&'static str, Vec<u8>, u16)> {
    let large = |bytes: usize| {
        json!({"statement": "RETURN size($p) AS s", "parameters": {"p": "x".repeat(bytes)}})
            .to_string()
            .into_bytes()
    };
    vec![
        ("no JSON", b"{\"statement\":".to_vec(), 400),
        ("no JSON at all", b"RETURN 1".to_vec(), 400),
        ("an array", b"[]".to_vec(), 400),
        ("a number as the statement", b"{\"statement\":[1]}".to_vec(), 400),
        ("unknown member", b"{\"statement\":\"RETURN 1\",\"params\":{}}".to_vec(), 400),
        ("parameters of a wrong type", b"{\"statement\":\"RETURN 1\",\"parameters\":[1]}".to_vec(), 400),
        ("depth bomb", nested(100_000), 400),
        ("deep objects", b"{\"parameters\":".repeat(50_000), 400),
        ("invalid UTF-8", b"{\"statement\":\"RETURN '\xff\xfe' AS x\"}".to_vec(), 400),
        ("surrogate in UTF-8", b"{\"statement\":\"RETURN '\xed\xa0\x80' AS x\"}".to_vec(), 400),
        ("NUL bytes", vec![0; 64], 400),
        ("NUL in the statement", b"{\"statement\":\"RETURN \0 1\"}".to_vec(), 400),
        ("empty", Vec::new(), 400),
        ("5 MB", large(5 << 20), 413),
        (
            "statement over 1 MB",
            json!({"statement": " ".repeat(1 << 20) + "RETURN 1"}).to_string().into_bytes(),
            413,
        ),
    ]
}

fn assert_refused(name: &str, answer: &Answer, status: u16) {
    let error = &answer.json()["errors"][0];
    assert_eq!(answer.status, status, "{name}: {}", answer.text());
    let is_ours = error["code"].as_str().unwrap().starts_with("Hopcache.ClientError.");
    let is_neo4js = error["code"].as_str().unwrap().starts_with("Neo.ClientError.");
    assert!(is_ours || is_neo4js, "{name}: {error}");
    assert!(!error["message"].as_str().unwrap().is_empty(), "{name}");
    assert!(!answer.is_stored() && !answer.is_hit(), "{name}: {}", answer.cache());
}

#[test]
fn bad_bodies_are_refused_and_leave_nothing_behind() {
    let node = Node::start();
    for (name, body, status) in bodies() {
        for _ in 0..2 {
            assert_refused(name, &Request::raw(&body).send(node.client), status);
        }
    }
    assert_eq!(node.metric("hopcache_entries", ""), 0.0);
    assert_eq!(node.ask("RETURN 1 AS x").status, 202, "it serves on");
}

#[test]
fn bad_headers_are_refused_by_name() {
    let node = Node::start();
    let one = || Request::statement("RETURN 1 AS x");
    let cases = [
        ("Hopcache-Hint", "degree=0", "degree"),
        ("Hopcache-Hint", "volatility=9000", "volatility"),
        ("Hopcache-Hint", "cost-ms=80", "cost-ms"),
        ("Hopcache-Hint", "ttl=-1", "ttl"),
        ("Hopcache-Hint", "colour=3", "colour"),
        ("Hopcache-Hint", "degree=", "dictionary"),
        ("Cache-Control", "max-age=soon", "max-age"),
        ("Cache-Control", "no-store=1", "no-store"),
        ("Hopcache-Session", &"s".repeat(129), "128"),
    ];
    // The node knows the request's parameters when the bad header comes, and refuses it.
    for warm in [false, true] {
        if warm {
            assert_eq!(one().send(node.client).status, 202);
        }
        for (name, value, named) in &cases {
            let answer = one().header(name, value).send(node.client);
            assert_refused(value, &answer, 400);
            let text = answer.text().to_lowercase();
            assert!(text.contains(named) && text.contains(&name.to_lowercase()), "{value}: {text}");
        }
        // It is undefined which of two values counts. So neither does, for any length.
        for second in ["b", "", "a", &"s".repeat(4_000)] {
            let two = one().and_header("Hopcache-Session", "a").and_header("Hopcache-Session", second);
            let answer = two.send(node.client);
            assert_refused(second, &answer, 400);
            let text = answer.text();
            assert!(text.contains("hopcache-session") && text.contains("more than once"), "{text}");
        }
    }
    for session in ["", " ", &"s".repeat(128)] {
        assert_eq!(one().header("Hopcache-Session", session).send(node.client).status, 202, "{session:?}");
    }
    let huge = one().header("X-Huge", &"h".repeat(64 << 10)).send(node.client);
    assert_eq!(huge.status, 431);
    let many = (0..200).fold(one(), |request, at| request.and_header(&format!("X-{at}"), "1"));
    assert_eq!(many.send(node.client).status, 431);
}

/// A request that a proxy before hopcache could read differently than hopcache (F34) ends the connection.
#[test]
fn ambiguous_lengths_are_refused() {
    let node = Node::start();
    let body = "{\"statement\":\"RETURN 1 AS x\"}";
    let shapes = [
        format!("Content-Length: {}\r\nContent-Length: 3\r\n\r\n{body}", body.len()),
        format!("Content-Length: x\r\n\r\n{body}"),
        format!("Content-Length: -1\r\n\r\n{body}"),
        format!("Transfer-Encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n"),
        format!("Transfer-Encoding: chunked, identity\r\n\r\n{body}"),
        format!("Content-Length : 3\r\n\r\n{body}"),
    ];
    for shape in shapes {
        let head = "POST /db/neo4j/query/v2 HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
                    Accept: application/json\r\nConnection: close\r\n";
        let mut stream = TcpStream::connect(node.client).unwrap();
        let answer = exchange(&mut stream, format!("{head}{shape}").as_bytes(), false);
        // 401: a request without credentials and length gets it before its body is read.
        assert!(answer.is_none_or(|answer| matches!(answer.status, 400 | 401)), "{shape}");
    }
}

/// A body shorter than announced is refused when its sender has gone. Bytes after a body that is longer than announced
/// are a new request, never part of this one.
#[test]
fn a_body_is_as_long_as_its_header_says() {
    let node = Node::start();
    let request = |length: usize, statement: &str| {
        let request = Request::statement(statement).header("Content-Length", &length.to_string());
        request.bytes()
    };
    let body = "{\"statement\":\"RETURN 5 AS x\"}";
    let mut stream = TcpStream::connect(node.client).unwrap();
    stream.write_all(&request(body.len() + 10, "RETURN 5 AS x")).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answer = exchange(&mut stream, b"", false);
    assert!(answer.is_none_or(|answer| answer.status == 400), "shorter");
    let mut stream = TcpStream::connect(node.client).unwrap();
    let answer = exchange(&mut stream, &request(body.len() - 2, "RETURN 5 AS x"), false);
    assert_eq!(answer.map(|answer| answer.status), Some(400), "longer");
    assert_eq!(node.metric("hopcache_entries", ""), 0.0);
}

/// How long the server kept the connection open, and the bytes that it sent.
fn closed_after(stream: &mut TcpStream, most: Duration) -> (Duration, String) {
    let started = Instant::now();
    stream.set_read_timeout(Some(most)).unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(some) => received.extend_from_slice(&buffer[..some]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("not closed within {most:?}: {error}"),
        }
    }
    (started.elapsed(), String::from_utf8_lossy(&received).into_owned())
}

/// An `OPTIONS` on a connection that is to be kept; its answer says `POST, OPTIONS`.
fn ask_and_keep(client: &mut TcpStream) {
    client.write_all(b"OPTIONS /db/neo4j/query/v2 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let (mut received, mut byte) = (Vec::new(), [0]);
    while !received.ends_with(b"POST, OPTIONS") {
        client.read_exact(&mut byte).expect("the connection was closed");
        received.push(byte[0]);
    }
    assert!(received.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&received));
}

/// F31: the node cuts a slow head after 5 s, and a silent client or a slow body after 10 s. It serves others meanwhile,
/// and keeps idle connections longer than all of these.
#[test]
fn slow_senders_are_cut() {
    let node = Node::start();
    let mut kept = TcpStream::connect(node.client).unwrap();
    ask_and_keep(&mut kept);
    let mut silent = TcpStream::connect(node.client).unwrap();
    let mut head = TcpStream::connect(node.client).unwrap();
    head.write_all(b"POST /db/neo4j/query/v2 HTTP/1.1\r\nHost: h\r\nX-Slow").unwrap();
    let mut body = TcpStream::connect(node.client).unwrap();
    let whole = Request::statement("RETURN 1 AS x").header("Content-Length", "1000").bytes();
    body.write_all(&whole).unwrap();
    assert_eq!(node.ask("RETURN 1 AS x").status, 202, "others are served");
    let (after, _) = closed_after(&mut head, Duration::from_secs(8));
    assert!(after >= Duration::from_secs(3), "a head may take a while: {after:?}");
    closed_after(&mut silent, Duration::from_secs(8)); // 10 s since it connected.
    let (_, received) = closed_after(&mut body, Duration::from_secs(12));
    assert!(received.starts_with("HTTP/1.1 408") && received.contains("BodyTooSlow"), "{received}");
    ask_and_keep(&mut kept);
}
