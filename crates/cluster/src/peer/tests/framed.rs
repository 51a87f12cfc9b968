//! The framed connection over loopback, and its frames without a network.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use hopcache_core::limits::{
    LAST_CALL_MS, PEER_ANSWERS_QUEUED_BYTES_MAX, PEER_EXCHANGES_MAX, PEER_FRAME_BYTES_MAX,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_engine::ports::PeerError;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::harness::{Peer, key, link, name, who};
use crate::peer::PeerPath;
use crate::peer::auth::{
    AuthError, ClusterKey, FRAMES_PROTOCOL, HELLO_HEADER, Hello, Keyring, PeerIdentity, SessionId,
    open_welcome,
};
use crate::peer::frames::{Frame, FrameKeys, FrameKind, FrameOpener, FrameSealer};
use crate::peer::link::PeerLink;
use crate::peer::server::{PeerHandler, PeerRefusal, service};
use crate::peer::sessions::Sessions;

const TIMEOUT: Millis = Millis(5_000);

/// Answers `wait…` when it is told to, `large` with megabytes, and anything else at once.
#[derive(Default)]
struct Slow {
    told: Notify,
    asked: AtomicUsize,
    /// Questions that wait now.
    waiting: AtomicUsize,
    refused: parking_lot::Mutex<Vec<AuthError>>,
}

struct CountsDown<'a>(&'a AtomicUsize);

impl Drop for CountsDown<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

const LARGE_BYTES: usize = 3 << 20;

#[async_trait]
impl PeerHandler for Slow {
    async fn ask(&self, _: &NodeName, message: Bytes) -> Result<Bytes, PeerRefusal> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if message.starts_with(b"wait") {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let _down = CountsDown(&self.waiting);
            self.told.notified().await;
        }
        Ok(if message == "large" { Bytes::from(vec![b'l'; LARGE_BYTES]) } else { message })
    }

    fn identity(&self) -> PeerIdentity {
        who("node-b", 1)
    }

    fn refused(&self, why: AuthError) {
        self.refused.lock().push(why);
    }
}

impl Slow {
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !holds(self) {
            assert!(Instant::now() < end, "never: {what}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn until_waiting(&self, count: usize) {
        self.until("so many wait", |slow| slow.waiting.load(Ordering::SeqCst) == count).await;
    }
}

async fn start() -> (Peer, Arc<Slow>) {
    let slow = Arc::new(Slow::default());
    let peer = Peer::serve("127.0.0.1:0".parse().unwrap(), service(Arc::clone(&slow), key())).await;
    (peer, slow)
}

async fn ask(link: &PeerLink, peer: &Peer, message: impl Into<Bytes>) -> Result<Bytes, PeerError> {
    link.exchange((&name("node-b"), peer.addr), PeerPath::Ask, &message.into(), TIMEOUT).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_exchanges_share_one_connection() {
    let ((peer, slow), link) = (start().await, link("node-a"));
    let mut askers = JoinSet::new();
    for asker in 0..32 {
        let (link, addr) = (Arc::clone(&link), peer.addr);
        askers.spawn(async move {
            for question in 0..100 {
                let text = Bytes::from(format!("{asker} {question}"));
                let answer = link.exchange((&name("node-b"), addr), PeerPath::Ask, &text, TIMEOUT).await;
                assert_eq!(answer, Ok(text));
            }
        });
    }
    askers.join_all().await;
    assert_eq!((peer.connections_accepted(), slow.asked.load(Ordering::SeqCst)), (1, 3_200));
}

/// A question that waits holds up none that came later, and neither does a large answer.
#[tokio::test]
async fn answers_overtake_each_other() {
    let ((peer, slow), link) = (start().await, link("node-a"));
    let waits = ask(&link, &peer, "wait");
    let overtakes = async {
        slow.until_waiting(1).await;
        assert_eq!(ask(&link, &peer, "quick").await.unwrap(), "quick");
        assert_eq!(ask(&link, &peer, "large").await.unwrap(), vec![b'l'; LARGE_BYTES]);
        slow.told.notify_one();
    };
    let (waited, ()) = tokio::join!(waits, overtakes);
    assert_eq!((waited.unwrap(), peer.connections_accepted()), ("wait".into(), 1));
}

/// An exchange that is dropped ends at the peer too. The others go on, on the same connection.
#[tokio::test]
async fn a_question_that_is_given_up_is_dropped_by_the_peer() {
    let ((peer, slow), link) = (start().await, link("node-a"));
    ask(&link, &peer, "first").await.unwrap();
    let gives_up = tokio::time::timeout(Duration::from_millis(50), ask(&link, &peer, "wait 1"));
    let goes_on = ask(&link, &peer, "wait 2");
    let watch = async {
        slow.until_waiting(2).await;
        slow.until_waiting(1).await;
        slow.told.notify_waiters();
    };
    let (given_up, answered, ()) = tokio::join!(gives_up, goes_on, watch);
    assert!(given_up.is_err());
    assert_eq!((answered.unwrap(), peer.connections_accepted()), ("wait 2".into(), 1));
}

/// A peer that has said nothing since the question: packets may be lost on this connection alone.
#[tokio::test]
async fn after_a_silence_the_next_exchange_connects_anew() {
    let ((peer, slow), link) = (start().await, link("node-a"));
    let silence =
        link.exchange((&name("node-b"), peer.addr), PeerPath::Ask, &"wait".into(), Millis(800)).await;
    assert_eq!(silence, Err(PeerError::TimedOut));
    slow.until_waiting(0).await;
    assert_eq!(ask(&link, &peer, "again").await.unwrap(), "again");
    assert_eq!(peer.connections_accepted(), 2);
}

/// I9: more exchanges than one connection takes go over HTTP, and none waits for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exchanges_over_the_bound_go_over_http() {
    let ((peer, slow), link) = (start().await, link("node-a"));
    let mut askers = JoinSet::new();
    for _ in 0..PEER_EXCHANGES_MAX {
        let (link, addr) = (Arc::clone(&link), peer.addr);
        askers.spawn(async move {
            link.exchange((&name("node-b"), addr), PeerPath::Ask, &"wait".into(), Millis(30_000)).await
        });
    }
    slow.until_waiting(PEER_EXCHANGES_MAX).await;
    assert_eq!(peer.connections_accepted(), 1);
    assert_eq!(ask(&link, &peer, "more").await.unwrap(), "more");
    assert_eq!(peer.connections_accepted(), 2);
    slow.told.notify_waiters();
    assert!(askers.join_all().await.into_iter().all(|answer| answer == Ok("wait".into())));
}

/// The connection breaks with exchanges under way. Each is asked once more, on one new connection.
#[tokio::test]
async fn exchanges_of_a_broken_connection_are_asked_once_more() {
    let (first, slow) = start().await;
    let (addr, link) = (first.addr, link("node-a"));
    let asks = futures_util::future::join_all((0..8).map(|_| async {
        link.exchange((&name("node-b"), addr), PeerPath::Ask, &"wait".into(), TIMEOUT).await
    }));
    let restart = async {
        slow.until_waiting(8).await;
        first.kill().await;
        let second = Peer::serve(addr, service(Arc::clone(&slow), key())).await;
        slow.until_waiting(8).await;
        slow.told.notify_waiters();
        second
    };
    let (answers, second) = tokio::join!(asks, restart);
    assert!(answers.into_iter().all(|answer| answer == Ok("wait".into())));
    assert_eq!((second.connections_accepted(), slow.asked.load(Ordering::SeqCst)), (1, 16));
}

/// F12: a node that leaves answers what it was asked, refuses what comes later, and then closes the connection.
#[tokio::test]
async fn a_node_that_leaves_answers_and_then_closes() {
    let ((peer, slow), link) = (start().await, link("node-a"));
    let leave = async {
        slow.until_waiting(1).await;
        peer.leaves.cancel();
        tokio::time::sleep(Duration::from_millis(LAST_CALL_MS + 200)).await;
        let refused = ask(&link, &peer, "late").await;
        assert_eq!(refused, Err(PeerError::Refused("503 this node leaves".into())));
        slow.told.notify_one();
    };
    let (answer, ()) = tokio::join!(ask(&link, &peer, "wait"), leave);
    assert_eq!((answer.unwrap(), peer.connections_accepted()), ("wait".into(), 1));
    let connection = async {
        while peer.connections_accepted() < 2 {
            ask(&link, &peer, "another").await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(5), connection).await.expect("the connection stays open");
}

/// A process between two nodes changes a byte of an answer. The exchange is refused, and the peer does not count as gone.
#[tokio::test]
async fn a_changed_answer_is_refused() {
    let ((peer, _), link) = (start().await, link("node-a"));
    let between = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, upstream) = (between.local_addr().unwrap(), peer.addr);
    let changes = Arc::new(AtomicBool::new(false));
    let will_change = Arc::clone(&changes);
    tokio::spawn(async move {
        let (client, _) = between.accept().await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = TcpStream::connect(upstream).await.unwrap().into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
        let mut bytes = vec![0; 16 << 10];
        while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
            bytes[read - 1] ^= u8::from(changes.load(Ordering::SeqCst));
            to_client.write_all(&bytes[..read]).await.unwrap();
        }
    });
    let asks = || async { link.exchange((&name("node-b"), addr), PeerPath::Ask, &"x".into(), TIMEOUT).await };
    assert_eq!(asks().await.unwrap(), "x");
    will_change.store(true, Ordering::SeqCst);
    let changed = asks().await;
    assert!(matches!(&changed, Err(PeerError::Refused(why)) if why.contains("frame")), "{changed:?}");
}

/// A balancer that knows no upgrade: the peer is asked over HTTP.
#[tokio::test]
async fn without_an_upgrade_questions_go_over_http() {
    let ((peer, _), link) = (start().await, link("node-a"));
    let before = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, upstream) = (before.local_addr().unwrap(), peer.addr);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = before.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(upstream).await.unwrap();
                let mut head = vec![0; 16 << 10];
                let read = client.read(&mut head).await.unwrap();
                let head = String::from_utf8_lossy(&head[..read]).replace("upgrade", "x-grade");
                server.write_all(head.as_bytes()).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    for _ in 0..3 {
        let answer = link.exchange((&name("node-b"), addr), PeerPath::Ask, &"hello".into(), TIMEOUT).await;
        assert_eq!(answer.unwrap(), "hello");
    }
    // The refused upgrade, and one for the questions.
    assert_eq!(peer.connections_accepted(), 2);
}

/// A rotation of the cluster key: whoever is accepted over HTTP is accepted with frames.
#[tokio::test]
async fn during_a_rotation_both_keys_open_a_framed_connection() {
    let make = |secret: &[u8]| Arc::new(ClusterKey::of("hopcache", secret).unwrap());
    let (old, new) = (make(b"the key until today"), make(b"the key from now on"));
    let keys = Keyring::new(Arc::clone(&new), Some(Arc::clone(&old)));
    let peer = Peer::serve("127.0.0.1:0".parse().unwrap(), service(Arc::new(Slow::default()), keys)).await;
    for key in [old, new] {
        assert_eq!(ask(&PeerLink::new(key, name("node-a")), &peer, "hello").await.unwrap(), "hello");
    }
    assert_eq!(peer.connections_accepted(), 2);
}

/// A framed connection that the test drives by hand.
struct Raw {
    stream: TcpStream,
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

/// I9: a peer that asks and does not read. Answers wait for room, and the next questions are not read.
#[tokio::test]
async fn a_slow_reader_holds_few_answers_and_loses_none() {
    let (peer, slow) = start().await;
    let mut raw = Raw::open(&peer).await;
    let message = vec![b'q'; PEER_FRAME_BYTES_MAX - 1];
    // More than the kernel's buffers and the queue hold.
    let questions = 64 + 2 * PEER_ANSWERS_QUEUED_BYTES_MAX as u64 / PEER_FRAME_BYTES_MAX as u64 + 400;
    let frames: Vec<_> = (1..=questions).map(|number| raw.sealed(number, &message)).collect();
    let Raw { stream, mut opener, mut received, .. } = raw;
    let (mut reader, mut writer) = stream.into_split();
    let writes = tokio::spawn(async move {
        for frame in frames {
            writer.write_all(&frame).await.unwrap();
        }
        writer
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let asked = slow.asked.load(Ordering::SeqCst) as u64;
    assert!(asked < questions, "all {asked} were answered, and nobody reads");
    let mut answered = 0;
    while answered < questions {
        match opener.take(&mut received).unwrap() {
            Some(frame) => answered += u64::from(frame.kind == FrameKind::Answer && frame.message == message),
            None => assert_ne!(reader.read_buf(&mut received).await.unwrap(), 0),
        }
    }
    writes.await.unwrap();
}

/// F10: a node of another wire version says so in its welcome, and is refused.
#[tokio::test]
async fn a_welcome_that_is_none_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n\0\0\0\x40").await.unwrap();
        stream.write_all(&[7; 64]).await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
    });
    let asked = link("node-a").exchange((&name("node-b"), addr), PeerPath::Ask, &"x".into(), TIMEOUT).await;
    assert!(matches!(asked, Err(PeerError::Refused(_))), "{asked:?}");
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
