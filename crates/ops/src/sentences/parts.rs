//! What a degraded part means to clients. The node's own `why` names the fault and what to do.

use std::time::Duration;

use hopcache_core::time::Millis;

use super::span;

/// The effect of a degraded part on clients; `None` for a part of another release.
#[must_use]
pub fn effect(part: &str) -> Option<&'static str> {
    Some(match part {
        "store" => {
            "Hits in memory go on, by age: transactions with write access get none. Results of misses are not stored."
        }
        "origin" => "Hits go on. Misses fail with 503.",
        "members" => "Keys of these members go to the next node of the ring.",
        "peer" => "Keys of these nodes go to the next node of the ring.",
        "load" => "Hits go on. Some misses fail with 503 or 429.",
        "slow" => "Hits are as fast as ever. Misses, writes and bypasses wait for Neo4j.",
        "retries" => "Some requests fail with 503 instead of a second try.",
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

/// When a fault was there (times since 1970).
#[derive(Debug, Clone, Copy)]
pub struct FaultTimes {
    /// When it came first, and last.
    pub came: [Duration; 2],
    /// When it was over; `None` while it lasts.
    pub until: Option<Duration>,
    /// How often it came.
    pub times: u32,
    /// How long it lasted in all.
    pub lasted: Duration,
}

/// From when to when a fault was there, how often, and how long in all.
#[must_use]
pub fn when(fault: FaultTimes, now: Duration) -> String {
    let FaultTimes { came: [first, last], until, times, lasted } = fault;
    let in_all = span(Millis::from(lasted).0);
    match until {
        None if times < 2 => format!("since {} UTC", to_the_second(first)),
        None => {
            let (last, first) = (to_the_second(last), to_the_second(first));
            format!("since {last} UTC; {times} times from {first} on, {in_all} in all")
        }
        Some(until) => {
            let ago = span(Millis::from(now.saturating_sub(until)).0);
            let said = format!("{} to {} UTC ({ago} ago)", to_the_second(first), to_the_second(until));
            if times < 2 { said } else { format!("{said}, {times} times, {in_all} in all") }
        }
    }
}

fn to_the_second(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60)
}

/// The time of day in UTC, as hours and minutes.
#[must_use]
pub fn time_of_day(since_1970: Duration) -> String {
    let minutes = since_1970.as_secs() / 60 % (24 * 60);
    format!("{:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_neo4j_is_said_with_its_factor_and_its_hour() {
        let since = Duration::from_secs(86_400 * 20_000 + 3 * 3_600 + 12 * 60 + 59);
        let said = slow_origin(9.2, since);
        assert!(said.starts_with("Neo4j answers 9 times slower than usual since 03:12 UTC: "), "{said}");
    }

    #[test]
    fn what_is_over_is_said_with_its_times() {
        let at = |seconds: u64| Duration::from_secs(86_400 * 20_000 + 8 * 3_600 + 40 * 60 + seconds);
        let fault =
            FaultTimes { came: [at(2), at(2)], until: None, times: 1, lasted: Duration::from_secs(4) };
        let often = FaultTimes { came: [at(2), at(30)], times: 4, lasted: Duration::from_secs(16), ..fault };
        let rows = [
            (fault, "since 08:40:02 UTC"),
            (FaultTimes { until: Some(at(6)), ..fault }, "08:40:02 to 08:40:06 UTC (6 min ago)"),
            (often, "since 08:40:30 UTC; 4 times from 08:40:02 on, 16 s in all"),
            (
                FaultTimes { until: Some(at(34)), ..often },
                "08:40:02 to 08:40:34 UTC (6 min ago), 4 times, 16 s in all",
            ),
        ];
        for (fault, said) in rows {
            assert_eq!(when(fault, at(400)), said);
        }
    }

    #[test]
    fn every_part_has_its_effect() {
        for part in crate::labels::Part::ALL {
            assert!(effect(part.as_str()).is_some(), "{part:?}");
        }
        assert_eq!(effect("another"), None);
    }
}
