//! Whole conversations through hyper, in memory, on a paused clock: it moves on only when all tasks wait, so each
//! connection's end is measured exactly. All tests are about F31.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use hopcache_core::limits::{HEAD_BYTES_MAX, HEADERS_MAX};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream, DuplexStream, duplex};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::ConnectionTimeouts;
use crate::connection_slots::ConnectionSlots;
use crate::listener::{Answers, ListenerBounds, ListenerShared, Refusals, serve_connection};
use crate::proxies::Proxies;
use crate::refusal_response::UnservedReason;

const TIMEOUT: ConnectionTimeouts = ConnectionTimeouts {
    first_byte: Duration::from_secs(10),
    head: Duration::from_secs(5),
    reader: Duration::from_secs(8),
    reader_bytes_per_s: 256,
    idle: Duration::from_secs(60),
    crowded: Duration::from_secs(5),
};
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";
/// The capacity of the pipe between client and server.
const PIPE_BYTES: usize = 4096;

/// Lets this much of the paused clock go by.
async fn pass(ms: u64) {
    // tidy: the clock is paused; it jumps on when all tasks wait
    sleep(Duration::from_millis(ms)).await;
}

/// `/slow` is answered after 61 s, `/large` with far more than the pipe holds, all else at once. A body is read
/// first.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    match head.uri.path() {
        "/slow" => pass(61_000).await,
        "/large" => return Ok(Response::new(Full::from(vec![b'x'; 16 * PIPE_BYTES]))),
        _ => {}
    }
    Ok(Response::new(Full::from(format!("[{}]", body.len()))))
}

fn service() -> impl Answers<Full<Bytes>> {
    service_fn(answer)
}

fn connect() -> DuplexStream {
    let (client, server) = duplex(PIPE_BYTES);
    tokio::spawn(serve_connection(server, service(), shared(ConnectionSlots::new(1))));
    client
}

fn shared(slots: ConnectionSlots) -> ListenerShared {
    let bounds = ListenerBounds {
        connections_max: 1,
        timeouts: TIMEOUT,
        head_bytes_max: HEAD_BYTES_MAX,
        says_addresses: false,
        answers_half_closed: true,
    };
    let refusals = Refusals { response, noted: std::sync::Arc::new(|_| {}) };
    ListenerShared { proxies: Proxies::default(), bounds, refusals, slots, stop: CancellationToken::new() }
}

/// Each refusal as a status and, in brackets, its name.
fn response(why: UnservedReason) -> Option<Response<Bytes>> {
    let is_sent = !matches!(why, UnservedReason::Silent | UnservedReason::ReaderTooSlow);
    is_sent.then(|| Response::builder().status(418).body(Bytes::from(format!("[{why:?}]"))).unwrap())
}

/// Reads up to and with `end`. Returns the bytes.
async fn read_to(client: &mut DuplexStream, end: &str) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(end.as_bytes()) {
        answer.push(client.read_u8().await.unwrap_or_else(|_| panic!("closed after {answer:?}")));
    }
    String::from_utf8(answer).unwrap()
}

/// Sends a request, and reads an answer without a body.
async fn exchange(client: &mut DuplexStream, request: &[u8]) {
    client.write_all(request).await.unwrap();
    read_to(client, "[0]").await;
}

/// The seconds until the server closes, and the bytes that it sends before.
async fn closed(client: &mut DuplexStream) -> (f64, String) {
    let (started, mut answer) = (Instant::now(), String::new());
    let most = Duration::from_secs(300);
    timeout(most, client.read_to_string(&mut answer)).await.expect("never closed").unwrap();
    (started.elapsed().as_secs_f64(), answer)
}

/// The timer's wheel has a grain of a millisecond.
fn assert_about(seconds: f64, wanted: f64) {
    assert!((seconds - wanted).abs() < 0.05, "after {seconds} s, not {wanted} s");
}

/// A stream that takes bytes of its own, as TLS does, hides a slow reader from writes. Flushes wait for it.
#[tokio::test(start_paused = true)]
async fn who_reads_nothing_is_cut_behind_a_stream_that_buffers_too() {
    let (mut client, server) = duplex(PIPE_BYTES);
    let buffering = BufStream::with_capacity(PIPE_BYTES, 64 * PIPE_BYTES, server);
    let served = tokio::spawn(serve_connection(buffering, service(), shared(ConnectionSlots::new(1))));
    let started = Instant::now();
    client.write_all(b"GET /large HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
    timeout(Duration::from_secs(300), served).await.expect("it waits for ever").unwrap();
    assert_about(started.elapsed().as_secs_f64(), 8.0);
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_cut() {
    assert_about(closed(&mut connect()).await.0, 10.0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_is_cut_however_often_a_byte_comes() {
    let mut client = connect();
    pass(9_000).await;
    let started = Instant::now();
    client.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    while client.write_all(b"x").await.is_ok() {
        pass(100).await;
        assert!(started.elapsed() < Duration::from_secs(30), "never cut");
    }
    // One second more, in which the message can be read.
    assert_about(started.elapsed().as_secs_f64(), 6.1);
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("[HeadTooSlow]"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_is_cut_on_a_kept_connection_too() {
    let mut client = connect();
    for _ in 0..3 {
        exchange(&mut client, GET).await;
        pass(40_000).await;
    }
    client.write_all(b"GET / HT").await.unwrap();
    let (seconds, answer) = closed(&mut client).await;
    assert_about(seconds, 5.0);
    assert!(answer.ends_with("[HeadTooSlow]"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_head_in_pieces_within_its_time_is_served_each_time_anew() {
    let mut client = connect();
    for _ in 0..4 {
        for piece in GET.chunks(7) {
            client.write_all(piece).await.unwrap();
            pass(1_000).await;
        }
        read_to(&mut client, "[0]").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_kept_as_long_as_said_and_no_longer() {
    let mut client = connect();
    for _ in 0..5 {
        exchange(&mut client, GET).await;
        pass(59_000).await;
    }
    exchange(&mut client, GET).await;
    let (seconds, answer) = closed(&mut client).await;
    assert_about(seconds, 60.0);
    assert_eq!(answer, "");
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_is_not_cut_and_idling_begins_at_its_answer() {
    let mut client = connect();
    for _ in 0..2 {
        exchange(&mut client, b"GET /slow HTTP/1.1\r\nhost: h\r\n\r\n").await;
        pass(30_000).await;
    }
    assert_about(closed(&mut client).await.0, 30.0);
}

/// Bodies have their own limit, in the services: here a body comes for longer than a head may.
#[tokio::test(start_paused = true)]
async fn a_body_is_no_head() {
    let mut client = connect();
    let head = b"POST / HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    client.write_all(head).await.unwrap();
    read_to(&mut client, "100 Continue\r\n\r\n").await;
    for _ in 0..9 {
        pass(9_000).await;
        client.write_all(b"\n").await.unwrap();
    }
    read_to(&mut client, "[9]").await;
    assert_about(closed(&mut client).await.0, 60.0);
}

#[tokio::test(start_paused = true)]
async fn pipelined_requests_are_served_and_the_last_half_one_is_cut() {
    let mut client = connect();
    let slow = b"GET /slow HTTP/1.1\r\nhost: h\r\n\r\n";
    client.write_all(&[slow, GET, slow, GET, b"GET / "].concat()).await.unwrap();
    for _ in 0..4 {
        read_to(&mut client, "[0]").await;
    }
    pass(50_000).await;
    client.write_all(b"HTTP/1.1\r\n").await.unwrap();
    assert_about(closed(&mut client).await.0, 5.0);
}

#[tokio::test(start_paused = true)]
async fn a_half_head_that_came_early_is_cut_as_idle() {
    let mut client = connect();
    client.write_all(&[GET, b"GET / "].concat()).await.unwrap();
    read_to(&mut client, "[0]").await;
    assert_about(closed(&mut client).await.0, 60.0);
}

const LARGE: &[u8] = b"GET /large HTTP/1.1\r\nhost: h\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn who_does_not_read_is_cut() {
    let mut client = connect();
    let started = Instant::now();
    client.write_all(LARGE).await.unwrap();
    // The pipe is full; a byte beside it shows when the server has let go of it.
    while client.write_all(b"G").await.is_ok() {
        pass(300).await;
        assert!(started.elapsed() < Duration::from_secs(30), "never cut");
    }
    assert_about(started.elapsed().as_secs_f64(), 8.1);
}

#[tokio::test(start_paused = true)]
async fn who_reads_slowly_is_served() {
    let mut client = connect();
    client.write_all(LARGE).await.unwrap();
    let (mut got, mut part) = (0, [0; PIPE_BYTES]);
    while got < 16 * PIPE_BYTES {
        pass(7_000).await;
        got += timeout(Duration::from_secs(1), client.read(&mut part)).await.unwrap().unwrap();
    }
    while let Ok(more) = timeout(Duration::from_secs(1), client.read(&mut part)).await {
        assert_ne!(more.unwrap(), 0, "closed after {got} bytes");
    }
    exchange(&mut client, GET).await;
}

/// I9: a client that takes one byte now and then does not count as reading. The bytes that the pipe took at once are
/// 16 s worth of the lowest rate, and each byte adds a 256th of a second.
#[tokio::test(start_paused = true)]
async fn who_reads_a_byte_now_and_then_is_cut() {
    let mut client = connect();
    let started = Instant::now();
    client.write_all(LARGE).await.unwrap();
    let mut got = 0;
    while started.elapsed() < Duration::from_secs(60) && client.write_all(b"G").await.is_ok() {
        client.read_u8().await.unwrap();
        got += 1;
        pass(500).await;
    }
    assert_about(started.elapsed().as_secs_f64(), 16.5);
    assert!(got > 30, "{got} bytes, each in time");
}

/// Each answer has its own time: a kept connection does not count as slow for earlier answers.
#[tokio::test(start_paused = true)]
async fn the_pace_is_that_of_one_answer() {
    let mut client = connect();
    let mut part = [0; PIPE_BYTES / 2];
    for _ in 0..3 {
        client.write_all(LARGE).await.unwrap();
        let mut got = 0;
        while got < 16 * PIPE_BYTES {
            pass(7_000).await;
            let more = client.read(&mut part).await.unwrap();
            assert_ne!(more, 0, "closed after {got} bytes");
            got += more;
        }
        while let Ok(more) = timeout(Duration::from_secs(1), client.read(&mut part)).await {
            assert_ne!(more.unwrap(), 0, "closed after {got} bytes");
        }
        pass(44_000).await;
    }
}

/// Bytes that hyper refuses, with the listener's message for them.
fn unreadable() -> Vec<(Vec<u8>, &'static str)> {
    let field = |bytes: usize| format!("GET / HTTP/1.1\r\nhost: h\r\nx: {}\r\n\r\n", "x".repeat(bytes));
    let fields = |count: usize| format!("GET / HTTP/1.1\r\nhost: h\r\n{}\r\n", "x: y\r\n".repeat(count - 1));
    let head_bytes = |bytes: usize| field(bytes - field(0).len());
    let old = "GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n";
    vec![
        (b"GET / HTTP/1.1\r\nhost : h\r\n\r\n".to_vec(), "[HeadUnreadable]"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), "[HeadUnreadable]"),
        (b"\0\0\r\n\r\n".to_vec(), "[HeadUnreadable]"),
        (format!("{old}\0\r\n\r\n").into(), "[HeadUnreadable]"),
        (head_bytes(HEAD_BYTES_MAX + 1).into(), "[HeadTooLarge]"),
        (field(40_000).into(), "[HeadTooLarge]"),
        (field(1 << 20).into(), "[HeadTooLarge]"),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(64 << 10)).into(), "[HeadTooLarge]"),
        (fields(HEADERS_MAX + 1).into(), "[HeadTooLarge]"),
        (head_bytes(HEAD_BYTES_MAX).into(), "[0]"),
        (fields(HEADERS_MAX).into(), "[0]"),
    ]
}

/// F34: a refusal of hyper's own becomes the listener's response, once, and the connection ends.
#[tokio::test(start_paused = true)]
async fn unreadable_bytes_are_refused_with_a_message() {
    for (bytes, message) in unreadable() {
        for kept in [false, true] {
            let mut client = connect();
            if kept {
                exchange(&mut client, GET).await;
            }
            let (mut reads, mut writes) = tokio::io::split(client);
            let send = async {
                let _ = writes.write_all(&bytes).await;
            };
            let mut answer = String::new();
            let _ = timeout(
                Duration::from_secs(100),
                futures_util::future::join(send, reads.read_to_string(&mut answer)),
            )
            .await;
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
            assert!(answer.ends_with(message), "{start}: {answer}");
            assert!(answer.matches("HTTP/1.").count() <= 2, "{start}: {answer}");
            assert!(
                !answer.contains(" 400 ") && !answer.contains(" 431 ") && !answer.contains(" 414 "),
                "{start}: {answer}"
            );
        }
    }
}

/// A client that pipelines unreadable bytes behind a large answer gets the answer whole, and then the refusal.
#[tokio::test(start_paused = true)]
async fn a_refusal_comes_behind_the_answer_before_it() {
    for pause_ms in [0, 3_000] {
        let mut client = connect();
        client.write_all(&[LARGE, b"\0\r\n\r\n"].concat()).await.unwrap();
        pass(pause_ms).await;
        let (_, answer) = closed(&mut client).await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(body.starts_with(&"x".repeat(16 * PIPE_BYTES)), "{}", body.replace('x', ""));
        assert!(answer.ends_with("[HeadUnreadable]"), "{}", answer.replace('x', ""));
    }
}

/// F34: a request with chunks is the last of its connection.
#[tokio::test(start_paused = true)]
async fn nothing_behind_a_chunked_request_is_served() {
    let mut client = connect();
    let chunked = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    client.write_all(&[chunked, LARGE].concat()).await.unwrap();
    let (_, answer) = closed(&mut client).await;
    assert!(answer.ends_with("[1]") && answer.matches("HTTP/1.1 200").count() == 1, "{answer}");
}

/// F32: an idle connection gives way for a new one; a connection with a request does not.
#[tokio::test(start_paused = true)]
async fn idle_connections_give_way_when_places_are_scarce() {
    let slots = ConnectionSlots::new(16);
    let (mut client, server) = duplex(PIPE_BYTES);
    tokio::spawn(serve_connection(server, service(), shared(slots.clone())));
    let mut others: Vec<_> = (0..14).map(|_| slots.enter().unwrap()).collect();
    exchange(&mut client, GET).await;
    pass(40_000).await;
    exchange(&mut client, GET).await;
    pass(12_500).await;
    others.push(slots.enter().unwrap());
    // The timer looks every five seconds: at 15 s.
    assert_about(closed(&mut client).await.0, 2.5);
    let (mut client, server) = duplex(PIPE_BYTES);
    tokio::spawn(serve_connection(server, service(), shared(slots.clone())));
    for _ in 0..10 {
        exchange(&mut client, GET).await;
        pass(4_900).await;
    }
    exchange(&mut client, GET).await;
    assert_about(closed(&mut client).await.0, 5.0);
}

/// A client that closes its side waits for its answer, as at Neo4j. While it waits it is asked whether it is still there.
#[tokio::test(start_paused = true)]
async fn who_closes_its_side_after_a_request_is_answered() {
    let post = &b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\nabc"[..];
    let old = &b"GET /slow HTTP/1.0\r\n\r\n"[..];
    let slow = &b"GET /slow HTTP/1.1\r\nhost: h\r\n\r\n"[..];
    for (request, length, after, questions) in [(post, 3, 0.0, 0), (slow, 0, 61.0, 7), (old, 0, 61.0, 0)] {
        let mut client = connect();
        client.write_all(request).await.unwrap();
        client.shutdown().await.unwrap();
        let (seconds, answer) = closed(&mut client).await;
        assert!(answer.ends_with(&format!("[{length}]")) && answer.contains(" 200 OK"), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1 100 Continue\r\n\r\n").count(), questions, "{answer}");
        assert_about(seconds, after);
    }
    // What was sent before is answered first, and a body that ends too early is no request.
    let mut client = connect();
    client.write_all(&[GET, GET].concat()).await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(closed(&mut client).await.1.matches("[0]").count(), 2);
    let mut client = connect();
    client.write_all(&post[..post.len() - 1]).await.unwrap();
    client.shutdown().await.unwrap();
    assert!(!closed(&mut client).await.1.contains("[3]"));
}

/// A client that has gone is noticed, and what it asked for is dropped.
#[tokio::test(start_paused = true)]
async fn who_goes_during_a_request_is_noticed() {
    let (mut client, server) = duplex(PIPE_BYTES);
    let served = tokio::spawn(serve_connection(server, service(), shared(ConnectionSlots::new(1))));
    client.write_all(b"GET /slow HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
    pass(1_000).await;
    let left = Instant::now();
    drop(client);
    timeout(Duration::from_secs(300), served).await.expect("it goes on").unwrap();
    assert_about(left.elapsed().as_secs_f64(), 0.25);
}

/// F34: what is before a head with two meanings is answered, and nothing behind it is read.
#[tokio::test(start_paused = true)]
async fn a_head_that_frames_its_body_twice_is_refused() {
    let twice = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc";
    for before in [0, 1, 3] {
        let mut client = connect();
        let requests = [GET.repeat(before), twice.to_vec(), GET.to_vec()].concat();
        client.write_all(&requests).await.unwrap();
        let (_, answer) = closed(&mut client).await;
        assert_eq!(answer.matches("[0]").count(), before, "{answer}");
        assert!(answer.ends_with("[HeadUnreadable]"), "{answer}");
    }
}
