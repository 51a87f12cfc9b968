//! How many nodes a statement makes if each of its `MERGE`s finds nothing.
//!
//! `MERGE (t:Turn {id: $id}) SET t.at = $at` may change a node that was there, or make one. The counters of its run tell: where as many nodes
//! were made as the statement can make at most, each `MERGE` has made its node in each row, and none has found one.
//!
//! A `MERGE` that finds two patterns goes on with two rows. What follows may then make twice as many nodes, and the numbers be equal all the
//! same. Schedule:
//!
//!   two nodes `:A {id: 2}` are there · `MERGE (n:A {id: 2}) SET n.x = 6 CREATE (:B)` · two nodes are made, as many as if there had been none.
//!
//! So behind a `MERGE` only such a `MERGE` may make nodes whose pattern is the same in each row of the same values: then the second row finds
//! what the first one has made. It depends on no variable but those of `UNWIND`. No `ON CREATE` or `ON MATCH` changes its keys: Neo4j carries
//! these out row by row, and the second row would find nothing (`SET` behind it waits for all rows; both were seen on 5.26).
//!
//! For the same reason the number of made relationships tells nothing: `MERGE (a)-[:R]->(b)` depends on `a`, of which an earlier `MERGE` or
//! `MATCH` may have found several.

use std::collections::BTreeSet;

use crate::syntax::tree::{Change, Clause, Element, Filter, Key, LabelExpr, Labels, Path, Query};
use crate::tags::anchored::sources::{Arguments, Source};

/// The most nodes that a run with these parameters makes; `None` if no `MERGE` makes one, or if that is not known.
pub(super) fn nodes_made_max(query: &Query<'_>, arguments: &Arguments) -> Option<i64> {
    let [clauses] = query.branches.as_slice() else { return None };
    let mut known = Known { rows: Some(1), row_by_row: keys_changed_by_merges(clauses), ..Known::default() };
    for clause in clauses {
        known.take(clause, arguments)?;
    }
    known.merges.then_some(known.made)
}

#[derive(Default)]
struct Known<'q> {
    bound: BTreeSet<&'q str>,
    /// Those that hold items of lists that are known.
    items: BTreeSet<&'q str>,
    /// Whether there may be several rows of the same values: a `MERGE` may have found several patterns.
    repeats: bool,
    /// The keys that `ON CREATE` and `ON MATCH` change anywhere; `None` if they are not known.
    row_by_row: Option<BTreeSet<&'q str>>,
    /// The rows before the next clause, if they are known.
    rows: Option<i64>,
    made: i64,
    /// Whether a `MERGE` makes nodes.
    merges: bool,
}

impl<'q> Known<'q> {
    /// `None` if it is not known how many nodes this clause makes.
    fn take(&mut self, clause: &'q Clause<'q>, arguments: &Arguments) -> Option<()> {
        match clause {
            Clause::Unwind { list, name } => {
                let length = Source::of(list, &|_| Source::Unknown).length(arguments);
                self.rows = self.rows.filter(|rows| *rows == 1).and(length);
                self.bound.insert(name.as_str());
                self.items.insert(name.as_str());
            }
            Clause::Create(paths) => paths.iter().try_for_each(|path| self.make(path, true).map(drop))?,
            Clause::Merge { path, .. } => {
                let is_apart = self.repeats && !self.is_same_in_repeats(path);
                self.merges |= self.make(path, is_apart)?;
                self.repeats = true;
            }
            Clause::Foreach { body, .. } if !makes(body) => {}
            Clause::Set(_)
            | Clause::Remove(_)
            | Clause::Delete { .. }
            | Clause::Return(_)
            | Clause::Finish => {}
            Clause::Call(call) if call.query.branches.iter().any(|branch| makes(branch)) => return None,
            Clause::Foreach { .. } | Clause::Procedure(_) | Clause::New(_) => return None,
            Clause::With(projection) => {
                self.rows = None;
                if !projection.is_all {
                    // A name that is not passed on is free again: the next pattern with it may make a node.
                    let passed = projection.items.iter().filter_map(|item| {
                        let name = item.name()?.as_str();
                        item.value
                            .variable()
                            .filter(|value| value.as_str() == name && self.bound.contains(name))?;
                        Some(name)
                    });
                    self.bound = passed.collect();
                }
            }
            Clause::Match(_) | Clause::Call(_) | Clause::LoadCsv { .. } => self.rows = None,
        }
        Some(())
    }

    /// Whether the path is the same pattern in each row of the same items.
    fn is_same_in_repeats(&self, path: &Path<'_>) -> bool {
        let item = |name: &str| match self.items.contains(name) {
            true => Source::Parameter(name.to_owned()),
            false => Source::Unknown,
        };
        let Some(changed) = &self.row_by_row else { return false };
        let is_same = |filter: &Filter<'_>, names: Option<&Labels<'_>>| {
            names.is_none_or(|names| are_named(&names.expr))
                && (filter.parameter.is_none() || changed.is_empty())
                && filter.entries().all(|(key, _)| !changed.contains(key.as_str()))
                && filter.values().all(|value| Source::of(value, &item).is_scalar())
        };
        path.elements.iter().all(|element| match element {
            Element::Node(node) => {
                let is_bound = node.name.as_ref().is_some_and(|name| self.bound.contains(name.as_str()));
                !is_bound && is_same(&node.filter, node.labels.as_ref())
            }
            Element::Relationship(found) => is_same(&found.filter, found.types.as_ref()),
            Element::Group { .. } => false,
        })
    }

    /// Returns whether the path makes nodes. `is_apart`: each row of the same items makes its own.
    fn make(&mut self, path: &'q Path<'q>, is_apart: bool) -> Option<bool> {
        let mut nodes = 0_i64;
        for element in &path.elements {
            if !matches!(element, Element::Node(_)) {
                continue;
            }
            let is_new = element.name().is_none_or(|name| self.bound.insert(name.as_str()));
            nodes += i64::from(is_new);
        }
        if nodes > 0 {
            if self.repeats && is_apart {
                return None;
            }
            self.made = self.made.checked_add(self.rows?.checked_mul(nodes)?)?;
        }
        Some(nodes > 0)
    }
}

/// The keys that clauses `MERGE` change in what they find or make; `None` if the text does not say which.
fn keys_changed_by_merges<'q>(clauses: &'q [Clause<'q>]) -> Option<BTreeSet<&'q str>> {
    let changes = clauses.iter().flat_map(|clause| match clause {
        Clause::Merge { on_create, on_match, .. } => on_create.iter().chain(on_match),
        _ => [].iter().chain(&[]),
    });
    let keys = changes.filter_map(|change| match change {
        Change::Key { key: Key::Name(name), .. } => Some(Some(name.as_str())),
        Change::Key { .. } | Change::Keys { .. } => Some(None),
        Change::Labels { .. } => None,
    });
    keys.collect()
}

/// Whether the text says which labels these are.
fn are_named(labels: &LabelExpr<'_>) -> bool {
    match labels {
        LabelExpr::Name(_) => true,
        LabelExpr::And(parts) => parts.iter().all(are_named),
        LabelExpr::Or(_) | LabelExpr::Not(_) | LabelExpr::Any | LabelExpr::Dynamic(_) => false,
    }
}

/// Whether clauses make nodes, or may make some.
fn makes(clauses: &[Clause<'_>]) -> bool {
    clauses.iter().any(|clause| match clause {
        Clause::Create(_) | Clause::Merge { .. } | Clause::Procedure(_) | Clause::New(_) => true,
        Clause::Foreach { body, .. } => makes(body),
        Clause::Call(call) => call.query.branches.iter().any(|branch| makes(branch)),
        _ => false,
    })
}
