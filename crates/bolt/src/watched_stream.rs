//! A byte stream whose silence is bounded. A server sends NOOPs while it works on a request, at a pace that its answer to
//! HELLO implies. So a read that waits longer than that waits for a server, or a network, that is gone.
//!
//! Only waiting counts: a connection that nobody reads, or whose caller is slow, is never silent. Every byte is a sign of
//! life, NOOPs included.
//!
//! **Cost.** The clock is read once for each read that has to wait. Each connection has one timer. A deadline that moves
//! back does not reset it: the timer fires, compares, and is set again.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::transport::Duplex;

/// How often the other end has sent bytes. A clone counts on.
#[derive(Debug, Clone, Default)]
pub struct SignsOfLife(Arc<AtomicU64>);

impl SignsOfLife {
    /// Reads so far that brought bytes.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more.
    pub fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The stream of a connection to a server.
pub(crate) struct WatchedStream {
    stream: Box<dyn Duplex>,
    signs: SignsOfLife,
    /// The longest silence. `None` until the server has named it: until then the opening has a time limit.
    silence_max: Option<Duration>,
    /// Since when a read, or a write, waits without a byte in either direction.
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl WatchedStream {
    pub(crate) fn new(stream: Box<dyn Duplex>) -> Self {
        Self { stream, signs: SignsOfLife::default(), silence_max: None, since: None, timer: None }
    }

    /// From now on the connection breaks after this silence.
    pub(crate) fn bound_silence(&mut self, silence_max: Duration) {
        self.silence_max = Some(silence_max);
    }

    pub(crate) fn signs(&self) -> &SignsOfLife {
        &self.signs
    }

    pub(crate) fn socket(&self) -> Option<&TcpStream> {
        self.stream.socket()
    }

    /// Ready when the silence has lasted too long.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let Some(silence_max) = self.silence_max else { return Poll::Pending };
        let deadline = *self.since.get_or_insert_with(Instant::now) + silence_max;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        loop {
            ready!(timer.as_mut().poll(context));
            if timer.deadline() >= deadline {
                let reason = format!("nothing came from it for {} s", silence_max.as_secs_f32());
                return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            timer.as_mut().reset(deadline);
        }
    }

    /// The result of a write, or the end of a silence: a server that takes no bytes for so long is gone as well.
    fn written<T>(&mut self, polled: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_pending() {
            return self.poll_silence(context).map(Err);
        }
        // The server has something to answer from now on.
        self.since = None;
        polled
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, into);
        if polled.is_pending() {
            return self.poll_silence(context).map(Err);
        }
        self.since = None;
        self.signs.note();
        polled
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(polled, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.written(polled, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
