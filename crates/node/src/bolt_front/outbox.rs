//! Replies on their way to one client. Whole messages are collected and sent together.
//!
//! A send may be dropped at any await: the number of sent bytes is kept, so that the next call continues behind them.

use std::io;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use hopcache_bolt::server::reply;
use hopcache_core::limits::{BOLT_NOOP_MS, BOLT_REPLY_BYTES, READER_TIMEOUT_MS};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Replies that wait, and the socket that they go to.
pub(crate) struct Outbox {
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    waiting: Vec<u8>,
    sent: usize,
}

impl Outbox {
    pub(crate) fn new(writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { writer: Box::new(writer), waiting: Vec::new(), sent: 0 }
    }

    /// The buffer to which whole messages are appended.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    /// Whether enough bytes wait that they should be sent before more is appended.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() - self.sent >= BOLT_REPLY_BYTES
    }

    /// Sends the waiting bytes.
    ///
    /// # Errors
    /// When the client has gone, or takes nothing for too long.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.waiting.len() {
            let mut write = pin!(self.writer.write(&self.waiting[self.sent..]));
            // A socket mostly takes everything at once: then no timer is set.
            let taken = match write.as_mut().now_or_never() {
                Some(taken) => Ok(taken),
                None => timeout(Duration::from_millis(READER_TIMEOUT_MS), write).await,
            };
            match taken {
                Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(Ok(taken)) => self.sent += taken,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        self.sent = 0;
        self.waiting.clear();
        // A large record leaves a large buffer behind.
        self.waiting.shrink_to(2 * BOLT_REPLY_BYTES);
        // TLS keeps bytes until it is flushed.
        self.writer.flush().await
    }

    /// Waits for a future, and meanwhile sends NOOPs to the client now and then.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) async fn wait_for<T>(&mut self, what: impl Future<Output = T>) -> io::Result<T> {
        let mut what = pin!(what);
        loop {
            match timeout(Duration::from_millis(BOLT_NOOP_MS), &mut what).await {
                Ok(value) => return Ok(value),
                Err(_) => {
                    self.waiting.extend_from_slice(&reply::NOOP);
                    self.flush().await?;
                }
            }
        }
    }

    /// Closes the socket for writing.
    pub(crate) async fn close(&mut self) {
        let _ = timeout(Duration::from_millis(READER_TIMEOUT_MS), self.writer.shutdown()).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_is_sent_signs_of_life() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 10);
        let mut out = Outbox::new(ours);
        let wait = Duration::from_millis(2 * BOLT_NOOP_MS + 1);
        let waited = out.wait_for(tokio::time::timeout(wait, std::future::pending::<()>())).await;
        assert!(waited.unwrap().is_err());
        drop(out);
        let mut heard = Vec::new();
        theirs.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, [0; 4], "two NOOPs");
    }

    /// A send that is dropped half way continues where it was: no byte is lost, and none is sent twice.
    #[tokio::test(start_paused = true)]
    async fn a_dropped_send_goes_on_behind_what_was_sent() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut out = Outbox::new(ours);
        let sent: Vec<u8> = (0..100).collect();
        out.bytes().extend_from_slice(&sent);
        assert!(timeout(Duration::from_millis(1), out.flush()).await.is_err(), "nobody reads");
        let mut heard = vec![0; 100];
        let (flushed, read) = tokio::join!(out.flush(), theirs.read_exact(&mut heard));
        flushed.unwrap();
        read.unwrap();
        assert_eq!(heard, sent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (ours, _theirs) = tokio::io::duplex(8);
        let mut out = Outbox::new(ours);
        out.bytes().extend_from_slice(&[1; 100]);
        assert_eq!(out.flush().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
