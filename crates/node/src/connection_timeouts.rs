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
//! | its reader to take all of it | `reader`, or as long as `reader_bytes_per_s` needs for what it took | a write first had to wait |
//! | the next request | `idle`, or `crowded` while places are scarce | the answer was written |
//!
//! A head ends when hyper calls the service: no parser here has to agree with hyper's. What arrives
//! while a request is handled is its body, or a pipelined request that comes early; a part of a head
//! that came early counts as idle until more of it comes, so such a sender has `idle + head`.
//!
//! hyper refuses a head that it cannot read by itself, without a word. Its refusal is recognised here on its
//! way out and held back, so that the listener can say it in its own shape; see `hypers_refusal`.
//!
//! **Cost.** The clock is read once for each answer, and once for each head that does not come in one piece.
//! How
//! fast a reader is, is only looked at when a write has to wait; before, its bytes are added up.
//! There is one timer for each connection, armed for the earliest end there may be; a deadline that moves
//! back does not touch it: it fires, looks, and is set again. One byte of each write is compared.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::connection_slots::ConnectionSlots;
use crate::refusal_response::Unserved;

/// The limits of one listener's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionTimeouts {
    /// From accepting a connection to its first byte.
    pub first_byte: Duration,
    /// From the first byte of a request's head to its last.
    pub head: Duration,
    /// Without a byte of an answer taken by its reader.
    pub reader: Duration,
    /// What a reader has to take on average, in bytes a second, once it was waited for as long as `reader`.
    pub reader_bytes_per_s: u64,
    /// From an answer to the next request's first byte.
    pub idle: Duration,
    /// The same, while less than an eighth of the listener's places is free.
    pub crowded: Duration,
}

/// Where a connection stands. Written by [`ConnectionPhase`] and [`TimedStream`], which live in one task; the atomic
/// only lets both be `Send`, so `Relaxed` is enough.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionPhase(Arc<AtomicU8>);

const SILENT: u8 = 0;
const HEAD: u8 = 1;
const HANDLED: u8 = 2;
const ANSWERED: u8 = 3;

impl ConnectionPhase {
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

/// How fast the reader of one answer is. What the kernel took counts as taken, so that nobody is held for slower
/// than he is.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    taken_bytes: u64,
    /// When a write of this answer first had to wait.
    waited_since: Option<Instant>,
}

impl Pace {
    /// When the reader is too slow, if it takes nothing more until then.
    fn too_slow_at(&self, timeouts: &ConnectionTimeouts) -> Option<Instant> {
        let earned_ms = self.taken_bytes.saturating_mul(1_000) / timeouts.reader_bytes_per_s.max(1);
        Some(self.waited_since? + timeouts.reader.max(Duration::from_millis(earned_ms)))
    }
}

/// A stream that ends with [`io::ErrorKind::TimedOut`] when its other end has used up the timeouts.
pub(crate) struct TimedStream<T> {
    stream: T,
    phase: ConnectionPhase,
    timeouts: ConnectionTimeouts,
    /// Since when nothing happened that was waited for; found out by the first who has to wait.
    since: Option<Instant>,
    /// Whether a write waits for the reader: then the write's limit is the only one.
    is_stalled: bool,
    /// What was taken of the answer that is being written, and since when it is waited for more.
    pace: Pace,
    /// Whether nothing more comes from the other end.
    is_over: bool,
    /// Why this connection ends without an answer, once it does.
    unserved: Option<Unserved>,
    slots: ConnectionSlots,
    timer: Pin<Box<Sleep>>,
}

impl<T> TimedStream<T> {
    /// Watches a connection accepted now; whoever handles its requests tells `phase`.
    pub(crate) fn new(
        stream: T,
        phase: ConnectionPhase,
        timeouts: ConnectionTimeouts,
        slots: ConnectionSlots,
    ) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + timeouts.first_byte));
        Self {
            stream,
            phase,
            timeouts,
            since: Some(now),
            is_stalled: false,
            pace: Pace::default(),
            is_over: false,
            unserved: None,
            slots,
            timer,
        }
    }

    /// Whether nothing more comes from the other end, or nothing more is waited for.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Why the connection ended without an answer, if it did.
    pub(crate) fn unserved(&self) -> Option<Unserved> {
        self.unserved
    }

    /// hyper could not read a head and has said nothing, as with one of HTTP/2.
    pub(crate) fn found_unreadable(&mut self) {
        if self.unserved.is_none() && self.phase.now() == HEAD && !self.is_stalled {
            self.unserved = Some(Unserved::HeadUnreadable);
        }
    }

    /// The stream, for the last words.
    pub(crate) fn into_inner(self) -> T {
        self.stream
    }

    fn is_idle(&self) -> bool {
        !self.is_stalled && self.phase.now() == ANSWERED
    }

    fn limit(&self) -> Option<Duration> {
        match self.phase.now() {
            _ if self.is_stalled => Some(self.timeouts.reader),
            SILENT => Some(self.timeouts.first_byte),
            HEAD => Some(self.timeouts.head),
            HANDLED => None,
            _ if self.slots.is_crowded() => Some(self.timeouts.crowded),
            _ => Some(self.timeouts.idle),
        }
    }

    /// When the patience is used up, if nothing comes.
    fn deadline(&self, since: Instant, limit: Duration) -> Instant {
        let deadline = since + limit;
        match self.pace.too_slow_at(&self.patience) {
            Some(too_slow_at) if self.is_stalled => deadline.min(too_slow_at),
            _ => deadline,
        }
    }

    /// Ready when the patience is used up.
    fn poll_timeout(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let Some(mut limit) = self.limit() else { return Poll::Pending };
        if self.since.is_none() && self.is_idle() {
            limit = limit.min(self.timeouts.crowded); // When to look whether it is crowded.
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let first = self.deadline(since, limit);
        if first < self.timer.deadline() {
            self.timer.as_mut().reset(first);
        }
        loop {
            ready!(self.timer.as_mut().poll(context));
            let Some(limit) = self.limit() else { return Poll::Pending };
            let (now, deadline) = (self.timer.deadline(), self.deadline(since, limit));
            if now >= deadline {
                self.give_up();
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            // It was set for something that has come since, or to look.
            let next = if self.is_idle() { deadline.min(now + self.timeouts.crowded) } else { deadline };
            self.timer.as_mut().reset(next);
        }
    }

    fn give_up(&mut self) {
        self.is_over = true;
        self.unserved = match self.phase.now() {
            _ if self.is_stalled => Some(Unserved::ReaderTooSlow),
            SILENT => Some(Unserved::Silent),
            HEAD => Some(Unserved::HeadTooSlow),
            _ => None,
        };
    }

    /// Whether these bytes are a refusal of hyper's own, which is held back then. It is the last that hyper
    /// writes on a connection. While a service has a request, hyper writes none.
    fn hold_back(&mut self, bytes: &[u8]) -> bool {
        if self.phase.now() == HANDLED {
            return false;
        }
        let refusal = hypers_refusal(bytes);
        self.unserved = self.unserved.or(refusal);
        refusal.is_some()
    }

    fn note_read(&mut self) {
        if matches!(self.phase.now(), SILENT | ANSWERED) {
            self.phase.set(HEAD);
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
        if let Poll::Ready(written) = &polled {
            let taken = written.as_ref().map_or(0, |bytes| *bytes as u64);
            self.pace.taken_bytes = self.pace.taken_bytes.saturating_add(taken);
            self.is_stalled = false;
            self.since = None;
            return polled;
        }
        if !self.is_stalled {
            self.is_stalled = true;
            self.since = None;
            self.pace.waited_since.get_or_insert_with(Instant::now);
        }
        self.poll_timeout(context).map(Err)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TimedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Pending => self.poll_timeout(context).map(Err),
            ready => {
                if buffer.filled().len() > before {
                    self.note_read();
                } else {
                    self.is_over = true;
                }
                ready
            }
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TimedStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.hold_back(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A head is a slice of its own.
        if let Some(first) = slices.first()
            && self.hold_back(first)
        {
            return Poll::Ready(Ok(first.len()));
        }
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes behind every answer, and does not always try to read after it: where it tried
    /// before, the socket's waker is enough for it. So idling begins here. It does so when it has written all
    /// that it had (`poll_flush` in `src/proto/h1/io.rs`), so an answer's pace ends here as well.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.pace = Pace::default();
        if self.since.is_none()
            && let Poll::Ready(error) = self.poll_timeout(context)
        {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unserved.is_some() {
            return Poll::Ready(Ok(())); // The last word is still to come.
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// What hyper says when it cannot read a head (hyper 1.12, `on_error` in `src/proto/h1/role.rs`): a status, no
/// body, and none of the headers that every answer of a service begins with. A result cannot look like it: JSON
/// has no bare line ends, and peers' answers are sealed. The tests fail when hyper says it otherwise.
fn hypers_refusal(bytes: &[u8]) -> Option<Unserved> {
    const VERSION_LEN: usize = "HTTP/1.1 ".len();
    if bytes.get(VERSION_LEN) != Some(&b'4') {
        return None;
    }
    let why = match bytes.get(VERSION_LEN..VERSION_LEN + 4)? {
        b"400 " => Unserved::HeadUnreadable,
        b"414 " | b"431 " => Unserved::HeadTooLarge,
        _ => return None,
    };
    let line_end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let headers = &bytes[line_end + 2..];
    let is_whole = bytes.starts_with(b"HTTP/1.") && headers.ends_with(b"\r\n\r\n");
    let is_bare = [&b"connection: close\r\ncontent-length: 0\r\n"[..], b"content-length: 0\r\n"]
        .iter()
        .any(|own| headers.starts_with(own));
    (is_whole && is_bare).then_some(why)
}

#[cfg(test)]
mod tests;
