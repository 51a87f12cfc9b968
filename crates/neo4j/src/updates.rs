//! Whether a statement at Neo4j that ended well may have changed something, and what. Entries that depend on that end then,
//! or those of all databases if it names a graph by itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use hopcache_core::tags::{TagId, Touched};
use hopcache_core::write_position::WritePosition;
use hopcache_cypher::checks::graphs::may_name_graph;
use hopcache_cypher::checks::rights::may_change_rights;
use hopcache_cypher::checks::writing::may_write;
use hopcache_engine::ports::{Parts, WriteBegan};
use hopcache_engine::text_facts::TextFacts;
use hopcache_engine::{Effects, NetChange};
use hopcache_packstream::Value;

/// Plain data: what the text of a statement says about its writes.
#[derive(Debug, Clone)]
pub struct WriteWords {
    /// Whether it may write at all.
    pub may_write: bool,
    /// Whether parts of it may be committed before its end.
    pub parts: Parts,
    /// Whether it may name a graph by itself (`USE`).
    pub may_name_graph: bool,
    /// Whether it may change users or rights.
    pub changes_rights: bool,
    /// What it may touch.
    pub effects: Effects,
}

impl WriteWords {
    /// `params` are the parameters of the run: one PackStream map.
    pub fn of(statement: &str, params: &[u8]) -> Self {
        Self {
            may_write: may_write(statement),
            parts: Parts::of(statement, params),
            may_name_graph: may_name_graph(statement),
            changes_rights: may_change_rights(statement),
            effects: Effects::of(statement, params),
        }
    }

    /// As [`WriteWords::of`], of a text whose facts are remembered.
    pub fn of_facts(facts: &TextFacts, params: &[u8]) -> Self {
        Self {
            may_write: facts.may_write(),
            parts: facts.parts(params),
            may_name_graph: facts.may_name_graph(),
            changes_rights: facts.changes_rights(),
            effects: Effects::of_facts(facts, params),
        }
    }

    /// Whether it may call a procedure that writes: that may commit by itself, in an explicit transaction too.
    pub fn calls_procedure(&self) -> bool {
        matches!(self.parts, Parts::Called { .. })
    }

    /// Whether it may make a label, a type or a key, also if it fails.
    pub fn may_make_tokens(&self) -> bool {
        self.may_write && self.effects.tokens().is_none_or(|tokens| !tokens.is_empty())
    }

    /// What a run has touched that ended well with this summary.
    pub fn touched(&self, summary: &Value) -> Touched {
        self.effects.counted(summary).touched()
    }
}

/// What the statements of a transaction have done so far, as its COMMIT shows it.
#[derive(Debug, Clone)]
pub struct TransactionWrites {
    has_written: bool,
    /// Whether one of them may name a graph by itself: then the COMMIT ends the entries of all databases.
    pub may_name_graph: bool,
    /// Whether parts of one of them may be committed before the COMMIT.
    pub parts: Parts,
    /// Whether one of them may change users or rights.
    pub changes_rights: bool,
    /// When the first of them was sent.
    pub began: WriteBegan,
    /// What they have touched.
    pub touched: Touched,
    /// What they have certainly changed together; `None` if the end of one is not known.
    pub net_change: Option<NetChange>,
    /// The labels, types and keys that they may use; `None` if nobody knows how many transaction ids they take.
    pub tokens: Option<Arc<[TagId]>>,
}

impl Default for TransactionWrites {
    fn default() -> Self {
        Self {
            has_written: false,
            may_name_graph: false,
            parts: Parts::None,
            changes_rights: false,
            began: WriteBegan::At(None),
            touched: Touched::nothing(),
            net_change: Some(NetChange::default()),
            tokens: Some(Arc::from([])),
        }
    }
}

impl TransactionWrites {
    /// Those of a transaction that begins when this is the mark of its database.
    pub fn begun_at(mark: Option<WritePosition>) -> Self {
        Self { began: WriteBegan::At(mark), ..Self::default() }
    }

    /// Those of one statement that is sent now, and commits by itself.
    pub fn of_one(words: &WriteWords) -> Self {
        let mut writes = Self::tokens_of_one(words);
        writes.wrote(&words.effects.touched(), None);
        writes
    }

    /// The labels, types and keys of one statement, whatever becomes of it. What else it touches is not said.
    pub fn tokens_of_one(words: &WriteWords) -> Self {
        let mut writes = Self { began: WriteBegan::Now, ..Self::default() };
        writes.sent(words);
        writes.parts = words.parts.clone();
        writes
    }

    /// A statement goes to Neo4j.
    pub fn sent(&mut self, words: &WriteWords) {
        self.may_name_graph |= words.may_name_graph;
        if words.parts != Parts::None {
            self.parts = Parts::Batches;
        }
        self.changes_rights |= words.changes_rights;
        self.tokens = self.tokens.take().zip(words.effects.tokens()).map(|(own, more)| {
            if more.iter().all(|token| own.contains(token)) {
                return own;
            }
            own.iter().chain(more.iter()).copied().collect::<BTreeSet<_>>().into_iter().collect()
        });
    }

    /// A statement has written this, or may have. `net_change` is of its summary.
    pub fn wrote(&mut self, touched: &Touched, net_change: Option<NetChange>) {
        self.has_written = true;
        self.net_change = self.net_change.zip(net_change).map(|(before, more)| before.and(more));
        let before = std::mem::replace(&mut self.touched, Touched::Anything);
        self.touched = before.and(touched);
    }

    /// Whether Neo4j may hold a change, which COMMIT would show.
    pub fn has_written(&self) -> bool {
        self.has_written
    }
}

/// Whether the summary does not show that nothing was updated. `kind` is Bolt's `type`. A procedure may have written in
/// transactions of its own, which its summary does not count.
pub fn may_have_written(kind: Option<&str>, summary: &Value, may_call: bool) -> bool {
    let has_updates = match summary.get("stats") {
        Some(Value::Map(counters)) => counters.iter().any(|(_, count)| !is_nothing(count)),
        stats => stats.is_some(),
    };
    has_updates || (may_call && kind != Some("r"))
}

const fn is_nothing(count: &Value) -> bool {
    matches!(count, Value::Int(0) | Value::Bool(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(stats: &[(&str, Value)]) -> Value {
        let stats = stats.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Value::Map(vec![("stats".to_owned(), Value::Map(stats))])
    }

    #[test]
    fn only_a_summary_without_updates_shows_that_nothing_has_changed() {
        let created = summary(&[("nodes-created", Value::Int(1))]);
        let none = summary(&[("nodes-created", Value::Int(0)), ("contains-updates", Value::Bool(false))]);
        let absent = Value::Map(Vec::new());
        assert!(may_have_written(Some("rw"), &created, false));
        assert!(!may_have_written(Some("rw"), &none, false) && !may_have_written(None, &absent, false));
        assert!(may_have_written(Some("rw"), &none, true), "a procedure hides its own transactions");
        assert!(may_have_written(None, &absent, true));
        assert!(!may_have_written(Some("r"), &absent, true));
    }
}
