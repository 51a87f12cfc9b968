//! What is known of procedures, by their exact names: those that only read (`crates/cypher/lists/procedures.txt`), and what some of
//! those that write do ([`Effect`]).
//!
//! | word in the list | the procedure's rows |
//! |---|---|
//! | `pure` | depend on its arguments alone, and it has no columns |
//! | `index` | are what a search of an index finds, and nothing else |
//! | `graph` | depend on anything in the graph |

use crate::functions::rows;

const READING: &str = include_str!("../lists/procedures.txt");

fn reading(name: &str) -> Option<&'static str> {
    rows(READING).find(|(known, _)| *known == name).map(|(_, word)| word)
}

/// Whether the procedure with this exact name is known to read only.
#[must_use]
pub(crate) fn only_reads(procedure: &str) -> bool {
    reading(procedure).is_some()
}

/// Whether the procedure with this exact name changes nothing in any graph or schema, though Neo4j counts it among those that may (mode
/// SCHEMA or DBMS, so its summary is not a read's). It tells of the server, or of indexes and their state, or is about the transaction or
/// the cache of plans. Its answer is never cached; applications call it as they start, and the call ends nothing. Neo4j reserves `db.`,
/// `dbms.` and `tx.` for itself; of `apoc.` the names are believed as those of the list. Modes: SHOW PROCEDURES, 5.26.12.
#[must_use]
pub(crate) fn only_reports(procedure: &str) -> bool {
    matches!(
        procedure,
        "apoc.schema.nodes"
            | "apoc.schema.relationships"
            | "db.clearQueryCaches"
            | "db.info"
            | "db.ping"
            | "dbms.cluster.routing.getRoutingTable"
            | "dbms.components"
            | "dbms.info"
            | "dbms.listCapabilities"
            | "dbms.listConfig"
            | "dbms.listConnections"
            | "dbms.queryJmx"
            | "dbms.routing.getRoutingTable"
            | "dbms.showCurrentUser"
            | "tx.getMetaData"
            | "tx.setMetaData"
    )
}

/// Whether it is known to search an index, and to tell nothing but what it finds there.
#[must_use]
pub(crate) fn searches_index(procedure: &str) -> bool {
    reading(procedure) == Some("index")
}

/// Whether nothing but its arguments decides what it does, and it has no rows.
#[must_use]
pub(crate) fn is_pure(procedure: &str) -> bool {
    reading(procedure) == Some("pure")
}

/// What a procedure that writes does, by the places of its arguments. Neo4j does not count it in the summary's counters (tried on
/// 5.26.12), so they narrow nothing of a statement that calls one. One with transactions of its own (`apoc.periodic.*`) is in no
/// table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A node comes with these labels.
    Node { labels: usize },
    /// The same, or an existing one gets the keys of the map at `on_match`. APOC writes the names and the keys of the map at
    /// `identity` into the text of a statement.
    MergedNode { labels: usize, identity: usize, on_match: usize },
    /// A relationship of this type comes.
    Relationship { kind: usize },
    /// As [`Effect::MergedNode`], of a relationship.
    MergedRelationship { kind: usize, identity: usize, on_match: usize },
    /// Nodes get or lose labels.
    Labels(usize),
    /// Nodes get labels that the text names, and lose others.
    AllLabels,
    /// Nodes get or lose properties with this name, or these.
    NodeKeys(usize),
    /// The same for relationships.
    RelationshipKeys(usize),
}

/// The effect of the procedure with this exact name, if it is known. Checked with the signatures of APOC Core 5.26.12 and
/// Neo4j 5.26.12.
pub(crate) fn effect(procedure: &str) -> Option<Effect> {
    Some(match procedure {
        "apoc.merge.node"
        | "apoc.merge.node.eager"
        | "apoc.merge.nodeWithStats"
        | "apoc.merge.nodeWithStats.eager" => Effect::MergedNode { labels: 0, identity: 1, on_match: 3 },
        "apoc.merge.relationship"
        | "apoc.merge.relationship.eager"
        | "apoc.merge.relationshipWithStats"
        | "apoc.merge.relationshipWithStats.eager" => {
            Effect::MergedRelationship { kind: 1, identity: 2, on_match: 5 }
        }
        "apoc.create.node" | "apoc.create.nodes" => Effect::Node { labels: 0 },
        "apoc.create.relationship" => Effect::Relationship { kind: 1 },
        "apoc.create.addLabels" | "apoc.create.removeLabels" => Effect::Labels(1),
        "apoc.create.setLabels" => Effect::AllLabels,
        "apoc.create.setProperty"
        | "apoc.create.setProperties"
        | "apoc.create.removeProperties"
        | "db.create.setNodeVectorProperty"
        | "db.create.setVectorProperty" => Effect::NodeKeys(1),
        "apoc.create.setRelProperty"
        | "apoc.create.setRelProperties"
        | "apoc.create.removeRelProperties"
        | "db.create.setRelationshipVectorProperty" => Effect::RelationshipKeys(1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_list_is_a_name_and_its_kind() {
        let lines = READING.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(rows(READING).count(), lines);
        for (name, word) in rows(READING) {
            assert!(["pure", "index", "graph"].contains(&word), "{name} {word}");
            assert_eq!(effect(name), None, "{name} reads only");
        }
        assert!(only_reads("db.labels") && !only_reads("DB.labels") && !only_reads("apoc.util.sleep"));
    }
}
