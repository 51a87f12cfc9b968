//! Frames without a link: a sender that the test drives by hand, and the frames alone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hopcache_core::limits::{
    IDLE_TIMEOUT_MS, LAST_CALL_MS, PEER_ANSWER_BYTES_MAX, PEER_ANSWERS_QUEUED_BYTES_MAX,
    PEER_ANSWERS_TOGETHER_MAX, PEER_EXCHANGE_BYTES_MAX, PEER_EXCHANGES_MAX, PEER_FRAME_BYTES_MAX,
    PEER_IDLE_MS_MAX,
};
use hopcache_net::upgrade::UpgradedProtocol;
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::framed::{LARGE_BYTES, Slow, start};
use super::harness::{Peer, key, name, who};
use crate::peer::PeerPath;
use crate::peer::auth::{AuthError, FRAMES_PROTOCOL, HELLO_HEADER, Hello, SessionId, open_welcome};
use crate::peer::framed::{Ended, ExchangeFault, FramedConnection};
use crate::peer::framed_server::FramedSession;
use crate::peer::frames::{Frame, FrameKeys, FrameKind, FrameOpener, FrameSealer, PartedAnswer};
use crate::peer::sessions::Sessions;

/// A framed connection that the test drives by hand.
struct Raw<T = TcpStream> {
    stream: T,
    sealer: FrameSealer,
    opener: FrameOpener,
    received: BytesMut,
}

impl Raw {
    async fn open(peer: &Peer) -> Self {
        let hello = Hello::new(name("node-a"));
        let mut stream = TcpStream::connect(peer.addr).await.unwrap();
        let head = format!(
            "GET {} HTTP/1.1\r\nhost: b\r\nconnection: upgrade\r\nupgrade: {FRAMES_PROTOCOL}\r\n{HELLO_HEADER}: {}\r\n\r\n",
            PeerPath::Probe.as_str(),
            hello.to_header(&key())
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answered = Vec::new();
        while !answered.ends_with(b"\r\n\r\n") {
            answered.push(stream.read_u8().await.unwrap());
        }
        assert!(answered.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answered));
        let mut welcome = vec![0; stream.read_u32().await.unwrap() as usize];
        stream.read_exact(&mut welcome).await.unwrap();
        let (_, id, _) = open_welcome(&key(), &hello, welcome.into()).unwrap();
        let (sealer, opener) = FrameKeys::derive(&key(), &hello.sender, &id).asking();
        Self { stream, sealer, opener, received: BytesMut::new() }
    }
}

impl Raw<DuplexStream> {
    /// Without a network, over a buffer of so many bytes each way. The set owns the answering end.
    async fn in_memory(slow: &Arc<Slow>, bytes: usize, tasks: &mut JoinSet<()>) -> Self {
        let hello = Hello::new(name("node-a"));
        let greeted =
            Sessions::new(key()).welcome_framed(&hello.to_header(&key()), &who("node-b", 1)).unwrap();
        let (sender, welcome, keys) = greeted;
        let session = Box::new(FramedSession { service: Arc::clone(slow), sender, welcome, keys });
        let (mut stream, mut server) = tokio::io::duplex(bytes);
        tasks.spawn(async move {
            session.serve(&mut server, BytesMut::new(), &CancellationToken::new()).await;
        });
        let mut welcome = vec![0; stream.read_u32().await.unwrap() as usize];
        stream.read_exact(&mut welcome).await.unwrap();
        let (_, id, _) = open_welcome(&key(), &hello, welcome.into()).unwrap();
        let (sealer, opener) = FrameKeys::derive(&key(), &hello.sender, &id).asking();
        Self { stream, sealer, opener, received: BytesMut::new() }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Raw<T> {
    fn sealed(&mut self, exchange: u64, message: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.sealer.append(exchange, FrameKind::Question, message, &mut out);
        out
    }

    /// The next frame, or `None` when the peer has closed the connection.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.opener.take(&mut self.received).unwrap() {
                return Some(frame);
            }
            if self.stream.read_buf(&mut self.received).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }
}

/// What is sent for three frames.
type Spoil = fn(Vec<u8>, Vec<u8>, Vec<u8>) -> Vec<u8>;

#[tokio::test]
async fn a_frame_that_is_not_the_next_ends_the_connection() {
    let (peer, slow) = start().await;
    let cases: [(&str, Spoil); 5] = [
        ("repeated", |first, _, _| [first.clone(), first].concat()),
        ("left out", |first, _, third| [first, third].concat()),
        ("moved", |first, second, third| [first, third, second].concat()),
        ("changed", |first, mut second, _| {
            second[20] ^= 1;
            [first, second].concat()
        }),
        ("of another number", |first, mut second, _| {
            second[11] ^= 1;
            [first, second].concat()
        }),
    ];
    for (what, spoil) in cases {
        let mut raw = Raw::open(&peer).await;
        let frames = [1, 2, 3].map(|number| raw.sealed(number, b"q"));
        let [first, second, third] = frames;
        let asked = slow.asked.load(Ordering::SeqCst);
        raw.stream.write_all(&spoil(first, second, third)).await.unwrap();
        // The peer closes at once: the good frame's answer may not have been written.
        while raw.next().await.is_some() {}
        assert_eq!(slow.asked.load(Ordering::SeqCst) - asked, 1, "{what}: only the good frame was read");
        assert_eq!(slow.refused.lock().pop(), Some(AuthError::Forged), "{what}");
    }
    // And from another connection.
    let (mut one, mut other) = (Raw::open(&peer).await, Raw::open(&peer).await);
    other.stream.write_all(&one.sealed(1, b"q")).await.unwrap();
    assert_eq!(other.next().await, None);
    let mut long = one.sealed(2, &vec![0; PEER_FRAME_BYTES_MAX + 1]);
    long.truncate(64);
    one.stream.write_all(&long).await.unwrap();
    assert_eq!((one.next().await, slow.refused.lock().pop()), (None, Some(AuthError::Malformed)));
}

/// A peer that keeps no bound is cut, and its questions with it.
#[tokio::test]
async fn a_sender_over_the_bound_is_cut() {
    let (peer, slow) = start().await;
    let mut raw = Raw::open(&peer).await;
    for number in 1..=PEER_EXCHANGES_MAX as u64 + 1 {
        let frame = raw.sealed(number, b"wait");
        raw.stream.write_all(&frame).await.unwrap();
    }
    assert_eq!(raw.next().await, None);
    slow.until_waiting(0).await;
}

/// I9: a peer that asks and does not read. Answers wait for room, and none is lost.
#[tokio::test]
async fn a_slow_reader_holds_few_answers_and_loses_none() {
    let (slow, mut tasks) = (Arc::new(Slow::default()), JoinSet::new());
    let mut raw = Raw::in_memory(&slow, 1 << 10, &mut tasks).await;
    let mut message = vec![b'q'; PEER_FRAME_BYTES_MAX - 100];
    message[..4].copy_from_slice(b"wait");
    // All that may be under way.
    let questions = PEER_EXCHANGE_BYTES_MAX / message.len();
    for number in 1..=questions {
        let frame = raw.sealed(number as u64, &message);
        raw.stream.write_all(&frame).await.unwrap();
    }
    slow.until_waiting(questions).await;
    slow.told.notify_waiters();
    slow.until_waiting(0).await;
    // tidy: nothing shows that no further answer is queued
    tokio::time::sleep(Duration::from_millis(200)).await;
    // What is being written, and what is queued, each with the frame that goes over the bound.
    let queued_max = 2 * (PEER_ANSWERS_QUEUED_BYTES_MAX / PEER_FRAME_BYTES_MAX + 1);
    let waiting = slow.unsent.load(Ordering::SeqCst);
    assert!(waiting > 0 && waiting >= questions - queued_max, "{waiting} of {questions} wait for room");
    for _ in 0..questions {
        let frame = raw.next().await.unwrap();
        assert!(frame.kind == FrameKind::Answer && frame.message == message);
    }
    assert_eq!(slow.unsent.load(Ordering::SeqCst), 0);
}

/// Questions that came in one read: the answers of the first do not wait for a slow one at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answers_of_many_questions_do_not_wait_for_the_last() {
    let (slow, mut tasks) = (Arc::new(Slow::default()), JoinSet::new());
    let mut raw = Raw::in_memory(&slow, 64 << 10, &mut tasks).await;
    let first = u64::from(PEER_ANSWERS_TOGETHER_MAX);
    let mut questions: Vec<u8> = (1..=first).flat_map(|number| raw.sealed(number, b"q")).collect();
    questions.extend(raw.sealed(first + 1, b"block"));
    raw.stream.write_all(&questions).await.unwrap();
    for number in 1..=first {
        let answer = tokio::time::timeout(Duration::from_secs(5), raw.next()).await;
        assert_eq!(answer.expect("it waits for the last").unwrap().exchange, number);
    }
    slow.unblocked.store(true, Ordering::SeqCst);
    assert_eq!(raw.next().await.unwrap().message, "block");
}

/// The asking end closes an idle connection first, also if the last question took long: a question never meets a connection
/// that is being closed.
#[tokio::test(start_paused = true)]
async fn the_answering_end_counts_idle_time_from_its_last_answer() {
    let (slow, mut tasks) = (Arc::new(Slow::default()), JoinSet::new());
    let mut raw = Raw::in_memory(&slow, 64 << 10, &mut tasks).await;
    let question = raw.sealed(1, b"wait");
    raw.stream.write_all(&question).await.unwrap();
    slow.until_waiting(1).await;
    // tidy: the clock is the test's
    tokio::time::sleep(Duration::from_millis(IDLE_TIMEOUT_MS - 5_000)).await;
    slow.told.notify_one();
    assert_eq!(raw.next().await.unwrap().message, "wait");
    let answered = tokio::time::Instant::now();
    assert_eq!(raw.next().await, None);
    let idle = answered.elapsed();
    assert!(idle > Duration::from_millis(PEER_IDLE_MS_MAX), "{idle:?}");
    assert!(idle <= Duration::from_millis(2 * IDLE_TIMEOUT_MS), "{idle:?}");
}

/// A node that leaves has written its last answer, and has not read what came meanwhile. The answer arrives whole.
#[tokio::test]
async fn the_last_answer_of_a_node_that_leaves_is_not_cut() {
    let (peer, slow) = start().await;
    let mut raw = Raw::open(&peer).await;
    let question = raw.sealed(1, b"wait large");
    raw.stream.write_all(&question).await.unwrap();
    slow.until_waiting(1).await;
    peer.leaves.cancel();
    // tidy: the time that the node gives to late questions
    tokio::time::sleep(Duration::from_millis(LAST_CALL_MS + 100)).await;
    slow.told.notify_one();
    slow.until_waiting(0).await;
    let Raw { stream, mut sealer, mut opener, mut received } = raw;
    let (mut reader, mut writer) = stream.into_split();
    // Until the answer has begun, the node reads.
    reader.read_buf(&mut received).await.unwrap();
    let mut late = Vec::new();
    for number in 2..200 {
        sealer.append(number, FrameKind::Question, &[b'x'; 1 << 10], &mut late);
    }
    writer.write_all(&late).await.unwrap();
    let mut answer = PartedAnswer::default();
    let opened = loop {
        if let Some(frame) = opener.take(&mut received).unwrap() {
            if frame.kind == FrameKind::Part {
                assert!(answer.keep(frame.message));
                continue;
            }
            break answer.join(&frame.message);
        } else {
            // tidy: the reader is slow
            tokio::time::sleep(Duration::from_micros(200)).await;
            let read = reader.read_buf(&mut received).await.expect("it was reset");
            assert_ne!(read, 0, "it was cut");
        }
    };
    assert_eq!(opened, vec![b'l'; LARGE_BYTES]);
}

/// A part that was turned to another exchange by its head, or left out, ends the connection: the tail of an answer is never taken for
/// the whole.
#[test]
fn an_answer_in_parts_is_whole_or_not_read() {
    let part = vec![b'p'; PEER_FRAME_BYTES_MAX];
    let read = |spoil: fn(&mut Vec<Vec<u8>>)| {
        let (mut sealer, mut opener) = ends();
        let mut frames = Vec::new();
        for (kind, message) in
            [(FrameKind::Part, &part[..]), (FrameKind::Part, &part), (FrameKind::Answer, b"rest")]
        {
            let mut frame = Vec::new();
            sealer.append(1, kind, message, &mut frame);
            frames.push(frame);
        }
        spoil(&mut frames);
        let mut received = BytesMut::from(&frames.concat()[..]);
        let mut answer = PartedAnswer::default();
        loop {
            let Frame { kind, message, .. } = opener.take(&mut received)?.expect("a frame");
            if kind != FrameKind::Part {
                return Ok(answer.join(&message));
            }
            assert!(answer.keep(message));
        }
    };
    assert_eq!(read(|_| ()).unwrap(), [&part[..], &part, b"rest"].concat());
    let spoils: [fn(&mut Vec<Vec<u8>>); 4] = [
        |frames| drop(frames.remove(0)),
        |frames| frames.swap(0, 2),
        // The last byte of the exchange's number.
        |frames| frames[0][11] ^= 2,
        |frames| frames.iter_mut().take(2).for_each(|frame| frame[11] ^= 2),
    ];
    for spoil in spoils {
        assert_eq!(read(spoil), Err(AuthError::Forged));
    }
}

/// I9: parts fill their frames, so an answer has few.
#[test]
fn an_answer_has_a_bound_of_parts() {
    let mut answer = PartedAnswer::default();
    assert!(!answer.keep(Bytes::new()) && !answer.keep(Bytes::from_static(b"x")) && answer.is_empty());
    let part = Bytes::from(vec![0; PEER_FRAME_BYTES_MAX]);
    let kept = (0..).take_while(|_| answer.keep(part.clone())).count();
    assert_eq!(kept, PEER_ANSWER_BYTES_MAX / PEER_FRAME_BYTES_MAX);
}

/// I7: an end that the network has made is no sign of a dead process, also where a write has met it and the connection's task meets
/// another error.
#[tokio::test]
async fn what_the_network_has_ended_says_nothing_of_the_peer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (_reader, writer) = stream.into_split();
    let connection = FramedConnection::new(who("node-b", 1), writer, ends().0);
    let unheard = Ended::of(&std::io::ErrorKind::TimedOut.into());
    let (answer, ()) = tokio::join!(connection.ask(b"q"), async { connection.end(&unheard) });
    assert!(matches!(answer, Err(ExchangeFault::Lost)), "{answer:?}");
    for (first, is_broken) in [(None, true), (Some(std::io::ErrorKind::TimedOut), false)] {
        first.into_iter().for_each(|kind| connection.write_met(&kind.into()));
        let ended = connection.ended_first(Ended::Broken("closed by the peer".into()));
        assert_eq!(matches!(ended, Ended::Broken(_)), is_broken);
    }
}

fn ends() -> (FrameSealer, FrameOpener) {
    let sessions = Sessions::new(key());
    let hello = Hello::new(name("node-a"));
    let (sender, welcome, keys) =
        sessions.welcome_framed(&hello.to_header(&key()), &who("node-b", 1)).unwrap();
    let (_, id, _): (_, SessionId, _) = open_welcome(&key(), &hello, welcome.into()).unwrap();
    let asking = FrameKeys::derive(&key(), &sender, &id).asking();
    (asking.0, keys.answering().1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However the bytes are cut on their way, the frames come out whole and in order. A bit that changes stops them there.
    #[test]
    fn frames_come_out_as_they_went_in(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..20),
        cut in 1_usize..100,
        spoilt in proptest::option::of((any::<proptest::sample::Index>(), 1_u8..)),
    ) {
        let (mut sealer, mut opener) = ends();
        let mut bytes = Vec::new();
        let mut ends_at = Vec::new();
        for (number, message) in messages.iter().enumerate() {
            sealer.append(number as u64, FrameKind::Question, message, &mut bytes);
            ends_at.push(bytes.len());
        }
        let spoilt_at = spoilt.map(|(at, flip)| {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            at
        });
        let (mut received, mut came, mut failed) = (BytesMut::new(), Vec::new(), false);
        'reading: for piece in bytes.chunks(cut) {
            received.extend_from_slice(piece);
            loop {
                match opener.take(&mut received) {
                    Ok(Some(frame)) => came.push(frame.message.to_vec()),
                    Ok(None) => break,
                    Err(_) => {
                        failed = true;
                        break 'reading;
                    }
                }
            }
        }
        let good = ends_at.iter().filter(|end| spoilt_at.is_none_or(|at| at >= **end)).count();
        prop_assert_eq!(&came[..], &messages[..good]);
        prop_assert!(!failed || spoilt_at.is_some());
    }
}
