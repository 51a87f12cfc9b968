//! Accepts connections and serves HTTP/1.1 on them, plain or over TLS, with a bound on everything that a client can do
//! slowly or often (F31, F32). The service, and not this module, decides what is answered.
//!
//! A connection over the limit is accepted, refused with a response, and closed. It never waits in the kernel's queue:
//! a client there sees a node that hangs, and a balancer keeps sending. There is no limit for each source address.
//! Clients come through a few balancers or pools, so a small limit cuts them off and a large limit stops nobody. When
//! unknown clients reach a node directly, the firewall should limit each address.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::BoxError;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::Either;
use hopcache_core::limits::{LAST_CALL_MS, LINGER_MS, SEND_BUFFER_BYTES};
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use crate::accepting::watch_client;
use crate::accepting::{Shortage, accept};
use crate::client_addr::{self, ClientAddr, OtherEnd, SESSION};
use crate::connection_slots::ConnectionSlots;
use crate::connection_timeouts::{ConnectionPhase, ConnectionTimeouts, TimedStream};
use crate::descriptors::sheds_max;
use crate::proxies::Proxies;
use crate::proxy_protocol::{HeaderUse, other_end};
use crate::refusal_response::{UnservedReason, asked, linger, send};
use crate::tls::{Acceptor, HandshakeError, ListenerStream, has_client_certificate};
use crate::upgrade::Upgrade;

/// Bounds of one listener.
#[derive(Debug, Clone, Copy)]
pub struct ListenerBounds {
    /// Connections at a time. The listener refuses the next one.
    pub connections_max: usize,
    /// How long the node waits for a connection.
    pub timeouts: ConnectionTimeouts,
    /// Largest head of a request, in bytes.
    pub head_bytes_max: usize,
    /// Whether a request that names no session carries the address of its connection ([`ClientAddr`]).
    pub says_addresses: bool,
    /// Whether a client that closes its side after its request gets its answer. Otherwise it counts as gone: its request is
    /// dropped at once.
    pub answers_half_closed: bool,
}

/// The responses of a listener to connections that no service answers, and how they are counted.
#[derive(Clone)]
pub struct Refusals {
    /// The response, in the form of the listener's other errors. `None` when nothing is sent.
    pub response: fn(UnservedReason) -> Option<Response<Bytes>>,
    /// Called for each refusal, for the metrics.
    pub noted: Arc<dyn Fn(UnservedReason) + Send + Sync>,
}

impl fmt::Debug for Refusals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Refusals")
    }
}

/// A service that answers every request, also a wrong one, with a body of type `B`.
pub trait Answers<B>:
    Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S, B> Answers<B> for S where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// A bound listener, and the protocol of its sockets below HTTP.
#[derive(Debug)]
pub struct BoundListener {
    /// The bound socket.
    pub listener: TcpListener,
    /// Plain, or TLS.
    pub acceptor: Acceptor,
    /// The balancers that are believed here.
    pub proxies: Proxies,
}

impl From<TcpListener> for BoundListener {
    /// A plain one.
    fn from(listener: TcpListener) -> Self {
        Self { listener, acceptor: Acceptor::plain(), proxies: Proxies::default() }
    }
}

/// Extension of each request on a connection whose client has shown a certificate that the listener trusts.
#[derive(Debug, Clone, Copy)]
pub struct CertifiedClient;

/// The parts that all connections of one listener share.
#[derive(Debug, Clone)]
pub(crate) struct ListenerShared {
    pub(crate) proxies: Proxies,
    pub(crate) bounds: ListenerBounds,
    pub(crate) refusals: Refusals,
    pub(crate) slots: ConnectionSlots,
    pub(crate) stop: CancellationToken,
}

/// Connections that are accepted at the end: as many as tokio lets the kernel queue.
const LAST_ACCEPTS_MAX: usize = 1_024;
/// Serves until `stop`. Requests under way then end.
///
/// The caller owns the listener, the tracker and the token. They end everything that this function starts.
pub async fn serve<S, B>(
    listening: impl Into<BoundListener>,
    service: S,
    (bounds, refusals): (ListenerBounds, Refusals),
    connections: TaskTracker,
    stop: CancellationToken,
) where
    S: Answers<B>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let BoundListener { listener, acceptor, proxies } = listening.into();
    // Connections inherit the size. When the system refuses it, they keep the default.
    if let Err(error) = SockRef::from(&listener).set_send_buffer_size(SEND_BUFFER_BYTES) {
        tracing::warn!(%error, "the kernel's send buffers keep their size");
    }
    let slots = ConnectionSlots::new(bounds.connections_max);
    let shared = ListenerShared { proxies, bounds, refusals, slots, stop };
    let sheds = ConnectionSlots::new(sheds_max());
    let mut is_full = false;
    let mut shortage = Shortage::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shared.stop.cancelled() => break,
            accepted = accept(&listener, &mut shortage) => accepted,
        };
        let Some(stream) = accepted else { continue };
        let (shared, service, acceptor) = (shared.clone(), service.clone(), acceptor.clone());
        if let Some(place) = shared.slots.enter() {
            is_full &= shared.slots.is_crowded();
            connections.spawn(async move {
                let _place = place;
                serve_socket(stream, &acceptor, service, shared).await;
            });
        } else {
            if !is_full {
                is_full = true; // One log line each time the listener fills up.
                let places = bounds.connections_max;
                tracing::warn!(places, "as many connections as there may be: more are refused");
            }
            (shared.refusals.noted)(UnservedReason::Crowded);
            let Some(place) = sheds.enter() else { continue };
            connections.spawn(async move {
                let _place = place;
                if let Some((stream, _)) = begin(stream, &acceptor, &shared).await {
                    refuse(stream, shared).await;
                }
            });
        }
    }
    for stream in connected(listener) {
        let (acceptor, service, shared) = (acceptor.clone(), service.clone(), shared.clone());
        connections.spawn(async move { serve_socket(stream, &acceptor, service, shared).await });
    }
}

/// Serves one accepted socket from its first byte to its end.
async fn serve_socket<S, B>(socket: TcpStream, acceptor: &Acceptor, service: S, shared: ListenerShared)
where
    S: Answers<B>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let Some((stream, end)) = begin(socket, acceptor, &shared).await else { return };
    let is_certified = has_client_certificate(&stream);
    let says_addresses = shared.bounds.says_addresses;
    let session = end.client.filter(|_| says_addresses).map(|addr| ClientAddr::new(addr.ip()));
    if end.is_listed_proxy() {
        let service = of_forwarded(of_client(service, session, is_certified), end.clone(), says_addresses);
        client_addr::serving(end, serve_connection(stream, service, shared)).await;
    } else {
        let service = of_client(service, session, is_certified);
        client_addr::serving(end, serve_connection(stream, service, shared)).await;
    }
}

/// The stream of an accepted socket, and its client. A listener that stops gives a handshake `LAST_CALL_MS`, as it does a
/// request.
async fn begin(
    mut socket: TcpStream,
    acceptor: &Acceptor,
    shared: &ListenerShared,
) -> Option<(ListenerStream, OtherEnd)> {
    let stopped = async {
        shared.stop.cancelled().await;
        tokio::time::sleep(Duration::from_millis(LAST_CALL_MS)).await;
    };
    let accepting = async {
        let end = match other_end(&mut socket, (&shared.proxies, HeaderUse::Optional)).await {
            Ok(end) => end,
            Err(fault) => return Err(HandshakeError::ProxyHeader(fault)),
        };
        acceptor.accept(socket).await.map(|stream| (stream, end))
    };
    let accepted = tokio::select! {
        biased;
        accepted = accepting => accepted,
        () = stopped => return None,
    };
    let (why, socket) = match accepted {
        Ok(accepted) => return Some(accepted),
        Err(HandshakeError::ProxyHeader(fault)) => {
            tracing::debug!(%fault, "a balancer's connection is refused");
            (UnservedReason::ProxyHeader, None)
        }
        Err(HandshakeError::Silent) => (UnservedReason::Silent, None),
        Err(HandshakeError::NotTls(socket)) => (UnservedReason::NotTls, Some(socket)),
        Err(HandshakeError::TooSlow) => (UnservedReason::HandshakeTooSlow, None),
        Err(HandshakeError::Failed(error)) => {
            tracing::debug!(%error, "no TLS with a client");
            (UnservedReason::HandshakeFailed, None)
        }
    };
    (shared.refusals.noted)(why);
    // A client that speaks HTTP here gets an answer. Otherwise it would see a connection that breaks without a
    // reason.
    if let (Some(mut socket), Some(response)) = (socket, (shared.refusals.response)(why))
        && send(&mut socket, &response).await.is_ok()
    {
        tokio::select! {
            () = shared.stop.cancelled() => {}
            () = linger(&mut socket) => {}
        }
    }
    None
}

/// The service for the requests of one connection.
fn of_client<S, B>(service: S, addr: Option<ClientAddr>, is_certified: bool) -> impl Answers<B> + use<S, B>
where
    S: Answers<B>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    service_fn(move |mut request: Request<Incoming>| {
        if is_certified {
            request.extensions_mut().insert(CertifiedClient);
        }
        // This costs three allocations, so a request that names its session skips it.
        if let Some(addr) = &addr
            && request.headers().get(&SESSION).is_none_or(http::HeaderValue::is_empty)
            && request.extensions().get::<ClientAddr>().is_none()
        {
            request.extensions_mut().insert(addr.clone());
        }
        service.call(request)
    })
}

/// The service for the requests of a listed balancer, each of which may be another client's.
fn of_forwarded<S, B>(service: S, end: OtherEnd, says_addresses: bool) -> impl Answers<B> + use<S, B>
where
    S: Answers<B>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    service_fn(move |mut request: Request<Incoming>| {
        let Some(client) = client_addr::forwarded(&end, request.headers()) else {
            return Either::Left(service.call(request));
        };
        // The inner service keeps what is there already.
        if says_addresses {
            request.extensions_mut().insert(ClientAddr::new(client));
        }
        Either::Right(client_addr::answering(client, service.call(request)))
    })
}

/// Connections that the kernel has made and that are not accepted yet. Closing the listener would reset them,
/// although their clients count them as connected.
fn connected(listener: TcpListener) -> Vec<TcpStream> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    let accepted = std::iter::from_fn(|| listener.accept().ok()).take(LAST_ACCEPTS_MAX);
    accepted
        .filter_map(|(stream, _)| {
            stream.set_nonblocking(true).ok()?;
            TcpStream::from_std(stream).inspect(watch_client).ok()
        })
        .collect()
}

/// Sends a refusal to a connection over the limit, as soon as its request begins.
async fn refuse<T: AsyncRead + AsyncWrite + Unpin>(mut stream: T, shared: ListenerShared) {
    let refusing = async {
        if asked(&mut stream).await
            && let Some(response) = (shared.refusals.response)(UnservedReason::Crowded)
            && send(&mut stream, &response).await.is_ok()
        {
            linger(&mut stream).await;
        }
    };
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = refusing => {}
    }
}

/// Serves one connection that the caller has accepted, for tests of a service without its listener.
pub async fn serve_accepted<S, B>(
    stream: TcpStream,
    service: S,
    (bounds, refusals): (ListenerBounds, Refusals),
    stop: CancellationToken,
) where
    S: Answers<B>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let slots = ConnectionSlots::new(bounds.connections_max);
    serve_connection(
        stream,
        service,
        ListenerShared { proxies: Proxies::default(), bounds, refusals, slots, stop },
    )
    .await;
}

/// Serves HTTP on one connection until it ends, or until the listener stops and the request under way has ended.
pub(crate) async fn serve_connection<T, S, B>(stream: T, service: S, shared: ListenerShared)
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
    S: Answers<B>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let phase = ConnectionPhase::default();
    let half_close = shared.bounds.answers_half_closed;
    let timeouts = shared.bounds.timeouts;
    let mut timed = TimedStream::new(stream, phase.clone(), timeouts, half_close, shared.slots.clone());
    let upgraded = Arc::new(OnceLock::new());
    let upgrades = Arc::clone(&upgraded);
    let service = service_fn(move |request: Request<Incoming>| {
        phase.handled(request.version());
        let (phase, upgrades) = (phase.clone(), Arc::clone(&upgrades));
        let is_chunked = request.body().size_hint().exact().is_none();
        service.call(request).map(move |mut answered| {
            phase.answered();
            if let Ok(response) = &mut answered {
                if is_chunked {
                    end_after(response);
                }
                if response.status() == StatusCode::SWITCHING_PROTOCOLS
                    && let Some(upgrade) = response.extensions_mut().remove::<Upgrade>()
                {
                    let _ = upgrades.set(upgrade);
                }
            }
            answered
        })
    });
    let mut connection = hyper::server::conn::http1::Builder::new()
        .header_read_timeout(None) // hyper's timer would close idle connections: see `connection_timeouts`.
        .half_close(half_close)
        .max_buf_size(shared.bounds.head_bytes_max)
        .max_header_size(shared.bounds.head_bytes_max)
        .serve_connection(TokioIo::new(&mut timed), service);
    let is_unreadable = {
        let mut connection = Pin::new(&mut connection);
        let ended = tokio::select! {
            // On shutdown hyper closes a connection that waits for a request without reading the socket. So bytes that
            // wait are read first. A client that has just connected, or just got an answer, may have sent a request
            // already: it has `LAST_CALL_MS` to arrive. By then each answer to a client says `close`.
            biased;
            ended = connection.as_mut() => ended,
            () = shared.stop.cancelled() => {
                match tokio::time::timeout(Duration::from_millis(LAST_CALL_MS), connection.as_mut()).await {
                    Ok(ended) => ended,
                    Err(_) => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                }
            }
        };
        if let Err(error) = &ended {
            tracing::debug!(%error, "connection ended");
        }
        ended.is_err_and(|error| error.is_parse())
    };
    let received = connection.into_parts().read_buf;
    if let Some(protocol) = upgraded.get().and_then(Upgrade::take)
        && !timed.is_over()
    {
        let mut stream = timed.into_inner();
        protocol.serve(&mut stream, BytesMut::from(received), &shared.stop).await;
        return end_upgraded(&mut stream).await;
    }
    if is_unreadable {
        timed.found_unreadable();
    }
    if !timed.is_over() || timed.unserved().is_some() {
        Box::pin(close(timed, shared)).await;
    }
}

/// Sends the refusal, if there is one, and closes the connection so that the client can read it.
async fn close<T: AsyncRead + AsyncWrite + Unpin>(timed: TimedStream<T>, shared: ListenerShared) {
    let unserved = timed.unserved();
    let mut stream = timed.into_inner();
    if let Some(why) = unserved {
        (shared.refusals.noted)(why);
        let Some(response) = (shared.refusals.response)(why) else { return };
        if send(&mut stream, &response).await.is_err() {
            return;
        }
        tokio::select! {
            () = shared.stop.cancelled() => {}
            () = linger(&mut stream) => {}
        }
    } else {
        end(&mut stream, &shared.stop).await;
    }
}

/// Closes a connection so that its client can read what was written.
async fn end<T: AsyncRead + AsyncWrite + Unpin>(stream: &mut T, stop: &CancellationToken) {
    if stream.shutdown().await.is_err() {
        return;
    }
    tokio::select! {
        () = stop.cancelled() => {}
        () = linger(stream) => {}
    }
}

/// The same for an upgraded connection, also when the listener stops: the last answer is on its way, and bytes that nobody
/// read would make its end a reset. The other side closes as soon as it has read that end.
async fn end_upgraded<T: AsyncRead + AsyncWrite + Unpin>(stream: &mut T) {
    let shutdown = tokio::time::timeout(Duration::from_millis(LINGER_MS), stream.shutdown()).await;
    if matches!(shutdown, Ok(Ok(()))) {
        linger(stream).await;
    }
}

/// Makes a request with `Transfer-Encoding` the last of its connection (F34). hyper does so itself when there is also a
/// `Content-Length` (RFC 9112, 6.3). It keeps the connection when `chunked` comes twice, or after a bare line feed. A
/// proxy before this node may read such a head in another way, and then the bytes after it are not a request of its client.
/// Clients of a query API know the lengths of their bodies, so this affects few.
fn end_after<B>(response: &mut Response<B>) {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}
