//! A scripted Bolt server: it answers any statement at once. It replaces Neo4j in benchmarks that do not measure Neo4j. It speaks the
//! part of Bolt 5.4 that hopcache's client needs, and accepts all credentials.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hopcache_testbed::bolt_bytes::{chunked, single_field, statement_of};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::bolt::{AGREED, PULL, RUN, read_message};

const GOODBYE: u8 = 0x02;
const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;

/// The answer to RUN and PULL.
#[derive(Clone)]
pub(crate) enum Reply {
    /// These bytes, when PULL has come.
    Fixed(Bytes),
    /// One record of one text of so many bytes, which does not compress.
    Text(usize),
}

/// A server that runs until it is dropped.
pub(crate) struct ScriptedNeo4j {
    pub(crate) addr: SocketAddr,
    runs: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl ScriptedNeo4j {
    /// Listens on a free port.
    pub(crate) async fn start(reply: Reply) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (addr, runs) = (listener.local_addr()?, Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&runs);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Ends with its client; the benchmark's process ends soon after.
                tokio::spawn(converse(stream, reply.clone(), Arc::clone(&counted)));
            }
        });
        Ok(Self { addr, runs, accepting })
    }

    /// Statements run so far, EXPLAINs apart.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }
}

impl Drop for ScriptedNeo4j {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn converse(stream: TcpStream, reply: Reply, runs: Arc<AtomicU64>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    stream.read_exact(&mut [0; 20]).await?;
    stream.write_all(&AGREED).await?;
    let success = |metadata| chunked(&single_field(SUCCESS, &metadata));
    let greeting = success(json!({ "server": "Neo4j/5.26.0" }));
    let opening = |fields: &[&str]| success(json!({ "t_first": 1, "fields": fields }));
    let (with_text, without) = (opening(&["text"]), opening(&[]));
    // As Neo4j 5.26 ends a read: with these four names.
    let bookmark = "FB:kcwQAAAAAAAAAAAAAAAAAAAAAMkFy5A=";
    let end = success(json!({ "bookmark": bookmark, "type": "r", "db": "neo4j", "t_last": 1 }));
    let (mut noise, mut message, mut is_explain) = (Noise::new(), Vec::new(), false);
    loop {
        read_message(&mut stream, &mut message).await?;
        match (message.get(1), &reply) {
            (Some(&GOODBYE), _) => return Ok(()),
            (Some(&RUN), Reply::Fixed(_)) => {}
            (Some(&PULL), Reply::Fixed(replies)) => stream.write_all(replies).await?,
            (Some(&RUN), Reply::Text(_)) => {
                is_explain = statement_of(&message)
                    .is_some_and(|text| text.trim_start().to_uppercase().starts_with("EXPLAIN"));
                runs.fetch_add(u64::from(!is_explain), Ordering::Relaxed);
                stream.write_all(if is_explain { &without } else { &with_text }).await?;
            }
            (Some(&PULL), Reply::Text(bytes)) => {
                let mut answer = Vec::new();
                if !is_explain {
                    answer = chunked(&single_field(RECORD, &json!([noise.next(*bytes)])));
                }
                answer.extend_from_slice(&end);
                stream.write_all(&answer).await?;
            }
            _ => stream.write_all(&greeting).await?,
        }
    }
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
