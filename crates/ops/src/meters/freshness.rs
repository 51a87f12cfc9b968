//! How far each database has been written, and how far proofs stand behind that. These have a database's name as their label, so they are
//! no metrics of a closed list; the engine bounds the number of names.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use hopcache_core::time::Millis;

use super::definitions::{FRESHNESS_TXID, Metric, PROOF_BEHIND};

/// The gauges of each database, as an exposition has them: how far it has been written, and the age of its last account where that is behind.
pub fn of_databases(positions: &[(Arc<str>, u64)], behind: &[(Arc<str>, Millis)]) -> String {
    let seconds =
        |(database, behind): &(Arc<str>, Millis)| (Arc::clone(database), behind.duration().as_secs_f64());
    let behind: Vec<_> = behind.iter().map(seconds).collect();
    gauge(&FRESHNESS_TXID, positions) + &gauge(&PROOF_BEHIND, &behind)
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
        let behind = [("neo4j".into(), Millis(1_250)), ("other".into(), Millis::ZERO)];
        let text = of_databases(&positions, &behind);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "hopcache_freshness_txid{database=\"neo4j\"} 42",
            "hopcache_freshness_txid{database=\"odd\\\"\\n\"} 7",
            "hopcache_proof_behind_seconds{database=\"neo4j\"} 1.25",
            "hopcache_proof_behind_seconds{database=\"other\"} 0",
        ];
        assert_eq!(lines, expected);
    }
}
