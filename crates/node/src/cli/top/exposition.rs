//! The figures that `hopcache top` shows, out of the text of `/metrics`, and what two of them tell of the time between.

use std::collections::BTreeMap;

/// Plain data: a node's counters and gauges at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Totals {
    pub(super) hits: f64,
    pub(super) misses: f64,
    pub(super) bypasses: f64,
    pub(super) runs: f64,
    pub(super) entries: f64,
    pub(super) entry_bytes: f64,
    pub(super) in_flight: f64,
    /// Requests that were answered with 500 or more.
    pub(crate) errors: f64,
    /// When the process began, in seconds since 1970; 0 if it does not say.
    pub(crate) started_s: f64,
    /// How many times slower than usual Neo4j answers; 0 if too little ran.
    pub(crate) slowdown: f64,
    pub(crate) version: String,
    pub(crate) commit: String,
    pub(super) degraded: Vec<String>,
    /// Answered requests by the upper bound of their duration, cumulative. The key is the bound's bits, which order as
    /// the bounds do.
    pub(super) durations: BTreeMap<u64, f64>,
}

impl Totals {
    /// Reads an exposition. Lines that it does not know are skipped.
    pub(crate) fn read(text: &str) -> Self {
        let mut totals = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            totals.add(name, labels, value);
        }
        totals
    }

    fn add(&mut self, name: &str, labels: &str, value: f64) {
        match name {
            "cache_hit_total" => self.hits += value,
            "cache_miss_total" => self.misses += value,
            "cache_bypass_total" => self.bypasses += value,
            "hopcache_origin_runs_total" => self.runs += value,
            "hopcache_entries" => self.entries += value,
            "hopcache_entry_bytes" => self.entry_bytes += value,
            "hopcache_origin_in_flight" => self.in_flight += value,
            "hopcache_requests_total"
                if label(labels, "status").is_some_and(|status| status.starts_with('5')) =>
            {
                self.errors += value;
            }
            "process_start_time_seconds" => self.started_s = value,
            "hopcache_origin_slowdown" => self.slowdown = value,
            "hopcache_build_info" => {
                let of = |name| label(labels, name).unwrap_or_default().to_owned();
                (self.version, self.commit) = (of("version"), of("commit"));
            }
            "hopcache_degraded" if value > 0.0 => {
                self.degraded.extend(label(labels, "part").map(ToOwned::to_owned));
            }
            "hopcache_request_duration_seconds_bucket" => {
                let bound = label(labels, "le").map(|bound| bound.replace("+Inf", "inf"));
                if let Some(bound) =
                    bound.and_then(|bound| bound.parse::<f64>().ok()).filter(|bound| *bound >= 0.0)
                {
                    *self.durations.entry(bound.to_bits()).or_default() += value;
                }
            }
            _ => {}
        }
    }

    /// What came since `before`. A counter that went back belongs to a new process, and counts from zero.
    pub(super) fn since(&self, before: &Self) -> Self {
        let count = |now: f64, then: f64| if now < then { now } else { now - then };
        let durations = self
            .durations
            .iter()
            .map(|(bound, now)| (*bound, count(*now, before.durations.get(bound).copied().unwrap_or(0.0))));
        Self {
            hits: count(self.hits, before.hits),
            misses: count(self.misses, before.misses),
            bypasses: count(self.bypasses, before.bypasses),
            runs: count(self.runs, before.runs),
            durations: durations.collect(),
            ..self.clone()
        }
    }

    /// Adds another node's figures.
    pub(super) fn join(&mut self, other: &Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.bypasses += other.bypasses;
        self.runs += other.runs;
        self.entries += other.entries;
        self.entry_bytes += other.entry_bytes;
        self.in_flight += other.in_flight;
        for (bound, count) in &other.durations {
            *self.durations.entry(*bound).or_default() += count;
        }
    }

    pub(crate) fn requests(&self) -> f64 {
        self.hits + self.misses + self.bypasses
    }

    /// The share of requests that were hits; `None` without requests.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        let requests = self.requests();
        (requests > 0.0).then(|| self.hits / requests)
    }

    /// The duration in seconds that this share of the requests kept to, interpolated within its bucket. `None` without
    /// requests, and beyond the last bound.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let all = *self.durations.values().next_back().filter(|all| **all > 0.0)?;
        let wanted = all * share;
        let (mut lower, mut below) = (0.0, 0.0);
        for (bound, count) in &self.durations {
            let bound = f64::from_bits(*bound);
            if *count >= wanted {
                let part = (wanted - below) / (count - below).max(f64::MIN_POSITIVE);
                return bound.is_finite().then_some(lower + (bound - lower) * part);
            }
            (lower, below) = (bound, *count);
        }
        None
    }
}

/// The value of a label. Labels of nodes have no quotes or commas in their values.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.trim_end_matches('}').split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key == name).then(|| value.trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: &str = "\
# HELP cache_hit_total Requests that were served from a copy.
# TYPE cache_hit_total counter
cache_hit_total 100
cache_miss_total 10
cache_bypass_total{reason=\"write\"} 1
hopcache_origin_runs_total{cause=\"miss\"} 9
hopcache_request_duration_seconds_bucket{class=\"hit\",result=\"ok\",le=\"0.001\"} 100
hopcache_request_duration_seconds_bucket{class=\"hit\",result=\"ok\",le=\"0.1\"} 100
hopcache_request_duration_seconds_bucket{class=\"hit\",result=\"ok\",le=\"+Inf\"} 100
";
    const NOW: &str = "\
cache_hit_total 190
cache_miss_total 15
cache_bypass_total{reason=\"write\"} 2
cache_bypass_total{reason=\"procedure\"} 4
hopcache_origin_runs_total{cause=\"miss\"} 14
hopcache_origin_runs_total{cause=\"refresh\"} 2
hopcache_entries 7
hopcache_degraded{part=\"store\"} 1
hopcache_degraded{part=\"origin\"} 0
hopcache_request_duration_seconds_bucket{class=\"hit\",result=\"ok\",le=\"0.001\"} 190
hopcache_request_duration_seconds_bucket{class=\"miss\",result=\"ok\",le=\"0.001\"} 0
hopcache_request_duration_seconds_bucket{class=\"miss\",result=\"ok\",le=\"0.1\"} 10
hopcache_request_duration_seconds_bucket{class=\"hit\",result=\"ok\",le=\"0.1\"} 190
hopcache_request_duration_seconds_bucket{class=\"hit\",result=\"ok\",le=\"+Inf\"} 190
hopcache_request_duration_seconds_bucket{class=\"miss\",result=\"ok\",le=\"+Inf\"} 10
a line of another release
";

    #[test]
    fn two_expositions_tell_the_time_between() {
        let now = Totals::read(NOW);
        assert_eq!(now.degraded, ["store"]);
        let between = now.since(&Totals::read(THEN));
        assert_eq!((between.hits, between.misses, between.bypasses, between.runs), (90.0, 5.0, 5.0, 7.0));
        assert_eq!((between.requests(), between.hit_ratio()), (100.0, Some(0.9)));
        assert_eq!(between.entries, 7.0, "a gauge is as it is");
        // 90 of 100 within 1 ms, all within 100 ms.
        let p50 = between.quantile(0.5).unwrap();
        assert!((0.000_5..0.000_6).contains(&p50), "{p50}");
        let p99 = between.quantile(0.99).unwrap();
        assert!((0.08..0.1).contains(&p99), "{p99}");
    }

    #[test]
    fn a_restarted_node_counts_from_zero_and_an_idle_one_has_no_ratio() {
        let (then, now) = (Totals::read(NOW), Totals::read("cache_hit_total 3\n"));
        assert_eq!(now.since(&then).hits, 3.0);
        let idle = Totals::default();
        assert_eq!((idle.hit_ratio(), idle.quantile(0.5)), (None, None));
    }

    #[test]
    fn nodes_add_up() {
        let mut all = Totals::read(NOW);
        all.join(&Totals::read(THEN));
        assert_eq!((all.hits, all.runs), (290.0, 25.0));
        assert_eq!(all.durations.values().next_back(), Some(&300.0));
    }
}
