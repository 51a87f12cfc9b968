//! A small Bolt client: one connection, one statement under way on it. It cuts messages and decodes nothing, so that it
//! costs little itself.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::closed_loop::Loaded;

pub(crate) const PULL: u8 = 0x3F;
const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;
/// The magic number, and 5.4.
const HANDSHAKE: [u8; 20] = [0x60, 0x60, 0xB0, 0x17, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A connection that is logged on.
pub(crate) struct BoltConnection(BufReader<TcpStream>);

impl BoltConnection {
    /// Connects and logs on; the sample graph takes any credentials.
    pub(crate) async fn open(addr: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let mut stream = BufReader::with_capacity(16 << 10, stream);
        stream.write_all(&HANDSHAKE).await?;
        let mut agreed = [0; 4];
        stream.read_exact(&mut agreed).await?;
        ensure!(agreed == [0, 0, 4, 5], "version {agreed:?}");
        let mut connection = Self(stream);
        let hello = [&[0xB1, 0x01, 0xA1][..], &text("user_agent"), &text("bench/1")].concat();
        let auth = [("scheme", "basic"), ("principal", "bench"), ("credentials", "bench")];
        let auth: Vec<u8> =
            auth.iter().flat_map(|(name, value)| [text(name), text(value)].concat()).collect();
        let logon = [&[0xB1, 0x6A, 0xA3][..], &auth].concat();
        connection.0.write_all(&[framed(&hello), framed(&logon)].concat()).await?;
        connection.read_replies(&mut Vec::new(), None).await?;
        Ok(connection)
    }

    /// Runs a statement, and returns all replies as they came.
    pub(crate) async fn ask(&mut self, statement: &str) -> anyhow::Result<Vec<u8>> {
        let mut replies = Vec::new();
        self.0.write_all(&request(statement)).await?;
        self.read_replies(&mut Vec::new(), Some(&mut replies)).await?;
        Ok(replies)
    }

    /// Reads up to the second SUCCESS, and counts the records.
    async fn read_replies(
        &mut self,
        message: &mut Vec<u8>,
        mut kept: Option<&mut Vec<u8>>,
    ) -> anyhow::Result<usize> {
        let (mut records, mut successes) = (0, 0);
        while successes < 2 {
            read_message(&mut self.0, message).await?;
            match message.get(1) {
                Some(&RECORD) => records += 1,
                Some(&SUCCESS) => successes += 1,
                _ => bail!("{}", String::from_utf8_lossy(message)),
            }
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(&framed(message));
            }
        }
        Ok(records)
    }
}

/// Runs `connections` loops for `span`, each with the same statement.
pub(crate) async fn bolt_loop(
    addr: SocketAddr,
    statement: &str,
    connections: usize,
    span: Duration,
) -> anyhow::Result<Loaded> {
    let started = Instant::now();
    let until = started + span;
    let mut loops = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let request = request(statement);
        loops.spawn(async move {
            let mut connection = BoltConnection::open(addr).await?;
            let (mut requests, mut message, mut records) = (0_u64, Vec::new(), None);
            while Instant::now() < until {
                connection.0.write_all(&request).await?;
                let count = connection.read_replies(&mut message, None).await?;
                ensure!(*records.get_or_insert(count) == count, "{count} records");
                requests += 1;
            }
            anyhow::Ok(requests)
        });
    }
    let mut requests = 0;
    while let Some(ended) = loops.join_next().await {
        requests += ended??;
    }
    Ok(Loaded { requests, wall: started.elapsed() })
}

/// RUN and PULL of everything, to be sent together.
fn request(statement: &str) -> Vec<u8> {
    let run = [&[0xB3, 0x10][..], &text(statement), &[0xA0, 0xA0]].concat();
    [framed(&run), framed(&[0xB1, PULL, 0xA1, 0x81, b'n', 0xFF])].concat()
}

fn framed(message: &[u8]) -> Vec<u8> {
    let len = u16::try_from(message.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&len[..], message, &[0, 0]].concat()
}

fn text(text: &str) -> Vec<u8> {
    let len = u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&[0xD1][..], &len, text.as_bytes()].concat()
}

/// Reads one message that is no NOOP into `message`.
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
