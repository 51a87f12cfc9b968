//! An unreliable TCP proxy before a server: it delays, goes silent, cuts in the middle of a reply, loses answers,
//! refuses, and can be pointed at another server. It never changes a byte that it passes. It counts, so that a test can
//! prove its fault.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The present fate of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They pass.
    Pass,
    /// Replies pass later by this time.
    Delay(Duration),
    /// Nothing passes in either direction; connections stay open.
    Silent,
    /// Every connection is closed as soon as it is taken.
    Refuse,
}

/// The fate of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It never arrives, and nothing later arrives on that connection.
    Lost,
    /// After this many bytes of the answer the connection is cut.
    CutAfter(usize),
}

struct Shared {
    upstream: Mutex<SocketAddr>,
    mode: watch::Sender<Mode>,
    cuts: watch::Sender<u64>,
    fates: Mutex<Vec<(Vec<u8>, Fate)>>,
    /// The proxy cuts every n-th chunk of replies in its middle; 0 for never.
    cut_every: AtomicU64,
    connects: AtomicU64,
    chunks: AtomicU64,
    broken: AtomicU64,
    /// Bytes of requests that one connection passes in a second; 0 for all.
    pace: AtomicU64,
    slept_us: AtomicU64,
}

/// A proxy that runs until it is dropped.
pub struct TcpProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TcpProxy {
    /// Listens on a free port of loopback.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream),
            mode: watch::Sender::new(Mode::Pass),
            cuts: watch::Sender::new(0),
            fates: Mutex::default(),
            cut_every: AtomicU64::new(0),
            connects: AtomicU64::new(0),
            chunks: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            pace: AtomicU64::new(0),
            slept_us: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { addr, shared, accepting }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Closes every connection; new ones are taken.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }

    /// Points new connections at another server, and cuts the open ones.
    pub fn point_at(&self, upstream: SocketAddr) {
        *locked(&self.shared.upstream) = upstream;
        self.cut();
    }

    /// Sets the fate of the answer to the next request that contains these bytes, once.
    pub fn doom(&self, request_with: &str, fate: Fate) {
        locked(&self.shared.fates).push((request_with.as_bytes().to_vec(), fate));
    }

    /// From now on every n-th chunk of replies is cut in its middle, with its connection; 0 ends this.
    pub fn cut_every(&self, chunks: u64) {
        self.shared.cut_every.store(chunks, Ordering::Relaxed);
    }

    /// From now on each connection passes this many bytes of requests in a second; 0 ends this.
    pub fn requests_per_second(&self, bytes: u64) {
        self.shared.pace.store(bytes, Ordering::Relaxed);
    }

    /// How long requests were held up so, in all.
    pub fn slept(&self) -> Duration {
        Duration::from_micros(self.shared.slept_us.load(Ordering::Relaxed))
    }

    /// Connections taken so far.
    pub fn connects(&self) -> u64 {
        self.shared.connects.load(Ordering::Relaxed)
    }

    /// Answers that were lost or cut so far.
    pub fn broken(&self) -> u64 {
        self.shared.broken.load(Ordering::Relaxed)
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        shared.connects.fetch_add(1, Ordering::Relaxed);
        if *shared.mode.borrow() == Mode::Refuse {
            continue;
        }
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut cuts = shared.cuts.subscribe();
            cuts.mark_unchanged();
            tokio::select! {
                _ = cuts.changed() => {}
                _ = join(client, &shared) => {}
            }
        });
    }
}

async fn join(client: TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    let upstream = *locked(&shared.upstream);
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let doomed = watch::Sender::new(None);
    tokio::select! {
        ended = requests(client_read, server_write, shared, &doomed) => ended,
        ended = replies(server_read, client_write, shared, doomed.subscribe()) => ended,
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    doomed: &watch::Sender<Option<Fate>>,
) -> std::io::Result<()> {
    let mut mode = shared.mode.subscribe();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let _ = mode.wait_for(|mode| *mode != Mode::Silent).await;
        let pace = shared.pace.load(Ordering::Relaxed);
        if let Some(pause_us) = (read as u64 * 1_000_000).checked_div(pace) {
            // tidy: the simulated speed of the line
            tokio::time::sleep(Duration::from_micros(pause_us)).await;
            shared.slept_us.fetch_add(pause_us, Ordering::Relaxed);
        }
        let fate = take_fate(shared, &buffer[..read]);
        if fate.is_some() {
            doomed.send_replace(fate);
        }
        to.write_all(&buffer[..read]).await?;
    }
}

fn take_fate(shared: &Shared, request: &[u8]) -> Option<Fate> {
    let mut fates = locked(&shared.fates);
    let holds = |part: &[u8]| request.windows(part.len()).any(|bytes| bytes == part);
    let at = fates.iter().position(|(part, _)| holds(part))?;
    Some(fates.remove(at).1)
}

async fn replies(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    doomed: watch::Receiver<Option<Fate>>,
) -> std::io::Result<()> {
    let mut mode = shared.mode.subscribe();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let now = *mode.borrow_and_update();
        if let Mode::Delay(by) = now {
            // tidy: the simulated delay
            tokio::time::sleep(by).await;
        }
        let _ = mode.wait_for(|mode| *mode != Mode::Silent).await;
        let chunk = shared.chunks.fetch_add(1, Ordering::Relaxed) + 1;
        let every = shared.cut_every.load(Ordering::Relaxed);
        let fate = match *doomed.borrow() {
            None if every > 0 && chunk.is_multiple_of(every) => Some(Fate::CutAfter(read / 2)),
            fate => fate,
        };
        match fate {
            None => to.write_all(&buffer[..read]).await?,
            Some(Fate::CutAfter(length)) => {
                shared.broken.fetch_add(1, Ordering::Relaxed);
                return to.write_all(&buffer[..length.min(read)]).await;
            }
            Some(Fate::Lost) => {
                shared.broken.fetch_add(1, Ordering::Relaxed);
                std::future::pending::<()>().await;
            }
        }
    }
}
