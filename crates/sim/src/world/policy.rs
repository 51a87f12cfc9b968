//! The policy of a simulated world that no test has changed.

use hopcache_core::admission::Room;
use hopcache_core::limits::NEAR_RATE_PER_S_MIN;
use hopcache_core::refresh::{Mode, Rule};
use hopcache_core::time::Millis;
use hopcache_cypher::verdict::Allowed;
use hopcache_engine::policy::{ClassifiesBy, PrefetchPolicy};
use hopcache_engine::{Policy, RefreshPolicy};

/// TTL 60 s, grace 0.5, no jitter. Everything is stored. Writes end no entries: tests about them say so, and follow the store.
#[must_use]
pub fn default_policy() -> Policy {
    Policy {
        ttl_ms: Millis(60_000),
        grace: 0.5,
        ttl_jitter: 0.0,
        stale_target: 0.0,
        entry_bytes_max: 1 << 20,
        only_if_it_pays: true,
        store_room: Room::UNBOUNDED,
        origin: "bolt://neo4j:7687".to_owned(),
        run_timeout_ms: Millis(30_000),
        probe_timeout_ms: Millis(200),
        allowed: Allowed::default(),
        stale_if_error_ms: Millis::ZERO,
        freshness_lease_ms: None,
        proofs: None,
        has_triggers: false,
        classifies_by: ClassifiesBy::Server,
        compares_values: true,
        refresh: RefreshPolicy {
            is_early: false,
            rule: Rule { mode: Mode::Adaptive, beta: 1.0 },
            ttl_ms_min: Millis(60_000),
            workers: 4,
            queue_max: 100,
            timeout_ms: Millis(30_000),
            retries_max: 3,
            retry_factor: 2.0,
        },
        near_rate_per_s_min: NEAR_RATE_PER_S_MIN,
        prefetch: PrefetchPolicy::OFF,
    }
}
