//! How far each database has been written. It has a database's name as its label, so it is
//! no metric of a closed list; the engine bounds the number of names.

use std::fmt::Write as _;
use std::sync::Arc;

use super::definitions::FRESHNESS_TXID;

/// The gauge of each database, as an exposition has it.
pub fn positions(positions: &[(Arc<str>, u64)]) -> String {
    let (name, mut text) = (FRESHNESS_TXID.name, String::new());
    if !positions.is_empty() {
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} gauge", FRESHNESS_TXID.help);
    }
    for (database, id) in positions {
        let _ = writeln!(text, "{name}{{database=\"{}\"}} {id}", escaped(database));
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
        assert_eq!(positions(&[]), "");
        let text = positions(&[("neo4j".into(), 42), ("odd\"\n".into(), 7)]);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let expected = [
            "hopcache_freshness_txid{database=\"neo4j\"} 42",
            "hopcache_freshness_txid{database=\"odd\\\"\\n\"} 7",
        ];
        assert_eq!(lines, expected);
    }
}
