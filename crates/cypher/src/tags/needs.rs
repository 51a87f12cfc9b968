//! The needs of a read, from its tree: rules N1 to N8 of [`crate::tags::rules`].

use std::collections::BTreeSet;

use crate::tags::names::{Kinds, Names};
use crate::tags::rules::Need;
use crate::tags::tree::{
    Call, Carrier, Clause, Element, Expr, Filter, LabelExpr, Match, Node, Path, Projection, Query, Read,
    Relationship, Scope, Shape,
};

/// Everything that `query` depends on.
pub(crate) fn needs(query: &Query, names: &Names) -> BTreeSet<Need> {
    let mut walk = Walk { names, needs: BTreeSet::new() };
    walk.query(query, &Bound::new(), Rows::Result);
    walk.needs
}

/// Variables of nodes that an earlier clause has found.
type Bound<'a> = BTreeSet<&'a str>;

/// Where the rows of a query go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// To the client.
    Result,
    /// To the query around it, where their use counts.
    Inside,
}

struct Walk<'a> {
    names: &'a Names,
    needs: BTreeSet<Need>,
}

impl<'a> Walk<'a> {
    fn need(&mut self, need: Need) {
        self.needs.insert(need);
    }

    fn query(&mut self, query: &'a Query, bound: &Bound<'a>, rows: Rows) {
        for branch in &query.branches {
            let mut bound = bound.clone();
            branch.iter().for_each(|clause| self.clause(clause, &mut bound, rows));
        }
    }

    fn clause(&mut self, clause: &'a Clause, bound: &mut Bound<'a>, rows: Rows) {
        match clause {
            Clause::Match(matched) => self.matched(matched, bound),
            Clause::Unwind { list, name } => {
                self.expr(list, bound);
                bound.remove(name.as_str());
            }
            Clause::With(projection) => *bound = self.projection(projection, bound),
            Clause::Return(projection) => {
                self.projection(projection, bound);
                if rows == Rows::Result {
                    self.result(projection);
                }
            }
            Clause::Call(call) => self.call(call, bound),
            Clause::Finish => {}
            // N8: no read.
            Clause::LoadCsv { .. }
            | Clause::Create(_)
            | Clause::Merge { .. }
            | Clause::Change { .. }
            | Clause::Delete { .. }
            | Clause::Foreach { .. } => self.need(Need::Anything),
        }
    }

    fn call(&mut self, call: &'a Call, bound: &Bound<'a>) {
        let inner = match &call.scope {
            Scope::All => bound.clone(),
            Scope::Names(names) => {
                bound.iter().filter(|name| names.iter().any(|other| other == *name)).copied().collect()
            }
        };
        self.query(&call.query, &inner, Rows::Inside);
    }

    /// The nodes of `bound` that have a name behind the projection.
    ///
    /// Behind an aggregation or `DISTINCT`, `ORDER BY` and `WHERE` see these alone: in
    /// `MATCH (a:A) WITH count(*) AS c WHERE COUNT { (a) } > 1`, the second `a` is any node.
    fn projection(&mut self, projection: &'a Projection, bound: &Bound<'a>) -> Bound<'a> {
        projection.items.iter().for_each(|item| self.expr(&item.value, bound));
        let passed = passed_on(projection, bound);
        projection.rest.iter().for_each(|expr| self.expr(expr, &passed));
        passed
    }

    /// The elements that the client gets.
    fn result(&mut self, projection: &'a Projection) {
        for item in &projection.items {
            let kinds = self.names.kinds(&item.value.carried);
            self.whole(&kinds);
        }
        if projection.is_all {
            let kinds = self.names.all();
            self.whole(&kinds);
        }
    }

    /// N3, N7: an element with everything that it shows.
    fn whole(&mut self, kinds: &Kinds) {
        if kinds.node {
            self.need(Need::LabelsOfNodes);
        }
        self.any_key(kinds);
    }

    /// N7.
    fn any_key(&mut self, kinds: &Kinds) {
        if kinds.node {
            self.need(Need::NodeKeys);
        }
        if kinds.relationship {
            self.need(Need::RelationshipKeys);
        }
    }

    /// N6.
    fn key(&mut self, kinds: &Kinds, key: &str) {
        if kinds.node {
            self.need(Need::NodeKey(key.to_owned()));
        }
        if kinds.relationship {
            self.need(Need::RelationshipKey(key.to_owned()));
        }
    }

    fn expr(&mut self, expr: &'a Expr, bound: &Bound<'a>) {
        for read in &expr.reads {
            match read {
                Read::Key(of, key) => self.key(&self.names.kinds(of), key),
                Read::AnyKey(of) => self.any_key(&self.names.kinds(of)),
                Read::Labels(labels) => self.labels(labels, bound),
                Read::AnyLabel => self.need(Need::LabelsOfNodes),
            }
        }
        expr.patterns.iter().for_each(|matched| self.matched(matched, &mut bound.clone()));
        expr.queries.iter().for_each(|query| self.query(query, bound, Rows::Inside));
    }

    /// N2, N3: a label is read of nodes that are found otherwise.
    fn labels(&mut self, labels: &'a LabelExpr, bound: &Bound<'a>) {
        match labels {
            LabelExpr::Name(name) => self.need(Need::Label(name.clone())),
            LabelExpr::Any => self.need(Need::LabelsOfNodes),
            LabelExpr::Dynamic(names) => {
                self.expr(names, bound);
                self.need(Need::LabelsOfNodes);
            }
            LabelExpr::Not(inside) => self.labels(inside, bound),
            LabelExpr::And(parts) | LabelExpr::Or(parts) => {
                parts.iter().for_each(|part| self.labels(part, bound));
            }
        }
    }

    /// The paths in their order, those of `shortestPath` last: other paths bind their ends.
    fn matched(&mut self, matched: &'a Match, bound: &mut Bound<'a>) {
        for is_shortest in [false, true] {
            for path in matched.paths.iter().filter(|path| path.is_shortest == is_shortest) {
                self.path(path, bound);
            }
        }
        matched.condition.iter().for_each(|condition| self.expr(condition, bound));
    }

    /// N1, and the needs of the path's parts.
    fn path(&mut self, path: &'a Path, bound: &mut Bound<'a>) {
        if !is_found_otherwise(path, bound) {
            self.need(Need::Nodes);
        }
        self.elements(path, bound);
        let nodes = path.elements.iter().filter_map(|element| match element {
            Element::Node(node) => node.name.as_deref(),
            _ => None,
        });
        bound.extend(nodes);
    }

    fn elements(&mut self, path: &'a Path, bound: &Bound<'a>) {
        for element in &path.elements {
            match element {
                Element::Node(node) => {
                    node.labels.iter().for_each(|labels| self.labels(labels, bound));
                    self.filter(&node.filter, &Carrier::Node, bound);
                }
                Element::Relationship(found) => self.relationship(found, bound),
                Element::Group { path, condition, .. } => {
                    self.elements(path, bound);
                    condition.iter().for_each(|condition| self.expr(condition, bound));
                }
            }
        }
    }

    /// N4, N5.
    fn relationship(&mut self, found: &'a Relationship, bound: &Bound<'a>) {
        match &found.types {
            Some(types) => self.types(types, bound),
            None => self.need(Need::Relationships),
        }
        self.filter(&found.filter, &Carrier::Relationship, bound);
    }

    fn types(&mut self, types: &'a LabelExpr, bound: &Bound<'a>) {
        match types {
            LabelExpr::Name(name) => self.need(Need::Type(name.clone())),
            LabelExpr::And(parts) | LabelExpr::Or(parts) => {
                parts.iter().for_each(|part| self.types(part, bound));
            }
            LabelExpr::Any | LabelExpr::Not(_) => self.need(Need::Relationships),
            LabelExpr::Dynamic(names) => {
                self.expr(names, bound);
                self.need(Need::Relationships);
            }
        }
    }

    fn filter(&mut self, filter: &'a Filter, of: &Carrier, bound: &Bound<'a>) {
        let kinds = self.names.kinds(std::slice::from_ref(of));
        filter.keys.iter().for_each(|key| self.key(&kinds, key));
        if filter.map.is_some() {
            self.any_key(&kinds);
        }
        filter.values.iter().for_each(|value| self.expr(value, bound));
    }
}

/// The nodes of `bound` that have a name behind the `WITH`.
fn passed_on<'a>(projection: &'a Projection, bound: &Bound<'a>) -> Bound<'a> {
    let mut passed = if projection.is_all { bound.clone() } else { Bound::new() };
    for item in &projection.items {
        let Some(alias) = item.alias.as_deref() else { continue };
        match &item.value.shape {
            Shape::Variable(name) if bound.contains(name.as_str()) => passed.insert(alias),
            _ => passed.remove(alias),
        };
    }
    passed
}

/// Whether a new node can match the path only with a new label, over a new relationship, or not at all.
///
/// Relationships that may be absent join their ends to one node, so a match of the whole path may be one node: then
/// it has the labels of all nodes of the path. Otherwise every node of a match has a relationship of the path.
fn is_found_otherwise(path: &Path, bound: &Bound<'_>) -> bool {
    let mut nodes = path.elements.iter().filter_map(|element| match element {
        Element::Node(node) => Some(node),
        _ => None,
    });
    if path.is_shortest {
        // `shortestPath` fails if both ends are the same node, so its ends count apart.
        return nodes.all(|node| is_anchored(node, bound));
    }
    nodes.any(|node| is_anchored(node, bound)) || has_relationship(path)
}

/// Whether the node has a label, or is a node that was found before.
fn is_anchored(node: &Node, bound: &Bound<'_>) -> bool {
    let is_bound = node.name.as_deref().is_some_and(|name| bound.contains(name));
    is_bound || node.labels.as_ref().is_some_and(|labels| !may_match_unlabelled(labels))
}

/// Whether every match of the path has a relationship.
fn has_relationship(path: &Path) -> bool {
    path.elements.iter().any(|element| match element {
        Element::Node(_) => false,
        Element::Relationship(found) => !found.may_be_empty,
        Element::Group { path, may_be_empty, .. } => !may_be_empty && has_relationship(path),
    })
}

/// Whether a node with none of the expression's labels may match it. A `!` counts as one that may.
fn may_match_unlabelled(labels: &LabelExpr) -> bool {
    match labels {
        LabelExpr::Name(_) => false,
        LabelExpr::Any | LabelExpr::Dynamic(_) | LabelExpr::Not(_) => true,
        LabelExpr::And(parts) => parts.iter().all(may_match_unlabelled),
        LabelExpr::Or(parts) => parts.iter().any(may_match_unlabelled),
    }
}
