//! Kept HTTP/1.1 connections to one peer, over hyper. Each exchange drives its own connection.
//!
//! A general client (reqwest, hyper-util's) drives each connection in a task of its own. A request goes to that task and
//! its answer comes back: two wake-ups and two channels for each exchange. Between peers one exchange uses one connection
//! at a time, so the exchange polls its connection itself. Forwards that share nothing went from 63 to 38 µs of CPU with
//! this and the direct call of the endpoint, not measured apart (docs/benchmarks/2026-11-21-hit). There is no task to own:
//! dropping an exchange drops its connection, which closes it.
//!
//! Nothing polls an idle connection. So its next user finds out that the peer has closed it. [`super::link`] decides what
//! happens then.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hopcache_core::limits::{
    PEER_ANSWER_BYTES_MAX, PEER_CONNECT_MS_MAX, PEER_IDLE_CONNECTIONS_MAX, PEER_IDLE_MS_MAX,
    PEER_RECONNECT_MS_MAX, PEER_WELCOME_BYTES_MAX,
};
use hopcache_core::time::Millis;
use hopcache_engine::ports::PeerError;
use hopcache_net::body::whole;
use http::{Request, StatusCode};
use http_body_util::{Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;

use super::PeerPath;

/// Idle connections to one address, the last used on top.
#[derive(Default)]
pub(super) struct Connections {
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    line: PeerConnection,
    since: Instant,
}

/// One connection.
pub(super) struct PeerConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: Connection<TokioIo<TcpStream>, Full<Bytes>>,
}

/// An answer and its whole body.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// Why an exchange over a connection failed.
pub(super) enum ConnectionFault {
    /// It ended before the first byte of an answer.
    Broken(String),
    /// Anything else.
    Failed(PeerError),
}

impl Connections {
    /// A kept connection, if there is one.
    pub(super) fn take(&self) -> Option<PeerConnection> {
        let mut idle = self.idle.lock();
        let last = idle.pop()?;
        if last.since.elapsed() > Duration::from_millis(PEER_IDLE_MS_MAX) {
            idle.clear(); // Those below were used even longer ago.
            return None;
        }
        Some(last.line)
    }

    /// Keeps a connection for the next exchange.
    pub(super) fn keep(&self, line: PeerConnection) {
        let mut idle = self.idle.lock();
        if idle.len() < PEER_IDLE_CONNECTIONS_MAX {
            idle.push(Idle { line, since: Instant::now() });
        }
    }
}

/// Only a refused or reset connection shows that no node is there. Other errors (no descriptor left here, no route, a
/// burst that delays the handshake) say nothing about the peer. They must not take it out of the ring or cost it its
/// leases.
fn of_connect(error: &std::io::Error) -> PeerError {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => PeerError::Gone(error.to_string()),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::TimedOut => {
            PeerError::TimedOut
        }
        _ => PeerError::Refused(format!("this node cannot connect: {error}")),
    }
}

impl PeerConnection {
    /// Connects.
    pub(super) async fn open(addr: SocketAddr) -> Result<Self, PeerError> {
        Self::open_within(Millis(PEER_CONNECT_MS_MAX), addr).await
    }

    /// Connects again after a connection has just broken. A process that dies breaks its connections. When its address
    /// goes with it (a container, a machine), nothing refuses the next connection, and silence means the same (I7).
    ///
    /// A suspended process and a cut network break no connection. A firewall that resets cut connections does: then there
    /// is one more run, and the fence refuses the cut holder's commit. When the peer had closed an idle connection and the
    /// first packet of the new one is lost, a live node is out of routing until its next probe.
    pub(super) async fn open_again(addr: SocketAddr) -> Result<Self, PeerError> {
        match Self::open_within(Millis(PEER_RECONNECT_MS_MAX), addr).await {
            Err(PeerError::TimedOut) => {
                Err(PeerError::Gone("the connection broke, and no process answers at its address".into()))
            }
            opened => opened,
        }
    }

    async fn open_within(limit_ms: Millis, addr: SocketAddr) -> Result<Self, PeerError> {
        let limit = limit_ms.duration();
        let connected = tokio::time::timeout(limit, TcpStream::connect(addr)).await;
        let stream = connected.map_err(|_| PeerError::TimedOut)?.map_err(|error| of_connect(&error))?;
        // Without this a large message waits 40 ms for a delayed acknowledgement (measured).
        let _ = stream.set_nodelay(true);
        let (sender, driver) =
            handshake(TokioIo::new(stream)).await.map_err(|error| PeerError::Gone(error.to_string()))?;
        Ok(Self { sender, driver })
    }

    /// One exchange. A connection that failed must not be used again.
    pub(super) async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Reply, ConnectionFault> {
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
