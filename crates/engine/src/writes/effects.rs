//! What a statement touches, in the form that marks have. `hopcache_cypher::tags` decides it.

use std::sync::{Arc, OnceLock};

use hopcache_core::tags::{TagId, Touched};
use hopcache_cypher::tags::anchored::{AnchoredWrite, TouchedNodes};
use hopcache_cypher::tags::{Counters, Touch};
use hopcache_packstream::Value;

use crate::model::text_facts::TextFacts;
use crate::model::write_forms::RunWrite;

/// Nodes and relationships more than before, by the counters of summaries. Where either is not zero, the transaction has certainly
/// changed the graph, and takes an id (EXACT section 1). Counted properties prove nothing: a `SET` to the value that is there is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetChange {
    nodes: i64,
    relationships: i64,
}

impl NetChange {
    /// What two statements of one transaction have changed together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (nodes, relationships) =
            (self.nodes.saturating_add(other.nodes), self.relationships.saturating_add(other.relationships));
        Self { nodes, relationships }
    }

    pub(super) fn is_certain(self) -> bool {
        self != Self::default()
    }
}

/// What a statement may change, or what its summary shows that it has changed.
#[derive(Debug, Clone)]
pub struct Effects {
    found: RunWrite,
    /// What it tells, when somebody has asked.
    touched: OnceLock<Touched>,
}

impl From<RunWrite> for Effects {
    fn from(found: RunWrite) -> Self {
        Self { found, touched: OnceLock::new() }
    }
}

impl Effects {
    /// What a statement with these parameters (one PackStream map) may change. It parses the text.
    #[must_use]
    pub fn of(statement: &str, params: &[u8]) -> Self {
        RunWrite::from(AnchoredWrite::of(statement, params)).into()
    }

    /// What a statement with these facts and parameters may change.
    #[must_use]
    pub fn of_facts(facts: &TextFacts, params: &[u8]) -> Self {
        facts.write(params).into()
    }

    /// What a write past this cluster has touched, as somebody tells it: nodes with these values; whether others came or went; others with
    /// these labels came, went, or changed; so did relationships of these types, and these property keys of either.
    #[must_use]
    pub fn told(
        of_values: &[TouchedNodes<'_>],
        nodes: bool,
        (labels, types, keys): (&[String], &[String], &[String]),
    ) -> Self {
        let nodes = nodes.then_some(Touch::NodeCreated);
        let labels = labels.iter().flat_map(|name| [Touch::NodeCreated, Touch::LabelChanged(name.clone())]);
        let types = types.iter().map(|name| Touch::Relationship(name.clone()));
        let key = |name: &String| [Touch::NodeKey(name.clone()), Touch::RelationshipKey(name.clone())];
        let keys = keys.iter().flat_map(key);
        let touches = nodes.into_iter().chain(labels).chain(types).chain(keys);
        RunWrite::from(AnchoredWrite::of_told(of_values, touches)).into()
    }

    /// What a run that ended well has changed, by the counters of its summary (Bolt's SUCCESS: `stats`). Without counters it
    /// may have changed all that its statement names.
    #[must_use]
    pub fn counted(&self, summary: &Value) -> Self {
        let Some(Value::Map(stats)) = summary.get("stats") else { return self.clone() };
        let counters = stats.iter().filter_map(|(name, count)| match count {
            Value::Int(count) => Some((name.as_str(), *count)),
            // `contains-updates` counts nothing. Users and rights change with `contains-system-updates`.
            Value::Bool(is_true) => (*is_true && name != "contains-updates").then_some(("others", 1)),
            _ => Some(("others", 1)),
        });
        self.found.narrowed(&Counters::of(counters)).into()
    }

    /// What the counters of a summary prove to have changed.
    #[must_use]
    pub fn net_change(summary: &Value) -> NetChange {
        let count = |name: &str| match summary.get("stats").and_then(|stats| stats.get(name)) {
            Some(Value::Int(count)) => *count,
            _ => 0,
        };
        NetChange {
            nodes: count("nodes-created") - count("nodes-deleted"),
            relationships: count("relationships-created") - count("relationships-deleted"),
        }
    }

    /// The labels, types and keys that it may use; each that is new takes one transaction id more. `None` if nobody knows how
    /// many ids it takes.
    #[must_use]
    pub fn tokens(&self) -> Option<Arc<[TagId]>> {
        self.found.tokens()
    }

    /// Whether it ends results by labels alone, and does not change which nodes have them: it deletes nodes, or changes nodes that it names by
    /// no value.
    pub(super) fn ends_by_labels(&self) -> bool {
        let (mut deletes, mut relabels) = (false, false);
        for touch in self.found.effects().touches() {
            deletes |= matches!(touch, Touch::NodeDeleted);
            relabels |= matches!(touch, Touch::LabelChanged(_) | Touch::AnyLabelChanged | Touch::Anything);
        }
        let is_bulk = |touched: Touched| match touched {
            Touched::These(touched) => touched.refinement().is_some_and(|of| of.is_by_labels_alone()),
            Touched::Anything => false,
        };
        !relabels && (deletes || is_bulk(self.touched()))
    }

    /// The marks that it leaves.
    #[must_use]
    pub fn touched(&self) -> Touched {
        self.touched.get_or_init(|| self.found.told()).clone()
    }
}

#[cfg(test)]
mod tests {
    use hopcache_packstream::encode;

    use super::*;

    /// Only these may wait before they begin.
    #[test]
    fn what_deletes_or_names_its_nodes_by_labels_alone_ends_by_labels() {
        let row =
            |id| Value::Map(vec![("id".to_owned(), Value::Int(id)), ("name".to_owned(), Value::from("x"))]);
        let params = |rows: i64| {
            let rows = Value::List((0..rows).map(row).collect());
            encode(&Value::Map(vec![("rows".to_owned(), rows), ("id".to_owned(), Value::Int(1))]))
        };
        let upsert = "UNWIND $rows AS row MERGE (i:Item {id: row.id}) SET i += row";
        for (text, rows, expected) in [
            (upsert, 1_000, true),
            (upsert, 10, false),
            ("MATCH (s:Session) DETACH DELETE s", 0, true),
            ("MATCH (s:Session {id: $id}) DELETE s", 0, true),
            ("MATCH (s:Session) SET s.seen = 1", 0, true),
            ("MATCH (s:Session {id: $id}) SET s.seen = 1", 0, false),
            ("MATCH (a:User {id: $id}), (b:User {id: 2}) CREATE (a)-[:LIKES]->(b)", 0, false),
            ("CREATE (s:Session {id: $id})", 0, false),
            ("UNWIND $rows AS row CREATE (i:Item) SET i = row", 1_000, false),
            ("MATCH (s:Session) SET s:Old", 0, false),
            ("MATCH (s:Session) REMOVE s:Session", 0, false),
            ("MATCH (s:Session) WITH s, s.x AS x REMOVE s:Session DELETE s", 0, false),
            ("CALL own.anything()", 0, false),
        ] {
            assert_eq!(Effects::of(text, &params(rows)).ends_by_labels(), expected, "{text}");
        }
    }
}
