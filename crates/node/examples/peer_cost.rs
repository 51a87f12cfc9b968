//! The cost of one hop: CPU time of sender and receiver together, per exchange with a 1 KB answer.
//!
//! `cargo run --release -p hopcache --example peer_cost`
//!
//! Both ends live in this process, on loopback, with 32 exchanges at a time over kept connections. The same bytes
//! also go unsealed through reqwest, hyper-util's client and bare hyper connections to a bare axum handler. So the
//! proof's share and the client's share can be separated. Rounds alternate; medians are printed.

// An example prints, and stops at the first surprise.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use axum::Router;
use axum::routing::post;
use axum::serve::ListenerExt;
use bytes::Bytes;
use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use hopcache_cluster::peer::PeerPath;
use hopcache_cluster::peer::auth::{ClusterKey, PeerIdentity, SealedRequest, SessionId, SessionKeys};
use hopcache_cluster::peer::link::PeerLink;
use hopcache_cluster::peer::server::{PeerHandler, PeerRefusal, service};
use hopcache_core::membership::{Card, Phase};
use hopcache_core::node::{Incarnation, NodeName};
use hopcache_core::ring::RingEpoch;
use hopcache_core::time::Millis;
use hopcache_net::connection_timeouts::ConnectionTimeouts;
use hopcache_net::listener::{ListenerBounds, Refusals, serve as listen};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const MINUTE: Duration = Duration::from_secs(60);
const WORKERS: usize = 32;
const EXCHANGES_EACH: usize = 2_000;
const ROUNDS: usize = 7;
const MESSAGE: [u8; 300] = [b'q'; 300];
const ANSWER: [u8; 1024] = [b'r'; 1024];

struct Fixed(PeerIdentity);

#[async_trait]
impl PeerHandler for Fixed {
    async fn ask(&self, _: &NodeName, _: Bytes) -> Result<Bytes, PeerRefusal> {
        Ok(Bytes::from_static(&ANSWER))
    }
    fn identity(&self) -> PeerIdentity {
        self.0.clone()
    }
}

/// CPU time of every thread of this process so far, in nanoseconds.
fn cpu_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let spent = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    spent.sum()
}

async fn serve(routes: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    addr
}

/// Runs `exchange` on every worker. Returns CPU microseconds for each exchange, and exchanges per second.
async fn measure<F>(exchange: impl Fn(usize) -> F) -> (f64, f64)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (cpu, wall) = (cpu_ns(), Instant::now());
    let workers: Vec<_> = (0..WORKERS).map(|worker| tokio::spawn(exchange(worker))).collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let count = (WORKERS * EXCHANGES_EACH) as f64;
    ((cpu_ns() - cpu) as f64 / 1e3 / count, count / wall.elapsed().as_secs_f64())
}

async fn serve_peer(peer: Fixed, key: Arc<ClusterKey>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let bounds = ListenerBounds {
        connections_max: 2 * WORKERS,
        timeouts: ConnectionTimeouts {
            first_byte: MINUTE,
            head: MINUTE,
            reader: MINUTE,
            reader_bytes_per_s: 1,
            idle: MINUTE,
            crowded: MINUTE,
        },
        head_bytes_max: 16 << 10,
        says_addresses: false,
        answers_half_closed: false,
    };
    let refusals = Refusals { response: |_| None, noted: Arc::new(|_| {}) };
    let (connections, stop) = (TaskTracker::new(), CancellationToken::new());
    tokio::spawn(listen(listener, service(Arc::new(peer), key), (bounds, refusals), connections, stop));
    addr
}

async fn sealed(link: Arc<PeerLink>, to: NodeName, addr: SocketAddr) {
    for _ in 0..EXCHANGES_EACH {
        let message = Bytes::from_static(&MESSAGE);
        let answer = link.exchange((&to, addr), PeerPath::Ask, &message, Millis(5_000)).await.unwrap();
        assert_eq!(answer.len(), ANSWER.len());
    }
}

async fn by_reqwest(client: reqwest::Client, url: reqwest::Url) {
    for _ in 0..EXCHANGES_EACH {
        let sent = client.post(url.clone()).body(Bytes::from_static(&MESSAGE)).send().await.unwrap();
        assert_eq!(sent.bytes().await.unwrap().len(), ANSWER.len());
    }
}

type Legacy =
    hyper_util::client::legacy::Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>;

async fn by_hyper_util(client: Legacy, uri: http::Uri) {
    for _ in 0..EXCHANGES_EACH {
        let body = Full::new(Bytes::from_static(&MESSAGE));
        let request = http::Request::post(uri.clone()).body(body).unwrap();
        let answer = client.request(request).await.unwrap().into_body().collect().await.unwrap();
        assert_eq!(answer.to_bytes().len(), ANSWER.len());
    }
}

async fn by_hyper(addr: SocketAddr) {
    let stream = tokio::net::TcpStream::connect(addr).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let host = http::HeaderValue::from_str(&addr.to_string()).unwrap();
    for _ in 0..EXCHANGES_EACH {
        let body = Full::new(Bytes::from_static(&MESSAGE));
        let request = http::Request::post("/ask").header("host", host.clone()).body(body).unwrap();
        sender.ready().await.unwrap();
        let answer = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
        assert_eq!(answer.to_bytes().len(), ANSWER.len());
    }
    driver.abort();
}

/// Nanoseconds of one exchange's four ciphering steps, by ring through our own code.
fn ciphering_ns() -> f64 {
    let key = ClusterKey::random();
    let sender = NodeName::new("node-a").unwrap();
    let id = SessionId { nonce: [1; 16], boot: [2; 16], serial: 1 };
    let keys = SessionKeys::derive(&key, &sender, &id);
    let started = Instant::now();
    for counter in 1..=100_000 {
        let request = keys.seal_request(PeerPath::Ask, &sender, &id, counter, &MESSAGE);
        let request = SealedRequest::read(request.into()).unwrap();
        keys.open_request(PeerPath::Ask, request).unwrap();
        let answer = keys.seal_answer(PeerPath::Ask, counter, 200, &ANSWER);
        keys.open_answer(PeerPath::Ask, counter, 200, answer.into()).unwrap();
    }
    started.elapsed().as_nanos() as f64 / 1e5
}

/// The same four steps by the RustCrypto implementation, without heads and copies.
fn rust_crypto_ns() -> f64 {
    let cipher = chacha20poly1305::ChaCha20Poly1305::new(&[7; 32].into());
    let (mut message, mut answer) = (MESSAGE, ANSWER);
    let started = Instant::now();
    for counter in 1..=100_000_u64 {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&counter.to_be_bytes());
        for bytes in [&mut message[..], &mut answer[..]] {
            let tag = cipher.encrypt_in_place_detached(&nonce.into(), b"aad", bytes).unwrap();
            cipher.decrypt_in_place_detached(&nonce.into(), b"aad", bytes, &tag).unwrap();
        }
    }
    started.elapsed().as_nanos() as f64 / 1e5
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let key = Arc::new(ClusterKey::random());
    let to = NodeName::new("node-b").unwrap();
    let card = Card::new(to.clone(), "127.0.0.1:1".parse().unwrap(), Incarnation(1), Phase::Ready);
    let who = PeerIdentity { card, epoch: RingEpoch(1) };
    let peer = serve_peer(Fixed(who), Arc::clone(&key)).await;
    let bare =
        serve(Router::new().route("/ask", post(|_: Bytes| async { Bytes::from_static(&ANSWER) }))).await;
    let link = Arc::new(PeerLink::new(key, NodeName::new("node-a").unwrap()));
    let _already = rustls::crypto::ring::default_provider().install_default();
    let plain = reqwest::Client::builder().no_proxy().tcp_nodelay(true).tls_certs_only([]).build().unwrap();
    let mut connector = hyper_util::client::legacy::connect::HttpConnector::new();
    connector.set_nodelay(true);
    let legacy: Legacy = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector);
    let url: reqwest::Url = format!("http://{bare}/ask").parse().unwrap();
    let uri: http::Uri = format!("http://{bare}/ask").parse().unwrap();

    let mut columns = [const { Vec::new() }; 4];
    for round in 0..=ROUNDS {
        let figures = [
            measure(|_| sealed(Arc::clone(&link), to.clone(), peer)).await,
            measure(|_| by_reqwest(plain.clone(), url.clone())).await,
            measure(|_| by_hyper_util(legacy.clone(), uri.clone())).await,
            measure(|_| by_hyper(bare)).await,
        ];
        // The first round warms up.
        if round > 0 {
            columns.iter_mut().zip(figures).for_each(|(column, figure)| column.push(figure));
        }
    }
    let names = ["PeerLink, sealed", "reqwest, unsealed", "hyper-util, unsealed", "hyper, unsealed"];
    for (name, column) in names.iter().zip(columns) {
        let (cpu, least, most) = median(column.iter().map(|figure| figure.0).collect());
        let (rate, _, _) = median(column.iter().map(|figure| figure.1).collect());
        println!("{name:22} {cpu:6.1} µs CPU ({least:.1} to {most:.1})  {rate:8.0} per second");
    }
    println!("ciphering, ring        {:6.2} µs", ciphering_ns() / 1e3);
    println!("ciphering, RustCrypto  {:6.2} µs", rust_crypto_ns() / 1e3);
}
