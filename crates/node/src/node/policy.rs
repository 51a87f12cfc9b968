//! Translates the settings into the engine's policy. It checks nothing, because the settings are checked already.

use hopcache_core::limits;
use hopcache_core::refresh::{Mode, Rule};
use hopcache_core::time::Millis;
use hopcache_engine::prefetch::{Kinds, PrefetchPolicy};
use hopcache_engine::{Policy, RefreshPolicy};

use crate::config::{PrefetchKind, PrefetchSection, RefreshMode, RefreshSection, Settings};

/// The policy that the operator configured.
pub(super) fn policy(settings: &Settings) -> Policy {
    Policy {
        ttl_ms: settings.entry.ttl,
        grace: settings.entry.grace,
        ttl_jitter: settings.entry.ttl_jitter,
        entry_bytes_max: usize::try_from(settings.entry.max_bytes).unwrap_or(usize::MAX),
        run_timeout_ms: settings.origin.timeout_ms,
        probe_timeout_ms: Millis(limits::PROBE_TIMEOUT_MS),
        procedures: settings.origin.read_procedures.clone(),
        stale_if_error_ms: settings.entry.stale_if_error,
        collapses: settings.entry.collapse,
        refresh: refresh_policy(&settings.refresh),
        prefetch: prefetch_policy(&settings.prefetch),
        // With sharing off the node is a plain cache, which benchmarks compare with.
        near_rate_per_s_min: if settings.entry.collapse {
            limits::NEAR_RATE_PER_S_MIN
        } else {
            f64::INFINITY
        },
    }
}

/// The policy of refreshes. `refresh.min_ttl` stays as configured, because the engine takes the jitter into account.
fn refresh_policy(refresh: &RefreshSection) -> RefreshPolicy {
    RefreshPolicy {
        is_early: refresh.enabled,
        rule: Rule {
            mode: match refresh.mode {
                RefreshMode::Plain => Mode::Plain,
                RefreshMode::TopologySensitive => Mode::TopologySensitive,
                RefreshMode::Adaptive => Mode::Adaptive,
            },
            beta: refresh.beta,
        },
        ttl_ms_min: refresh.min_ttl,
        workers: refresh.workers,
        queue_max: refresh.queue_size,
        timeout_ms: refresh.timeout,
        retries_max: if refresh.retry_enabled { refresh.retry_max } else { 0 },
        retry_factor: refresh.retry_backoff,
    }
}

fn prefetch_policy(prefetch: &PrefetchSection) -> PrefetchPolicy {
    let has = |kind| prefetch.kinds.contains(&kind);
    PrefetchPolicy {
        is_on: prefetch.enabled,
        queries_max: prefetch.max_queries,
        depth: prefetch.depth,
        patterns_max: prefetch.max_patterns,
        is_gossiped: prefetch.gossip,
        kinds: Kinds {
            exact: has(PrefetchKind::Exact),
            template: has(PrefetchKind::Template),
            neighbour: has(PrefetchKind::Neighbour),
            overlap: has(PrefetchKind::Overlap),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    /// Each word of `prefetch.kinds` is a kind of its own, and the other keys come to the engine as configured.
    #[test]
    fn prefetch_comes_to_the_engine_as_configured() {
        let of = |sets: &[&str]| {
            let sets = sets.iter().map(ToString::to_string).collect();
            let loaded = load(&Sources { file: None, environment: Vec::new(), sets });
            loaded.map(|loaded| policy(&loaded.settings).prefetch).map_err(|errors| errors.to_string())
        };
        assert_eq!(of(&[]).unwrap(), PrefetchPolicy::DEFAULT);
        let none = Kinds { exact: false, template: false, neighbour: false, overlap: false };
        for (text, kinds) in [
            ("exact", Kinds { exact: true, ..none }),
            ("template,neighbour", Kinds { template: true, neighbour: true, ..none }),
            ("overlap", Kinds { overlap: true, ..none }),
            ("", none),
        ] {
            assert_eq!(of(&[&format!("prefetch.kinds={text}")]).unwrap().kinds, kinds, "{text:?}");
        }
        let refused = of(&["prefetch.kinds=guesses"]).unwrap_err();
        assert!(refused.contains("a list of exact, template, neighbour and overlap"), "{refused}");
        let refused = of(&["prefetch.kinds=exact,exact"]).unwrap_err();
        assert!(refused.contains("prefetch.kinds") && refused.contains("twice"), "{refused}");
        let too_many = of(&["prefetch.max_patterns=100001"]).unwrap_err();
        assert!(too_many.contains("from 1 to 100000"), "{too_many}");
        assert_eq!(
            of(&["prefetch.max_patterns=100000"]).unwrap().patterns_max as usize,
            limits::PATTERNS_MAX
        );
        let told = of(&["prefetch.enabled=false", "prefetch.gossip=false", "prefetch.depth=3"]).unwrap();
        assert_eq!((told.is_on, told.is_gossiped, told.depth), (false, false, 3));
    }
}
