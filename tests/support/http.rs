//! Just enough HTTP/1.1 to ask thousands of questions at the same time from one process.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Barrier, Semaphore};

use super::authority::TlsClient;

/// Connections being opened at a time: below the kernel's queue of 1,024, where an overflow costs a second.
const CONNECTS_AT_A_TIME: usize = 256;

/// Whole answer to one request.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// From the sending to the last byte.
    pub took: Duration,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self}"))
    }

    /// First value of the first row; the request has to have succeeded.
    pub fn value(&self) -> Value {
        assert_eq!(self.status, 202, "{self}");
        self.json()["data"]["values"][0][0].clone()
    }

    pub fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map_or("", |(_, value)| value.trim())
    }

    pub fn is_hit(&self) -> bool {
        self.header("cache-status").contains("; hit")
    }
}

impl std::fmt::Display for Reply {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "after {} ms:\n{}{}",
            self.took.as_millis(),
            self.head,
            String::from_utf8_lossy(&self.body)
        )
    }
}

/// A Query API request by the tests' user.
pub fn query(statement: &str, parameters: &Value) -> Arc<[u8]> {
    let body = json!({"statement": statement, "parameters": parameters}).to_string();
    post("/db/neo4j/query/v2", &login(), &body)
}

/// The tests' user's `Authorization`, as a line of a head.
pub fn login() -> String {
    let login = base64::engine::general_purpose::STANDARD
        .encode(format!("neo4j:{}", super::environment("HOPCACHE_TEST_NEO4J_PASSWORD")));
    format!("authorization: Basic {login}\r\n")
}

/// A POST of JSON; `headers` end with CRLF each.
pub fn post(path: &str, headers: &str, body: &str) -> Arc<[u8]> {
    let length = body.len();
    let text = format!(
        "POST {path} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\naccept: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
    );
    text.into_bytes().into()
}

pub fn get(path: &str) -> Arc<[u8]> {
    format!("GET {path} HTTP/1.1\r\nhost: t\r\n\r\n").into_bytes().into()
}

/// A connection that is asked on again and again.
pub struct Connection(Box<dyn Bytes>);

/// Both directions of a connection, with or without TLS.
pub trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Bytes for S {}

/// A stream, with TLS where there is a client for it.
pub async fn stream_by(tls: Option<&TlsClient>, addr: SocketAddr) -> std::io::Result<Box<dyn Bytes>> {
    Ok(match tls {
        None => Box::new(connect(addr).await?),
        Some(tls) => Box::new(tls.connect(addr).await?),
    })
}

impl Connection {
    pub async fn open(addr: SocketAddr) -> std::io::Result<Self> {
        Self::open_by(None, addr).await
    }

    /// With TLS where there is a client for it.
    pub async fn open_by(tls: Option<&TlsClient>, addr: SocketAddr) -> std::io::Result<Self> {
        Ok(Self(stream_by(tls, addr).await?))
    }

    pub async fn ask(&mut self, request: &[u8]) -> std::io::Result<Reply> {
        exchange(&mut self.0, request).await
    }
}

/// `Authorization` of HTTP Basic, as a header line.
pub fn basic(user: &str, password: &str) -> String {
    let login = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("authorization: Basic {login}\r\n")
}

/// Asks on its own connection.
pub async fn ask(addr: SocketAddr, request: &[u8]) -> std::io::Result<Reply> {
    exchange(&mut connect(addr).await?, request).await
}

/// One client for each pair; all connect, then all send at the same moment.
pub async fn crowd(clients: Vec<(SocketAddr, Arc<[u8]>)>) -> Vec<std::io::Result<Reply>> {
    let start = Arc::new(Barrier::new(clients.len()));
    let connects = Arc::new(Semaphore::new(CONNECTS_AT_A_TIME));
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|(addr, request)| {
            let (start, connects) = (Arc::clone(&start), Arc::clone(&connects));
            tokio::spawn(async move {
                let permit = connects.acquire().await;
                let stream = connect(addr).await;
                drop(permit);
                start.wait().await;
                exchange(&mut stream?, &request).await
            })
        })
        .collect();
    let mut replies = Vec::with_capacity(tasks.len());
    for task in tasks {
        replies.push(task.await.unwrap());
    }
    replies
}

/// The bytes that a server sent on a connection until it closed it, or until the time was over.
#[derive(Debug)]
pub struct RawAnswer {
    pub received: Vec<u8>,
    pub is_closed: bool,
    pub took: Duration,
}

impl RawAnswer {
    /// The answers in the order they came; interim ones have no body.
    pub fn replies(&self) -> Vec<Reply> {
        let (mut rest, mut replies) = (&self.received[..], Vec::new());
        while let Some(head_len) = rest.windows(4).position(|four| four == b"\r\n\r\n") {
            let (head, behind) = rest.split_at(head_len + 4);
            let body_len = content_length(head).unwrap_or(0).min(behind.len());
            replies.push(reply(head, behind[..body_len].to_vec(), self.took));
            rest = &behind[body_len..];
        }
        replies
    }
}

impl std::fmt::Display for RawAnswer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let closed = if self.is_closed { "closed" } else { "still open" };
        let received = String::from_utf8_lossy(&self.received);
        write!(out, "{closed} after {} ms:\n{received:.2000}", self.took.as_millis())
    }
}

/// Sends any bytes, and reads until the server closes or the time is over.
pub async fn send_raw(addr: SocketAddr, bytes: &[u8], within: Duration) -> RawAnswer {
    let (read, mut write) = connect(addr).await.unwrap().into_split();
    let listening = listen(read, within);
    let sending = async {
        let _ = write.write_all(bytes).await;
        // The write half stays open: closing it could make the server end the connection.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = listening => answer,
        () = sending => unreachable!("it never ends"),
    }
}

/// Reads until the server closes or the time is over.
pub async fn listen(mut read: impl AsyncRead + Unpin, within: Duration) -> RawAnswer {
    let (started, mut received) = (Instant::now(), Vec::new());
    let closed = tokio::time::timeout(within, async {
        while read.read_buf(&mut received).await.is_ok_and(|count| count > 0) {}
    });
    let is_closed = closed.await.is_ok();
    RawAnswer { received, is_closed, took: started.elapsed() }
}

/// Connects.
pub async fn connect(addr: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and reads its answer on a connection that is kept.
pub async fn exchange<S>(stream: &mut S, request: &[u8]) -> std::io::Result<Reply>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let started = Instant::now();
    stream.write_all(request).await?;
    let mut bytes = Vec::with_capacity(1 << 10);
    let (head_len, length) = loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "closed before the end of the head"));
        }
        if let Some(head_len) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            if is_chunked(&bytes[..head_len]) {
                return chunked(stream, bytes, head_len + 4, started).await;
            }
            break (head_len + 4, content_length(&bytes[..head_len])?);
        }
    };
    while bytes.len() < head_len + length {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "closed before the end of the body"));
        }
    }
    let took = started.elapsed();
    let body = bytes.split_off(head_len);
    Ok(reply(&bytes, body, took))
}

fn is_chunked(head: &[u8]) -> bool {
    String::from_utf8_lossy(head).to_ascii_lowercase().contains("transfer-encoding: chunked")
}

/// An answer whose length nobody knew when its head was sent. `bytes` are the head, and what has come of the body.
async fn chunked<S: AsyncRead + Unpin>(
    stream: &mut S,
    mut bytes: Vec<u8>,
    head_len: usize,
    started: Instant,
) -> std::io::Result<Reply> {
    let cut = || Error::new(ErrorKind::UnexpectedEof, "closed before the last chunk");
    let mut rest = bytes.split_off(head_len);
    let mut body = Vec::new();
    loop {
        let line_len = loop {
            if let Some(len) = rest.windows(2).position(|two| two == b"\r\n") {
                break len;
            }
            if stream.read_buf(&mut rest).await? == 0 {
                return Err(cut());
            }
        };
        let size = std::str::from_utf8(&rest[..line_len]).ok();
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.ok_or_else(|| Error::new(ErrorKind::InvalidData, "no size of a chunk"))?;
        let chunk_len = line_len + 2 + size + 2;
        while rest.len() < chunk_len {
            if stream.read_buf(&mut rest).await? == 0 {
                return Err(cut());
            }
        }
        body.extend_from_slice(&rest[line_len + 2..chunk_len - 2]);
        rest.drain(..chunk_len);
        if size == 0 {
            return Ok(reply(&bytes, body, started.elapsed()));
        }
    }
}

fn reply(head: &[u8], body: Vec<u8>, took: Duration) -> Reply {
    let head = String::from_utf8_lossy(head).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Reply { status, head, body, took }
}

fn content_length(head: &[u8]) -> std::io::Result<usize> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse().ok());
    length.ok_or_else(|| Error::new(ErrorKind::InvalidData, format!("no content-length: {head}")))
}
