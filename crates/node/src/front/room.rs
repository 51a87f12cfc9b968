//! Room for request bodies: how many bytes of large ones are read and answered at a time (promise I9).
//! Reads nothing itself.

use std::time::Duration;

use hopcache_core::limits::{
    BODY_BYTES_UNRESERVED, BODY_ROOM_BYTES, BODY_ROOM_WAIT_MS, REQUEST_BODY_BYTES_MAX,
};
use http::StatusCode;
use hyper::body::Body;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::front::answer::Refusal;

/// The room.
pub(super) struct BodyRoom {
    bytes: Semaphore,
}

impl BodyRoom {
    pub(super) fn new() -> Self {
        Self { bytes: Semaphore::new(BODY_ROOM_BYTES) }
    }

    /// Room for a body of the length that its head claims, or of the largest where it claims none; to be held
    /// until the request is answered, since what is asked is as large as the body. Small ones need none.
    ///
    /// # Errors
    /// [`Refusal`] when none comes free in a moment.
    pub(super) async fn for_body<B: Body>(&self, body: &B) -> Result<Option<SemaphorePermit<'_>>, Refusal> {
        let claimed = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = claimed.unwrap_or(REQUEST_BODY_BYTES_MAX).min(REQUEST_BODY_BYTES_MAX);
        if bytes <= BODY_BYTES_UNRESERVED {
            return Ok(None);
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let wait = Duration::from_millis(BODY_ROOM_WAIT_MS);
        match tokio::time::timeout(wait, self.bytes.acquire_many(bytes)).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            _ => Err(Refusal::own(
                StatusCode::SERVICE_UNAVAILABLE,
                "Hopcache.TransientError.Overloaded",
                "Too many large requests at a time. Try again soon.".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;

    use super::*;

    fn body(len: usize) -> Full<Bytes> {
        Full::from(vec![0; len])
    }

    /// I9: a thousand senders of 4 MiB hold 64 MiB, and those of small bodies are not in their way.
    #[tokio::test(start_paused = true)]
    async fn large_bodies_share_the_room_and_small_ones_need_none() {
        let room = BodyRoom::new();
        let mut held = Vec::new();
        while let Ok(Some(permit)) = room.for_body(&body(REQUEST_BODY_BYTES_MAX)).await {
            held.push(permit);
        }
        assert_eq!(held.len(), BODY_ROOM_BYTES / REQUEST_BODY_BYTES_MAX);
        assert!(matches!(room.for_body(&body(BODY_BYTES_UNRESERVED)).await, Ok(None)));
        held.pop();
        assert!(matches!(room.for_body(&body(REQUEST_BODY_BYTES_MAX)).await, Ok(Some(_))));
    }
}
