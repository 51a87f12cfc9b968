//! A small HTTP client: one keep-alive connection, one request under way on it. It speaks just enough HTTP/1.1 to cost
//! little itself.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// [`post`] with the parameter `n`. The statement need not use it: each value of `n` makes another key.
pub fn query_request(statement: &str, n: usize, headers: &str) -> Vec<u8> {
    post(statement, &json!({ "n": n }), headers)
}

/// One POST to the Query API, as bytes. `headers` are further lines, each with its line end.
pub fn post(statement: &str, parameters: &Value, headers: &str) -> Vec<u8> {
    let body = json!({ "statement": statement, "parameters": parameters }).to_string();
    format!(
        "POST /db/neo4j/query/v2 HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\naccept: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// An answer: its head as text, its body.
pub struct Answer {
    /// Status line and headers.
    pub head: String,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }
}

/// A keep-alive connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
}

impl Connection {
    /// Connects.
    pub async fn open(addr: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(addr).await.with_context(|| format!("connect to {addr}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; 16 << 10], filled: 0 })
    }

    /// Sends a request and reads the whole answer; returns the ends of head and body in the buffer.
    pub async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<(usize, usize)> {
        self.filled = 0;
        self.stream.write_all(request).await?;
        let head_end = loop {
            self.fill().await?;
            if let Some(at) = find(&self.buffer[..self.filled], b"\r\n\r\n") {
                break at + 4;
            }
        };
        let length = content_length(&self.buffer[..head_end])?;
        while self.filled < head_end + length {
            self.fill().await?;
        }
        Ok((head_end, head_end + length))
    }

    /// Whether the connection is idle and open, as far as this side knows: no request is under way, and the other side
    /// has not closed it.
    pub fn is_open(&self) -> bool {
        let looked = self.stream.try_read(&mut [0]);
        looked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Whether a byte of the last answer came.
    pub fn has_heard(&self) -> bool {
        self.filled > 0
    }

    /// Sends a request and returns the answer.
    pub async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Answer> {
        let (head, end) = self.exchange(request).await?;
        Ok(Answer {
            head: String::from_utf8_lossy(&self.buffer[..head]).into_owned(),
            body: self.buffer[head..end].to_vec(),
        })
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        match self.stream.read(&mut self.buffer[self.filled..]).await? {
            0 => bail!("the server closed the connection"),
            read => {
                self.filled += read;
                Ok(())
            }
        }
    }
}

fn content_length(head: &[u8]) -> anyhow::Result<usize> {
    let text = std::str::from_utf8(head)?;
    let line = text.lines().find(|line| line.to_ascii_lowercase().starts_with("content-length:"));
    let (_, length) =
        line.and_then(|line| line.split_once(':')).context("an answer without content-length")?;
    Ok(length.trim().parse()?)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
