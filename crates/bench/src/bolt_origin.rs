//! A scripted Bolt server: it answers any statement at once, with one record of one string of the requested length. It
//! replaces Neo4j in benchmarks that need a million different results and do not measure Neo4j. It speaks the part of
//! Bolt 5.4 that hopcache's client needs, and accepts all credentials.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const GOODBYE: u8 = 0x02;
const RUN: u8 = 0x10;
const PULL: u8 = 0x3F;
/// Longest part of a message that one chunk carries.
const CHUNK_BYTES_MAX: usize = 0xFFFF;

/// A server that runs until it is dropped.
pub(crate) struct BoltOrigin {
    addr: SocketAddr,
    runs: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl BoltOrigin {
    /// Listens on a free port; every result is a string of `bytes` that does not compress.
    pub(crate) async fn start(bytes: usize) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (addr, runs) = (listener.local_addr()?, Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&runs);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Ends with its client; the benchmark's process ends soon after.
                tokio::spawn(converse(stream, bytes, Arc::clone(&counted)));
            }
        });
        Ok(Self { addr, runs, accepting })
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Statements run so far, EXPLAINs apart.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }
}

impl Drop for BoltOrigin {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn converse(stream: TcpStream, bytes: usize, runs: Arc<AtomicU64>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut handshake = [0; 20];
    stream.read_exact(&mut handshake).await?;
    stream.write_all(&[0, 0, 4, 5]).await?;
    let mut text = Noise::new();
    let mut is_explain = false;
    loop {
        let message = read_message(&mut stream).await?;
        let mut answer = Vec::new();
        match message.get(1).copied() {
            None | Some(GOODBYE) => return Ok(()),
            Some(RUN) => {
                is_explain = message.windows(7).take(8).any(|word| word.eq_ignore_ascii_case(b"EXPLAIN"));
                let fields: &[&str] = if is_explain { &[] } else { &["text"] };
                runs.fetch_add(u64::from(!is_explain), Ordering::Relaxed);
                frame(&mut answer, &run_answer(fields));
            }
            Some(PULL) => {
                if !is_explain {
                    frame(&mut answer, &record(&text.next(bytes)));
                }
                frame(&mut answer, &pull_answer());
            }
            Some(_) => frame(&mut answer, &success(&[("server", "Neo4j/5.26.0")])),
        }
        stream.write_all(&answer).await?;
    }
}

async fn read_message(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let length = usize::from(stream.read_u16().await?);
        if length == 0 && !message.is_empty() {
            return Ok(message);
        }
        let start = message.len();
        message.resize(start + length, 0);
        stream.read_exact(&mut message[start..]).await?;
    }
}

fn frame(out: &mut Vec<u8>, message: &[u8]) {
    for chunk in message.chunks(CHUNK_BYTES_MAX) {
        out.extend_from_slice(&u16::try_from(chunk.len()).unwrap_or(u16::MAX).to_be_bytes());
        out.extend_from_slice(chunk);
    }
    out.extend_from_slice(&[0, 0]);
}

fn success(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut message = vec![0xB1, 0x70, 0xA0 | u8::try_from(pairs.len()).unwrap_or(0)];
    for (name, value) in pairs {
        string(&mut message, name);
        string(&mut message, value);
    }
    message
}

fn run_answer(fields: &[&str]) -> Vec<u8> {
    let mut message = vec![0xB1, 0x70, 0xA2];
    string(&mut message, "t_first");
    message.push(1);
    string(&mut message, "fields");
    message.push(0x90 | u8::try_from(fields.len()).unwrap_or(0));
    fields.iter().for_each(|name| string(&mut message, name));
    message
}

/// As Neo4j 5.26 ends a read: with these four names.
fn pull_answer() -> Vec<u8> {
    let mut message = vec![0xB1, 0x70, 0xA4];
    string(&mut message, "bookmark");
    string(&mut message, "FB:kcwQAAAAAAAAAAAAAAAAAAAAAMkFy5A=");
    for (name, value) in [("type", "r"), ("db", "neo4j")] {
        string(&mut message, name);
        string(&mut message, value);
    }
    string(&mut message, "t_last");
    message.push(1);
    message
}

fn record(text: &str) -> Vec<u8> {
    let mut message = vec![0xB1, 0x71, 0x91];
    string(&mut message, text);
    message
}

fn string(out: &mut Vec<u8>, text: &str) {
    match u32::try_from(text.len()).unwrap_or(u32::MAX) {
        length @ 0..=15 => out.push(0x80 | u8::try_from(length).unwrap_or(0)),
        length => {
            out.push(0xD2);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

/// Text that no compression shortens by much (xorshift64*, six bits a letter).
struct Noise(u64);

impl Noise {
    fn new() -> Self {
        static SEEDS: AtomicU64 = AtomicU64::new(0x9E37_79B9_7F4A_7C15);
        Self(SEEDS.fetch_add(0x2545_F491_4F6C_DD1D, Ordering::Relaxed) | 1)
    }

    fn next(&mut self, bytes: usize) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut text = String::with_capacity(bytes + 10);
        while text.len() < bytes {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            let word = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
            for place in 0..10 {
                let letter = (word >> (6 * place)) & 63;
                text.push(char::from(LETTERS[usize::try_from(letter).unwrap_or(0)]));
            }
        }
        text.truncate(bytes);
        text
    }
}
