//! How far each database has been written. Its label is a database's name, so it is no family of a closed list; the engine
//! bounds the number of names.

use std::fmt::Write as _;
use std::sync::Arc;

use super::definitions::FRESHNESS_TXID;

/// Appends the gauge of each database to an exposition.
pub(crate) fn append(text: &mut String, positions: &[(Arc<str>, u64)]) {
    let name = FRESHNESS_TXID.name;
    if !positions.is_empty() {
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} gauge", FRESHNESS_TXID.help);
    }
    for (database, id) in positions {
        let _ = writeln!(text, "{name}{{database=\"{}\"}} {id}", escaped(database));
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_has_a_line() {
        let mut text = String::new();
        append(&mut text, &[]);
        assert_eq!(text, "");
        append(&mut text, &[("neo4j".into(), 42), ("odd\"\n".into(), 7)]);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let expected = [
            "hopcache_freshness_txid{database=\"neo4j\"} 42",
            "hopcache_freshness_txid{database=\"odd\\\"\\n\"} 7",
        ];
        assert_eq!(lines, expected);
    }
}
