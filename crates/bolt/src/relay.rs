//! A relay: a connection to a server that passes on a client's own messages. This file opens it and logs it on. Then
//! it carries bytes both ways at the version that the client speaks.
//!
//! It counts unanswered requests, and so knows when another client may use it. It decodes no record and retries
//! nothing. Its reads and writes may be dropped at any await: bytes that were read or written are kept.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use hopcache_packstream::{Reader, Token, Value, Writer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::Address;
use crate::auth::Auth;
use crate::error::{Failure, OpenError};
use crate::message::{auth_pairs, bare, logon, read_map, recv_timeout, write_routing};
use crate::roots::Roots;
use crate::server::reply::ReplyKind;
use crate::server::{Chunks, Kind, Version, frame};
use crate::transport;
use crate::watched_stream::{SignsOfLife, WatchedStream};

/// Largest message of the server that is passed on: a record of one value may be large.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Largest answer to HELLO and LOGON.
const REPLY_BYTES_MAX: usize = 64 << 10;
/// A chunk of a large message.
const CHUNK_BYTES: usize = 32 << 10;
/// Read from the socket at a time.
const READ_BYTES: usize = 32 << 10;
/// First bytes of every Bolt connection.
const MAGIC: [u8; 4] = [0x60, 0x60, 0xB0, 0x17];

/// How a relay is opened.
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// Name that the server shows.
    pub user_agent: String,
    /// Time limit for everything up to the log-on.
    pub connect_timeout: Duration,
    /// Time limit for a RESET.
    pub reset_timeout: Duration,
    /// The longest silence of a server that names none in its answer to HELLO: then the relay breaks.
    pub silence_max: Duration,
    /// The authorities that may sign the server's certificate.
    pub roots: Roots,
    /// As [`Options::routed`](crate::Options::routed).
    pub routed: Option<String>,
}

/// How a client speaks: its version, and for Bolt 4 whether date-times are in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dialect {
    /// The version.
    pub version: Version,
    /// Whether HELLO agreed on `patch_bolt: ["utc"]`. From 5.0 on date-times always are in UTC.
    pub has_utc_patch: bool,
}

impl From<Version> for Dialect {
    fn from(version: Version) -> Self {
        Self { version, has_utc_patch: false }
    }
}

/// Why a relay cannot go on. The caller drops it, and the server then ends its statements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the connection to the Bolt server broke: {0}")]
pub struct RelayCut(pub String);

/// What a server has said of the last request before a RESET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interrupted {
    /// Nothing: it was ignored, or there was none.
    Unknown,
    /// It, or one before it, failed: the FAILURE.
    Failed(Bytes),
    /// It had ended well: the SUCCESS.
    Ended(Bytes),
    /// It had ended well, and records of it are lost.
    EndedUnseen,
}

/// A logged-on connection that passes messages on.
pub struct Relay {
    stream: WatchedStream,
    version: Version,
    server: String,
    input: BytesMut,
    chunks: Chunks,
    output: BytesMut,
    /// What follows `output`, of a large message: it goes into chunks when it is sent, so that it is not held twice.
    later: VecDeque<Bytes>,
    unanswered: usize,
    /// The reply to the last request, where all are answered.
    last: Option<(ReplyKind, Bytes)>,
    /// Whether a failure, or a transaction, may still be open.
    is_dirty: bool,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Relay")
            .field("version", &self.version)
            .field("unanswered", &self.unanswered)
            .finish_non_exhaustive()
    }
}

/// The server's properties, by its first answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// The newest version that both the server and this crate speak.
    pub newest: Version,
    /// Its agent, for example `Neo4j/5.26.12`. `None` when it names its agent only after a log-on.
    pub agent: Option<String>,
    /// For how long its clients wait for any bytes, NOOPs included, while they expect some. `None` when it names no time,
    /// or names it only after a log-on.
    pub recv_timeout: Option<Duration>,
}

impl Relay {
    /// Asks a server for its version and its agent. Nothing stays open.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn look(address: &Address, options: &RelayOptions) -> Result<ServerInfo, OpenError> {
        let looking = async {
            let offers = [[0, 1, 1, 6], [0, 2, 8, 5], [0, 4, 4, 5], [0, 3, 4, 4]];
            let (stream, newest) = shake(address, &options.roots, offers).await?;
            let mut relay = Self::over(stream, newest);
            if !newest.has_logon() {
                return Ok(ServerInfo { newest, agent: None, recv_timeout: None });
            }
            let hello = hello(newest.into(), options, &Auth::None);
            let recv_timeout = recv_timeout(&relay.ask_now(&hello).await?);
            let _ = relay.send_now(&bare(Kind::Goodbye.signature().0)).await;
            let agent = (!relay.server.is_empty()).then_some(relay.server);
            Ok(ServerInfo { newest, agent, recv_timeout })
        };
        timeout(options.connect_timeout, looking).await.unwrap_or(Err(OpenError::TimedOut))
    }

    /// Connects at exactly this version, with the client's patches, and logs on.
    ///
    /// # Errors
    /// [`OpenError`]; nothing stays open then.
    pub async fn open(
        address: &Address,
        auth: &Auth,
        dialect: impl Into<Dialect>,
        options: &RelayOptions,
    ) -> Result<Self, OpenError> {
        let dialect = dialect.into();
        let version = dialect.version;
        let opening = async {
            let offers = [[0, 0, version.minor, version.major], [0; 4], [0; 4], [0; 4]];
            let (stream, agreed) = shake(address, &options.roots, offers).await?;
            let mut relay = Self::over(stream, agreed);
            let answer = relay.ask_now(&hello(dialect, options, auth)).await?;
            relay.stream.bound_silence(recv_timeout(&answer).unwrap_or(options.silence_max));
            if version.has_logon() {
                relay.ask_now(&logon(auth)).await?;
            }
            Ok(relay)
        };
        timeout(options.connect_timeout, opening).await.unwrap_or(Err(OpenError::TimedOut))
    }

    fn over(stream: WatchedStream, version: Version) -> Self {
        Self {
            stream,
            version,
            server: String::new(),
            input: BytesMut::new(),
            chunks: Chunks::default(),
            output: BytesMut::new(),
            later: VecDeque::new(),
            unanswered: 0,
            last: None,
            is_dirty: false,
        }
    }

    /// The version spoken.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The server's name for itself.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Counts the server's signs of life.
    #[must_use]
    pub fn signs(&self) -> SignsOfLife {
        self.stream.signs().clone()
    }

    /// Queues a request, as the bytes of one message without chunks. A large message before it must have been sent
    /// ([`Relay::flush`]).
    pub fn queue(&mut self, message: &[u8]) {
        debug_assert!(self.later.is_empty(), "a large message is to be sent before");
        let mut framed = Vec::new();
        frame(&mut framed, message);
        self.output.extend_from_slice(&framed);
        self.unanswered += 1;
        self.last = None;
        self.is_dirty = true;
    }

    /// Queues a large request in parts, as the bytes of one message without chunks. It is sent before any other is queued.
    pub fn queue_parts(&mut self, parts: impl IntoIterator<Item = Bytes>) {
        debug_assert!(self.later.is_empty(), "a large message is to be sent before");
        self.later.extend(parts.into_iter().filter(|part| !part.is_empty()));
        self.unanswered += 1;
        self.last = None;
        self.is_dirty = true;
    }

    /// Sends the queued requests.
    ///
    /// # Errors
    /// [`RelayCut`].
    pub async fn flush(&mut self) -> Result<(), RelayCut> {
        while self.has_output() {
            match self.stream.write(&self.output).await {
                Ok(0) => return Err(RelayCut("it takes no more bytes".to_owned())),
                Ok(sent) => self.output.advance(sent),
                Err(error) => return Err(RelayCut(error.to_string())),
            }
        }
        self.stream.flush().await.map_err(|error| RelayCut(error.to_string()))
    }

    /// Whether bytes are left to send, the next of which are in `output` then.
    fn has_output(&mut self) -> bool {
        if self.output.is_empty()
            && let Some(part) = self.later.front_mut()
        {
            let chunk = part.split_to(part.len().min(CHUNK_BYTES));
            self.output.extend_from_slice(&u16::try_from(chunk.len()).unwrap_or(u16::MAX).to_be_bytes());
            self.output.extend_from_slice(&chunk);
            if part.is_empty() {
                self.later.pop_front();
            }
            if self.later.is_empty() {
                self.output.extend_from_slice(&[0, 0]);
            }
        }
        !self.output.is_empty()
    }

    /// The next message of the server, without chunks.
    ///
    /// # Errors
    /// [`RelayCut`], also when the message is too large or nothing was asked.
    pub async fn receive(&mut self) -> Result<(ReplyKind, Bytes), RelayCut> {
        loop {
            if let Some(next) = self.received()? {
                return Ok(next);
            }
            self.input.reserve(READ_BYTES);
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) => return Err(RelayCut("it was closed".to_owned())),
                Ok(_) => {}
                Err(error) => return Err(RelayCut(error.to_string())),
            }
        }
    }

    /// The next message of the server, if it has arrived already.
    ///
    /// # Errors
    /// As [`Relay::receive`].
    pub fn received(&mut self) -> Result<Option<(ReplyKind, Bytes)>, RelayCut> {
        let message = self.chunks.next(&mut self.input, MESSAGE_BYTES_MAX);
        let Some(message) = message.map_err(|error| RelayCut(error.to_string()))? else { return Ok(None) };
        let kind = ReplyKind::of(&message)
            .ok_or_else(|| RelayCut("it sent a message that is not a reply".to_owned()))?;
        if kind != ReplyKind::Record {
            self.unanswered = self
                .unanswered
                .checked_sub(1)
                .ok_or_else(|| RelayCut("it sent an answer without a request".to_owned()))?;
            self.last = (self.unanswered == 0).then(|| (kind, message.clone()));
        }
        Ok(Some((kind, message)))
    }

    /// The caller knows that no transaction, result or failure is open.
    pub fn set_clean(&mut self) {
        self.last = None;
        self.is_dirty = self.unanswered > 0;
    }

    /// Whether another client may use it.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        !self.is_dirty
            && self.unanswered == 0
            && self.output.is_empty()
            && self.later.is_empty()
            && self.input.is_empty()
    }

    /// Whether it is clean and, as far as this end knows, still open.
    pub async fn is_alive(&self) -> bool {
        let Some(socket) = self.stream.socket() else { return self.is_clean() };
        self.is_clean()
            && poll_fn(|context| {
                let mut byte = [0; 1];
                Poll::Ready(socket.poll_peek(context, &mut ReadBuf::new(&mut byte)).is_pending())
            })
            .await
    }

    /// Sends RESET: the server interrupts running statements and forgets open results. Returns what the server says of the last
    /// request before it, which may have ended before RESET came.
    ///
    /// # Errors
    /// [`RelayCut`], also when there is no answer in time, and when a large message was sent in part.
    pub async fn reset(&mut self, options: &RelayOptions) -> Result<Interrupted, RelayCut> {
        if !self.later.is_empty() {
            return Err(RelayCut("a message was sent in part".to_owned()));
        }
        let deadline = Instant::now() + options.reset_timeout;
        let exchange = async {
            let mut interrupted = match self.last.take() {
                Some((ReplyKind::Success, reply)) => Interrupted::Ended(reply),
                Some((ReplyKind::Failure, reply)) => Interrupted::Failed(reply),
                _ => Interrupted::Unknown,
            };
            let mut has_records = false;
            self.queue(&bare(Kind::Reset.signature().0));
            self.flush().await?;
            loop {
                let (kind, reply) = self.receive().await?;
                match (self.unanswered, kind) {
                    (0, ReplyKind::Success) => return Ok(interrupted),
                    (0, ReplyKind::Failure | ReplyKind::Ignored) => {
                        return Err(RelayCut("RESET was refused".to_owned()));
                    }
                    (_, ReplyKind::Record) => has_records = true,
                    (_, ReplyKind::Failure) if !matches!(interrupted, Interrupted::Failed(_)) => {
                        interrupted = Interrupted::Failed(reply);
                    }
                    (1, ReplyKind::Success) if has_records => interrupted = Interrupted::EndedUnseen,
                    (1, ReplyKind::Success) => interrupted = Interrupted::Ended(reply),
                    _ => {}
                }
            }
        };
        let late = |_| Err(RelayCut("RESET was not answered in time".to_owned()));
        let interrupted = timeout_at(deadline, exchange).await.unwrap_or_else(late)?;
        self.set_clean();
        Ok(interrupted)
    }

    /// Says GOODBYE and closes.
    pub async fn close(mut self, options: &RelayOptions) {
        let leaving = async {
            self.send_now(&bare(Kind::Goodbye.signature().0)).await?;
            self.stream.shutdown().await.map_err(|error| RelayCut(error.to_string()))
        };
        // The connection ends in either case.
        let _ = timeout(options.reset_timeout, leaving).await;
    }

    async fn send_now(&mut self, message: &[u8]) -> Result<(), RelayCut> {
        let mut framed = Vec::new();
        frame(&mut framed, message);
        self.output.extend_from_slice(&framed);
        self.flush().await
    }

    /// Sends one request of the log-on and reads its answer.
    async fn ask_now(&mut self, message: &[u8]) -> Result<Value, OpenError> {
        let cut = |error: RelayCut| OpenError::Unreachable {
            address: "the Bolt server".to_owned(),
            reason: error.0,
        };
        self.unanswered += 1;
        self.send_now(message).await.map_err(cut)?;
        let (kind, reply) = self.receive().await.map_err(cut)?;
        if reply.len() > REPLY_BYTES_MAX {
            return Err(OpenError::Protocol("a reply that is too large".to_owned()));
        }
        let metadata = metadata(&reply).map_err(OpenError::Protocol)?;
        match kind {
            ReplyKind::Success => {
                if let Some(server) = metadata.get("server").and_then(Value::as_str) {
                    server.clone_into(&mut self.server);
                }
                Ok(metadata)
            }
            ReplyKind::Failure => {
                let failure = crate::message::to_failure(&metadata);
                Err(OpenError::Refused(Failure { as_sent: reply, ..failure }))
            }
            ReplyKind::Ignored | ReplyKind::Record => Err(OpenError::Protocol("no answer".to_owned())),
        }
    }
}

/// The map of a SUCCESS or FAILURE, given without chunks.
///
/// # Errors
/// A text that names the fault.
pub fn metadata(message: &[u8]) -> Result<Value, String> {
    let mut reader = Reader::new(message);
    match reader.token().map_err(|error| error.to_string())? {
        Token::Struct { len: 1, .. } => {}
        Token::Struct { len: 0, .. } => return Ok(Value::Map(Vec::new())),
        _ => return Err("a reply that is not a structure".to_owned()),
    }
    read_map(&mut reader)
}

/// HELLO at any version: with credentials where there is no LOGON, and below 5.0 with the patch that the client has
/// agreed on.
fn hello(dialect: Dialect, options: &RelayOptions, auth: &Auth) -> Vec<u8> {
    let (user_agent, routed) = (&options.user_agent, options.routed.as_deref());
    if dialect.version.major >= 5 {
        return crate::message::hello(dialect.version, user_agent, auth, routed);
    }
    let mut writer = Writer::new();
    writer.structure(Kind::Hello.signature().0, 1);
    let credentials = auth_pairs(auth);
    let patched = usize::from(dialect.has_utc_patch);
    writer.map(1 + patched + usize::from(routed.is_some()) + credentials.len());
    writer.string("user_agent");
    writer.string(user_agent);
    if let Some(address) = routed {
        write_routing(&mut writer, address);
    }
    if dialect.has_utc_patch {
        writer.string("patch_bolt");
        writer.list(1);
        writer.string("utc");
    }
    for (name, text) in credentials {
        writer.string(name);
        writer.string(text);
    }
    writer.into_bytes()
}

async fn shake(
    address: &Address,
    roots: &Roots,
    offers: [[u8; 4]; 4],
) -> Result<(WatchedStream, Version), OpenError> {
    let mut stream = WatchedStream::new(transport::connect(address, roots).await?);
    let unreachable = |error: std::io::Error| OpenError::Unreachable {
        address: address.to_string(),
        reason: error.to_string(),
    };
    stream.write_all(&[&MAGIC[..], &offers.concat()].concat()).await.map_err(unreachable)?;
    stream.flush().await.map_err(unreachable)?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await.map_err(unreachable)?;
    let version = Version::new(answer[3], answer[2]);
    if answer[..2] == [0, 0] && version.is_spoken() {
        Ok((stream, version))
    } else {
        Err(OpenError::NotBolt(format!("the handshake was answered with {answer:02X?}")))
    }
}

#[cfg(test)]
mod tests;
