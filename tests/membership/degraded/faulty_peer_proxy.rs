//! A proxy before a node's peer port that passes probes and spoils questions: a peer that lives and does not work.
//!
//! It passes no upgrade, as some balancers, so nodes ask through it over HTTP. A question is then one HTTP request in one
//! write: a chunk that begins with the path's request line. With [`Way::Framed`] it passes upgrades: then each chunk that
//! comes on an upgraded connection counts as a question. Datagrams to the same port pass.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How nodes ask through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Http,
    Framed,
}

/// The fate of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// They never arrive.
    Swallow,
    /// They never arrive, and their connection ends.
    Cut,
    /// They are answered with bytes that no node sends: another version's, or another program's.
    Babble,
    /// Of this many questions, each but the last gets the answer that there is no room.
    Refuse {
        of: u64,
    },
}

const QUESTION: &[u8] = b"POST /peer/v1/ask";
/// The protocol that a probe offers to go on with. Another name in its place is no offer.
const OFFER: &[u8] = b"hopcache-frames";
const BABBLE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nbabble";
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";

struct Shared {
    upstream: SocketAddr,
    way: Way,
    mode: watch::Sender<Mode>,
    questions: AtomicU64,
    spoilt: AtomicU64,
}

pub struct FaultyPeerProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl FaultyPeerProxy {
    pub async fn start(upstream: SocketAddr, way: Way) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            upstream,
            way,
            mode: watch::Sender::new(Mode::Pass),
            questions: AtomicU64::new(0),
            spoilt: AtomicU64::new(0),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        if let Ok(socket) = UdpSocket::bind(addr).await {
            tasks.spawn(async move {
                let mut datagram = vec![0; 64 << 10];
                while let Ok((length, _)) = socket.recv_from(&mut datagram).await {
                    let _ = socket.send_to(&datagram[..length], upstream).await;
                }
            });
        }
        Self { addr, shared, _tasks: tasks }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Questions that came, and those of them that were spoilt.
    pub fn seen(&self) -> (u64, u64) {
        (self.shared.questions.load(Ordering::Relaxed), self.shared.spoilt.load(Ordering::Relaxed))
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut joined = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while joined.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        joined.spawn(async move {
            let _ = join(client, &shared).await;
        });
    }
}

async fn join(client: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let server = TcpStream::connect(shared.upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (babbles, mut babbled) = tokio::sync::mpsc::channel::<&'static [u8]>(1);
    let asks = async {
        let mut buffer = vec![0; 64 << 10];
        let mut is_framed = false;
        loop {
            let read = from_client.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            if let Some(at) = buffer[..read].windows(OFFER.len()).position(|bytes| bytes == OFFER) {
                match shared.way {
                    Way::Http => buffer[at..at + OFFER.len()].fill(b'x'),
                    Way::Framed => {
                        is_framed = true;
                        to_server.write_all(&buffer[..read]).await?;
                        continue;
                    }
                }
            }
            let is_question = is_framed || buffer[..read].starts_with(QUESTION);
            match if is_question { fate(shared) } else { Mode::Pass } {
                Mode::Pass => to_server.write_all(&buffer[..read]).await?,
                // Until its asker gives it up.
                Mode::Swallow => while from_client.read(&mut buffer).await? > 0 {},
                Mode::Cut => return Ok(()),
                Mode::Babble => drop(babbles.send(BABBLE).await),
                Mode::Refuse { .. } => drop(babbles.send(REFUSAL).await),
            }
        }
    };
    let answers = async {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = tokio::select! {
                Some(answer) = babbled.recv() => {
                    to_client.write_all(answer).await?;
                    continue;
                }
                read = from_server.read(&mut buffer) => read?,
            };
            if read == 0 {
                return Ok::<(), std::io::Error>(());
            }
            to_client.write_all(&buffer[..read]).await?;
        }
    };
    tokio::select! {
        ended = asks => ended,
        ended = answers => ended,
    }
}

fn fate(shared: &Shared) -> Mode {
    let place = shared.questions.fetch_add(1, Ordering::Relaxed);
    let fate = match *shared.mode.borrow() {
        Mode::Refuse { of } if place % of == of - 1 => Mode::Pass,
        mode => mode,
    };
    if fate != Mode::Pass {
        shared.spoilt.fetch_add(1, Ordering::Relaxed);
    }
    fate
}
