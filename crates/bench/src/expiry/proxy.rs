//! A TCP proxy before a Bolt server that makes the benchmark's runs slow and counts them by query, outside
//! hopcache: the truth about origin runs. It changes no byte.
//!
//! The benchmark's statements carry [`MARK`]. EXPLAINs, log-ons and whatever a node asks of its own accord
//! pass at once and are not counted as runs.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::delay::Delays;
use crate::bolt_bytes::structure;

/// Every statement of the benchmark names a column so, and no other does.
pub(super) const MARK: &str = "AS benched";
/// Bytes of Bolt's handshake: magic number and four versions.
const HANDSHAKE_LEN: usize = 20;
const RUN: u8 = 0x10;

/// A run of the benchmark's.
#[derive(Debug, Clone)]
pub(super) struct RunSeen {
    /// When all of it had arrived, before its delay.
    pub(super) arrived: Instant,
    /// Its statement and parameters.
    pub(super) query: String,
}

/// A proxy that runs until it is dropped.
pub(super) struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    upstream: String,
    delays: Delays,
    runs: Mutex<Vec<RunSeen>>,
}

impl Proxy {
    /// Listens on a free port of loopback for a server at `upstream`, `host:port`.
    pub(super) async fn start(upstream: &str, delays: Delays) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared { upstream: upstream.to_owned(), delays, runs: Mutex::default() });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { addr, shared, accepting })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// All runs so far, in the order of their arrival.
    pub(super) fn runs(&self) -> Vec<RunSeen> {
        self.shared.runs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        // Ends with either side; the scene's nodes end before the proxy does.
        tokio::spawn(join(client, Arc::clone(&shared)));
    }
}

/// Passes bytes both ways until one side ends.
async fn join(client: TcpStream, shared: Arc<Shared>) -> std::io::Result<()> {
    let server = TcpStream::connect(&shared.upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_read, mut client_write) = client.into_split();
    let (mut server_read, server_write) = server.into_split();
    tokio::select! {
        ended = to_server(client_read, server_write, &shared) => ended,
        ended = tokio::io::copy(&mut server_read, &mut client_write) => ended.map(drop),
    }
}

async fn to_server(from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    let mut handshake = [0; HANDSHAKE_LEN];
    from.read_exact(&mut handshake).await?;
    to.write_all(&handshake).await?;
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
        if let Some(query) = benchmark_run(&message) {
            let arrived = Instant::now();
            let delay = shared.delays.draw();
            shared.runs.lock().unwrap_or_else(PoisonError::into_inner).push(RunSeen { arrived, query });
            if !delay.is_zero() {
                // tidy: the delay that is being simulated
                tokio::time::sleep(delay).await;
            }
        }
        to.write_all(&raw).await?;
        raw.clear();
        message.clear();
    }
}

/// Statement and parameters, if a message is a RUN of the benchmark's.
fn benchmark_run(message: &[u8]) -> Option<String> {
    if message.get(1) != Some(&RUN) {
        return None;
    }
    let (_, fields) = structure(message)?;
    let statement = fields.first()?.as_str()?;
    let is_explain = statement.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("EXPLAIN"));
    (!is_explain && statement.contains(MARK))
        .then(|| format!("{statement} {}", fields.get(1).map(ToString::to_string).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RUN of a statement of fewer than 256 bytes with `{n: 5}` and no more.
    fn run(statement: &str) -> Vec<u8> {
        let length = u8::try_from(statement.len()).unwrap();
        [&[0xB3, RUN, 0xD0, length], statement.as_bytes(), &[0xA1, 0x81, b'n', 5, 0xA0]].concat()
    }

    #[test]
    fn only_the_benchmarks_runs_count() {
        let query = benchmark_run(&run("RETURN $n AS benched"));
        assert_eq!(query.as_deref(), Some("RETURN $n AS benched {\"n\":5}"));
        assert_eq!(benchmark_run(&run("EXPLAIN RETURN $n AS benched")), None);
        assert_eq!(benchmark_run(&run("RETURN $n AS degree")), None);
        assert_eq!(benchmark_run(&[0xB1, 0x3F, 0xA0]), None);
    }
}
