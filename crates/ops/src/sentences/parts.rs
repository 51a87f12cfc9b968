//! What a degraded part means to clients. The node's own `why` names the fault and what to do.

use std::time::Duration;

use super::span;

/// The effect of a degraded part on clients; `None` for a part of another release.
#[must_use]
pub fn effect(part: &str) -> Option<&'static str> {
    Some(match part {
        "store" => {
            "Hits in memory go on, by age. Reads in transactions with write access (most drivers' default) get none and become runs. \
             Results of misses are not stored. Purges fail with 503: repeat them when Redis is back."
        }
        "origin" => "Hits go on, also old ones, marked `stale-if-error`. All else fails with 503.",
        "members" => "Keys of these members go to the next node of the ring.",
        "peer" => "Keys of these nodes go to the next node of the ring.",
        "load" => "Hits go on. Some misses fail with 503 or 429.",
        "slow" => "Hits are as fast as ever. Misses, writes and bypasses wait for Neo4j.",
        "retries" => "Some requests fail with 503 instead of a second try.",
        "process" => "Requests to this node waited. Keys of this node went to the next node of the ring.",
        _ => return None,
    })
}

/// Neo4j is slow: how many times, since when (since 1970), and where to look.
#[must_use]
pub fn slow_origin(factor: f64, since: Duration) -> String {
    format!(
        "Neo4j answers {factor:.0} times slower than usual since {}: look there for long transactions (`SHOW TRANSACTIONS`), \
         garbage collection, and a busy disk or CPU",
        time_of_day(since)
    )
}

/// Neo4j was slow, and how slow at worst.
#[must_use]
pub fn was_slow(factor: f64) -> String {
    format!("Neo4j answered up to {factor:.0} times slower than usual")
}

/// A probe of Neo4j waits for its answer: part of a slow Neo4j until the probe fails.
pub const LATE_PROBE: &str = "Neo4j is late with the answer to a probe: look there for a long pause (garbage collection, a busy disk \
                              or CPU)";

/// When a fault was there (times since 1970).
#[derive(Debug, Clone, Copy)]
pub struct FaultTimes {
    /// When it came first, and last.
    pub came: [Duration; 2],
    /// When it was over; `None` while it lasts.
    pub until: Option<Duration>,
    /// How often it came.
    pub times: u32,
    /// How long it lasted in all, up to now.
    pub lasted: Duration,
}

/// Since when a fault is there, or from when to when it was, and when it was there before that.
#[must_use]
pub fn when(fault: FaultTimes, now: Duration) -> String {
    let FaultTimes { came: [first, last], until, times, lasted } = fault;
    let long = |time: Duration| span(time.as_secs().max(1).saturating_mul(1_000));
    let this_time = until.unwrap_or(now).saturating_sub(last);
    let said = match until {
        None => format!("since {}", time_of_day(last)),
        Some(until) => {
            let (from, ago) = (clock(last), long(now.saturating_sub(until)));
            format!("{from} to {}, {} (over for {ago})", time_of_day(until), long(this_time))
        }
    };
    let (before, from) = (long(lasted.saturating_sub(this_time)), clock(first));
    match times {
        0 | 1 => said,
        2 => format!("{said}; before that {from}, {before}"),
        more => format!("{said}; before that {} times from {from} on, {before} in all", more - 1),
    }
}

/// The time of day in UTC, to the second.
#[must_use]
pub fn time_of_day(since_1970: Duration) -> String {
    format!("{} UTC", clock(since_1970))
}

fn clock(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_neo4j_is_said_with_its_factor_and_its_hour() {
        let since = Duration::from_secs(86_400 * 20_000 + 3 * 3_600 + 12 * 60 + 59);
        let said = slow_origin(9.2, since);
        assert!(said.starts_with("Neo4j answers 9 times slower than usual since 03:12:59 UTC: "), "{said}");
    }

    #[test]
    fn one_row_is_one_time_and_what_was_before() {
        let at = |seconds: u64| Duration::from_secs(86_400 * 20_000 + 8 * 3_600 + 40 * 60 + seconds);
        let fault =
            FaultTimes { came: [at(2), at(2)], until: None, times: 1, lasted: Duration::from_secs(4) };
        let often = FaultTimes { came: [at(2), at(30)], times: 4, lasted: Duration::from_secs(16), ..fault };
        let twice = FaultTimes { times: 2, lasted: Duration::from_secs(371), ..often };
        let rows = [
            (fault, "since 08:40:02 UTC"),
            (FaultTimes { until: Some(at(6)), ..fault }, "08:40:02 to 08:40:06 UTC, 4 s (over for 6 min)"),
            (twice, "since 08:40:30 UTC; before that 08:40:02, 1 s"),
            (
                FaultTimes { until: Some(at(34)), ..often },
                "08:40:30 to 08:40:34 UTC, 4 s (over for 6 min); before that 3 times from 08:40:02 on, 12 s in all",
            ),
        ];
        for (fault, said) in rows {
            assert_eq!(when(fault, at(400)), said);
        }
    }

    #[test]
    fn every_part_has_its_effect_and_the_handbook_says_the_same() {
        const HANDBOOK: &str = include_str!("../../../../docs/operating/health.md");
        for part in crate::labels::Part::ALL.map(crate::labels::Part::as_str).into_iter().chain(["process"]) {
            let row = format!("| `{part}` | {} |", effect(part).unwrap_or_default());
            assert!(HANDBOOK.contains(&row), "docs/operating/health.md has to say: {row}");
        }
        assert_eq!(effect("another"), None);
    }
}
