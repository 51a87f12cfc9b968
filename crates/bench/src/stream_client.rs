//! As much of a Bolt 5.4 client as counts the records of a result and times the first.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;

/// A whole result, as its client saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// From RUN to the first record.
    pub(crate) first_row: Duration,
    /// From RUN to the end.
    pub(crate) whole: Duration,
    pub(crate) rows: u64,
    /// The last SUCCESS, as bytes: it has the text of `Cache-Status`.
    pub(crate) end: Vec<u8>,
}

/// A logged-on connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    message: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(addr: &str, password: &str) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(addr).await.with_context(|| format!("connect to {addr}"))?;
        stream.set_nodelay(true)?;
        stream.write_all(&[0x60, 0x60, 0xB0, 0x17, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).await?;
        let mut agreed = [0; 4];
        stream.read_exact(&mut agreed).await?;
        ensure!(agreed == [0, 0, 4, 5], "{addr} does not speak Bolt 5.4: {agreed:?}");
        let mut client = Self { stream: BufReader::with_capacity(256 << 10, stream), message: Vec::new() };
        let agent = [&text("bolt_agent")[..], &[0xA1], &text("product"), &text("hopcache-bench/1")].concat();
        let hello = [&[0xB1, 0x01, 0xA2][..], &text("user_agent"), &text("hopcache-bench"), &agent].concat();
        let auth = [("scheme", "basic"), ("principal", "neo4j"), ("credentials", password)];
        let pairs: Vec<u8> =
            auth.iter().flat_map(|(name, value)| [text(name), text(value)].concat()).collect();
        let logon = [&[0xB1, 0x6A, 0xA3][..], &pairs].concat();
        client.send(&[hello, logon]).await?;
        for _ in 0..2 {
            client.success().await?;
        }
        Ok(client)
    }

    /// Runs a statement that writes.
    pub(crate) async fn write(&mut self, statement: &str) -> anyhow::Result<()> {
        self.run(statement, ("w", 0)).await.map(drop)
    }

    /// Runs a statement and reads its records, `fetch` at a time (0: all at once).
    pub(crate) async fn read(&mut self, statement: &str, fetch: u32) -> anyhow::Result<Seen> {
        self.run(statement, ("r", fetch)).await
    }

    async fn run(&mut self, statement: &str, (mode, fetch): (&str, u32)) -> anyhow::Result<Seen> {
        let count = if fetch == 0 { vec![0xFF] } else { [&[0xCA][..], &fetch.to_be_bytes()].concat() };
        let pull = [&[0xB1, 0x3F, 0xA1, 0x81, b'n'][..], &count].concat();
        let run = [&[0xB3, 0x10][..], &text(statement), &[0xA0, 0xA1], &text("mode"), &text(mode)].concat();
        let begun = Instant::now();
        self.send(&[run, pull.clone()]).await?;
        self.success().await?;
        let (mut first_row, mut rows) = (Duration::ZERO, 0);
        loop {
            self.receive().await?;
            match self.message.get(1) {
                Some(&RECORD) => {
                    if rows == 0 {
                        first_row = begun.elapsed();
                    }
                    rows += 1;
                }
                Some(&SUCCESS) if has(&self.message, b"has_more\xC3") => {
                    self.send(std::slice::from_ref(&pull)).await?;
                }
                Some(&SUCCESS) => {
                    return Ok(Seen { first_row, whole: begun.elapsed(), rows, end: self.message.clone() });
                }
                _ => bail!("{}", String::from_utf8_lossy(&self.message)),
            }
        }
    }

    async fn success(&mut self) -> anyhow::Result<()> {
        self.receive().await?;
        ensure!(self.message.get(1) == Some(&SUCCESS), "{}", String::from_utf8_lossy(&self.message));
        Ok(())
    }

    async fn send(&mut self, messages: &[Vec<u8>]) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.extend_from_slice(&u16::try_from(message.len())?.to_be_bytes());
            bytes.extend_from_slice(message);
            bytes.extend_from_slice(&[0, 0]);
        }
        Ok(self.stream.write_all(&bytes).await?)
    }

    /// The next message that is no NOOP.
    async fn receive(&mut self) -> anyhow::Result<()> {
        self.message.clear();
        loop {
            let len = usize::from(self.stream.read_u16().await?);
            if len == 0 && !self.message.is_empty() {
                return Ok(());
            }
            let start = self.message.len();
            self.message.resize(start + len, 0);
            self.stream.read_exact(&mut self.message[start..]).await?;
        }
    }
}

/// Whether bytes have a part.
pub(crate) fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn text(text: &str) -> Vec<u8> {
    let len = u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&[0xD1][..], &len, text.as_bytes()].concat()
}
