//! How long a connection of a client or a peer may keep this node waiting (F31).
//!
//! hyper's own `header_read_timeout` does not fit: it is armed whenever a head may be read, which is
//! also while a kept connection is idle (hyper 1.12, `poll_read_head` in `src/proto/h1/conn.rs`). A head that must be
//! complete in 5 s then closes every idle connection after 5 s, and a balancer's pool loses one it is about to
//! use. So the bytes are watched here, under hyper, and the requests above it:
//!
//! | the connection waits for | at the most | since |
//! |---|---|---|
//! | its first byte | `first_byte` | it was accepted |
//! | the rest of a head | `head` | the head's first byte |
//! | an answer | no limit here: the service has its own for bodies and runs | |
//! | its reader to take more of an answer | `reader` | it last took some |
//! | the next request | `idle` | the answer was written |
//!
//! A head ends when hyper calls the service: no parser here has to agree with hyper's. What arrives
//! while a request is handled is its body, or a pipelined request that comes early; a part of a head
//! that came early counts as idle until more of it comes, so such a sender has `idle + head`.
//!
//! **Cost.** The clock is read once for each answer, and once for each head that does not come in one piece.
//! There is one timer for each connection, armed for the earliest end there may be; a deadline that moves
//! back does not touch it: it fires, looks, and is set again.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// The limits of one listener's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From accepting a connection to its first byte.
    pub first_byte: Duration,
    /// From the first byte of a request's head to its last.
    pub head: Duration,
    /// Without a byte of an answer taken by its reader.
    pub reader: Duration,
    /// From an answer to the next request's first byte.
    pub idle: Duration,
}

/// Where a connection stands. Written by [`Turn`] and [`Patient`], which live in one task; the atomic
/// only lets both be `Send`, so `Relaxed` is enough.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn(Arc<AtomicU8>);

const SILENT: u8 = 0;
const HEAD: u8 = 1;
const HANDLED: u8 = 2;
const ANSWERED: u8 = 3;

impl Turn {
    /// A head is complete, its request is the service's now.
    pub(crate) fn handled(&self) {
        self.set(HANDLED);
    }

    /// The service has answered; what is left is writing.
    pub(crate) fn answered(&self) {
        self.set(ANSWERED);
    }

    fn set(&self, to: u8) {
        self.0.store(to, Ordering::Relaxed);
    }

    fn now(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream that ends with [`io::ErrorKind::TimedOut`] when its other end has used up the patience.
pub(crate) struct Patient<T> {
    stream: T,
    turn: Turn,
    patience: Patience,
    /// Since when nothing happened that was waited for; found out by the first who has to wait.
    since: Option<Instant>,
    /// Whether a write waits for the reader: then the write's limit is the only one.
    is_stalled: bool,
    timer: Pin<Box<Sleep>>,
}

impl<T> Patient<T> {
    /// Watches a connection accepted now; whoever handles its requests tells `turn`.
    pub(crate) fn new(stream: T, turn: Turn, patience: Patience) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + patience.first_byte));
        Self { stream, turn, patience, since: Some(now), is_stalled: false, timer }
    }

    fn limit(&self) -> Option<Duration> {
        match self.turn.now() {
            _ if self.is_stalled => Some(self.patience.reader),
            SILENT => Some(self.patience.first_byte),
            HEAD => Some(self.patience.head),
            HANDLED => None,
            _ => Some(self.patience.idle),
        }
    }

    /// Ready when the patience is used up.
    fn poll_impatience(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let Some(limit) = self.limit() else { return Poll::Pending };
        let deadline = *self.since.get_or_insert_with(Instant::now) + limit;
        if deadline < self.timer.deadline() {
            self.timer.as_mut().reset(deadline);
        }
        loop {
            ready!(self.timer.as_mut().poll(context));
            if self.timer.deadline() >= deadline {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            // It was set for something that has come since.
            self.timer.as_mut().reset(deadline);
        }
    }

    fn note_read(&mut self) {
        if matches!(self.turn.now(), SILENT | ANSWERED) {
            self.turn.set(HEAD);
            if !self.is_stalled {
                self.since = None; // Whoever sends a byte instead of reading has not read one.
            }
        }
    }

    /// What the stream says of a write, or that its reader has been waited for long enough. Without it a
    /// client that asks and does not read keeps its answer in memory for as long as it likes.
    fn written(
        &mut self,
        polled: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if polled.is_ready() {
            self.is_stalled = false;
            self.since = None;
            return polled;
        }
        if !self.is_stalled {
            self.is_stalled = true;
            self.since = None;
        }
        self.poll_impatience(context).map(Err)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Pending => self.poll_impatience(context).map(Err),
            ready => {
                if buffer.filled().len() > before {
                    self.note_read();
                }
                ready
            }
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes behind every answer, and does not always try to read after it: where it tried
    /// before, the socket's waker is enough for it. So idling begins here.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        if self.since.is_none()
            && let Poll::Ready(error) = self.poll_impatience(context)
        {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
