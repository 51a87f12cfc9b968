//! How far each database has been written, and what proofs of freshness do. The former has a database's name as its label, so it
//! is no family of a closed list; the engine bounds the number of names.

use std::fmt::Write as _;
use std::sync::Arc;

use hopcache_core::proof::Finding;
use hopcache_engine::event::Event;
use metrics::Counter;

use super::counters::BusyCounter;
use super::definitions::{FOREIGN_WRITES, FRESHNESS_TXID, PROVED_HITS, READ_ANEW, REVALIDATED, WATCHED};
use super::family::Family;
use crate::labels;

/// What proofs of freshness do, and how often answers change.
pub(super) struct ProofCounters {
    hits: BusyCounter,
    revalidated: Counter,
    watched: Family<{ labels::WATCHED.len() }>,
    foreign: Counter,
    read_anew: Family<{ labels::READ_ANEW.len() }>,
}

impl ProofCounters {
    pub(super) fn register() -> Self {
        Self {
            hits: BusyCounter::new(PROVED_HITS.counter()),
            revalidated: REVALIDATED.counter(),
            watched: Family::new(WATCHED, "found", &labels::WATCHED),
            foreign: FOREIGN_WRITES.counter(),
            read_anew: Family::new(READ_ANEW, "answer", &labels::READ_ANEW),
        }
    }

    /// A hit that is proved.
    pub(super) fn hit(&self) {
        self.hits.add();
    }

    pub(super) fn count(&self, event: Event) {
        match event {
            Event::Revalidated => self.revalidated.increment(1),
            Event::Watched(Finding::Known) => self.watched.add(0),
            Event::Watched(Finding::Foreign) => {
                self.watched.add(1);
                self.foreign.increment(1);
            }
            Event::Watched(Finding::Uncertain) => self.watched.add(2),
            Event::ReadAnew { has_changed } => self.read_anew.add(usize::from(has_changed)),
            _ => {}
        }
    }

    pub(super) fn show(&self) {
        self.hits.show();
    }
}

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
