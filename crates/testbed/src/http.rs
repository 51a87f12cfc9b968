//! A small HTTP client: one keep-alive connection, one request under way on it. It speaks just enough HTTP/1.1 to cost
//! little itself.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    query("neo4j", &json!({ "statement": statement, "parameters": parameters }).to_string(), headers)
}

/// The same with any body, for a database.
pub fn query(database: &str, body: &str, headers: &str) -> Vec<u8> {
    format!(
        "POST /db/{database}/query/v2 HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\naccept: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
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

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// An error, unless it is the answer to a query that succeeded.
    pub fn succeeded(self) -> anyhow::Result<Self> {
        if self.status() != 202 {
            bail!("{}{}", self.head, String::from_utf8_lossy(&self.body));
        }
        Ok(self)
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

/// Keep-alive connections to one server, used again most recently used first: as an application's pool. It has no bound of its
/// own: the load bounds the requests under way.
pub struct Pool {
    addr: SocketAddr,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    /// Without connections.
    pub const fn new(addr: SocketAddr) -> Self {
        Self { addr, idle: Mutex::new(Vec::new()) }
    }

    /// Sends a request that may be sent again.
    pub async fn ask(&self, request: &[u8]) -> anyhow::Result<Answer> {
        self.ask_once(request, false, &mut false).await
    }

    /// Sends on a kept connection or a new one. As HTTP libraries do, it does not use a connection that was closed while
    /// idle. A connection may also close at the moment of sending: without any byte of an answer, a read is sent again and
    /// a write never. An incomplete answer is an error.
    pub async fn ask_once(
        &self,
        request: &[u8],
        is_write: bool,
        was_closed_idle: &mut bool,
    ) -> anyhow::Result<Answer> {
        let kept = self.idle().pop().filter(Connection::is_open);
        let is_kept = kept.is_some();
        let mut connection = match kept {
            Some(kept) => kept,
            None => Connection::open(self.addr).await?,
        };
        let mut asked = connection.ask(request).await;
        *was_closed_idle = is_kept && asked.is_err() && !connection.has_heard();
        if *was_closed_idle && !is_write {
            connection = Connection::open(self.addr).await?;
            asked = connection.ask(request).await;
        }
        let answer = asked?;
        // Only behind a whole answer: half of one must not be the next request's.
        if !answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            self.idle().push(connection);
        }
        Ok(answer)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// On each connection one whole answer, and to the second question these bytes and the end.
    async fn server(then: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut buffer = [0; 1024];
                for answer in [&b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nok"[..], then] {
                    let _ = socket.read(&mut buffer).await;
                    let _ = socket.write_all(answer).await;
                }
            }
        });
        addr
    }

    async fn second(then: &'static [u8], is_write: bool) -> (bool, bool) {
        let pool = Pool::new(server(then).await);
        pool.ask(b"GET").await.unwrap();
        let mut was_closed_idle = false;
        let asked = pool.ask_once(b"GET", is_write, &mut was_closed_idle).await;
        (asked.is_ok(), was_closed_idle)
    }

    #[tokio::test]
    async fn only_a_read_of_whose_answer_nothing_came_is_asked_again() {
        assert_eq!(second(b"", false).await, (true, true));
        assert_eq!(second(b"", true).await, (false, true));
        assert_eq!(
            second(b"HTTP/1.1 202 Accepted\r\ncontent-length: 9\r\n\r\nhalf", false).await,
            (false, false)
        );
        assert_eq!(second(b"H", false).await, (false, false));
    }
}
