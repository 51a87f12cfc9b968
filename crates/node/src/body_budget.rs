//! Bounds the bytes of large request bodies, and of large Bolt messages, that are read and answered at a time (promise I9).
//! It reads no body itself, and sends no response when there is no room.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hopcache_core::limits::{BODY_BYTES_UNRESERVED, BODY_ROOM_WAIT_MS};
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::body::tied;

/// The budget of one listener, or of all fronts.
pub(crate) struct BodyBudget {
    bytes: Arc<Semaphore>,
    body_bytes_max: usize,
}

/// The bytes that one body takes of the budget. A small body takes none.
#[derive(Default)]
pub(crate) struct Reserved(Option<OwnedSemaphorePermit>);

/// No room came free in time.
#[derive(Debug)]
pub(crate) struct BudgetExhausted;

impl BodyBudget {
    /// A budget of `bytes`. A body has at most `body_bytes_max`.
    pub(crate) fn new(bytes: usize, body_bytes_max: usize) -> Self {
        Self { bytes: Arc::new(Semaphore::new(bytes)), body_bytes_max }
    }

    /// Reserves room for a body of the length in its head, or of the largest length when the head has none. A small body
    /// needs no room.
    ///
    /// # Errors
    /// [`BudgetExhausted`] after a bounded wait.
    pub(crate) async fn for_body<B: Body>(&self, body: &B) -> Result<Reserved, BudgetExhausted> {
        let claimed = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        self.for_bytes(claimed.unwrap_or(self.body_bytes_max)).await
    }

    /// Reserves room for a message of at most this many bytes.
    ///
    /// # Errors
    /// [`BudgetExhausted`] after a bounded wait.
    pub(crate) async fn for_bytes(&self, bytes: usize) -> Result<Reserved, BudgetExhausted> {
        let bytes = bytes.min(self.body_bytes_max);
        if bytes <= BODY_BYTES_UNRESERVED {
            return Ok(Reserved(None));
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let wait = Duration::from_millis(BODY_ROOM_WAIT_MS);
        let asked = Arc::clone(&self.bytes).acquire_many_owned(bytes);
        match tokio::time::timeout(wait, asked).await {
            Ok(Ok(permit)) => Ok(Reserved(Some(permit))),
            _ => Err(BudgetExhausted),
        }
    }

    /// Free bytes of the budget.
    #[cfg(test)]
    pub(crate) fn free_bytes(&self) -> usize {
        self.bytes.available_permits()
    }
}

impl Reserved {
    /// Whether it takes anything of the budget.
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// The reservation for bytes that several parts of a node hold.
    pub(crate) fn shared(self) -> SharedRoom {
        SharedRoom(self.0.map(Arc::new))
    }

    /// Shrinks the reservation to the `len` bytes that the body really has.
    #[must_use]
    pub(crate) fn shrunk_to(self, len: usize) -> Self {
        if len <= BODY_BYTES_UNRESERVED {
            return Self(None);
        }
        Self(
            self.0
                .and_then(|mut whole| if len < whole.num_permits() { whole.split(len) } else { Some(whole) }),
        )
    }

    /// Ties the reservation to the bytes until nothing holds them. A run can outlive the request that began it, and its
    /// parameters are as large as the body.
    #[must_use]
    pub(crate) fn kept_by(self, bytes: Bytes) -> Bytes {
        match self.0 {
            None => bytes,
            Some(room) => tied(bytes, room),
        }
    }
}

/// A reservation with several holders. The last of them gives it back.
#[derive(Clone, Default)]
pub(crate) struct SharedRoom(Option<Arc<OwnedSemaphorePermit>>);

impl SharedRoom {
    /// Makes the bytes one more holder.
    #[must_use]
    pub(crate) fn kept_by(&self, bytes: Bytes) -> Bytes {
        match &self.0 {
            None => bytes,
            Some(room) => tied(bytes, Arc::clone(room)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use hopcache_core::limits::{BODY_ROOM_BYTES, REQUEST_BODY_BYTES_MAX};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    fn body(len: usize) -> Full<Bytes> {
        Full::from(vec![0; len])
    }

    fn room() -> BodyBudget {
        BodyBudget::new(BODY_ROOM_BYTES, REQUEST_BODY_BYTES_MAX)
    }

    /// I9: a thousand senders of 4 MiB hold 64 MiB, and do not block senders of small bodies.
    #[tokio::test(start_paused = true)]
    async fn large_bodies_share_the_room_and_small_ones_need_none() {
        let room = room();
        let mut held = Vec::new();
        while let Ok(Reserved(Some(permit))) = room.for_body(&body(REQUEST_BODY_BYTES_MAX)).await {
            held.push(permit);
        }
        assert_eq!(held.len(), BODY_ROOM_BYTES / REQUEST_BODY_BYTES_MAX);
        assert!(matches!(room.for_body(&body(BODY_BYTES_UNRESERVED)).await, Ok(Reserved(None))));
        held.pop();
        assert!(matches!(room.for_body(&body(REQUEST_BODY_BYTES_MAX)).await, Ok(Reserved(Some(_)))));
    }

    /// I9: a body without a length takes room for the largest one until it is here, and then for its own size.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_here_holds_room_for_what_it_is() {
        let room = room();
        let chunked = StreamBody::new(stream::empty::<Result<Frame<Bytes>, Infallible>>());
        let mut held = Vec::new();
        for len in [0, BODY_BYTES_UNRESERVED, BODY_BYTES_UNRESERVED + 1, REQUEST_BODY_BYTES_MAX] {
            let before = room.free_bytes();
            let reserved = room.for_body(&chunked).await.unwrap();
            assert_eq!(before - room.free_bytes(), REQUEST_BODY_BYTES_MAX);
            held.push(reserved.shrunk_to(len));
            let kept = if len <= BODY_BYTES_UNRESERVED { 0 } else { len };
            assert_eq!(before - room.free_bytes(), kept, "a body of {len} bytes");
        }
    }

    /// I9: room is held as long as the bytes, or a part of them, are held.
    #[tokio::test(start_paused = true)]
    async fn room_is_held_for_as_long_as_the_bytes_are() {
        let room = room();
        let reserved = room.for_body(&body(REQUEST_BODY_BYTES_MAX)).await.unwrap();
        let bytes = reserved.kept_by(Bytes::from_static(b"parameters"));
        let part = bytes.slice(1..3);
        drop(bytes);
        assert_eq!(BODY_ROOM_BYTES - room.free_bytes(), REQUEST_BODY_BYTES_MAX);
        drop(part);
        assert_eq!(room.free_bytes(), BODY_ROOM_BYTES);
    }
}
