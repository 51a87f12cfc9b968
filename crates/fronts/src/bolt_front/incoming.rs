//! The bytes that a client sends: when they are read, and how many of them the node holds (promise I9).
//!
//! A message has no length at its beginning. So a message that outgrows `BODY_BYTES_UNRESERVED` takes room for 4 MiB, and for twice as
//! much whenever it outgrows its room; when it is whole it has room for its own size. The room is that of all
//! fronts, and a principal has a share of it. This module decides nothing about a message's meaning.

use std::sync::Arc;
use std::time::Duration;

use hopcache_bolt::server::{Inbox, InboxFault, Kind, ReceivedMessage, Version};
use hopcache_core::limits::{
    BODY_BYTES_UNRESERVED, BODY_TIMEOUT_MS, PARSE_INLINE_BYTES_MAX, REQUEST_BODY_BYTES_MAX,
};
use hopcache_net::body_budget::{BodyBudget, Reservation};
use hopcache_net::crowding::Principal;
use hopcache_net::refusal_response::linger;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout};

use super::failure::BoltFailure;

/// Bytes read from the socket at a time. A RUN with its PULL has some hundred bytes.
const READ_BYTES: usize = 4 << 10;
/// How long a large message may take to fill its room, in time that the node waited for its bytes.
const LARGE_TIMEOUT: Duration = Duration::from_millis(BODY_TIMEOUT_MS);

/// The client has gone, or sends bytes that cannot be read.
pub(super) struct Gone;

/// The reading half of one connection.
pub(super) struct Incoming<R> {
    reader: R,
    inbox: Inbox,
    buffer: Vec<u8>,
    bodies: Arc<BodyBudget>,
    message_bytes_max: usize,
    /// For a message that is not whole yet, and outgrew `BODY_BYTES_UNRESERVED`.
    room: Reservation,
    /// For a large message that waits. Behind it nothing is read, so there is one at most.
    waiting_room: Reservation,
    /// The principal that has logged on.
    principal: Option<Principal>,
    /// What is left of `LARGE_TIMEOUT`.
    large_left: Duration,
    /// Why no more is read, although the client is there.
    refused: Option<BoltFailure>,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    pub(super) fn new(
        reader: R,
        inbox: Inbox,
        (bodies, message_bytes_max): (Arc<BodyBudget>, usize),
    ) -> Self {
        Self {
            reader,
            inbox,
            buffer: Vec::new(),
            bodies,
            message_bytes_max,
            room: Reservation::default(),
            waiting_room: Reservation::default(),
            principal: None,
            large_left: LARGE_TIMEOUT,
            refused: None,
        }
    }

    /// Reads once. Bytes to send for the handshake are appended to `out`. The future may be dropped: no byte is lost.
    pub(super) async fn read(&mut self, out: &mut Vec<u8>) -> Result<(), Gone> {
        self.buffer.clear();
        self.buffer.reserve(READ_BYTES);
        let read = if self.inbox.begun_bytes() > BODY_BYTES_UNRESERVED {
            match self.read_large().await {
                Ok(read) => read,
                Err(why) => {
                    // Its bytes go with its room: requests before it may run for long.
                    self.inbox.forget_begun();
                    (self.room, self.refused) = (Reservation::default(), Some(why));
                    return Ok(());
                }
            }
        } else {
            self.large_left = LARGE_TIMEOUT;
            self.reader.read_buf(&mut self.buffer).await
        };
        match read {
            Ok(0) | Err(_) => Err(Gone),
            Ok(_) => {
                let began = self.inbox.begun_bytes();
                self.inbox.receive(&self.buffer, out);
                if self.room.is_some() && self.inbox.begun_bytes() <= BODY_BYTES_UNRESERVED {
                    // The large message is whole: it has the bytes of before, and some of the buffer's.
                    let whole = std::mem::take(&mut self.room);
                    self.waiting_room = whole.shrunk_to(began + self.buffer.len());
                }
                Ok(())
            }
        }
    }

    /// Reads once of a large message.
    async fn read_large(&mut self) -> Result<std::io::Result<usize>, BoltFailure> {
        let has = self.room.bytes();
        if self.inbox.begun_bytes() + READ_BYTES > has && has < self.message_bytes_max {
            let more = has.max(REQUEST_BODY_BYTES_MAX).min(self.message_bytes_max - has);
            let more = self.bodies.for_bytes(more, self.principal.as_ref()).await;
            let more = more.map_err(BoltFailure::crowded_out)?;
            self.room = std::mem::take(&mut self.room).joined(more);
            if has > 0 {
                self.large_left = LARGE_TIMEOUT;
            }
        }
        let left = self.large_left;
        // Also counts where this future is dropped, because a request before the message has ended.
        let _spent = Spent { left: &mut self.large_left, began: Instant::now() };
        let read = timeout(left, self.reader.read_buf(&mut self.buffer)).await;
        read.map_err(|_| {
            let message = format!("A large message did not arrive within {BODY_TIMEOUT_MS} ms.");
            BoltFailure::own("MessageTooSlow", message)
        })
    }

    /// The next message, with the room that it takes.
    pub(super) fn next(&mut self) -> Result<Option<(ReceivedMessage, Reservation)>, InboxFault> {
        let Some(received) = self.inbox.next_request()? else { return Ok(None) };
        let bytes = received.message.len();
        // The last one that waits takes the room also if it is not that large: it had a chunk's header more.
        let is_last = self.inbox.held_bytes() == self.inbox.begun_bytes();
        let room = if bytes > BODY_BYTES_UNRESERVED || is_last {
            std::mem::take(&mut self.waiting_room)
        } else {
            Reservation::default()
        };
        Ok(Some((received, room.shrunk_to(bytes))))
    }

    /// The PULL that the client has sent directly behind the message that came last from [`Incoming::next`].
    pub(super) fn pull_behind(&self) -> Option<ReceivedMessage> {
        let is_small = |behind: &&ReceivedMessage| behind.message.len() <= PARSE_INLINE_BYTES_MAX;
        self.inbox.peek().filter(|behind| behind.kind == Kind::Pull).filter(is_small).cloned()
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

    /// Who has logged on, if anybody.
    pub(super) fn set_principal(&mut self, principal: Option<Principal>) {
        self.inbox.set_stranger(principal.is_none());
        self.principal = principal;
    }

    /// Lets the client read why its connection ends.
    pub(super) async fn linger(&mut self) {
        self.inbox.forget_begun();
        (self.room, self.waiting_room) = (Reservation::default(), Reservation::default());
        linger(&mut self.reader).await;
    }
}

/// Counts a wait for bytes of a large message.
struct Spent<'a> {
    left: &'a mut Duration,
    began: Instant,
}

impl Drop for Spent<'_> {
    fn drop(&mut self) {
        *self.left = self.left.saturating_sub(self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use hopcache_bolt::server::InboxBounds;
    use hopcache_core::limits::BODY_ROOM_BYTES;

    use super::*;

    const OPENING: [u8; 20] = [0x60, 0x60, 0xB0, 0x17, 0, 8, 8, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const BYTES_MAX: usize = 16 << 20;
    const BOUNDS: InboxBounds = InboxBounds {
        message_bytes_max: BYTES_MAX,
        stranger_bytes_max: 1 << 10,
        waiting_max: 4,
        waiting_bytes_max: BODY_BYTES_UNRESERVED,
    };

    /// A RUN of so many bytes, the first of them in a chunk of its own.
    fn run(bytes: usize) -> Vec<u8> {
        let text = "x".repeat(bytes - 9);
        let len = u32::try_from(text.len()).unwrap().to_be_bytes();
        let message = [&[0xB3, 0x10, 0xD2][..], &len, text.as_bytes(), &[0xA0, 0xA0]].concat();
        let mut chunks = vec![0, 1, message[0]];
        for chunk in message[1..].chunks(usize::from(u16::MAX)) {
            chunks.extend_from_slice(&u16::try_from(chunk.len()).unwrap().to_be_bytes());
            chunks.extend_from_slice(chunk);
        }
        [chunks, vec![0, 0]].concat()
    }

    /// I9: whatever a message's size, its room is free when nobody holds the message any more.
    #[tokio::test]
    async fn no_message_leaves_room_behind() {
        for bytes in [
            BODY_BYTES_UNRESERVED - 1,
            BODY_BYTES_UNRESERVED,
            BODY_BYTES_UNRESERVED + 1,
            1 << 20,
            (4 << 20) + 1,
            BYTES_MAX,
        ] {
            let bodies = Arc::new(BodyBudget::new(BODY_ROOM_BYTES, BYTES_MAX));
            let sent = [&OPENING[..], &run(bytes)].concat();
            let inbox = Inbox::new(Version::NEWEST, BOUNDS);
            let mut incoming = Incoming::new(&sent[..], inbox, (Arc::clone(&bodies), BYTES_MAX));
            incoming.set_principal(Some([1; 32]));
            let mut handshake = Vec::new();
            let (received, room) = loop {
                match incoming.next() {
                    Ok(Some(next)) => break next,
                    Ok(None) => assert!(incoming.read(&mut handshake).await.is_ok()),
                    Err(fault) => panic!("{fault}"),
                }
            };
            assert_eq!(received.message.len(), bytes);
            // One that its last bytes make large takes none.
            let held = BODY_ROOM_BYTES - bodies.free_bytes();
            assert!(
                held == bytes || held == 0 && bytes < 2 * BODY_BYTES_UNRESERVED,
                "{held} for {bytes} bytes"
            );
            drop(room);
            assert_eq!(bodies.free_bytes(), BODY_ROOM_BYTES);
        }
    }
}
