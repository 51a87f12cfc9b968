//! The marker of own writes (`freshness.marker`): a node of the graph that each write through this Hopcache node counts up, in the
//! write's own transaction, just before its COMMIT. So each write that changes something takes exactly one transaction id, and
//! the watcher can tell every foreign one. Without it a write that only seems to change something hides one. Schedule:
//!
//!   settled is 40 · somebody writes past Hopcache, as 41 · `SET n.x = n.x` through Hopcache counts a property, takes no id, and
//!   its bookmark is 41 · the watcher sees one id and one own write.
//!
//! Each Hopcache node has a marker of its own, and locks it only for its COMMIT: so nodes do not wait for each other.
//!
//! A transaction is marked if it is known how many ids it takes, and it has written. Any other's ids look foreign
//! (`engine::writes::tallies`): of `CALL { … } IN TRANSACTIONS`, of schema, of procedures, of `USE`, of a text that `hopcache_cypher::tags`
//! does not understand, and of a first label, type or key. Who writes needs the right to write `:HopcacheMarker`.

use bytes::Bytes;
use hopcache_bolt::{ClosingStatement, request_bytes};
use hopcache_core::result::MarkerEffect;
use hopcache_packstream::{Value, encode};

use super::updates::{TransactionWrites, WriteWords, may_have_written};

/// Its property `hopcacheWrites` is [`hopcache_engine::MARKER_KEY`].
const STATEMENT: &str = "MERGE (marker:HopcacheMarker {of: $of}) \
    SET marker.hopcacheWrites = coalesce(marker.hopcacheWrites, 0) + 1";

/// The marker of this Hopcache node.
#[derive(Debug, Clone)]
pub struct Marker {
    params: Bytes,
}

impl Marker {
    /// The marker of the node with this name.
    #[must_use]
    pub fn of_node(name: &str) -> Self {
        Self { params: encode(&Value::Map(vec![("of".to_owned(), Value::from(name))])).into() }
    }

    /// Whether a statement that commits by itself is marked, if its summary shows that it has written.
    pub fn is_for(words: &WriteWords) -> bool {
        !words.may_name_graph && words.effects.tokens().is_some() && !words.effects.touched().is_nothing()
    }

    /// Whether a transaction that is committed now is marked.
    pub fn is_for_commit(writes: &TransactionWrites) -> bool {
        writes.has_written() && !writes.may_name_graph && writes.tokens.is_some()
    }

    /// What a marker's run did, by the metadata of its end.
    pub fn done(end: &Value) -> MarkerEffect {
        let made = end.get("stats").and_then(|stats| stats.get("nodes-created")).and_then(Value::as_int);
        if made.is_some_and(|made| made > 0) { MarkerEffect::Made } else { MarkerEffect::Counted }
    }

    /// The requests before COMMIT on a relay. Each has one answer, and no record.
    pub fn requests(&self) -> Vec<Vec<u8>> {
        let extra = Value::Map(Vec::new());
        vec![request_bytes::run(STATEMENT, &self.params, &extra), request_bytes::pull_all()]
    }

    /// The end of the transaction of a run.
    pub(super) fn closing<'a>(&'a self, words: &'a WriteWords) -> ClosingStatement<'a> {
        ClosingStatement {
            statement: STATEMENT,
            params: &self.params,
            may_call: words.calls_procedure(),
            is_due: may_have_written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the engine adds to what a write touches is what the marker writes.
    #[test]
    fn the_engine_and_the_marker_name_one_property() {
        assert!(STATEMENT.contains(&format!("SET marker.{} =", hopcache_engine::MARKER_KEY)), "{STATEMENT}");
    }
}
