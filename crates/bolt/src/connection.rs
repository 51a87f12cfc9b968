//! One connection: opening, logging on, and whether it may be used again.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use hopcache_packstream::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::{Address, Security};
use crate::auth::Auth;
use crate::error::{Failure, OpenError};
use crate::framing::{BegunMessage, StreamFault, read_message, write_messages};
use crate::message::{self, Response};
use crate::pull_size::Pulled;
use crate::roots::Roots;
use crate::server::Version;
use crate::transport::{self, Duplex};
use crate::watched_stream::WatchedStream;

/// First bytes of every Bolt connection.
const MAGIC: [u8; 4] = [0x60, 0x60, 0xB0, 0x17];
/// Four offers of (range, minor, major): 6.1 to 6.0, 5.8 to 5.6, then 5.4 to 5.0 (5.5 was withdrawn), and nothing else.
const OFFERS: [u8; 16] = [0, 1, 1, 6, 0, 2, 8, 5, 0, 4, 4, 5, 0, 0, 0, 0];
/// The oldest major version offered.
const MAJOR_MIN: u8 = 5;
/// The start of "HTTP/1.1 400 …".
const HTTP: [u8; 4] = *b"HTTP";
/// Bytes read from the socket at a time.
const READ_BUFFER_BYTES: usize = 32 << 10;
/// Requests that are sent behind another one without waiting for its answer, at most: RUN and PULL behind BEGIN, PULL and COMMIT
/// behind RUN.
const PIPELINED_MAX: usize = 2;
/// The longest silence by default: of Neo4j's default settings.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Largest answer to HELLO, LOGON, LOGOFF and RESET: real ones are some hundred bytes.
const REPLY_BYTES_MAX: usize = 64 << 10;

/// How a connection behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name that the server shows in `SHOW TRANSACTIONS` and its query log.
    pub user_agent: String,
    /// For name lookup, TCP, TLS, handshake, HELLO and LOGON together.
    pub connect_timeout: Duration,
    /// For RESET, LOGOFF with LOGON, and GOODBYE: each a write and at most three small reads.
    pub exchange_timeout: Duration,
    /// Records that the first PULL of a result asks for, at least 1. The next ones ask for up to ten times as many, if they are short and
    /// read as they come.
    pub pull_rows: u32,
    /// The longest silence of a server that names none in its answer to HELLO: then the connection breaks.
    pub silence_max: Duration,
    /// The authorities that may sign the certificate of a `bolt+s://` server.
    pub roots: Roots,
    /// The routing context: the address, `host:port`, that the user gave for a cluster. `None`: one server.
    pub routed: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            user_agent: concat!("hopcache/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: Duration::from_secs(5),
            exchange_timeout: Duration::from_secs(2),
            // As drivers ask.
            pull_rows: 1_000,
            silence_max: SILENCE_MAX,
            roots: Roots::of_system(),
            routed: None,
        }
    }
}

/// Whether the stream stands between two exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Every request has had its answer.
    Ready,
    /// An exchange has begun. If its future was dropped or failed, the state stays so for good, because the next
    /// answer is unknown.
    InExchange,
    /// A result is open and a PULL is unanswered: its next message is a record, or the end of the PULL.
    InResult,
}

/// A logged-on connection.
pub struct Connection {
    pub(crate) stream: BufReader<WatchedStream>,
    pub(crate) state: State,
    pub(crate) options: Options,
    /// The records of the open result's last PULL.
    pub(crate) pulled: Pulled,
    /// The next message of the rest, as far as it was read: a large record, of which the run has taken nothing.
    pub(crate) begun: Option<BegunMessage>,
    version: Version,
    server: String,
    auth: Auth,
    must_change_password: bool,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Connection")
            .field("version", &self.version)
            .field("server", &self.server)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, agrees on a version and logs on, all within `options.connect_timeout`.
    ///
    /// # Errors
    /// [`OpenError`]; nothing stays open then.
    pub async fn open(address: &Address, auth: &Auth, options: &Options) -> Result<Self, OpenError> {
        let opening = async {
            let stream = transport::connect(address, &options.roots).await?;
            Self::agree(stream, address, auth, options).await
        };
        timeout(options.connect_timeout, opening).await.unwrap_or(Err(OpenError::TimedOut))
    }

    /// Whether a Bolt server answers: connects, agrees on a version, and sends HELLO when that needs no credentials (from
    /// 5.1 on), within `options.connect_timeout`. Nothing stays open.
    ///
    /// # Errors
    /// [`OpenError`]. A server that refuses HELLO counts as present.
    pub async fn probe(address: &Address, options: &Options) -> Result<(), OpenError> {
        let probing = async {
            let stream = transport::connect(address, &options.roots).await?;
            let mut stream = BufReader::with_capacity(REPLY_BYTES_MAX, WatchedStream::new(stream));
            let version = handshake(&mut stream, address).await?;
            if !version.has_logon() {
                return Ok(());
            }
            let hello = message::hello(version, &options.user_agent, &Auth::None, options.routed.as_deref());
            write_messages(&mut stream, &[hello]).await?;
            match read_reply(&mut stream).await? {
                Reply::Success(_) | Reply::Failure(_) => {}
                Reply::Ignored => return Err(OpenError::Protocol("HELLO was ignored".to_owned())),
            }
            // The answer is known, and a failed GOODBYE changes nothing.
            let _ = write_messages(&mut stream, &[message::goodbye()]).await;
            Ok(())
        };
        timeout(options.connect_timeout, probing).await.unwrap_or(Err(OpenError::TimedOut))
    }

    /// Like [`Connection::open`] with a server at the other end of a pipe in memory. Only the fuzzing crate calls it:
    /// a million sockets would test the kernel.
    ///
    /// # Errors
    /// [`OpenError`].
    #[doc(hidden)]
    pub async fn open_piped(pipe: DuplexStream, auth: &Auth, options: &Options) -> Result<Self, OpenError> {
        let address = Address { host: "pipe".to_owned(), port: 0, security: Security::Plain };
        Self::agree(Box::new(pipe), &address, auth, options).await
    }

    async fn agree(
        stream: Box<dyn Duplex>,
        address: &Address,
        auth: &Auth,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let mut stream = BufReader::with_capacity(READ_BUFFER_BYTES, WatchedStream::new(stream));
        let version = handshake(&mut stream, address).await?;
        let mut connection = Self {
            stream,
            state: State::InExchange,
            options: options.clone(),
            pulled: Pulled::first(options.pull_rows),
            begun: None,
            version,
            server: String::new(),
            auth: auth.clone(),
            must_change_password: false,
        };
        connection.greet().await?;
        connection.state = State::Ready;
        Ok(connection)
    }

    /// The version agreed on.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The server's name for itself, for example `Neo4j/5.26.12`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Whether the server accepted the password at the last log-on only so that the user changes it: it refuses every other
    /// statement.
    #[must_use]
    pub fn must_change_password(&self) -> bool {
        self.must_change_password
    }

    /// Whether every exchange so far has ended, so that another may begin.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Whether a run has left its result open, so that [`Connection::rest`] reads on.
    #[must_use]
    pub fn has_open_result(&self) -> bool {
        self.state == State::InResult
    }

    /// Whether it is ready and, as far as this end of the socket knows, still open. A server that sends something on an idle
    /// connection is closing it. This function never waits.
    pub async fn is_alive(&self) -> bool {
        if !self.is_ready() || !self.stream.buffer().is_empty() {
            return false;
        }
        let Some(socket) = self.stream.get_ref().socket() else { return true };
        poll_fn(|context| {
            let mut byte = [0; 1];
            Poll::Ready(socket.poll_peek(context, &mut ReadBuf::new(&mut byte)).is_pending())
        })
        .await
    }

    /// Whether the server answers a RESET within `exchange_timeout`. A connection that died without a word looks open, and
    /// a statement on it would wait for an answer that never comes. Only for a connection that was idle: it costs a round
    /// trip. Without an answer the connection is not ready any more.
    pub async fn is_answered(&mut self) -> bool {
        if !self.is_alive().await {
            return false;
        }
        self.state = State::InExchange;
        self.recover(Instant::now() + self.options.exchange_timeout).await;
        self.is_ready()
    }

    /// Whether [`Connection::log_on_again`] is possible: Bolt 5.0 has no LOGOFF.
    #[must_use]
    pub fn can_log_on_again(&self) -> bool {
        self.version.has_logon()
    }

    /// Lets the server check the connection's own credentials again (LOGOFF, LOGON). It takes no credentials, so a
    /// connection never changes its user.
    ///
    /// # Errors
    /// [`OpenError`]; the connection cannot be used any more then.
    pub async fn log_on_again(&mut self) -> Result<(), OpenError> {
        if !self.is_ready() || !self.can_log_on_again() {
            return Err(OpenError::Protocol("LOGOFF on a connection of Bolt 5.0".to_owned()));
        }
        self.state = State::InExchange;
        let requests = [message::logoff(), message::logon(&self.auth)];
        let exchange = async {
            write_messages(&mut self.stream, &requests).await?;
            expect_success(&mut self.stream).await?;
            expect_success(&mut self.stream).await
        };
        let exchanged = timeout(self.options.exchange_timeout, exchange).await;
        let logged_on = exchanged.unwrap_or(Err(OpenError::TimedOut))?;
        self.must_change_password = are_credentials_expired(&logged_on);
        self.state = State::Ready;
        Ok(())
    }

    /// Sends RESET after a failure. The connection is ready again if the server answers before `deadline` and within
    /// `exchange_timeout`.
    pub(crate) async fn recover(&mut self, deadline: Instant) {
        let deadline = deadline.min(Instant::now() + self.options.exchange_timeout);
        let exchange = async {
            write_messages(&mut self.stream, &[message::reset()]).await?;
            // What was sent behind a failed request is answered first.
            for _ in 0..=PIPELINED_MAX {
                match read_reply(&mut self.stream).await? {
                    Reply::Success(_) => return Ok(()),
                    Reply::Ignored => {}
                    Reply::Failure(failure) => return Err(OpenError::Refused(failure)),
                }
            }
            Err(OpenError::Protocol("RESET was not answered".to_owned()))
        };
        match timeout_at(deadline, exchange).await {
            Ok(Ok(())) => self.state = State::Ready,
            Ok(Err(error)) => tracing::debug!(%error, "a failed connection could not be reset"),
            Err(_) => tracing::debug!("a failed connection was not reset in time"),
        }
    }

    /// Sends GOODBYE if the connection is ready, and closes it.
    pub async fn close(mut self) {
        if self.is_ready() {
            let goodbye = async {
                write_messages(&mut self.stream, &[message::goodbye()]).await?;
                self.stream.shutdown().await.map_err(|error| StreamFault::Cut(error.to_string()))
            };
            // The connection ends in either case.
            let _ = timeout(self.options.exchange_timeout, goodbye).await;
        }
    }

    /// HELLO, and LOGON where the version has it, in one write.
    async fn greet(&mut self) -> Result<(), OpenError> {
        let Options { user_agent, routed, .. } = &self.options;
        let mut requests = vec![message::hello(self.version, user_agent, &self.auth, routed.as_deref())];
        if self.can_log_on_again() {
            requests.push(message::logon(&self.auth));
        }
        write_messages(&mut self.stream, &requests).await?;
        let mut metadata = expect_success(&mut self.stream).await?;
        if let Some(server) = metadata.get("server").and_then(Value::as_str) {
            server.clone_into(&mut self.server);
        }
        let silence_max = message::recv_timeout(&metadata).unwrap_or(self.options.silence_max);
        self.stream.get_mut().bound_silence(silence_max);
        for _ in 1..requests.len() {
            metadata = expect_success(&mut self.stream).await?;
        }
        self.must_change_password = are_credentials_expired(&metadata);
        Ok(())
    }
}

/// Whether the answer to a log-on says so.
fn are_credentials_expired(metadata: &Value) -> bool {
    metadata.get("credentials_expired") == Some(&Value::Bool(true))
}

async fn handshake(stream: &mut BufReader<WatchedStream>, address: &Address) -> Result<Version, OpenError> {
    let unreachable = |error: std::io::Error| OpenError::Unreachable {
        address: address.to_string(),
        reason: error.to_string(),
    };
    let mut hello = [0; 20];
    hello[..4].copy_from_slice(&MAGIC);
    hello[4..].copy_from_slice(&OFFERS);
    stream.write_all(&hello).await.map_err(unreachable)?;
    stream.flush().await.map_err(unreachable)?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await.map_err(unreachable)?;
    match answer {
        [0, 0, minor, major] if major >= MAJOR_MIN && Version::new(major, minor).is_spoken() => {
            Ok(Version::new(major, minor))
        }
        [0, 0, 0, 0] => Err(OpenError::NotBolt("the server speaks none of these versions".to_owned())),
        HTTP => Err(OpenError::NotBolt("it answers HTTP; name the Bolt port (7687 by default)".to_owned())),
        other => Err(OpenError::NotBolt(format!("the handshake was answered with {other:02X?}"))),
    }
}

/// An answer to anything but RUN and PULL.
enum Reply {
    Success(Value),
    Failure(Failure),
    Ignored,
}

async fn read_reply(stream: &mut BufReader<WatchedStream>) -> Result<Reply, OpenError> {
    let bytes = read_message(stream, REPLY_BYTES_MAX).await?;
    match message::read(&bytes).map_err(OpenError::Protocol)? {
        Response::Success(metadata) => Ok(Reply::Success(metadata)),
        Response::Failure(failure) => Ok(Reply::Failure(failure)),
        Response::Ignored => Ok(Reply::Ignored),
        Response::Record { .. } => Err(OpenError::Protocol("a record without a request".to_owned())),
    }
}

async fn expect_success(stream: &mut BufReader<WatchedStream>) -> Result<Value, OpenError> {
    match read_reply(stream).await? {
        Reply::Success(metadata) => Ok(metadata),
        Reply::Failure(failure) => Err(OpenError::Refused(failure)),
        Reply::Ignored => Err(OpenError::Protocol("a request was ignored".to_owned())),
    }
}

impl From<StreamFault> for OpenError {
    fn from(fault: StreamFault) -> Self {
        match fault {
            StreamFault::Cut(reason) => Self::Unreachable { address: "the Bolt server".to_owned(), reason },
            StreamFault::TooLarge | StreamFault::NoRoom => {
                Self::Protocol(format!("a reply larger than {REPLY_BYTES_MAX} bytes"))
            }
        }
    }
}
