//! Bad input on real processes: a clear error, nothing stored, nothing leaked, no panic (I11, I13, F14, F33).
//!
//! Each row goes to each of three nodes, and to Neo4j itself. Hopcache has to give Neo4j's status and body unless the
//! row says otherwise. `tests/differential` has further cases on real processes: bodies that are longer or shorter than
//! announced, ambiguous lengths, bad headers by name, slow senders (`input.rs`); credentials, media types, methods and
//! paths (`refusals.rs`).
//!
//! `HOPCACHE_TEST_GARBAGE=20000` asks for more mutated bodies.

mod cases;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use self::cases::{
    Expected::{AsNeo4j, Own},
    Row, STATEMENT_BYTES_MAX, admin_rows, at_run_time, login, no_json, post, query, sizes_and_depths,
    statement, wrong_types,
};
use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j, neo4j_http};
use crate::support::http::{self, Reply};
use crate::support::{environment, say, size};

/// Stored before anything bad is sent: no error may show it.
const CANARY: &str = "canary-9b1f";
/// Body without bookmarks, which are of one run alone.
fn shown(reply: &Reply) -> (u16, Value) {
    let mut body = reply.json();
    if let Some(members) = body.as_object_mut() {
        members.remove("bookmarks");
    }
    (reply.status, body)
}

/// Asks hopcache or Neo4j, whose large answers come in chunks. The server may answer and close before it has the whole
/// request.
async fn ask(addr: SocketAddr, request: &[u8]) -> Option<Reply> {
    let started = Instant::now();
    let end = request.windows(2).position(|two| two == b"\r\n")? + 2;
    let request = [&request[..end], b"connection: close\r\n", &request[end..]].concat();
    let heard = shout(addr, &request).await;
    let end = heard.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&heard[..end]).into_owned();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { dechunked(&heard[end..])? } else { heard[end..].to_vec() };
    Some(Reply { status, head, body, took: started.elapsed() })
}

fn dechunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = bytes.windows(2).position(|two| two == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).ok()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(line + 2..line + 2 + size)?);
        bytes = bytes.get(line + 4 + size..)?;
    }
}

/// The first of an answer, for the message of a failed test.
fn brief(reply: Option<&Reply>) -> String {
    reply.map_or_else(|| "none".to_owned(), |reply| format!("{:.600}", reply.to_string()))
}

async fn entries(cluster: &Cluster) -> usize {
    cluster.redis.committed().await;
    cluster.redis.keys("hopcache:*:e").len()
}

/// Conditions after any bytes: the nodes live, serve and have not panicked, and the store has the same content.
async fn assert_unharmed(cluster: &Cluster, entries_before: usize) {
    let good = statement(&format!("RETURN '{CANARY}' AS x"));
    for node in &cluster.nodes {
        let reply = http::ask(node.addrs.client, &good).await.unwrap();
        assert!(reply.is_hit(), "{reply}");
        assert_eq!(node.admin("/livez").await.unwrap().status, 200);
        assert!(!node.log().contains("panicked"), "{} panicked", node.name);
    }
    assert_eq!(entries(cluster).await, entries_before);
}

/// Starts three nodes that hold the canary.
async fn start() -> (Cluster, usize) {
    // A write that Neo4j fails may have changed something, and ends entries.
    let cluster = Cluster::of(Plan { freshness: "mode = \"ttl\"", ..Plan::default() }).await;
    let good = statement(&format!("RETURN '{CANARY}' AS x"));
    for node in &cluster.nodes {
        assert_eq!(http::ask(node.addrs.client, &good).await.unwrap().value(), CANARY);
    }
    assert_eq!(entries(&cluster).await, 1);
    (cluster, 1)
}

/// An error contains nothing of others' results or of any credentials.
fn assert_nothing_leaks(name: &str, reply: &Reply) {
    let text = String::from_utf8_lossy(&reply.body);
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    for secret in [CANARY, &password, &login(), "the key of a test's cluster"] {
        assert!(!text.contains(secret), "{name}: {reply}");
    }
}

/// The error in a node's answer to a row, if any.
fn fault(row: &Row, ours: Option<&Reply>, theirs: Option<&Reply>) -> Option<String> {
    let Some(ours) = ours else { return Some(format!("{}: no answer; theirs {}", row.name, brief(theirs))) };
    assert_nothing_leaks(row.name, ours);
    let (status, body) = shown(ours);
    let error = &body["errors"][0];
    let is_shaped =
        error["code"].is_string() && error["message"].as_str().is_some_and(|text| !text.is_empty());
    let is_right = match row.expected {
        AsNeo4j => theirs.map(shown).is_some_and(|theirs| theirs == (status, body.clone())),
        Own(wanted, code, named) => {
            status == wanted && error["code"] == code && error["message"].as_str()?.contains(named)
        }
    };
    let is_kept = ours.is_hit() || ours.header("cache-status").contains("; stored");
    let right = is_shaped && is_right && !is_kept;
    (!right).then(|| format!("{}:\n  ours {}\n  theirs {}", row.name, brief(Some(ours)), brief(theirs)))
}

/// A label with a constraint, both gone however the test ends.
struct Unique(OwnLabel);

impl Unique {
    async fn create() -> Self {
        let unique = Self(OwnLabel::new("Unique"));
        at_neo4j(&format!("CREATE CONSTRAINT {0} FOR (n:{0}) REQUIRE n.v IS UNIQUE", unique.0.0)).await;
        at_neo4j(&format!("CREATE (:{} {{v: 1}})", unique.0.0)).await;
        unique
    }
}

impl Drop for Unique {
    fn drop(&mut self) {
        let request = statement(&format!("DROP CONSTRAINT {} IF EXISTS", self.0.0));
        let Ok(mut stream) = std::net::TcpStream::connect(neo4j_http()) else { return };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let _ = std::io::Write::write_all(&mut stream, &request);
        let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_refused_as_neo4j_refuses_it_and_leaves_nothing() {
    let unique = Unique::create().await;
    let (cluster, before) = start().await;
    let rows: Vec<Row> = [no_json(), wrong_types(), sizes_and_depths(), at_run_time(&unique.0.0)]
        .into_iter()
        .flatten()
        .collect();
    let mut faults = Vec::new();
    for row in &rows {
        let started = Instant::now();
        let theirs = match row.expected {
            AsNeo4j => ask(neo4j_http(), &row.request).await,
            Own(..) => None,
        };
        for node in &cluster.nodes {
            let ours = ask(node.addrs.client, &row.request).await;
            faults.extend(fault(row, ours.as_ref(), theirs.as_ref()));
        }
        assert_unharmed(&cluster, before).await;
        if started.elapsed() > Duration::from_secs(1) {
            say(&format!("{}: {:?}", row.name, started.elapsed()));
        }
    }
    let created = at_neo4j(&format!("MATCH (n:{}) RETURN count(n)", unique.0.0)).await.value();
    assert_eq!(created, 1, "a write that was refused wrote nothing");
    let own = rows.iter().filter(|row| matches!(row.expected, Own(..))).count();
    say(&format!(
        "bad input: {} rows on 3 nodes, {} equal to Neo4j's own, {own} our own",
        rows.len(),
        rows.len() - own
    ));
    assert!(faults.is_empty(), "{} of {}\n{}", faults.len(), rows.len(), faults.join("\n"));
}

/// Rows that look wrong and are not: Neo4j reads them, so hopcache reads them as the same value, twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_only_odd_is_read_as_neo4j_reads_it() {
    let (cluster, _) = start().await;
    let params =
        |text: &str| query(format!("{{\"statement\":\"RETURN $p AS p\",\"parameters\":{{{text}}}}}"));
    let rows = [
        (
            "a statement of 1 MiB",
            statement(&format!("RETURN 1 AS x{}", " ".repeat(STATEMENT_BYTES_MAX - 13))),
        ),
        ("a key twice", params("\"p\":1,\"p\":2")),
        ("a key twice, inside", params("\"p\":{\"a\":1,\"b\":0,\"a\":2}")),
        ("a field twice", query("{\"statement\":\"RETURN 1 AS x\",\"statement\":\"RETURN 2 AS x\"}")),
        ("a number beyond doubles", params("\"p\":1e400")),
        ("a long number", params(&format!("\"p\":0.{}1", "0".repeat(400)))),
        ("half a surrogate pair", params("\"p\":\"a\\ud800b\"")),
        ("halves in the wrong order", params("\"p\":\"\\ude00\\ud83d\"")),
        ("NUL in a parameter", params("\"p\":\"\\u0000\"")),
        ("NUL in an inner key", params("\"p\":{\"a\\u0000\":1}")),
        ("100 lists", params(&format!("\"p\":{}{}", "[".repeat(100), "]".repeat(100)))),
        ("something behind the object", query("{\"statement\":\"RETURN 1 AS x\"} garbage")),
    ];
    for (name, request) in rows {
        let theirs = http::ask(neo4j_http(), &request).await.unwrap();
        for (node, turn) in cluster.nodes.iter().zip(1..) {
            let ours = http::ask(node.addrs.client, &request).await.unwrap();
            assert_eq!((ours.status, shown(&ours)), (202, shown(&theirs)), "{name} ({turn})");
        }
    }
    for node in &cluster.nodes {
        assert!(!node.log().contains("panicked"), "{} panicked", node.name);
    }
}

/// Good bodies with a few bytes changed, from a seed: an answer each time, never a failure of ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutated_bodies_are_answered() {
    let count: u64 = size("HOPCACHE_TEST_GARBAGE", 600);
    let (cluster, _) = start().await;
    let body = json!({"statement": "RETURN $p AS p", "parameters": {"p": [1, 1.5, "x", {"a": null}]},
        "accessMode": "READ", "includeCounters": true, "maxExecutionTime": 3});
    let body = body.to_string().into_bytes();
    let mut state = 1_u64;
    let mut next = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % end
    };
    let mut seen = std::collections::BTreeMap::<u16, u64>::new();
    for _ in 0..count {
        let mut bent = body.clone();
        for _ in 0..=next(2) {
            let at = next(bent.len());
            match next(3) {
                0 => bent[at] = u8::try_from(next(256)).unwrap(),
                1 => drop(bent.remove(at)),
                _ => bent.insert(at, b"\"{}[]:,\\0-e\0\xff\xed"[next(14)]),
            }
        }
        let addr = cluster.nodes[next(3)].addrs.client;
        let reply = http::ask(addr, &query(&bent)).await.unwrap_or_else(|error| panic!("{error}: {bent:?}"));
        assert!(matches!(reply.status, 202 | 400), "b\"{}\": {reply}", bent.escape_ascii());
        reply.json();
        *seen.entry(reply.status).or_default() += 1;
    }
    assert!(seen.len() == 2, "some were good and some were not: {seen:?}");
    say(&format!("mutated bodies by status: {seen:?}"));
    for node in &cluster.nodes {
        assert!(!node.log().contains("panicked"), "{} panicked", node.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_listener_refuses_as_problems() {
    let (cluster, before) = start().await;
    let rows = admin_rows();
    for (name, request, status, named) in &rows {
        for node in &cluster.nodes {
            let reply =
                http::ask(node.addrs.admin, request).await.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_nothing_leaks(name, &reply);
            assert_eq!(reply.header("content-type"), "application/problem+json", "{name}: {reply}");
            let problem = reply.json();
            assert_eq!((reply.status, &problem["status"]), (*status, &json!(status)), "{name}: {reply}");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains(named), "{name}: {detail}");
        }
    }
    // Valid although no client would write it: hopcache reads it here without Neo4j's parser.
    for bracket in ["(", "[", "{", "CALL { RETURN "] {
        let text = format!("RETURN {}", bracket.repeat(10_000));
        let explained = cluster.nodes[0].explain(&text, &json!({})).await;
        assert!(explained["class"].is_string(), "{explained}");
    }
    assert_unharmed(&cluster, before).await;
    say(&format!("admin listener: {} rows on 3 nodes", rows.len()));
}

/// Sends bytes and reads until the other side closes or has nothing more to say.
async fn shout(addr: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = tokio::net::TcpStream::connect(addr).await.unwrap();
    let _ = stream.write_all(bytes).await;
    let mut heard = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut heard)).await;
    assert!(read.is_ok(), "not closed within 20 s: b\"{}\"", bytes.escape_ascii());
    heard
}

/// The peer port accepts no sender without the cluster's key, answers all of them the same, and counts them. The nodes
/// go on asking each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_peer_port_believes_no_stranger() {
    let (cluster, before) = start().await;
    let node = &cluster.nodes[1];
    let noise: Vec<u8> = (0..4_096_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let probe =
        |proof: &str| format!("GET /peer/v1/probe HTTP/1.1\r\nhost: t\r\nhopcache-peer: {proof}\r\n\r\n");
    let zeros = "0".repeat(64);
    let believed = [
        probe(""),
        probe("v1"),
        probe(&format!("v1 node-a {} {zeros}", &zeros[..32])),
        probe(&format!("v9 node-a {} {zeros}", &zeros[..32])),
        probe(&format!("v1 {} {} {zeros}", "n".repeat(3_000), &zeros[..32])),
    ];
    let mut asked: Vec<Vec<u8>> = believed.into_iter().map(String::into_bytes).collect();
    for body in [&b""[..], b"\x01", &noise[..34], &noise, &[1; 64], &[0xFF; 2_000]] {
        asked.push(post("/peer/v1/ask", "application/octet-stream", "", body));
    }
    let counted = node.metric("hopcache_peer_unauthenticated_total", "").await;
    for request in &asked {
        let reply = http::ask(node.addrs.peer, request).await.unwrap();
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (403, "application/problem+json"),
            "{reply}"
        );
        assert_eq!(reply.json(), json!({"title": "Forbidden", "status": 403}), "one answer for all");
    }
    let now = node.metric("hopcache_peer_unauthenticated_total", "").await;
    let counted = now.unwrap_or(0.0) - counted.unwrap_or(0.0);
    assert!(counted == asked.len() as f64, "each is counted once: {counted} of {}", asked.len());
    say(&format!("peer port: {} strangers refused, {counted} counted", asked.len()));
    let huge = post("/peer/v1/ask", "application/octet-stream", "", &vec![7; 5 << 20]);
    assert!(http::ask(node.addrs.peer, &huge).await.is_ok_and(|reply| matches!(reply.status, 403 | 413)));
    let other = http::ask(node.addrs.peer, &statement("RETURN 1 AS x")).await.unwrap();
    assert_eq!(other.status, 403, "no client is served here");
    for bytes in [
        &noise[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0; 64],
    ] {
        let heard = shout(node.addrs.peer, bytes).await;
        assert!(heard.is_empty() || heard.starts_with(b"HTTP/1.1 4"), "b\"{}\"", heard.escape_ascii());
    }
    assert_unharmed(&cluster, before).await;
    // Forwards still work: a key of that node's, asked at another.
    let key = cluster.owned_by(1, "RETURN $k AS k").await;
    let reply = http::ask(cluster.nodes[0].addrs.client, &http::query("RETURN $k AS k", &key)).await.unwrap();
    assert!(reply.header("cache-status").starts_with("node-b;"), "{reply}");
}
