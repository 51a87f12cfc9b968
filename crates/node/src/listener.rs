//! Accepting connections and speaking HTTP/1.1 on them, with a bound on everything a client can do
//! slowly or often (F31, F32). What is answered is the service's business, not this module's.
//!
//! A connection over the limit is accepted, told so and closed, never left in the kernel's queue: whoever
//! waits there sees a node that hangs, and a balancer goes on sending. There is no limit for each source:
//! clients come through a few balancers or pools, so that a small limit cuts them off, and a large one stops
//! nobody. Where strangers reach a node directly, the limit for each address belongs to the firewall.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use bytes::Bytes;
use futures_util::FutureExt;
use hopcache_core::limits::{LAST_CALL_MS, SEND_BUFFER_BYTES};
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client_addr::{ClientAddr, SESSION};
use crate::connection_slots::ConnectionSlots;
use crate::connection_timeouts::{ConnectionPhase, ConnectionTimeouts, TimedStream};
use crate::descriptors::{is_shortage, sheds_max};
use crate::refusal_response::{Unserved, asked, linger, send};

/// Bounds of one listener.
#[derive(Debug, Clone, Copy)]
pub struct ListenerBounds {
    /// Connections at a time; the next one is refused.
    pub connections_max: usize,
    /// How long a connection may keep this node waiting.
    pub timeouts: ConnectionTimeouts,
    /// Bytes of a request's head at the most.
    pub head_bytes_max: usize,
    /// Whether each request that names no session says on whose connection it came ([`ClientAddr`]).
    pub says_addresses: bool,
}

/// What a listener says to those whom no service answers, and who hears of them.
#[derive(Clone)]
pub struct Refusals {
    /// The words, in the shape of the listener's other errors; none where nothing is to be said.
    pub response: fn(Unserved) -> Option<Response<Bytes>>,
    /// Told of each, for the metrics.
    pub noted: Arc<dyn Fn(Unserved) + Send + Sync>,
}

impl fmt::Debug for Refusals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Refusals")
    }
}

/// A service that answers every request, whatever is wrong with it, with a body of type `B`.
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

/// What the connections of one listener have in common.
#[derive(Debug, Clone)]
pub(crate) struct ListenerShared {
    pub(crate) bounds: ListenerBounds,
    pub(crate) refusals: Refusals,
    pub(crate) slots: ConnectionSlots,
    pub(crate) stop: CancellationToken,
}

/// Connections accepted at the end: as many as tokio lets the kernel queue.
const LAST_ACCEPTS_MAX: usize = 1_024;
/// Pause after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// Without an accept that failed for so long, being out of descriptors is over: each connection that ends lets
/// one accept succeed meanwhile.
const SHORTAGE_OVER: Duration = Duration::from_secs(10);

/// Serves until `stop`, then lets requests under way end.
///
/// The caller owns listener, tracker and token: this module starts nothing that they do not end.
pub async fn serve<S, B>(
    listener: TcpListener,
    service: S,
    (bounds, refusals): (ListenerBounds, Refusals),
    connections: TaskTracker,
    stop: CancellationToken,
) where
    S: Answers<B>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    // Connections inherit it. Where the system refuses, they have what it gives.
    if let Err(error) = SockRef::from(&listener).set_send_buffer_size(SEND_BUFFER_BYTES) {
        tracing::warn!(%error, "the kernel's send buffers keep their size");
    }
    let shared =
        ListenerShared { bounds, refusals, slots: ConnectionSlots::new(bounds.connections_max), stop };
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
        let (shared, service) = (shared.clone(), service.clone());
        let service = of_client(service, shared.bounds, &stream);
        if let Some(place) = shared.slots.enter() {
            is_full &= shared.slots.is_crowded();
            connections.spawn(async move {
                let _place = place;
                serve_connection(stream, service, shared).await;
            });
        } else {
            if !is_full {
                is_full = true; // Said once for each time that it fills.
                let places = bounds.connections_max;
                tracing::warn!(places, "as many connections as there may be: more are refused");
            }
            (shared.refusals.noted)(Unserved::Crowded);
            let Some(place) = sheds.enter() else { continue };
            connections.spawn(async move {
                let _place = place;
                refuse(stream, shared).await;
            });
        }
    }
    for stream in connected(listener) {
        let service = of_client(service.clone(), shared.bounds, &stream);
        connections.spawn(serve_connection(stream, service, shared.clone()));
    }
}

/// The service as one connection's requests meet it.
fn of_client<S, B>(service: S, bounds: ListenerBounds, stream: &TcpStream) -> impl Answers<B> + use<S, B>
where
    S: Answers<B>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let addr = bounds.says_addresses.then(|| stream.peer_addr().ok()).flatten();
    let addr = addr.map(|addr| ClientAddr::new(addr.ip()));
    service_fn(move |mut request: Request<Incoming>| {
        // Three allocations: not for who says its session.
        if let Some(addr) = &addr
            && request.headers().get(&SESSION).is_none_or(http::HeaderValue::is_empty)
        {
            request.extensions_mut().insert(addr.clone());
        }
        service.call(request)
    })
}

/// Connections that the kernel made and nobody has accepted: closing the listener would reset them, and
/// their clients hold them for served.
fn connected(listener: TcpListener) -> Vec<TcpStream> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    let accepted = std::iter::from_fn(|| listener.accept().ok()).take(LAST_ACCEPTS_MAX);
    accepted
        .filter_map(|(stream, _)| {
            stream.set_nonblocking(true).ok()?;
            TcpStream::from_std(stream).ok()
        })
        .collect()
}

/// When an accept last failed for want of a descriptor.
#[derive(Debug, Default)]
struct Shortage(Option<Instant>);

impl Shortage {
    /// Whether it begins with this failure.
    fn begins(&mut self, error: &std::io::Error) -> bool {
        if !is_shortage(error) {
            return false;
        }
        let now = Instant::now();
        self.0.replace(now).is_none_or(|last| now - last > SHORTAGE_OVER)
    }
}

async fn accept(listener: &TcpListener, shortage: &mut Shortage) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => {
            // Without it a 64 KB body waits 40 ms for a delayed acknowledgement (DEPENDENCIES).
            let _ = stream.set_nodelay(true);
            Some(stream)
        }
        Err(error) => {
            // A client that left before it was accepted, or out of descriptors: that error comes back at
            // once until some connection ends, and a loop without a pause would take a whole core.
            if shortage.begins(&error) {
                tracing::warn!(%error, "no connection can be accepted: raise the limit of open files");
            } else {
                tracing::debug!(%error, "accept failed");
            }
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Tells a connection over the limit so, as soon as it asks.
async fn refuse<T: AsyncRead + AsyncWrite + Unpin>(mut stream: T, shared: ListenerShared) {
    let told = async {
        if asked(&mut stream).await
            && let Some(response) = (shared.refusals.response)(Unserved::Crowded)
            && send(&mut stream, &response).await.is_ok()
        {
            linger(&mut stream).await;
        }
    };
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = told => {}
    }
}

/// Speaks HTTP on one connection until it ends, or until the shared stops and its request under way has ended.
pub(crate) async fn serve_connection<T, S, B>(stream: T, service: S, shared: ListenerShared)
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
    S: Answers<B>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let phase = ConnectionPhase::default();
    let mut timed = TimedStream::new(stream, phase.clone(), shared.bounds.timeouts, shared.slots.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        phase.handled();
        let phase = phase.clone();
        let is_chunked = request.body().size_hint().exact().is_none();
        service.call(request).map(move |mut answered| {
            phase.answered();
            if is_chunked && let Ok(response) = &mut answered {
                end_after(response);
            }
            answered
        })
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .header_read_timeout(None) // Its timer would close idle connections: see `patience`.
        .max_buf_size(shared.bounds.head_bytes_max)
        .max_header_size(shared.bounds.head_bytes_max)
        .serve_connection(TokioIo::new(&mut timed), service);
    let is_unreadable = {
        tokio::pin!(connection);
        let ended = tokio::select! {
            // A connection that waits for a request is closed by hyper without a look at the socket. So first what
            // is there to be read is read; and what its client sent before it could know, just connected or just
            // answered, has a last call's time to come in. Each answer to a client says `close` by then.
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
    if is_unreadable {
        timed.found_unreadable();
    }
    if !timed.is_over() || timed.unserved().is_some() {
        Box::pin(close(timed, shared)).await;
    }
}

/// Says why, where there is something to be said, and closes so that it can be read.
async fn close<T: AsyncRead + AsyncWrite + Unpin>(timed: TimedStream<T>, shared: ListenerShared) {
    let unserved = timed.unserved();
    let mut stream = timed.into_inner();
    if let Some(why) = unserved {
        (shared.refusals.noted)(why);
        let Some(response) = (shared.refusals.response)(why) else { return };
        if send(&mut stream, &response).await.is_err() {
            return;
        }
    } else if stream.shutdown().await.is_err() {
        return;
    }
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = linger(&mut stream) => {}
    }
}

/// A request with `Transfer-Encoding` is the last of its connection (F34). hyper sees to that itself where a
/// `Content-Length` stands beside it (RFC 9112, 6.3), but keeps the connection when `chunked` is said twice, or
/// behind a bare line feed. A proxy before us may have read such a head otherwise, and then what comes behind
/// is no request of its client's. Clients of a query API know their bodies' lengths, so few pay for it.
fn end_after<B>(response: &mut Response<B>) {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}
