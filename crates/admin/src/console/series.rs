//! Counters and gauges for the console, read from the text that Prometheus gets, so that both show the same figures.

use serde_json::{Map, Value};

/// The metrics that the console draws. Buckets of histograms count with their suffix.
const DRAWN: [&str; 32] = [
    "hopcache_requests_total",
    "hopcache_origin_slowdown",
    "cache_hit_total",
    "cache_miss_total",
    "cache_bypass_total",
    "single_flight_hits_total",
    "stampede_events_total",
    "hopcache_origin_runs_total",
    "hopcache_origin_errors_total",
    "hopcache_request_duration_seconds_bucket",
    "hopcache_origin_duration_seconds_sum",
    "hopcache_origin_duration_seconds_count",
    "hopcache_near_hits_total",
    "hopcache_proved_hits_total",
    "hopcache_revalidated_total",
    "hopcache_watched_total",
    "hopcache_invalidations_total",
    "hopcache_stale_if_error_total",
    "xfetch_stale_served_total",
    "xfetch_refresh_completed_total",
    "xfetch_refresh_failed_total",
    "hopcache_refresh_late_total",
    "prefetch_attempts_total",
    "prefetch_hits_total",
    "prefetch_late_total",
    "prefetch_waste_total",
    "prefetch_pending",
    "hopcache_prefetch_kinds_total",
    "hopcache_entries",
    "hopcache_entry_bytes",
    "hopcache_origin_in_flight",
    "hopcache_sessions",
];

/// The series of these metrics that are not zero, by name and labels.
pub(super) fn of_exposition(text: &str) -> Map<String, Value> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let series = lines.filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let name = series.split_once('{').map_or(series, |(name, _)| name);
        let value = value.parse::<f64>().ok().filter(|value| *value != 0.0)?;
        DRAWN.contains(&name).then(|| (series.to_owned(), Value::from(value)))
    });
    series.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopcache_ops::meters::all;

    #[test]
    fn only_metrics_that_nodes_have_are_drawn() {
        for name in DRAWN {
            let metric = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let metric = metric.unwrap_or(name);
            assert!(all().any(|known| known.name == metric), "{name}");
        }
    }

    #[test]
    fn series_that_are_zero_or_not_drawn_are_left_out() {
        let text = "# HELP cache_hit_total Hits.\ncache_hit_total 7\ncache_miss_total 0\nhopcache_tasks 9\n\
                    hopcache_origin_runs_total{cause=\"miss\"} 2\nno value\n";
        let series = of_exposition(text);
        let expected = [("cache_hit_total", 7.0), ("hopcache_origin_runs_total{cause=\"miss\"}", 2.0)];
        assert_eq!(series.len(), expected.len());
        for (name, value) in expected {
            assert_eq!(series[name], Value::from(value));
        }
    }
}
