//! Translates the settings into the engine's policy. It checks nothing, because the settings are checked already.

use hopcache_config::{
    CdcUse, Classify, FreshnessMode, Precision, PrefetchKind, PrefetchSection, RefreshMode, RefreshSection,
    Settings,
};
use hopcache_core::admission::Room;
use hopcache_core::limits;
use hopcache_core::refresh::{Mode, Rule};
use hopcache_core::time::Millis;
use hopcache_cypher::verdict::Allowed;
use hopcache_engine::policy::{ClassifiesBy, Kinds, PrefetchPolicy};
use hopcache_engine::{Policy, ProofSettings, RefreshPolicy};

/// The policy that the operator configured.
pub(super) fn policy(settings: &Settings) -> Policy {
    Policy {
        ttl_ms: settings.entry.ttl,
        grace: settings.entry.grace,
        ttl_jitter: settings.entry.ttl_jitter,
        stale_target: settings.entry.stale_target,
        entry_bytes_max: usize::try_from(settings.entry.max_bytes).unwrap_or(usize::MAX),
        only_if_it_pays: settings.entry.only_if_it_pays,
        store_room: store_room(settings),
        // Case does not matter in a host's name.
        origin: settings.origin.uri.to_string().to_ascii_lowercase(),
        run_timeout_ms: settings.origin.timeout_ms,
        probe_timeout_ms: Millis(limits::PROBE_TIMEOUT_MS),
        allowed: Allowed::new(&settings.origin.read_functions, &settings.origin.read_procedures),
        classifies_by: match settings.origin.classify {
            Classify::Server => ClassifiesBy::Server,
            Classify::Words => ClassifiesBy::Words,
        },
        stale_if_error_ms: settings.entry.stale_if_error,
        freshness_lease_ms: match settings.freshness.mode {
            FreshnessMode::Proved => Some(settings.freshness.lease),
            FreshnessMode::Ttl => None,
        },
        proofs: Some(ProofSettings {
            watch_ms: match settings.freshness.watch_interval {
                Millis::ZERO => Millis::ZERO,
                often => often.max(Millis(limits::WATCH_MS_MIN)),
            },
            life_ms_max: settings.freshness.max_life,
            is_captured: settings.freshness.cdc == CdcUse::Auto,
            is_marked: settings.are_writes_marked(),
        })
        .filter(|proofs| proofs.life_ms_max > Millis::ZERO),
        has_triggers: settings.freshness.triggers,
        compares_values: settings.freshness.precision == Precision::Anchors,
        refresh: refresh_policy(&settings.refresh),
        prefetch: prefetch_policy(&settings.prefetch),
        near_rate_per_s_min: limits::NEAR_RATE_PER_S_MIN,
    }
}

/// The room for keys that were run once comes back as their entries end: after the life of an entry in the store.
fn store_room(settings: &Settings) -> Room {
    let entry = &settings.entry;
    let physical = entry.ttl.duration().mul_f64(1.0 + entry.grace);
    let life_ms =
        u64::try_from(physical.as_millis()).unwrap_or(u64::MAX).saturating_add(entry.stale_if_error.0);
    Room { bytes: settings.run_once_bytes, life_ms: Millis(life_ms.clamp(1, limits::ENTRY_LIFE_MS_MAX)) }
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
        yields_cores: prefetch.yield_cores,
        neighbour_steps_max: u8::try_from(prefetch.depth).unwrap_or(u8::MAX),
        patterns_max: prefetch.max_patterns,
        is_gossiped: prefetch.gossip,
        kinds: Kinds {
            exact: has(PrefetchKind::Exact),
            template: has(PrefetchKind::Template),
            overlap: has(PrefetchKind::Overlap),
        },
    }
}

#[cfg(test)]
mod tests {
    use hopcache_engine::event::Event;
    use hopcache_engine::ports::Observer as _;

    use super::*;
    use hopcache_config::{Sources, load, schema};
    use hopcache_ops::meters::{Exposition, Meters, Readings};

    fn settings_with(set: &str) -> Settings {
        let sources = Sources { file: None, environment: Vec::new(), sets: vec![set.to_owned()] };
        load(&sources).unwrap_or_else(|errors| panic!("{set}: {errors}")).settings
    }

    /// Each key of `[refresh]`, a value that is not its default, and the policy with that value. A key without a row
    /// fails.
    #[test]
    fn every_key_of_refresh_changes_what_is_in_force() {
        type Change = fn(&mut RefreshPolicy);
        let rows: [(&str, &str, Change); 10] = [
            ("enabled", "false", |policy| policy.is_early = false),
            ("mode", "plain", |policy| policy.rule.mode = Mode::Plain),
            ("beta", "1.5", |policy| policy.rule.beta = 1.5),
            ("min_ttl", "7s", |policy| policy.ttl_ms_min = Millis(7_000)),
            ("workers", "9", |policy| policy.workers = 9),
            ("queue_size", "77", |policy| policy.queue_max = 77),
            ("timeout", "3s", |policy| policy.timeout_ms = Millis(3_000)),
            ("retry_enabled", "false", |policy| policy.retries_max = 0),
            ("retry_max", "5", |policy| policy.retries_max = 5),
            ("retry_backoff", "3.5", |policy| policy.retry_factor = 3.5),
        ];
        let in_force = |set: &str| policy(&settings_with(set)).refresh;
        let usual = in_force("refresh.enabled=true");
        for (key, value, change) in rows {
            let mut expected = usual;
            change(&mut expected);
            assert_ne!(expected, usual, "refresh.{key}: {value} is its default");
            assert_eq!(in_force(&format!("refresh.{key}={value}")), expected, "refresh.{key}");
        }
        assert_eq!(in_force("refresh.mode=topology_sensitive").rule.mode, Mode::TopologySensitive);
        // The one key that the engine does not know: it decides what the metrics count.
        let stampedes = |set: &str| {
            let meters = Meters::with(&settings_with(set).refresh);
            meters.note(Event::Landed { followers: 5 });
            let text = meters.render(Readings::default(), Exposition::Prometheus, "");
            text.lines().any(|line| line == "stampede_events_total 1")
        };
        assert!(stampedes("refresh.stampede_followers=5") && !stampedes("refresh.stampede_followers=6"));
        let schema = schema();
        let keys = schema["properties"]["refresh"]["properties"].as_object().unwrap();
        let is_here = |key: &str| rows.iter().any(|(row, ..)| *row == key) || key == "stampede_followers";
        let missing: Vec<&String> = keys.keys().filter(|key| !is_here(key)).collect();
        assert!(missing.is_empty() && keys.len() == rows.len() + 1, "no row: {missing:?}");
    }

    /// Each value of `prefetch.kinds` is a kind of its own, and the engine gets the other keys as configured.
    #[test]
    fn prefetch_comes_to_the_engine_as_configured() {
        let of = |sets: &[&str]| {
            let sets = sets.iter().map(ToString::to_string).collect();
            let loaded = load(&Sources { file: None, environment: Vec::new(), sets });
            loaded.map(|loaded| policy(&loaded.settings).prefetch).map_err(|errors| errors.to_string())
        };
        assert_eq!(of(&[]).unwrap(), PrefetchPolicy::DEFAULT);
        let none = Kinds { exact: false, template: false, overlap: false };
        for (text, kinds) in [
            ("exact", Kinds { exact: true, ..none }),
            ("template,overlap", Kinds { template: true, overlap: true, ..none }),
            ("overlap", Kinds { overlap: true, ..none }),
            ("", none),
        ] {
            assert_eq!(of(&[&format!("prefetch.kinds={text}")]).unwrap().kinds, kinds, "{text:?}");
        }
        assert_eq!(of(&["prefetch.depth=0"]).unwrap().neighbour_steps_max, 0);
        let refused = of(&["prefetch.kinds=guesses"]).unwrap_err();
        assert!(refused.contains("a list of exact, template and overlap"), "{refused}");
        let refused = of(&["prefetch.kinds=exact,exact"]).unwrap_err();
        assert!(refused.contains("prefetch.kinds") && refused.contains("twice"), "{refused}");
        let too_many = of(&["prefetch.max_patterns=100001"]).unwrap_err();
        assert!(too_many.contains("from 1 to 100000"), "{too_many}");
        assert_eq!(
            of(&["prefetch.max_patterns=100000"]).unwrap().patterns_max as usize,
            limits::PATTERNS_MAX
        );
        let settings = of(&["prefetch.enabled=false", "prefetch.gossip=false"]).unwrap();
        assert_eq!((settings.is_on, settings.is_gossiped), (false, false));
    }
}
