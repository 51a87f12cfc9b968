//! A cache of requests: the shortest way from raw bytes to a query key. Each front has one.
//!
//! A client sends the same bytes many times. When target, credentials, relevant headers and body are byte for byte those
//! of an earlier request, parsing, normal form and key are not computed again. The cache compares the bytes themselves,
//! so a hash collision costs time and never gives a wrong answer (promise I5).
//!
//! The bytes hold credentials, so a request is removed soon after its sender is not accepted any more.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hopcache_core::limits::{CREDENTIALS_SWEEP_MS, PARSED_REQUEST_BYTES_MAX, PARSED_REQUESTS_MAX};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::Clock;

use crate::credentials::Acceptance;

/// A request as it was read.
pub struct CachedRequest<T> {
    raw: Box<[u8]>,
    /// What was read. Times in it are those of the first such request.
    pub read: T,
    /// Whether its sender is still accepted.
    pub acceptance: Arc<Acceptance>,
}

/// A bounded, direct-mapped cache: the hash of a request gives its only place, and a new request replaces the old one.
pub struct RequestCache<T> {
    places: Box<[ArcSwapOption<CachedRequest<T>>]>,
    seed: u64,
}

impl<T> RequestCache<T> {
    /// An empty cache. `seed` is random, so that no client can aim requests at one place.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let places = PARSED_REQUESTS_MAX.next_power_of_two();
        Self { places: (0..places).map(|_| ArcSwapOption::empty()).collect(), seed }
    }

    /// The request with exactly these bytes, if it is cached.
    #[must_use]
    pub fn find(&self, raw: &[u8]) -> Option<Arc<CachedRequest<T>>> {
        let found = self.place(raw).load();
        let remembered = found.as_ref()?;
        (*remembered.raw == *raw).then(|| Arc::clone(remembered))
    }

    /// Stores a request, unless it is too long.
    pub fn remember(&self, raw: &[u8], read: T, acceptance: Arc<Acceptance>) {
        if raw.len() <= PARSED_REQUEST_BYTES_MAX {
            self.place(raw).store(Some(Arc::new(CachedRequest { raw: raw.into(), read, acceptance })));
        }
    }

    /// Removes requests of senders that are not accepted now. Returns their number.
    pub fn sweep(&self, now: MonoTime) -> usize {
        let is_over = |place: &&ArcSwapOption<CachedRequest<T>>| {
            place.load().as_ref().is_some_and(|remembered| !remembered.acceptance.holds(now))
        };
        // A request that was stored between look and removal is read again when it next comes.
        self.places.iter().filter(is_over).map(|place| place.store(None)).count()
    }

    fn place(&self, raw: &[u8]) -> &ArcSwapOption<CachedRequest<T>> {
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(raw, self.seed);
        let mask = self.places.len() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "only the low bits are wanted")]
        let place = hash as usize & mask;
        &self.places[place]
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
    use bytes::Bytes;
    use hopcache_core::bookmark::Bookmark;
    use hopcache_core::key::{KeyHasher, PrincipalScope};
    use hopcache_core::limits::CREDENTIALS_TTL_MS;
    use hopcache_engine::ask::{Ask, Freshness, Hints, Query, QueryParts};
    use hopcache_engine::identity::{Credentials, Identity};
    use hopcache_engine::ports::AccessMode;
    use hopcache_engine::rendering::RenderingId;

    use super::*;
    use crate::credentials::CredentialCache;

    fn ask(identity: Arc<Identity>) -> Ask {
        let parts = QueryParts {
            database: "neo4j".into(),
            statement: "RETURN 1".into(),
            params: Bytes::from_static(&[0xA0]),
            impersonated: None,
            identity,
        };
        Ask {
            query: Arc::new(Query::read(parts, &KeyHasher::new(b""), &[])),
            rendering: RenderingId(0),
            freshness: Freshness::default(),
            hints: Hints::default(),
            mode: AccessMode::Write,
            bypass: None,
            bookmarks: Bookmark::NONE,
            written: None,
            deadline: MonoTime(0),
            traceparent: None,
            run_ms_max: None,
            is_forwarded: false,
            live: None,
            client: None,
            session: None,
        }
    }

    /// Credentials in clear text live as long as the acceptance in them, and no longer.
    #[test]
    fn requests_of_senders_that_are_not_accepted_any_more_are_removed() {
        let (start, requests) = (MonoTime(3_600_000_000), RequestCache::new(7));
        let scope = PrincipalScope::of(&KeyHasher::new(b""), "basic", "ann", None);
        let identity = Arc::new(Identity { scope, fingerprint: [1; 32], credentials: Credentials::None });
        let acceptance = CredentialCache::new(Millis::ZERO).accept(&identity.fingerprint, start);
        requests.remember(b"the bytes", ask(Arc::clone(&identity)), acceptance);
        let end = start + Millis(CREDENTIALS_TTL_MS);
        assert_eq!(requests.sweep(MonoTime(end.0 - 1)), 0);
        assert!(requests.find(b"the bytes").is_some());
        assert_eq!(requests.sweep(end), 1);
        assert!(requests.find(b"the bytes").is_none());
        assert_eq!(Arc::strong_count(&identity), 1, "nothing holds the credentials");
    }
}
