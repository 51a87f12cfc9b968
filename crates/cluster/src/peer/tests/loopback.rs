//! Client and server over loopback: the result of an exchange for each state of the peer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::StatusCode;
use bytes::Bytes;
use hopcache_core::limits::{PEER_BODY_ROOM_BYTES, PEER_MESSAGE_BYTES_MAX, PEER_RECONNECT_MS_MAX};
use hopcache_core::node::Incarnation;
use hopcache_core::time::Millis;
use hopcache_engine::ports::{PeerError, Peers};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::harness::{Echo, Peer, link, name, who};
use crate::peer::PeerPath;
use crate::peer::auth::{ClusterKey, HELLO_HEADER};
use crate::peer::client::{PeerBook, PeerClient};
use crate::peer::link::PeerLink;
use crate::peer::server::service;

const TIMEOUT: Millis = Millis(5_000);

async fn ask(link: &PeerLink, addr: SocketAddr, message: &'static str) -> Result<Bytes, PeerError> {
    link.exchange((&name("node-b"), addr), PeerPath::Ask, &Bytes::from_static(message.as_bytes()), TIMEOUT)
        .await
}

#[tokio::test]
async fn exchanges_share_one_connection() {
    let peer = Peer::start("node-b", 1).await;
    let link = link("node-a");
    for _ in 0..20 {
        assert_eq!(ask(&link, peer.addr, "hello").await.unwrap(), "node-a:hello");
    }
    assert_eq!(peer.connections_accepted(), 1);
}

#[tokio::test]
async fn a_refusal_arrives_sealed_and_with_its_reason() {
    let peer = Peer::start("node-b", 1).await;
    let refused = ask(&link("node-a"), peer.addr, "no").await;
    assert_eq!(refused, Err(PeerError::Refused("400 no such word".into())));
}

/// A port without a listener.
async fn dead_addr() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn a_refused_connection_is_gone_at_once() {
    let (addr, link) = (dead_addr().await, link("node-a"));
    let started = Instant::now();
    assert!(matches!(ask(&link, addr, "x").await, Err(PeerError::Gone(_))));
    assert!(started.elapsed() < Duration::from_millis(50), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_silent_peer_is_timed_out_at_the_deadline() {
    // The kernel accepts the connection, as for a stopped process (F2). No process ever answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (link, addr) = (link("node-a"), silent.local_addr().unwrap());
    let started = Instant::now();
    let asked = link.exchange((&name("node-b"), addr), PeerPath::Ask, &Bytes::new(), Millis(200)).await;
    assert_eq!(asked, Err(PeerError::TimedOut));
    assert!(started.elapsed() >= Duration::from_millis(200));
    assert!(started.elapsed() < Duration::from_millis(700), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_restart_on_the_same_port_goes_unnoticed() {
    let link = link("node-a");
    let mut peer = Peer::start("node-b", 1).await;
    let addr = peer.addr;
    for life in 2..10 {
        assert_eq!(ask(&link, addr, "hello").await.unwrap(), "node-a:hello");
        peer.kill().await;
        peer = Peer::start_at(addr, "node-b", life).await;
        let asks = (0..8).map(|_| ask(&link, addr, "again"));
        for answer in futures_util::future::join_all(asks).await {
            assert_eq!(answer.unwrap(), "node-a:again");
        }
        assert_eq!(link.probe(addr, TIMEOUT).await.unwrap().card.life, Incarnation(life));
    }
    peer.kill().await;
    assert!(matches!(ask(&link, addr, "x").await, Err(PeerError::Gone(_))));
}

/// I9: any process at a seed's address may answer a probe without end. No more than a welcome is read.
#[tokio::test]
async fn an_answer_without_end_is_refused_after_the_size_of_a_welcome() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let telling = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 60000000\r\n\r\n").await.unwrap();
        let mut told_bytes = 0_usize;
        while let Ok(written) = stream.write(&[0; 1 << 16]).await {
            told_bytes += written;
        }
        told_bytes
    });
    assert!(matches!(link("node-a").probe(addr, TIMEOUT).await, Err(PeerError::Refused(_))));
    // The capacity of the two sockets, and not the announced length.
    assert!(telling.await.unwrap() < 30_000_000);
}

/// I7: the peer's container went with it, so no process refuses the next connection. Each connection that broke makes
/// one silent probe count as gone. Without such a connection silence is only silence.
#[tokio::test]
async fn a_broken_connection_with_silence_behind_it_is_gone() {
    let link = link("node-a");
    let peer = Peer::start("node-b", 1).await;
    let addr = peer.addr;
    assert_eq!(ask(&link, addr, "hello").await.unwrap(), "node-a:hello");
    peer.kill().await;
    // The backlog is full, so the kernel does not answer further connections.
    let silent = TcpSocket::new_v4().unwrap();
    silent.set_reuseaddr(true).unwrap();
    silent.bind(addr).unwrap();
    let silent = silent.listen(1).unwrap();
    let mut filling = Vec::new();
    while let Ok(taken) = tokio::time::timeout(Duration::from_millis(50), TcpStream::connect(addr)).await {
        filling.push(taken.unwrap());
    }
    let limit = Millis(PEER_RECONNECT_MS_MAX + 500);
    assert!(matches!(link.probe(addr, limit).await, Err(PeerError::Gone(_))), "a connection had broken");
    assert!(matches!(link.probe(addr, limit).await, Err(PeerError::TimedOut)), "none was left");
    drop(silent);
}

#[tokio::test]
async fn a_connection_closed_without_an_answer_is_tried_once_more_and_then_gone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let mut requests = 0;
        while requests < 2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            requests += usize::from(stream.read(&mut [0; 4096]).await.unwrap() > 0);
        }
        requests
    });
    assert!(matches!(link("node-a").probe(addr, TIMEOUT).await, Err(PeerError::Gone(_))));
    assert_eq!(served.await.unwrap(), 2);
}

#[tokio::test]
async fn strangers_are_refused_both_ways() {
    let peer = Peer::start("node-b", 1).await;
    let other = Arc::new(ClusterKey::of("hopcache", b"the key of some other cluster").unwrap());
    let stranger = PeerLink::new(Arc::clone(&other), name("node-x"));
    assert!(matches!(ask(&stranger, peer.addr, "x").await, Err(PeerError::Refused(_))));

    let echo = Arc::new(Echo(who("node-b", 1)));
    let impostor = Peer::serve("127.0.0.1:0".parse().unwrap(), service(echo, other)).await;
    assert!(matches!(ask(&link("node-a"), impostor.addr, "x").await, Err(PeerError::Refused(_))));

    let yes = TowerToHyperService::new(Router::new().fallback(|| async { "poison" }));
    let parrot = Peer::serve("127.0.0.1:0".parse().unwrap(), yes).await;
    assert!(matches!(ask(&link("node-a"), parrot.addr, "x").await, Err(PeerError::Refused(_))));
}

#[tokio::test]
async fn a_stranger_on_the_port_of_a_known_peer_cannot_answer_in_its_session() {
    let (peer, link) = (Peer::start("node-b", 1).await, link("node-a"));
    let addr = peer.addr;
    ask(&link, addr, "hello").await.unwrap();
    peer.kill().await;
    let _parrot =
        Peer::serve(addr, TowerToHyperService::new(Router::new().fallback(|| async { "poison" }))).await;
    assert!(matches!(ask(&link, addr, "hello").await, Err(PeerError::Refused(_))));
}

#[tokio::test]
async fn another_node_at_the_address_is_not_asked() {
    let peer = Peer::start("node-c", 1).await;
    let refused = ask(&link("node-a"), peer.addr, "x").await;
    assert!(matches!(refused, Err(PeerError::Refused(text)) if text.contains("node-c")));
}

#[tokio::test]
async fn whoever_proves_nothing_learns_nothing() {
    let peer = Peer::start("node-b", 1).await;
    // reqwest wants a TLS provider even for plain HTTP. Any provider that is installed already will do.
    let _already = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let url = |path: &str| format!("http://{}{path}", peer.addr);
    let requests = [
        client.get(url("/peer/v1/probe")),
        client.get(url("/peer/v1/probe")).header(HELLO_HEADER, "v1 node-a 00 00"),
        client.post(url("/peer/v1/ask")).body("x"),
        client.post(url("/peer/v1/ask")).body(vec![1; 4096]),
        client.get(url("/peer/v1/ask")),
        client.get(url("/metrics")),
    ];
    let mut bodies = Vec::new();
    for request in requests {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        bodies.push(response.text().await.unwrap());
    }
    bodies.dedup();
    assert_eq!(bodies, [r#"{"title":"Forbidden","status":403}"#]);
    let large = client.post(url("/peer/v1/ask")).body(vec![1; PEER_MESSAGE_BYTES_MAX + 4096]).send().await;
    // The connection may break before the client has written all bytes. Then there is no status to read.
    assert!(large.is_err() || large.is_ok_and(|response| response.status() == StatusCode::PAYLOAD_TOO_LARGE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn megabytes_travel_whole() {
    let peer = Peer::start("node-b", 1).await;
    let message = Bytes::from(vec![b'm'; PEER_MESSAGE_BYTES_MAX]);
    let to = name("node-b");
    let link = link("node-a");
    let answer = link.exchange((&to, peer.addr), PeerPath::Ask, &message, TIMEOUT).await.unwrap();
    assert_eq!(answer.slice(7..), message);
    let larger = Bytes::from(vec![b'm'; PEER_MESSAGE_BYTES_MAX + 1]);
    let refused = link.exchange((&to, peer.addr), PeerPath::Ask, &larger, TIMEOUT).await;
    assert!(matches!(refused, Err(PeerError::Refused(_))));
}

/// I9: strangers that claim large messages share the room with large forwards, which get a quick refusal. No small
/// message waits for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_messages_share_the_room_and_small_ones_need_none() {
    let peer = Peer::start("node-b", 1).await;
    let mut strangers = Vec::new();
    for _ in 0..PEER_BODY_ROOM_BYTES / PEER_MESSAGE_BYTES_MAX {
        let mut stranger = TcpStream::connect(peer.addr).await.unwrap();
        let head = format!(
            "POST /peer/v1/ask HTTP/1.1\r\nHost: b\r\nExpect: 100-continue\r\nContent-Length: {PEER_MESSAGE_BYTES_MAX}\r\n\r\n"
        );
        stranger.write_all(head.as_bytes()).await.unwrap();
        // The server asks for the body, so it has taken the room.
        let mut answer = [0; 12];
        stranger.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 100");
        strangers.push(stranger);
    }
    let link = link("node-a");
    let message = Bytes::from(vec![b'm'; 7 << 19]);
    let to = name("node-b");
    let refused = link.exchange((&to, peer.addr), PeerPath::Ask, &message, TIMEOUT).await;
    assert!(matches!(&refused, Err(PeerError::Refused(text)) if text.contains("503")), "{refused:?}");
    assert_eq!(ask(&link, peer.addr, "hello").await.unwrap(), "node-a:hello");
    drop(strangers);
    let answer = link.exchange((&to, peer.addr), PeerPath::Ask, &message, TIMEOUT).await.unwrap();
    assert_eq!(answer.slice(7..), message);
}

/// Its address, and the reports for each life.
struct OneMember(SocketAddr, Mutex<Vec<(Incarnation, PeerError)>>);

impl PeerBook for OneMember {
    fn find(&self, node: &hopcache_core::node::NodeName) -> Option<(SocketAddr, Incarnation)> {
        (node.as_str() == "node-b").then_some((self.0, Incarnation(9)))
    }

    fn report(&self, _: &hopcache_core::node::NodeName, life: Incarnation, error: &PeerError) {
        self.1.lock().push((life, error.clone()));
    }
}

#[tokio::test]
async fn the_port_finds_members_by_name_and_reports_their_failures() {
    let peer = Peer::start("node-b", 9).await;
    let book = Arc::new(OneMember(peer.addr, Mutex::default()));
    let client = PeerClient::new(link("node-a"), Arc::clone(&book));
    assert_eq!(client.probe(&name("node-b"), TIMEOUT).await, Ok(Incarnation(9)));
    assert_eq!(client.forward(&name("node-b"), "x".into(), TIMEOUT).await.unwrap(), "node-a:x");
    assert!(matches!(client.forward(&name("node-z"), "x".into(), TIMEOUT).await, Err(PeerError::Refused(_))));
    assert!(book.1.lock().is_empty());
    peer.kill().await;
    let gone = client.forward(&name("node-b"), "x".into(), TIMEOUT).await;
    assert_eq!(vec![(Incarnation(9), gone.unwrap_err())], *book.1.lock());
}
