//! A TCP proxy before a Bolt server that counts what is run there, so that a run is counted outside
//! hopcache. It can make runs slow, cut its connections, and stall.
//!
//! It reads as much of Bolt as counting takes: the handshake's length, chunks, and the statement of
//! RUN. It changes no byte.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Bytes of Bolt's handshake: magic number and four versions.
const HANDSHAKE_LEN: usize = 20;
/// Tag of RUN.
const RUN: u8 = 0x10;

/// A statement that a client sent with RUN.
#[derive(Debug, Clone)]
pub struct RunSeen {
    /// Its text.
    pub statement: String,
    /// When all of it had arrived.
    pub arrived: Instant,
    /// When the last bytes of the server's answer passed so far.
    pub answered: Option<Instant>,
}

impl RunSeen {
    fn is_explain(&self) -> bool {
        self.statement.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("EXPLAIN"))
    }
}

/// A proxy that runs until it is dropped.
pub struct BoltProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    upstream: String,
    state: Mutex<State>,
    /// Grows with everything that happens, for those who wait.
    happened: watch::Sender<u64>,
    /// Grows with each cut.
    cuts: watch::Sender<u64>,
    is_stalled: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    runs: Vec<RunSeen>,
    delays: Vec<(String, Duration)>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.happened.send_modify(|count| *count += 1);
    }

    /// Notes a run; returns its place and how long it has to wait.
    fn arrived(&self, statement: String) -> (usize, Duration) {
        let seen = RunSeen { statement, arrived: Instant::now(), answered: None };
        let mut state = self.state();
        let delay = match state.delays.iter().find(|(part, _)| seen.statement.contains(part.as_str())) {
            Some((_, delay)) if !seen.is_explain() => *delay,
            _ => Duration::ZERO,
        };
        state.runs.push(seen);
        let place = state.runs.len() - 1;
        drop(state);
        self.tell();
        (place, delay)
    }

    fn answered(&self, place: usize) {
        if let Some(seen) = self.state().runs.get_mut(place) {
            seen.answered = Some(Instant::now());
        }
        self.tell();
    }
}

impl BoltProxy {
    /// Listens on a free port of loopback for a server at `upstream`, `host:port`.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start(upstream: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            state: Mutex::default(),
            happened: watch::Sender::new(0),
            cuts: watch::Sender::new(0),
            is_stalled: watch::Sender::new(false),
        });
        let addr = listener.local_addr()?;
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { addr, shared, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// From now on runs whose text contains `part` reach the server `by` later; EXPLAINs do not.
    pub fn delay_runs(&self, part: &str, by: Duration) {
        let mut state = self.shared.state();
        state.delays.retain(|(known, _)| known != part);
        state.delays.push((part.to_owned(), by));
    }

    /// Runs whose text contains `part`, EXPLAINs apart.
    #[must_use]
    pub fn seen(&self, part: &str) -> Vec<RunSeen> {
        let state = self.shared.state();
        state.runs.iter().filter(|run| !run.is_explain() && run.statement.contains(part)).cloned().collect()
    }

    /// How many of them there are.
    #[must_use]
    pub fn runs(&self, part: &str) -> usize {
        self.seen(part).len()
    }

    /// EXPLAINs whose text contains `part`.
    #[must_use]
    pub fn explains(&self, part: &str) -> usize {
        let state = self.shared.state();
        state.runs.iter().filter(|run| run.is_explain() && run.statement.contains(part)).count()
    }

    /// Waits until `done` holds of the runs whose text contains `part`; whether it came to that.
    pub async fn wait_until(&self, part: &str, within: Duration, done: impl Fn(&[RunSeen]) -> bool) -> bool {
        let mut happened = self.shared.happened.subscribe();
        let wait = async {
            while !done(&self.seen(part)) {
                if happened.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(within, wait).await.is_ok()
    }

    /// Closes every connection; new ones are taken.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }

    /// Nothing passes to the server until [`resume`](Self::resume).
    pub fn stall(&self) {
        self.shared.is_stalled.send_replace(true);
    }

    /// Ends a stall.
    pub fn resume(&self) {
        self.shared.is_stalled.send_replace(false);
    }
}

impl Drop for BoltProxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
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

/// Passes bytes both ways until one side ends.
async fn join(client: TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    let server = TcpStream::connect(&shared.upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let latest = watch::Sender::new(None);
    tokio::select! {
        ended = to_server(client_read, server_write, shared, &latest) => ended,
        ended = to_client(server_read, client_write, shared, &latest) => ended,
    }
}

async fn to_server(
    from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    latest: &watch::Sender<Option<usize>>,
) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    let mut handshake = [0; HANDSHAKE_LEN];
    from.read_exact(&mut handshake).await?;
    to.write_all(&handshake).await?;
    let mut is_stalled = shared.is_stalled.subscribe();
    let (mut raw, mut message) = (Vec::new(), Vec::new());
    loop {
        let length = from.read_u16().await?;
        raw.extend_from_slice(&length.to_be_bytes());
        if length > 0 {
            let start = raw.len();
            raw.resize(start + usize::from(length), 0);
            from.read_exact(&mut raw[start..]).await?;
            message.extend_from_slice(&raw[start..]);
            continue;
        }
        if let Some(statement) = statement_of(&message) {
            let (place, delay) = shared.arrived(statement);
            if !delay.is_zero() {
                // tidy: the delay that is being simulated
                tokio::time::sleep(delay).await;
            }
            latest.send_replace(Some(place));
        }
        let _ = is_stalled.wait_for(|is_stalled| !is_stalled).await;
        to.write_all(&raw).await?;
        raw.clear();
        message.clear();
    }
}

async fn to_client(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    latest: &watch::Sender<Option<usize>>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
        let place = *latest.borrow();
        if let Some(place) = place {
            shared.answered(place);
        }
    }
}

/// The statement, if a message is RUN: a structure with tag 0x10 whose first field is a string.
fn statement_of(message: &[u8]) -> Option<String> {
    let [marker, RUN, rest @ ..] = message else { return None };
    if marker & 0xF0 != 0xB0 {
        return None;
    }
    let (length, text) = match rest {
        [tiny @ 0x80..=0x8F, text @ ..] => (usize::from(tiny & 0x0F), text),
        [0xD0, length, text @ ..] => (usize::from(*length), text),
        [0xD1, a, b, text @ ..] => (usize::from(u16::from_be_bytes([*a, *b])), text),
        [0xD2, a, b, c, d, text @ ..] => (usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).ok()?, text),
        _ => return None,
    };
    Some(String::from_utf8_lossy(text.get(..length)?).into_owned())
}
