//! A client that closes its side of a connection while its request is handled: whether it waits for the answer (`nc -N`,
//! `shutdown(SHUT_WR)`), as it may, or has gone. TCP says the same in both cases, until this side sends something: the
//! kernel of a client that has gone answers with a reset.
//!
//! So this file sends something that changes nothing: `100 Continue`, which every client of HTTP/1.1 has to pass over. An
//! answer that comes soon goes out without one. Without it, the runs, locks and transactions of a client that has gone
//! would stay until they end by themselves.
//!
//! hyper reads nothing while it handles a whole request. So this file reads one byte ahead, and keeps it for hyper.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hopcache_core::limits::HALF_CLOSED_PROBE_MS;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What is known of the client's side of a connection.
#[derive(Default)]
pub(super) struct ClientSide {
    /// Read, and not yet given to hyper.
    ahead: Option<u8>,
    /// Present once the client has closed its side.
    probes: Option<Probes>,
}

struct Probes {
    timer: Pin<Box<Sleep>>,
    pause: Duration,
}

impl ClientSide {
    /// Takes the byte that was read ahead.
    pub(super) fn take(&mut self) -> Option<u8> {
        self.ahead.take()
    }

    /// Whether the client has closed its side, and all its bytes are taken.
    pub(super) fn is_over(&self) -> bool {
        self.ahead.is_none() && self.probes.is_some()
    }

    /// Ready when the client has gone, while its request is handled. Nothing of the answer has been sent yet.
    pub(super) fn poll_gone<T: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        stream: &mut T,
        may_probe: bool,
        context: &mut Context<'_>,
    ) -> Poll<io::Error> {
        if self.ahead.is_some() {
            return Poll::Pending; // It has sent another request.
        }
        if self.probes.is_none() {
            match ready!(poll_byte(stream, context)) {
                Ok(Some(byte)) => self.ahead = Some(byte),
                Ok(None) => {
                    let pause = Duration::from_millis(HALF_CLOSED_PROBE_MS);
                    self.probes = Some(Probes { timer: Box::pin(sleep(pause)), pause });
                }
                Err(error) => return Poll::Ready(error),
            }
            // hyper may wait for the rest of a body, and has to see the byte, or the end.
            context.waker().wake_by_ref();
        }
        let Some(probes) = &mut self.probes else { return Poll::Pending };
        loop {
            ready!(probes.timer.as_mut().poll(context));
            if let Poll::Ready(Err(error)) = poll_byte(stream, context) {
                return Poll::Ready(error);
            }
            if may_probe {
                match Pin::new(&mut *stream).poll_write(context, PROBE) {
                    Poll::Ready(Ok(sent)) if sent == PROBE.len() => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(error),
                    // A part of it would spoil the answer.
                    _ => return Poll::Ready(io::ErrorKind::WriteZero.into()),
                }
                if let Poll::Ready(Err(error)) = Pin::new(&mut *stream).poll_flush(context) {
                    return Poll::Ready(error);
                }
            }
            probes.pause *= 2;
            probes.timer.as_mut().reset(Instant::now() + probes.pause);
        }
    }
}

/// The next byte. `None` at the end.
fn poll_byte<T: AsyncRead + Unpin>(
    stream: &mut T,
    context: &mut Context<'_>,
) -> Poll<io::Result<Option<u8>>> {
    let mut byte = [0; 1];
    let mut buffer = ReadBuf::new(&mut byte);
    ready!(Pin::new(stream).poll_read(context, &mut buffer))?;
    Poll::Ready(Ok(buffer.filled().first().copied()))
}
