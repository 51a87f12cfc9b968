//! How many nodes a statement makes if each of its `MERGE`s finds nothing.
//!
//! `MERGE (t:Turn {id: $id}) SET t.at = $at` may change a node that was there, or make one. The counters of its run tell: where as many nodes
//! were made as the statement can make at most, each `MERGE` has made its node in each row, and none has found one.

use std::collections::BTreeSet;

use crate::syntax::tree::{Clause, Element, Path, Query};
use crate::tags::anchored::sources::{Arguments, Source};

/// The most nodes that a run with these parameters makes; `None` if no `MERGE` makes one, or if that is not known.
pub(super) fn nodes_made_max(query: &Query<'_>, arguments: &Arguments) -> Option<i64> {
    let [clauses] = query.branches.as_slice() else { return None };
    let mut known = Known { bound: BTreeSet::new(), rows: Some(1), made: 0, merges: false };
    for clause in clauses {
        known.take(clause, arguments)?;
    }
    known.merges.then_some(known.made)
}

struct Known<'q> {
    bound: BTreeSet<&'q str>,
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
            }
            Clause::Create(paths) => paths.iter().try_for_each(|path| self.make(path).map(drop))?,
            Clause::Merge { path, .. } => self.merges |= self.make(path)?,
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

    /// Returns whether the path makes nodes.
    fn make(&mut self, path: &'q Path<'q>) -> Option<bool> {
        let mut nodes = 0_i64;
        for element in &path.elements {
            if !matches!(element, Element::Node(_)) {
                continue;
            }
            let is_new = element.name().is_none_or(|name| self.bound.insert(name.as_str()));
            nodes += i64::from(is_new);
        }
        if nodes > 0 {
            self.made = self.made.checked_add(self.rows?.checked_mul(nodes)?)?;
        }
        Some(nodes > 0)
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
