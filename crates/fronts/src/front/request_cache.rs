//! A cache of requests: the shortest way from raw bytes to a query key. Each front has one.
//!
//! A client sends the same bytes many times. When target, credentials, relevant headers and body are byte for byte those
//! of an earlier request, parsing, normal form and key are not computed again. The cache compares the bytes themselves,
//! so a hash collision costs time and never gives a wrong answer (promise I5).
//!
//! A request that comes for the first time only leaves a mark in its place, and is remembered when it comes again. So requests
//! that come once take no room, and replace none that come often. Where there is no room, a hand goes around over the places and
//! removes what was not found since it last came by (the clock algorithm: Corbató, "A Paging Experiment with the Multics
//! System", 1969).
//!
//! The bytes hold credentials, so a request is removed soon after its sender is not accepted any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use hopcache_core::limits::{
    CREDENTIALS_SWEEP_MS, PARSED_REQUEST_BYTES_MAX, PARSED_REQUEST_HAND_PLACES, PARSED_REQUEST_ROOM_BYTES,
    PARSED_REQUESTS_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::Clock;

use crate::credentials::Acceptance;

/// A request as it was read.
pub struct CachedRequest<T> {
    raw: Box<[u8]>,
    bytes: usize,
    /// Whether it was found since the hand last came by.
    is_found: AtomicBool,
    /// What was read. Times in it are those of the first such request.
    pub read: T,
    /// Whether its sender is still accepted.
    pub acceptance: Arc<Acceptance>,
}

/// A bounded, direct-mapped cache: the hash of a request gives its only place, and a new request replaces the old one.
pub struct RequestCache<T> {
    places: Box<[ArcSwapOption<CachedRequest<T>>]>,
    /// For each place, other bits of the hash of the last request that was offered to it.
    offered: Box<[AtomicU32]>,
    bytes: AtomicUsize,
    /// The next place that the hand comes to.
    hand: AtomicUsize,
    seed: u64,
}

impl<T> RequestCache<T> {
    /// An empty cache. `seed` is random, so that no client can aim requests at one place.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let places = PARSED_REQUESTS_MAX.next_power_of_two();
        Self {
            places: (0..places).map(|_| ArcSwapOption::empty()).collect(),
            offered: (0..places).map(|_| AtomicU32::new(0)).collect(),
            bytes: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
            seed,
        }
    }

    /// The request with exactly these bytes, if it is cached.
    #[must_use]
    pub fn find(&self, raw: &[u8]) -> Option<Arc<CachedRequest<T>>> {
        let found = self.places[self.place(raw).0].load();
        let remembered = found.as_ref()?;
        if *remembered.raw != *raw {
            return None;
        }
        if !remembered.is_found.load(Ordering::Relaxed) {
            remembered.is_found.store(true, Ordering::Relaxed);
        }
        Some(Arc::clone(remembered))
    }

    /// Stores a request that is offered for the second time, unless it is too long or there is no room. `read_bytes` are those
    /// of what was read.
    pub fn remember(&self, raw: &[u8], read_bytes: usize, read: impl FnOnce() -> (T, Arc<Acceptance>)) {
        let (place, mark) = self.place(raw);
        if raw.len() > PARSED_REQUEST_BYTES_MAX || self.offered[place].swap(mark, Ordering::Relaxed) != mark {
            return;
        }
        let place = &self.places[place];
        let bytes = size_of::<CachedRequest<T>>() + raw.len() + read_bytes;
        let has_room = || {
            let freed = place.load().as_ref().map_or(0, |held| held.bytes);
            // Requests that are stored at once may take a little more together.
            self.bytes.load(Ordering::Relaxed) + bytes <= PARSED_REQUEST_ROOM_BYTES + freed
        };
        // Without room after that the request comes again, and the hand goes on.
        for _ in 0..PARSED_REQUEST_HAND_PLACES {
            if has_room() {
                let (read, acceptance) = read();
                let is_found = AtomicBool::new(false);
                let request = CachedRequest { raw: raw.into(), bytes, is_found, read, acceptance };
                return self.put(place, Some(Arc::new(request)));
            }
            self.move_hand();
        }
    }

    /// Removes the request in the next place, unless it was found since the hand last came by.
    /// Forgets every request: what was read from them counts no more.
    pub fn forget(&self) {
        self.places.iter().for_each(|place| self.put(place, None));
    }

    fn move_hand(&self) {
        let place = &self.places[self.hand.fetch_add(1, Ordering::Relaxed) & (self.places.len() - 1)];
        if place.load().as_ref().is_some_and(|held| !held.is_found.swap(false, Ordering::Relaxed)) {
            self.put(place, None);
        }
    }

    /// Removes requests of senders that are not accepted now. Returns their number.
    pub fn sweep(&self, now: MonoTime) -> usize {
        // So it is at a node whose clients speak Bolt alone.
        if self.bytes.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let is_over = |place: &&ArcSwapOption<CachedRequest<T>>| {
            place.load().as_ref().is_some_and(|remembered| !remembered.acceptance.holds(now))
        };
        // A request that was stored between look and removal is read again when it next comes.
        self.places.iter().filter(is_over).map(|place| self.put(place, None)).count()
    }

    fn put(&self, place: &ArcSwapOption<CachedRequest<T>>, new: Option<Arc<CachedRequest<T>>>) {
        self.bytes.fetch_add(new.as_ref().map_or(0, |new| new.bytes), Ordering::Relaxed);
        let old = place.swap(new);
        self.bytes.fetch_sub(old.map_or(0, |old| old.bytes), Ordering::Relaxed);
    }

    /// The place of a request, and its mark there.
    fn place(&self, raw: &[u8]) -> (usize, u32) {
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(raw, self.seed);
        let mask = self.places.len() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "the low bits, and the high ones")]
        let (place, mark) = (hash as usize & mask, (hash >> 32) as u32);
        (place, mark)
    }
}

/// Sweeps until it is dropped.
pub(crate) async fn sweep_for_ever<T>(requests: Arc<RequestCache<T>>, clock: Arc<dyn Clock>) {
    loop {
        clock.sleep(Millis(CREDENTIALS_SWEEP_MS)).await;
        requests.sweep(clock.now());
    }
}

#[cfg(test)]
mod tests {
    use hopcache_core::key::{KeyHasher, PrincipalScope};
    use hopcache_core::limits::CREDENTIALS_TTL_MS;
    use hopcache_engine::identity::{Credentials, Identity};

    use super::*;
    use crate::credentials::CredentialCache;

    fn identity() -> Arc<Identity> {
        let scope = PrincipalScope::of(&KeyHasher::new(b""), "basic", "ann", None);
        Arc::new(Identity { scope, fingerprint: [1; 32], credentials: Credentials::None })
    }

    /// Credentials in clear text live as long as the acceptance in them, and no longer.
    #[test]
    fn requests_of_senders_that_are_not_accepted_any_more_are_removed() {
        let (start, requests) = (MonoTime(3_600_000_000), RequestCache::new(7));
        let identity = identity();
        let acceptance = CredentialCache::new(Millis::ZERO).accept(&identity.fingerprint, start);
        for _ in 0..2 {
            requests.remember(b"the bytes", 8, || (Arc::clone(&identity), Arc::clone(&acceptance)));
        }
        let end = start + Millis(CREDENTIALS_TTL_MS);
        assert_eq!(requests.sweep(MonoTime(end.0 - 1)), 0);
        assert!(requests.find(b"the bytes").is_some());
        assert_eq!(requests.sweep(end), 1);
        assert!(requests.find(b"the bytes").is_none());
        assert_eq!(Arc::strong_count(&identity), 1, "nothing holds the credentials");
        assert_eq!(requests.bytes.load(Ordering::Relaxed), 0);
    }

    /// Requests that come once take no room, and replace none that come often.
    #[test]
    fn a_request_is_remembered_when_it_comes_again() {
        let (requests, acceptance) = (RequestCache::new(7), accepted());
        let offer = |raw: &[u8]| requests.remember(raw, 8, || ((), Arc::clone(&acceptance)));
        offer(b"often");
        assert!(requests.find(b"often").is_none(), "it came once");
        offer(b"often");
        for n in 0..4 * PARSED_REQUESTS_MAX as u64 {
            offer(&n.to_be_bytes());
            assert!(requests.find(&n.to_be_bytes()).is_none());
        }
        assert!(requests.find(b"often").is_some());
    }

    /// I9.
    #[test]
    fn remembered_requests_keep_to_their_room() {
        let (requests, acceptance) = (RequestCache::new(7), accepted());
        let most = PARSED_REQUEST_ROOM_BYTES / 3;
        for n in 0..100_u64 {
            (0..2).for_each(|_| requests.remember(&n.to_be_bytes(), most, || ((), Arc::clone(&acceptance))));
            assert!(requests.bytes.load(Ordering::Relaxed) <= PARSED_REQUEST_ROOM_BYTES);
        }
    }

    /// Requests that nobody sends any more give their room to new ones, and one that is sent all the time keeps its place.
    #[test]
    fn a_full_room_goes_to_those_that_are_found() {
        let (requests, acceptance) = (RequestCache::new(7), accepted());
        let offer = |raw: &[u8]| {
            requests.remember(raw, PARSED_REQUEST_ROOM_BYTES / 8, || ((), Arc::clone(&acceptance)));
        };
        (0..2).for_each(|_| offer(b"often"));
        let mut remembered = 0;
        for n in 0..10_000_u64 {
            assert!(requests.find(b"often").is_some(), "round {n}");
            (0..2).for_each(|_| offer(&n.to_be_bytes()));
            remembered += u64::from(requests.find(&n.to_be_bytes()).is_some());
        }
        assert!(remembered > 10, "{remembered} new ones");
    }

    fn accepted() -> Arc<Acceptance> {
        CredentialCache::new(Millis::ZERO).accept(&identity().fingerprint, MonoTime(3_600_000_000))
    }
}
