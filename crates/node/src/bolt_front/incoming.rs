//! The bytes that a client sends: when they are read, and how many of them the node holds (promise I9).
//!
//! A message has no length at its beginning. So a message that outgrows `BODY_BYTES_UNRESERVED` takes room for the
//! largest one until it is whole, and then for its own size, as a chunked body over HTTP does. The room is that of all
//! fronts. This module decides nothing about a message's meaning.

use std::sync::Arc;
use std::time::Duration;

use hopcache_bolt::server::{Inbox, InboxFault, Received, Version};
use hopcache_core::limits::{BODY_BYTES_UNRESERVED, BODY_TIMEOUT_MS, BOLT_MESSAGE_BYTES_MAX};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout};

use super::failure::BoltFailure;
use crate::body_budget::{BodyBudget, Reserved};
use crate::refusal_response::linger;

/// Bytes read from the socket at a time. A RUN with its PULL has some hundred bytes.
const READ_BYTES: usize = 4 << 10;
/// How long a large message may take to arrive, in time that the node waited for its bytes.
const LARGE_TIMEOUT: Duration = Duration::from_millis(BODY_TIMEOUT_MS);

/// The client has gone, or sends bytes that cannot be read.
pub(super) struct Gone;

/// The reading half of one connection.
pub(super) struct Incoming<R> {
    reader: R,
    inbox: Inbox,
    buffer: Vec<u8>,
    bodies: Arc<BodyBudget>,
    /// For the inbox's bytes over `BODY_BYTES_UNRESERVED`.
    room: Reserved,
    /// What is left of `LARGE_TIMEOUT`.
    large_left: Duration,
    /// Why no more is read, although the client is there.
    refused: Option<BoltFailure>,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    pub(super) fn new(reader: R, inbox: Inbox, bodies: Arc<BodyBudget>) -> Self {
        Self {
            reader,
            inbox,
            buffer: Vec::new(),
            bodies,
            room: Reserved::default(),
            large_left: LARGE_TIMEOUT,
            refused: None,
        }
    }

    /// Reads once. Bytes to send for the handshake are appended to `out`. The future may be dropped: no byte is lost.
    pub(super) async fn read(&mut self, out: &mut Vec<u8>) -> Result<(), Gone> {
        self.buffer.clear();
        self.buffer.reserve(READ_BYTES);
        let read = if self.inbox.held_bytes() > BODY_BYTES_UNRESERVED {
            match self.read_large().await {
                Ok(read) => read,
                Err(why) => {
                    self.refused = Some(why);
                    return Ok(());
                }
            }
        } else {
            (self.room, self.large_left) = (Reserved::default(), LARGE_TIMEOUT);
            self.reader.read_buf(&mut self.buffer).await
        };
        match read {
            Ok(0) | Err(_) => Err(Gone),
            Ok(_) => {
                self.inbox.receive(&self.buffer, out);
                Ok(())
            }
        }
    }

    /// Reads once of a large message.
    async fn read_large(&mut self) -> Result<std::io::Result<usize>, BoltFailure> {
        if !self.room.is_some() {
            let room = self.bodies.for_bytes(BOLT_MESSAGE_BYTES_MAX).await;
            self.room = room.map_err(|_| {
                BoltFailure::new(OVERLOADED, "Too many large requests at a time. Try again soon.")
            })?;
        }
        let began = Instant::now();
        let read = timeout(self.large_left, self.reader.read_buf(&mut self.buffer)).await;
        self.large_left = self.large_left.saturating_sub(began.elapsed());
        read.map_err(|_| {
            let message = format!("A large message did not arrive within {BODY_TIMEOUT_MS} ms.");
            BoltFailure::own("MessageTooSlow", message)
        })
    }

    /// The next message, with the room that it takes.
    pub(super) fn next(&mut self) -> Result<Option<(Received, Reserved)>, InboxFault> {
        let Some(received) = self.inbox.next_request()? else { return Ok(None) };
        let bytes = received.message.len();
        // Behind a large message nothing was read, so no other one holds the room.
        let room =
            if bytes > BODY_BYTES_UNRESERVED { std::mem::take(&mut self.room) } else { Reserved::default() };
        Ok(Some((received, room.shrunk_to(bytes))))
    }

    /// Whether there is room for more.
    pub(super) fn may_read(&self) -> bool {
        self.refused.is_none() && self.inbox.has_room()
    }

    /// Why this connection has to end, although the client is there.
    pub(super) fn refused(&self) -> Option<&BoltFailure> {
        self.refused.as_ref()
    }

    pub(super) fn version(&self) -> Option<Version> {
        self.inbox.version()
    }

    pub(super) fn has_reset(&self) -> bool {
        self.inbox.has_reset()
    }

    pub(super) fn set_stranger(&mut self, is_stranger: bool) {
        self.inbox.set_stranger(is_stranger);
    }

    /// Lets the client read why its connection ends.
    pub(super) async fn linger(&mut self) {
        self.room = Reserved::default();
        linger(&mut self.reader).await;
    }
}

/// A driver tries a transaction that failed with this code again.
const OVERLOADED: &str = "Neo.TransientError.Hopcache.Overloaded";
