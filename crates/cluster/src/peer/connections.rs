//! A peer's address, and the kept HTTP/1.1 connections to it, over hyper. Each exchange drives its own connection. Probes and
//! large questions go this way; the others share the framed connection ([`super::framed`]).
//!
//! A general client (reqwest, hyper-util's) drives each connection in a task of its own. A request goes to that task and
//! its answer comes back: two wake-ups and two channels for each exchange. Between peers one exchange uses one connection
//! at a time, so the exchange polls its connection itself. There is no task to own: dropping an exchange drops its connection, which closes it.
//!
//! Nothing polls an idle connection. So its next user finds out that the peer has closed it. [`super::link`] decides what
//! happens then.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hopcache_core::limits::{
    PEER_ANSWER_BYTES_MAX, PEER_CONNECT_MS_MAX, PEER_IDLE_CONNECTIONS_MAX, PEER_IDLE_MS_MAX,
    PEER_KEEPALIVE_AFTER_S, PEER_RECONNECT_MS_MAX, PEER_UNACKNOWLEDGED_MS_MAX, PEER_WELCOME_BYTES_MAX,
};
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_engine::ports::PeerError;
use hopcache_net::body::whole;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::PeerPath;
use super::auth::ClusterKey;
use super::framed_peer::FramedPeer;

struct Idle {
    line: PeerConnection,
    since: Instant,
}

/// One connection.
struct PeerConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: Connection<TokioIo<TcpStream>, Full<Bytes>>,
}

/// An answer and its whole body.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// Why an exchange over a connection failed.
enum ConnectionFault {
    /// It ended before the first byte of an answer.
    Broken(String),
    /// Anything else.
    Failed(PeerError),
}

/// Only a refused or reset connection shows that no node is there. Other errors (no descriptor left here, no route, a
/// burst that delays the handshake) say nothing about the peer. They must not take it out of the ring or cost it its
/// leases.
fn of_connect(error: &std::io::Error) -> PeerError {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => PeerError::Gone(error.to_string()),
        _ if is_unheard(error) => PeerError::TimedOut,
        _ => PeerError::Refused(format!("this node cannot connect: {error}")),
    }
}

/// Whether the network, not the peer, has ended a connection or prevented one.
pub(super) fn is_unheard(error: &std::io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
}

/// Has the kernel end a framed connection whose packets are lost. Many exchanges share it, and would all wait for their
/// own ends (a firewall that forgot the connection, an address that moved).
pub(super) fn watch_peer(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(PEER_KEEPALIVE_AFTER_S))
        .with_interval(Duration::from_secs(1));
    let watched = SockRef::from(stream).set_tcp_keepalive(&keepalive);
    #[cfg(target_os = "linux")]
    let watched = watched.and_then(|()| {
        let unacknowledged = Duration::from_millis(PEER_UNACKNOWLEDGED_MS_MAX);
        SockRef::from(stream).set_tcp_user_timeout(Some(unacknowledged))
    });
    if let Err(error) = watched {
        tracing::debug!(%error, "a connection to a peer is not watched by the kernel");
    }
}

/// Opens connections to one address.
pub(super) struct Connector {
    pub(super) addr: SocketAddr,
    /// When a framed connection broke, until the next connection is opened.
    broke_at: Mutex<Option<Instant>>,
}

impl Connector {
    pub(super) const fn new(addr: SocketAddr) -> Self {
        Self { addr, broke_at: Mutex::new(None) }
    }

    /// A framed connection has broken. The next connection is opened as one after a break.
    pub(super) fn note_broken(&self) {
        *self.broke_at.lock() = Some(Instant::now());
    }

    /// Connects.
    pub(super) async fn connect(&self) -> Result<TcpStream, PeerError> {
        let broke_at = self.broke_at.lock().take();
        if broke_at.is_some_and(|at| at.elapsed() < Duration::from_millis(PEER_IDLE_MS_MAX)) {
            return self.connect_again().await;
        }
        self.connect_within(Millis(PEER_CONNECT_MS_MAX)).await
    }

    /// Connects again after a connection has just broken. A process that dies breaks its connections. When its address
    /// goes with it (a container, a machine), nothing refuses the next connection, and silence means the same (I7).
    ///
    /// A suspended process and a cut network break no connection. A firewall that resets cut connections does: then there
    /// is one more run, and the fence refuses the cut holder's commit. When the peer had closed an idle connection and the
    /// first packet of the new one is lost, a live node is out of routing until its next probe.
    async fn connect_again(&self) -> Result<TcpStream, PeerError> {
        match self.connect_within(Millis(PEER_RECONNECT_MS_MAX)).await {
            Err(PeerError::TimedOut) => {
                Err(PeerError::Gone("the connection broke, and no process answers at its address".into()))
            }
            connected => connected,
        }
    }

    async fn connect_within(&self, limit_ms: Millis) -> Result<TcpStream, PeerError> {
        let connected = tokio::time::timeout(limit_ms.duration(), TcpStream::connect(self.addr)).await;
        let stream = connected.map_err(|_| PeerError::TimedOut)?.map_err(|error| of_connect(&error))?;
        // Without this a large message waits 40 ms for a delayed acknowledgement (measured).
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// A peer's address, and the connections to it.
pub(super) struct Address {
    pub(super) connector: Arc<Connector>,
    pub(super) host: HeaderValue,
    idle: Mutex<Vec<Idle>>,
    framed: Mutex<Option<Arc<FramedPeer>>>,
}

impl Address {
    pub(super) fn new(addr: SocketAddr, host: HeaderValue) -> Self {
        let connector = Arc::new(Connector::new(addr));
        Self { connector, host, idle: Mutex::default(), framed: Mutex::default() }
    }

    /// The framed connection that the next exchange uses. Opens one if there is none.
    pub(super) fn framed(&self, key: &Arc<ClusterKey>, me: &NodeName) -> Arc<FramedPeer> {
        let mut framed = self.framed.lock();
        match &*framed {
            Some(open) if open.is_usable() => Arc::clone(open),
            _ => {
                let fresh = FramedPeer::start(Arc::clone(&self.connector), Arc::clone(key), me.clone());
                Arc::clone(framed.insert(Arc::new(fresh)))
            }
        }
    }

    /// Sends on a kept HTTP connection, and once more on a new one if the kept one had been closed.
    pub(super) async fn send(&self, request: impl Fn() -> Request<Full<Bytes>>) -> Result<Reply, PeerError> {
        let first = match self.take() {
            Some(kept) => kept,
            None => PeerConnection::over(self.connector.connect().await?).await?,
        };
        match self.send_on(first, request()).await {
            Ok(reply) => return Ok(reply),
            Err(ConnectionFault::Failed(error)) => return Err(error),
            Err(ConnectionFault::Broken(_)) => {}
        }
        let fresh = PeerConnection::over(self.connector.connect_again().await?).await?;
        self.send_on(fresh, request()).await.map_err(|fault| match fault {
            ConnectionFault::Broken(text) => PeerError::Gone(text),
            ConnectionFault::Failed(error) => error,
        })
    }

    async fn send_on(
        &self,
        mut connection: PeerConnection,
        request: Request<Full<Bytes>>,
    ) -> Result<Reply, ConnectionFault> {
        let reply = connection.exchange(request).await?;
        let mut idle = self.idle.lock();
        if idle.len() < PEER_IDLE_CONNECTIONS_MAX {
            idle.push(Idle { line: connection, since: Instant::now() });
        }
        Ok(reply)
    }

    /// A kept connection, if there is one.
    fn take(&self) -> Option<PeerConnection> {
        let mut idle = self.idle.lock();
        let last = idle.pop()?;
        if last.since.elapsed() > Duration::from_millis(PEER_IDLE_MS_MAX) {
            idle.clear(); // Those below were used even longer ago.
            return None;
        }
        Some(last.line)
    }
}

impl PeerConnection {
    async fn over(stream: TcpStream) -> Result<Self, PeerError> {
        let (sender, driver) =
            handshake(TokioIo::new(stream)).await.map_err(|error| PeerError::Gone(error.to_string()))?;
        Ok(Self { sender, driver })
    }

    /// One exchange. A connection that failed must not be used again.
    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Reply, ConnectionFault> {
        let Self { sender, driver } = self;
        let mut talk = pin!(talk(sender, request));
        let mut has_ended = false;
        poll_fn(|context| {
            // The driver moves bytes and the exchange consumes them. Both wake this same task.
            if let Poll::Ready(done) = talk.as_mut().poll(context) {
                return Poll::Ready(done);
            }
            has_ended = has_ended || poll_driver(driver, context);
            match talk.as_mut().poll(context) {
                Poll::Pending if has_ended => {
                    Poll::Ready(Err(ConnectionFault::Broken("the connection has ended".into())))
                }
                polled => polled,
            }
        })
        .await
    }
}

/// Whether the connection has ended. Its error is logged.
fn poll_driver(driver: &mut Connection<TokioIo<TcpStream>, Full<Bytes>>, context: &mut Context<'_>) -> bool {
    Pin::new(driver).poll(context).is_ready()
}

async fn talk(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Reply, ConnectionFault> {
    let broken = |error: hyper::Error| ConnectionFault::Broken(innermost(&error));
    let bytes_max = answer_bytes_max(&request);
    sender.ready().await.map_err(broken)?;
    let response = sender.send_request(request).await.map_err(|error| {
        if error.is_parse() {
            ConnectionFault::Failed(PeerError::Refused(format!("no HTTP: {}", innermost(&error))))
        } else {
            broken(error)
        }
    })?;
    let status = response.status();
    let body = whole(Limited::new(response.into_body(), bytes_max)).await;
    let body = body.map_err(|error| {
        ConnectionFault::Failed(if error.is::<LengthLimitError>() {
            PeerError::Refused(format!("its answer has more than {bytes_max} bytes"))
        } else {
            PeerError::Gone(format!("in mid-answer: {}", innermost(&*error)))
        })
    })?;
    Ok(Reply { status, body })
}

/// Any process on the port can answer a probe, before it has proved anything.
fn answer_bytes_max<B>(request: &Request<B>) -> usize {
    if request.uri().path() == PeerPath::Probe.as_str() {
        PEER_WELCOME_BYTES_MAX
    } else {
        PEER_ANSWER_BYTES_MAX
    }
}

/// The innermost cause of an error, which has the concrete reason.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_kernel_watches_framed_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        watch_peer(&stream);
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(PEER_KEEPALIVE_AFTER_S));
        #[cfg(target_os = "linux")]
        assert_eq!(
            socket.tcp_user_timeout().unwrap(),
            Some(Duration::from_millis(PEER_UNACKNOWLEDGED_MS_MAX))
        );
    }
}
