//! A Bolt 5.4 client that cuts messages and decodes nothing, so that it costs little itself; a pool of such clients; and their
//! closed loop.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail, ensure};
use hopcache_testbed::bolt_bytes::{chunked, message};
use hopcache_testbed::neo4j;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

pub(crate) const RUN: u8 = 0x10;
pub(crate) const PULL: u8 = 0x3F;
const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;
/// The magic number, and 5.4.
const HANDSHAKE: [u8; 20] = [0x60, 0x60, 0xB0, 0x17, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// What a server answers that speaks 5.4.
pub(crate) const AGREED: [u8; 4] = [0, 0, 4, 5];

/// A logged-on connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    message: Vec<u8>,
}

impl Client {
    pub(crate) async fn open(addr: &str, password: &str) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(addr).await.with_context(|| format!("connect to {addr}"))?;
        stream.set_nodelay(true)?;
        stream.write_all(&HANDSHAKE).await?;
        let mut agreed = [0; 4];
        stream.read_exact(&mut agreed).await?;
        ensure!(agreed == AGREED, "{addr} does not speak Bolt 5.4: {agreed:?}");
        let mut client = Self { stream: BufReader::with_capacity(64 << 10, stream), message: Vec::new() };
        let agent =
            json!({ "user_agent": "hopcache-bench", "bolt_agent": { "product": "hopcache-bench/1" } });
        let auth = json!({ "scheme": "basic", "principal": "neo4j", "credentials": password });
        let messages = [message(0x01, &[agent]), message(0x6A, &[auth])];
        client.ask(&messages.map(|message| chunked(&message)).concat(), |_| ()).await?;
        Ok(client)
    }

    /// Sends [RUN and PULL](request) and reads both answers. `each` gets every message of them.
    pub(crate) async fn ask(&mut self, request: &[u8], mut each: impl FnMut(&[u8])) -> anyhow::Result<()> {
        self.stream.write_all(request).await?;
        let mut successes = 0;
        while successes < 2 {
            read_message(&mut self.stream, &mut self.message).await?;
            match self.message.get(1) {
                Some(&RECORD) => {}
                Some(&SUCCESS) => successes += 1,
                _ => bail!("{}", String::from_utf8_lossy(&self.message)),
            }
            each(&self.message);
        }
        Ok(())
    }
}

/// RUN of a statement that reads, and PULL of everything, to be sent together, as drivers do. Parameters are whole numbers and
/// texts.
pub(crate) fn request(statement: &str, parameters: &Value) -> Vec<u8> {
    let run = message(RUN, &[json!(statement), parameters.clone(), json!({ "mode": "r" })]);
    [run, message(PULL, &[json!({ "n": -1 })])].map(|message| chunked(&message)).concat()
}

/// Reads one message that is no NOOP.
pub(crate) async fn read_message<R: AsyncRead + Unpin>(
    stream: &mut R,
    message: &mut Vec<u8>,
) -> std::io::Result<()> {
    message.clear();
    loop {
        let length = usize::from(stream.read_u16().await?);
        if length == 0 && !message.is_empty() {
            return Ok(());
        }
        let start = message.len();
        message.resize(start + length, 0);
        stream.read_exact(&mut message[start..]).await?;
    }
}

/// Connections to a Neo4j, used again most recently used first: as a driver's pool. It has no bound of its own:
/// the load bounds the runs under way.
pub(crate) struct BoltPool {
    addr: String,
    password: String,
    idle: Mutex<Vec<Client>>,
    runs: AtomicU64,
}

impl BoltPool {
    /// To the Neo4j of the environment.
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self::to(neo4j::bolt()?, neo4j::password()?))
    }

    pub(crate) fn to(addr: String, password: String) -> Self {
        Self { addr, password, idle: Mutex::new(Vec::new()), runs: AtomicU64::new(0) }
    }

    /// Runs that were asked for.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// As [`Client::ask`]. A connection goes back only behind a whole result: one that failed needs a RESET.
    pub(crate) async fn ask(&self, request: &[u8], each: impl FnMut(&[u8])) -> anyhow::Result<()> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let idle = self.idle.lock().ok().and_then(|mut idle| idle.pop());
        let mut client = match idle {
            Some(client) => client,
            None => Client::open(&self.addr, &self.password).await?,
        };
        client.ask(request, each).await?;
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(client);
        }
        Ok(())
    }
}
