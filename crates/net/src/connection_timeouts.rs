//! Timeouts of client and peer connections (F31).
//!
//! hyper's own `header_read_timeout` does not fit. hyper arms it whenever it may read a head, also while a kept
//! connection is idle (hyper 1.12, `poll_read_head` in `src/proto/h1/conn.rs`). With 5 s for a head it closes every idle
//! connection after 5 s, and a balancer's pool loses a connection that it is about to use. So this file watches the bytes
//! below hyper, and the requests above it:
//!
//! | the connection waits for | limit | since |
//! |---|---|---|
//! | its first byte | `first_byte` | the node accepted it |
//! | the rest of a head | `head` | the head's first byte |
//! | an answer | none here: the service has its own timeouts for bodies and runs | |
//! | its client to read more of an answer | `reader` | the client last read some |
//! | its client to read all of it | `reader`, or as long as `reader_bytes_per_s` allows for the bytes read | a write first had to wait |
//! | the next request | `idle`, or `crowded` while few slots are free | the answer was written |
//!
//! A head ends when hyper calls the service, so no parser here has to agree with hyper's. Bytes that arrive while a
//! request is handled are its body, or an early pipelined request. A part of a head that came early counts as idle until
//! more of it comes, so such a sender has `idle + head`.
//!
//! hyper answers a head that it cannot read with an empty refusal of its own. This file recognises that refusal on its
//! way out and holds it back, so that the listener can send its own response; see `hypers_refusal`.
//!
//! **Cost.** The clock is read once for each answer, and once for each head that does not come in one piece. The speed of
//! a reader is checked only when a write has to wait; before that its bytes are added up. Each connection has one timer,
//! set to the earliest possible deadline. A deadline that moves back does not reset the timer: it fires, checks, and is
//! set again. One byte of each write is compared.

mod framing;
mod half_closed;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Version;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use self::framing::Framing;
use self::half_closed::ClientSide;
use crate::connection_slots::ConnectionSlots;
use crate::refusal_response::UnservedReason;

/// The limits of one listener's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionTimeouts {
    /// From accepting a connection to its first byte.
    pub first_byte: Duration,
    /// From the first byte of a request's head to its last.
    pub head: Duration,
    /// Longest time in which the client reads no byte of an answer.
    pub reader: Duration,
    /// The average speed, in bytes a second, that a reader must have after `reader`.
    pub reader_bytes_per_s: u64,
    /// From an answer to the next request's first byte.
    pub idle: Duration,
    /// The same, while less than an eighth of the listener's slots is free.
    pub crowded: Duration,
}

/// The phase of a connection. The service and [`TimedStream`] write it, both in one task. The atomic only makes both
/// `Send`, so `Relaxed` is enough.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionPhase(Arc<AtomicU8>);

const SILENT: u8 = 0;
const HEAD: u8 = 1;
const HANDLED: u8 = 2;
const ANSWERED: u8 = 3;
/// As `HANDLED`, for a client of HTTP/1.0: it knows no `100 Continue`.
const HANDLED_OLD: u8 = 4;

impl ConnectionPhase {
    /// A head is complete, and the service has its request.
    pub(crate) fn handled(&self, version: Version) {
        self.set(if version == Version::HTTP_11 { HANDLED } else { HANDLED_OLD });
    }

    /// The service has answered. The answer is being written.
    pub(crate) fn answered(&self) {
        self.set(ANSWERED);
    }

    fn set(&self, to: u8) {
        self.0.store(to, Ordering::Relaxed);
    }

    fn now(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    fn is_handled(&self) -> bool {
        matches!(self.now(), HANDLED | HANDLED_OLD)
    }
}

/// The speed of the reader of one answer. Bytes that the kernel took count as read, so that no reader counts as slower
/// than it is.
#[derive(Debug, Clone, Copy, Default)]
struct ReaderSpeed {
    taken_bytes: u64,
    /// When a write of this answer first had to wait.
    waited_since: Option<Instant>,
}

impl ReaderSpeed {
    /// When the reader becomes too slow, if it reads nothing more until then.
    fn too_slow_at(&self, timeouts: &ConnectionTimeouts) -> Option<Instant> {
        let earned_ms = self.taken_bytes.saturating_mul(1_000) / timeouts.reader_bytes_per_s.max(1);
        Some(self.waited_since? + timeouts.reader.max(Duration::from_millis(earned_ms)))
    }
}

/// A stream that ends with [`io::ErrorKind::TimedOut`] when its other end exceeds a timeout.
pub(crate) struct TimedStream<T> {
    stream: T,
    phase: ConnectionPhase,
    timeouts: ConnectionTimeouts,
    /// Since when the connection waits. The first poll that has to wait sets it.
    since: Option<Instant>,
    /// Whether a write waits for the reader. Then only the limit of the write counts.
    is_stalled: bool,
    /// How many bytes of the current answer the client has read, and since when a write waits.
    speed: ReaderSpeed,
    /// Whether the other end has closed its side.
    is_over: bool,
    /// Why this connection ended without an answer, if it did.
    unserved: Option<UnservedReason>,
    framing: Framing,
    /// Whether the head that comes next frames its body twice.
    is_ambiguous: bool,
    /// The client's side, if a client that has closed it gets its answer.
    client_side: Option<ClientSide>,
    slots: ConnectionSlots,
    timer: Pin<Box<Sleep>>,
}

impl<T> TimedStream<T> {
    /// Watches a connection that was accepted now. The service that handles its requests sets `phase`.
    pub(crate) fn new(
        stream: T,
        phase: ConnectionPhase,
        timeouts: ConnectionTimeouts,
        answers_half_closed: bool,
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
            speed: ReaderSpeed::default(),
            is_over: false,
            unserved: None,
            framing: Framing::default(),
            is_ambiguous: false,
            client_side: answers_half_closed.then(ClientSide::default),
            slots,
            timer,
        }
    }

    /// Whether the other end has closed its side, or a timeout has ended the connection.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Why the connection ended without an answer, if it did.
    pub(crate) fn unserved(&self) -> Option<UnservedReason> {
        self.unserved
    }

    /// hyper could not read a head and has sent nothing, for example on a head of HTTP/2.
    pub(crate) fn found_unreadable(&mut self) {
        if self.unserved.is_none() && self.phase.now() == HEAD && !self.is_stalled {
            self.unserved = Some(UnservedReason::HeadUnreadable);
        }
    }

    /// The stream, for the refusal.
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
            HANDLED | HANDLED_OLD => None,
            _ if self.slots.is_crowded() => Some(self.timeouts.crowded),
            _ => Some(self.timeouts.idle),
        }
    }

    /// The time at which the timeout is over, if no byte comes.
    fn deadline(&self, since: Instant, limit: Duration) -> Instant {
        let deadline = since + limit;
        match self.speed.too_slow_at(&self.timeouts) {
            Some(too_slow_at) if self.is_stalled => deadline.min(too_slow_at),
            _ => deadline,
        }
    }

    /// Ready when the timeout is over.
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
            // The timer was set for an earlier event that has come since, or to check whether slots are scarce.
            let next = if self.is_idle() { deadline.min(now + self.timeouts.crowded) } else { deadline };
            self.timer.as_mut().reset(next);
        }
    }

    fn give_up(&mut self) {
        self.is_over = true;
        self.unserved = match self.phase.now() {
            _ if self.is_stalled => Some(UnservedReason::ReaderTooSlow),
            SILENT => Some(UnservedReason::Silent),
            HEAD => Some(UnservedReason::HeadTooSlow),
            _ => None,
        };
    }

    /// Holds back a refusal of hyper's own. Returns whether these bytes are one. It is the last output of hyper on a
    /// connection. hyper writes none while a service has a request.
    fn hold_back(&mut self, bytes: &[u8]) -> bool {
        if self.phase.is_handled() {
            return false;
        }
        let refusal = hypers_refusal(bytes);
        self.unserved = self.unserved.or(refusal);
        refusal.is_some()
    }

    /// Bytes of the client have come. Those from a head on that frames its body twice go no further.
    fn note_read(&mut self, buffer: &mut ReadBuf<'_>, before: usize) -> io::Result<()> {
        if let Some(at) = self.framing.ambiguous(&buffer.filled()[before..]) {
            self.is_ambiguous = true;
            buffer.set_filled(before + at);
            if at == 0 {
                return Err(self.refuse_head());
            }
        }
        if matches!(self.phase.now(), SILENT | ANSWERED) {
            self.phase.set(HEAD);
            if !self.is_stalled {
                self.since = None; // While a write waits, sending a byte does not restart the reader's timeout.
            }
        }
        Ok(())
    }

    fn refuse_head(&mut self) -> io::Error {
        self.unserved = Some(UnservedReason::HeadUnreadable);
        io::ErrorKind::InvalidData.into()
    }

    /// The result of a write, or a timeout of its reader. Without this timeout a client that does not read keeps its
    /// answer in memory without end.
    fn written(
        &mut self,
        polled: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = &polled {
            let taken = written.as_ref().map_or(0, |bytes| *bytes as u64);
            self.speed.taken_bytes = self.speed.taken_bytes.saturating_add(taken);
            self.is_stalled = false;
            self.since = None;
            return polled;
        }
        self.stalled(context).map(Err)
    }

    /// A write, or a flush, waits for the reader.
    fn stalled(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if !self.is_stalled {
            self.is_stalled = true;
            self.since = None;
            self.speed.waited_since.get_or_insert_with(Instant::now);
        }
        self.poll_timeout(context)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TimedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_ambiguous {
            return Poll::Ready(Err(self.refuse_head()));
        }
        let before = buffer.filled().len();
        let polled = match &mut self.client_side {
            Some(side) if side.is_over() => Poll::Ready(Ok(())),
            Some(side) => match side.take() {
                Some(byte) => {
                    buffer.put_slice(&[byte]);
                    // And what is behind it: a body would come byte by byte.
                    match Pin::new(&mut self.stream).poll_read(context, buffer) {
                        Poll::Pending => Poll::Ready(Ok(())),
                        read => read,
                    }
                }
                None => Pin::new(&mut self.stream).poll_read(context, buffer),
            },
            None => Pin::new(&mut self.stream).poll_read(context, buffer),
        };
        match polled {
            Poll::Pending => self.poll_timeout(context).map(Err),
            Poll::Ready(Ok(())) if buffer.filled().len() > before => {
                Poll::Ready(self.note_read(buffer, before))
            }
            ended => {
                self.is_over = true;
                ended
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> TimedStream<T> {
    /// Fails when the client has gone while its request is handled, so that hyper drops the request.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(side) = &mut self.client_side
            && self.phase.is_handled()
            && let Poll::Ready(gone) = side.poll_gone(&mut self.stream, self.phase.now() == HANDLED, context)
        {
            self.is_over = true;
            return Poll::Ready(Err(gone));
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedStream<T> {
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

    /// hyper flushes each time it is polled, and after every answer. It does not always read afterwards, because the socket's waker may be set already.
    /// So the idle time begins here. hyper flushes when it has written everything (`poll_flush` in
    /// `src/proto/h1/io.rs`), so the pace of the answer ends here as well.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Ready(flushed) => flushed?,
            // A socket is flushed at once. TLS keeps bytes of its own that wait for the reader.
            Poll::Pending => return self.stalled(context).map(Err),
        }
        if std::mem::take(&mut self.is_stalled) {
            self.since = None;
        }
        self.speed = ReaderSpeed::default();
        if self.since.is_none()
            && let Poll::Ready(error) = self.poll_timeout(context)
        {
            return Poll::Ready(Err(error));
        }
        self.poll_gone(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unserved.is_some() {
            return Poll::Ready(Ok(())); // The refusal is still to be sent.
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Recognises hyper's answer to a head that it cannot read (hyper 1.12, `on_error` in `src/proto/h1/role.rs`): a status,
/// no body, and none of the headers with which every answer of a service begins. A result cannot look like it: JSON has
/// no bare line ends, and answers to peers are sealed. The tests fail when hyper changes this answer.
fn hypers_refusal(bytes: &[u8]) -> Option<UnservedReason> {
    const VERSION_LEN: usize = "HTTP/1.1 ".len();
    if bytes.get(VERSION_LEN) != Some(&b'4') {
        return None;
    }
    let why = match bytes.get(VERSION_LEN..VERSION_LEN + 4)? {
        b"400 " => UnservedReason::HeadUnreadable,
        b"414 " | b"431 " => UnservedReason::HeadTooLarge,
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
