//! The framed connection over loopback.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::limits::{LAST_CALL_MS, PEER_ANSWER_BYTES_MAX, PEER_EXCHANGES_MAX, PEER_SILENCE_MS};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_engine::ports::PeerError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::harness::{Peer, key, link, name, who};
use crate::peer::PeerPath;
use crate::peer::auth::{AuthError, ClusterKey, Keyring, PeerIdentity};
use crate::peer::link::PeerLink;
use crate::peer::server::{PeerHandler, PeerRefusal, service};

const TIMEOUT: Millis = Millis(5_000);

/// Answers `wait…` when it is told to, `large` with megabytes, `endless` with more than an answer may have, and anything
/// else at once. `block` keeps its thread until it is told to, and `panic` panics.
#[derive(Default)]
pub(super) struct Slow {
    pub(super) told: Notify,
    pub(super) unblocked: AtomicBool,
    pub(super) asked: AtomicUsize,
    /// Questions that wait now.
    pub(super) waiting: AtomicUsize,
    /// Answers of questions that waited, until they are copied into a frame.
    pub(super) unsent: Arc<AtomicUsize>,
    pub(super) refused: parking_lot::Mutex<Vec<AuthError>>,
}

struct CountsDown<'a>(&'a AtomicUsize);

impl Drop for CountsDown<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An answer that is counted while it exists.
struct Unsent(Bytes, Arc<AtomicUsize>);

impl Unsent {
    fn of(answer: Bytes, unsent: &Arc<AtomicUsize>) -> Self {
        unsent.fetch_add(1, Ordering::SeqCst);
        Self(answer, Arc::clone(unsent))
    }
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(super) const LARGE_BYTES: usize = 3 << 20;

#[async_trait]
impl PeerHandler for Slow {
    async fn ask(&self, _: &NodeName, message: Bytes) -> Result<Bytes, PeerRefusal> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if message.starts_with(b"wait") {
            // First: whoever sees that it waits may tell it at once.
            let told = self.told.notified();
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let _down = CountsDown(&self.waiting);
            told.await;
        }
        if message.starts_with(b"panic") {
            if message == "panic late" {
                tokio::task::yield_now().await;
            }
            panic!("as the test wants");
        }
        // Not for ever: a test that fails would wait for this thread.
        let end = Instant::now() + Duration::from_secs(10);
        while message == "block" && !self.unblocked.load(Ordering::SeqCst) && Instant::now() < end {
            // tidy: poll interval
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(match &message[..] {
            b"large" | b"wait large" => Bytes::from(vec![b'l'; LARGE_BYTES]),
            b"endless" => Bytes::from(vec![b'e'; PEER_ANSWER_BYTES_MAX + (1 << 20)]),
            _ if message.starts_with(b"wait") => Bytes::from_owner(Unsent::of(message, &self.unsent)),
            _ => message,
        })
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
            // tidy: poll interval
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(super) async fn until_waiting(&self, count: usize) {
        self.until("so many wait", |slow| slow.waiting.load(Ordering::SeqCst) == count).await;
    }
}

pub(super) async fn start() -> (Peer, Arc<Slow>) {
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
    let (asker, addr) = (Arc::clone(&link), peer.addr);
    let gives_up = tokio::spawn(async move {
        asker.exchange((&name("node-b"), addr), PeerPath::Ask, &"wait 1".into(), TIMEOUT).await
    });
    let watch = async {
        slow.until_waiting(2).await;
        gives_up.abort();
        slow.until_waiting(1).await;
        slow.told.notify_waiters();
    };
    let (answered, ()) = tokio::join!(ask(&link, &peer, "wait 2"), watch);
    assert_eq!((answered.unwrap(), peer.connections_accepted()), ("wait 2".into(), 1));
}

/// A peer that has said nothing since the question: packets may be lost on this connection alone. The peer is told that
/// the question was given up (F50), a question that is under way goes on, and the next one connects anew.
#[tokio::test]
async fn a_question_that_is_given_up_after_a_silence_is_dropped_by_the_peer_too() {
    let ((peer, slow), link) = (start().await, link("node-a"));
    ask(&link, &peer, "first").await.unwrap();
    let silence = async {
        slow.until_waiting(1).await;
        let patience = Millis(2 * PEER_SILENCE_MS);
        let given_up =
            link.exchange((&name("node-b"), peer.addr), PeerPath::Ask, &"wait 2".into(), patience).await;
        assert_eq!((given_up, slow.asked.load(Ordering::SeqCst)), (Err(PeerError::TimedOut), 3));
        slow.until_waiting(1).await;
        assert_eq!(ask(&link, &peer, "again").await.unwrap(), "again");
        slow.told.notify_waiters();
    };
    let (goes_on, ()) = tokio::join!(ask(&link, &peer, "wait 1"), silence);
    assert_eq!((goes_on.unwrap(), peer.connections_accepted()), ("wait 1".into(), 2));
}

/// An exchange queues its question, lets others go first, and its task is not polled again. The next exchange writes.
#[tokio::test]
async fn an_exchange_that_is_not_polled_holds_up_no_other() {
    let ((peer, slow), link) = (start().await, link("node-a"));
    ask(&link, &peer, "first").await.unwrap();
    let waits = ask(&link, &peer, "wait");
    let others = async {
        slow.until_waiting(1).await;
        let mut held = pin!(ask(&link, &peer, "held"));
        let polled = poll_fn(|context| Poll::Ready(held.as_mut().poll(context))).await;
        assert!(polled.is_pending());
        let other = tokio::time::timeout(Duration::from_secs(2), ask(&link, &peer, "other")).await;
        assert_eq!(other.expect("nobody has written it").unwrap(), "other");
        assert_eq!(held.await.unwrap(), "held");
        slow.told.notify_waiters();
    };
    let (waited, ()) = tokio::join!(waits, others);
    assert_eq!((waited.unwrap(), peer.connections_accepted()), ("wait".into(), 1));
}

/// An answer that is too long fails its own exchange, and one that panics is refused. The others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_that_fails_takes_no_other_along() {
    let ((peer, slow), link) = (start().await, link("node-a"));
    let fails = async {
        slow.until_waiting(1).await;
        for (question, why) in [("endless", "more than"), ("panic", "500"), ("panic late", "500")] {
            let failed = ask(&link, &peer, question).await;
            assert!(matches!(&failed, Err(PeerError::Refused(text)) if text.contains(why)), "{failed:?}");
        }
        assert_eq!(ask(&link, &peer, "large").await.unwrap(), vec![b'l'; LARGE_BYTES]);
        slow.told.notify_waiters();
    };
    let (waited, ()) = tokio::join!(ask(&link, &peer, "wait"), fails);
    assert_eq!((waited.unwrap(), peer.connections_accepted()), ("wait".into(), 1));
}

/// The first connection gets no answer. The exchange that opened it has had its time. One that came later has not, and
/// tries once more.
#[tokio::test]
async fn an_exchange_that_came_late_to_an_opening_tries_again() {
    let ((peer, _), link) = (start().await, link("node-a"));
    let before = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, upstream) = (before.local_addr().unwrap(), peer.addr);
    tokio::spawn(async move {
        let (_silent, _) = before.accept().await.unwrap();
        let (mut client, _) = before.accept().await.unwrap();
        let mut server = TcpStream::connect(upstream).await.unwrap();
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    });
    let asks = || async { link.exchange((&name("node-b"), addr), PeerPath::Ask, &"x".into(), TIMEOUT).await };
    let late = async {
        // tidy: the second exchange begins in the middle of the opening
        tokio::time::sleep(Duration::from_millis(100)).await;
        asks().await
    };
    let (opened, late) = tokio::join!(asks(), late);
    assert_eq!((opened, late), (Err(PeerError::TimedOut), Ok("x".into())));
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

/// F12: a node that leaves answers what it was asked, and then closes the connection. Questions that come later meet its
/// closed port, as over HTTP.
#[tokio::test]
async fn a_node_that_leaves_answers_and_then_closes() {
    let ((peer, slow), link) = (start().await, link("node-a"));
    let leave = async {
        slow.until_waiting(1).await;
        peer.leaves.cancel();
        // tidy: the time that the node gives to late questions
        tokio::time::sleep(Duration::from_millis(LAST_CALL_MS + 200)).await;
        let late = ask(&link, &peer, "late").await;
        assert!(matches!(late, Err(PeerError::Gone(_))), "{late:?}");
        slow.told.notify_one();
    };
    let (answer, ()) = tokio::join!(ask(&link, &peer, "wait large"), leave);
    assert_eq!((answer.unwrap(), peer.connections_accepted()), (vec![b'l'; LARGE_BYTES].into(), 1));
    assert_eq!(slow.asked.load(Ordering::SeqCst), 1, "the late question was not carried out");
}

/// A process between two nodes changes a byte of each answer. The exchange is asked once more, then it is refused, and the
/// peer does not count as gone.
#[tokio::test]
async fn a_changed_answer_is_refused() {
    let ((peer, slow), link) = (start().await, link("node-a"));
    let between = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, upstream) = (between.local_addr().unwrap(), peer.addr);
    let changes = Arc::new(AtomicBool::new(false));
    let will_change = Arc::clone(&changes);
    tokio::spawn(async move {
        while let Ok((client, _)) = between.accept().await {
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = TcpStream::connect(upstream).await.unwrap().into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            let changes = Arc::clone(&changes);
            tokio::spawn(async move {
                let mut bytes = vec![0; 16 << 10];
                while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
                    // Not the head and the welcome of an opening.
                    let is_answer = !bytes.starts_with(b"HTTP") && read < 64;
                    bytes[read - 1] ^= u8::from(is_answer && changes.load(Ordering::SeqCst));
                    let _ = to_client.write_all(&bytes[..read]).await;
                }
            });
        }
    });
    let asks = || async { link.exchange((&name("node-b"), addr), PeerPath::Ask, &"x".into(), TIMEOUT).await };
    assert_eq!(asks().await.unwrap(), "x");
    will_change.store(true, Ordering::SeqCst);
    let changed = asks().await;
    assert!(matches!(&changed, Err(PeerError::Refused(why)) if why.contains("frame")), "{changed:?}");
    assert_eq!((slow.asked.load(Ordering::SeqCst), peer.connections_accepted()), (3, 2));
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
