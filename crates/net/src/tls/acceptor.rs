//! The step between an accepted socket and a protocol: the handshake, if the listener has TLS.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hopcache_core::limits::{FIRST_BYTE_TIMEOUT_MS, TLS_BUFFER_BYTES, TLS_HANDSHAKE_MS_MAX};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::proxy_protocol::HeaderFault;

use super::current::Current;
use super::files::{TlsFileError, TlsFiles};
use super::handshakes::Handshakes;
use super::reload::WatchedFiles;

/// First byte of every TLS connection: the type of the record that holds a ClientHello.
const HANDSHAKE_RECORD: u8 = 0x16;

/// An accepted connection, as its protocol reads and writes it: plain, or TLS after the handshake.
pub type ListenerStream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Why a socket did not become a stream. The other end has got TLS' own alert, if TLS has one for it.
#[derive(Debug)]
pub enum HandshakeError {
    /// No byte came in time.
    Silent,
    /// The first byte is of another protocol, so the listener may answer in that one. No byte was read.
    NotTls(TcpStream),
    /// The handshake took too long, because the other end or this node was slow.
    TooSlow,
    /// The two ends agree on no version, cipher or protocol, or do not trust each other.
    Failed(std::io::Error),
    /// A balancer's PROXY header, which comes before all, is missing or wrong.
    ProxyHeader(HeaderFault),
}

/// Turns accepted sockets into streams. Clones share one certificate.
#[derive(Clone)]
pub struct Acceptor(Option<Arc<Tls>>);

/// TLS of one listener.
struct Tls {
    current: Arc<Current>,
    handshakes: Handshakes,
    completed: Completed,
}

/// Called for each handshake that was completed, for the metrics.
pub type Completed = Arc<dyn Fn() + Send + Sync>;

impl fmt::Debug for Acceptor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Acceptor").field(&self.0.as_ref().map(|tls| tls.current.files())).finish()
    }
}

impl Acceptor {
    /// A listener without TLS.
    #[must_use]
    pub fn plain() -> Self {
        Self(None)
    }

    /// A listener with TLS, and the task that watches its files: run [`WatchedFiles::follow`] in a task. `alpn` names the
    /// protocols that the listener offers; with none it accepts any protocol that a client offers.
    ///
    /// # Errors
    /// When the files cannot be used.
    pub fn open(
        files: TlsFiles,
        alpn: &'static [&'static [u8]],
        handshakes: Handshakes,
        completed: Completed,
    ) -> Result<(Self, WatchedFiles), TlsFileError> {
        let (current, digest) = Current::open(files, alpn)?;
        let watched = WatchedFiles::new(Arc::clone(&current), digest);
        let tls = Arc::new(Tls { current, handshakes, completed });
        Ok((Self(Some(tls)), watched))
    }

    /// Whether the listener has TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.0.is_some()
    }

    /// Makes the stream. A plain listener gives its socket back at once, without waiting.
    ///
    /// # Errors
    /// [`HandshakeError`], after at most [`FIRST_BYTE_TIMEOUT_MS`] and [`TLS_HANDSHAKE_MS_MAX`].
    pub async fn accept(&self, socket: TcpStream) -> Result<ListenerStream, HandshakeError> {
        let Some(tls) = &self.0 else { return Ok(Either::Left(socket)) };
        let mut first = [0];
        let peeked = timeout(Duration::from_millis(FIRST_BYTE_TIMEOUT_MS), socket.peek(&mut first)).await;
        match peeked {
            Err(_) | Ok(Ok(0)) => return Err(HandshakeError::Silent),
            Ok(Err(error)) => return Err(HandshakeError::Failed(error)),
            Ok(Ok(_)) if first[0] != HANDSHAKE_RECORD => return Err(HandshakeError::NotTls(socket)),
            Ok(Ok(_)) => {}
        }
        let performed = tls.handshakes.perform(tls.current.config(), socket);
        match timeout(Duration::from_millis(TLS_HANDSHAKE_MS_MAX), performed).await {
            Ok(Ok(mut stream)) => {
                stream.get_mut().1.set_buffer_limit(Some(TLS_BUFFER_BYTES));
                (tls.completed)();
                Ok(Either::Right(Box::new(stream)))
            }
            Ok(Err(error)) => Err(HandshakeError::Failed(error)),
            Err(_) => Err(HandshakeError::TooSlow),
        }
    }
}

/// Whether the other end has shown a client certificate, which the handshake has verified.
#[must_use]
pub fn has_client_certificate(stream: &ListenerStream) -> bool {
    match stream {
        Either::Left(_) => false,
        Either::Right(tls) => tls.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty()),
    }
}
