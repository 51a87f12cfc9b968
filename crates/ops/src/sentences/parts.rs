//! What a degraded part means to clients. The node's own `why` names the fault and what to do.

use std::time::Duration;

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
    fn every_part_has_its_effect() {
        for part in crate::labels::Part::ALL {
            assert!(effect(part.as_str()).is_some(), "{part:?}");
        }
        assert_eq!(effect("another"), None);
    }
}
