//! How far each database has been written, and how old the last account of its transactions is. These have a database's name as their
//! label, so they are no metrics of a closed list; the engine bounds the number of names.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use hopcache_core::time::Millis;

use super::definitions::{ACCOUNT_AGE, FRESHNESS_TXID, Metric};

/// The gauges of each database, as an exposition has them: how far it has been written, and the age of its last account, if there is one.
pub fn of_databases(positions: &[(Arc<str>, u64)], ages: &[(Arc<str>, Option<Millis>)]) -> String {
    let seconds = |(database, age): &(Arc<str>, Option<Millis>)| {
        let seconds = age.map(|age| age.duration().as_secs_f64().to_string());
        (Arc::clone(database), seconds.unwrap_or_else(|| "+Inf".to_owned()))
    };
    let ages: Vec<_> = ages.iter().map(seconds).collect();
    gauge(&FRESHNESS_TXID, positions) + &gauge(&ACCOUNT_AGE, &ages)
}

fn gauge(metric: &Metric, values: &[(Arc<str>, impl Display)]) -> String {
    let (name, mut text) = (metric.name, String::new());
    if !values.is_empty() {
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} gauge", metric.help);
    }
    for (database, value) in values {
        let _ = writeln!(text, "{name}{{database=\"{}\"}} {value}", escaped(database));
    }
    text
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_has_a_line() {
        assert_eq!(of_databases(&[], &[]), "");
        let positions = [("neo4j".into(), 42), ("odd\"\n".into(), 7)];
        let ages = [("neo4j".into(), Some(Millis(1_250))), ("other".into(), None)];
        let text = of_databases(&positions, &ages);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "hopcache_freshness_txid{database=\"neo4j\"} 42",
            "hopcache_freshness_txid{database=\"odd\\\"\\n\"} 7",
            "hopcache_account_age_seconds{database=\"neo4j\"} 1.25",
            "hopcache_account_age_seconds{database=\"other\"} +Inf",
        ];
        assert_eq!(lines, expected);
    }
}
