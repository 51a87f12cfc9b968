//! Bounds the bytes of large request bodies, and of large Bolt messages, that are read and answered at a time (promise I9).
//! It reads no body itself, and sends no response when there is no room.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use hopcache_core::limits::{BODY_BYTES_UNRESERVED, BODY_ROOM_WAIT_MS, REQUEST_BODY_BYTES_MAX};
use hyper::body::Body;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::body::tied;
use crate::crowding::{CrowdedOut, Principal};

/// The budget of one listener, or of all fronts.
pub struct BodyBudget {
    bytes: Arc<Semaphore>,
    body_bytes_max: usize,
    /// Shares of principals that hold some of it, or have held.
    shares: Mutex<HashMap<Principal, Weak<Semaphore>>>,
    share_bytes: usize,
}

/// The bytes that one body takes of the budget, and of its principal's share. A small body takes none.
#[derive(Default)]
pub struct Reservation(Option<Permits>);

struct Permits {
    all: OwnedSemaphorePermit,
    share: Option<OwnedSemaphorePermit>,
}

impl BodyBudget {
    /// A budget of `bytes`. A body has at most `body_bytes_max`.
    pub fn new(bytes: usize, body_bytes_max: usize) -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(bytes)),
            body_bytes_max,
            shares: Mutex::default(),
            share_bytes: bytes / 4 * 3,
        }
    }

    /// Reserves room for a body of the length in its head. A small body needs no room, and one without a length has
    /// [`REQUEST_BODY_BYTES_MAX`] at most.
    ///
    /// # Errors
    /// [`CrowdedOut`] after a bounded wait.
    pub async fn for_body<B: Body>(
        &self,
        body: &B,
        whose: Option<&Principal>,
    ) -> Result<Reservation, CrowdedOut> {
        let claimed = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        self.for_bytes(claimed.unwrap_or(REQUEST_BODY_BYTES_MAX), whose).await
    }

    /// Reserves room for a message of at most this many bytes. A principal has three quarters of it at most.
    ///
    /// # Errors
    /// [`CrowdedOut`] after a bounded wait.
    pub async fn for_bytes(
        &self,
        bytes: usize,
        whose: Option<&Principal>,
    ) -> Result<Reservation, CrowdedOut> {
        let bytes = bytes.min(self.body_bytes_max);
        if bytes <= BODY_BYTES_UNRESERVED {
            return Ok(Reservation(None));
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let by = Instant::now() + Duration::from_millis(BODY_ROOM_WAIT_MS);
        let share = match whose {
            None => None,
            Some(whose) => {
                let asked = self.share_of(whose).acquire_many_owned(bytes);
                Some(timeout_at(by, asked).await.ok().and_then(Result::ok).ok_or(CrowdedOut::BY_OWN_HELD)?)
            }
        };
        let asked = Arc::clone(&self.bytes).acquire_many_owned(bytes);
        let all = timeout_at(by, asked).await.ok().and_then(Result::ok).ok_or(CrowdedOut::BY_ALL_HELD)?;
        Ok(Reservation(Some(Permits { all, share })))
    }

    /// The share of a principal. It lives as long as the principal holds some of it.
    fn share_of(&self, whose: &Principal) -> Arc<Semaphore> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(whose).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.share_bytes));
        shares.insert(*whose, Arc::downgrade(&share));
        share
    }

    /// Free bytes of the budget.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.bytes.available_permits()
    }
}

impl Reservation {
    /// Whether it takes anything of the budget.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// The reserved bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |permits| permits.all.num_permits())
    }

    /// This reservation and another one of the same budget and principal.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        let (mut own, other) = match (self.0, other.0) {
            (Some(own), Some(other)) => (own, other),
            (one, None) | (None, one) => return Self(one),
        };
        own.all.merge(other.all);
        match (&mut own.share, other.share) {
            (Some(share), Some(more)) => share.merge(more),
            (None, more) => own.share = more,
            (Some(_), None) => {}
        }
        Self(Some(own))
    }

    /// The reservation for bytes that several parts of a node hold.
    pub fn shared(self) -> SharedRoom {
        SharedRoom(self.0.map(Arc::new))
    }

    /// Shrinks the reservation to the `len` bytes that the body really has.
    #[must_use]
    pub fn shrunk_to(self, len: usize) -> Self {
        if len <= BODY_BYTES_UNRESERVED {
            return Self(None);
        }
        Self(self.0.map(|Permits { all, share }| Permits {
            all: shrunk(all, len),
            share: share.map(|share| shrunk(share, len)),
        }))
    }

    /// Ties the reservation to the bytes until nothing holds them. A run can outlive the request that began it, and its
    /// parameters are as large as the body.
    #[must_use]
    pub fn kept_by(self, bytes: Bytes) -> Bytes {
        match self.0 {
            None => bytes,
            Some(room) => tied(bytes, room),
        }
    }
}

fn shrunk(mut permit: OwnedSemaphorePermit, len: usize) -> OwnedSemaphorePermit {
    if len < permit.num_permits() { permit.split(len).unwrap_or(permit) } else { permit }
}

/// A reservation with several holders. The last of them gives it back.
#[derive(Clone, Default)]
pub struct SharedRoom(Option<Arc<Permits>>);

impl SharedRoom {
    /// Makes the bytes one more holder.
    #[must_use]
    pub fn kept_by(&self, bytes: Bytes) -> Bytes {
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
    use hopcache_core::limits::BODY_ROOM_BYTES;
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
        while let Ok(Reservation(Some(permit))) = room.for_body(&body(REQUEST_BODY_BYTES_MAX), None).await {
            held.push(permit);
        }
        assert_eq!(held.len(), BODY_ROOM_BYTES / REQUEST_BODY_BYTES_MAX);
        assert!(matches!(room.for_body(&body(BODY_BYTES_UNRESERVED), None).await, Ok(Reservation(None))));
        held.pop();
        assert!(matches!(room.for_body(&body(REQUEST_BODY_BYTES_MAX), None).await, Ok(Reservation(Some(_)))));
    }

    /// One principal's large bodies leave room for another's, and a share that is given back is whole again.
    #[tokio::test(start_paused = true)]
    async fn a_principal_takes_its_share_and_no_more() {
        let room = room();
        let (ann, bob) = ([1; 32], [2; 32]);
        let mut held = Vec::new();
        let why = loop {
            match room.for_bytes(REQUEST_BODY_BYTES_MAX, Some(&ann)).await {
                Ok(reserved) => held.push(reserved),
                Err(why) => break why,
            }
        };
        assert_eq!((why, held.len()), (CrowdedOut::BY_OWN_HELD, 12));
        let others = room.for_bytes(REQUEST_BODY_BYTES_MAX, Some(&bob)).await;
        assert!(others.is_ok_and(|reserved| reserved.is_some()));
        let first = held.remove(0).shrunk_to(BODY_BYTES_UNRESERVED + 1);
        let smaller = REQUEST_BODY_BYTES_MAX - BODY_BYTES_UNRESERVED - 1;
        assert!(room.for_bytes(REQUEST_BODY_BYTES_MAX, Some(&ann)).await.is_err(), "one byte too many");
        drop(room.for_bytes(smaller, Some(&ann)).await.unwrap());
        drop((first, held));
        assert_eq!(room.free_bytes(), BODY_ROOM_BYTES);
        assert!(room.for_bytes(REQUEST_BODY_BYTES_MAX, Some(&ann)).await.is_ok());
    }

    /// I9: a body without a length takes room for the largest one until it is here, and then for its own size.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_here_holds_room_for_what_it_is() {
        let room = room();
        let chunked = StreamBody::new(stream::empty::<Result<Frame<Bytes>, Infallible>>());
        let mut held = Vec::new();
        for len in [0, BODY_BYTES_UNRESERVED, BODY_BYTES_UNRESERVED + 1, REQUEST_BODY_BYTES_MAX] {
            let before = room.free_bytes();
            let reserved = room.for_body(&chunked, None).await.unwrap();
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
        let reserved = room.for_body(&body(REQUEST_BODY_BYTES_MAX), None).await.unwrap();
        let bytes = reserved.kept_by(Bytes::from_static(b"parameters"));
        let part = bytes.slice(1..3);
        drop(bytes);
        assert_eq!(BODY_ROOM_BYTES - room.free_bytes(), REQUEST_BODY_BYTES_MAX);
        drop(part);
        assert_eq!(room.free_bytes(), BODY_ROOM_BYTES);
    }

    /// A message whose length is unknown takes more room as it grows, and gives all of it back.
    #[tokio::test(start_paused = true)]
    async fn room_that_grows_is_one_reservation() {
        let (room, ann) = (room(), [1; 32]);
        let first = room.for_bytes(1 << 20, Some(&ann)).await.unwrap();
        let grown = first.joined(room.for_bytes(3 << 20, Some(&ann)).await.unwrap());
        assert_eq!((grown.bytes(), BODY_ROOM_BYTES - room.free_bytes()), (4 << 20, 4 << 20));
        let whole = grown.shrunk_to(2 << 20).joined(Reservation::default());
        assert_eq!((whole.bytes(), BODY_ROOM_BYTES - room.free_bytes()), (2 << 20, 2 << 20));
        drop(whole);
        assert_eq!(room.free_bytes(), BODY_ROOM_BYTES);
    }
}
