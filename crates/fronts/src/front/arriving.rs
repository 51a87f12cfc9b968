//! Reads the body of a request, with room for what has come of it, and a time for each part (promises I9 and F31).
//!
//! A body takes room for 4 MiB, and for as much more whenever it outgrows its room. So a sender holds no more than it has sent and
//! 4 MiB, and loses that if nothing comes for `BODY_TIMEOUT_MS`. This module decides nothing about a body's meaning.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hopcache_core::limits::{BODY_TIMEOUT_MS, COPY_INLINE_BYTES_MAX, REQUEST_BODY_BYTES_MAX};
use hopcache_net::body::within;
use hopcache_net::body_budget::{BodyBudget, Reservation};
use hopcache_net::crowding::Principal;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::Instant;

use super::crowded_out;
use super::refusal::Refusal;

/// The whole body, with the room that it takes. One without a length has [`REQUEST_BODY_BYTES_MAX`] bytes at most.
pub(super) async fn read_body<B>(
    body: B,
    bytes_max: usize,
    (budget, whose): (&BodyBudget, Option<&Principal>),
) -> Result<(Bytes, Reservation), Refusal>
where
    B: Body<Data = Bytes>,
{
    let announced = body.size_hint().upper().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let most = if announced.is_some() { bytes_max } else { bytes_max.min(REQUEST_BODY_BYTES_MAX) };
    let bytes_max = announced.unwrap_or(most);
    if bytes_max > most {
        return Err(too_large(most));
    }
    let mut body = pin!(body);
    let mut has = bytes_max.min(REQUEST_BODY_BYTES_MAX);
    let mut room = budget.for_bytes(has, whose).await.map_err(crowded_out)?;
    let (mut pieces, mut since_pause_bytes) = (BytesMut::new(), 0);
    let time = Duration::from_millis(BODY_TIMEOUT_MS);
    let mut deadline = Instant::now() + time;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let frame = within(left, body.frame()).await.ok_or_else(too_slow)?;
        let Some(frame) = frame else { return Ok((pieces.freeze(), room)) };
        // Trailers are ignored.
        let Ok(piece) = frame.map_err(|_| cut())?.into_data() else { continue };
        let bytes = pieces.len() + piece.len();
        if bytes > most {
            return Err(too_large(most));
        }
        while bytes > has {
            let more = REQUEST_BODY_BYTES_MAX.min(bytes_max.max(bytes) - has);
            room = room.joined(budget.for_bytes(more, whose).await.map_err(crowded_out)?);
            has += more;
            deadline = Instant::now() + time;
        }
        if pieces.is_empty() {
            if body.is_end_stream() {
                return Ok((piece, room));
            }
            // The system gives memory only for what is written to it.
            pieces.reserve(announced.unwrap_or_default());
        }
        pieces.extend_from_slice(&piece);
        since_pause_bytes += piece.len();
        if since_pause_bytes >= COPY_INLINE_BYTES_MAX {
            since_pause_bytes = 0;
            // A sender on another core may be as fast as this copy, and then no read ever waits.
            tokio::task::yield_now().await;
        }
    }
}

fn too_large(bytes_max: usize) -> Refusal {
    Refusal::own(
        StatusCode::PAYLOAD_TOO_LARGE,
        "Hopcache.ClientError.RequestTooLarge",
        format!(
            "The request body is over {bytes_max} bytes (node.message_max; 4 MiB without a Content-Length). Send large data in several requests."
        ),
    )
}

fn cut() -> Refusal {
    Refusal::own(
        StatusCode::BAD_REQUEST,
        "Hopcache.ClientError.BodyCut",
        "The request body ended before its announced length.".to_owned(),
    )
}

fn too_slow() -> Refusal {
    Refusal::own(
        StatusCode::REQUEST_TIMEOUT,
        "Hopcache.ClientError.BodyTooSlow",
        format!("4 MiB of the request body, or its rest, did not arrive within {BODY_TIMEOUT_MS} ms."),
    )
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream::{self, StreamExt};
    use hopcache_core::limits::BODY_ROOM_BYTES;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    const MIB: usize = 1 << 20;
    const BYTES_MAX: usize = 32 * MIB;

    /// A body that announces `announced` bytes, sends these, and then nothing.
    struct Stalls {
        sent: Bytes,
        announced: usize,
    }

    impl Body for Stalls {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match std::mem::take(&mut self.sent) {
                sent if sent.is_empty() => std::task::Poll::Pending,
                sent => std::task::Poll::Ready(Some(Ok(Frame::data(sent)))),
            }
        }

        fn size_hint(&self) -> hyper::body::SizeHint {
            hyper::body::SizeHint::with_exact(self.announced as u64)
        }
    }

    /// I9: who announces much and sends little holds room for little, and not for long.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_holds_room_for_what_has_come() {
        let budget = BodyBudget::new(BODY_ROOM_BYTES, BYTES_MAX);
        let body = Stalls { sent: vec![7; 5 * MIB].into(), announced: BYTES_MAX };
        let began = Instant::now();
        let (read, ()) = tokio::join!(read_body(body, BYTES_MAX, (&budget, None)), async {
            tokio::time::advance(Duration::from_millis(BODY_TIMEOUT_MS / 2)).await;
            assert_eq!(BODY_ROOM_BYTES - budget.free_bytes(), 8 * MIB);
        });
        assert!(read.is_err() && began.elapsed() < Duration::from_millis(BODY_TIMEOUT_MS + 100));
        assert_eq!(budget.free_bytes(), BODY_ROOM_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_whole_within_its_bounds() {
        let budget = BodyBudget::new(BODY_ROOM_BYTES, BYTES_MAX);
        let read = async |body: Full<Bytes>| read_body(body, BYTES_MAX, (&budget, None)).await.ok();
        for bytes in [0, 1, 4 * MIB, 4 * MIB + 1, BYTES_MAX] {
            let (whole, room) = read(vec![7; bytes].into()).await.unwrap();
            assert_eq!((whole.len(), room.bytes() + 64 * 1024 >= bytes), (bytes, true));
        }
        assert!(read(vec![7; BYTES_MAX + 1].into()).await.is_none());
        let chunked = |bytes: usize| {
            let pieces = vec![Bytes::from(vec![7; MIB]); bytes / MIB];
            StreamBody::new(stream::iter(pieces).map(|piece| Ok::<_, Infallible>(Frame::data(piece))))
        };
        let (whole, _) = read_body(chunked(4 * MIB), BYTES_MAX, (&budget, None)).await.ok().unwrap();
        assert_eq!(whole.len(), 4 * MIB);
        assert!(read_body(chunked(5 * MIB), BYTES_MAX, (&budget, None)).await.is_err());
        assert_eq!(budget.free_bytes(), BODY_ROOM_BYTES);
    }
}
