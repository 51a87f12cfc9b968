//! What runs of a pattern have cost, for the length of leases.
//!
//! DESIGN "Lease protocol": a lease lives three times the pattern's observed P99, within limits, and
//! is renewed while its holder works. So it costs a silent death little, and a slow run nothing.

use std::num::NonZeroUsize;

use hopcache_core::cypher::pattern::PatternId;
use hopcache_core::limits::{LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN, PATTERNS_COSTED_MAX};
use hopcache_core::time::Millis;
use lru::LruCache;

use crate::ask::Query;

/// Tail of the run time by pattern; the least recently used pattern is forgotten first.
pub(crate) struct Costs {
    tails: LruCache<PatternId, u64>,
}

impl Costs {
    pub(crate) fn new() -> Self {
        let capacity = NonZeroUsize::new(PATTERNS_COSTED_MAX).unwrap_or(NonZeroUsize::MIN);
        Self { tails: LruCache::new(capacity) }
    }

    pub(crate) fn len(&self) -> usize {
        self.tails.len()
    }

    /// A peak that decays by 2 % with each run stays near the P99 of a steady distribution, and
    /// forgets an outlier after some hundred runs.
    pub(crate) fn observe(&mut self, query: &Query, took_ms: Millis) {
        let decayed = self.tails.get(&query.pattern).map_or(0, |tail| tail - tail / 50);
        self.tails.put(query.pattern, decayed.max(took_ms.0));
    }

    pub(crate) fn lease_ms(&mut self, query: &Query) -> Millis {
        let tail = self.tails.get(&query.pattern);
        Millis(tail.map_or(LEASE_MS_DEFAULT, |tail| tail.saturating_mul(3)).clamp(LEASE_MS_MIN, LEASE_MS_MAX))
    }
}
