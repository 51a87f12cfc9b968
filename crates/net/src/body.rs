//! Reads bodies of requests and responses, and is cheap for small bodies that have arrived already. The caller limits the
//! size of the body and decides what a broken body means.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hopcache_core::limits::COPY_INLINE_BYTES_MAX;
use http_body_util::BodyExt;
use hyper::body::Body;

/// Bytes that keep something else alive as long as they are held, for example a permit of a budget.
pub fn tied<T: Send + 'static>(bytes: impl AsRef<[u8]> + Send + 'static, held: T) -> Bytes {
    Bytes::from_owner(Tied { bytes, _held: held })
}

struct Tied<B, T> {
    bytes: B,
    _held: T,
}

impl<B: AsRef<[u8]>, T> AsRef<[u8]> for Tied<B, T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// The whole body. A body that came in one piece, as small ones do, is not copied. The room for a longer one is taken at
/// once where its length is known: a buffer that grows copies megabytes at a time, and hits of this worker wait. The
/// system gives memory as bytes arrive, so a length that is only claimed costs none.
///
/// # Errors
/// The error of the body.
pub async fn whole<B>(body: B) -> Result<Bytes, B::Error>
where
    B: Body<Data = Bytes>,
{
    let mut body = pin!(body);
    let Some(first) = body.frame().await else { return Ok(Bytes::new()) };
    let first = first?.into_data().unwrap_or_default();
    if body.is_end_stream() {
        return Ok(first);
    }
    let len = body.size_hint().exact().and_then(|rest| usize::try_from(rest).ok()?.checked_add(first.len()));
    let mut pieces = BytesMut::with_capacity(len.unwrap_or_default());
    pieces.extend_from_slice(&first);
    let mut since_pause_bytes = 0;
    while let Some(frame) = body.frame().await {
        // Trailers are ignored.
        let Ok(piece) = frame?.into_data() else { continue };
        pieces.extend_from_slice(&piece);
        since_pause_bytes += piece.len();
        if since_pause_bytes >= COPY_INLINE_BYTES_MAX {
            since_pause_bytes = 0;
            // A sender on another core may be as fast as this copy, and then no read ever waits.
            tokio::task::yield_now().await;
        }
    }
    Ok(pieces.freeze())
}

/// The result of `work`, or `None` after `limit`.
///
/// The timer is armed at the second poll. hyper hands a body over only after it was polled once, so every body waits
/// once, even when its bytes have arrived. A timer for that would cost more than reading the body. The task wakes itself
/// after the first poll, so that the second poll always comes.
pub async fn within<W: Future>(limit: Duration, work: W) -> Option<W::Output> {
    let mut work = pin!(work);
    let mut looked = false;
    let soon = poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if looked => Poll::Ready(None),
        Poll::Pending => {
            looked = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    });
    match soon.await {
        Some(done) => Some(done),
        None => tokio::time::timeout(limit, work).await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use futures_util::stream;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    #[tokio::test]
    async fn pieces_are_put_together_and_one_piece_is_itself() {
        let one = Bytes::from_static(b"one");
        assert_eq!(whole(Full::new(one.clone())).await.unwrap().as_ptr(), one.as_ptr());
        assert_eq!(whole(Full::<Bytes>::default()).await.unwrap(), "");
        let pieces: VecDeque<Result<_, Infallible>> =
            ["a", "", "bc"].map(|piece| Ok(Frame::data(Bytes::from(piece)))).into();
        assert_eq!(whole(StreamBody::new(stream::iter(pieces))).await.unwrap(), "abc");
    }

    /// F31: a body that never arrives is given up, though nothing ever wakes the task.
    #[tokio::test]
    async fn what_never_comes_is_given_up() {
        let (asked, limit) = (std::time::Instant::now(), Duration::from_millis(20));
        assert_eq!(within(limit, std::future::pending::<()>()).await, None);
        assert!(asked.elapsed() >= limit);
    }

    #[tokio::test]
    async fn what_comes_after_one_wait_or_many_is_given() {
        assert_eq!(within(Duration::from_secs(3), tokio::task::yield_now()).await, Some(()));
        let slow = async {
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
        };
        assert_eq!(within(Duration::from_secs(3), slow).await, Some(()));
    }
}
