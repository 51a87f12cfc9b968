//! Accepting connections and speaking HTTP/1.1 on them, with a bound on everything a client can do
//! slowly or often (F31, F32). What is answered is the service's business, not this module's.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use futures_util::FutureExt;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::patience::{Patience, Patient, Turn};

/// Bounds of one listener.
#[derive(Debug, Clone, Copy)]
pub struct ListenerBounds {
    /// Connections at a time; the next one waits in the kernel's queue.
    pub connections_max: usize,
    /// How long a connection may keep this node waiting.
    pub patience: Patience,
    /// Bytes of a request's head at the most.
    pub head_bytes_max: usize,
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

/// Connections accepted at the end: as many as tokio lets the kernel queue.
const LAST_ACCEPTS_MAX: usize = 1_024;
/// Pause after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Serves until `stop`, then lets requests under way end.
///
/// The caller owns listener, tracker and token: this module starts nothing that they do not end.
pub async fn serve<S, B>(
    listener: TcpListener,
    service: S,
    bounds: ListenerBounds,
    connections: TaskTracker,
    stop: CancellationToken,
) where
    S: Answers<B>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(bounds.connections_max));
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accept(&listener, &room) => accepted,
        };
        let Some((stream, permit)) = accepted else { continue };
        let service = service.clone();
        let stop = stop.clone();
        connections.spawn(async move {
            let _permit = permit;
            converse(stream, service, bounds, stop).await;
        });
    }
    for stream in connected(listener) {
        connections.spawn(converse(stream, service.clone(), bounds, stop.clone()));
    }
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

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            // Without it a 64 KB body waits 40 ms for a delayed acknowledgement (DEPENDENCIES).
            let _ = stream.set_nodelay(true);
            Some((stream, permit))
        }
        Err(error) => {
            // A client that left before it was accepted, or out of descriptors: that error comes back at
            // once until some connection ends, and a loop without a pause would take a whole core.
            tracing::debug!(%error, "accept failed");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Speaks HTTP on one connection until it ends, or until `stop` and its request under way has ended.
pub(crate) async fn converse<T, S, B>(stream: T, service: S, bounds: ListenerBounds, stop: CancellationToken)
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
    S: Answers<B>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let turn = Turn::default();
    let stream = TokioIo::new(Patient::new(stream, turn.clone(), bounds.patience));
    let service = service_fn(move |request| {
        turn.handled();
        let turn = turn.clone();
        service.call(request).inspect(move |_| turn.answered())
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .header_read_timeout(None) // Its timer would close idle connections: see `patience`.
        .max_buf_size(bounds.head_bytes_max)
        .serve_connection(stream, service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
