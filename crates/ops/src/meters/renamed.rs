//! One naming scheme: each metric whose name does not begin with `hopcache_` is shown under a second name that does. Old names stay,
//! because rules and dashboards use them. `process_*` is the name that all programs share.

use std::fmt::Write as _;

/// Old names and the names beside them.
pub const RENAMED: &[(&str, &str)] = &[
    ("cache_hit_total", "hopcache_hits_total"),
    ("cache_miss_total", "hopcache_misses_total"),
    ("cache_bypass_total", "hopcache_bypasses_total"),
    ("single_flight_hits_total", "hopcache_flights_joined_total"),
    ("stampede_events_total", "hopcache_stampedes_total"),
    ("xfetch_lock_contention_total", "hopcache_lease_busy_total"),
    ("xfetch_active_locks", "hopcache_leases_held"),
    ("xfetch_stale_served_total", "hopcache_stale_served_total"),
    ("xfetch_refresh_triggered_total", "hopcache_refresh_triggered_total"),
    ("xfetch_refresh_completed_total", "hopcache_refresh_completed_total"),
    ("xfetch_refresh_failed_total", "hopcache_refresh_failed_total"),
    ("xfetch_refresh_queue_size", "hopcache_refresh_queue_size"),
    ("xfetch_active_refreshes", "hopcache_refresh_active"),
    ("xfetch_refresh_duration_seconds", "hopcache_refresh_duration_seconds"),
    ("prefetch_attempts_total", "hopcache_prefetch_launched_total"),
    ("prefetch_hits_total", "hopcache_prefetch_used_total"),
    ("prefetch_late_total", "hopcache_prefetch_late_total"),
    ("prefetch_waste_total", "hopcache_prefetch_wasted_total"),
    ("prefetch_skipped_total", "hopcache_prefetch_skipped_total"),
    ("prefetch_pending", "hopcache_prefetch_pending"),
    ("cache_age_at_access_seconds", "hopcache_hit_age_seconds"),
    ("cache_ttl_remaining_seconds", "hopcache_hit_ttl_seconds"),
];

/// Adds the lines of every renamed metric under its second name.
pub(super) fn append(text: &mut String) {
    let mut beside = String::new();
    for line in text.lines() {
        let (kind, rest) = match line.strip_prefix("# HELP ").map(|rest| ("# HELP ", rest)) {
            Some(found) => found,
            None => line.strip_prefix("# TYPE ").map_or(("", line), |rest| ("# TYPE ", rest)),
        };
        let name = rest.split(['{', ' ']).next().unwrap_or_default();
        let Some((old, new)) = RENAMED.iter().find(|(old, _)| is_of(name, old)) else { continue };
        // A write into a text does not fail.
        let _ = writeln!(beside, "{kind}{new}{}", &rest[old.len()..]);
    }
    text.push_str(&beside);
}

/// Whether a line's name is the metric's, or one of its histogram's series.
fn is_of(name: &str, metric: &str) -> bool {
    let series = name.strip_prefix(metric);
    series.is_some_and(|series| matches!(series, "" | "_bucket" | "_sum" | "_count"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_metric_has_all_its_lines_twice() {
        let mut text = "# HELP prefetch_pending Some.\n# TYPE prefetch_pending gauge\nprefetch_pending 3\n\
                        # TYPE cache_age_at_access_seconds histogram\ncache_age_at_access_seconds_bucket{le=\"1\"} 4\n\
                        hopcache_entries 5\n"
            .to_owned();
        append(&mut text);
        for line in [
            "# HELP hopcache_prefetch_pending Some.",
            "# TYPE hopcache_prefetch_pending gauge",
            "hopcache_prefetch_pending 3",
            "# TYPE hopcache_hit_age_seconds histogram",
            "hopcache_hit_age_seconds_bucket{le=\"1\"} 4",
        ] {
            assert_eq!(text.lines().filter(|each| *each == line).count(), 1, "{line} in {text}");
        }
        assert_eq!(text.matches("hopcache_entries").count(), 1);
    }

    #[test]
    fn no_name_is_given_twice() {
        let mut names: Vec<&str> = RENAMED.iter().flat_map(|(old, new)| [*old, *new]).collect();
        names.extend(super::super::ALL.iter().map(|metric| metric.name));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        // Each old name is in both lists.
        assert_eq!(count - names.len(), RENAMED.len());
    }

    #[test]
    fn every_metric_has_a_name_of_the_scheme() {
        for metric in super::super::ALL {
            let is_renamed = RENAMED.iter().any(|(old, _)| *old == metric.name);
            let is_ours = metric.name.starts_with("hopcache_");
            assert!(is_renamed != (is_ours || metric.name.starts_with("process_")), "{}", metric.name);
        }
    }
}
