//! Replies on their way to one client. Whole messages are collected and sent together. Only a large record is not copied as a whole: its
//! chunks are sent one after the other, and what is appended meanwhile waits behind it.
//!
//! A send may be dropped at any await: the number of sent bytes is kept, so that the next call continues behind them.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use hopcache_bolt::SignsOfLife;
use hopcache_bolt::server::reply;
use hopcache_core::limits::{
    BOLT_NOOP_MS_MAX, BOLT_NOOPS_PER_TIMEOUT, BOLT_RECEIVE_TIMEOUT_S, BOLT_REPLY_BYTES, READER_TIMEOUT_MS,
};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Replies that wait, and the socket that they go to.
pub(crate) struct Outbox {
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    waiting: Vec<u8>,
    sent: usize,
    /// The list of a record behind what waits, and how much of it was appended to that.
    large: Option<(Bytes, usize)>,
    /// What waits behind that record.
    behind: Vec<u8>,
    /// The longest silence towards a waiting client before a NOOP.
    noop_every: Duration,
}

impl Outbox {
    pub(crate) fn new(writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let recv_timeout = Duration::from_secs(BOLT_RECEIVE_TIMEOUT_S);
        Self {
            writer: Box::new(writer),
            waiting: Vec::new(),
            sent: 0,
            large: None,
            behind: Vec::new(),
            noop_every: noop_every(Some(recv_timeout)),
        }
    }

    /// The client was told to wait so long for any bytes. `None`: it waits for ever.
    pub(crate) fn set_recv_timeout(&mut self, recv_timeout: Option<Duration>) {
        self.noop_every = noop_every(recv_timeout);
    }

    /// The buffer to which whole messages are appended.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        if self.large.is_some() { &mut self.behind } else { &mut self.waiting }
    }

    /// Appends a RECORD, whose list is held until it was sent, or until this is dropped.
    pub(crate) fn push_record(&mut self, list: Bytes) {
        if self.large.is_some() || list.len() <= BOLT_REPLY_BYTES {
            reply::record(self.bytes(), &list);
        } else {
            self.large = Some((list, 0));
        }
    }

    /// Whether enough bytes wait that they should be sent before more is appended.
    pub(crate) fn is_full(&self) -> bool {
        self.large.is_some() || self.waiting.len() - self.sent >= BOLT_REPLY_BYTES
    }

    /// Sends the waiting bytes.
    ///
    /// # Errors
    /// When the client has gone, or takes nothing for too long.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.waiting.len() || self.next_chunk() {
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

    /// What waits was sent. The next chunk of a large record waits from now on, if there is one, and behind the last chunk what has
    /// waited behind the record.
    fn next_chunk(&mut self) -> bool {
        let Some((list, at)) = &mut self.large else { return false };
        self.sent = 0;
        self.waiting.clear();
        *at = reply::record_chunk(&mut self.waiting, list, *at);
        if *at == list.len() {
            self.large = None;
            self.waiting.append(&mut self.behind);
        }
        true
    }

    /// Waits for work of this node, and meanwhile sends NOOPs to the client now and then: the node itself is alive. Such
    /// work has a time limit of its own.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) async fn wait_for<T>(&mut self, what: impl Future<Output = T>) -> io::Result<T> {
        self.wait(None, what).await
    }

    /// Waits for Neo4j's answer to the client's own message. A NOOP goes to the client only if Neo4j has given a sign of
    /// life since the last one. Otherwise this node would keep the client's driver waiting for a Neo4j that is gone.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) async fn wait_for_neo4j<T>(
        &mut self,
        signs: &SignsOfLife,
        what: impl Future<Output = T>,
    ) -> io::Result<T> {
        self.wait(Some(signs), what).await
    }

    async fn wait<T>(&mut self, signs: Option<&SignsOfLife>, what: impl Future<Output = T>) -> io::Result<T> {
        let mut what = pin!(what);
        let mut passed_on = signs.map(SignsOfLife::count);
        loop {
            if let Ok(value) = timeout(self.noop_every, &mut what).await {
                return Ok(value);
            }
            let given = signs.map(SignsOfLife::count);
            if given.is_some() && given == passed_on {
                continue;
            }
            passed_on = given;
            self.bytes().extend_from_slice(&reply::NOOP);
            self.flush().await?;
        }
    }

    /// Closes the socket for writing.
    pub(crate) async fn close(&mut self) {
        let _ = timeout(Duration::from_millis(READER_TIMEOUT_MS), self.writer.shutdown()).await;
    }
}

fn noop_every(recv_timeout: Option<Duration>) -> Duration {
    let longest = Duration::from_millis(BOLT_NOOP_MS_MAX);
    recv_timeout.map_or(longest, |within| longest.min(within / BOLT_NOOPS_PER_TIMEOUT))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_is_sent_signs_of_life() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 10);
        let mut out = Outbox::new(ours);
        let wait = |wait_ms| timeout(Duration::from_millis(wait_ms), std::future::pending::<()>());
        assert!(out.wait_for(wait(61_000)).await.unwrap().is_err());
        // Two NOOPs so far, and then as many as Neo4j's own pace asks for.
        out.set_recv_timeout(Some(Duration::from_secs(4)));
        assert!(out.wait_for(wait(5_500)).await.unwrap().is_err());
        out.set_recv_timeout(None);
        assert!(out.wait_for(wait(31_000)).await.unwrap().is_err());
        drop(out);
        let mut heard = Vec::new();
        theirs.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard.len(), (2 + 5 + 1) * reply::NOOP.len());
    }

    /// A client that waits for a Neo4j that is gone hears nothing, so that its driver gives up. While Neo4j gives signs of
    /// life, they are passed on: one for each time span.
    #[tokio::test(start_paused = true)]
    async fn a_client_of_a_silent_neo4j_is_sent_no_signs_of_life() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 10);
        let (mut out, signs) = (Outbox::new(ours), SignsOfLife::default());
        let wait = |wait_ms| timeout(Duration::from_millis(wait_ms), std::future::pending::<()>());
        assert!(out.wait_for_neo4j(&signs, wait(600_000)).await.unwrap().is_err());
        let working = async {
            for _ in 0..4 {
                // tidy: Neo4j's pace, on a paused clock
                tokio::time::sleep(Duration::from_millis(60_000)).await;
                signs.note();
            }
        };
        out.wait_for_neo4j(&signs, working).await.unwrap();
        drop(out);
        let mut heard = Vec::new();
        theirs.read_to_end(&mut heard).await.unwrap();
        assert_eq!(
            heard.len(),
            3 * reply::NOOP.len(),
            "after the first three signs; the last one was the answer"
        );
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

    /// I9: of a large record no more than a chunk is copied, and nobody holds it once its last chunk was taken. A send that is dropped in
    /// the middle of it goes on there, and what was appended meanwhile, such as the answer to a RESET, comes behind it.
    #[tokio::test(start_paused = true)]
    async fn a_large_record_is_sent_in_chunks() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 10);
        let mut out = Outbox::new(ours);
        let list: Vec<u8> = (0..1 << 20).map(|at| at as u8).collect();
        let held = Arc::new(());
        let mut expected = Vec::new();
        reply::ignored(&mut expected);
        reply::record(&mut expected, &list);
        reply::record(&mut expected, &list);
        reply::ignored(&mut expected);
        expected.extend_from_slice(&reply::NOOP);
        reply::ignored(out.bytes());
        out.push_record(hopcache_net::body::tied(list.clone(), Arc::clone(&held)));
        assert!(out.is_full());
        let mut heard = vec![0; 300_000];
        let (sent, read) =
            tokio::join!(timeout(Duration::from_millis(1), out.flush()), theirs.read_exact(&mut heard));
        assert!(sent.is_err(), "the rest is not read");
        read.unwrap();
        assert!(out.waiting.capacity() <= 3 * BOLT_REPLY_BYTES, "{}", out.waiting.capacity());
        assert_eq!(Arc::strong_count(&held), 2);
        out.push_record(list.into());
        reply::ignored(out.bytes());
        let mut rest = vec![0; expected.len() - heard.len()];
        let going_on = async {
            let long = Duration::from_millis(BOLT_NOOP_MS_MAX + 1_000);
            assert!(out.wait_for(timeout(long, std::future::pending::<()>())).await.unwrap().is_err());
            out.flush().await.unwrap();
            assert_eq!(Arc::strong_count(&held), 1);
        };
        let ((), read) = tokio::join!(going_on, theirs.read_exact(&mut rest));
        read.unwrap();
        heard.extend(rest);
        assert!(heard == expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (ours, _theirs) = tokio::io::duplex(8);
        let mut out = Outbox::new(ours);
        out.bytes().extend_from_slice(&[1; 100]);
        assert_eq!(out.flush().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
